"""Errors of predicted ratings by group: strict and generous users, rare and popular items (FBALF,
section 1: nice users and tough ones).
"""

from __future__ import annotations

import numpy as np

from ..core.types import BoolArray, Float32Array, Float64Array
from ..data.interactions import Interactions
from .ratings import rating_metrics

QUARTER = 4
EVERYBODY, STRICT, GENEROUS = "all", "strict users", "generous users"
RARE, POPULAR = "rare items", "popular items"
OFFSET = "mean error"  # predicted minus true: above 0, ratings are promised that are not given


def error_groups(train: Interactions, held: Interactions) -> dict[str, BoolArray]:
    """The held-out rows of each group, bool [rows].

    Strict and generous: the quarters of users with the lowest and highest mean training rating.
    Rare and popular: the quarters of items with the fewest and most training rows, of those that
    have any. Only training rows decide."""
    rows = np.maximum(train.counts, 1)
    mean = (
        np.bincount(train.user, train.value.astype(np.float64), minlength=len(train.users)) / rows
    )
    strict, generous = _ends(mean, train.counts > 0)
    rare, popular = _ends(train.popularity.astype(np.float64), train.popularity > 0)
    return {
        EVERYBODY: np.ones(len(held), np.bool_),
        STRICT: strict[held.user],
        GENEROUS: generous[held.user],
        RARE: rare[held.item],
        POPULAR: popular[held.item],
    }


def _ends(value: Float64Array, counted: BoolArray) -> tuple[BoolArray, BoolArray]:
    """The lowest and the highest quarter of those that are counted; equal values in the order of
    their numbers.
    """
    order = np.lexsort((np.arange(len(value)), value))
    order = order[counted[order]]
    size = max(1, len(order) // QUARTER)
    lowest, highest = np.zeros((2, len(value)), np.bool_)
    lowest[order[:size]] = True
    highest[order[-size:]] = True
    return lowest, highest


def errors_by_group(
    train: Interactions, held: Interactions, predicted: Float32Array
) -> dict[str, dict[str, float]]:
    """{"mae": {group: value}, "rmse": ..., OFFSET: ..., "rows": ...} of predicted ratings; groups
    without a held-out row are left out.

    predicted: float32 [rows], clipped.
    """
    error = predicted.astype(np.float64) - held.value
    kinds = rating_metrics()
    table: dict[str, dict[str, float]] = {name: {} for name in (*kinds, OFFSET, "rows")}
    for group, rows in error_groups(train, held).items():
        if not rows.any():
            continue
        errors = error[rows]
        one_group = np.zeros(len(errors), np.int64)
        for name, metric in kinds.items():
            table[name][group] = float(metric.value(errors, one_group)[0])
        table[OFFSET][group] = float(errors.mean())
        table["rows"][group] = float(len(errors))
    return table
