"""Tests of a difference between systems: paired t, exact Wilcoxon, equal spread, Friedman with
mean ranks, Holm.

Two-system tests take values paired by user, fold or data set. They say nothing about the choice of
data or of split.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from ..core.errors import InputError
from ..core.types import Array, Float64Array
from .distributions import chi_square_tail, mean_ranks, normal_tail, t_above, t_tail

Alternative = Literal["two-sided", "less"]
# Up to this many differences Wilcoxon's test is exact; beyond, the normal approximation is good to
# four digits.
EXACT_UP_TO = 200
# The relative difference below which squared deviations are equal.
ROUNDING = 1e-12


class PairedTest(NamedTuple):
    """The result of a paired test."""

    statistic: float
    p: float
    """The p-value."""
    difference: float
    """The mean of the differences a - b."""
    pairs: int
    method: str
    """How p was computed."""


def paired_t(a: Array, b: Array) -> PairedTest:
    """Student's paired t-test, two-sided (FPL, section 5.4). Without any difference the statistic
    is 0.

    >>> # mean 2, standard deviation 1, n = 3: 2 / (1 / sqrt 3)
    >>> round(paired_t([1, 2, 3], [0, 0, 0]).statistic, 4)
    3.4641
    """
    d = _differences(a, b)
    if len(d) < 2:
        raise InputError("paired t-test", f"{len(d)} pair", expected="at least two pairs")
    mean = float(d.mean())
    statistic = 0.0
    if d.any():
        # The same difference everywhere has no error, and the statistic is infinite.
        with np.errstate(divide="ignore"):
            statistic = float(d.mean() / _standard_error(d))
    p = 2 * t_tail(abs(statistic), len(d) - 1)
    return PairedTest(statistic, p, mean, len(d), "t")


def _standard_error(differences: Float64Array) -> np.float64:
    """The standard error of the mean of some differences."""
    deviation: np.float64 = differences.std(ddof=1)
    return deviation / np.sqrt(len(differences))


def interval(a: Array, b: Array, share: float = 0.95) -> tuple[float, float]:
    """Student's t interval of the mean of the differences a - b at the confidence `share`.

    >>> [round(end, 3) for end in interval([1, 2, 3], [0, 0, 0])]       # 2 +- 4.303 / sqrt 3
    [-0.484, 4.484]
    """
    d = _differences(a, b)
    mean = float(d.mean())
    if len(d) < 2:
        return -np.inf, np.inf
    tail = (1 - share) / 2
    half = t_above(tail, len(d) - 1) * float(_standard_error(d))
    return mean - half, mean + half


def wilcoxon(a: Array, b: Array, *, alternative: Alternative = "two-sided") -> PairedTest:
    """Wilcoxon's signed-rank test; the statistic is W+, the sum of the ranks of positive
    differences a - b.

    alternative: `less` tests that a tends to be smaller than b. Zero differences are dropped
    (Wilcoxon 1945), equal ones share their mean rank. Up to 200 differences p is exact, also with
    ties: the distribution of W+ over all 2^n signs is summed up. Beyond, p is that of the normal
    approximation with the correction for ties.

    >>> # all six negative: 1 of 2^6 signs
    >>> wilcoxon([0] * 6, [6, 5, 4, 3, 2, 1], alternative="less").p
    0.015625
    >>> wilcoxon([6, 5, 4, 3, 2, 1], [0] * 6).p
    0.03125
    """
    differences = _differences(a, b)
    # A zero difference has no sign.
    d = differences[differences != 0]
    if len(d) == 0:
        return PairedTest(0.0, 1.0, 0.0, 0, "no difference")
    mean = float(differences.mean())
    rank = mean_ranks(np.abs(d))
    plus = float(rank[d > 0].sum())
    if len(d) <= EXACT_UP_TO:
        p = _exact(rank, plus, alternative)
        return PairedTest(plus, p, mean, len(d), "exact")
    # If no sign is likelier, W+ has this mean and this standard deviation, ties included.
    expected = float(rank.sum()) / 2
    deviation = np.sqrt((rank**2).sum() / 4)
    standardised = float((plus - expected) / deviation)
    p = normal_tail(-standardised)
    if alternative == "two-sided":
        p = 2 * normal_tail(abs(standardised))
    return PairedTest(plus, p, mean, len(d), "normal")


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


def paired_spread(a: Array, b: Array) -> PairedTest:
    """Tests that paired columns have the same standard deviation, two-sided. The `difference` of
    the result is std(a) - std(b), population values.

    Pitman (1939) and Morgan (1939) test that a + b and a - b are uncorrelated, for their covariance
    is var(a) - var(b); their p needs normal values, and on hits and misses it finds a difference at
    5 % where there is none in up to 55 % of samples. So the same covariance is divided by its own
    standard error, which is the paired t of the squared deviations: 3 to 6 % in those samples.

    >>> # squares 4 4 4 4 and 1 0 0 1: differences 3 4 4 3
    >>> round(paired_spread([0, 0, 4, 4], [1, 2, 2, 3]).statistic, 4)
    12.1244
    """
    # For its checks alone: two finite columns of one length.
    _differences(a, b)
    left = np.asarray(a, np.float64)
    right = np.asarray(b, np.float64)
    if len(left) < 3:
        raise InputError(
            "test of equal spread", f"{len(left)} pairs", expected="at least three pairs"
        )
    left_squares = (left - left.mean()) ** 2
    right_squares = (right - right.mean()) ** 2
    # The deviations of a and of a + 0.1 differ by rounding alone, which is no difference.
    largest = max(left_squares.max(), right_squares.max())
    same = np.isclose(left_squares, right_squares, rtol=ROUNDING, atol=ROUNDING * largest)
    right_squares = np.where(same, left_squares, right_squares)
    t = paired_t(left_squares, right_squares)
    difference = float(left.std() - right.std())
    return PairedTest(t.statistic, t.p, difference, len(left), "t of squared deviations")


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
