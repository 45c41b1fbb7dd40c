"""Further tests of a difference between systems: equal spread, Holm. `chance` has that of means.

They say nothing about the choice of data or of split.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..core.errors import InputError
from ..core.types import Array, Float64Array
from .chance import difference

# The relative difference below which squared deviations are equal.
ROUNDING = 1e-12


class SpreadDifference(NamedTuple):
    """The difference of two standard deviations over users, with its test."""

    statistic: float
    p: float
    """The p-value."""
    difference: float
    """std(a) - std(b), population values, the mean over seeds."""
    users: int
    holds: str
    """The sources of chance that p counts, in words."""


def paired_spread(a: Array, b: Array) -> SpreadDifference:
    """Tests that two systems have the same standard deviation over users, two-sided. a, b: as of
    `chance.difference`.

    Pitman (1939) and Morgan (1939) test that a + b and a - b are uncorrelated, for their covariance
    is var(a) - var(b); their p needs normal values, and on hits and misses it finds a difference at
    5 % where there is none in up to 55 % of samples. So the same covariance is divided by its own
    standard error, which is that of the squared deviations: 3 to 6 % in those samples.

    >>> # squares 4 4 4 4 and 1 0 0 1: differences 3 4 4 3
    >>> round(paired_spread([0, 0, 4, 4], [1, 2, 2, 3]).statistic, 4)
    12.1244
    """
    left = np.atleast_2d(np.asarray(a, np.float64))
    right = np.atleast_2d(np.asarray(b, np.float64))
    # For its checks alone.
    difference(left, right)
    users = left.shape[1]
    if users < 3:
        raise InputError("test of equal spread", f"{users} pairs", expected="at least three pairs")
    left_squares = (left - np.nanmean(left, axis=1, keepdims=True)) ** 2
    right_squares = (right - np.nanmean(right, axis=1, keepdims=True)) ** 2
    # The deviations of a and of a + 0.1 differ by rounding alone, which is no difference.
    largest = max(np.nanmax(left_squares), np.nanmax(right_squares))
    same = np.isclose(left_squares, right_squares, rtol=ROUNDING, atol=ROUNDING * largest)
    right_squares = np.where(same, left_squares, right_squares)
    found = difference(left_squares, right_squares)
    stds = np.nanstd(left, axis=1) - np.nanstd(right, axis=1)
    return SpreadDifference(found.t(), found.p(), float(stds.mean()), users, found.holds)


def holm(p: Sequence[float]) -> Float64Array:
    """Holm's (1979) adjusted p-values, in the order of `p`. All tests whose adjusted p is at most
    alpha are significant together.

    >>> holm([0.01, 0.04, 0.03])      # sorted: 3 * 0.01, 2 * 0.03, max with 1 * 0.04
    array([0.03, 0.06, 0.06])
    """
    values = np.asarray(p, np.float64)
    order = np.argsort(values, kind="stable")
    # The smallest p is multiplied by the number of tests, the next by one less, and so on.
    tests_left = np.arange(len(values), 0, -1)
    multiplied = values[order] * tests_left
    # An adjusted p is never below that of a smaller p.
    adjusted = np.maximum.accumulate(multiplied)
    in_given_order = np.empty_like(values)
    in_given_order[order] = np.minimum(adjusted, 1)
    return in_given_order
