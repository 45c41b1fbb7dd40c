"""PEPPER's metrics of one user: HR and NDCG over her held-out items (equations 4, 5), and F1 of all
of them in one list (6 to 8).
"""

from math import log

import numpy as np
import pytest
from small_data import Popular, Scores, interactions, random_data

from entrenous.data.split.protocol import splits
from entrenous.data.split.types import Held
from entrenous.evaluation.protocol import evaluate
from entrenous.evaluation.recommend import tie_places

USERS, ITEMS = ["ann", "bob"], list("abcdefghij")
TRAIN = interactions(
    [("ann", "a"), *(("bob", item) for item in "abcdefgh")], users=USERS, items=ITEMS
)  # i and j: no training row
TEST = interactions(
    [("ann", "b"), ("ann", "c"), ("ann", "i"), ("bob", "i")], users=USERS, items=ITEMS
)
#                  a  b  c  d  e  f  g  h  i  j
SCORES = Scores([[0, 5, 9, 8, 7, 6, 2, 1, 9, 9], [1, 1, 1, 1, 1, 1, 1, 1, 9, 1]])
AGAINST = np.array([[3, 4, 5, 6], [2, 1, 6, 7], [3, 4, 6, 7], [9, -1, -1, -1]], np.int32)
# b against d e f g; c against c, b, g h (as published lists may be); i against d e g h; bob's i
# against j


def found(n=(1, 2, 4)):
    return evaluate(SCORES, TRAIN, Held(TEST, AGAINST), label="hand", n=n)


def test_equations_4_and_5_by_hand():
    """ann's b stands behind d, e, f: place p = 3; her c is first: p = 0; her i has no training row
    and is missed.
    """
    per_user = found().per_user
    assert per_user["hr@4"].tolist() == [(1 + 1 + 0) / 3, 0]
    assert per_user["hr@2"].tolist() == [(0 + 1 + 0) / 3, 0]
    assert per_user["ndcg@4"][0] == pytest.approx(
        (log(2) / log(3 + 2) + log(2) / log(0 + 2) + 0) / 3
    )
    assert per_user["ndcg@2"][0] == pytest.approx((0 + log(2) / log(0 + 2) + 0) / 3)


def test_equations_6_to_8_by_hand():
    """ann's list is c 9, d 8, e 7, f 6, b 5, g 2 (b's own four, and her held-out ones), i can never
    stand in it. At 2 one of three is found: P 1/2, R 1/3; at 4 P 1/4, R 1/3."""
    per_user = found((1, 2, 4, 5)).per_user
    assert per_user["f1_user@1"].tolist() == pytest.approx([2 * 1 * (1 / 3) / (1 + 1 / 3), 0])
    assert per_user["f1_user@2"].tolist() == pytest.approx(
        [2 * (1 / 2) * (1 / 3) / (1 / 2 + 1 / 3), 0]
    )
    assert per_user["f1_user@4"].tolist() == pytest.approx(
        [2 * (1 / 4) * (1 / 3) / (1 / 4 + 1 / 3), 0]
    )
    assert per_user["f1_user@5"].tolist() == pytest.approx(
        [2 * (2 / 5) * (2 / 3) / (2 / 5 + 2 / 3), 0]
    )
    assert found().metrics["f1_user@2"] == pytest.approx(0.4 / 2)


def test_it_says_so_and_is_stored_with_the_sampled_values_alone():
    one = found()
    assert one.protocol[-1].startswith("f1_user: all held-out items of a user in one list")
    assert (
        "f1_user@2" in one.metrics
        and "f1_user@2" not in one.full_ranking
        and "f1_user@2" not in one.per_user_full
    )


@pytest.mark.parametrize("protocol", ["loo-9", "random-80-20"])
def test_other_protocols_have_no_such_value(protocol):
    """Of users with one held-out row it would be f1@n, and without candidates there is nothing to
    make a list of.
    """
    split = splits(protocol, random_data())[0]
    one = evaluate(
        Popular(split.final_train), split.final_train, split.test, label="popular", n=[5]
    )
    assert not [name for name in one.metrics if "user" in name] and not [
        said for said in one.protocol if "f1_user" in said
    ]


@pytest.mark.parametrize("block", [1, 7, 10_000])
def test_it_agrees_with_sorting(block, monkeypatch):
    """Scores on a coarse grid, so that most are tied; some users have one held-out row, and some
    items no training row.
    """
    data = random_data(users=30, items=160, rows=900, seed=3)
    split = splits("pepper-85-15", data)[0]
    scores = np.random.default_rng(0).integers(0, 4, (30, 160))
    monkeypatch.setattr("entrenous.evaluation.recommend.BLOCK_SCORES", block * 160)
    one = evaluate(Scores(scores), split.train, split.test, label="oracle", seed=9, n=[5])
    place, known = tie_places(160, 9), split.train.popularity > 0
    rows, expected = split.test.rows, []
    for user in one.user.tolist():
        held = rows.item[rows.ptr[user] : rows.ptr[user + 1]].tolist()
        field = {*held, *split.test.candidates[rows.ptr[user]].tolist()}
        order = sorted((i for i in field if known[i]), key=lambda i: (-scores[user, i], place[i]))[
            :5
        ]
        expected.append(2 * len({*order} & {*held}) / (5 + len(held)))
    assert one.per_user["f1_user@5"].tolist() == pytest.approx(expected)
    single = rows.counts[one.user] == 1
    assert single.any() and not single.all()
    assert one.per_user["f1_user@5"][single].tolist() == one.per_user["f1@5"][single].tolist()
