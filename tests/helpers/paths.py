"""Where the repository's folders are, and the shared data that not every machine has."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NoReturn

import pytest

HELPERS = Path(__file__).resolve().parent
ROOT = HELPERS.parents[1]
SOURCE = ROOT / "src" / "entrenous"
NETWORK = ROOT / "packages" / "entrenous-network" / "src" / "entrenous_network"
PYTHONPATH = os.pathsep.join(
    map(str, [SOURCE.parent, NETWORK.parent, ROOT, HELPERS])
)  # of processes that import helpers, or tests by their place
SHARED = Path(
    os.environ.get("ENTRENOUS_SHARED") or "no ENTRENOUS_SHARED"
)  # the one name of the real data sets; `make test` sets it


def real(*parts: str) -> Path:
    """A path in the shared data, that of a whole data set for one. What is not there is
    `absent`.
    """
    path = SHARED.joinpath(*parts)
    return path if path.exists() else absent(str(path))


def absent(what: str) -> NoReturn:
    """Skips a test of real data, and says what is missing; fails it where CI was promised the
    shared folder and there is none.
    """
    promised = os.environ.get("CI") == "true" and os.environ.get("ENTRENOUS_SHARED")
    if promised and not SHARED.is_dir():
        pytest.fail(
            f"ENTRENOUS_SHARED is {SHARED}, where there is nothing: the tests of real data"
            " cannot run"
        )
    pytest.skip(f"{what} is absent")
