"""Further tests of a difference between systems: exact Wilcoxon, equal spread, Friedman with mean
ranks, Holm. `chance` has that of means.

Two-system tests take values paired by user, fold or data set. They say nothing about the choice of
data or of split.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from ..core.errors import InputError
from ..core.types import Array, Float64Array
from .chance import difference
from .distributions import chi_square_tail, mean_ranks

Alternative = Literal["two-sided", "less"]
# The relative difference below which squared deviations are equal.
ROUNDING = 1e-12


def wilcoxon(a: Array, b: Array, *, alternative: Alternative = "two-sided") -> float:
    """The exact p-value of Wilcoxon's signed-rank test.

    alternative: `less` tests that a tends to be smaller than b. Zero differences are dropped
    (Wilcoxon 1945), equal ones share their mean rank. The distribution of W+, the sum of the ranks
    of positive differences a - b, is summed up over all 2^n signs, also with ties.

    >>> # all six negative: 1 of 2^6 signs
    >>> wilcoxon([0] * 6, [6, 5, 4, 3, 2, 1], alternative="less")
    0.015625
    >>> wilcoxon([6, 5, 4, 3, 2, 1], [0] * 6)
    0.03125
    """
    differences = _differences(a, b)
    # A zero difference has no sign.
    d = differences[differences != 0]
    if len(d) == 0:
        return 1.0
    rank = mean_ranks(np.abs(d))
    plus = float(rank[d > 0].sum())
    return _exact(rank, plus, alternative)


def _exact(rank: Float64Array, plus: float, alternative: Alternative) -> float:
    """P(W+ at least as extreme as `plus`) if each sign is + or - with probability 1/2."""
    # Mean ranks are multiples of 1/2, so twice a sum of ranks is a whole number.
    steps = np.rint(2 * rank).astype(np.int64)
    at = round(2 * plus)
    # chance[s]: the probability that twice W+ is s, after the signs of the steps so far.
    chance = np.zeros(int(steps.sum()) + 1)
    chance[0] = 1.0
    for step in steps:
        # Half the signs are minus, and leave the sum; half are plus, and add the step.
        chance /= 2
        chance[step:] += chance[:-step].copy()
    less = float(chance[: at + 1].sum())
    if alternative == "less":
        return less
    greater = float(chance[at:].sum())
    return min(1.0, 2 * greater, 2 * less)


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


def _differences(a: Array, b: Array) -> Float64Array:
    """a - b, float64 [pairs]. Raises InputError unless both are columns of finite values."""
    d = np.asarray(a, np.float64) - np.asarray(b, np.float64)
    if d.ndim != 1 or not np.isfinite(d).all():
        raise InputError(
            "significance test",
            "the values are not two finite columns",
            expected="one finite value per pair",
        )
    return d


class Friedman(NamedTuple):
    """The result of Friedman's test."""

    statistic: float
    """Chi-square with k - 1 degrees of freedom, corrected for ties."""
    p: float
    mean_rank: dict[str, float]
    """The mean rank of each system, 1 = best."""


def friedman(errors: Mapping[str, Sequence[float]]) -> Friedman:
    """Friedman's test over the blocks (data sets, folds, users) that all systems were measured on;
    the least error has rank 1, and ties share their mean rank.

    FBALF's table prints `mean_rank` as F-rank. Two systems are compared like three or more.

    >>> # b is second, second, third
    >>> friedman({"a": [1, 1, 1], "b": [2, 2, 3], "c": [3, 3, 2]}).mean_rank
    {'a': 1.0, 'b': 2.3333333333333335, 'c': 2.6666666666666665}
    """
    table = np.array(list(errors.values()), np.float64).T
    if table.ndim != 2 or table.shape[1] < 2 or not np.isfinite(table).all():
        raise InputError(
            "Friedman test",
            "the values are not a finite table",
            expected="two or more systems on the same blocks",
        )
    n, k = table.shape
    rank = np.apply_along_axis(mean_ranks, 1, table)
    # Ties lower the variance within a block; it is 0 if all systems are equal everywhere.
    variance = rank.var(axis=1).sum()
    statistic = 0.0
    if variance:
        expected = n * (k + 1) / 2
        squares = ((rank.sum(axis=0) - expected) ** 2).sum()
        statistic = float(squares * (k - 1) / (k * variance))
    p = chi_square_tail(statistic, k - 1)
    mean_rank = rank.mean(axis=0).tolist()
    return Friedman(statistic, p, dict(zip(errors, mean_rank, strict=True)))


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
