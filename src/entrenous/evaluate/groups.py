"""Whose ratings are predicted badly: strict and generous users, rare and popular items (FBALF,
section 1: nice users and tough ones).
"""

from __future__ import annotations

import numpy as np

from ..core.types import BoolArray, Float32Array, Float64Array
from ..data.interactions import Interactions
from .metric_kinds import RatingMetric, metrics

QUARTER = 4
EVERYBODY, STRICT, GENEROUS = "all", "strict users", "generous users"
RARE, POPULAR = "rare items", "popular items"
OFFSET = "mean error"  # predicted minus true: above 0, ratings are promised that are not given


def error_groups(train: Interactions, held: Interactions) -> dict[str, BoolArray]:
    """Which held-out rows belong to each group, bool [rows].

    Strict and generous: the quarters of users with the lowest and highest mean training rating.
    Rare and popular: the quarters of items with the fewest and most training rows, of those that
    have any. Only training rows decide."""
    rows = np.maximum(train.counts, 1)
    mean = (
        np.bincount(train.user, train.value.astype(np.float64), minlength=len(train.users)) / rows
    )
    strict, generous = _ends(mean, train.counts > 0)
    rare, popular = _ends(train.popularity.astype(np.float64), train.popularity > 0)
    of_users, of_items = {STRICT: strict, GENEROUS: generous}, {RARE: rare, POPULAR: popular}
    found = {EVERYBODY: np.ones(len(held), np.bool_)}
    found |= {name: member[held.user] for name, member in of_users.items()}
    return found | {name: member[held.item] for name, member in of_items.items()}


def _ends(value: Float64Array, counted: BoolArray) -> tuple[BoolArray, BoolArray]:
    """The lowest and the highest quarter of those that are counted; equal values in the order of
    their numbers.
    """
    order = np.lexsort((np.arange(len(value)), value))
    order = order[counted[order]]
    size, ends = max(1, len(order) // QUARTER), np.zeros((2, len(value)), np.bool_)
    ends[0, order[:size]], ends[1, order[-size:]] = True, True
    return ends[0], ends[1]


def errors_by_group(
    train: Interactions, held: Interactions, predicted: Float32Array
) -> dict[str, dict[str, float]]:
    """{"mae": {group: value}, "rmse": ..., OFFSET: ..., "rows": ...} of predicted ratings; groups
    without a held-out row are left out.

    predicted: float32 [rows], clipped.
    """
    error = predicted.astype(np.float64) - held.value
    groups = {name: rows for name, rows in error_groups(train, held).items() if rows.any()}
    of = {name: metric for name, metric in metrics().items() if isinstance(metric, RatingMetric)}
    found: dict[str, dict[str, float]] = {name: {} for name in (*of, OFFSET, "rows")}
    for group, rows in groups.items():
        own, together = error[rows], np.zeros(int(rows.sum()), np.int64)
        for name, metric in of.items():
            found[name][group] = float(metric.value(own, together)[0])
        found[OFFSET][group], found["rows"][group] = float(own.mean()), float(len(own))
    return found
