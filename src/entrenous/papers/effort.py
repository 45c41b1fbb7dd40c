"""`Budget` and `Effort`: how much is trained for the tables and figures of Cali3F, PEPPER and FBALF, and a quick excerpt of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

from .values import stored, tuples


@final
@dataclass(frozen=True, kw_only=True)
class Budget:
    """How much is trained on one data set.

    protocol: how rows are held out, "" = as the source of the rows says. drawn: candidates of a further sampled ranking, 0 = none.
    seeds: of tables. curve_seeds: of curves over rounds. folds: of a cross-validation that takes the place of seeds, 0 = none.
    horizon: rounds of a curve with a server. every: rounds between its evaluations on validation rows. first: whether round 1 is
    evaluated too. gossip: (horizon, every) without a server. beyond: systems of table II that the paper does not have.
    """

    protocol: str = ""
    drawn: int = 0
    seeds: int = 1
    curve_seeds: int = 1
    folds: int = 0
    horizon: int = 1
    every: int = 1
    first: bool = True
    gossip: tuple[int, int] = (1, 1)
    beyond: tuple[str, ...] = ("popular",)

    @property
    def looks(self) -> tuple[int, ...]:
        """After which rounds a curve with a server is evaluated; always after the last one."""
        return tuple(sorted({*([1] if self.first else []), *range(self.every, self.horizon + 1, self.every), self.horizon}))

    @property
    def gossip_looks(self) -> tuple[int, ...]:
        """After which rounds a curve without a server is evaluated."""
        horizon, every = self.gossip
        return tuple(range(every, horizon + 1, every))


@final
@dataclass(frozen=True, kw_only=True)
class Effort:
    """What of Cali3F is trained for which data set. quick: whether it is an excerpt, whose trainings end at a budget's horizon.

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


def _budget(known: Mapping[str, Any]) -> Budget:
    return Budget(**tuples(known))


def _effort(name: str) -> Effort:
    known = tuples(stored("trained", "budgets")["cali3f"][name])
    budgets = {data: _budget(budget) for data, budget in known.pop("budgets").items()}
    return Effort(budgets=budgets, other=_budget(known.pop("other")), **known)


FULL, QUICK = _effort("full"), _effort("quick")
PEPPER = {name: _budget(known) for name, known in stored("trained", "budgets")["pepper"].items()}


def pepper_budget(data: str, quick: bool) -> Budget:
    """How much is trained of PEPPER's systems on a data set."""
    return PEPPER["quick" if quick else "movielens" if data.startswith("ml-100k") else "places"]
