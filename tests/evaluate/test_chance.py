"""A difference over users and seeds: by hand, by SciPy's parts, and in made-up systems."""

import numpy as np
import pytest
from scipy import stats

from entrenous.core.errors import InputError
from entrenous.evaluation.chance import Source, combined, difference
from entrenous.evaluation.significance import paired_spread


def test_two_ways_by_hand():
    """Users 2 3 4 have the squared error 1/3, seeds 2 4 have 1: freedom (4/3)^2 / (1/18 + 1)."""
    found = difference([[2, 4, 6], [4, 6, 8]], [[1, 2, 3], [1, 2, 3]])
    error, freedom = (4 / 3) ** 0.5, (4 / 3) ** 2 / (1 / 18 + 1)
    assert found == pytest.approx((3, error, freedom, 3, 2)) and found.holds == "users and seeds"
    assert found.ends == pytest.approx(stats.t.interval(0.95, freedom, 3, error))
    assert found.p(1) == pytest.approx(2 * stats.t.sf(2 / error, freedom))


@pytest.mark.parametrize(
    ("shape", "holds"), [((40,), "users alone, one seed"), ((5, 1), "seeds alone")]
)
def test_one_source_is_students_paired_t(shape, holds):
    a, b = np.random.default_rng(0).normal(size=(2, *shape))
    found, expected = difference(a, b), stats.ttest_rel(a.ravel(), b.ravel())
    assert (found.t(), found.p()) == pytest.approx((expected.statistic, expected.pvalue))
    assert found.ends == pytest.approx(expected.confidence_interval())
    assert found.holds == holds


def test_a_user_who_is_not_in_a_fold():
    """User means 1 2 3, fold means 1.5 and 2.5."""
    found = difference([[1, 2, np.nan], [np.nan, 2, 3]], np.zeros((2, 3)))
    assert found == pytest.approx(combined(2, Source(1 / np.sqrt(3), 3), Source(0.5, 2)))
    with pytest.raises(InputError, match="not two finite"):
        difference([[1, np.nan], [2, np.nan]], np.zeros((2, 2)))


def test_without_spread():
    same, more = difference([1, 2], [1, 2]), difference([2, 3], [1, 2])
    assert (same.t(), same.p(), more.t(), more.p(), more.p(1)) == (0, 1, np.inf, 0, 1)
    assert more.ends == (1, 1)


@pytest.mark.parametrize(
    ("of_user", "of_seed"), [(0, 0.02), (0.2, 0), (0.1, 0.02)], ids=["seeds", "users", "both"]
)
def test_systems_that_differ_by_chance_alone_are_told_apart_in_5_of_100_at_most(of_user, of_seed):
    """1,000 repetitions. Means over seeds that are paired by user find what seeds make."""
    rng, zero, found = np.random.default_rng(0), np.zeros((5, 80)), []
    for _ in range(1000):
        by_chance = rng.normal(0, of_seed, (5, 1)) + rng.normal(0, of_user, 80)
        d = by_chance + rng.normal(0, 0.1, (5, 80))
        found.append((difference(d, zero).p(), difference(d.mean(axis=0), zero[0]).p()))
    both, users_alone = np.mean(np.array(found) < 0.05, axis=0)
    assert both <= 0.05 and (of_user or users_alone > 0.2)


def test_spread_holds_users_and_seeds():
    a, b = np.random.default_rng(1).random((2, 3, 50))
    found = paired_spread(a, b)
    squares = ((each - each.mean(axis=1, keepdims=True)) ** 2 for each in (a, b))
    assert (found.p, found.holds) == (difference(*squares).p(), "users and seeds")
    assert found.difference == pytest.approx((a.std(axis=1) - b.std(axis=1)).mean())
