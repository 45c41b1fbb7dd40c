"""PEPPER, figures 4 to 6 and 8: who is served badly. The distribution of a metric over users, and
its lowest percentiles.

The paper's figures are drawings; what its text says about them is in the notes. Percentiles count
from the worst user: the paper's 99th is percentile 1 here (see evaluation/tail.py), and its 99.9th
too: of its 100 to 146 users both are the worst or the second worst. A curve is of all seeds' users
together.

Figure 8 is over alpha, the exploitation-exploration ratio. Of a view of three peers, T = (1 -
alpha) 3, to the nearest whole number, are the best heard from: eleven values of alpha are four
systems, one for each T. So a view of six is run beside it. "In an equal number of training rounds",
those of the default alpha.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from entrenous.core.types import Float64Array
from entrenous.evaluation.tail import distribution, tail
from entrenous.report.figures import FigureFormat, lines

from .cell import CurvePoint
from .effort import RowSource
from .findings import against, verdict
from .opened import pepper
from .pepper_accuracy import (
    FEDERATED,
    FOURSQUARE,
    GOSSIP,
    GOWALLA,
    MOVIELENS,
    WHOLE_FOURSQUARE,
    WHOLE_MOVIELENS,
    pepper_of,
    systems_of,
)
from .result import Row
from .study import Looks, Study, System
from .table import PaperTable, Trained, Values, system_rows
from .values import listed, printed, worded

N = 20  # the figures' K
HR = f"hr@{N}"
PERCENTS = (1, 5, 10, 25, 50, 60, 85)
Points = tuple[Float64Array, Float64Array]


def tails(looks: Sequence[CurvePoint], metric: str) -> dict[str, list[float]]:
    """Mean, percentiles (p5, ..) and the mean of the worst tenth of users, a value for each
    seed.
    """
    each = [tail(look.per_user[metric], PERCENTS) for look in looks]
    low = {f"{metric} p{p}": [one.percentile[p] for one in each] for p in PERCENTS}
    return {
        metric: [one.mean for one in each],
        **low,
        f"{metric} worst 10 %": [one.worst[10] for one in each],
    }


def figure(title: str, metric: str, looks: Looks) -> str:
    """The share of users with at most x."""
    values = {
        str(system): [value for look in some for value in look.per_user[metric]]
        for system, some in looks.items()
        if some
    }
    series = {system: steps(some) for system, some in values.items()}
    return lines(
        series,
        FigureFormat(title=title, x_label=metric, y_label="share of users with at most this"),
        marks=False,
    )


def steps(values: Sequence[float]) -> Points:
    """The corners of a distribution, from a share of 0.

    >>> steps([0.2, 1.0])
    (array([0.2, 0.2, 1. , 1. ]), array([0. , 0.5, 0.5, 1. ]))
    """
    found = distribution(values)
    return np.repeat(found.value, 2), np.concatenate([[0], np.repeat(found.share, 2)[:-1]])


# ---- figures 4 to 6 ------------------------------------------------------------------------------


def rows_of(trained: Trained, metrics: Sequence[str]) -> list[Row]:
    """The tails of every system."""
    of = [
        (system, tails(trained.looks[system], metric))
        for metric in metrics
        for system in trained.systems
    ]
    return [row for system, values in of for row in system_rows(trained, system, values, {})]


def worst_tenth(trained: Trained, model: str, metric: str) -> list[str]:
    """The claim: better tails than every decentralised competitor (RQ2)."""
    own, said = pepper_of(trained), []
    if not trained.looks.get(own):
        return []
    tenth = {
        system: tails(looks, metric)[f"{metric} worst 10 %"]
        for system, looks in trained.looks.items()
        if looks
    }
    worst = {system: float(np.mean(values)) for system, values in tenth.items()}
    for who, names in (("without a server", GOSSIP[:-1]), ("with a server", FEDERATED)):
        others = {
            system: worst[system]
            for system in worst
            if system.algorithm.removesuffix(f"-{model}") in names
        }
        above = sum(value < worst[own] for value in others.values())
        of = {"above": above, "several": len(others), "who": who, "listed": listed(others, ".4f")}
        said.append(worded("pepper", "worst-above", **of))
    return [
        worded(
            "pepper",
            "worst",
            name=trained.name,
            metric=metric,
            own=worst[own],
            said="; ".join(said),
        )
    ]


def _figures(trained: Trained, metrics: Sequence[str]) -> dict[str, str]:
    slug, name, looks = trained.slug, trained.name, trained.looks
    return {
        f"{metric.replace('@', '-')}-{slug}": figure(f"{metric}, {name}", metric, looks)
        for metric in metrics
    }


def over_users(
    number: int, what: str, model: str, measures: Sequence[str], *sources: RowSource
) -> PaperTable:
    """One of the figures 4 to 6."""
    metrics = [f"{measure}@{N}" for measure in measures]
    return PaperTable(
        title=f"{what} (PEPPER, figure {number})",
        data=pepper(*sources),
        systems=systems_of(model, ("ials",)),
        metrics=metrics,
        rows=lambda trained: rows_of(trained, metrics),
        findings=[
            lambda trained: [
                note for metric in metrics for note in worst_tenth(trained, model, metric)
            ]
        ],
        figures=lambda trained: _figures(trained, metrics),
    )


# ---- figure 8 ------------------------------------------------------------------------------------

ALPHAS = tuple(n / 10 for n in range(11))
USUAL = 0.4  # the default
VIEWS = (3, 6)
FIGURE_8 = printed("pepper", "fig8")


def best(alpha: float, view: int) -> int:
    """T of algorithm 3."""
    return int((1 - alpha) * view + 0.5)


def with_alpha(alpha: float, view: int) -> System:
    """PEPPER with one alpha for all that have the same T, so that what is the same is trained
    once.
    """
    usual = next(other for other in (USUAL, 1.0, *ALPHAS) if best(other, view) == best(alpha, view))
    more = (
        (("alpha", f"{usual:g}"),)
        if view == VIEWS[0]
        else (("alpha", f"{usual:g}"), ("view", view))
    )
    return System("pepper-gmf", more=more)


def views_of(study: Study) -> tuple[int, ...]:
    """A view of three, and of six in full runs."""
    return VIEWS[:1] if study.quick else VIEWS


def alphas_of(study: Study) -> list[System]:
    """Every T of every view."""
    return list(
        dict.fromkeys(with_alpha(alpha, view) for view in views_of(study) for alpha in ALPHAS)
    )


def alpha_values(trained: Trained, system: System) -> Values:
    """The mean and the lowest users."""
    return tails(trained.looks[system], HR)


def _of_three(trained: Trained) -> list[System]:
    return [system for system in trained.systems if "view" not in dict(system.more)]


def alpha_tests(trained: Trained) -> list[dict[str, Any]]:
    """The default alpha against every other one, of a view of three."""
    usual = with_alpha(USUAL, 3)
    return against(trained, usual, [other for other in _of_three(trained) if other != usual], [HR])


def alpha_notes(trained: Trained) -> list[str]:
    """Which alphas are one system, and whether the best mean is at .4 as in the paper."""
    same = ", ".join(f"{alpha:g}: {best(alpha, 3)}" for alpha in ALPHAS)
    said = "; ".join(map(verdict, trained.tests))
    return [
        worded("pepper", "alphas", name=trained.name, same=same),
        worded("pepper", "best-alpha", name=trained.name, said=said),
    ]


def alpha_figures(trained: Trained) -> dict[str, str]:
    """The mean over alpha, and its distribution over users."""
    series = {}
    for view in views_of(trained.study):
        means = [trained.means([with_alpha(alpha, view)], HR).values() for alpha in ALPHAS]
        series[f"view {view}"] = ALPHAS, [next(iter(mean), float("nan")) for mean in means]
    known = {
        alpha: FIGURE_8.get((str(MOVIELENS), f"pepper-gmf, alpha {alpha:g}", HR))
        for alpha in ALPHAS
    }
    at = {alpha: value for alpha, value in known.items() if value is not None}
    paper, title = {"view 3": (list(at), list(at.values()))}, f"Figure 8b: {trained.name}"
    users = figure(
        f"Figure 8a: {trained.name}", HR, {of: trained.looks[of] for of in _of_three(trained)}
    )
    mean = lines(
        series, FigureFormat(title=title, x_label="alpha", y_label="HR@20"), reference=paper
    )
    return {f"alpha-{trained.slug}": mean, f"alpha-users-{trained.slug}": users}


HR_NDCG = ("hr", "ndcg")
EXPERIMENTS = {
    "pepper-fig4": over_users(
        4,
        "HR and NDCG over users on Foursquare-NYC, GMF",
        "gmf",
        HR_NDCG,
        FOURSQUARE,
        WHOLE_FOURSQUARE,
    ),
    "pepper-fig5": over_users(
        5,
        "HR and NDCG over users on MovieLens-100K, GMF",
        "gmf",
        HR_NDCG,
        MOVIELENS,
        WHOLE_MOVIELENS,
    ),
    "pepper-fig6": over_users(
        6,
        "F1 over users on Foursquare-NYC and Gowalla-NYC, PRME-G",
        "prme-g",
        ("f1_user",),
        FOURSQUARE,
        GOWALLA,
    ),
    "pepper-fig8": PaperTable(
        title="sensitivity to alpha (PEPPER, figure 8)",
        data=pepper(MOVIELENS),
        systems=alphas_of,
        metrics=alpha_values,
        printed=FIGURE_8,
        tests=alpha_tests,
        findings=(alpha_notes,),
        figures=alpha_figures,
    ),
}
