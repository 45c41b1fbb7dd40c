"""A federation of two nodes over HTTPS whose second round can be told apart."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

from entrenous_network.links import https
from entrenous_network.operate.founding import Place
from federation_links import federation, ratings
from over_https import over_https

ROUNDS = 3


def trained(folder: Path, begin: Callable[[], None], end: Callable[[], None]) -> None:
    """Runs three rounds; calls `begin` when the first is done, and `end` when the second is."""
    made = federation(folder / "f", 2, ROUNDS, "fpl", ratings(6), {"factors": 4}, place=Place())

    def progress(done: int, *_: object) -> None:
        if done == 1:
            begin()
        if done == 2:
            end()

    # Housekeeping comes once a second, in this round or in another one.
    with patch.object(https, "SWEEP", 3600.0):
        over_https(made, progress)
