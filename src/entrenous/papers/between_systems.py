"""Paired t-tests between systems, over users, corrected for their number; and what they say in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from ..core.types import Float64Array
from ..evaluate.significance import Comparison, holm, paired_t
from .cell import CurvePoint

S = TypeVar("S")
SIGNIFICANT = 0.05


def user_means(looks: Sequence[CurvePoint], metric: str) -> Float64Array:
    """Each user's mean over seeds, float64 [users]."""
    return np.mean([look.per_user[metric] for look in looks], axis=0)


def mean_fairness(looks: Sequence[CurvePoint], metric: str) -> float:
    """A figure of fairness, mean over seeds."""
    return float(np.mean([look.fairness[metric] for look in looks]))


def against(
    data: str, looks: Mapping[S, Sequence[CurvePoint]], a: S, others: Sequence[S], metrics: Sequence[str]
) -> list[dict[str, Any]]:
    """Student's paired t of `a` and each of the others, over users' means; Holm over the pairs of a metric."""
    return tested_pairs(data, looks, [(a, other) for other in others if looks.get(other) and looks.get(a)], metrics)


def tested_pairs(
    data: str, looks: Mapping[S, Sequence[CurvePoint]], pairs: Sequence[tuple[S, S]], metrics: Sequence[str]
) -> list[dict[str, Any]]:
    """Student's paired t of each pair, over users' means; Holm over the pairs of a metric. t: None where it is infinite."""
    found: list[dict[str, Any]] = []
    for metric in metrics:
        tests = [(a, b, _compared(looks, a, b, metric)) for a, b in pairs]
        for (a, b, test), adjusted in zip(tests, holm([test.p for _, _, test in tests]), strict=True):
            t = test.statistic if abs(test.statistic) < float("inf") else None
            measured = {"difference": test.difference, "t": t, "p": test.p, "p_holm": float(adjusted), "users": test.pairs}
            found.append({"data": data, "a": str(a), "b": str(b), "metric": metric, **measured})
    return found


def _compared(looks: Mapping[S, Sequence[CurvePoint]], a: S, b: S, metric: str) -> Comparison:
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
