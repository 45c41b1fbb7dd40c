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
from .cell import Look
from .pepper_plan import Source, System
from .pepper_study import PepperStudy, Tested, over_sources
from .pepper_tables import FEDERATED, FOURSQUARE, GOSSIP, MOVIELENS, WHOLE_FOURSQUARE, WHOLE_MOVIELENS, systems_of
from .result import Experiment, Found

N = 20  # the figures' K
PERCENTS = (5, 10, 25, 50)
Points = tuple[Float64Array, Float64Array]


def one(study: PepperStudy, model: str, metrics: Sequence[str]) -> Found:
    """A figure for each metric on one split."""
    found = Found()
    systems = study.fitting(systems_of(model, ("ials",)), found)
    looks, rounds = study.tested(systems), study.rounds(systems)
    for metric in metrics:
        for system in systems:
            found.rows.extend(study.rows(system, tails(looks[system], metric), {}, rounds[system]))
        found.notes.extend(_notes(study, model, metric, looks))
        found.figures[f"{metric.replace('@', '-')}-{study.source.slug}"] = figure(f"{metric}, {study.name}", metric, looks)
    return found


def tails(looks: Sequence[Look], metric: str) -> dict[str, list[float]]:
    """Mean, percentiles (p5, ..) and the mean of the worst tenth of users, a value for each seed."""
    each = [tail(look.per_user[metric], PERCENTS) for look in looks]
    low = {f"{metric} p{p}": [one.percentile[p] for one in each] for p in PERCENTS}
    return {metric: [one.mean for one in each], **low, f"{metric} worst 10 %": [one.worst[10] for one in each]}


def figure(title: str, metric: str, looks: Tested) -> str:
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


def _notes(study: PepperStudy, model: str, metric: str, looks: Tested) -> list[str]:
    """The claim: better tails than every decentralised competitor (RQ2)."""
    pepper = System(f"pepper-{model}")
    if not looks.get(pepper):
        return []
    worst = {system: float(np.mean(tails(some, metric)[f"{metric} worst 10 %"])) for system, some in looks.items() if some}
    said = []
    for who, names in (("without a server", GOSSIP[:-1]), ("with a server", FEDERATED)):
        others = {str(system): worst[system] for system in worst if system.algorithm.removesuffix(f"-{model}") in names}
        below = sum(value < worst[pepper] for value in others.values())
        listed = ", ".join(f"{name} {value:.4f}" for name, value in others.items())
        said.append(f"above {below} of {len(others)} systems {who} ({listed})")
    return [f"{study.name}, {metric} of the worst tenth of users: PEPPER {worst[pepper]:.4f}, {'; '.join(said)}."]


FIGURES: dict[str, tuple[str, str, tuple[str, ...], tuple[Source, ...]]] = {
    "pepper-fig4": ("HR and NDCG over users on Foursquare-NYC, GMF", "gmf", ("hr", "ndcg"), (FOURSQUARE, WHOLE_FOURSQUARE)),
    "pepper-fig5": ("HR and NDCG over users on MovieLens-100K, GMF", "gmf", ("hr", "ndcg"), (MOVIELENS, WHOLE_MOVIELENS)),
    "pepper-fig6": ("F1 over users on Foursquare-NYC, PRME-G", "prme-g", ("f1_user",), (FOURSQUARE,)),
}
EXPERIMENTS = {
    name: Experiment(
        f"{title} (PEPPER, figure {name[-1]})",
        {},
        over_sources(
            lambda study, model=model, metrics=metrics: one(study, model, [f"{metric}@{N}" for metric in metrics]),  # type: ignore[misc]
            sources,
            sources[:1],
        ),
    )
    for name, (title, model, metrics, sources) in FIGURES.items()
}
