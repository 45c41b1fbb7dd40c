"""The spread of a metric over users, its tails, and the confidence interval of its mean."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from ..core.keys import below, draw, fold, key
from ..core.types import Float64Array

PERCENTILES = (5, 10, 25, 50, 75, 90, 95)


class Summary(NamedTuple):
    """One metric over users."""

    mean: float
    std: float
    """The population standard deviation over users (Cali3F's fairness: lower is fairer)."""
    percentiles: dict[int, float]
    """{5: ..., 95: ...}, linear between users (PEPPER's tails)."""
    low: float
    """The lower end of the bootstrap confidence interval of the mean."""
    high: float
    users: int
    """The number of users."""


def summarise(
    values: Float64Array, *, seed: int = 0, resamples: int = 1000, confidence: float = 0.95
) -> Summary:
    """The `Summary` of per-user values, float64 [m].

    >>> summary = summarise(np.array([0.0, 0.0, 1.0, 1.0]))
    >>> summary.mean, summary.std, summary.percentiles[50]
    (0.5, 0.5, 0.5)
    """
    tails = np.percentile(values, PERCENTILES)
    low, high = interval(values, seed=seed, resamples=resamples, confidence=confidence)
    spread = {p: float(value) for p, value in zip(PERCENTILES, tails, strict=True)}
    return Summary(float(values.mean()), float(values.std()), spread, low, high, len(values))


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
    means = bootstrap_means(np.asarray(values, np.float64), resamples, key(seed, "bootstrap"))
    tail = 50 * (1 - confidence)
    low, high = np.percentile(means, [tail, 100 - tail])
    return float(low), float(high)


@njit(cache=True, nogil=True)
def bootstrap_means(values: Float64Array, resamples: int, key: np.uint64) -> Float64Array:
    """The mean of len(values) values drawn with replacement, for each resample, float64
    [resamples].
    """
    out = np.empty(resamples)
    for b in range(resamples):
        resample_key = fold(key, b)
        total = 0.0
        for c in range(len(values)):
            total += values[below(draw(resample_key, c), len(values))]
        out[b] = total / len(values)
    return out
