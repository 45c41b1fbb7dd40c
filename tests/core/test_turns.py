"""Random orders that are not made: every place once, another order for another key."""

from __future__ import annotations

import numpy as np
import pytest

from entrenous.core.keys import key
from entrenous.kernels.sampling import in_turns, shuffled


@pytest.mark.parametrize("n", [1, 2, 3, 7, 64, 65, 1000])
def test_an_order_has_every_number_once(n: int) -> None:
    orders = [[shuffled(key(seed), t, n) for t in range(n)] for seed in range(3)]
    assert all(sorted(order) == list(range(n)) for order in orders)
    assert n < 7 or len(set(map(tuple, orders))) == 3


def test_an_order_is_near_no_other() -> None:
    """Of 1,000 places about one holds its own number, and neighbours are far apart: a third of n on
    average, give or take a tenth.
    """
    order = np.array([shuffled(key(5), t, 1000) for t in range(1000)])
    assert (order == np.arange(1000)).sum() < 8
    assert abs(np.abs(np.diff(order)).mean() - 1000 / 3) < 100 / 3


def test_turns_come_as_often_as_they_are_asked_for_and_begin_anew() -> None:
    turns = np.array([2, 0, 1, 3])
    rounds = [in_turns(key(1), first, 2, turns) for first in (0, 2, 4)]
    again = in_turns(key(1), 6, 2, turns)
    assert again.tolist() == rounds[0].tolist()
    seen = np.concatenate([in_turns(key(1), first, 1, turns) for first in range(6)])
    assert np.bincount(seen, minlength=4).tolist() == turns.tolist()
