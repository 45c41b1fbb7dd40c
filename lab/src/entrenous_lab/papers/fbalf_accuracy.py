"""FBALF, table 3: MAE and RMSE of six federated rating predictors on three data sets, with
loss/win, Wilcoxon's p and F-ranks.

Beyond the paper: FedRec and FedRec++ each in both styles (the paper's figures are those of a
stochastic FedRec and a batch FedRec++), FBALF in the paper's own form, which takes plain gradient
steps, centralised references, MovieLens-100K, and the sets without users and items with fewer than
10 ratings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from entrenous.evaluate.loss_win import LossWinRow, LossWinTable, against
from entrenous.evaluate.ratings import ERRORS

from .effort import ratings
from .findings import bars_figure
from .measures import each, mean
from .opened import rated
from .result import Found, Row, row
from .study import Looks, Study, System
from .table import PaperTable, Trained
from .values import Printed, listed, printed, worded


def beside_both(values: Printed) -> dict[tuple[str, str, str], float]:
    """The paper's values of FBALF beside both of its forms here: `fbalf`, as printed, and the
    ensemble `fbalf-bayes`.
    """
    of_fbalf = {
        (data, metric): value for (data, name, metric), value in values.items() if name == "fbalf"
    }
    return {
        **values,
        **{(data, "fbalf-bayes", metric): value for (data, metric), value in of_fbalf.items()},
    }


FBALF = System(
    "fbalf-bayes"
)  # the ensemble, whose figures the statistics are of; the paper's own form is a row beside it
FEDREC_B, FEDREC_S = (
    System("fedrec", f"fedrec, {style}", (("style", style),)) for style in ("batch", "stochastic")
)
FEDREC_PP_B, FEDREC_PP_S = (
    System("fedrec++", f"fedrec++, {style}", (("style", style), ("pads", False)))
    for style in ("batch", "stochastic")
)
FEDMF, METAMF, RFREC, RFRECF, PLAIN = map(
    System, ("fedmf", "metamf", "rfrec", "rfrecf", "fbalf")
)  # plain: the paper's own form
FEDERATED = (
    FEDMF,
    FEDREC_B,
    FEDREC_S,
    METAMF,
    FEDREC_PP_B,
    FEDREC_PP_S,
    RFREC,
    RFRECF,
    FBALF,
    PLAIN,
)
CENTRAL = (System("pmf"), System("biased-mf"), System("svd++"))
SOME = (FEDREC_B, FBALF, PLAIN, System("biased-mf"))  # enough to see what the filter does
# The paper's columns. Its FedRec has the figures of the stochastic style, its FedRec++ those of the
# batch style.
SIX = (FEDMF, FEDREC_S, METAMF, FEDREC_PP_B, RFREC, FBALF)
PAPER, STATISTICS = (
    beside_both(printed("fbalf", *sections))
    for sections in (("table3",), ("ranks", "against", "total"))
)
ON = tuple(dict.fromkeys(data for data, _, _ in PAPER))  # the paper's data sets
SOURCES = (
    *map(ratings, ("ml-100k", "hetrec-ml", "yahoo-r3", "ml-1m")),
    ratings("ml-100k", 10),
    ratings("ml-1m", 10),
)
HETREC_ROWS = 855_598  # of the paper's D3
CELLS = "cells of data set and error"
TOTAL = "all of them"  # the systems that FBALF is compared with


def systems_of(study: Study) -> Sequence[System]:
    """Every system; a few where rare users and items are left out."""
    return SOME if study.source.least > 1 else (*FEDERATED, *CENTRAL)


def partial_note(trained: Trained) -> list[str]:
    """Whether the rows at hand are those of the paper."""
    share = len(trained.study.data) / HETREC_ROWS
    return [worded("fbalf", "partial", share)] if trained.name == "hetrec-ml" and share != 1 else []


def lead(trained: Trained) -> list[str]:
    """FBALF's lead over the best of the others, by RMSE, in every fold."""
    rmse = {system: each(own, "rmse") for system, own in trained.looks.items() if own}
    others = [system for system in rmse if system != FBALF and system in FEDERATED]
    if FBALF not in rmse or not others:
        return [worded("fbalf", "no-lead", name=trained.name, own=FBALF)]
    means = {system: float(np.mean(values)) for system, values in rmse.items()}
    best = min(others, key=lambda system: means[system])
    difference = np.array(rmse[FBALF]) - np.array(rmse[best])
    lower = {
        "lower": int((difference < 0).sum()),
        "folds": len(difference),
        "by": -difference.mean(),
    }
    central = listed({system: means[system] for system in CENTRAL if system in means}, ".4f")
    both = {"own": FBALF, "rmse": means[FBALF], "best": best, "other": means[best]}
    return [worded("fbalf", "lead", name=trained.name, central=central, **both, **lower)]


