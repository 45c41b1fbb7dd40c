"""FBALF, table 3: MAE and RMSE of six federated rating predictors on three data sets, with loss/win, Wilcoxon's p and F-ranks.

Beyond the paper: FedRec and FedRec++ each in both styles (the paper's figures are those of a stochastic FedRec and a batch FedRec++),
FBALF by plain gradient steps, centralised references, MovieLens-100K, and the sets without users and items with fewer than 10 ratings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..evaluate.loss_win import Against, Table, against
from ..evaluate.ratings import ERRORS
from ..report.figures import bars
from .cell import Look
from .rating_study import RatingStudy, Source, System, studies
from .result import Context, Experiment, Found, Row, row

FBALF = System("fbalf-bayes")
FEDREC_B, FEDREC_S = (System("fedrec", f"fedrec, {style}", (("style", style),)) for style in ("batch", "stochastic"))
FEDREC_PP_B, FEDREC_PP_S = (
    System("fedrec++", f"fedrec++, {style}", (("style", style), ("pads", False))) for style in ("batch", "stochastic")
)
FEDERATED = (
    System("fedmf"),
    FEDREC_B,
    FEDREC_S,
    System("metamf"),
    FEDREC_PP_B,
    FEDREC_PP_S,
    System("rfrec"),
    System("rfrecf"),
    FBALF,
    System("fbalf"),
)
CENTRAL = (System("pmf"), System("biased-mf"), System("svd++"))
SOME = (FEDREC_B, FBALF, System("fbalf"), System("biased-mf"))  # enough to see what the filter does
# The paper's columns. Its FedRec has the figures of the stochastic style, its FedRec++ those of the batch style (research/peers.md 2.5).
SIX = (System("fedmf"), FEDREC_S, System("metamf"), FEDREC_PP_B, System("rfrec"), FBALF)
PRINTED = {
    "ml-1m": {"mae": (0.6981, 0.6867, 0.6905, 0.7096, 0.6893, 0.6639), "rmse": (0.8919, 0.8753, 0.8769, 0.9105, 0.8728, 0.8442)},
    "yahoo-r3": {
        "mae": (0.9683, 0.9394, 0.9680, 0.9062, 1.0314, 0.8817),
        "rmse": (1.2387, 1.2244, 1.2273, 1.1794, 1.2751, 1.1607),
    },
    "hetrec-ml": {
        "mae": (0.5844, 0.5906, 0.5869, 0.6155, 0.7184, 0.5713),
        "rmse": (0.7762, 0.7830, 0.7772, 0.8149, 0.9495, 0.7523),
    },
}
F_RANKS = (4.0000, 3.1667, 3.6667, 4.3333, 4.8333, 1.0000)
PAPER = {
    (data, str(system), metric): value
    for data, metrics in PRINTED.items()
    for metric, values in metrics.items()
    for system, value in zip(SIX, values, strict=True)
}
SOURCES = (
    Source("ml-100k"),
    Source("hetrec-ml"),
    Source("yahoo-r3"),
    Source("ml-1m"),
    Source("ml-100k", filtered=True),
    Source("ml-1m", filtered=True),
)
QUICK = (Source("ml-100k"),)
CELLS = "cells of data set and error"


def run(context: Context) -> Found:
    """Every system on every data set, then the statistics over all that were there."""
    found, tested = Found(), dict[str, Mapping[System, list[Look]]]()
    for study in studies(context, SOURCES, QUICK, found):
        looks = study.tested(SOME if study.filtered else (*FEDERATED, *CENTRAL))
        tested[study.name] = looks
        found.add(_one(study, looks))
    paper = [name for name in PRINTED if name in tested]
    if paper:
        found.add(_statistics({name: tested[name] for name in paper}))
    return found


def _one(study: RatingStudy, looks: Mapping[System, list[Look]]) -> Found:
    rows = [one for system, own in looks.items() for one in study.rows(system, own, PAPER)]
    notes = [_lead(study, looks), *_partial(study)]
    return Found(
        rows=rows,
        notes=notes,
        figures={f"rmse-{study.name.partition(',')[0]}{'-10' if ',' in study.name else ''}": _figure(study, rows)},
    )


def _partial(study: RatingStudy) -> list[str]:
    if study.name != "hetrec-ml":
        return []
    return ["hetrec-ml: the rows at hand are 20.1 % of the paper's D3, so its figures are not comparable with the paper's."]


def _lead(study: RatingStudy, looks: Mapping[System, list[Look]]) -> str:
    """FBALF's lead over the best of the others, by RMSE, in every fold."""
    rmse = {system: [look.metrics["rmse"] for look in own] for system, own in looks.items() if own}
    others = [system for system in rmse if system != FBALF and system in FEDERATED]
    if FBALF not in rmse or not others:
        return f"{study.name}: fbalf-bayes diverged, or there is nothing to compare it with."
    best = min(others, key=lambda system: np.mean(rmse[system]))
    difference = np.array(rmse[FBALF]) - np.array(rmse[best])
    central = {str(system): np.mean(rmse[system]) for system in CENTRAL if system in rmse}
    said = ", ".join(f"{name} {value:.4f}" for name, value in central.items())
    return (
        f"{study.name}, RMSE: fbalf-bayes {np.mean(rmse[FBALF]):.4f}; the best other federated system is {best} with "
        f"{np.mean(rmse[best]):.4f} (fbalf-bayes lower in {int((difference < 0).sum())} of {len(difference)} folds, "
        f"by {-difference.mean():.4f} on average). "
        f"Central: {said}."
    )


