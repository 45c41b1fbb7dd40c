"""The lower bound of epsilon that one training gives: the least value that guesses about canaries
leave possible, at 95 % confidence.

T. Steinke, M. Nasr, M. Jagielski, "Privacy auditing with one (1) training run", NeurIPS 2023,
theorem 5.2: of m canaries each took part by the toss of a coin. An onlooker that guesses r of the
tosses from the release of an (epsilon, delta) differentially private training is right in v of them
or more with probability at most

    P[B >= v] + 2 m delta max_i P[v > B >= v - i] / i,      B binomial(r, 1 / (1 + e^-epsilon))

so that an epsilon under which the guesses were too good is refuted. A lower bound: the true epsilon
may be far above it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from entrenous.core.types import BoolArray, Float64Array

CONFIDENCE = 0.95
# Of the canaries that are guessed, the surest; each share at its part of the confidence.
SHARES = (1.0, 0.5, 0.25, 0.125)
# of epsilon, in the search
HIGHEST = 32.0
HALVINGS = 18


class LowerBound(NamedTuple):
    """A lower bound of epsilon."""

    epsilon: float
    guesses: int
    """The number of tosses that were guessed."""
    right: int
    """The number of right guesses."""
    most: float
    """The bound if all had been right: with so many canaries no larger epsilon can be refuted."""


def lower_bound(score: Float64Array, inside: BoolArray, delta: float) -> LowerBound:
    """The bound that scores of canaries give, the best of `SHARES`. score: float64 [m], higher =
    more likely inside; inside: bool [m].

    Of a share the highest half is guessed to be inside, the lowest outside. As there are several
    shares, each has its part of the error probability (Bonferroni).
    """
    m = len(score)
    error = (1 - CONFIDENCE) / len(SHARES)
    order = np.argsort(-score, kind="stable")
    bounds = []
    most = 0.0
    for half in sorted({max(1, int(m * share) // 2) for share in SHARES}):
        guesses = 2 * half
        guessed_inside = inside[order[:half]]
        guessed_outside = inside[order[m - half :]]
        right = int(guessed_inside.sum() + (~guessed_outside).sum())
        epsilon = refuted(m, guesses, right, delta, error)
        bounds.append(LowerBound(epsilon, guesses, right, 0.0))
        # What the same guesses would prove if all were right.
        most = max(most, refuted(m, guesses, guesses, delta, error))
    return max(bounds, key=lambda bound: bound.epsilon)._replace(most=most)


def refuted(canaries: int, guesses: int, right: int, delta: float, error: float) -> float:
    """The largest epsilon under which so many right guesses have a probability below `error`; 0 if
    there is none.
    """
    low = 0.0
    high = HIGHEST
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if chance_of(canaries, guesses, right, middle, delta) < error:
            low = middle
        else:
            high = middle
    return low


def chance_of(canaries: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """The upper bound of the probability of so many right guesses or more under (epsilon, delta)
    differential privacy.

    >>> round(chance_of(10, 10, 10, 0.0, 0.0), 6)  # coins without any information
    0.000977
    """
    from scipy.stats import binom

    # P[v > B >= v - i] for i = 1, 2, ...: sums of the probabilities of v - 1, v - 2, ...
    q = 1 / (1 + math.exp(-epsilon))
    below = binom.pmf(np.arange(right - 1, -1, -1), guesses, q)
    shares = np.cumsum(below) / np.arange(1, right + 1)
    steepest = float(shares.max(initial=0.0))
    pure = float(binom.sf(right - 1, guesses, q))
    return min(1.0, pure + 2 * canaries * delta * steepest)