def nested(trained: Trained) -> list[str]:
    """What the one fold says whose test rows chose no settings."""
    first = {system: looks[0].metrics["rmse"] for system, looks in trained.looks.items() if looks}
    return [
        worded(
            "fbalf",
            "nested",
            name=trained.name,
            said=listed(dict(sorted(first.items(), key=lambda one: one[1])), ".4f"),
        )
    ]


def statistics(done: Sequence[Trained]) -> Found:
    """The last three rows of table 3, twice: over the paper's six systems, and over all federated
    ones.
    """
    found, tested = (
        Found(),
        {name: trained.looks for name in ON for trained in done if trained.name == name},
    )
    for label, systems in (
        (f"the paper's six systems, {CELLS}", SIX),
        (f"all federated systems, {CELLS}", FEDERATED),
    ):
        there = [system for system in systems if all(looks[system] for looks in tested.values())]
        if tested and FBALF in there and len(there) > 1:
            found.rows.extend(
                statistic_rows(label, loss_win(there, tested), tuple(tested), paper=systems is SIX)
            )
    return found


def loss_win(systems: Sequence[System], tested: Mapping[str, Looks]) -> LossWinTable:
    """FBALF against the others over the cells."""
    errors = {
        str(system): [mean(looks[system], metric) for looks in tested.values() for metric in ERRORS]
        for system in systems
    }
    return against(str(FBALF), errors)


def statistic_rows(
    label: str, table: LossWinTable, names: Sequence[str], *, paper: bool
) -> list[Row]:
    """A row for each system and statistic."""
    rows, said = [], worded("fbalf", "statistics", errors=", ".join(ERRORS), names=", ".join(names))
    for pair in (
        *table.rows,
        LossWinRow(str(FBALF), 0, 0, float("nan"), float("nan"), float("nan")),
    ):
        ours: dict[str, float] = {"F-rank": table.ranks[pair.other]}
        if pair.other != str(FBALF):
            ours |= {
                "losses": float(pair.losses),
                "wins": float(pair.wins),
                "p (less)": pair.p_less,
            }
            ours |= {"p (two-sided)": pair.p_two_sided, "p (Holm)": pair.holm}
        for name, value in ours.items():
            known = STATISTICS.get(("all", pair.other, name)) if paper else None
            rows.append(
                row(label, pair.other, name, paper=known, obtained=value, protocol=said, reading="")
            )
    whole = {
        "losses": sum(pair.losses for pair in table.rows),
        "wins": sum(pair.wins for pair in table.rows),
        "p (Friedman)": table.p,
    }
    for name, value in whole.items():
        known = STATISTICS.get(("all", TOTAL, name)) if paper else None
        rows.append(
            row(label, TOTAL, name, paper=known, obtained=float(value), protocol=said, reading="")
        )
    return rows


def _figure(trained: Trained) -> dict[str, str]:
    least = trained.study.source.least
    file = f"rmse-{trained.name.partition(',')[0]}" + (f"-{least}" if least > 1 else "")
    return bars_figure(file, "rmse", "RMSE", "Table 3: {}")(trained)


EXPERIMENTS = {
    "fbalf-table3": PaperTable(
        title="accuracy of federated rating prediction (FBALF, table 3)",
        data=rated(*SOURCES),
        systems=systems_of,
        metrics=ERRORS,
        printed=PAPER,
        findings=(lead, nested, partial_note),
        figures=_figure,
        after=statistics,
    )
}
