"""Values that may mean no: the question they raise, each answer to it, and the checks behind."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from small_data import interactions

import entrenous
from entrenous.core.errors import InputError, NonFiniteError
from entrenous.data.interactions import Interactions
from entrenous.data.likes import keep_likes, liked, said
from entrenous.data.load import from_frame, load
from entrenous.data.options import read_rule
from entrenous.data.split import export, read
from entrenous.data.split.protocol import splits

# Likes and dislikes of five users, a user and an item of dislikes alone.
LABELS = """user_id,item_id,rating
1,a,1
1,b,0
1,c,0
2,a,0
2,b,1
2,c,1
3,a,1
3,b,0
3,c,0
4,d,0
"""


@pytest.fixture
def file(tmp_path: Path) -> Callable[..., Path]:
    def write(text: str, name: str = "rows.csv") -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def pairs(data: Interactions) -> set[tuple[str, str]]:
    users = data.users.ids[data.user].tolist()
    return set(zip(users, data.items.ids[data.item].tolist(), strict=True))


def ratings(seed: int = 0, lowest: int = -10, highest: int = 10) -> list[tuple[str, str, int, int]]:
    rng = np.random.default_rng(seed)
    user, item = np.nonzero(rng.random((30, 20)) < 0.5)
    value = rng.integers(lowest, highest + 1, len(user))
    value[:2] = lowest, highest
    return [
        (f"u{u}", f"i{i}", v, 1_500_000_000 + n)
        for n, (u, i, v) in enumerate(zip(user, item, value.tolist(), strict=True))
    ]


# ---- the question --------------------------------------------------------------------------------


def test_zeros_are_a_question_in_one_line(file: Callable[..., Path]) -> None:
    """Case 02: NicolasHug/Surprise#10, #157; RUCAIBox/RecBole#1095, #2066."""
    with pytest.raises(InputError) as refused:
        load(file(LABELS))
    line = str(refused.value)
    assert "rows.csv:3: rows with a value of 0 or less: 6 of 10 (the lowest is 0)" in line
    for answer in (
        "likes=any",
        "likes=positive",
        "likes=at_least=X",
        "not_rated=0",
        "scale=0,1",
        "value= ",
    ):
        assert answer in line
    assert "\n" not in line


def test_the_question_offers_only_what_can_be_followed() -> None:
    nothing = {"user": ["a", "b"], "item": ["x", "y"], "rating": [0, 0]}
    with pytest.raises(InputError) as refused:
        from_frame(nothing)
    assert "likes=positive" not in str(refused.value) and "not_rated" not in str(refused.value)
    # Of several low values none is the mark of a missing one.
    with pytest.raises(InputError) as refused:
        from_frame(ratings())
    assert "not_rated" not in str(refused.value) and "scale=-10,10" in str(refused.value)


def test_data_without_low_values_has_no_rule() -> None:
    data = from_frame([("a", "x", 1), ("a", "z", 2), ("b", "y", 3)])
    assert data.reading.likes == "" and len(data) == 3


def test_an_unread_column_of_labels_is_a_question(file: Callable[..., Path]) -> None:
    """A `label` of 0 that is not read would make a dislike a like, unseen."""
    path = file("user_id,item_id,is_click\n1,a,1\n1,b,0\n2,b,1\n2,c,0\n3,c,1\n3,a,1\n")
    with pytest.raises(InputError) as refused:
        load(path)
    assert "rows.csv:3: the column 'is_click' is not read and says no in 2 of 6" in str(
        refused.value
    )
    assert len(load(path, likes="any")) == 6
    clicked = load(path, likes="is_click")
    assert pairs(clicked) == {("1", "a"), ("2", "b"), ("3", "c"), ("3", "a")}
    assert "likes = is_click" in clicked.notes[0]
    with pytest.raises(InputError, match="'label' is not read and says no in 1 of 3"):
        load(file("user,item,label\n1,a,1\n1,b,\n2,c,No\n"))
    # A column of that name that never says no leaves nothing to ask.
    assert len(load(file("user,item,label\n1,a,1\n1,b,1\n2,c,1\n"))) == 3


