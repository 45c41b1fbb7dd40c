"""`evaluate`: one pass, both rankings, and what it says about them."""

import numpy as np
import pytest
from small_data import Popular, Scores, interactions, random_data

from entrenous.core.errors import InputError, NonFiniteError
from entrenous.data.split.protocol import splits
from entrenous.data.split.types import Held
from entrenous.evaluation.protocol import categories, evaluate
from entrenous.evaluation.recommend import recommend, tie_places

USERS, ITEMS = ["ann", "bob", "eve"], ["a", "b", "c", "d", "e"]
TRAIN = interactions(
    [("ann", "a"), ("bob", "b"), ("bob", "c"), ("eve", "d")], users=USERS, items=ITEMS
)
TEST = interactions([("ann", "b"), ("ann", "d"), ("bob", "e")], users=USERS, items=ITEMS)
SCORES = Scores([[9, 1, 4, 3, 8], [1, 2, 3, 4, 5], [0, 0, 0, 0, 0]])


def test_the_full_ranking_by_hand():
    """ann: c 4, d 3, b 1 compete (a is hers, e has no training row); d is second, b third. bob: e
    cannot be listed.
    """
    found = evaluate(SCORES, TRAIN, Held(TEST), label="hand", n=[1, 2])
    assert found.user.tolist() == [0, 1]
    assert found.ranking.rank.tolist() == [2, 3, 3]
    assert found.ranking.candidates.tolist() == [3, 2]
    assert found.lists.item.tolist() == [[2, 3], [3, 0]]
    assert found.per_user["recall@2"].tolist() == [1 / 2, 0]
    assert found.metrics["recall@2"] == 1 / 4
    assert found.metrics["auc"] == pytest.approx(
        (0 + 0) / 2
    )  # c precedes both of ann's, a and d precede e
    assert found.metrics["item_coverage@2"] == 3
    assert found.full_ranking is None and found.per_user_full is None


def test_rows_that_are_not_in_the_catalogue_are_missed():
    """As if the items were there and had no training row: every accuracy metric is the same, over
    the same users.
    """
    data = random_data(users=60, items=90, rows=700, seed=4)
    whole, split = splits("temporal-40-60", data)[0], splits("fpl-40-60", data)[0]
    known = whole.final_train.popularity > 0
    scores = np.random.default_rng(3).random((60, 90)).astype(np.float32)
    found = evaluate(Scores(scores[:, known]), split.final_train, split.test, label="few", n=[5])
    truth = evaluate(Scores(scores), whole.final_train, whole.test, label="all", n=[5])
    assert split.test.absent is not None and (split.test.absent > 0).sum() > 5 and known.sum() < 90
    assert (
        found.user.tolist() == truth.user.tolist()
        and found.per_user.keys() == truth.per_user.keys()
    )
    for name, values in truth.per_user.items():
        assert found.per_user[name] == pytest.approx(values, abs=1e-12), name
    assert found.ranking.rank.tolist() == truth.ranking.rank.tolist()
    assert f"count as missed: {split.test.absent.sum()}" in " ".join(found.protocol)
    only = Held(TEST.select(np.array([True, False, False])), absent=np.array([0, 2, 0]))
    missed = evaluate(SCORES, TRAIN, only, label="hand", n=[2])
    assert (
        missed.user.tolist() == [0, 1]
        and missed.ranking.ptr.tolist() == [0, 1, 3]
        and missed.per_user["recall@2"].tolist() == [0, 0]
    )
    assert missed.ranking.rank.tolist() == [
        3,
        3,
        3,
    ]  # bob's two could have been two of two competing items


def test_the_sampled_ranking_by_hand():
    """ann's b (1) against c, e: e has no training row and stands behind: rank 2 of 3; d (3) against
    a, b: rank 2; e: missed.
    """
    held = Held(TEST, np.array([[2, 4], [0, 1], [0, 3]], np.int32))
    found = evaluate(SCORES, TRAIN, held, label="hand", n=[1, 2])
    assert found.candidates_ranking.rank.tolist() == [2, 2, 3]
    assert found.candidates_ranking.candidates.tolist() == [3, 3, 2]
    assert found.per_user["hr@2"].tolist() == [1, 0]
    assert found.metrics["mrr@2"] == 1 / 2 * (1 / 2)
    assert found.full_ranking["recall@2"] == 1 / 4
    assert found.metrics["gini@2"] == found.full_ranking["gini@2"]


def test_a_users_sampled_value_is_the_mean_of_her_queries():
    held = Held(TEST, np.array([[2, -1], [0, 2], [0, 3]], np.int32))
    found = evaluate(SCORES, TRAIN, held, label="hand", n=[1])
    assert found.candidates_ranking.rank.tolist() == [2, 3, 3]
    top = evaluate(Scores([[0, 5, 1, 3, 0]] * 3), TRAIN, held, label="hand", n=[1])
    assert top.per_user["hr@1"].tolist() == [1, 0]  # b before c, d before a and c
    known = Scores([[9, 1, 4, 3, 8], [7, 2, 3, 4, 5], [0, 0, 0, 0, 0]])
    own = Held(
        interactions([("ann", "b"), ("ann", "d"), ("bob", "a")], users=USERS, items=ITEMS),
        held.candidates,
    )
    mine = evaluate(known, TRAIN, own, label="hand", n=[3])
    assert mine.candidates_ranking.rank.tolist() == [2, 3, 1]  # ann has two queries, bob one
    assert mine.per_user["mrr@3"].tolist() == pytest.approx([(1 / 2 + 1 / 3) / 2, 1])


