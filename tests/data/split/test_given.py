"""`given`: parts that share external ids, candidates as a table, and what is refused."""

import numpy as np
import pytest
from small_data import Popular, interactions, rows_of

from entrenous.core.errors import InputError
from entrenous.data.split.given import given
from entrenous.data.split.protocol import splits
from entrenous.evaluation.protocol import evaluate

TRAIN = interactions(
    [("ann", "b"), ("ann", "a"), ("bob", "b")], features={"title": np.array(["A", ""])}
)
TEST = interactions(
    [("bob", "c"), ("ann", "d"), ("eve", "b")], features={"title": np.array(["B", "C", "D"])}
)
VALIDATION = interactions([("bob", "a")])
CANDIDATES = {
    "user": ["ann", "ann", "bob", "bob", "bob", "eve"],
    "item": ["d", "d", "c", "c", "c", "b"],
    "candidate": ["z", "c", "d", "z", "y", "a"],
}


def test_vocabularies_are_united_in_order_of_appearance():
    split = given(TRAIN, TEST, VALIDATION, CANDIDATES)
    assert split.train.users.ids.tolist() == ["ann", "bob", "eve"]
    assert split.train.items.ids.tolist() == ["a", "b", "c", "d", "z", "y"]
    assert rows_of(split.train) == rows_of(TRAIN)
    assert rows_of(split.test.rows) == rows_of(TEST)
    assert rows_of(split.validation.rows) == rows_of(VALIDATION)


def test_candidates_follow_the_held_out_rows_and_are_filled_up_with_minus_one():
    split = given(TRAIN, TEST, candidates=CANDIDATES)
    names = [
        [split.train.items[item] if item >= 0 else None for item in row]
        for row in split.test.candidates.tolist()
    ]
    assert names == [["z", "c", None], ["d", "z", "y"], ["a", None, None]]  # ann-d, bob-c, eve-b


def test_features_come_from_the_first_part_that_knows_the_item():
    titles = given(TRAIN, TEST).train.features["title"]
    assert titles.tolist() == ["A", "B", "C", "D"]


def test_the_data_lends_features_that_the_split_lacks():
    data = interactions(
        [("ann", "d"), ("ann", "q")],
        features={"category": np.array(["park", "bar"]), "title": np.array(["X", "Y"])},
    )
    split = splits("given", data, given=given(TRAIN, TEST))[0]
    assert split.train.features["category"].tolist() == ["", "", "", "park"]
    assert split.test.rows.features["title"].tolist() == ["A", "B", "C", "D"]


@pytest.mark.parametrize("library", ["polars", "pandas"])
def test_candidates_may_be_a_frame(library):
    frame = pytest.importorskip(library).DataFrame(CANDIDATES)
    assert np.array_equal(
        given(TRAIN, TEST, candidates=frame).test.candidates,
        given(TRAIN, TEST, candidates=CANDIDATES).test.candidates,
    )


def test_later_parts_come_later_in_the_source():
    split = given(TRAIN, TEST, VALIDATION)
    assert (
        split.train.row.max()
        < split.validation.rows.row.min()
        <= split.validation.rows.row.max()
        < split.test.rows.row.min()
    )


def test_cold_users_and_items_and_consumed_candidates_are_noted():
    notes = given(
        TRAIN, TEST, candidates={**CANDIDATES, "candidate": ["a", "c", "d", "z", "y", "a"]}
    ).notes
    assert notes == (
        "test candidates that their user has a row of, left out: 1",
        "users of the test rows that never occur in training: 1 (eve)",
        "items of the test rows that never occur in training: 2 (c, d)",
    )


def test_a_candidate_competes_once_and_never_if_its_user_has_consumed_it():
    """bob's c stands among its own candidates, and z twice; b is a training row of his."""
    listed = {"user": ["bob"] * 5, "item": ["c"] * 5, "candidate": ["c", "z", "z", "b", "y"]}
    others = {"user": ["ann", "eve"], "item": ["d", "b"], "candidate": ["z", "a"]}
    both = {name: listed[name] + others[name] for name in listed}
    split = given(TRAIN, TEST, candidates=both)
    row = split.test.candidates[split.test.rows.user.tolist().index(1)]
    names = [split.train.items[item] for item in row.tolist() if item >= 0]
    assert names == ["z", "y"]
    assert split.notes[:3] == (
        "test candidates that are the held-out item itself, left out: 1",
        "test candidates that repeat in their list, left out: 1",
        "test candidates that their user has a row of, left out: 1",
    )
    only = {name: ["bob", "c", "b"][n : n + 1] + others[name] for n, name in enumerate(listed)}
    with pytest.raises(InputError, match="no candidate is left: 1; the first is user 'bob'"):
        given(TRAIN, TEST, candidates=only)


@pytest.mark.parametrize(
    ("parts", "candidates", "said"),
    [
        ((TRAIN, TEST.select(TEST.user < 0)), None, "the test part has no rows"),
        ((TRAIN, TEST), {"user": ["ann"], "item": ["d"]}, "no column candidate among user, item"),
        (
            (TRAIN, TEST),
            {"user": ["ann"], "item": ["d"], "candidate": ["z"]},
            "test rows without any: 2; the first is user 'bob', item 'c'",
        ),
        (
            (TRAIN, TEST),
            {name: [*column, "bob"] for name, column in CANDIDATES.items()},
            "line 7 is for user 'bob', item 'bob', which is not",
        ),
    ],
)
def test_parts_that_cannot_be_are_refused(parts, candidates, said):
    with pytest.raises(InputError, match=said):
        given(*parts, candidates=candidates)


def test_a_given_split_is_evaluated_like_any_other():
    """Ranks by popularity (b 2, a 1): eve's b before her candidate a; ann's d and bob's c are cold,
    so missed.
    """
    split = given(TRAIN, TEST, candidates=CANDIDATES)
    found = evaluate(Popular(split.train), split.train, split.test, label="popular", n=[1])
    assert found.per_user["hr@1"].tolist() == [0, 0, 1]
    assert found.candidates_ranking.candidates.tolist() == [2, 3, 2]
