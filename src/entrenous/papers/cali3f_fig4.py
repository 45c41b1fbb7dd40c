"""Cali3F, figure 4: fairness over the number of clusters, with and without a model for each cluster. The paper's is a drawing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..evaluate.significance import paired_spread
from ..report.figures import lines
from .cell import Look
from .ncf_study import NcfStudy, System, over_data
from .result import Experiment, Found, Paper, Row
from .seed_rows import SIGNIFICANT, fairness_mean, seed_rows, user_means

STD, CHANCE, WORST, NDCG = "std_ndcg@10", "std_by_chance", "worst_decile_auc", "ndcg@10"
DRAWN = {"fairness": (STD, CHANCE), "worst-tenth": (WORST,)}  # by figure
PAPER: Paper = {}  # nothing of the drawing is printed
Looks = dict[System, list[Look]]


def with_clusters(model: str, clusters: int, *, personalised: bool = True) -> System:
    """Cali3F with P clusters; not personalised: "a global model trained with ClusSamp and FastAgg" alone."""
    off = () if personalised else (("personalised", False),)
    return System(f"cali3f-{model}", more=(("clusters", clusters), *off))


def one(study: NcfStudy) -> Found:
    """Two lines over P, each training at its own best round on validation."""
    clusters = clusters_of(study, "neumf")
    systems = [with_clusters("neumf", p, personalised=on) for on in (True, False) for p in clusters]
    looks, rounds = study.tested(systems, study.curve_seeds), study.rounds(systems)
    rows = [row for system in systems for row in _rows(study, system, looks[system], rounds[system])]
    figures = {f"{name}-{study.data.name}": _figure(study, looks, clusters, metrics) for name, metrics in DRAWN.items()}
    return Found(rows=rows, notes=[*_notes(study, looks, clusters), *clusters_note(study, "neumf")], figures=figures)


def clusters_of(study: NcfStudy, model: str) -> list[int]:
    """The numbers of clusters for which there are users, and devices in a round."""
    return [p for p in study.effort.clusters if study.fits(with_clusters(model, p))]


def clusters_note(study: NcfStudy, model: str) -> list[str]:
    """What the settings make of the number of clusters."""
    left = [f"{p}" for p in study.effort.clusters if p not in clusters_of(study, model)]
    said = [f"{study.data.name}, left out, as a round has fewer devices: P = {', '.join(left)}."] if left else []
    if study.made(with_clusters(model, 1)).cohort == len(study.data.users):
        said.append(
            f"{study.data.name}: with these settings every device takes part in every round, so there are no subordinates, and P "
            "decides only who shares a personal model."
        )
    return said


def _rows(study: NcfStudy, system: System, looks: Sequence[Look], rounds: int) -> list[Row]:
    values = {metric: [look.fairness[metric] for look in looks] for metric in (STD, CHANCE, WORST)}
    values[NDCG] = [look.metrics[NDCG] for look in looks]
    said = study.protocol(system, study.curve_seeds, rounds)
    return seed_rows(study, system, values, paper=PAPER, protocol=said, seeds=study.curve_seeds, epochs=rounds)


def _pairs(looks: Looks, clusters: Sequence[int]) -> dict[int, tuple[list[Look], list[Look]]]:
    """{P: (personalised, not)} where both were trained."""
    of = {p: (looks[with_clusters("neumf", p)], looks[with_clusters("neumf", p, personalised=False)]) for p in clusters}
    return {p: pair for p, pair in of.items() if all(pair)}


def _notes(study: NcfStudy, looks: Looks, clusters: Sequence[int]) -> list[str]:
    """The claims: personalisation lowers the std at every P, and the more so the more clusters there are."""
    pairs = _pairs(looks, clusters)
    gaps = {p: fairness_mean(on, STD) - fairness_mean(off, STD) for p, (on, off) in pairs.items()}
    tests = {p: paired_spread(*(user_means(some, NDCG) for some in pair)) for p, pair in pairs.items()}
    lower = [f"{p}" for p, test in tests.items() if test.difference < 0 and test.p < SIGNIFICANT]
    higher = [f"{p}" for p, test in tests.items() if test.difference > 0 and test.p < SIGNIFICANT]
    worst = sum(fairness_mean(on, WORST) > fairness_mean(off, WORST) for on, off in pairs.values())
    listed = ", ".join(f"{p}: {gap:+.4f}" for p, gap in gaps.items())
    grows = len(gaps) > 1 and gaps[max(gaps)] < gaps[min(gaps)]
    return [
        f"{study.data.name}, std of NDCG@10 over users, personalised minus not, by P: {listed}. The paper has it below 0 "
        f"throughout. Significantly below at P = {', '.join(lower) or 'none'}, above at {', '.join(higher) or 'none'} (users' means over "
        f"seeds, {SIGNIFICANT:.0%}).",
        f"{study.data.name}, the paper says that the gain grows with the number of clusters: from the fewest to the most it "
        f"{'grows' if grows else 'does not grow'} here. The std follows the hit rate: above the std by chance personalised models are "
        f"by {_above(pairs, 0):+.4f}, the others by {_above(pairs, 1):+.4f} (mean over P). The AUC of the worst tenth is higher with "
        f"personalisation at {worst} of {len(pairs)} P.",
    ]


def _above(pairs: dict[int, tuple[list[Look], list[Look]]], which: int) -> float:
    """Mean distance of the std from that by chance."""
    each = [fairness_mean(pair[which], STD) - fairness_mean(pair[which], CHANCE) for pair in pairs.values()]
    return float(np.mean(each)) if each else 0.0


def _figure(study: NcfStudy, looks: Looks, clusters: Sequence[int], metrics: Sequence[str]) -> str:
    pairs = _pairs(looks, clusters)
    names = {STD: "", CHANCE: ", by chance", WORST: ""}
    series = {
        f"{who}{names[metric]}": (list(pairs), [fairness_mean(pair[which], metric) for pair in pairs.values()])
        for which, who in enumerate(("personalised", "not personalised"))
        for metric in metrics
    }
    label = "std of NDCG@10 over users" if STD in metrics else "AUC of the worst tenth"
    return lines(series, x_label="clusters", y_label=label, title=f"Figure 4: Cali3F-NeuMF, {study.data.name}")


EXPERIMENTS = {
    "cali3f-fig4": Experiment(
        "fairness with and without personalisation over clusters (Cali3F, figure 4)", PAPER, over_data(one, ("ml-100k",))
    )
}
