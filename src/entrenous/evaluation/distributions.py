"""Tails of Student's t, for the tests of `chance`: scalars in double precision, without SciPy.

SciPy alone would take 143 MB on disk and, when it is first used, over a second of every run. Our
tests compare each function with SciPy's.
"""

from __future__ import annotations

import math

# Stands in for a zero divisor of the continued fraction.
TINY = 1e-300
# From here on the series of the ratio of gamma functions is exact to the last digits.
LARGE = 20.0


def t_tail(x: float, freedom: float) -> float:
    """P(X > x) of Student's t with f = `freedom` degrees of freedom: half the regularised
    incomplete beta function I(f / (f + x^2); f/2, 1/2).

    >>> round(t_tail(1.0, 1), 12), t_tail(math.inf, 5)
    (0.25, 0.0)
    """
    if x < 0:
        return 1.0 - t_tail(-x, freedom)
    if math.isinf(x):
        return 0.0
    square = x * x / freedom
    # f / (f + x^2), its logarithm, and one minus it without cancellation.
    below = 1 / (1 + square)
    log_below = -math.log1p(square)
    above = square / (1 + square)
    a = freedom / 2
    b = 0.5
    front = math.exp(a * log_below - _log_beta_half(a)) * math.sqrt(above)
    # Each continued fraction converges fast on its own side of this point.
    middle = (a + 1) / (a + b + 2)
    if below < middle:
        return 0.5 * front * _beta_fraction(below, a, b) / a
    return 0.5 - 0.5 * front * _beta_fraction(above, b, a) / b


def t_above(tail: float, freedom: float) -> float:
    """The number that Student's t exceeds with the probability `tail` < 1/2, by bisection.

    >>> round(t_above(0.025, 10), 9)
    2.228138852
    """
    low = 0.0
    high = 1.0
    while t_tail(high, freedom) > tail:
        high *= 2
    # More halvings than a float64 has bits: the ends meet.
    for _ in range(100):
        middle = (low + high) / 2
        if t_tail(middle, freedom) > tail:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _log_beta_half(a: float) -> float:
    """log B(a, 1/2) = log(gamma(a) gamma(1/2) / gamma(a + 1/2)), by a series for large a, where the
    difference of two large lgamma would lose digits.
    """
    if a < LARGE:
        return math.lgamma(a) + math.lgamma(0.5) - math.lgamma(a + 0.5)
    log_ratio = 0.5 * math.log(a)
    log_ratio -= 1 / (8 * a)
    log_ratio += 1 / (192 * a**3)
    log_ratio -= 1 / (640 * a**5)
    log_ratio += 17 / (14336 * a**7)
    return 0.5 * math.log(math.pi) - log_ratio


def _beta_fraction(x: float, a: float, b: float) -> float:
    """The continued fraction of the incomplete beta function (Lentz's method), which converges fast
    for x < (a + 1) / (a + b + 2).
    """
    c = 1.0
    d = 1 / _not_zero(1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, 100_001):
        # The coefficients 2 m and 2 m + 1 of the fraction.
        at = a + 2 * m
        even = m * (b - m) * x / ((at - 1) * at)
        odd = -(a + m) * (a + b + m) * x / (at * (at + 1))
        for coefficient in (even, odd):
            d = 1 / _not_zero(1 + coefficient * d)
            c = _not_zero(1 + coefficient / c)
            value *= c * d
        # The last factor no longer changes the value.
        if abs(c * d - 1) < 1e-16:
            break
    return value


def _not_zero(value: float) -> float:
    if abs(value) > TINY:
        return value
    return TINY
