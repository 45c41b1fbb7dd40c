"""Errors of predicted ratings by group: strict and generous users, rare and popular items (FBALF,
section 1: nice users and tough ones).
"""

from __future__ import annotations

import numpy as np

from entrenous.core.types import BoolArray, Float32Array, Float64Array
from entrenous.data.interactions import Interactions
from entrenous.evaluation.ratings import rating_metrics

QUARTER = 4
EVERYBODY, STRICT, GENEROUS = "all", "strict users", "generous users"
RARE, POPULAR = "rare items", "popular items"
# Predicted minus true: above 0, the ratings that are promised are higher than those that are given.
OFFSET = "mean error"


def error_groups(train: Interactions, held: Interactions) -> dict[str, BoolArray]:
    """The held-out rows of each group, bool [rows].

    Strict and generous: the quarters of users with the lowest and highest mean training rating.
    Rare and popular: the quarters of items with the fewest and most training rows, of those that
    have any. Only training rows decide.
    """
    ratings = train.value.astype(np.float64)
    total = np.bincount(train.user, ratings, minlength=len(train.users))
    # A user without training rows gets 0 here and is not counted below.
    mean = total / np.maximum(train.counts, 1)
    strict, generous = _ends(mean, train.counts > 0)
    popularity = train.popularity.astype(np.float64)
    rare, popular = _ends(popularity, train.popularity > 0)
    return {
        EVERYBODY: np.ones(len(held), np.bool_),
        STRICT: strict[held.user],
        GENEROUS: generous[held.user],
        RARE: rare[held.item],
        POPULAR: popular[held.item],
    }


def _ends(value: Float64Array, counted: BoolArray) -> tuple[BoolArray, BoolArray]:
    """The lowest and the highest quarter of the counted values; equal values in the order of their
    numbers. Both are bool, as long as `value`.
    """
    number = np.arange(len(value))
    ascending = np.lexsort((number, value))
    ascending = ascending[counted[ascending]]
    size = max(1, len(ascending) // QUARTER)
    lowest, highest = np.zeros((2, len(value)), np.bool_)
    lowest[ascending[:size]] = True
    highest[ascending[-size:]] = True
    return lowest, highest


def errors_by_group(
    train: Interactions, held: Interactions, predicted: Float32Array
) -> dict[str, dict[str, float]]:
    """{"mae": {group: value}, "rmse": ..., OFFSET: ..., "rows": ...} of predicted ratings; groups
    without a held-out row are left out.

    predicted: float32 [rows], clipped.
    """
    error = predicted.astype(np.float64) - held.value
    metrics = rating_metrics()
    table: dict[str, dict[str, float]] = {name: {} for name in (*metrics, OFFSET, "rows")}
    for group, rows in error_groups(train, held).items():
        # A mean over no error would be NaN.
        if not rows.any():
            continue
        errors = error[rows]
        # A metric has a value for each of its own groups; here all errors are one.
        one_group = np.zeros(len(errors), np.int64)
        for name, metric in metrics.items():
            values = metric.value(errors, one_group)
            table[name][group] = float(values[0])
        table[OFFSET][group] = float(errors.mean())
        table["rows"][group] = float(len(errors))
    return table
