"""Cali3F, figures 4 and 5: fairness over the number of clusters P, with and without a model for each; rounds to the best NDCG@10 over P.

The paper's figures are drawings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..evaluate.goal import RANKING
from ..evaluate.significance import paired_spread
from ..report.figures import lines
from .cali3f_convergence import on_curves
from .cell import CurvePoint
from .findings import SIGNIFICANT, still_rising, user_means
from .measures import CHANCE, FAIRNESS, STD, WORST, mean
from .opened import cali3f
from .pace import ConvergencePace
from .result import Row
from .study import Study, System
from .table import PaperTable, Trained, Values, metric_rows, system_rows
from .values import printed

NDCG = "ndcg@10"
DRAWN = {"fairness": (STD, CHANCE), "worst-tenth": (WORST,)}  # by figure
ROUNDS, BEST, FEWEST = "rounds to the best", "best ndcg@10", "clusters with the fewest rounds"
PAPER = printed("cali3f", "fig5")
Pair = tuple[Sequence[CurvePoint], Sequence[CurvePoint]]  # personalised, not


def with_clusters(model: str, clusters: int, *, personalised: bool = True) -> System:
    """Cali3F with P clusters; not personalised: "a global model trained with ClusSamp and FastAgg" alone."""
    off = () if personalised else (("personalised", False),)
    return System(f"cali3f-{model}", more=(("clusters", clusters), *off), own_rounds=True)


def clusters_of(study: Study, model: str) -> list[int]:
    """The numbers of clusters for which there are users, and devices in a round."""
    return [p for p in study.clusters if not study.misfit(with_clusters(model, p))]


def clusters_note(study: Study, model: str) -> list[str]:
    """What the settings make of the number of clusters."""
    left = [f"{p}" for p in study.clusters if p not in clusters_of(study, model)]
    said = [f"{study.name}, left out, as a round has fewer devices: P = {', '.join(left)}."] if left else []
    if study.made(with_clusters(model, 1)).cohort == len(study.data.users):
        said.append(
            f"{study.name}: with these settings every device takes part in every round, so there are no subordinates, and P "
            "decides only who shares a personal model."
        )
    return said


# ---- figure 4: fairness, each training at its own best round on validation ------------------------------------------------------------


def both_forms(study: Study) -> list[System]:
    """Cali3F with every P, personalised and not."""
    return [with_clusters("neumf", p, personalised=on) for on in (True, False) for p in clusters_of(study, "neumf")]


def on_curve_seeds(study: Study, systems: list[System]) -> Trained:
    """Trains and evaluates on the test rows, with the seeds of curves."""
    looks = study.tested(systems, study.curve_seeds)
    return Trained(study=study, systems=systems, looks=looks, rounds=study.rounds(systems), seeds=study.curve_seeds)


def _pairs(trained: Trained) -> dict[int, Pair]:
    """{P: (personalised, not)} where both were trained."""
    forms = {p: [with_clusters("neumf", p, personalised=on) for on in (True, False)] for p in clusters_of(trained.study, "neumf")}
    of = {p: (trained.looks[on], trained.looks[off]) for p, (on, off) in forms.items()}
    return {p: pair for p, pair in of.items() if all(pair)}


def fairness_notes(trained: Trained) -> list[str]:
    """The claims: personalisation lowers the std at every P, and the more so the more clusters there are."""
    pairs = _pairs(trained)
    gaps = {p: mean(on, STD) - mean(off, STD) for p, (on, off) in pairs.items()}
    tests = {p: paired_spread(*(user_means(some, NDCG) for some in pair)) for p, pair in pairs.items()}
    lower = [f"{p}" for p, test in tests.items() if test.difference < 0 and test.p < SIGNIFICANT]
    higher = [f"{p}" for p, test in tests.items() if test.difference > 0 and test.p < SIGNIFICANT]
    worst = sum(mean(on, WORST) > mean(off, WORST) for on, off in pairs.values())
    listed = ", ".join(f"{p}: {gap:+.4f}" for p, gap in gaps.items())
    grows = len(gaps) > 1 and gaps[max(gaps)] < gaps[min(gaps)]
    return [
        f"{trained.name}, std of NDCG@10 over users, personalised minus not, by P: {listed}. The paper has it below 0 "
        f"throughout. Significantly below at P = {', '.join(lower) or 'none'}, above at {', '.join(higher) or 'none'} (users' means over "
        f"seeds, {SIGNIFICANT:.0%}).",
        f"{trained.name}, the paper says that the gain grows with the number of clusters: from the fewest to the most it "
        f"{'grows' if grows else 'does not grow'} here. The std follows the hit rate: above the std by chance personalised models are "
        f"by {_above(pairs, 0):+.4f}, the others by {_above(pairs, 1):+.4f} (mean over P). The AUC of the worst tenth is higher with "
        f"personalisation at {worst} of {len(pairs)} P.",
        *clusters_note(trained.study, "neumf"),
    ]


def _above(pairs: Mapping[int, Pair], which: int) -> float:
    """Mean distance of the std from that by chance."""
    each = [mean(pair[which], STD) - mean(pair[which], CHANCE) for pair in pairs.values()]
    return float(np.mean(each)) if each else 0.0


def fairness_figures(trained: Trained) -> dict[str, str]:
    """The std, and the worst tenth, over P."""
    pairs, names, drawn = _pairs(trained), {STD: "", CHANCE: ", by chance", WORST: ""}, {}
    for figure, metrics in DRAWN.items():
        series = {
            f"{who}{names[metric]}": (list(pairs), [mean(pair[which], metric) for pair in pairs.values()])
            for which, who in enumerate(("personalised", "not personalised"))
            for metric in metrics
        }
        label = "std of NDCG@10 over users" if STD in metrics else "AUC of the worst tenth"
        title = f"Figure 4: Cali3F-NeuMF, {trained.name}"
        drawn[f"{figure}-{trained.name}"] = lines(series, x_label="clusters", y_label=label, title=title)
    return drawn


# ---- figure 5: rounds to the best, on validation; no test rows are opened -------------------------------------------------------------


def each_number(study: Study) -> list[System]:
    """Cali3F-GMF with every P."""
    return [with_clusters("gmf", p) for p in clusters_of(study, "gmf")]


def _values(mine: Sequence[ConvergencePace], metric: str) -> list[float]:
    return [pace.best.rounds if metric == ROUNDS else pace.best.metrics[RANKING.metric] for pace in mine]


def paces_of(trained: Trained) -> dict[int, Sequence[ConvergencePace]]:
    """{P: the pace of each seed}, without those that diverged."""
    return {dict(system.more)["clusters"]: mine for system, mine in trained.more.items() if mine}


def rounds_values(trained: Trained, system: System) -> Values:
    """The best round on validation, and what it is worth."""
    return {metric: _values(trained.more[system], metric) for metric in (ROUNDS, BEST)}


def rounds_rows(trained: Trained) -> list[Row]:
    """The best round of every P, and the P with the fewest rounds in each seed."""
    found = paces_of(trained)
    return [*metric_rows(trained, rounds_values, PAPER), *(fewest_rows(trained.study, found) if found else [])]


def fewest_rows(study: Study, found: Mapping[int, Sequence[ConvergencePace]]) -> list[Row]:
    """The P with the fewest rounds in each seed."""
    fewest = [min(found, key=lambda p: found[p][n].best.rounds) for n in range(len(study.curve_seeds))]
    system, said = System("cali3f-gmf"), "; of the numbers of clusters that were tried"
    alone = Trained(study=study, systems=[system], seeds=study.curve_seeds, conditions=said)
    return system_rows(alone, system, {FEWEST: fewest}, PAPER)


def rounds_notes(trained: Trained) -> list[str]:
    """The claims: little influence on NDCG, an obvious one on the rounds."""
    found = paces_of(trained)
    rising = [f"P = {p}" for p, mine in found.items() if any(pace.rising for pace in mine)]
    said = influence(trained.study, found) if found else []
    return [*said, *still_rising(trained, rising), *clusters_note(trained.study, "gmf")]


def influence(study: Study, found: Mapping[int, Sequence[ConvergencePace]]) -> list[str]:
    """How much the best NDCG@10 and the rounds to it differ between numbers of clusters."""
    ndcg, rounds = ({p: float(np.mean(_values(mine, metric))) for p, mine in found.items()} for metric in (BEST, ROUNDS))
    quality, time = (max(of.values()) / min(of.values()) for of in (ndcg, rounds))
    paper = PAPER["ml-100k", "cali3f-gmf", FEWEST]
    return [
        f"{study.name}: the paper says that the number of clusters has little influence on the best NDCG@10 and an obvious one on "
        f"the rounds to it. Here the best NDCG@10 differs by {quality - 1:.1%} between the best and the worst P, the rounds by a factor of "
        f"{time:.2f}{_within_seeds(found)}. Fewest rounds at P = {min(rounds, key=lambda p: rounds[p])} (paper: about {paper:.0f}).",
    ]


def _within_seeds(found: Mapping[int, Sequence[ConvergencePace]]) -> str:
    """How much rounds differ between seeds at one P, to read the factor by."""
    factors = [max(values) / min(values) for mine in found.values() if len(values := _values(mine, ROUNDS)) > 1]
    return f" (between seeds at one P, by {np.mean(factors):.2f} on average)" if factors else ""


def rounds_figures(trained: Trained) -> dict[str, str]:
    """The rounds, and the NDCG@10, over P."""
    found, title = paces_of(trained), f"Figure 5: {trained.name}"
    drawn = {"rounds": (ROUNDS, "rounds to the best NDCG@10"), "ndcg": (BEST, "best NDCG@10 on validation")}
    of = {
        name: (list(found), [float(np.mean(_values(mine, metric))) for mine in found.values()])
        for name, (metric, _) in drawn.items()
    }
    return {
        f"{name}-{trained.name}": lines({"Cali3F-GMF": of[name]}, x_label="clusters", y_label=label, title=title)
        for name, (_, label) in drawn.items()
    }


EXPERIMENTS = {
    "cali3f-fig4": PaperTable(
        title="fairness with and without personalisation over clusters (Cali3F, figure 4)",
        data=cali3f(("ml-100k",)),
        systems=both_forms,
        train=on_curve_seeds,
        metrics=(*FAIRNESS, NDCG),
        findings=(fairness_notes,),
        figures=fairness_figures,
    ),
    "cali3f-fig5": PaperTable(
        title="rounds to the best over clusters (Cali3F, figure 5)",
        data=cali3f(("ml-100k",)),
        systems=each_number,
        train=on_curves,
        printed=PAPER,
        rows=rounds_rows,
        findings=(rounds_notes,),
        figures=rounds_figures,
    ),
}
