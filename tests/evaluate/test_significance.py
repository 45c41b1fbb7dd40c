"""Tests of significance by hand examples and against SciPy."""

import numpy as np
import pytest
from scipy import stats

from entrenous.core.errors import InputError
from entrenous.evaluation.chance import difference
from entrenous.evaluation.significance import holm, paired_spread


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


def test_holm_by_hand():
    """Sorted .005 .01 .03 .04 times 4, 3, 2, 1: .02 .03 .06 .04, and never less than the one
    before.
    """
    assert holm([0.01, 0.04, 0.03, 0.005]).tolist() == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.9]).tolist() == [1, 1]
    assert holm([]).tolist() == []


@pytest.mark.parametrize("test", [difference, paired_spread])
def test_values_that_are_not_finite_are_refused(test):
    with pytest.raises(InputError, match="not two finite"):
        test([1, np.nan], [0, 0])


def test_too_little_is_refused():
    with pytest.raises(InputError, match="at least two pairs"):
        difference([1], [0])
    with pytest.raises(InputError, match="at least three pairs"):
        paired_spread([1, 2], [0, 0])
