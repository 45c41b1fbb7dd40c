"""FBALF, table 3: MAE and RMSE of six federated rating predictors on three data sets, with
loss/win, Wilcoxon's p and F-ranks.

Beyond the paper: FedRec and FedRec++ each in both styles (the paper's figures are those of a
stochastic FedRec and a batch FedRec++), FBALF in the paper's own form, which takes plain gradient
steps, centralised references, MovieLens-100K, and the sets without users and items with fewer than
10 ratings.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from entrenous.evaluation.ratings import ERRORS

from .effort import ratings
from .findings import bars_figure
from .loss_win import against
from .measures import each, mean
from .opened import rated
from .result import Row, row
from .study import System
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


FBALF = System("fbalf-bayes")  # the ensemble, a row that the paper does not have
FEDREC_B, FEDREC_S = (
    System("fedrec", f"fedrec, {style}", (("style", style),)) for style in ("batch", "stochastic")
)
FEDREC_PP_B, FEDREC_PP_S = (
    System("fedrec++", f"fedrec++, {style}", (("style", style), ("pads", False)))
    for style in ("batch", "stochastic")
)
FEDMF, METAMF, RFREC, RFRECF, PLAIN = map(
    System, ("fedmf-ratings", "metamf", "rfrec", "rfrecf", "fbalf")
)  # plain: the paper's own form, of which the claims and the statistics are
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
USER_MEAN = System("user-mean")
CENTRAL = (System("pmf"), System("biased-mf"), System("svd++"))
# The paper's columns. Its FedRec has the figures of the stochastic style, its FedRec++ those of the
# batch style.
SIX = (FEDMF, FEDREC_S, METAMF, FEDREC_PP_B, RFREC, PLAIN)
PAPER = beside_both(printed("fbalf", "table3"))
STATISTICS = printed("fbalf", "ranks", "against", "total")
ON = tuple(dict.fromkeys(data for data, _, _ in PAPER))  # the paper's data sets
SOURCES = tuple(map(ratings, ("ml-100k", "hetrec-ml", "yahoo-r3", "ml-1m")))
# The same as section 5.1.4 filters them. In Yahoo! R3 every user and item has 10 ratings.
# Of the largest set three folds are opened: each system trains for minutes there.
FILTERED = (ratings("ml-100k", 10), ratings("hetrec-ml", 10), ratings("ml-1m", 10, folds=3))
HETREC_ROWS = 855_598  # of the paper's D3
CELLS = "cells of data set and error"


def partial_note(trained: Trained) -> list[str]:
    """Whether the rows at hand are those of the paper."""
    share = len(trained.study.data) / HETREC_ROWS
    return [worded("fbalf", "partial", share)] if trained.name == "hetrec-ml" and share != 1 else []


def trivial_note(trained: Trained) -> list[str]:
    """States the errors that a rating predictor must beat on a data set."""
    looks = trained.looks[USER_MEAN]
    errors = listed({name: mean(looks, name) for name in ERRORS}, ".4f")
    return [worded("fbalf", "trivial", name=trained.name, said=errors)]


def lead(trained: Trained) -> list[str]:
    """FBALF's lead over the best of the other systems, by RMSE, in every fold.

    FBALF is the paper's own form; its ensemble here is none of the others.
    """
    rmse = {system: each(own, "rmse") for system, own in trained.looks.items() if own}
    others = [system for system in rmse if system not in (PLAIN, FBALF) and system in FEDERATED]
    if PLAIN not in rmse or not others:
        return [worded("fbalf", "no-lead", name=trained.name, own=PLAIN)]
    means = {system: float(np.mean(values)) for system, values in rmse.items()}
    best = min(others, key=lambda system: means[system])
    difference = np.array(rmse[PLAIN]) - np.array(rmse[best])
    lower = {
        "lower": int((difference < 0).sum()),
        "folds": len(difference),
        "by": -difference.mean(),
    }
    central = listed({system: means[system] for system in CENTRAL if system in means}, ".4f")
    both = {"own": PLAIN, "rmse": means[PLAIN], "best": best, "other": means[best]}
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


def statistics(rows: Sequence[Row]) -> list[Row]:
    """Returns the last three rows of table 3, twice: over the paper's six systems, and over all
    federated ones.

    Both are of the paper's own form of FBALF; in the second its ensemble is a competitor. They
    follow from the rows of the paper's data sets alone. Returns nothing without those rows.
    """
    errors: dict[str, dict[str, float]] = defaultdict(dict)
    for line in rows:
        if line["data"] in ON and line["metric"] in ERRORS and line["obtained"] is not None:
            cell = f"{line['data']}, {line['metric']}"
            errors[line["system"]][cell] = line["obtained"]
    cells = list(errors[str(PLAIN)])
    names = list(dict.fromkeys(cell.rpartition(", ")[0] for cell in cells))
    protocol = worded("fbalf", "statistics", errors=", ".join(ERRORS), names=", ".join(names))
    lines = list[Row]()
    for label, systems in (
        (f"the paper's six systems, {CELLS}", SIX),
        (f"all federated systems, {CELLS}", FEDERATED),
    ):
        complete = [str(system) for system in systems if set(errors[str(system)]) >= set(cells)]
        if cells and len(complete) > 1:
            over = {system: [errors[system][cell] for cell in cells] for system in complete}
            known = STATISTICS if systems is SIX else {}
            lines += [
                row(
                    label,
                    system,
                    name,
                    paper=known.get(("all", system, name)),
                    obtained=float(figure),
                    protocol=protocol,
                    reading="",
                )
                for (system, name), figure in against(str(PLAIN), over).items()
            ]
    return lines


def _figure(trained: Trained) -> dict[str, str]:
    least = trained.study.source.least
    file = f"rmse-{trained.name.partition(',')[0]}" + (f"-{least}" if least > 1 else "")
    return bars_figure(file, "rmse", "RMSE", "Table 3: {}")(trained)


EXPERIMENTS = {
    "fbalf-trivial": PaperTable(
        title="errors of a predictor that learns nothing of taste, the user's mean (in no paper)",
        data=rated(*SOURCES),
        systems=(USER_MEAN,),
        metrics=ERRORS,
        findings=(trivial_note,),
    ),
    "fbalf-table3": PaperTable(
        title="accuracy of federated rating prediction (FBALF, table 3)",
        data=rated(*SOURCES),
        systems=(*FEDERATED, *CENTRAL),
        metrics=ERRORS,
        printed=PAPER,
        findings=(lead, nested, partial_note),
        figures=_figure,
        across=statistics,
    ),
    "fbalf-filter": PaperTable(
        title=(
            "the same without users and items that have fewer than 10 ratings (FBALF, section"
            " 5.1.4)"
        ),
        data=rated(*FILTERED),
        systems=(*FEDERATED, *CENTRAL),
        metrics=ERRORS,
        findings=(lead, nested),
        figures=_figure,
    ),
}
