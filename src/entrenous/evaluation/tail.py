"""The tail of a metric over users, which tells how badly the worst-served users fare, and its
cumulative distribution (PEPPER, section 5.5.2 and figures 4 to 6).

A point (x, y) of the figures is the share y of users whose value is at most x, so the curve
furthest to the right is the best one. The value at a share of 0.01 is what PEPPER calls the 99th
percentile, counted from the best user (it once writes "a CDF of 0.1"); here it is percentile 1. It
is the value of a user, never interpolated between two: per-user rates are steps of
1 / (test items), and so is their distribution.

    users' HR@20         0    0.2  0.2  1        worst 25 %: 1 of 4 users
    share at most        1/4  3/4  3/4  1        percentile 1, 5, 10, 25: 0;  median (50): 0.2
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..core.errors import InputError
from ..core.types import Array, Float64Array

PERCENTS = (1, 5, 10, 25, 50)


class Tail(NamedTuple):
    """The mean and the tail over users of a metric of which more is better."""

    mean: float
    percentile: dict[int, float]
    """{p: the lowest value that at least p percent of the users do not exceed}."""
    worst: dict[int, float]
    """{p: the mean over the worst p percent of the users, rounded up}."""
    users: int
    """The number of users."""


class Distribution(NamedTuple):
    """An empirical cumulative distribution."""

    value: Float64Array
    """float64 [k], distinct and ascending."""
    share: Float64Array
    """float64 [k]: the share of users with at most that value."""


def tail(values: Array | Sequence[float], percents: Sequence[int] = PERCENTS) -> Tail:
    """The `Tail` of per-user values, float64 [m]. Raises InputError if there are none, for one that
    is not finite, and for a percentage outside 1..100.

    >>> rates = tail([1.0, 0.2, 0.0, 0.2])
    >>> rates.percentile[25], rates.percentile[50], rates.worst[50]
    (0.0, 0.2, 0.1)
    """
    ascending = _ascending(values)
    percentile: dict[int, float] = {}
    worst: dict[int, float] = {}
    for p in percents:
        if not 1 <= p <= 100:
            raise InputError("percents", f"got {p}", expected="whole numbers from 1 to 100")
        # Rounded up, so that at least p percent of the users are among them.
        users = math.ceil(p * len(ascending) / 100)
        percentile[p] = float(ascending[users - 1])
        worst[p] = float(ascending[:users].mean())
    return Tail(float(ascending.mean()), percentile, worst, len(ascending))


def distribution(values: Array | Sequence[float]) -> Distribution:
    """The `Distribution` of per-user values, float64 [m]. Raises InputError as `tail` does.

    >>> rates = distribution([1.0, 0.2, 0.0, 0.2])
    >>> rates.value.tolist(), rates.share.tolist()
    ([0.0, 0.2, 1.0], [0.25, 0.75, 1.0])
    """
    ascending = _ascending(values)
    value, counts = np.unique(ascending, return_counts=True)
    users_up_to = np.cumsum(counts)
    return Distribution(value, users_up_to / len(ascending))


def _ascending(values: Array | Sequence[float]) -> Float64Array:
    """The values sorted, float64 [m]. Raises InputError unless they are a finite column."""
    # Sorted once: percentiles are places, and the worst users come first.
    column = np.sort(np.asarray(values, np.float64))
    finite = np.isfinite(column).all()
    if column.ndim != 1 or not len(column) or not finite:
        raise InputError(
            "tail of a metric",
            "the values are not a finite column",
            expected="one finite value for each user",
        )
    return column
