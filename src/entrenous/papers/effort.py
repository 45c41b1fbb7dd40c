"""`Effort`: how much is trained for Cali3F's tables and figures, and a quick excerpt of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True, kw_only=True)
class Budget:
    """How much is trained on one data set.

    protocol: how rows are held out. drawn: candidates of the further sampled ranking (section IV-B has 100), 0 = none.
    seeds: of tables 2 and 3. curve_seeds: of the curves over rounds and over clusters.
    horizon: rounds of a curve. every: rounds between its looks at validation.
    beyond: systems of table 2 that the paper does not have.
    """

    protocol: str
    drawn: int = 100
    seeds: int = 1
    curve_seeds: int = 1
    horizon: int
    every: int = 1
    beyond: tuple[str, ...] = ("popular",)

    @property
    def looks(self) -> tuple[int, ...]:
        """After which rounds a curve is looked at; round 1 too, and the last one."""
        return tuple(sorted({1, *range(self.every, self.horizon + 1, self.every), self.horizon}))


@final
@dataclass(frozen=True, kw_only=True)
class Effort:
    """What is trained for which data set. quick: whether it is an excerpt, whose trainings end at a budget's horizon.

    budgets: by data set, the quickest first. other: for data that the paper does not have.
    clusters: P of figures 4 and 5. epochs: what centralised systems are cut to, 0 = not at all.
    """

    quick: bool
    budgets: Mapping[str, Budget]
    other: Budget
    clusters: tuple[int, ...]
    epochs: int = 0

    def budget(self, data: str) -> Budget:
        """The budget of a data set."""
        return self.budgets.get(data, self.other)


FEDERATED = ("fedfast-neumf", "ditto-neumf", "reptile-neumf")
FULL = Effort(
    quick=False,
    budgets={
        "ml-100k": Budget(protocol="loo-99", seeds=5, curve_seeds=1, horizon=150, every=3, beyond=("popular", *FEDERATED)),
        "ml-1m": Budget(protocol="ncf-99", seeds=1, horizon=120, every=5),
        "pinterest-20": Budget(protocol="ncf-99", horizon=60, every=10),
    },
    other=Budget(protocol="loo-99", horizon=100),
    clusters=(5, 10, 20, 30, 50, 100),
)
QUICK = Effort(
    quick=True,
    budgets={"ml-100k": Budget(protocol="loo-99", seeds=2, horizon=20)},
    other=Budget(protocol="loo-99", horizon=20),
    clusters=(5, 20, 50),
    epochs=10,
)
