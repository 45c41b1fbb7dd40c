"""The ranking kernels against sorting by hand and against a slow oracle."""

import numpy as np
import properties  # noqa: F401  # how patient Hypothesis is
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entrenous.core.keys import key
from entrenous.kernels.arrays import nonfinite_row, ranks, ranks_among, top_n
from entrenous.kernels.sampling import shuffle_places

ALL = np.ones(5, np.bool_)
NONE = np.zeros(2, np.int64), np.empty(0, np.int32)  # one user without masked items
IN_ORDER = np.arange(5, dtype=np.int32)


def best_of(scores, n, *, known=ALL, masked=NONE, place=IN_ORDER):
    scores = np.array([scores], np.float32)
    best, value = np.empty((1, n), np.int32), np.empty((1, n), np.float32)
    top_n(scores, np.zeros(1, np.int64), known, *masked, place, best, value)
    return best[0].tolist(), value[0].tolist()


def ranks_of(scores, held, *, known=ALL, masked=NONE, place=IN_ORDER):
    rank, competing = np.empty(len(held), np.int64), np.empty(1, np.int64)
    held_ptr, held = np.array([0, len(held)]), np.array(held, np.int32)
    ranks(
        np.array([scores], np.float32),
        np.zeros(1, np.int64),
        known,
        *masked,
        place,
        held_ptr,
        held,
        rank,
        competing,
    )
    return rank.tolist(), int(competing[0])


def test_the_best_items_come_first():
    assert best_of([1, 5, 3, 4, 2], 3) == ([1, 3, 2], [5, 4, 3])


def test_a_short_list_ends_with_minus_one():
    known = np.array([False, True, False, True, False])
    assert best_of([1, 5, 3, 4, 2], 3, known=known) == ([1, 3, -1], [5, 4, -np.inf])


def test_masked_items_do_not_compete():
    masked = np.array([0, 2]), np.array([1, 3], np.int32)
    assert best_of([1, 5, 3, 4, 2], 2, masked=masked)[0] == [2, 4]
    assert ranks_of([1, 5, 3, 4, 2], [2, 0], masked=masked) == ([1, 3], 3)


def test_equal_scores_follow_the_shuffle_not_the_item_number():
    place = np.array([4, 2, 0, 3, 1], np.int32)  # item 2 first, then 4, 1, 3, 0
    assert best_of([7, 7, 7, 7, 7], 5, place=place)[0] == [2, 4, 1, 3, 0]
    assert ranks_of([7, 7, 7, 7, 7], [0, 2, 3], place=place) == ([1, 4, 5], 5)


def test_held_items_that_cannot_be_listed_rank_behind_all():
    known = np.array([True, True, True, False, True])
    assert ranks_of([1, 5, 3, 9, 2], [3, 1], known=known) == ([1, 5], 4)


def test_zero_and_minus_zero_are_equal():
    assert best_of([0.0, -0.0, -1, -1, -1], 2, place=np.array([1, 0, 2, 3, 4], np.int32))[0] == [
        1,
        0,
    ]


def among(scores, candidates, *, known=ALL, place=IN_ORDER):
    """The ranks of items 2 and 4 among their candidates, and how many compete."""
    rank, competing = np.empty(2, np.int64), np.empty(2, np.int64)
    scores, candidates = np.array([scores], np.float32), np.array(candidates, np.int32)
    item = np.array([2, 4], np.int32)
    ranks_among(scores, np.zeros(2, np.int64), item, candidates, known, place, rank, competing)
    return rank.tolist(), competing.tolist()


def test_sampled_ranks_count_better_candidates_and_ties_by_place():
    place = np.array([0, 1, 3, 2, 4], np.int32)
    # Items 1 and 3 precede item 2; item 1 precedes item 4.
    found = among([1, 5, 3, 3, 2], [[0, 3, 1], [0, 1, -1]], place=place)
    assert found == ([3, 2], [4, 3])


def test_unknown_candidates_stand_behind_and_an_unknown_item_is_missed():
    known = np.array([False, True, True, True, False])
    assert among([9, 5, 3, 3, 2], [[0, 1], [1, 2]], known=known) == ([2, 3], [3, 2])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_the_row_with_a_nonfinite_score_is_found(bad):
    scores = np.full((3, 4), 1e38, np.float32)
    assert nonfinite_row(scores) == -1
    scores[1, 3] = bad
    assert nonfinite_row(scores) == 1


def test_the_shuffle_is_a_permutation_that_depends_on_the_key():
    place = shuffle_places(1000, key(0, "ties"))
    assert sorted(place.tolist()) == list(range(1000))
    assert np.array_equal(place, shuffle_places(1000, key(0, "ties")))
    assert not np.array_equal(place, shuffle_places(1000, key(1, "ties")))
    assert abs(np.corrcoef(place, np.arange(1000))[0, 1]) < 0.1


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_kernels_agree_with_sorting(data):
    items = data.draw(st.integers(1, 12))
    scores = np.array(
        data.draw(st.lists(st.sampled_from([-1.5, 0.0, 1.0, 2.0]), min_size=items, max_size=items)),
        np.float32,
    )
    known = np.array(data.draw(st.lists(st.booleans(), min_size=items, max_size=items)))
    masked = np.array(sorted(data.draw(st.sets(st.integers(0, items - 1)))), np.int32)
    held = sorted(set(range(items)) - set(masked.tolist()))
    place = np.array(data.draw(st.permutations(range(items))), np.int32)
    competing = [i for i in range(items) if known[i] and i not in masked]
    order = sorted(competing, key=lambda i: (-scores[i], place[i]))
    table = np.array([0, len(masked)]), masked
    expected = sorted(order.index(i) + 1 if i in order else len(order) + 1 for i in held)
    assert ranks_of(scores, held, known=known, masked=table, place=place) == (expected, len(order))
    assert (
        best_of(scores, 4, known=known, masked=table, place=place)[0]
        == [*order, -1, -1, -1, -1][:4]
    )
