"""Filters: hand-counted cores, vocabularies that shrink with the rows, and a note for each."""

from __future__ import annotations

import numpy as np
import properties  # noqa: F401  # how patient Hypothesis is
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_data import interactions, random_data, rows_of

from entrenous.core.errors import InputError
from entrenous.data.filters import compact, k_core

#   u1: a b c    u2: a b    u3: a d    u4: d
ROWS = [
    ("u1", "a"),
    ("u1", "b"),
    ("u1", "c"),
    ("u2", "a"),
    ("u2", "b"),
    ("u3", "a"),
    ("u3", "d"),
    ("u4", "d"),
]


def test_k_core_is_iterated() -> None:
    # items >= 2 drops c; users >= 2 drops u4; d then has one row and goes; u3 then has one row and
    # goes
    core = k_core(interactions(ROWS), users=2, items=2)
    assert rows_of(core) == {("u1", "a"), ("u1", "b"), ("u2", "a"), ("u2", "b")}
    assert core.counts.tolist() == [2, 2] and core.popularity.tolist() == [2, 2]
    assert core.notes[-1].endswith("dropped rows: 4, users: 2, items: 2")


def test_k_core_of_users_or_items_alone() -> None:
    assert rows_of(k_core(interactions(ROWS), users=3)) == {("u1", "a"), ("u1", "b"), ("u1", "c")}
    assert rows_of(k_core(interactions(ROWS), items=3)) == {("u1", "a"), ("u2", "a"), ("u3", "a")}


def test_features_times_and_source_positions_follow_the_rows() -> None:
    data = interactions(ROWS, features={"title": np.array(["A", "B", "C", "D"])})
    kept = k_core(data, items=2)  # a, b, d
    assert kept.features["title"].tolist() == ["A", "B", "D"]
    assert kept.time is not None and kept.row is not None
    assert kept.time.tolist() == [100, 101, 103, 104, 105, 106, 107]
    assert kept.row.tolist() == [0, 1, 3, 4, 5, 6, 7]


def test_a_filter_that_leaves_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="no row is left"):
        k_core(interactions(ROWS), users=4)


def test_nothing_to_drop_changes_nothing() -> None:
    data = interactions(ROWS)
    assert compact(data) is data


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), users=st.integers(1, 6), items=st.integers(1, 6))
def test_the_core_is_the_largest_part_with_both_properties(
    seed: int, users: int, items: int
) -> None:
    data = random_data(seed=seed)
    rows = rows_of(data)
    while True:  # plain definition, on sets of names
        per_user, per_item = {}, {}
        for user, item in rows:
            per_user[user], per_item[item] = per_user.get(user, 0) + 1, per_item.get(item, 0) + 1
        still = {
            (user, item)
            for user, item in rows
            if per_user[user] >= users and per_item[item] >= items
        }
        if still == rows:
            break
        rows = still
    if rows:
        assert rows_of(k_core(data, users=users, items=items)) == rows
    else:
        with pytest.raises(InputError, match="no row is left"):
            k_core(data, users=users, items=items)
