"""The engine `simulation`: workers that share the users of a simulation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, final

from entrenous.core.contract.declared import bound, is_federated
from entrenous.core.contract.protocols import Catalogue
from entrenous.core.errors import InputError
from entrenous.federation.crew import HiredCrew

from .engine import EngineOptions, crew
from .rounds import ShardedRounds
from .shards import ShardHand


@final
class RaySimulation:
    """The workers that --workers and --ray ask for. Raises InputError for impossible values."""

    def __init__(self, workers: int | None, ray: str | None, threads: int) -> None:
        self._asked = EngineOptions(workers, ray, threads)
        self._asked.check()

    @contextmanager
    def hired(
        self, algorithm: Any, catalogue: Catalogue, name: str, *, users: int, debug: bool = False
    ) -> Iterator[HiredCrew]:
        """Starts the workers; see `CrewOptions`."""
        refuse(algorithm, catalogue, name, debug=debug)
        self._asked.check_users(users)
        with crew(self._asked, ShardHand, users) as workers:
            yield partial(ShardedRounds, workers)


def refuse(algorithm: Any, catalogue: Catalogue, name: str, *, debug: bool = False) -> None:
    """Raises InputError for an algorithm that has no rounds to divide over workers."""
    if not is_federated(algorithm):
        raise InputError(
            "--workers",
            f"{name} has no rounds around a server",
            expected="a server-coordinated algorithm",
            fix="leave it out; --threads is for every algorithm",
        )
    if bound(algorithm.configured(catalogue), catalogue).cohort == 1:
        raise InputError(
            "--workers",
            f"a round of {name} is one device here",
            expected="rounds of many devices",
            fix="leave it out",
        )
    if debug:
        raise InputError(
            "--debug", "one device at a time, in one process", fix="leave --workers and --ray out"
        )
