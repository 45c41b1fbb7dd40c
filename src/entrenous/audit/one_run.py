"""What one training says of its own epsilon: the least value that guesses about canaries leave
possible, at 95 % confidence.

T. Steinke, M. Nasr, M. Jagielski, "Privacy auditing with one (1) training run", NeurIPS 2023,
theorem 5.2: of m canaries each took part by the toss of a coin. Who guesses r of the tosses from
what an (epsilon, delta) differentially private training releases is right in v of them or more with
probability at most

    P[B >= v] + 2 m delta max_i P[v > B >= v - i] / i,      B binomial(r, 1 / (1 + e^-epsilon))

so that an epsilon under which the guesses were too good is refuted. A lower bound: the true epsilon
may be far above it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..core.types import BoolArray, Float64Array

CONFIDENCE = 0.95
SHARES = (
    1.0,
    0.5,
    0.25,
    0.125,
)  # of the canaries that are guessed, the surest; each share at its part of the confidence
HIGHEST, HALVINGS = 32.0, 18  # of epsilon, when it is looked for


class LowerBound(NamedTuple):
    """A lower bound of epsilon. guesses: how many tosses were guessed, right: how many of these
    rightly; most: the bound if all had been right, above which no epsilon can be refuted with so
    many canaries.
    """

    epsilon: float
    guesses: int
    right: int
    most: float


def lower_bound(score: Float64Array, inside: BoolArray, delta: float) -> LowerBound:
    """The bound that scores of canaries give, the best of `SHARES`. score: float64 [m], higher =
    more likely inside; inside: bool [m].

    Of a share the highest half is guessed to be inside, the lowest outside. As there are several
    shares, each has its part of the error probability (Bonferroni).
    """
    order, m, error = np.argsort(-score, kind="stable"), len(score), (1 - CONFIDENCE) / len(SHARES)
    found = []
    for half in sorted({max(1, int(m * share) // 2) for share in SHARES}):
        right = int(inside[order[:half]].sum() + (~inside[order[m - half :]]).sum())
        found.append(LowerBound(refuted(m, 2 * half, right, delta, error), 2 * half, right, 0.0))
    most = max(refuted(m, one.guesses, one.guesses, delta, error) for one in found)
    return max(found, key=lambda one: one.epsilon)._replace(most=most)


def refuted(canaries: int, guesses: int, right: int, delta: float, error: float) -> float:
    """The largest epsilon under which so many right guesses have a probability below `error`; 0 if
    there is none.
    """
    low, high = 0.0, HIGHEST
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (
            (middle, high)
            if chance_of(canaries, guesses, right, middle, delta) < error
            else (low, middle)
        )
    return low


def chance_of(canaries: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """The probability of so many right guesses or more under (epsilon, delta) differential privacy,
    at most.

    >>> round(chance_of(10, 10, 10, 0.0, 0.0), 6)  # coins without any information
    0.000977
    """
    from scipy.stats import binom

    q = 1 / (1 + math.exp(-epsilon))
    below = binom.pmf(np.arange(right - 1, -1, -1), guesses, q)  # of right - 1, right - 2, ...
    steep = float((np.cumsum(below) / np.arange(1, right + 1)).max(initial=0.0))
    return min(1.0, float(binom.sf(right - 1, guesses, q)) + 2 * canaries * delta * steep)
