"""The tail of a metric over users and its cumulative distribution, as PEPPER's figures 4 to 6 have
them, by hand.
"""

import numpy as np
import pytest

from entrenous.core.errors import InputError
from entrenous.evaluation.tail import PERCENTS, distribution, tail


def test_the_tail_by_hand():
    """Twenty users with 0, .05, ..., .95: the worst 1 % and 5 % are one of them, 10 % two, 25 %
    five, half of them ten.
    """
    found = tail(np.arange(20)[::-1] / 20)
    assert PERCENTS == (1, 5, 10, 25, 50)
    assert found.percentile == {1: 0, 5: 0, 10: 0.05, 25: 0.2, 50: 0.45}
    assert found.worst == pytest.approx(
        {1: 0, 5: 0, 10: 0.05 / 2, 25: (0.05 + 0.1 + 0.15 + 0.2) / 5, 50: 0.45 / 2}
    )
    assert (found.mean, found.users) == (pytest.approx(0.95 / 2), 20)


def share_at_most(of, value):
    """The share of users with at most a value, read from a distribution."""
    return np.concatenate([[0], of.share])[np.searchsorted(of.value, value, side="right")]


def test_a_percentile_is_the_value_of_a_user_at_which_the_distribution_reaches_the_share():
    values = np.random.default_rng(0).integers(0, 11, 943) / 10  # ten test items each
    found, of = tail(values, range(1, 101)), distribution(values)
    for percent, value in found.percentile.items():
        assert value in values and share_at_most(of, value) >= percent / 100
        lower = of.value[of.value < value]
        assert not len(lower) or share_at_most(of, lower[-1]) < percent / 100
    assert found.percentile[100] == values.max() and found.worst[100] == pytest.approx(
        values.mean()
    )


def test_the_distribution_is_the_share_of_users_with_at_most_a_value():
    """Of five users two have 0, two .4 and one .9."""
    found = distribution([0.4, 0, 0.9, 0, 0.4])
    assert found.value.tolist() == [0, 0.4, 0.9]
    assert found.share.tolist() == [2 / 5, 4 / 5, 1]


@pytest.mark.parametrize("values", [[], [0.1, np.nan], [np.inf], [[0.1, 0.2]]])
@pytest.mark.parametrize("of", [tail, distribution])
def test_what_is_no_column_of_values_is_refused(of, values):
    with pytest.raises(InputError, match="not a finite column"):
        of(values)


@pytest.mark.parametrize("percent", [0, 101, -5])
def test_a_percentage_outside_1_to_100_is_refused(percent):
    with pytest.raises(InputError, match=f"got {percent}; expected whole numbers from 1 to 100"):
        tail([0.1], [50, percent])
