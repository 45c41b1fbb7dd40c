"""Lists of recommendations: for whom, of which items, and what becomes of ids that are not known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from command_line import Command, write_shop

import entrenous
from entrenous.core.errors import EntrenousWarning, InputError

ROWS = [
    (user, item, 1.0, 1_500_000_000 + 100 * user + place)
    for user in range(12)
    for place, item in enumerate((user * 5 + 3 * j) % 23 for j in range(6))
]


@pytest.fixture(scope="module")
def made() -> entrenous.Run:
    return entrenous.run("fcf", ROWS, split="loo-full", rounds=3, progress=False)


@pytest.fixture(scope="module")
def flat() -> entrenous.Run:
    """All items are equally popular for those who do not have them: ties everywhere."""
    rows = [(user, item) for user in range(8) for item in range(16) if (user + item) % 2]
    return entrenous.run("popular", rows, split="random-80-20", progress=False)


def test_an_id_may_be_a_number(made: entrenous.Run) -> None:
    """Case 19."""
    as_text = made.recommend("3", n=2).rows()
    for users in (
        3,
        np.int64(3),
        [3],
        np.array([3]),
        pl.Series([3]),
        (3,),
        {3},
        {"3"},
        range(3, 4),
    ):
        assert made.recommend(users, n=2).rows() == as_text
    assert made.recommend([3, "1"], n=1)["user"].to_list() == [3, 1]
    assert made.recommend_for("10", n=3).equals(made.recommend_for([10], n=3))


@pytest.mark.parametrize(
    "users", [b"3", {"user": "3"}, pl.DataFrame({"user": [3]}), 3.0, np.array(3), np.array([[3]])]
)
def test_what_holds_no_ids_is_refused(made: entrenous.Run, users: Any) -> None:
    with pytest.raises(InputError, match=r"^users: got \w+; expected an id"):
        made.recommend(users)


def test_a_single_length_of_list_is_a_number_too(made: entrenous.Run) -> None:
    """Case 19: evaluate(..., n=10)."""
    assert made.split is not None
    one, several = (
        entrenous.evaluate(made.recommender, made.train, made.split.test, label="fcf", n=n)
        for n in (10, [10])
    )
    assert one.metrics == several.metrics


def test_items_are_chosen_among_some(made: entrenous.Run) -> None:
    """Case 27: items in stock."""
    everything = made.recommend("3", n=99)["item"].to_list()
    assert len(everything) == 23 - 5
    some = everything[::3]
    assert made.recommend("3", n=99, items=some)["item"].to_list() == some
    assert made.recommend("3", n=2, items=[int(item) for item in some]).height == 2
    left = [item for item in everything if item not in some]
    assert made.recommend("3", n=99, without=some)["item"].to_list() == left
    none = made.recommend("3", n=99, items=some, without=some[1:])
    assert none["item"].to_list() == some[:1]


def test_seen_items_are_kept_on_request(made: entrenous.Run) -> None:
    """Case 27."""
    kept = made.recommend("3", n=99, seen="keep")
    hidden = made.recommend("3", n=99)
    assert len(kept) == 23 and set(hidden["item"]) < set(kept["item"])
    order = [item for item in kept["item"] if item in set(hidden["item"])]
    assert order == hidden["item"].to_list() and kept["score"].is_sorted(descending=True)


def test_unknown_users_are_all_named(made: entrenous.Run) -> None:
    with pytest.raises(InputError) as refused:
        made.recommend(["3", "99", "nobody"])
    said = str(refused.value)
    assert said.startswith(
        "users: unknown: 2 ('99', 'nobody'); expected ids of the 12 users in training"
    )
    assert "unknown=skip serves the others" in said and "--" not in said
    with pytest.raises(InputError, match=r"unknown: 50 \('100', .*, \.\.\.\)"):
        made.recommend(range(100, 150))


def test_unknown_users_are_skipped_on_request(made: entrenous.Run) -> None:
    """Case 27: the others are served."""
    with pytest.warns(EntrenousWarning, match=r"who get no list: 1 \('99'\)"):
        lists = made.recommend(["3", "99", "1"], n=2, unknown="skip")
    assert lists.equals(made.recommend(["3", "1"], n=2))
    with pytest.warns(EntrenousWarning):
        assert made.recommend("99", unknown="skip").height == 0


def test_unknown_users_get_the_most_popular_items(flat: entrenous.Run) -> None:
    with pytest.warns(EntrenousWarning, match="who get the most popular items"):
        lists = flat.recommend(["99", "1", "98"], n=5, unknown="popular")
    of = {user: frame for (user,), frame in lists.group_by("user", maintain_order=True)}
    assert list(of) == [99, 1, 98] and lists.filter(pl.col("user") == 1).equals(
        flat.recommend("1", n=5)
    )
    assert of[99]["score"].is_null().all() and of[99]["item"].equals(of[98]["item"])
    count = flat.train.popularity[flat.train.items.indices(of[99]["item"].to_list())]
    most = sorted(flat.train.popularity.tolist(), reverse=True)
    assert count.tolist() == most[:5]
    with pytest.warns(EntrenousWarning):
        again = flat.recommend(99, n=5, unknown="popular", items=range(4))
    assert set(again["item"]) <= {0, 1, 2, 3} and again.height == 4


def test_unknown_items_are_named(made: entrenous.Run) -> None:
    with pytest.raises(InputError, match=r"items: unknown: 2 \('x', 'y'\); .*unknown=skip"):
        made.recommend("3", items=["10", "x", "y"])
    with pytest.raises(InputError, match="item: unknown item 'x'"):
        made.recommend("3", without="x")
    with pytest.warns(EntrenousWarning, match=r"items .* left out: 2 \('x', 'y'\)"):
        lists = made.recommend("3", items=["10", "x", "y"], unknown="skip")
    assert lists["item"].to_list() == [10]
    with pytest.raises(InputError, match="no item is left that may be recommended"):
        made.recommend("3", items=[])
    with pytest.warns(EntrenousWarning), pytest.raises(InputError, match="no item is left"):
        made.recommend("3", items=["x"], unknown="skip")


@pytest.mark.parametrize("choice", [{"seen": True}, {"seen": "show"}, {"unknown": "ignore"}])
def test_another_choice_is_refused_with_those_there_are(
    made: entrenous.Run, choice: dict[str, Any]
) -> None:
    with pytest.raises(InputError, match=r"expected (hide or keep|refuse or skip or popular)"):
        made.recommend("3", **choice)


@pytest.mark.filterwarnings("always::entrenous.core.errors.EntrenousWarning")
def test_the_command_line_has_the_same_lists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Case 27 in the shell."""
    monkeypatch.chdir(tmp_path)
    write_shop(tmp_path / "shop.csv")
    run = entrenous.run("popular", "shop.csv", split="loo-20", out="runs", progress=False)
    command = Command(capsys)
    (tmp_path / "stock.txt").write_text("\ufeffi3\r\ni4\n\ni40\n")
    said = command("recommend", "--user", "u1", "--items", "stock.txt", "--seen", "keep", "--json")
    expected = run.recommend("u1", items=["i3", "i4", "i40"], seen="keep")
    assert [row["item"] for row in said.json["recommendations"]] == expected["item"].to_list()
    (tmp_path / "sold.txt").write_text("i3\ni4\n")
    several = command(
        *("recommend", "--user", "u1", "--user", "u99", "--user", "u2", "--n", "3", "--json"),
        *("--unknown", "popular", "--without", "sold.txt"),
    )
    users = {each["user"]: each["recommendations"] for each in several.json["users"]}
    with pytest.warns(EntrenousWarning):
        frame = run.recommend(["u1", "u99", "u2"], 3, without=["i3", "i4"], unknown="popular")
    assert [row["item"] for rows in users.values() for row in rows] == frame["item"].to_list()
    assert users["u99"][0]["score"] is None and "warning: users whom" in several.err
    refused = command("recommend", "--user", "u1", "--user", "x", "--user", "y").err
    assert "users: unknown: 2 ('x', 'y')" in refused and "--unknown=skip" in refused
    shown = command("recommend", "--user", "u1", "--user", "x", "--unknown=skip").out
    assert "For user u1" in shown and "For user x" not in shown
    lost = command("recommend", "--user", "u1", "--items", "stok.txt").err
    assert "--items stok.txt: no such file or directory; expected a file" in lost
    (tmp_path / "photo").write_bytes(b"\xff\xd8\x00")
    assert "not UTF-8" in command("recommend", "--user", "u1", "--items", "photo").err
    (tmp_path / "empty.txt").write_text(" \n")
    assert "there is no id" in command("recommend", "--user", "u1", "--items", "empty.txt").err
