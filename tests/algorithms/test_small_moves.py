"""Moves of items as weights (eq. 5 of Cali3F, ActvAGG of FedFast) in fixed point: which of them come
through, and what is said of those that are lost.
"""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pytest
from small_federations import SMALL, same, shop

from entrenous.core.contract.update import Update, add_update, empty_total
from entrenous.core.errors import EntrenousWarning, NonFiniteError
from entrenous.federation.rounds import Rounds
from entrenous.systems._federated_ncf import MOST, WIDEST, WeighedNCF
from entrenous.systems.cali3f import Cali3F
from entrenous.systems.fedfast import FedFast

# Where moves are as small as the review found them.
FINE: dict[str, Any] = {**SMALL, "clusters": 1, "cohort": 2, "learning_rate_item": 3e-4}
BOTH = [Cali3F, FedFast]


def mean_of(algorithm: WeighedNCF, moved: np.ndarray) -> np.ndarray:
    """The weighted mean of devices that each move one item, from 0: float64 [row]."""
    rows = algorithm.shared(moved, np.abs(moved).mean(axis=1, keepdims=True))
    devices = len(moved)
    weight = np.ones(devices, np.float32)
    update = Update(np.arange(devices + 1), np.zeros(devices, np.int32), rows, {}, weight)
    total = add_update(empty_total(update, 1), update)
    return algorithm.weighted_mean(np.zeros((1, moved.shape[1]), np.float32), total)[0]


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("declared", [{"learning_rate_item": 3e-5}, {}, {"largest_move": 0.004}])
def test_a_move_of_a_millionth_comes_through_within_1_percent(
    kind: type[WeighedNCF], declared: dict[str, Any]
) -> None:
    algorithm = kind(**{**FINE, "local_epochs": 1, **declared})
    moved = np.array([[1e-6, -1e-6], [1e-6, -1e-6]], np.float32)
    assert mean_of(algorithm, moved) == pytest.approx([1e-6, -1e-6], rel=0.01)


@pytest.mark.parametrize(
    ("move", "most"), [(1e-6, 0.0039), (1.234e-5, 0.0039), (0.0035, 0.0039), (0.005, 8), (7.9, 8)]
)
def test_moves_between_a_millionth_and_the_bound_are_weighted_by_their_size(
    move: float, most: float
) -> None:
    """Moves of m and 0.25 m, each weighted by its size: (1 + 0.0625) / 1.25 = 0.85 m."""
    algorithm = Cali3F(**FINE, largest_move=most)
    moved = np.array([[move], [0.25 * move]], np.float32)
    assert mean_of(algorithm, moved) == pytest.approx([0.85 * move], rel=0.02)


def test_the_bound_follows_from_what_is_declared() -> None:
    bounds = {
        rate: Cali3F(learning_rate_item=rate).move_bound for rate in (0, 3e-5, 3e-4, 0.6, 1000)
    }
    assert bounds == {0: 2.0**-20, 3e-5: 2.0**-11, 3e-4: 2.0**-8, 0.6: MOST, 1000: MOST}
    assert Cali3F(learning_rate_item=None, learning_rate=3e-4).move_bound == 2.0**-8
    assert Cali3F(learning_rate_item=3e-4, local_epochs=4).move_bound == 2.0**-6
    assert Cali3F(learning_rate_item=3e-4, largest_move=0.3).move_bound == 0.5
    gradients = {
        rate: Cali3F(learning_rate_item=rate, client="gradient").move_bound
        for rate in (0, 1, 100, 10000)
    }
    assert gradients == {0: 2.0**-20, 1: 0.125, 100: 16, 10000: WIDEST}


@pytest.mark.parametrize("kind", BOTH)
def test_items_learn_at_a_small_rate(kind: type[Any]) -> None:
    """They stayed as they were, to the bit, after 30 rounds with item rates of 3e-5 and 3e-4."""
    for rate in (3e-5, 3e-4):
        algorithm = kind(**{**FINE, "cohort": 12, "learning_rate_item": rate})
        rounds = Rounds(algorithm, shop(), seed=1)
        first = state = rounds.start()
        for _ in range(3):
            state = rounds.one_round(state)
        assert not same(state.server.item, first.server.item)


def test_moves_that_are_lost_are_told_once_and_the_remedy_works() -> None:
    coarse = Cali3F(**{**FINE, "largest_move": MOST})
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")
        for move in (1e-5, 1.1e-5, 1.3e-5):
            moved = np.full((4, 3), move, np.float32)
            coarse.shared(moved, np.abs(moved))
    [warning] = told
    assert warning.category is EntrenousWarning
    words = r"most moves .* holds moves up to 8: set largest_move to (.*)"
    advised = re.fullmatch(words, str(warning.message))
    assert advised is not None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Cali3F(**{**FINE, "largest_move": float(advised[1])}).shared(moved, np.abs(moved))


def test_no_warning_where_most_moves_come_through_or_nothing_moved() -> None:
    algorithm = Cali3F(**FINE, largest_move=MOST)
    moved = np.array([[0.1, 0.2, 1e-5]], np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        algorithm.shared(moved, np.abs(moved))
        algorithm.shared(0 * moved, 0 * moved)


def test_a_move_beyond_the_bound_is_refused_with_the_setting_that_holds_it() -> None:
    algorithm = Cali3F(**FINE)
    moved = np.array([[0.5]], np.float32)
    with pytest.raises(NonFiniteError, match=r"moved an item .* by 0.5, .* set largest_move"):
        algorithm.shared(moved, np.abs(moved))
    assert mean_of(Cali3F(**FINE, largest_move=0.51), moved) == pytest.approx([0.5], rel=1e-3)
    with pytest.raises(NonFiniteError, match=r"by 10, .* 1024 at most, or try a smaller learning"):
        Cali3F(**FINE, largest_move=MOST).shared(20 * moved, np.abs(20 * moved))
    assert mean_of(Cali3F(**FINE, largest_move=WIDEST), 1000 * moved) == pytest.approx([500])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_is_left_to_the_sum_which_refuses_it(bad: float) -> None:
    moved = np.array([[bad, 1e-9, 1e-9, 1e-9]], np.float32)
    with pytest.raises(NonFiniteError, match="a value is not finite"):
        mean_of(Cali3F(**FINE), moved)
