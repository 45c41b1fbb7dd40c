"""Who is served badly (PEPPER, section 5.5.2): the tail of a metric over users, and its cumulative
distribution, figures 4 to 6.

A point (x, y) of the figures is the share y of users whose value is at most x, so the curve
furthest to the right is the best one. The value at a share of .01 is what PEPPER calls the 99th
percentile, counted from the best user (it once writes "a CDF of 0.1"); here it is percentile 1. It
is the value of a user, never one between two: per-user rates are steps of 1 / (test items), and
what is read off a step curve is a step.

    users' HR@20         0   .2   .2   1         worst 25 %: 1 of 4 users
    share at most        1/4  3/4  3/4  1        percentile 1, 5, 10, 25: 0;  median (50): .2
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
    """One metric over users, where more is better.

    mean: over all of them. percentile: {1: ..., 50: ...}, the lowest value that at least so many
    percent of the users do not exceed. worst: the same keys, the mean over the worst so many
    percent of the users (rounded up), which also tells how bad it is below. users: how many.
    """

    mean: float
    percentile: dict[int, float]
    worst: dict[int, float]
    users: int


class Distribution(NamedTuple):
    """An empirical cumulative distribution. value: float64 [k], distinct, ascending. share: float64
    [k], of the users with at most it.
    """

    value: Float64Array
    share: Float64Array

    def at(self, value: float) -> float:
        """The share of users with at most this value.

        >>> distribution([0, 0.2, 0.2, 1]).at(0.5)
        0.75
        """
        below = int(np.searchsorted(self.value, value, side="right"))
        return float(self.share[below - 1]) if below else 0.0


def tail(values: Array | Sequence[float], percents: Sequence[int] = PERCENTS) -> Tail:
    """The Tail of per-user values, float64 [m]. Raises InputError without values, for one that is
    not finite, or a percentage outside 1..100.

    >>> found = tail([1.0, 0.2, 0.0, 0.2])
    >>> found.percentile[25], found.percentile[50], found.worst[50]
    (0.0, 0.2, 0.1)
    """
    ascending = _ascending(values)
    if outside := [p for p in percents if not 1 <= p <= 100]:
        raise InputError("percents", f"got {outside[0]}", expected="whole numbers from 1 to 100")
    first = {p: math.ceil(p * len(ascending) / 100) for p in percents}
    return Tail(
        mean=float(ascending.mean()),
        percentile={p: float(ascending[few - 1]) for p, few in first.items()},
        worst={p: float(ascending[:few].mean()) for p, few in first.items()},
        users=len(ascending),
    )


def distribution(values: Array | Sequence[float]) -> Distribution:
    """The Distribution of per-user values, float64 [m]. Raises InputError as `tail` does.

    >>> found = distribution([1.0, 0.2, 0.0, 0.2])
    >>> found.value.tolist(), found.share.tolist()
    ([0.0, 0.2, 1.0], [0.25, 0.75, 1.0])
    """
    ascending = _ascending(values)
    value, counts = np.unique(ascending, return_counts=True)
    return Distribution(value, np.cumsum(counts) / len(ascending))


def _ascending(values: Array | Sequence[float]) -> Float64Array:
    column = np.sort(np.asarray(values, np.float64))
    if column.ndim != 1 or not len(column) or not np.isfinite(column).all():
        raise InputError(
            "tail of a metric",
            "the values are not a finite column",
            expected="one finite value for each user",
        )
    return column
