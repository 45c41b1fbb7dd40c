"""Item features as numbers: what columns become, on every way into the program and out of it, and what
is refused.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from entrenous.core.contract.item_features import WIDEST, ItemFeatures
from entrenous.core.errors import InputError
from entrenous.data.interactions import Interactions, text_array
from entrenous.data.load import from_frame, load
from entrenous.data.split.export import write
from entrenous.data.split.protocol import splits
from entrenous.data.split.read import read

ROWS = [(user, item) for user in range(6) for item in range(8) if (user + item) % 3]
ITEMS = {
    "item_id": list(range(8)),
    "title": [f"film {item}" for item in range(8)],
    "genres": ["war|drama", "war", "", "drama", "war", "war", "sci-fi", "war"],
    "year": [1990, 2000, None, 1990, 2000, 1990, 2000, 1990],
    "emb": [[0.5, -1e-3], [1.0, 2.0], None, *([[0.25, 0.5]] * 5)],
    "city": ["New York", "Rome", "Rome", "", *["Rome"] * 4],
}
NAMES = ["category=drama", "category=sci-fi", "category=war", "city=New York", "city=Rome"]
NAMES += ["emb[0]", "emb[1]", "year"]


def data() -> Interactions:
    return from_frame(ROWS, items=ITEMS, features="year,emb,city")


def made(**texts: list[str]) -> ItemFeatures:
    return ItemFeatures({name: text_array(column) for name, column in texts.items()})


def texts_of(features: ItemFeatures | None) -> dict[str, list[str]]:
    """What is known of the items, by feature."""
    assert features is not None
    return {name: texts.tolist() for name, texts in features.texts.items()}


def test_categories_numbers_and_vectors() -> None:
    rows = data()
    known = rows.catalogue.features
    assert known is not None and known.names == NAMES
    assert known.values.dtype == np.float32 and known.values.shape == (8, 8)
    assert known.values[0].tolist() == [
        1,
        0,
        1,
        1,
        0,
        0.5,
        np.float32(-1e-3),
        -np.float32(0.75**0.5),
    ]
    # Nothing is known of the third item but its city.
    assert known.values[2].tolist() == [0, 0, 0, 0, 1, 0, 0, 0]
    year = known.values[np.arange(8) != 2, 7].astype(np.float64)
    assert abs(year.mean()) < 1e-6 and abs(year.std() - 1) < 1e-6
    assert texts_of(rows.histories(np.array([1])).features) == texts_of(known)
    assert any("features to learn from: 8 columns" in note for note in rows.notes)


def test_titles_and_places_are_nothing_to_learn_from() -> None:
    items = {"item_id": list(range(8)), "title": ["x"] * 8, "lat": [1.0] * 8, "lon": [2.0] * 8}
    rows = from_frame(ROWS, items=items)
    assert rows.item_features is None and rows.catalogue.features is None
    assert rows.places is not None


@pytest.mark.parametrize(
    ("items", "options", "says"),
    [
        (ITEMS, {"features": "genre"}, "no column 'genre'"),
        (ITEMS | {"emb": [[0.5, float("nan")]] * 8}, {"features": "emb"}, "'emb' of item number 0"),
        (
            ITEMS | {"emb": [[0.5, float("inf")]] * 8},
            {"features": "emb"},
            "is inf; expected finite",
        ),
        (ITEMS | {"year": [1e39] * 8}, {"features": "year"}, "expected finite numbers"),
        (ITEMS, {"features": "title"}, None),
        ({**ITEMS, "lat": [1] * 8}, {"features": "lat"}, None),
    ],
)
def test_what_is_no_feature(items: dict, options: dict, says: str | None) -> None:
    if says is None:
        # It is read already, and shown.
        rows = from_frame(ROWS, items=items, **options)
        assert rows.item_features is not None and "title" not in rows.item_features.texts
        return
    with pytest.raises(InputError, match=says) as refused:
        from_frame(ROWS, items=items, **options)
    assert "\n" not in str(refused.value)


def test_too_many_categories_are_refused_when_asked_for() -> None:
    many = made(category=[f"kind {number}" for number in range(WIDEST + 1)])
    with pytest.raises(
        InputError, match=r"4,097 columns of numbers, most of them those of 'category'"
    ):
        many.values  # noqa: B018
    widest = made(category=[f"kind {number}" for number in range(WIDEST)])
    assert widest.values.shape == (WIDEST, WIDEST)


def test_features_stay_with_their_items(tmp_path: Path) -> None:
    rows = data()
    known = rows.item_features
    assert known is not None
    # A split that is written and read.
    (split,) = splits("random-60-40", rows, seed=1)
    for part in (split.train, split.test.rows):
        assert texts_of(part.item_features) == texts_of(known)
    folder = tmp_path / "split"
    write(split, folder)
    again = read(folder)
    assert texts_of(again.train.item_features) == texts_of(known)
    assert np.array_equal(again.test.rows.catalogue.features.values, known.values)
    keep = np.arange(8) % 2 == 0
    part = rows.of_items(keep)
    assert part.item_features.texts["city"].tolist() == ["New York", "Rome", "Rome", "Rome"]


@pytest.mark.parametrize("kind", ["csv", "json", "parquet"])
def test_a_file_of_items(kind: str, tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("user_id,item_id\n" + "".join(f"{user},{item}\n" for user, item in ROWS))
    frame = pl.DataFrame(ITEMS)
    path = tmp_path / f"items.{kind}"
    if kind == "parquet":
        frame.write_parquet(path)
    elif kind == "json":
        path.write_text("".join(json.dumps(row) + "\n" for row in frame.to_dicts()))
    else:
        lists = pl.col("emb").map_elements(lambda cell: str(cell.to_list()), return_dtype=pl.String)
        frame.with_columns(lists).write_csv(path)
    found = load(rows, items=path, features="year,emb,city")
    assert found.item_features is not None and found.item_features.names == NAMES
    assert np.array_equal(found.item_features.values, data().item_features.values)


def test_a_long_vector_is_not_cut() -> None:
    vectors = [[float(item + number) for number in range(300)] for item in range(8)]
    rows = from_frame(ROWS, items={"item_id": list(range(8)), "emb": vectors}, features="emb")
    assert rows.item_features.values.shape == (8, 300) and rows.item_features.values[7, 299] == 306
