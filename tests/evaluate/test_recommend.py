"""Recommend: what is left out, ties, blocks, and scores that are refused."""

import numpy as np
import pytest
from small_data import Popular, Scores, interactions, random_data

from entrenous.core.errors import NonFiniteError
from entrenous.evaluation.list_options import ListOptions
from entrenous.evaluation.recommend import list_of_each, recommend

DATA = interactions(
    [("ann", "a"), ("ann", "b"), ("bob", "b"), ("bob", "c")], items=["a", "b", "c", "d"]
)
EVERYONE = np.arange(2)


def test_consumed_items_and_items_nobody_consumed_are_left_out():
    best = recommend(Scores([[1, 2, 3, 9], [1, 2, 3, 9]]), DATA, EVERYONE, 2)
    assert best.item.tolist() == [[2, -1], [0, -1]]  # d has no row, so nothing was learnt about it
    assert best.score.tolist() == [[3, -np.inf], [1, -np.inf]]


def test_users_may_come_in_any_order_and_twice():
    scores = Scores([[1, 2, 3, 9], [3, 2, 1, 9]])
    assert recommend(scores, DATA, np.array([1, 0, 1]), 1).item.tolist() == [[0], [2], [0]]


@pytest.mark.parametrize("block", [1, 3, 1000])
def test_blocks_do_not_change_lists(block, monkeypatch):
    data = random_data()
    users = np.arange(len(data.users))
    whole = recommend(Popular(data), data, users, 5)
    monkeypatch.setattr("entrenous.evaluation.recommend.BLOCK_SCORES", block * len(data.items))
    parts = recommend(Popular(data), data, users, 5)
    assert np.array_equal(whole.item, parts.item) and np.array_equal(whole.score, parts.score)


def test_ties_are_shuffled_by_the_seed_alone():
    data = interactions([(f"u{n}", f"i{n:03}") for n in range(200)])
    flat = Scores(np.zeros((200, 200)))
    lists = [recommend(flat, data, np.arange(3), 10, seed=seed).item.tolist() for seed in (0, 0, 1)]
    assert lists[0] == lists[1] != lists[2]
    assert np.mean(lists[0]) > 20  # not the first ten items


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_nonfinite_scores_are_refused_by_name(bad, monkeypatch):
    monkeypatch.setattr("entrenous.evaluation.recommend.BLOCK_SCORES", 1)
    with pytest.raises(NonFiniteError, match=r"bpr-mf: a score of user 'bob' is NaN or infinite"):
        recommend(Scores([[1, 2, 3, 4], [1, bad, 3, 4]]), DATA, EVERYONE, 2, label="bpr-mf")


def test_scores_of_a_wrong_shape_are_refused():
    with pytest.raises(ValueError, match=r"mine returned scores \(2, 3\) for 2 users and 4 items"):
        recommend(Scores(np.zeros((2, 3))), DATA, EVERYONE, 1, label="mine")


def test_a_list_of_no_items_is_refused():
    with pytest.raises(ValueError, match="at least 1, not 0"):
        recommend(Scores(np.zeros((2, 4))), DATA, EVERYONE, 0)


def test_one_user_is_told_what_the_blocks_say_of_them():
    data = random_data()
    scores = Scores(
        np.random.default_rng(0).integers(0, 5, size=(len(data.users), len(data.items)))
    )  # with many ties
    best = recommend(scores, data, np.arange(len(data.users)), 6, seed=3)
    names = data.users.ids.tolist()
    lists = list_of_each(scores, data, names, 6, ListOptions(), label="mine", seed=3)
    for u, told in enumerate(lists.values()):
        assert [(row["item"], row["score"]) for row in told] == [
            (data.items[item], score)
            for item, score in zip(best.item[u].tolist(), best.score[u].tolist(), strict=True)
            if item >= 0
        ]
