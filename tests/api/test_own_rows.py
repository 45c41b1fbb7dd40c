"""A run says which rows it was trained on: the user's own splits are never called ml-100k, parts of
other users or items are refused, and `split` numbers the caller's training and test rows alike.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import entrenous
from entrenous.core.errors import InputError
from entrenous.data.interactions import Interactions


def frame(users: int = 12, first: int = 0, prefix: str = "") -> pd.DataFrame:
    rows = [
        (f"u{user}", f"{prefix}i{(user * 5 + 3 * place) % 23 + first}", 1.0, 100 * place + user)
        for user in range(users)
        for place in range(6)
    ]
    return pd.DataFrame(rows, columns=["user", "item", "rating", "timestamp"])


FRAME = frame()
LAST = FRAME["timestamp"] >= 500


def halves(data: Interactions) -> entrenous.Split:
    last = np.arange(len(data)) % 6 == 5
    held = entrenous.Held(data.select(last))
    return entrenous.Split("mine", data.select(~last), None, held, refit=False)


def test_a_split_brings_its_rows_and_their_name(tmp_path: Path) -> None:
    split = halves(entrenous.from_frame(FRAME, name="shop"))
    run = entrenous.run("popular", split=split, out=tmp_path)
    assert run.manifest["data"] == "shop" and repr(run).startswith("Run(popular on shop, mine,")
    assert json.loads((run.path / "manifest.json").read_text())["data"] == "shop"  # type: ignore[operator]
    assert run.path is not None and run.path.name.startswith("popular-shop-mine")
    page = run.report(tmp_path / "report.html").read_text()
    assert "shop" in page and "ml-100k" not in page
    table = entrenous.compare(["popular", "random"], split=split, seeds=2)
    assert table.found["data"] == "shop" and repr(table).startswith("shop, mine, ")
    assert "ml-100k" not in table.latex() + table._repr_html_()
    folds = entrenous.run("popular", split=[split, split])
    assert folds.manifest["data"] == "shop"


def test_a_split_that_a_function_makes_has_the_name_of_its_rows() -> None:
    def mine(data: Interactions, *, seed: int) -> entrenous.Split:
        return halves(data)

    run = entrenous.run("popular", FRAME, split=mine)
    assert run.manifest["data"] == "frame"


def test_data_beside_a_split_must_be_its_own(tmp_path: Path) -> None:
    data = entrenous.from_frame(FRAME)
    split = halves(data)
    usual = entrenous.run("popular", split=split).manifest["model_sha256"]
    for same in (data, FRAME):
        assert entrenous.run("popular", same, split=split).manifest["model_sha256"] == usual
    path = tmp_path / "shop.csv"
    frame(users=9).to_csv(path, index=False)
    for other in (frame(users=9), frame(prefix="x"), path, str(path)):
        with pytest.raises(InputError, match=r"^data: Interactions\(.* are other rows than those"):
            entrenous.run("popular", other, split=split)
        with pytest.raises(InputError, match="leave data out: a split brings its rows"):
            entrenous.compare(["popular", "random"], other, split=split)


def test_parts_of_other_items_are_refused_and_not_scored() -> None:
    train, test = entrenous.from_frame(FRAME), entrenous.from_frame(frame(prefix="x"))
    split = entrenous.Split("mine", train, None, entrenous.Held(test), refit=False)
    said = "the test rows have other items than training: 23 and 23, of which 0 are shared"
    with pytest.raises(InputError, match=said):
        entrenous.run("item-knn", split=split)
    with pytest.raises(InputError, match=r"entrenous\.split\(train=\.\.\., test=\.\.\.\)"):
        entrenous.compare(["item-knn", "popular"], split=split)
    recommender = entrenous.Recommender("popular").fit(train).recommender
    with pytest.raises(InputError, match="the held-out rows have other items than training"):
        entrenous.evaluate(recommender, train, entrenous.Held(test), label="popular")
    # The same ids in another order are other numbers.
    shuffled = entrenous.from_frame(frame().assign(user=[f"v{name}" for name in FRAME["user"]]))
    with pytest.raises(InputError, match="other users than training: 12 and 12, of which 0"):
        entrenous.evaluate(recommender, train, entrenous.Held(shuffled), label="popular")


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.from_pandas, entrenous.from_frame, "files"])
def test_own_train_and_test_rows_are_one_call(kind: Any, tmp_path: Path) -> None:
    parts: dict[str, Any] = {"train": FRAME[~LAST], "test": FRAME[LAST]}
    for label, part in parts.items():
        if kind == "files":
            part.to_csv(tmp_path / f"{label}.csv", index=False)
            parts[label] = tmp_path / f"{label}.csv"
        else:
            parts[label] = kind(part)
    split = entrenous.split(**parts)
    assert split.train.users is split.test.rows.users and len(split.test.rows) == 12
    run = entrenous.run("item-knn", split=split)
    assert run.manifest["data"] == ("train" if kind == "files" else "frame")
    names = {user: set(part["item"]) for user, part in FRAME[LAST].groupby("user")}
    lists = pl.DataFrame(run.recommend(n=10))
    hits = [bool(names[user] & set(lists.filter(pl.col("user") == user)["item"])) for user in names]
    assert run.metrics["hr@10"] == pytest.approx(np.mean(hits))


def test_a_split_may_have_validation_rows_and_candidates() -> None:
    second = FRAME["timestamp"].between(400, 499)
    candidates = {"user": [], "item": [], "candidate": []}
    for user, item in FRAME[LAST][["user", "item"]].itertuples(index=False):
        others = sorted(set(FRAME["item"]) - set(FRAME[FRAME.user == user]["item"]))[:5]
        for other in others:
            candidates["user"].append(user)
            candidates["item"].append(item)
            candidates["candidate"].append(other)
    for table in (candidates, pd.DataFrame(candidates)):
        split = entrenous.split(
            train=FRAME[~LAST & ~second],
            validation=FRAME[second],
            test=FRAME[LAST],
            candidates=table,
            refit=True,
            name="shop-split",
        )
        assert split.name == "shop-split" and split.validation is not None and split.refit
        assert split.test.candidates is not None and split.test.candidates.shape == (12, 5)
    assert entrenous.run("popular", split=split).manifest["protocol"] == "shop-split"


@pytest.mark.parametrize(
    ("test", "said"),
    [
        (FRAME.assign(user="x" + FRAME["user"]), "test: none of its 12 users is in train"),
        (frame(prefix="x"), r"test: none of its 23 items is in train, such as 'xi"),
        (FRAME[:0], "test: there are no rows"),
        (FRAME[["user", "rating"]], "test: no item column"),
        (3, "test: got int"),
    ],
)
def test_rows_that_are_no_test_of_the_training_are_refused(test: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        entrenous.split(train=FRAME, test=test)


def test_ids_of_two_types_are_asked_about() -> None:
    whole = FRAME.assign(user=FRAME["user"].str[1:].astype(int))
    text = whole.assign(user=whole["user"].astype(str))
    said = "test: its user ids are text, those of train are whole numbers; .* convert the column"
    with pytest.raises(InputError, match=said):
        entrenous.split(train=whole[~LAST], test=text[LAST])
    narrow = whole.assign(user=whole["user"].astype("int8"))
    split = entrenous.split(train=narrow[~LAST], test=whole[LAST])
    assert entrenous.run("popular", split=split).recommend(3, n=1)["user"].dtype == np.int64
