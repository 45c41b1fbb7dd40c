"""Cali3F, figures 4 and 5: fairness over the number of clusters P, with and without a model for
each; rounds to the best NDCG@10 over P.

The paper's figures are drawings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from entrenous.evaluation.protocol import RANKING
from entrenous.evaluation.significance import paired_spread
from entrenous.report.figures import FigureFormat, lines

from .cali3f_rounds import on_curves
from .cell import CurvePoint
from .findings import SIGNIFICANT, still_rising, users_of
from .measures import CHANCE, FAIRNESS, STD, WORST, ConvergencePace, mean
from .opened import cali3f
from .result import Row
from .study import Study, System
from .table import PaperTable, Trained, Values, metric_rows, on_test_rows, system_rows
from .values import listed, worded

NDCG = "ndcg@10"
ROUNDS, BEST, FEWEST = "rounds to the best", "best ndcg@10", "clusters with the fewest rounds"
# By file: what the axis says, and the curves: a metric of figure 4, and what it is called beside
# whose it is.
FIGURE_4 = {
    "fairness": ("std of NDCG@10 over users", {STD: "", CHANCE: ", by chance"}),
    "worst-tenth": ("AUC of the worst tenth", {WORST: ""}),
}
FIGURE_5 = {
    "rounds": ("rounds to the best NDCG@10", ROUNDS),
    "ndcg": ("best NDCG@10{looked}", BEST),
}
Pair = tuple[Sequence[CurvePoint], Sequence[CurvePoint]]  # personalised, not
Paces = Mapping[int, Sequence[ConvergencePace]]  # {P: the pace of each seed}


def with_clusters(model: str, clusters: int, *, personalised: bool = True) -> System:
    """Cali3F with P clusters; not personalised: "a global model trained with ClusSamp and FastAgg"
    alone.
    """
    off = () if personalised else (("personalised", False),)
    return System(f"cali3f-{model}", more=(("clusters", clusters), *off), own_rounds=True)


def clusters_of(study: Study, model: str) -> list[int]:
    """The numbers of clusters for which there are users, and devices in a round."""
    return [p for p in study.clusters if not study.misfit(with_clusters(model, p))]


def clusters_note(study: Study, model: str) -> list[str]:
    """What the settings make of the number of clusters."""
    left = ", ".join(f"{p}" for p in study.clusters if p not in clusters_of(study, model))
    said = [worded("cali3f", "left-out", name=study.name, left=left)] if left else []
    if study.made(with_clusters(model, 1)).cohort == len(study.data.users):
        said.append(worded("cali3f", "everybody", name=study.name))
    return said


# ---- figure 4: fairness, each training at its own best round on validation -----------------------


def both_forms(study: Study) -> list[System]:
    """Cali3F with every P, personalised and not."""
    return [
        with_clusters("neumf", p, personalised=on)
        for on in (True, False)
        for p in clusters_of(study, "neumf")
    ]


def _pairs(trained: Trained) -> dict[int, Pair]:
    """{P: (personalised, not)} where both were trained."""
    looks, several = trained.looks, clusters_of(trained.study, "neumf")
    of = {
        p: (looks[with_clusters("neumf", p)], looks[with_clusters("neumf", p, personalised=False)])
        for p in several
    }
    return {p: pair for p, pair in of.items() if all(pair)}


def fairness_notes(trained: Trained) -> list[str]:
    """The claims: personalisation lowers the std at every P, and the more so the more clusters
    there are.
    """
    pairs, name = _pairs(trained), trained.name
    gaps = {p: mean(on, STD) - mean(off, STD) for p, (on, off) in pairs.items()}
    tests = {
        p: paired_spread(*(users_of(some, NDCG) for some in pair)) for p, pair in pairs.items()
    }
    sure = {p: test.difference for p, test in tests.items() if test.p < SIGNIFICANT}
    lower, higher = (
        ", ".join(f"{p}" for p in sure if (sure[p] < 0) is below) or "none"
        for below in (True, False)
    )
    grows = "grows" if len(gaps) > 1 and gaps[max(gaps)] < gaps[min(gaps)] else "does not grow"
    worst = sum(mean(on, WORST) > mean(off, WORST) for on, off in pairs.values())
    on, off = (
        [mean(pair[which], STD) - mean(pair[which], CHANCE) for pair in pairs.values()] or [0.0]
        for which in (0, 1)
    )
    by_p = listed({f"{p}:": gap for p, gap in gaps.items()}, "+.4f")
    chance = {"on": np.mean(on), "off": np.mean(off)}
    return [
        worded(
            "cali3f",
            "spread",
            name=name,
            listed=by_p,
            lower=lower,
            higher=higher,
            level=SIGNIFICANT,
        ),
        worded("cali3f", "gain", name=name, grows=grows, worst=worst, several=len(pairs), **chance),
        *clusters_note(trained.study, "neumf"),
    ]


def fairness_figures(trained: Trained) -> dict[str, str]:
    """The std, and the worst tenth, over P."""
    pairs, drawn, title = _pairs(trained), {}, f"Figure 4: Cali3F-NeuMF, {trained.name}"
    for file, (label, metrics) in FIGURE_4.items():
        series = {
            f"{who}{named}": (list(pairs), [mean(pair[which], metric) for pair in pairs.values()])
            for which, who in enumerate(("personalised", "not personalised"))
            for metric, named in metrics.items()
        }
        drawn[f"{file}-{trained.name}"] = lines(
            series, FigureFormat(title=title, x_label="clusters", y_label=label)
        )
    return drawn


# ---- figure 5: rounds to the best, on validation; no test rows are opened ------------------------


def each_number(study: Study) -> list[System]:
    """Cali3F-GMF with every P."""
    return [with_clusters("gmf", p) for p in clusters_of(study, "gmf")]


def _values(mine: Sequence[ConvergencePace], metric: str) -> list[float]:
    return [
        pace.best.rounds if metric == ROUNDS else pace.best.metrics[RANKING.metric] for pace in mine
    ]


def _means(found: Paces, metric: str) -> dict[int, float]:
    return {p: float(np.mean(_values(mine, metric))) for p, mine in found.items()}


def paces_of(trained: Trained) -> Paces:
    """The pace of each seed by P, without those that diverged."""
    numbers = {system: dict([*system.own, *system.more])["clusters"] for system in trained.more}
    return {numbers[system]: mine for system, mine in trained.more.items() if mine}


def rounds_values(trained: Trained, system: System) -> Values:
    """The best round on validation, and what it is worth."""
    return {metric: _values(trained.more[system], metric) for metric in (ROUNDS, BEST)}


def rounds_rows(trained: Trained) -> list[Row]:
    """The best round of every P, and the P with the fewest rounds in each seed."""
    found = paces_of(trained)
    return [
        *metric_rows(trained, rounds_values, {}),
        *(fewest_rows(trained.study, found) if found else []),
    ]


def fewest_rows(study: Study, found: Paces) -> list[Row]:
    """The P with the fewest rounds in each seed."""
    fewest = [
        min(found, key=lambda p: found[p][n].best.rounds) for n in range(len(study.curve_seeds))
    ]
    system, said = System("cali3f-gmf"), "; of the numbers of clusters that were tried"
    alone = Trained(study=study, systems=[system], seeds=study.curve_seeds, conditions=said)
    return system_rows(alone, system, {FEWEST: fewest}, {})


def rounds_notes(trained: Trained) -> list[str]:
    """The claims: little influence on NDCG, an obvious one on the rounds."""
    found = paces_of(trained)
    said, called = (
        influence(trained.study, found) if found else [],
        {f"P = {p}": mine for p, mine in found.items()},
    )
    return [*said, *still_rising(trained, called, called), *clusters_note(trained.study, "gmf")]


def influence(study: Study, found: Paces) -> list[str]:
    """How much the best NDCG@10 and the rounds to it differ between numbers of clusters; between
    seeds at one P, to read it by.
    """
    ndcg, rounds = _means(found, BEST), _means(found, ROUNDS)
    quality, time = (max(of.values()) / min(of.values()) for of in (ndcg, rounds))
    factors = [
        max(values) / min(values)
        for mine in found.values()
        if len(values := _values(mine, ROUNDS)) > 1
    ]
    within = worded("cali3f", "within-seeds", float(np.mean(factors))) if factors else ""
    more = {
        "quality": quality - 1,
        "time": time,
        "within": within,
        "fewest": min(rounds, key=lambda p: rounds[p]),
    }
    return [worded("cali3f", "influence", name=study.name, **more)]


def rounds_figures(trained: Trained) -> dict[str, str]:
    """The rounds, and the NDCG@10, over P."""
    return drawn_over_clusters(trained, f"Figure 5: {trained.name}", " on validation")


def drawn_over_clusters(trained: Trained, title: str, looked: str) -> dict[str, str]:
    """Figure 5: the rounds to the best look, and its NDCG@10, over P. looked: what follows
    the metric on the axis, the rows that were looked at.
    """
    found = paces_of(trained)
    drawn = {}
    for file, (label, metric) in FIGURE_5.items():
        series = {"Cali3F-GMF": (list(found), list(_means(found, metric).values()))}
        look = FigureFormat(title=title, x_label="clusters", y_label=label.format(looked=looked))
        drawn[f"{file}-{trained.name}"] = lines(series, look)
    return drawn


EXPERIMENTS = {
    "cali3f-fig4": PaperTable(
        title="fairness with and without personalisation over clusters (Cali3F, figure 4)",
        data=cali3f(("ml-100k",)),
        systems=both_forms,
        train=lambda study, systems: on_test_rows(study, systems, study.curve_seeds),
        metrics=(*FAIRNESS, NDCG),
        findings=(fairness_notes,),
        figures=fairness_figures,
    ),
    "cali3f-fig5": PaperTable(
        title="rounds to the best over clusters (Cali3F, figure 5)",
        data=cali3f(("ml-100k",)),
        systems=each_number,
        train=on_curves,
        rows=rounds_rows,
        findings=(rounds_notes,),
        figures=rounds_figures,
    ),
}