# ---- the rules -----------------------------------------------------------------------------------


def test_a_rule_has_one_form() -> None:
    assert read_rule(("at_least", 4)) == read_rule("at_least=4.0") == "at_least=4"
    assert read_rule(" positive ") == "positive" and read_rule("at_least=0.1") == "at_least=0.1"
    assert read_rule("at_least=123456789") == "at_least=123456789"
    for wrong in (
        "at_least",
        "at_least=",
        "at_least=x",
        "at_least=nan",
        "at_least=inf",
        "",
        " ",
        4,
    ):
        with pytest.raises(InputError, match=r"^likes: got"):
            read_rule(wrong)


def test_rules_judge_values_as_they_are_kept() -> None:
    value = np.array([-1, 0, 0.1, 4, 5], np.float32)
    assert liked(value, "positive").tolist() == [False, False, True, True, True]
    assert liked(value, "at_least=0.1").tolist() == [False, False, True, True, True]
    assert liked(value, "any").all() and liked(value, "clicked").all()
    assert said("at_least=4") == "likes=at_least=4: rows with a value of 4 or more"


def test_values_stay_and_what_was_left_out_is_said(file: Callable[..., Path]) -> None:
    path = file("user,item,rating\n1,a,5\n1,b,2\n2,a,4\n2,c,1\n3,b,5\n3,d,1\n")
    data = load(path, likes="at_least=4")
    assert pairs(data) == {("1", "a"), ("2", "a"), ("3", "b")}
    assert sorted(data.value.tolist()) == [4, 5, 5] and data.rating_scale == (4, 5)
    (left,) = data.reading.left_out
    assert left.rows == 3 and left.first.endswith("rows.csv:3")
    assert any("likes=at_least=4: rows with a value of 4 or more" in note for note in data.notes)
    # Users and items of dislikes alone are gone.
    assert data.items.ids.tolist() == ["a", "b"]


def test_a_rule_without_values_is_refused(file: Callable[..., Path]) -> None:
    """`likes=positive` would keep every row of a file whose labels are in another column."""
    path = file("user,item,ok\n1,a,1\n1,b,0\n2,b,1\n")
    for option in ({"likes": "positive"}, {"likes": "at_least=1"}, {"not_rated": 0}):
        with pytest.raises(InputError, match=r"judges values, and no column of values was read"):
            load(path, **option)
    assert len(load(path, likes="positive", value="ok")) == 2


@pytest.mark.parametrize(
    ("labels", "rows"),
    [
        ("1 0 1 1", 3),
        ("true False TRUE t", 3),
        ("yes no y Y", 3),
        ("1.0 0.0 1 1", 3),
        ("1 -1 1 1", 3),
    ],
)
def test_labels_have_many_forms(file: Callable[..., Path], labels: str, rows: int) -> None:
    pairs_of_file = ("1,a", "1,b", "2,b", "3,c")
    lines = [f"{pair},{label}" for pair, label in zip(pairs_of_file, labels.split(), strict=True)]
    data = load(file("\n".join(["user,item,liked", *lines, ""])), likes="liked")
    assert len(data) == rows and data.reading.likes == "liked"


def test_a_column_that_is_no_label_is_refused_with_the_way_on(file: Callable[..., Path]) -> None:
    path = file("user,item,watched\n1,a,1\n1,b,0.4\n2,b,1\n2,c,0\n3,c,1\n")
    with pytest.raises(InputError, match=r"rows\.csv:3: the label 'watched' is '0\.4'.*value=watc"):
        load(path, likes="watched")
    assert len(load(path, value="watched", likes="at_least=0.4", not_rated=0)) == 4
    with pytest.raises(InputError, match=r"^likes: no rule and no column 'postive'.*'positive'"):
        load(path, likes="postive")


