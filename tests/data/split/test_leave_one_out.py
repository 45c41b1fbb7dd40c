"""Leave one out: which row is the latest, users with few rows, and how candidates are drawn."""

import numpy as np
import pytest
from small_data import interactions, movielens, rows_of

from entrenous.core.errors import InputError
from entrenous.core.keys import key
from entrenous.data.split.leave_one_out import draw_candidates
from entrenous.data.split.protocol import splits


def loo(rows, **options):
    return splits("loo-full", interactions(rows, **options))[0]


def test_the_latest_row_is_test_and_the_one_before_validation():
    split = loo([("ann", "c", 3), ("ann", "a", 1), ("ann", "d", 4), ("ann", "b", 2)])
    assert (rows_of(split.test.rows), rows_of(split.validation.rows)) == (
        {("ann", "d")},
        {("ann", "c")},
    )
    assert rows_of(split.train) == {("ann", "a"), ("ann", "b")}
    assert split.refit and rows_of(split.final_train) == {("ann", "a"), ("ann", "b"), ("ann", "c")}


def test_among_equal_times_the_row_that_comes_last_in_the_source_is_the_latest():
    split = loo([("ann", "c", 5), ("ann", "b", 5), ("ann", "a", 5), ("ann", "d", 1)])
    assert (rows_of(split.test.rows), rows_of(split.validation.rows)) == (
        {("ann", "a")},
        {("ann", "b")},
    )


def test_users_with_few_rows_keep_what_can_be_kept():
    split = loo(
        [("ann", "a"), ("bob", "a"), ("bob", "b"), ("eve", "a"), ("eve", "b"), ("eve", "c")]
    )
    assert rows_of(split.test.rows) == {("bob", "b"), ("eve", "c")}
    assert rows_of(split.validation.rows) == {("eve", "b")}
    assert split.notes[:2] == (
        "users with one row, which stays in training: 1 (ann)",
        "users with two rows, one to train and one to test, none to validate: 1 (bob)",
    )


def test_without_users_of_three_rows_there_is_no_validation():
    assert loo([("ann", "a"), ("ann", "b"), ("bob", "a"), ("bob", "b")]).validation is None


DATA = interactions(
    [("ann", f"i{n:03}") for n in range(0, 100, 2)] + [("bob", f"i{n:03}") for n in range(60)],
    items=[f"i{n:03}" for n in range(100)],
)


def test_all_free_items_are_drawn_when_just_enough():
    drawn = draw_candidates(DATA, np.array([0]), 50, key(0))
    assert drawn[0].tolist() == list(range(1, 100, 2))
    assert draw_candidates(DATA, np.array([1]), 40, key(0))[0].tolist() == list(range(60, 100))


def test_a_draw_depends_on_the_user_and_the_key_alone():
    both, one = (
        draw_candidates(DATA, np.array([0, 1]), 9, key(3)),
        draw_candidates(DATA, np.array([1]), 9, key(3)),
    )
    assert both[1].tolist() == one[0].tolist()
    assert draw_candidates(DATA, np.array([1]), 9, key(4)).tolist() != one.tolist()


def test_candidates_are_keyed_by_seed_part_and_user():
    split = splits("loo-9", DATA, seed=7)[0]
    assert np.array_equal(
        split.test.candidates,
        draw_candidates(DATA, np.array([0, 1]), 9, key(7, "candidates", "test")),
    )
    expected = draw_candidates(DATA, np.array([0, 1]), 9, key(7, "candidates", "validation"))
    assert np.array_equal(split.validation.candidates, expected)


def test_the_draw_is_uniform():
    """2,000 draws of 10 among 50 free items: each item 400 times, standard deviation 17.9 =
    sqrt(2000 * 1/5 * 4/5).
    """
    users = np.zeros(1, np.int64)
    drawn = np.concatenate([draw_candidates(DATA, users, 10, key(seed))[0] for seed in range(2000)])
    counts = np.bincount(drawn, minlength=100)
    assert counts[::2].sum() == 0
    assert abs(counts[1::2] - 400).max() < 4.5 * 17.9
    assert (
        np.sum((counts[1::2] - 400) ** 2 / 400) < 90
    )  # chi-square with 49 degrees of freedom times 4/5: mean 39


def test_too_few_items_are_refused_by_name_with_a_number_that_works():
    with pytest.raises(
        InputError,
        match=(
            r"45 candidates are needed, but user 'bob' has only 40 items never consumed.*use loo-40"
        ),
    ):
        splits("loo-45", DATA)
    assert splits("loo-40", DATA)[0].test.candidates.shape == (2, 40)


def test_a_user_with_every_item_is_refused_at_once():
    greedy = interactions(
        [("ann", item) for item in "abcd"] + [("bob", "a"), ("bob", "b"), ("bob", "c")]
    )
    with pytest.raises(
        InputError, match=r"user 'ann' has only 0 items never consumed.*use loo-full"
    ):
        splits("loo-1", greedy)


def test_movielens_100k():
    split = splits("loo-99", movielens(), seed=0)[0]
    assert [len(split.train), len(split.validation.rows), len(split.test.rows)] == [
        98_114,
        943,
        943,
    ]
    assert split.test.candidates.shape == split.validation.candidates.shape == (943, 99)
    assert (split.test.rows.time >= split.validation.rows.time).all()
    assert any(
        note.startswith("items of the test rows that never occur in training: 3 (")
        for note in split.notes
    )
