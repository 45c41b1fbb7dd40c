"""Errors of strict and generous users, of rare and popular items: who belongs where is decided by
training rows alone.
"""

from __future__ import annotations

import numpy as np
from entrenous_lab.papers.error_groups import (
    GENEROUS,
    OFFSET,
    POPULAR,
    RARE,
    STRICT,
    error_groups,
    errors_by_group,
)

from entrenous.data.interactions import Interactions, Vocabulary, build

USERS, ITEMS = Vocabulary(size=4), Vocabulary(size=4)


def rows(pairs: dict[tuple[int, int], float]) -> Interactions:
    user, item = zip(*pairs, strict=True)
    return build(user, item, value=list(pairs.values()), users=USERS, items=ITEMS, scale=(1, 5))


# user means 1, 3, 5, 2; rows of items 3, 2, 1, 1: of equals the item with the lower number is the
# rarer one
TRAIN = rows({(0, 0): 1, (1, 0): 3, (1, 1): 3, (2, 0): 5, (2, 1): 5, (3, 2): 2, (0, 3): 1})
HELD = rows({(0, 1): 2, (0, 2): 1, (2, 2): 4, (3, 0): 3})


def test_groups_follow_the_training_rows():
    found = error_groups(TRAIN, HELD)
    assert found["all"].tolist() == [True] * 4
    assert found[STRICT].tolist() == [True, True, False, False]  # user 0
    assert found[GENEROUS].tolist() == [False, False, True, False]  # user 2
    assert found[RARE].tolist() == [False, True, True, False]  # item 2
    assert found[POPULAR].tolist() == [False, False, False, True]  # item 0


def test_errors_by_group_are_those_of_their_rows():
    found = errors_by_group(TRAIN, HELD, np.array([3, 1, 2, 3], np.float32))  # errors 1, 0, -2, 0
    assert found["mae"] == {"all": 0.75, STRICT: 0.5, GENEROUS: 2.0, RARE: 1.0, POPULAR: 0.0}
    assert found["rmse"][RARE] == np.sqrt(2)
    assert found[OFFSET] == {"all": -0.25, STRICT: 0.5, GENEROUS: -2.0, RARE: -1.0, POPULAR: 0.0}
    assert found["rows"] == {"all": 4, STRICT: 2, GENEROUS: 1, RARE: 2, POPULAR: 1}


def test_a_user_without_training_rows_is_neither_strict_nor_generous():
    train = TRAIN.select(TRAIN.user != 0)
    found = error_groups(train, HELD)
    assert found[STRICT].tolist() == [False, False, False, True] and not found[GENEROUS][:2].any()
