"""The spread of a metric over users, its tails, and the confidence interval of its mean."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..core.compiling import njit
from ..core.keys import below, draw, fold, key
from ..core.types import Float64Array

PERCENTILES = (5, 10, 25, 50, 75, 90, 95)


class Summary(NamedTuple):
    """One metric over users."""

    mean: float
    std: float
    """The population standard deviation over users (Cali3F's fairness: lower is fairer)."""
    percentiles: dict[int, float]
    """{5: ..., 95: ...}, interpolated linearly between users (PEPPER's tails)."""
    low: float
    """The lower end of the bootstrap confidence interval of the mean."""
    high: float
    """The upper end."""
    users: int
    """The number of users."""


def summarise(values: Float64Array, *, seed: int = 0) -> Summary:
    """The `Summary` of per-user values, float64 [m].

    >>> summary = summarise(np.array([0.0, 0.0, 1.0, 1.0]))
    >>> summary.mean, summary.std, summary.percentiles[50]
    (0.5, 0.5, 0.5)
    """
    at_percentiles = np.percentile(values, PERCENTILES).tolist()
    low, high = interval(values, seed=seed)
    return Summary(
        mean=float(values.mean()),
        std=float(values.std()),
        percentiles=dict(zip(PERCENTILES, at_percentiles, strict=True)),
        low=low,
        high=high,
        users=len(values),
    )


def interval(
    values: Float64Array, *, seed: int = 0, resamples: int = 1000, confidence: float = 0.95
) -> tuple[float, float]:
    """The percentile bootstrap interval of the mean over users (Efron 1979); resample b has the key
    (seed, "bootstrap", b).

    The draws depend on the number of values alone, so two systems on the same users are resampled
    alike: `interval(a - b)` is the paired interval of their difference.

    >>> interval(np.full(8, 0.25))
    (0.25, 0.25)
    """
    # One type of array, so that the kernel is compiled once.
    column = np.asarray(values, np.float64)
    means = bootstrap_means(column, resamples, key(seed, "bootstrap"))
    # The share outside the interval in percent, half of it on each side.
    outside = 50 * (1 - confidence)
    low, high = np.percentile(means, [outside, 100 - outside])
    return float(low), float(high)


@njit(cache=True, nogil=True)
def bootstrap_means(values: Float64Array, resamples: int, key: np.uint64) -> Float64Array:
    """The mean of len(values) values drawn with replacement, for each resample, float64
    [resamples].
    """
    means = np.empty(resamples)
    for b in range(resamples):
        # A key of its own, so that a resample does not depend on how many there are.
        resample_key = fold(key, b)
        total = 0.0
        for c in range(len(values)):
            user = below(draw(resample_key, c), len(values))
            total += values[user]
        means[b] = total / len(values)
    return means
