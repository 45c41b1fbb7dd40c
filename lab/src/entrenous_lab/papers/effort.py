"""Which rows an experiment is about (`RowSource`), how much is trained (`Budget`, `Effort`) and
which settings are tried (`Grid`).
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final

from entrenous.data.interactions import Interactions
from entrenous.data.load import load

from .named import Place
from .values import Settings, stored, tuples, worded


class RowSource(NamedTuple):
    """Where rows come from. least: rows that a user and an item must have. label: what tables call
    it, "" = data and protocol. folds: of a cross-validation, how many are opened, 0 = all.
    """

    data: str
    protocol: str = "pepper-given"
    least: int = 1
    label: str = ""
    folds: int = 0

    def __str__(self) -> str:
        return self.label or f"{self.data}, {self.protocol}" + (
            f", {self.least} or more rows" if self.least > 1 else ""
        )

    @property
    def slug(self) -> str:
        """The same for the name of a file."""
        return str(self).replace(", ", "-").replace(" ", "-")

    def read(self) -> Interactions:
        """The rows. Raises InputError if the data set is absent."""
        return load(self.data, min_rows=self.least)


def ratings(data: str, least: int = 1, folds: int = 0) -> RowSource:
    """Ratings under five-fold cross-validation, without users and items that have fewer than
    `least`. folds: how many of the five are opened, 0 = all.

    >>> str(ratings("ml-1m", 10))
    'ml-1m, 10 or more ratings'
    """
    label = f"{data}, {least} or more ratings" if least > 1 else data
    return RowSource(data, "kfold-5", least, label, folds)


# ---- how much is trained -------------------------------------------------------------------------


@final
@dataclass(frozen=True, kw_only=True)
class Budget:
    """How much is trained on one data set.

    protocol: how rows are held out, "" = as the source of the rows says. drawn: candidates of a
    further sampled ranking, 0 = none. seeds: of tables. curve_seeds: of curves over rounds. folds:
    of a cross-validation that takes the place of seeds, 0 = none. horizon: rounds of a curve with a
    server. every: rounds between its evaluations on validation rows. first: whether round 1 is
    evaluated too. usual: how many times as long as its algorithm says itself a curve is at most, 0
    = without that limit. gossip: (horizon, every) without a server. beyond: systems of table II
    that the paper does not have.
    """

    protocol: str = ""
    drawn: int = 0
    seeds: int = 1
    curve_seeds: int = 1
    folds: int = 0
    horizon: int = 1
    every: int = 1
    first: bool = True
    usual: int = 0
    gossip: tuple[int, int] = (1, 1)
    beyond: tuple[str, ...] = ("popular",)

    @property
    def looks(self) -> tuple[int, ...]:
        """After which rounds a curve with a server is evaluated; always after the last one."""
        return self.looks_within(0)

    def looks_within(self, most: int) -> tuple[int, ...]:
        """The same of a curve that ends after so many rounds, 0 = at the horizon.

        >>> Budget(horizon=100, every=40, first=False).looks_within(50), Budget(horizon=100,
        ...     every=40).looks_within(0)
        ((40, 50), (1, 40, 80, 100))
        """
        end = min(most or self.horizon, self.horizon)
        return tuple(
            sorted({*([1] if self.first else []), *range(self.every, end + 1, self.every), end})
        )

    @property
    def gossip_looks(self) -> tuple[int, ...]:
        """After which rounds a curve without a server is evaluated."""
        horizon, every = self.gossip
        return tuple(range(every, horizon + 1, every))


@final
@dataclass(frozen=True, kw_only=True)
class Effort:
    """What of Cali3F is trained for which data set. quick: whether it is an excerpt, whose
    trainings end at a budget's horizon.

    budgets: by data set, the quickest first. other: for data that the paper does not have.
    clusters: P of figures 4 and 5. epochs: what centralised systems are cut to, 0 = not at all.
    place: where all of it stands in `trained/budgets.toml`; () of one that is made elsewhere.
    """

    place: tuple[str, ...] = ()
    quick: bool
    budgets: Mapping[str, Budget]
    other: Budget
    clusters: tuple[int, ...]
    epochs: int = 0

    def budget(self, data: str) -> Budget:
        """The budget of a data set."""
        return self.budgets.get(data, self.other)

    def places(self, data: str) -> set[Place]:
        """What of `trained/` decides how much is trained on a data set."""
        names = ("quick", "clusters", "epochs")
        budget = ("budgets", data) if data in self.budgets else ("other",)
        return (
            {(*self.place, *inside) for inside in (*((name,) for name in names), budget)}
            if self.place
            else set()
        )


def _budget(known: Mapping[str, Any]) -> Budget:
    return Budget(**tuples(known))


def _effort(name: str, paper: str = "cali3f") -> Effort:
    known = tuples(stored("trained", "budgets")[paper][name])
    budgets = {data: _budget(budget) for data, budget in known.pop("budgets").items()}
    return Effort(
        place=("trained", "budgets", paper, name),
        budgets=budgets,
        other=_budget(known.pop("other")),
        **known,
    )


FULL, QUICK = _effort("full"), _effort("quick")
ANCHORS = {name == "quick": _effort(name, "anchors") for name in ("full", "quick")}
DEFAULTS = {name == "quick": _effort(name, "defaults") for name in ("full", "quick")}
GRADIENTS = {name == "quick": _effort(name, "cali3f-printed") for name in ("full", "quick")}
TOGETHER = {name == "quick": _effort(name, "side-by-side") for name in ("full", "quick")}
PEPPER = {name: _budget(known) for name, known in stored("trained", "budgets")["pepper"].items()}


def pepper_place(data: str, quick: bool) -> Place:
    """Where it stands how much is trained of PEPPER's systems on a data set."""
    kinds = {"ml-100k": "movielens", "planted": "planted"}
    kind = (
        "quick"
        if quick
        else next((kind for name, kind in kinds.items() if data.startswith(name)), "places")
    )
    return "trained", "budgets", "pepper", kind


