"""Processes that share the devices of a simulation. Another package brings them, as the engine
`simulation` (core/registry/neighbours.py).
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Protocol

from ..core.contract.protocols import Catalogue, FederatedAlgorithm
from ..data.interactions import Interactions
from ..privacy.budget import PrivacyBudget
from ..privacy.protection import Protection
from .rounds import Training


class SharedRounds(Protocol):
    """The rounds of `Rounds` with devices in other processes, and the same result to the bit."""

    @property
    def algorithm(self) -> FederatedAlgorithm: ...
    @property
    def data(self) -> Interactions: ...
    @property
    def seed(self) -> int: ...
    @property
    def budget(self) -> PrivacyBudget | None: ...

    def start(self) -> Training: ...
    def advance(self, training: Training, until: int) -> Training: ...


class HiredCrew(Protocol):
    """Worker processes that are there; makes rounds whose devices they have. Arguments are those of
    `Rounds`."""

    def __call__(
        self,
        algorithm: FederatedAlgorithm,
        data: Interactions,
        *,
        seed: int,
        avoid: Interactions | None,
        protection: Protection | None,
        budget: PrivacyBudget | None,
    ) -> SharedRounds: ...


class CrewOptions(Protocol):
    """The options --workers, --ray and --threads, checked."""

    def hired(
        self, algorithm: Any, catalogue: Catalogue, name: str, *, users: int, debug: bool
    ) -> AbstractContextManager[HiredCrew]:
        """Starts workers, which end with the context. name: of the algorithm; users: of the
        smallest training.

        Raises InputError for an algorithm whose devices they cannot share, for more workers than
        users, and for workers that cannot be had.
        """
