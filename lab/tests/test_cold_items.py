"""Cold items: nothing of them is in training, and the hit rate is the chance under equal scores."""

from __future__ import annotations

import numpy as np
import pytest
from entrenous_lab.cold_items import divide, hit_rate

from entrenous.data.interactions import Interactions
from entrenous.data.load import from_frame

USERS, ITEMS = 30, 60


@pytest.fixture(scope="module")
def data() -> Interactions:
    """Users of two tastes, each of which likes the items of one kind."""
    rng = np.random.default_rng(3)
    rows = []
    for user in range(USERS):
        kind = np.arange(ITEMS) % 2 == user % 2
        liked = rng.permutation(np.flatnonzero(kind))[:20]
        rows += [(user, int(item)) for item in liked]
    kinds = [("even", "odd")[item % 2] for item in range(ITEMS)]
    return from_frame(rows, items={"item_id": list(range(ITEMS)), "category": kinds})


def test_cold_items_are_not_in_training(data: Interactions) -> None:
    cold = divide(data, 0, "test")
    assert len(cold.rows.items) == ITEMS // 10 and len(cold.known.items) == ITEMS - ITEMS // 10
    assert not set(cold.rows.items.ids) & set(cold.known.items.ids)
    assert len(cold.rows) + len(cold.known) == len(data)
    kinds = cold.features.texts["category"][len(cold.known.items) :]
    assert kinds.tolist() == [("even", "odd")[int(item) % 2] for item in cold.rows.items.ids]
    other = divide(cold.known, 0, "validation")
    assert not set(other.rows.items.ids) & set(cold.rows.items.ids)
    assert divide(data, 1, "test").rows.items.ids.tolist() != cold.rows.items.ids.tolist()


def test_the_hit_rate_of_equal_scores_is_the_chance() -> None:
    rows = from_frame([(0, 3), (1, 5), (1, 6), *((2, item) for item in range(28)), (3, 28)])
    some = rows.of_users(np.array([0, 1]))
    scores = np.zeros((2, len(rows.items)))
    competing = len(rows.items) - np.array([0, 1, 1])
    assert hit_rate(some, scores) == pytest.approx((10 / competing).mean())
    first = scores.copy()
    first[0, some.item[0]] = 1
    assert hit_rate(some, first) > hit_rate(some, scores)
    first[0] = 1
    first[0, some.item[0]] = 0
    assert hit_rate(some, first) == pytest.approx((0 + 2 * 10 / competing[1]) / 3)
