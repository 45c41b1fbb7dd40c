"""Tails: those of SciPy, far out and for many degrees of freedom."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from entrenous.evaluation import distributions
from entrenous.evaluation.metrics.defined import binomial

POINTS = [0.0, 1e-8, 0.003, 0.2, 0.9, 1.0, 1.9599, 3.3, 7.5, 20.0, 37.0]


def test_the_tail_of_t_with_one_degree_of_freedom() -> None:
    """Cauchy's distribution in closed form: SciPy is off by 3e-9 at x = 1e-8."""
    for x in POINTS:
        assert distributions.t_tail(x, 1) == pytest.approx(math.atan2(1, x) / math.pi, rel=1e-14), x


@pytest.mark.parametrize(
    "freedom", [1.3, 2, 3, 4.5, 7, 30, 39, 40, 41, 99, 942, 6039, 100_000, 3_000_000]
)
def test_the_tail_of_t(freedom: float) -> None:
    close = 1e-12 if freedom < 10_000 else 1e-10  # the continued fraction is long there
    for x in POINTS:
        assert distributions.t_tail(x, freedom) == pytest.approx(
            stats.t.sf(x, freedom), rel=close, abs=1e-300
        ), x
        assert distributions.t_tail(-x, freedom) == pytest.approx(
            stats.t.cdf(x, freedom), rel=close
        ), x
    assert (
        distributions.t_tail(math.inf, freedom) == 0
        and distributions.t_tail(-math.inf, freedom) == 1
    )


@pytest.mark.parametrize("n", [1, 2, 5, 60, 2000])
@pytest.mark.parametrize("p", [0.0, 1e-9, 0.013, 0.5, 0.97, 1.0])
def test_the_binomial_distribution(n: int, p: float) -> None:
    found = binomial(n, p)
    assert found == pytest.approx(stats.binom.pmf(np.arange(n + 1), n, p), rel=1e-9, abs=1e-15)
    assert found.sum() == pytest.approx(1, abs=1e-11)
