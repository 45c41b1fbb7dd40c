"""Spread and bootstrap intervals."""

import numpy as np
import pytest

from entrenous.core.keys import key
from entrenous.evaluation.summary import bootstrap_means, interval, summarise

HITS = np.array([0.0] * 60 + [1.0] * 40)


def test_a_summary_by_hand():
    """40 hits of 100: mean .4, standard deviation sqrt(.4 * .6)."""
    found = summarise(HITS)
    assert (found.mean, found.std, found.users) == (
        pytest.approx(0.4),
        pytest.approx(np.sqrt(0.24)),
        100,
    )
    assert (found.percentiles[5], found.percentiles[50], found.percentiles[75]) == (0, 0, 1)
    assert found.low < 0.4 < found.high


def test_percentiles_lie_between_users():
    assert summarise(np.array([1.0, 2.0, 3.0, 4.0, 5.0])).percentiles[10] == pytest.approx(1.4)


def test_the_interval_is_that_of_the_normal_law():
    """Standard error sqrt(.24 / 100) = .049: .4 +- 1.96 * .049."""
    low, high = interval(HITS, resamples=4000)
    assert low == pytest.approx(0.4 - 1.96 * 0.049, abs=0.012)
    assert high == pytest.approx(0.4 + 1.96 * 0.049, abs=0.012)
    narrow = interval(HITS, confidence=0.5, resamples=4000)
    assert low < narrow[0] < narrow[1] < high


def test_intervals_are_keyed():
    assert interval(HITS, seed=1) == interval(HITS, seed=1)
    means = [bootstrap_means(HITS, 100, key(seed)).tolist() for seed in (1, 2)]
    assert means[0] != means[1]


def test_resamples_are_the_same_users_for_every_system():
    a, b = np.random.default_rng(0).random((2, 50))
    difference = bootstrap_means(a, 20, key(0)) - bootstrap_means(b, 20, key(0))
    assert difference.tolist() == pytest.approx(bootstrap_means(a - b, 20, key(0)).tolist())


def test_every_user_is_drawn_and_no_other_value():
    """Of 12 users each counts in some resample, and in all of them together one twelfth: 60,000
    draws, standard error .0011.
    """
    shares = np.array([bootstrap_means(one, 5000, key(0)) for one in np.eye(12)])
    assert (shares.max(axis=1) > 0).all()
    assert shares.sum(axis=0).tolist() == pytest.approx([1.0] * 5000)
    assert shares.mean(axis=1).tolist() == pytest.approx([1 / 12] * 12, abs=0.006)
