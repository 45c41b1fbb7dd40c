"""Errors of predicted ratings, in units of the rating scale (FBALF, section 5.1.2).

predicted  3.5  4.0  2.0        errors -0.5, 1.0, 0.0
true       4.0  3.0  2.0        MAE (0.5 + 1.0 + 0.0) / 3, RMSE sqrt((0.25 + 1.0 + 0.0) / 3)
"""

from __future__ import annotations

import numpy as np

from ...core.types import Float64Array, Int64Array
from ..metric_kinds import RatingMetric


def mae(error: Float64Array, group: Int64Array) -> Float64Array:
    """MAE: the mean absolute error of each group (a user, or everybody), float64 [groups].

    group: int64 [n], the group of each error; no group is without one.

    >>> mae(np.array([-0.5, 1.0, 0.0]), np.array([0, 0, 1]))
    array([0.75, 0.  ])
    """
    total = np.bincount(group, np.abs(error))
    return total / np.bincount(group)


def rmse(error: Float64Array, group: Int64Array) -> Float64Array:
    """RMSE: the root of the mean squared error of each group (a user, or everybody), float64
    [groups]. Large errors weigh more than in MAE.

    group: int64 [n], the group of each error; no group is without one.

    >>> rmse(np.array([3.0, -4.0, 1.0]), np.array([0, 0, 1]))          # sqrt(1/2 * (9 + 16)), 1
    array([3.53553391, 1.        ])
    """
    total = np.bincount(group, error**2)
    return np.sqrt(total / np.bincount(group))


METRICS = {"mae": RatingMetric(mae), "rmse": RatingMetric(rmse)}
