"""MAE: how far predicted ratings are from the true ones, in the mean (FBALF, section 5.1.2). In
units of the rating scale.

predicted  3.5  4.0  2.0        errors -0.5, 1.0, 0.0: 1/3 * (0.5 + 1.0 + 0.0)
true       4.0  3.0  2.0
"""

from __future__ import annotations

import numpy as np

from ...core.types import Float64Array, Int64Array
from ..metric_kinds import RatingMetric


def mae(error: Float64Array, group: Int64Array) -> Float64Array:
    """The mean absolute error of each group (a user, or everybody), float64 [groups]. group: int64
    [n], no group without an error.

    >>> mae(np.array([-0.5, 1.0, 0.0]), np.array([0, 0, 1]))
    array([0.75, 0.  ])
    """
    return np.bincount(group, np.abs(error)) / np.bincount(group)


METRICS = {"mae": RatingMetric(mae)}