def test_further_rows_may_be_masked():
    also = interactions([("ann", "c"), ("ann", "a")], users=USERS, items=ITEMS)
    found = evaluate(SCORES, TRAIN, Held(TEST), label="hand", n=[1], also_mask=also)
    assert found.ranking.rank.tolist() == [1, 2, 3]
    assert found.ranking.candidates.tolist() == [2, 2]
    assert "without the user's own training and validation rows" in found.protocol[0]


def test_the_protocol_is_told_with_counts():
    found = evaluate(
        SCORES,
        TRAIN,
        Held(TEST, np.array([[2, 4], [0, 1], [0, -1]], np.int32)),
        label="hand",
        seed=3,
    )
    assert found.protocol == (
        "full ranking: the 4 items with a training row, without the user's own training rows",
        "sampled ranking: each held-out item against its own 1 to 2 frozen candidates",
        "equal scores are ordered by a shuffle of the items keyed by seed 3",
        "users evaluated: 2, with 3 held-out rows; users in training without any, left out: 1",
        (
            "held-out rows of items without a training row, which are never recommended and rank"
            " last: 1"
        ),
        (
            "f1_user: all held-out items of a user in one list, with the candidates of the first of"
            " them"
        ),
    )


def test_lists_are_those_of_recommend():
    data = random_data()
    split = splits("random-80-20", data)[0]
    found = evaluate(
        Popular(split.final_train), split.final_train, split.test, label="popular", n=[5], seed=2
    )
    assert np.array_equal(
        found.lists.item,
        recommend(Popular(split.final_train), split.final_train, found.user, 5, seed=2).item,
    )


@pytest.mark.parametrize("block", [1, 7, 10_000])
def test_blocks_do_not_change_anything(block, monkeypatch):
    split = splits("loo-9", random_data())[0]
    whole = evaluate(Popular(split.train), split.train, split.test, label="popular")
    monkeypatch.setattr(
        "entrenous.evaluation.recommend.BLOCK_SCORES", block * len(split.train.items)
    )
    parts = evaluate(Popular(split.train), split.train, split.test, label="popular")
    assert whole.metrics == parts.metrics and whole.full_ranking == parts.full_ranking
    assert np.array_equal(whole.ranking.rank, parts.ranking.rank)
    assert np.array_equal(whole.candidates_ranking.rank, parts.candidates_ranking.rank)


@pytest.mark.parametrize("sampled", [False, True])
def test_ranks_agree_with_sorting(sampled):
    """Scores on a coarse grid, so that most are tied: the oracle sorts by (-score, place in the
    shuffle).
    """
    data = random_data(users=25, items=60, rows=500, seed=3)
    split = splits("loo-20" if sampled else "temporal-80-20", data)[0]
    train, held = split.final_train, split.test
    scores = np.random.default_rng(0).integers(0, 4, (25, 60))
    found = evaluate(Scores(scores), train, held, label="oracle", seed=9)
    place, known = tie_places(60, 9), train.popularity > 0
    ranking = found.candidates_ranking if sampled else found.ranking
    expected = []
    for q, user in enumerate(ranking.user.tolist()):
        mine = set(train.item[train.ptr[user] : train.ptr[user + 1]].tolist())
        wanted = (
            held.rows.item[q : q + 1]
            if sampled
            else held.rows.item[held.rows.ptr[user] : held.rows.ptr[user + 1]]
        )
        field = (
            {*held.candidates[q].tolist(), *wanted.tolist()} if sampled else set(range(60)) - mine
        )
        order = sorted((i for i in field if known[i]), key=lambda i: (-scores[user, i], place[i]))
        last = (len(field) - (not known[wanted[0]]) if sampled else len(order)) + 1
        expected += sorted(order.index(i) + 1 if i in order else last for i in wanted)
    assert ranking.rank.tolist() == expected


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_nonfinite_scores_are_refused_by_name(bad):
    """A NaN would rank first under a plain comparison and read as HR 1.0."""
    with pytest.raises(NonFiniteError, match="fcf: a score of user 'bob' is NaN or infinite"):
        evaluate(
            Scores([[1, 1, 1, 1, 1], [1, bad, 1, 1, 1], [1, 1, 1, 1, 1]]),
            TRAIN,
            Held(TEST),
            label="fcf",
        )


@pytest.mark.parametrize(
    ("train", "test", "said"),
    [
        (TRAIN, TEST.select(TEST.user < 0), "there are no held-out rows"),
        (
            TRAIN,
            interactions([("ann", "a")], users=USERS, items=ITEMS),
            "held-out rows that are also training rows: 1; .* user 'ann', item 'a'",
        ),
        (
            TRAIN,
            interactions([("ann", "b")], users=USERS),
            "held-out rows have other items than training: 1 and 5, of which 1 are shared",
        ),
    ],
)
def test_parts_that_do_not_fit_are_refused(train, test, said):
    with pytest.raises(InputError, match=said):
        evaluate(SCORES, train, Held(test), label="hand")


def test_categories_are_separated_by_a_bar():
    data = interactions(
        [("ann", "a"), ("ann", "b"), ("bob", "c")],
        features={"category": np.array(["park|bar", "", "bar"])},
    )
    member, names = categories(data)
    assert (member.tolist(), names) == (
        [[True, True], [False, False], [True, False]],
        ("bar", "park"),
    )
    assert categories(TRAIN) == (None, ())


def test_bias_disparity_is_reported_by_category():
    split = splits("random-80-20", random_data())[0]
    found = evaluate(
        Popular(split.final_train), split.final_train, split.test, label="popular", n=[5, 10]
    )
    assert set(found.by_category) == {"bias_disparity@5", "bias_disparity@10"}
    assert set(found.by_category["bias_disparity@5"]) == {"a", "b", "c"}