def test_labels_are_read_before_repeats() -> None:
    """Of three impressions of a pair one was clicked: that is a like, whichever came last."""
    shown = {
        "user": ["1", "1", "1", "2", "3"],
        "item": ["a", "a", "a", "b", "c"],
        "click": [0, 1, 0, 1, 1],
        "time": [1, 2, 3, 4, 5],
    }
    assert ("1", "a") in pairs(from_frame(shown, likes="click"))


def test_values_are_judged_after_repeats() -> None:
    """Who liked an item and disliked it later does not like it."""
    changed = [("1", "a", 5, 1), ("1", "a", 0, 2), ("1", "b", 5, 3), ("2", "c", 5, 4)]
    data = from_frame(changed, likes="positive", duplicates="last")
    assert pairs(data) == {("1", "b"), ("2", "c")}


def test_a_rule_that_leaves_nothing_says_what_there_is(file: Callable[..., Path]) -> None:
    with pytest.raises(InputError, match=r"no row is a like under likes=at_least=6.*from 0 to 1"):
        load(file(LABELS), likes="at_least=6")
    with pytest.raises(InputError, match=r"no row is left, since of each one 'rating' says no"):
        load(file(LABELS.replace(",1\n", ",0\n")), likes="rating")


def test_named_data_and_rows_in_memory() -> None:
    """The rows of a named data set are judged like any others; it has no column of labels."""
    data = interactions([("u", "a"), ("u", "b"), ("v", "b"), ("w", "c")])  # values 1 2 3 4
    kept = keep_likes(data, "at_least=3")
    assert pairs(kept) == {("v", "b"), ("w", "c")} and kept.rating_scale == (3, 4)
    assert kept.reading.likes == "at_least=3"
    with pytest.raises(InputError, match="a named data set has no column of labels"):
        keep_likes(data, "click")
    with pytest.raises(InputError, match="'not_rated' does not apply to a named data set"):
        load("synthetic-fpl-canada", not_rated=0)


def test_the_order_of_the_source_does_not_decide_who_likes_what() -> None:
    rows = [
        ("2", "b", 1),
        ("1", "c", 5),
        ("3", "a", 2),
        ("1", "a", 4),
        ("2", "a", 5),
        ("3", "b", 4),
    ]
    data = from_frame(rows, likes="at_least=4")
    assert pairs(data) == {("1", "c"), ("1", "a"), ("2", "a"), ("3", "b")}
    assert pairs(from_frame(rows[::-1], likes="at_least=4")) == pairs(data)


def test_a_bad_label_is_a_bad_row() -> None:
    columns = {"user": ["1", "2", "3", "1"], "item": ["a", "b", "c", "d"]}
    labels = {**columns, "liked": ["yes", "maybe", "yes", "no"]}
    data = from_frame(labels, likes="liked", bad_rows="drop")
    assert pairs(data) == {("1", "a"), ("3", "c")}
    assert {entry.rows for entry in data.reading.left_out} == {1}


# ---- not rated -----------------------------------------------------------------------------------


def test_a_value_that_means_not_rated_is_left_out_and_the_others_stay(
    file: Callable[..., Path],
) -> None:
    """Case 08: the zeros of Book-Crossing; rahmanidashti/FairBook. -1 in the anime set."""
    rows = [
        ("a", "x", 0),
        ("a", "y", 8),
        ("b", "x", 5),
        ("b", "z", 0),
        ("c", "z", 9),
        ("c", "y", 7),
    ]
    text = "user,item,rating\n" + "".join(f"{u},{i},{v}\n" for u, i, v in rows)
    data = load(file(text), not_rated=0)
    assert sorted(data.value.tolist()) == [5, 7, 8, 9] and data.rating_scale == (5, 9)
    (left,) = data.reading.left_out
    assert left.rows == 2 and left.first.endswith("rows.csv:2") and "not_rated=0" in left.reason
    # The zeros are on no scale of ratings.
    assert load(file(text), not_rated=0, scale=(1, 10)).rating_scale == (1, 10)
    with pytest.raises(InputError, match=r"rows\.csv:2: the value 0 is outside.*say not_rated=X"):
        load(file(text), scale=(1, 10))
    assert load(file(text.replace(",0\n", ",-1\n")), not_rated=-1).rating_scale == (5, 9)


