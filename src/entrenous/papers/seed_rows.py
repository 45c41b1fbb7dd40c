"""Rows that are means over seeds, tests between systems over users, and how soon a curve comes near its best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from ..core.types import Float64Array
from ..evaluate.goal import RANKING
from ..evaluate.significance import Comparison, holm, paired_t
from .cell import Look, Outcome
from .ncf_study import NcfStudy, System
from .result import Paper, Row, row

S = TypeVar("S")
WITHIN = 0.05  # "within 5 % of the best": the first look at 95 % of it or more
SIGNIFICANT = 0.05


class Trainable(Protocol):
    """What is trained, whatever the study: an algorithm, and settings in place of those chosen for it."""

    @property
    def algorithm(self) -> str: ...
    @property
    def more(self) -> tuple[tuple[str, Any], ...]: ...


def seed_row(
    data: str,
    system: Trainable,
    metric: str,
    values: Sequence[float],
    *,
    paper: Paper,
    protocol: str,
    seeds: Sequence[int],
    **more: Any,
) -> Row:
    """A row with the mean, the sample standard deviation (None of one) and the values of every seed; empty values: it diverged."""
    obtained = float(np.mean(values)) if len(values) else None
    spread = float(np.std(values, ddof=1)) if len(values) > 1 else None
    printed = paper.get((data, str(system) if system.more else system.algorithm, metric))
    return row(
        data,
        str(system),
        metric,
        paper=printed,
        obtained=obtained,
        protocol=protocol if len(values) else f"{protocol}; training diverged",
        reading="",
        spread=spread,
        values=[float(value) for value in values],
        seeds=list(seeds),
        **more,
    )


def seed_rows(study: NcfStudy, system: System, values: Mapping[str, Sequence[float]], **more: Any) -> list[Row]:
    """`seed_row` for each metric: {metric: the value of every seed}."""
    settings = study.settings(system)
    return [seed_row(study.data.name, system, metric, some, settings=settings, **more) for metric, some in values.items()]


def fairness_mean(looks: Sequence[Look], metric: str) -> float:
    """A figure of fairness, mean over seeds."""
    return float(np.mean([look.fairness[metric] for look in looks]))


# ---- curves ------------------------------------------------------------------------------------------------------------------------


class Pace(NamedTuple):
    """A curve on validation. best: its highest look, the earliest of equals; near: the first within WITHIN of it; last: its end."""

    best: Look
    near: Look
    last: Look

    @property
    def omitted(self) -> float:
        """The share of the rounds to the best that are left when it is near it."""
        return 1 - self.near.rounds / self.best.rounds

    @property
    def rising(self) -> bool:
        """Whether it was best at its end: it might have gained from more rounds."""
        return self.best is self.last


def pace(outcome: Outcome) -> Pace | None:
    """The pace of one training; None if it diverged before the first look."""
    if not outcome.looks:
        return None
    best = max(outcome.looks, key=lambda look: look.metrics[RANKING.metric])
    near = reached(outcome, (1 - WITHIN) * best.metrics[RANKING.metric])
    return Pace(best, best if near is None else near, outcome.looks[-1])


def paces(outcomes: Sequence[Outcome]) -> list[Pace]:
    """The paces of several seeds; none if one of them diverged."""
    found = [one for outcome in outcomes if (one := pace(outcome)) is not None]
    return found if len(found) == len(outcomes) else []


def reached(outcome: Outcome, level: float) -> Look | None:
    """The first look at a level of RANKING's metric or more; None if there is none."""
    return next((look for look in outcome.looks if look.metrics[RANKING.metric] >= level), None)


# ---- between systems, over users -----------------------------------------------------------------------------------------------------


def user_means(looks: Sequence[Look], metric: str) -> Float64Array:
    """Each user's mean over seeds, float64 [users]."""
    return np.mean([look.per_user[metric] for look in looks], axis=0)


def against(
    data: str, looks: Mapping[S, Sequence[Look]], a: S, others: Sequence[S], metrics: Sequence[str]
) -> list[dict[str, Any]]:
    """Student's paired t of `a` and each of the others, over users' means; Holm over the pairs of a metric."""
    found: list[dict[str, Any]] = []
    for metric in metrics:
        pairs = [(other, _compared(looks, a, other, metric)) for other in others if looks.get(other) and looks.get(a)]
        for (other, test), adjusted in zip(pairs, holm([test.p for _, test in pairs]), strict=True):
            t = test.statistic if abs(test.statistic) < float("inf") else None
            measured = {"difference": test.difference, "t": t, "p": test.p, "p_holm": float(adjusted), "users": test.pairs}
            found.append({"data": data, "a": str(a), "b": str(other), "metric": metric, **measured})
    return found


def _compared(looks: Mapping[S, Sequence[Look]], a: S, b: S, metric: str) -> Comparison:
    return paired_t(user_means(looks[a], metric), user_means(looks[b], metric))


def verdict(test: Mapping[str, Any]) -> str:
    """A test in words.

    >>> verdict({"a": "x", "b": "y", "difference": 0.02, "p_holm": 0.001})
    'x is above y by 0.0200 (p = 0.001)'
    """
    sure, lead = test["p_holm"] < SIGNIFICANT, test["difference"]
    where = ("above" if lead > 0 else "below") if sure else "not told apart from"
    by = f" by {abs(lead):.4f}" if sure else f", {lead:+.4f}"
    return f"{test['a']} is {where} {test['b']}{by} (p = {test['p_holm']:.2g})"
