"""PEPPER, figures 4 to 6: who is served badly. The distribution of a metric over users, and its lowest percentiles.

The paper's figures are drawings; what its text says about them is in the notes. Percentiles count from the worst user: the paper's 99th
is percentile 1 here (see evaluate/tail.py). A curve is of all seeds' users together.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..core.types import Float64Array
from ..evaluate.tail import distribution, tail
from ..report.figures import lines
from .cell import CurvePoint
from .opened import pepper
from .pepper_accuracy import FEDERATED, FOURSQUARE, GOSSIP, MOVIELENS, WHOLE_FOURSQUARE, WHOLE_MOVIELENS, pepper_of, systems_of
from .result import Row
from .source import RowSource
from .study import Looks
from .table import PaperTable, Trained, system_rows

N = 20  # the figures' K
PERCENTS = (5, 10, 25, 50)
Points = tuple[Float64Array, Float64Array]


def tails(looks: Sequence[CurvePoint], metric: str) -> dict[str, list[float]]:
    """Mean, percentiles (p5, ..) and the mean of the worst tenth of users, a value for each seed."""
    each = [tail(look.per_user[metric], PERCENTS) for look in looks]
    low = {f"{metric} p{p}": [one.percentile[p] for one in each] for p in PERCENTS}
    return {metric: [one.mean for one in each], **low, f"{metric} worst 10 %": [one.worst[10] for one in each]}


def figure(title: str, metric: str, looks: Looks) -> str:
    """The share of users with at most x."""
    series = {
        str(system): steps([value for look in some for value in look.per_user[metric]]) for system, some in looks.items() if some
    }
    return lines(series, x_label=metric, y_label="share of users with at most this", title=title, marks=False)


def steps(values: Sequence[float]) -> Points:
    """The corners of a distribution, from a share of 0.

    >>> steps([0.2, 1.0])
    (array([0.2, 0.2, 1. , 1. ]), array([0. , 0.5, 0.5, 1. ]))
    """
    found = distribution(values)
    return np.repeat(found.value, 2), np.concatenate([[0], np.repeat(found.share, 2)[:-1]])


def rows_of(trained: Trained, metrics: Sequence[str]) -> list[Row]:
    """The tails of every system."""
    return [
        row
        for metric in metrics
        for system in trained.systems
        for row in system_rows(trained, system, tails(trained.looks[system], metric), {})
    ]


def worst_tenth(trained: Trained, model: str, metric: str) -> list[str]:
    """The claim: better tails than every decentralised competitor (RQ2)."""
    own = pepper_of(trained)
    if not trained.looks.get(own):
        return []
    looks = {system: some for system, some in trained.looks.items() if some}
    worst = {system: float(np.mean(tails(some, metric)[f"{metric} worst 10 %"])) for system, some in looks.items()}
    said = []
    for who, names in (("without a server", GOSSIP[:-1]), ("with a server", FEDERATED)):
        others = {str(system): worst[system] for system in worst if system.algorithm.removesuffix(f"-{model}") in names}
        below = sum(value < worst[own] for value in others.values())
        listed = ", ".join(f"{name} {value:.4f}" for name, value in others.items())
        said.append(f"above {below} of {len(others)} systems {who} ({listed})")
    return [f"{trained.name}, {metric} of the worst tenth of users: PEPPER {worst[own]:.4f}, {'; '.join(said)}."]


def _figures(trained: Trained, metrics: Sequence[str]) -> dict[str, str]:
    slug = trained.study.source.slug
    return {f"{m.replace('@', '-')}-{slug}": figure(f"{m}, {trained.name}", m, trained.looks) for m in metrics}


def over_users(number: int, what: str, model: str, measures: Sequence[str], *sources: RowSource) -> PaperTable:
    """One of the figures 4 to 6."""
    metrics = [f"{measure}@{N}" for measure in measures]
    return PaperTable(
        title=f"{what} (PEPPER, figure {number})",
        data=pepper(*sources),
        systems=systems_of(model, ("ials",)),
        metrics=metrics,
        rows=lambda trained: rows_of(trained, metrics),
        findings=[lambda trained: [note for metric in metrics for note in worst_tenth(trained, model, metric)]],
        figures=lambda trained: _figures(trained, metrics),
    )


EXPERIMENTS = {
    "pepper-fig4": over_users(
        4, "HR and NDCG over users on Foursquare-NYC, GMF", "gmf", ("hr", "ndcg"), FOURSQUARE, WHOLE_FOURSQUARE
    ),
    "pepper-fig5": over_users(
        5, "HR and NDCG over users on MovieLens-100K, GMF", "gmf", ("hr", "ndcg"), MOVIELENS, WHOLE_MOVIELENS
    ),
    "pepper-fig6": over_users(6, "F1 over users on Foursquare-NYC, PRME-G", "prme-g", ("f1_user",), FOURSQUARE),
}