def _statistics(tested: Mapping[str, Mapping[System, list[Look]]]) -> Found:
    """The last three rows of table 3, twice: over the paper's six systems, and over all federated ones."""
    found = Found()
    for label, systems in (
        (f"the paper's six systems, {CELLS}", tuple(SIX)),
        (f"all federated systems, {CELLS}", FEDERATED),
    ):
        there = [system for system in systems if all(looks[system] for looks in tested.values())]
        if FBALF in there and len(there) > 1:
            found.rows.extend(_statistic_rows(label, _against(there, tested), tuple(tested), paper=systems is not FEDERATED))
    return found


def _against(systems: Sequence[System], tested: Mapping[str, Mapping[System, list[Look]]]) -> Table:
    errors = {
        str(system): [
            float(np.mean([look.metrics[metric] for look in looks[system]])) for looks in tested.values() for metric in ERRORS
        ]
        for system in systems
    }
    return against(str(FBALF), errors)


def _statistic_rows(label: str, table: Table, names: Sequence[str], *, paper: bool) -> list[Row]:
    """A row for each system and statistic."""
    ranks = {str(system): rank for system, rank in zip(SIX, F_RANKS, strict=True)} if paper else {}
    said = f"means over folds of {', '.join(ERRORS)} on {', '.join(names)}; Wilcoxon exact; Holm over the systems compared with"
    rows = []
    for one in (*table.rows, Against(str(FBALF), 0, 0, float("nan"), float("nan"), float("nan"))):
        of: dict[str, tuple[float | None, float | None]] = {"F-rank": (ranks.get(one.other), table.ranks[one.other])}
        if one.other != str(FBALF):
            printed = paper and one.other in ranks
            of |= {
                "losses": (0.0 if printed else None, float(one.losses)),
                "wins": (6.0 if printed else None, float(one.wins)),
                "p (less)": (0.015625 if printed else None, one.p_less),
                "p (two-sided)": (None, one.p_two_sided),
                "p (Holm)": (None, one.holm),
            }
        rows += [
            row(label, one.other, name, paper=printed, obtained=ours, protocol=said, reading="")
            for name, (printed, ours) in of.items()
        ]
    return rows


def _figure(study: RatingStudy, rows: Sequence[Row]) -> str:
    drawn = [one for one in rows if one["metric"] == "rmse" and one["obtained"] is not None]
    ours = {"RMSE": [one["obtained"] for one in drawn]}
    paper = {"RMSE": [float("nan") if one["paper"] is None else one["paper"] for one in drawn]}
    title = f"Table 3: {study.name}"
    return bars([one["system"] for one in drawn], ours, x_label="RMSE", y_label="", title=title, reference=paper)


EXPERIMENTS = {"fbalf-table3": Experiment("accuracy of federated rating prediction (FBALF, table 3)", PAPER, run)}
