"""The caller's frames: their kind and the type of their ids come back; NumPy's integers are seeds and
ids; `Recommender` fits and recommends; raw scores and candidates.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

import entrenous
from entrenous.core.errors import InputError

COLUMNS = {
    "user": [100 + user for user in range(14) for _ in range(6)],
    "item": [(user * 5 + 3 * place) % 23 for user in range(14) for place in range(6)],
    "rating": [1.0 + (user + place) % 5 for user in range(14) for place in range(6)],
    "timestamp": [1_500_000_000 + 9 * user + place for user in range(14) for place in range(6)],
}
PANDAS = pd.DataFrame(COLUMNS)
KINDS: dict[str, tuple[Callable[[], Any], type]] = {
    "pandas": (lambda: PANDAS, pd.DataFrame),
    "polars": (lambda: pl.DataFrame(COLUMNS), pl.DataFrame),
    "arrow": (lambda: pa.table(COLUMNS), pa.Table),
    "query": (lambda: pl.LazyFrame(COLUMNS), pl.DataFrame),
    "columns": (lambda: COLUMNS, pl.DataFrame),
    "tuples": (lambda: list(zip(*COLUMNS.values(), strict=True)), pl.DataFrame),
}


def rows_of(frame: Any) -> list[dict[str, Any]]:
    if isinstance(frame, pd.DataFrame):
        return frame.to_dict("records")
    return frame.to_pylist() if isinstance(frame, pa.Table) else frame.to_dicts()


@pytest.mark.parametrize("kind", KINDS)
def test_every_frame_is_of_the_callers_kind_and_says_the_same(kind: str) -> None:
    make, expected = KINDS[kind]
    run = entrenous.run("fcf", make(), split="loo-10", rounds=4, every=2, threads=1)
    usual = entrenous.run("fcf", PANDAS, split="loo-10", rounds=4, every=2, threads=1)
    frames = {
        "lists": (run.recommend([100, 103], n=3), usual.recommend([100, 103], n=3)),
        "newcomer": (run.recommend_for([0, 3], n=3), usual.recommend_for([0, 3], n=3)),
        "scores": (run.scores(100, items=[0, 1]), usual.scores(100, items=[0, 1])),
        "candidates": (run.candidates(100), usual.candidates(100)),
        "users": (run.per_user(), usual.per_user()),
        "curve": (run.curve(), usual.curve()),
        "table": (entrenous.compare([run, "popular"], make(), split="loo-10").table(), None),
    }
    for name, (frame, same) in frames.items():
        assert type(frame) is expected, name
        if name == "curve":
            columns = [{k: v for k, v in row.items() if k != "seconds"} for row in rows_of(frame)]
            assert [row["round"] for row in columns] == [2, 4]
        elif same is not None:
            assert rows_of(frame) == rows_of(same), name


def test_rows_and_splits_made_of_frames_remember_their_kind() -> None:
    data = entrenous.from_frame(PANDAS)
    last = PANDAS["timestamp"] % 9 == 2
    split = entrenous.split(train=PANDAS[~last], test=PANDAS[last])
    own = entrenous.Split("own", split.train, None, split.test, refit=False)
    frames = [
        entrenous.run("popular", data, split="loo-10").recommend(100),
        entrenous.run("popular", data.select(data.value > 1), split="random-80-20").per_user(),
        entrenous.run("popular", split=split).scores(100),
        entrenous.run("popular", split=[own]).recommend(100),
        entrenous.Recommender("popular").fit(data).recommend(100),
        entrenous.compare(["popular", "random"], split=split, seeds=1).table(),
        entrenous.compare(
            [entrenous.run(name, split=split) for name in ("popular", "random")]
        ).table(),
        entrenous.leakcheck("fcf", data, protocol="loo-10", rounds=1).table(),
    ]
    assert [type(frame) for frame in frames] == 8 * [pd.DataFrame]


@pytest.mark.parametrize("of", ["int8", "int32", "int64", "uint16", "Int64"])
def test_ids_keep_their_type_so_that_frames_merge(of: str) -> None:
    frame = PANDAS.astype({"user": of, "item": of})
    lists = entrenous.Recommender("popular").fit(frame).recommend(n=2)
    assert lists["user"].dtype == lists["item"].dtype == np.dtype(of.lower())
    merged = lists.merge(frame.drop_duplicates("user"), on="user", suffixes=("", "_had"))
    assert len(merged) == len(lists) == 28


def test_texts_stay_texts_and_integers_of_64_bits_stay_whole() -> None:
    frame = pl.DataFrame(COLUMNS).with_columns(user=pl.format("0{}", "user"))
    lists = entrenous.Recommender("popular").fit(frame).recommend("0100", n=1)
    assert lists["user"].to_list() == ["0100"] and lists["item"].dtype == pl.Int64
    above = pl.Series([2**63 + item for item in COLUMNS["item"]], dtype=pl.UInt64)
    large = pl.DataFrame(COLUMNS).with_columns(item=above)
    lists = entrenous.Recommender("popular").fit(large).recommend(100, n=1)
    assert lists["item"].dtype == pl.UInt64 and lists["item"][0] >= 2**63


def test_unknown_ids_that_are_no_numbers_leave_the_column_as_text() -> None:
    fitted = entrenous.Recommender("popular").fit(PANDAS)
    with pytest.warns(entrenous.EntrenousWarning, match="most popular"):
        lists = fitted.recommend(["nobody", 100], n=1, unknown="popular")
    assert lists["user"].tolist() == ["nobody", "100"] and lists["score"].isna().tolist() == [
        True,
        False,
    ]


def test_integers_of_numpy_are_numbers_everywhere() -> None:
    asked: dict[str, Any] = {"split": "loo-10", "threads": np.int8(1)}
    for seed in np.arange(2):
        one = entrenous.run(
            "fcf",
            PANDAS,
            rounds=np.int32(2),
            seed=seed,
            settings={"factors": np.uint8(4)},
            **asked,
        )
        same = entrenous.run(
            "fcf", PANDAS, rounds=2, seed=int(seed), settings={"factors": 4}, **asked
        )
        assert one.manifest["model_sha256"] == same.manifest["model_sha256"]
        assert one.manifest["settings"] == {"factors": 4} and type(one.manifest["seed"]) is int
    assert len(one.recommend(np.uint64(100), n=2)) == 2
    assert entrenous.run("popular", PANDAS, seed=None, **asked).manifest["seed"] == 0


def test_a_stored_run_keeps_the_type_of_ids_and_the_names_of_columns(tmp_path: Any) -> None:
    frame = PANDAS.astype({"user": "int16"}).rename(columns={"user": "userId", "item": "item_id"})
    run = entrenous.run("popular", frame, split="loo-10", out=tmp_path)
    for each in (run, entrenous.open(root=tmp_path)):
        lists = each.recommend(100, n=1)
        assert list(lists.columns) == ["userId", "rank", "item_id", "score"]
        assert list(each.scores(100, 3).columns) == ["userId", "item_id", "score"]
        assert each.per_user().columns[0] == "userId" and each.candidates(100).columns == [
            "item_id"
        ]
    assert lists["userId"].dtype == pl.Int16 and lists["item_id"].dtype == pl.Int64


def test_the_caller_has_titles_and_another_columns_name_as_an_item() -> None:
    """A frame without titles came back with a column of empty texts."""
    named = PANDAS.rename(columns={"item": "title", "user": "who"})
    alone = entrenous.from_frame(named, user="who", item="title")
    lists = entrenous.Recommender("popular").fit(alone).recommend(100)
    assert list(lists.columns) == ["who", "rank", "title", "score"]
    told = entrenous.from_frame(PANDAS, items={"item": [3, 8], "title": ["Three", ""]})
    of_item = entrenous.Recommender("popular").fit(told).candidates(100, seen="keep")
    assert of_item.set_index("item")["title"].loc[[3, 8, 9]].isna().tolist() == [False, True, True]


@pytest.mark.parametrize(("name", "array"), [("fcf", "y"), ("bpr-mf", "Q"), ("popular", "")])
def test_similar_items_are_those_whose_vectors_point_the_same_way(name: str, array: str) -> None:
    model: Any = entrenous.Recommender(name).fit(PANDAS)
    if not array:
        with pytest.raises(InputError, match="similar_items: popular has no vectors of items"):
            model.similar_items(3)
        return
    vectors = getattr(getattr(model.recommender, "model", 0) or model.recommender.download, array)
    cosines = np.corrcoef(np.hstack([vectors, -vectors]))[3]
    similar = model.similar_items(3, 99)
    assert similar["item"].tolist() == np.argsort(-cosines)[1:].tolist()
    np.testing.assert_allclose(similar["score"], np.sort(cosines)[-2::-1], atol=1e-6)
    for wrong, words in [((99,), "unknown item '99'"), (([1, 2],), "one"), ((3, 0), "from 1")]:
        with pytest.raises(InputError, match=words):
            model.similar_items(*wrong)


@pytest.mark.parametrize("name", ["popular", "fcf", "pepper-gmf", "item-knn", "fbalf"])
def test_a_recommender_is_fitted_to_all_rows(name: str, tmp_path: Path) -> None:
    model = entrenous.Recommender(name, rounds=None if name in ("popular", "item-knn") else 2)
    assert repr(model) == f"Recommender({name}, not fitted)"
    saved = tmp_path / "model"
    for use in (model.recommend, model.scores, lambda: model.save(saved)):
        with pytest.raises(InputError, match=rf"{name} is not fitted; call \.fit\(frame\) first"):
            use()
    assert not hasattr(model, "nothing")
    assert model.fit(PANDAS) is model and len(model.train) == len(PANDAS)
    lists = model.recommend([100, 101], 3)
    assert lists["user"].tolist() == 3 * [100] + 3 * [101] and lists["rank"].tolist() == 2 * [
        1,
        2,
        3,
    ]
    with_it = entrenous.Recommender.load(model.save(saved))
    assert with_it.recommend([100, 101], 3).rows() == list(lists.itertuples(index=False, name=None))
    assert with_it.fit(PANDAS).scores(100).equals(model.scores(100))
    with pytest.raises(InputError, match="is there already; expected a new folder"):
        model.save(saved)
    with pytest.raises(InputError, match="nothing was evaluated: a recommender was fitted to all"):
        entrenous.open(saved).report(tmp_path / "report.html")
    # A second fit replaces the first, whatever it was made with.
    matrix = sparse.coo_array(
        (COLUMNS["rating"], (np.array(COLUMNS["user"]) - 100, COLUMNS["item"]))
    )
    again = model.fit(matrix).recommend(0, 1)
    assert isinstance(again, pl.DataFrame) and again["user"].to_list() == [0]


def test_a_fit_that_fails_leaves_the_recommender_as_it_was() -> None:
    model = entrenous.Recommender("popular").fit(PANDAS)
    before = model.recommend(100)
    with pytest.raises(InputError, match="no user column"):
        model.fit(PANDAS[["item", "rating"]])
    assert model.recommend(100).equals(before)
    with pytest.raises(InputError, match=r"^user: the rows are read already; give it to load"):
        model.fit(entrenous.from_frame(PANDAS), user="user")
    by_name = PANDAS.rename(columns={"user": "who"})
    lists = model.fit(by_name, user="who").recommend(100)
    assert lists.rename(columns={"who": "user"}).equals(before)


def test_scores_are_those_behind_the_lists_and_candidates_those_that_compete() -> None:
    model = entrenous.Recommender("fcf", rounds=3).fit(PANDAS)
    lists = model.recommend(100, n=99)
    scores = model.scores(100)
    assert len(scores) == 23 and scores["user"].unique().tolist() == [100]
    of_item = dict(zip(scores["item"], scores["score"], strict=True))
    assert [of_item[item] for item in lists["item"]] == lists["score"].tolist()
    had = set(PANDAS[PANDAS.user == 100]["item"])
    assert set(model.candidates(100)["item"]) == set(lists["item"]) == set(of_item) - had
    assert set(model.candidates(100, seen="keep")["item"]) == set(of_item)
    pairs = model.scores([101, 100], items=[3, 0])
    assert pairs[["user", "item"]].values.tolist() == [[101, 3], [101, 0], [100, 3], [100, 0]]
    assert len(model.scores()) == 14 * 23
    with pytest.raises(InputError, match="unknown item '99'"):
        model.scores(100, items=99)
    with pytest.raises(InputError, match="unknown user '5'"):
        model.candidates(5)


@pytest.mark.parametrize(("users", "count"), [([100, 101], 2), ([], 0)])
def test_one_user_is_one_user(users: list[int], count: int) -> None:
    """Of two users the first one was served, and nobody was told."""
    model = entrenous.Recommender("popular").fit(PANDAS)
    with pytest.raises(InputError, match=f"^user: got {count} users; expected one$"):
        model.candidates(users)
    with pytest.raises(InputError, match=f"^user: got {count} users; expected one$"):
        model.predict(users, 3)


def test_a_missing_rating_is_refused_in_words_of_python() -> None:
    """The refusal of a row is an error of its own kind, which kept the words of a command."""
    gap = PANDAS.assign(rating=[float("nan"), *COLUMNS["rating"][1:]])
    with pytest.raises(InputError, match=r"^frame:row 0: the value is empty; .*bad_rows='drop'"):
        entrenous.Recommender("popular").fit(gap)
    left = entrenous.Recommender("popular").fit(gap, bad_rows="drop")
    assert len(left.train) == len(PANDAS) - 1