def test_a_missing_rating_is_no_repeat(file: Callable[..., Path]) -> None:
    rows = [("a", "x", 8), ("a", "x", 0), ("b", "y", 5), ("b", "z", 6)]
    data = from_frame(rows, not_rated=0)
    assert len(data) == 3 and data.rating_scale == (5, 8)


def test_a_mark_that_does_not_occur_is_said(file: Callable[..., Path]) -> None:
    data = from_frame([("a", "x", 1), ("a", "z", 2), ("b", "y", 3)], not_rated=0)
    assert "no row was left out for: the value is 0 (not_rated=0)" in data.notes


def test_the_lines_of_later_errors_are_those_of_the_file(file: Callable[..., Path]) -> None:
    path = file("user,item,rating\n1,a,0\n1,b,3\n2,b,4\n2,,5\n")
    with pytest.raises(InputError, match=r"rows\.csv:5: the item id is empty"):
        load(path, not_rated=0)


# ---- checks after filters ------------------------------------------------------------------------


# ---- what a run does with them -------------------------------------------------------------------


def test_fcf_refuses_a_negative_confidence() -> None:
    data = from_frame(ratings(), likes="any")
    entrenous.run("fcf", data, split="random-80-20", rounds=1, progress=False)
    with pytest.raises(InputError, match=r"^fcf: c_ui = 1 \+ 1 r_ui is negative where r_ui is -10"):
        settings = {"ratings": True}
        entrenous.run("fcf", data, split="random-80-20", settings=settings, progress=False)


def test_the_rule_goes_with_the_rows(tmp_path: Path) -> None:
    """Through a split that was written and read again, as a run keeps it."""
    data = from_frame(ratings(lowest=0), likes="positive")
    (split,) = splits("random-80-20", data)
    folder = export.write(split, tmp_path / "split")
    assert json.loads((folder / "split.json").read_text())["data_reading"]["likes"] == "positive"
    assert read.read(folder).train.reading.likes == "positive"


# ---- counts --------------------------------------------------------------------------------------


def counted() -> list[tuple[str, str, int, int]]:
    heard = ratings(1, 1, 8)
    return [(user, item, 3**value, time) for user, item, value, time in heard]


def test_counts_are_no_ratings() -> None:
    """Case 36: NicolasHug/Surprise#47 (listening counts), lyst/lightfm#432."""
    data = from_frame(counted())
    assert any("values from 3 to 6,561 look like counts" in note for note in data.notes)
    for name in ("fedmf-ratings", "rfrec", "user-mean"):
        with pytest.raises(
            InputError, match=rf"look like counts, not ratings, which {name} "
        ) as no:
            entrenous.run(name, data, split="random-80-20", rounds=2, progress=False)
        assert "scale=log" in str(no.value) and "scale=3,6561" in str(no.value)
    entrenous.run("popular", data, split="random-80-20", progress=False)


def test_a_declared_scale_makes_them_ratings_and_divergence_names_them() -> None:
    data = from_frame(counted(), scale=(3, 6561))
    with pytest.raises(NonFiniteError) as diverged:
        entrenous.run("fedmf-ratings", data, split="random-80-20", rounds=20, progress=False)
    line = str(diverged.value)
    assert line.startswith("the ratings are values from 3 to 6,561; if these are counts, load them")
    entrenous.run("user-mean", data, split="random-80-20", progress=False)
