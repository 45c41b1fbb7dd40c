"""What PEPPER's experiments are about: splits, systems, and how far trainings go."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..data.interactions import Interactions
from ..data.load import load

LENGTHS = (5, 10, 20)
KEPT = tuple(f"{metric}@{n}" for metric in ("hr", "ndcg", "f1_user") for n in LENGTHS)  # of every user, of test cells
CENTRAL = ("ials", "popular")


class Source(NamedTuple):
    """Where the rows come from, and how they are held out. least: rows that a user and an item must have."""

    data: str
    protocol: str = "pepper-given"
    least: int = 1

    def __str__(self) -> str:
        return f"{self.data}, {self.protocol}" + (f", {self.least} or more rows" if self.least > 1 else "")

    @property
    def slug(self) -> str:
        """The same for the name of a file."""
        return str(self).replace(", ", "-").replace(" ", "-")

    def read(self) -> Interactions:
        """Raises InputError if the data set is absent."""
        return load(self.data, min_rows=self.least)


class System(NamedTuple):
    """What is trained: an algorithm with the settings chosen for it and, in their place, those of `more`, over a network.

    own_rounds: whether the number of rounds is chosen for it alone; else it has as many as the algorithm with the chosen settings.
    """

    algorithm: str
    more: tuple[tuple[str, Any], ...] = ()
    network: tuple[tuple[str, Any], ...] = ()
    own_rounds: bool = False

    def __str__(self) -> str:
        return ", ".join([self.algorithm, *(f"{name} {value}" for name, value in (*self.more, *self.network))])

    @property
    def base(self) -> System:
        """With the chosen settings, every message delivered at once."""
        return System(self.algorithm)

    def over(self, **network: Any) -> System:
        """The same over another network."""
        return self._replace(network=tuple(network.items()))


class Reach(NamedTuple):
    """How far trainings go. seeds: how many. gossip, federated: (rounds of a curve, rounds between its looks)."""

    seeds: int
    gossip: tuple[int, int]
    federated: tuple[int, int]


FULL = Reach(seeds=3, gossip=(600, 20), federated=(150, 5))
SHORT = Reach(
    seeds=1, gossip=(300, 20), federated=(100, 5)
)  # of places to go: up to 38,333 on every node, and few rounds are enough
QUICK = Reach(seeds=2, gossip=(40, 20), federated=(20, 10))


def reach_of(source: Source, quick: bool) -> Reach:
    """How far the trainings on a split go."""
    return QUICK if quick else FULL if source.data.startswith("ml-100k") else SHORT
