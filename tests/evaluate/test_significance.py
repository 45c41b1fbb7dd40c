"""Tests of significance by hand examples, against full enumeration and against SciPy."""

from itertools import product

import numpy as np
import pytest
from scipy import stats

from entrenous.core.errors import InputError
from entrenous.evaluation.chance import difference
from entrenous.evaluation.significance import friedman, holm, paired_spread, wilcoxon


def test_wilcoxon_of_the_paper():
    """FBALF wins all six cells: one of 2^6 assignments of signs is as good, p = 1/64 one-sided,
    2/64 two-sided.
    """
    ours, theirs = [0.66, 0.84, 0.71, 0.92, 1.01, 1.30], [0.68, 0.87, 0.75, 0.97, 1.07, 1.37]
    assert wilcoxon(ours, theirs, alternative="less") == 1 / 64 == 0.015625
    assert wilcoxon(ours, theirs) == 2 / 64
    assert wilcoxon(theirs, ours, alternative="less") == 1


def enumerated(d, alternative):
    """P(W+ as extreme) over all 2^n signs, mean ranks for ties."""
    d = np.array([x for x in d if x])
    rank = stats.rankdata(np.abs(d))
    plus = rank[d > 0].sum()
    all_plus = np.array(
        [rank[np.array(signs)].sum() for signs in product([True, False], repeat=len(d))]
    )
    greater, less = np.mean(all_plus >= plus), np.mean(all_plus <= plus)
    return less if alternative == "less" else min(1, 2 * min(greater, less))


@pytest.mark.parametrize("alternative", ["two-sided", "less"])
@pytest.mark.parametrize(
    "d", [[3, -1, 2, 5], [1, 1, -1, 2, 2, -3], [0, 0, 1, -2, 2, 2], [-4, -4, -4, 1], [5]]
)
def test_wilcoxon_is_exact_also_with_ties_and_zeros(d, alternative):
    found = wilcoxon(d, np.zeros(len(d)), alternative=alternative)
    assert found == pytest.approx(enumerated(d, alternative), abs=1e-15)


@pytest.mark.parametrize("alternative", ["two-sided", "less"])
@pytest.mark.parametrize("n", [30, 300])
def test_wilcoxon_agrees_with_scipy_without_ties(n, alternative):
    d = np.random.default_rng(n).normal(0.1, 1, n)
    expected = stats.wilcoxon(d, alternative=alternative, method="exact")
    found = wilcoxon(d, np.zeros(n), alternative=alternative)
    assert found == pytest.approx(expected.pvalue, rel=1e-9)


def test_wilcoxon_without_a_difference():
    assert wilcoxon([1, 2], [1, 2]) == 1


def test_equal_spread_by_hand():
    """Deviations from the means 2 and 2: squares 4 4 4 4 and 1 0 0 1, differences 3 4 4 3: t = 3.5
    / (sqrt(1/3) / 2).
    """
    found = paired_spread([0, 0, 4, 4], [1, 2, 2, 3])
    assert found.statistic == pytest.approx(7 * np.sqrt(3))
    assert (found.difference, found.users) == (pytest.approx(2 - np.sqrt(1 / 2)), 4)
    assert found.p == pytest.approx(2 * stats.t.sf(7 * np.sqrt(3), 3))
    swapped = paired_spread([1, 2, 2, 3], [0, 0, 4, 4])
    assert (swapped.statistic, swapped.p) == (
        pytest.approx(-found.statistic),
        pytest.approx(found.p),
    )


def test_equal_spread_of_shifted_values_is_no_difference():
    a = np.random.default_rng(0).random(50)
    assert paired_spread(a, a + 0.1)[:2] == (0, 1)
    assert paired_spread([1, 1, 1], [2, 2, 2])[:3] == (0, 1, 0)
    assert paired_spread(a, 2 * a).p < 1e-6


def test_friedman_shares_ranks_and_agrees_with_scipy():
    table = np.random.default_rng(0).integers(0, 4, (4, 20))
    found = friedman(dict(zip("abcd", table.tolist(), strict=True)))
    expected = stats.friedmanchisquare(*table)
    assert (found.statistic, found.p) == pytest.approx((expected.statistic, expected.pvalue))
    assert sum(found.mean_rank.values()) == pytest.approx(1 + 2 + 3 + 4)


def test_friedman_without_any_difference():
    assert friedman({"a": [1, 1], "b": [1, 1]}) == (0, 1, {"a": 1.5, "b": 1.5})


def test_holm_by_hand():
    """Sorted .005 .01 .03 .04 times 4, 3, 2, 1: .02 .03 .06 .04, and never less than the one
    before.
    """
    assert holm([0.01, 0.04, 0.03, 0.005]).tolist() == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.9]).tolist() == [1, 1]
    assert holm([]).tolist() == []


@pytest.mark.parametrize("test", [difference, wilcoxon, paired_spread])
def test_values_that_are_not_finite_are_refused(test):
    with pytest.raises(InputError, match="not two finite"):
        test([1, np.nan], [0, 0])


def test_too_little_is_refused():
    with pytest.raises(InputError, match="at least two pairs"):
        difference([1], [0])
    with pytest.raises(InputError, match="at least three pairs"):
        paired_spread([1, 2], [0, 0])
    with pytest.raises(InputError, match="two or more systems"):
        friedman({"a": [1, 2]})