# ---- what FPL tries ------------------------------------------------------------------------------

PRINTED, RUN = "printed", "run"  # the two readings of rounds per epoch (FPL.rounds_per_epoch)
CONFIGURATIONS = ("sfpl", "sfpl+", "pfpl", "pfpl+")  # section 5.2
FCF = ("fcf", "fcf-huawei")  # as published, and as the paper compared with


@final
@dataclass(frozen=True, kw_only=True)
class Grid:
    """What is tried, all of it on validation rows. quick: whether it is an excerpt.

    learning_rates, factors, epochs: of BPR-MF; FPL and FCF take over the learning rate and factors
    that it chose. pi, epochs: of FPL where an epoch is X+ triples; run_pi, run_epochs: of FPL+
    where an epoch is T times as many ("as run"). fcf_rounds: after which FCF is looked at.
    neighbours: k of both kNNs. vae: (hidden, latent, epochs) of each topology."""

    quick: bool
    neighbours: tuple[int, ...]
    learning_rates: tuple[float, ...]
    factors: tuple[int, ...]
    epochs: tuple[int, ...]
    pi: tuple[float, ...]
    run_pi: tuple[float, ...]
    run_epochs: tuple[int, ...]
    fcf_rounds: tuple[int, ...]
    vae: tuple[tuple[int, int, int], ...]

    def pi_of(self, reading: str) -> tuple[float, ...]:
        """The values of pi tried under a reading of rounds per epoch."""
        return self.run_pi if reading == RUN else self.pi

    def epochs_of(self, reading: str) -> tuple[int, ...]:
        """The numbers of epochs tried under a reading of rounds per epoch."""
        return self.run_epochs if reading == RUN else self.epochs

    def central(self) -> dict[str, list[Settings]]:
        """The settings of each centralised system that has any. Of VAE there are none without
        torch.

        BPR-MF draws a user, then one of the user's rows, as FPL and Elliot do. Item-kNN's sum is
        tried both plain and divided by the similarities (as Elliot does)."""
        bpr = [
            {"learning_rate": rate, "factors": factors, "epochs": epochs, "sample": "user"}
            for rate in self.learning_rates
            for factors in self.factors
            for epochs in self.epochs
        ]
        vae = [
            {"hidden": hidden, "latent": latent, "epochs": epochs}
            for hidden, latent, epochs in self.vae
        ]
        return {
            "bpr-mf": bpr,
            "user-knn": [{"k": k} for k in self.neighbours],
            "item-knn": [
                {"k": k, "normalise": divided} for divided in (False, True) for k in self.neighbours
            ],
            "vae": vae if importlib.util.find_spec("torch") else [],
        }

    def sentence(self) -> str:
        """What was tried, in words."""
        tried = self.central()["vae"]
        topologies = ", ".join(
            "{hidden}-{latent}-{hidden} for {epochs} epochs".format(**settings)
            for settings in tried
        )
        of = {
            name: shown(values)
            for name, values in vars(self).items()
            if name not in ("quick", "vae")
        }
        return worded("fpl", "tried", vae=topologies or "left out", **of)


def shown(values: Sequence[float]) -> str:
    """A set of numbers, in short.

    >>> shown((0.005, 0.05)), shown((10, 20, 30, 40))
    ('{0.005, 0.05}', '{10, 20, ..., 40}')
    """
    some = [f"{value:g}" for value in values]
    return "{" + ", ".join(some if len(some) < 4 else [*some[:2], "...", some[-1]]) + "}"


# FPL's grids: {whether it is an excerpt: the grid}
GRIDS = {
    name == "quick": Grid(**tuples(stored("trained", "grids")[name])) for name in ("full", "quick")
}
