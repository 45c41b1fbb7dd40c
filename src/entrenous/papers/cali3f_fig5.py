"""Cali3F, figure 5: rounds to the best NDCG@10, and that NDCG@10, over the number of clusters. The paper's is a drawing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..evaluate.goal import RANKING
from ..report.figures import lines
from .cali3f_fig4 import clusters_note, clusters_of, with_clusters
from .ncf_study import NcfStudy, System, over_data
from .result import Experiment, Found, Row
from .seed_rows import Pace, paces, seed_row, seed_rows

ROUNDS, BEST, FEWEST = "rounds to the best", "best ndcg@10", "clusters with the fewest rounds"
MODEL = "gmf"
# the text: the best number of rounds is compatible with what can be "best partitioned into about 30 clusters"
PAPER = {("ml-100k", f"cali3f-{MODEL}", FEWEST): 30.0}


def one(study: NcfStudy) -> Found:
    """One curve on validation for each P and seed; no test rows are opened."""
    clusters = clusters_of(study, MODEL)
    curves = study.curves([with_clusters(MODEL, p) for p in clusters])
    every = {p: paces(curves[with_clusters(MODEL, p)]) for p in clusters}
    found = {p: mine for p, mine in every.items() if mine}
    rows = [row for p in clusters for row in _rows(study, p, every[p])]
    if found:
        rows.append(_fewest(study, found))
    figures = {
        f"{name}-{study.data.name}": _figure(study, found, metric) for name, metric in (("rounds", ROUNDS), ("ndcg", BEST))
    }
    notes = _notes(study, found) if found else []
    return Found(rows=rows, notes=[*notes, *clusters_note(study, MODEL)], figures=figures)


def _values(mine: Sequence[Pace], metric: str) -> list[float]:
    return [one.best.rounds if metric == ROUNDS else one.best.metrics[RANKING.metric] for one in mine]


def _rows(study: NcfStudy, clusters: int, mine: Sequence[Pace]) -> list[Row]:
    system = with_clusters(MODEL, clusters)
    said = f"{study.protocol(system, study.curve_seeds)}; on validation, up to round {study.budget.horizon}"
    values = {metric: _values(mine, metric) for metric in (ROUNDS, BEST)}
    return seed_rows(study, system, values, paper=PAPER, protocol=said, seeds=study.curve_seeds)


def _fewest(study: NcfStudy, found: Mapping[int, Sequence[Pace]]) -> Row:
    """The P with the fewest rounds in each seed."""
    fewest = [min(found, key=lambda p: found[p][n].best.rounds) for n in range(len(study.curve_seeds))]
    said = f"{study.protocol(System(f'cali3f-{MODEL}'), study.curve_seeds)}; of the numbers of clusters that were tried"
    system = System(f"cali3f-{MODEL}")
    return seed_row(study.data.name, system, FEWEST, fewest, paper=PAPER, protocol=said, seeds=study.curve_seeds)


def _notes(study: NcfStudy, found: Mapping[int, Sequence[Pace]]) -> list[str]:
    """The claims: little influence on NDCG, an obvious one on the rounds."""
    ndcg, rounds = ({p: float(np.mean(_values(mine, metric))) for p, mine in found.items()} for metric in (BEST, ROUNDS))
    quality, time = (max(of.values()) / min(of.values()) for of in (ndcg, rounds))
    rising = [f"{p}" for p, mine in found.items() if any(one.rising for one in mine)]
    return [
        f"{study.data.name}: the paper says that the number of clusters has little influence on the best NDCG@10 and an obvious one on "
        f"the rounds to it. Here the best NDCG@10 differs by {quality - 1:.1%} between the best and the worst P, the rounds by a factor of "
        f"{time:.2f}{_within_seeds(found)}. Fewest rounds at P = {min(rounds, key=lambda p: rounds[p])} (paper: about 30).",
        *([f"{study.data.name}, still rising at round {study.budget.horizon}: P = {', '.join(rising)}."] if rising else []),
    ]


def _within_seeds(found: Mapping[int, Sequence[Pace]]) -> str:
    """How much rounds differ between seeds at one P, to read the factor by."""
    factors = [max(values) / min(values) for mine in found.values() if len(values := _values(mine, ROUNDS)) > 1]
    return f" (between seeds at one P, by {np.mean(factors):.2f} on average)" if factors else ""


def _figure(study: NcfStudy, found: Mapping[int, Sequence[Pace]], metric: str) -> str:
    series = {"Cali3F-GMF": (list(found), [float(np.mean(_values(mine, metric))) for mine in found.values()])}
    label = "rounds to the best NDCG@10" if metric == ROUNDS else "best NDCG@10 on validation"
    return lines(series, x_label="clusters", y_label=label, title=f"Figure 5: {study.data.name}")


EXPERIMENTS = {
    "cali3f-fig5": Experiment("rounds to the best over clusters (Cali3F, figure 5)", PAPER, over_data(one, ("ml-100k",)))
}
