"""The layouts that the field uses (issue 41, section 3), as small look-alikes: sparse matrices, Parquet
of Hugging Face and of LensKit, and columns that say that nothing was consumed.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp
from lookalikes import rows, write

from entrenous.core.errors import InputError
from entrenous.data.load import load
from entrenous.data.unread import labels_among

ROWS = list(rows())
USERS = sorted({user for user, _, _ in ROWS})
ITEMS = sorted({item for _, item, _ in ROWS})
PAIRS = {(str(user), str(item)) for user, item, _ in ROWS}


def pairs(data: Any) -> set[tuple[str, str]]:
    return set(
        zip(data.users.ids[data.user].tolist(), data.items.ids[data.item].tolist(), strict=True)
    )


def matrix() -> sp.csr_matrix:
    user, item, _ = zip(*ROWS, strict=True)
    return sp.csr_matrix((np.ones(len(ROWS)), (user, item)))


def frame(**columns: list[Any]) -> pl.DataFrame:
    user, item, time = zip(*ROWS, strict=True)
    return pl.DataFrame({"user_id": user, "item_id": item, "timestamp": time, **columns})


# ---- sparse matrices -----------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["tocsr", "tocsc", "tocoo"])
def test_a_sparse_matrix_of_scipy(form: str, tmp_path: Path) -> None:
    sp.save_npz(tmp_path / "m.npz", getattr(matrix(), form)())
    data = load(tmp_path / "m.npz")
    assert pairs(data) == PAIRS and "the rows of the matrix are users" in " ".join(data.notes)
    turned = load(tmp_path / "m.npz", format="sparse-items")
    assert pairs(turned) == {(item, user) for user, item in PAIRS}


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"indices": np.array([0, 9, 1])}, "an index is outside the matrix"),
        ({"indices": np.array([0, -1, 1])}, "an index is outside the matrix"),
        ({"indices": np.array([0.0, 1.0, 1.0])}, "its indices are no whole numbers"),
        ({"indptr": np.array([0, 4, 3])}, "do not ascend"),
        ({"indptr": np.array([0, 2, 2**62])}, "do not ascend"),
        ({"indptr": np.array([], np.int64)}, "do not ascend"),
        ({"data": np.ones((3, 2))}, "differ in length"),
        ({"data": np.ones(2)}, "do not ascend"),
        ({"data": np.array(["a", "b", "c"])}, "its values are <U1"),
        ({"data": np.ones(3, complex)}, "its values are complex128"),
        ({"shape": np.array([2])}, "can be read"),
        ({"format": np.array(b"dia")}, "its form is 'dia'"),
        ({"format": np.array(3)}, "can be read"),
        ({"indices": np.array([0, {}, 1], object)}, "Object arrays cannot be loaded"),
        ({"data": np.array([1, np.nan, 1])}, "row 1: the value is nan"),
        ({"data": np.array([1, 0, 1.0])}, "which may be likes all the same or not"),
    ],
)
def test_a_hostile_matrix_is_refused(changed: dict[str, Any], says: str, tmp_path: Path) -> None:
    arrays = {"indptr": np.array([0, 2, 3]), "indices": np.array([0, 1, 1]), "data": np.ones(3)}
    arrays |= {"format": np.array(b"csr"), "shape": np.array([2, 3])} | changed
    np.savez(tmp_path / "m.npz", **arrays)
    with pytest.raises(InputError, match=says) as refused:
        load(tmp_path / "m.npz")
    assert "m.npz" in str(refused.value) and "\n" not in str(refused.value)


def test_a_matrix_of_hdf5(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    by_items = matrix().T.tocsr()
    with h5py.File(tmp_path / "m.h5", "w") as file:
        # As implicit publishes its data, items by users.
        group = file.create_group("artist_user_plays")
        for name in ("data", "indices", "indptr"):
            group[name] = getattr(by_items, name)
        file["artist"] = np.arange(3)
    assert pairs(load(tmp_path / "m.h5", format="sparse-items")) == PAIRS
    content = io.BytesIO()
    with h5py.File(content, "w") as file:
        file["x"] = np.arange(3)
    (tmp_path / "none.hdf5").write_bytes(content.getvalue())
    with pytest.raises(InputError, match="there are 0 sparse matrices in it"):
        load(tmp_path / "none.hdf5")
    (tmp_path / "cut.h5").write_bytes((tmp_path / "m.h5").read_bytes()[:600])
    with pytest.raises(InputError, match="the HDF5 file cannot be read"):
        load(tmp_path / "cut.h5")


# ---- Parquet of Hugging Face and LensKit ---------------------------------------------------------


def test_parquet_of_hugging_face(tmp_path: Path) -> None:
    folder = tmp_path / "set" / "data"
    folder.mkdir(parents=True)
    (tmp_path / "set" / "README.md").write_text("a data set")
    frame()[:200].write_parquet(folder / "train-00000-of-00002-3f2a.parquet")
    frame()[200:300].write_parquet(folder / "train-00001-of-00002-3f2b.parquet")
    for place in (tmp_path / "set", folder):
        data = load(place)
        assert len(data) == 300 and "parts of one table: 2" in data.notes
    frame()[300:].write_parquet(folder / "test-00000-of-00001-77aa.parquet")
    data = load(folder)
    assert pairs(data) == PAIRS
    assert "splits that are read as one table: test, train" in data.notes


@pytest.mark.parametrize("numbered", [True, False])
def test_parquet_of_lenskit(numbered: bool, tmp_path: Path) -> None:
    rated = frame(rating=[1.0 + user % 5 for user, _, _ in ROWS])
    if numbered:
        # The numbers are rows of the tables of users and items.
        user = [USERS.index(user) for user, _, _ in ROWS]
        item = [ITEMS.index(item) for _, item, _ in ROWS]
        rated = rated.drop("user_id", "item_id").with_columns(
            user_num=pl.Series(user), item_num=pl.Series(item)
        )
    rated.write_parquet(tmp_path / "rating.parquet")
    pl.DataFrame({"user_id": USERS}).write_parquet(tmp_path / "user.parquet")
    titles = [f"film {item}" for item in ITEMS]
    pl.DataFrame({"item_id": ITEMS, "title": titles}).write_parquet(tmp_path / "item.parquet")
    schema = {"name": "toy", "default_interaction": "rating"}
    (tmp_path / "schema.json").write_text(json.dumps(schema))
    data = load(tmp_path)
    assert pairs(data) == PAIRS and data.value.max() == 5
    assert data.features["title"][data.items.index(str(ITEMS[3]))] == f"film {ITEMS[3]}"
    # A schema names no file elsewhere.
    (tmp_path / "schema.json").write_text(json.dumps({"default_interaction": "../rating"}))
    with pytest.raises(InputError, match="a folder without known files"):
        load(tmp_path)


# ---- nothing is silently counted as consumption --------------------------------------------------


@pytest.mark.parametrize(
    ("column", "cells", "says"),
    [
        ("click", "10", "says no"),
        ("is_liked", ["true", "false"], "says no"),
        ("consumed", ["yes", "no"], "says no"),
        ("is_recommended", ["True", "False"], "says no"),
        ("long_view", "10", "says no"),
        ("click", "203", "is 0 or less"),
        ("skipped", "01", "says yes"),
        ("not_interested", ["false", "true"], "says yes"),
        ("event", ["play", "skip"], "says 'skip'"),
        ("behavior", ["pv", "impression"], "says 'impression'"),
    ],
)
@pytest.mark.parametrize("rating", ["", ",rating"])
def test_a_column_that_says_no_is_asked_about(
    column: str, cells: list[str], says: str, rating: str, tmp_path: Path
) -> None:
    lines = [f"user_id,item_id,{column}{rating}"]
    for number, (user, item, _) in enumerate(ROWS):
        lines.append(f"{user},{item},{cells[number % len(cells)]}{',3' if rating else ''}")
    (tmp_path / "a.csv").write_text("\n".join(lines) + "\n")
    with pytest.raises(InputError, match=f"the column '{column}' is not read and {says} in") as no:
        load(tmp_path / "a.csv")
    assert "a.csv:3: " in str(no.value)
    everything = load(tmp_path / "a.csv", likes="any")
    assert len(everything) == len(ROWS)


def test_names_of_labels() -> None:
    tell = ["isClick", "IS_LIKE", "user_liked", "hasPurchased", "Favourite"]
    others = ["verified_purchase", "like_count", "is_verified", "early_access", "click_id", "time"]
    assert labels_among([*tell, *others, "hate"]) == [*tell, "hate"]


def test_an_actions_column_without_refusals_is_no_question(tmp_path: Path) -> None:
    text = "user_id,item_id,event\n" + "".join(f"{u},{i},view\n" for u, i, _ in ROWS)
    (tmp_path / "a.csv").write_text(text)
    assert len(load(tmp_path / "a.csv")) == len(ROWS)


def test_a_share_watched_of_zero_is_asked_about(tmp_path: Path) -> None:
    path = write("kuairec", tmp_path)
    path.write_text(path.read_text().replace(",0.5\n", ",0.0\n", 3))
    with pytest.raises(InputError, match="rows with a value of 0 or less: 3 of"):
        load(path, format="kuairec")
    assert len(load(path, format="kuairec", likes="positive")) == len(ROWS) - 3
