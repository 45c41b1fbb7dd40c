"""Cali3F, figures 4 and 5: fairness over the number of clusters P, with and without a model for each; rounds to the best NDCG@10 over P.

The paper's figures are drawings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..evaluate.goal import RANKING
from ..evaluate.significance import paired_spread
from ..report.figures import lines
from .between_systems import SIGNIFICANT, mean_fairness, user_means
from .cali3f_convergence import on_curves
from .cell import CurvePoint
from .opened import cali3f
from .pace import ConvergencePace
from .result import Row
from .study import Study, System
from .table import PaperTable, Trained, Values, system_rows
from .values import printed

STD, CHANCE, WORST, NDCG = "std_ndcg@10", "std_by_chance", "worst_decile_auc", "ndcg@10"
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
    return [p for p in study.clusters if study.fits(with_clusters(model, p))]


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
    return Trained(study=study, systems=systems, looks=looks, rounds=study.rounds(systems))


def fairness_rows(trained: Trained) -> list[Row]:
    """Fairness and NDCG@10 of every form and P."""
    rows, seeds = list[Row](), trained.study.curve_seeds
    for system in trained.systems:
        looks = trained.looks[system]
        values = {metric: [look.fairness[metric] for look in looks] for metric in (STD, CHANCE, WORST)}
        rows += system_rows(trained, system, {**values, NDCG: [look.metrics[NDCG] for look in looks]}, {}, seeds=seeds)
    return rows


def _pairs(trained: Trained) -> dict[int, Pair]:
    """{P: (personalised, not)} where both were trained."""
    forms = {p: [with_clusters("neumf", p, personalised=on) for on in (True, False)] for p in clusters_of(trained.study, "neumf")}
    of = {p: (trained.looks[on], trained.looks[off]) for p, (on, off) in forms.items()}
    return {p: pair for p, pair in of.items() if all(pair)}


def fairness_notes(trained: Trained) -> list[str]:
    """The claims: personalisation lowers the std at every P, and the more so the more clusters there are."""
    pairs = _pairs(trained)
    gaps = {p: mean_fairness(on, STD) - mean_fairness(off, STD) for p, (on, off) in pairs.items()}
    tests = {p: paired_spread(*(user_means(some, NDCG) for some in pair)) for p, pair in pairs.items()}
    lower = [f"{p}" for p, test in tests.items() if test.difference < 0 and test.p < SIGNIFICANT]
    higher = [f"{p}" for p, test in tests.items() if test.difference > 0 and test.p < SIGNIFICANT]
    worst = sum(mean_fairness(on, WORST) > mean_fairness(off, WORST) for on, off in pairs.values())
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
    each = [mean_fairness(pair[which], STD) - mean_fairness(pair[which], CHANCE) for pair in pairs.values()]
    return float(np.mean(each)) if each else 0.0


def fairness_figures(trained: Trained) -> dict[str, str]:
    """The std, and the worst tenth, over P."""
    return {f"{name}-{trained.name}": _fairness_figure(trained, metrics) for name, metrics in DRAWN.items()}


def _fairness_figure(trained: Trained, metrics: Sequence[str]) -> str:
    pairs, names = _pairs(trained), {STD: "", CHANCE: ", by chance", WORST: ""}
    series = {
        f"{who}{names[metric]}": (list(pairs), [mean_fairness(pair[which], metric) for pair in pairs.values()])
        for which, who in enumerate(("personalised", "not personalised"))
        for metric in metrics
    }
    label = "std of NDCG@10 over users" if STD in metrics else "AUC of the worst tenth"
    return lines(series, x_label="clusters", y_label=label, title=f"Figure 4: Cali3F-NeuMF, {trained.name}")


# ---- figure 5: rounds to the best, on validation; no test rows are opened -------------------------------------------------------------


def each_number(study: Study) -> list[System]:
    """Cali3F-GMF with every P."""
    return [with_clusters("gmf", p) for p in clusters_of(study, "gmf")]


def _values(mine: Sequence[ConvergencePace], metric: str) -> list[float]:
    return [pace.best.rounds if metric == ROUNDS else pace.best.metrics[RANKING.metric] for pace in mine]


def paces_of(trained: Trained) -> dict[int, Sequence[ConvergencePace]]:
    """{P: the pace of each seed}, without those that diverged."""
    return {dict(system.more)["clusters"]: mine for system, mine in trained.more.items() if mine}


def rounds_rows(trained: Trained) -> list[Row]:
    """The best round of every P, and the P with the fewest rounds in each seed."""
    study, found, rows = trained.study, paces_of(trained), list[Row]()
    said = f"; on validation, up to round {study.budget.horizon}"
    for system in trained.systems:
        values = {metric: _values(trained.more[system], metric) for metric in (ROUNDS, BEST)}
        rows += system_rows(trained, system, values, PAPER, seeds=study.curve_seeds, protocol=said)
    return [*rows, *(fewest_rows(study, found) if found else [])]


def fewest_rows(study: Study, found: Mapping[int, Sequence[ConvergencePace]]) -> list[Row]:
    """The P with the fewest rounds in each seed."""
    fewest = [min(found, key=lambda p: found[p][n].best.rounds) for n in range(len(study.curve_seeds))]
    system, values = System("cali3f-gmf"), Values_of(fewest)
    said = "; of the numbers of clusters that were tried"
    return system_rows(Trained(study=study, systems=[system]), system, values, PAPER, seeds=study.curve_seeds, protocol=said)


def Values_of(fewest: Sequence[float]) -> Values:
    return {FEWEST: fewest}


def rounds_notes(trained: Trained) -> list[str]:
    """The claims: little influence on NDCG, an obvious one on the rounds."""
    found = paces_of(trained)
    return [*(influence(trained.study, found) if found else []), *clusters_note(trained.study, "gmf")]


def influence(study: Study, found: Mapping[int, Sequence[ConvergencePace]]) -> list[str]:
    """How much the best NDCG@10 and the rounds to it differ between numbers of clusters."""
    ndcg, rounds = ({p: float(np.mean(_values(mine, metric))) for p, mine in found.items()} for metric in (BEST, ROUNDS))
    quality, time = (max(of.values()) / min(of.values()) for of in (ndcg, rounds))
    rising = [f"{p}" for p, mine in found.items() if any(pace.rising for pace in mine)]
    paper = PAPER["ml-100k", "cali3f-gmf", FEWEST]
    return [
        f"{study.name}: the paper says that the number of clusters has little influence on the best NDCG@10 and an obvious one on "
        f"the rounds to it. Here the best NDCG@10 differs by {quality - 1:.1%} between the best and the worst P, the rounds by a factor of "
        f"{time:.2f}{_within_seeds(found)}. Fewest rounds at P = {min(rounds, key=lambda p: rounds[p])} (paper: about {paper:.0f}).",
        *([f"{study.name}, still rising at round {study.budget.horizon}: P = {', '.join(rising)}."] if rising else []),
    ]


def _within_seeds(found: Mapping[int, Sequence[ConvergencePace]]) -> str:
    """How much rounds differ between seeds at one P, to read the factor by."""
    factors = [max(values) / min(values) for mine in found.values() if len(values := _values(mine, ROUNDS)) > 1]
    return f" (between seeds at one P, by {np.mean(factors):.2f} on average)" if factors else ""


def rounds_figures(trained: Trained) -> dict[str, str]:
    """The rounds, and the NDCG@10, over P."""
    return {f"{name}-{trained.name}": _rounds_figure(trained, metric) for name, metric in (("rounds", ROUNDS), ("ndcg", BEST))}


def _rounds_figure(trained: Trained, metric: str) -> str:
    found = paces_of(trained)
    series = {"Cali3F-GMF": (list(found), [float(np.mean(_values(mine, metric))) for mine in found.values()])}
    label = "rounds to the best NDCG@10" if metric == ROUNDS else "best NDCG@10 on validation"
    return lines(series, x_label="clusters", y_label=label, title=f"Figure 5: {trained.name}")


EXPERIMENTS = {
    "cali3f-fig4": PaperTable(
        title="fairness with and without personalisation over clusters (Cali3F, figure 4)",
        data=cali3f(("ml-100k",)),
        systems=both_forms,
        train=on_curve_seeds,
        rows=fairness_rows,
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
