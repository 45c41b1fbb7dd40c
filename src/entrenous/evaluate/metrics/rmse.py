"""RMSE: the root of the mean squared error of predicted ratings (FBALF, section 5.1.2). Large
errors weigh more than in MAE.

predicted  3.5  4.0  2.0        errors -0.5, 1.0, 0.0: sqrt(1/3 * (0.25 + 1.0 + 0.0))
true       4.0  3.0  2.0
"""

from __future__ import annotations

import numpy as np

from ...core.types import Float64Array, Int64Array
from ..metric_kinds import RatingMetric


def rmse(error: Float64Array, group: Int64Array) -> Float64Array:
    """The root mean squared error of each group (a user, or everybody), float64 [groups]. group:
    int64 [n], no group without an error.

    >>> rmse(np.array([3.0, -4.0, 1.0]), np.array([0, 0, 1]))          # sqrt(1/2 * (9 + 16)), 1
    array([3.53553391, 1.        ])
    """
    return np.sqrt(np.bincount(group, error**2) / np.bincount(group))


METRICS = {"rmse": RatingMetric(rmse)}
