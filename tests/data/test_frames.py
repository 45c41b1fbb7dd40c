"""`from_frame`: the same data from pandas, polars, Arrow and plain columns, and bad frames refused
by row.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from entrenous.core.errors import InputError
from entrenous.data.interactions import SECOND, Interactions
from entrenous.data.load import from_frame

COLUMNS: dict[str, list[Any]] = {
    "userId": ["b", "a", "a", "c"],
    "movieId": [10, 2, 10, 30],
    "rating": [4.0, 3.5, 1.0, 5.0],
    "timestamp": [40, 30, 20, 10],
}


KINDS: list[Callable[[dict[str, list[Any]]], Any]] = [
    pd.DataFrame,
    pl.DataFrame,
    lambda columns: pl.DataFrame(columns).lazy(),
    pa.table,
    dict,
    lambda columns: {name: np.array(column) for name, column in columns.items()},
]


@pytest.mark.parametrize("make", KINDS)
def test_every_kind_of_table_is_the_same_data(make: Any) -> None:
    data = from_frame(make(COLUMNS))
    assert data.users.ids.tolist() == ["a", "b", "c"]
    assert data.items.ids.tolist() == ["2", "10", "30"]  # whole numbers are ordered as numbers
    assert data.ptr.tolist() == [0, 2, 3, 4]
    assert data.item.tolist() == [0, 1, 1, 2]
    assert data.value.tolist() == [3.5, 1.0, 4.0, 5.0]
    assert data.time is not None and (data.time // SECOND).tolist() == [30, 20, 40, 10]
    assert data.row is not None and data.row.tolist() == [1, 2, 0, 3]


def test_the_order_of_the_rows_changes_only_their_positions() -> None:
    order = [2, 0, 3, 1]
    moved = from_frame({name: [column[row] for row in order] for name, column in COLUMNS.items()})
    data = from_frame(COLUMNS)
    assert np.array_equal(moved.item, data.item) and np.array_equal(moved.users.ids, data.users.ids)
    assert np.array_equal(moved.time, data.time)


def test_columns_may_be_named_and_left_out() -> None:
    columns = {"who": [1, 2], "what": [1, 2], "rating": [3, 4], "seen": [5, 6]}
    data = from_frame(columns, user="who", item="what", value="", time="seen")
    assert data.value.tolist() == [1, 1]
    assert data.time is not None and data.time.tolist() == [5 * SECOND, 6 * SECOND]


def test_ids_are_text_as_they_are() -> None:
    data = from_frame({"user": ["007", "7", " 8 "], "item": ["x", "y", "x"]})
    assert data.users.ids.tolist() == ["007", "7", "8"]


def test_dates_are_midnight_utc() -> None:
    dates = pl.Series(
        [datetime(2012, 4, 3, tzinfo=UTC), datetime(2012, 4, 4, tzinfo=UTC)]
    ).dt.date()
    data = from_frame(pl.DataFrame({"user": [1, 2], "item": [1, 2], "date": dates}))
    assert data.time is not None and (data.time // SECOND).tolist() == [
        1333411200,
        1333411200 + 86400,
    ]


def test_features_come_from_a_second_table() -> None:
    films = {"movieId": [10, 2], "title": ["Ten", "Two"], "genres": [["Drama", "War"], ["Comedy"]]}
    data = from_frame(COLUMNS, items=pl.DataFrame(films))
    assert data.features["title"].tolist() == ["Two", "Ten", ""]
    assert data.features["category"].tolist() == ["Comedy", "Drama|War", ""]


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"user": [1, 2]}, "frame: no item column among user"),
        ({"user": [1, None], "item": [1, 2]}, "frame:row 1: the user id is empty"),
        (
            {"user": [1.0, float("nan")], "item": [1, 2]},
            "frame:row 0: the user column 'user' holds floating-point numbers",
        ),
        (
            {"user": ["1.0", "2"], "item": [1, 2]},
            "frame:row 0: user id '1.0' is written as a decimal number",
        ),
        (
            {"user": [1, 2], "item": [1, 2], "rating": [1.0, float("inf")]},
            "frame:row 1: the value is inf",
        ),
        (
            {"user": [1, 2], "item": [1, 2], "rating": [None, 1.0]},
            "frame:row 0: the value is empty",
        ),
        (
            {"user": [1, 2], "item": [1, 2], "time": [1, -5]},
            "frame:row 1: the time -5 is before 1970",
        ),
        (
            {"user": [1, 2], "item": [[1], [2]]},
            "frame:row 0: the item column 'item' holds lists or objects",
        ),
        (
            {"user": [1, 2], "item": [1, 2], "rating": [[1], [2]]},
            "frame:row 0: the value column 'rating' holds lists or objects",
        ),
        ({"user": [], "item": []}, "frame: there are no rows"),
        ({}, "frame: columns are"),
    ],
)
def test_bad_frames_are_refused_by_row(columns: dict[str, list[Any]], says: str) -> None:
    with pytest.raises(InputError) as refusal:
        from_frame(columns)
    assert str(refusal.value).startswith(says)


def test_what_is_no_table_is_refused() -> None:
    for thing in (3, [1, 2], "text", None, pd.DataFrame([[1, 2]])):
        with pytest.raises(InputError):
            from_frame(thing)


def test_neither_pandas_nor_pyarrow_is_imported() -> None:
    program = (
        "import sys, entrenous; entrenous.from_frame({'user': [1, 2], 'item': [1, 2]});"
        " print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert "polars" in done.stdout.split()
    assert not {"pandas", "pyarrow"} & set(done.stdout.split())


def test_pandas_without_arrow_falls_back_to_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(*args: object, **options: object) -> None:
        raise ImportError("no pyarrow")

    monkeypatch.setattr(pd.DataFrame, "__arrow_c_stream__", absent)
    frame = pd.DataFrame(
        {"user": ["a", "a", "b"], "item": [1, 2, 3], "rating": [4.0, 5.0, 3.0]}, index=[0, 0, 1]
    )
    data: Interactions = from_frame(frame)
    assert data.value.tolist() == [4, 5, 3]
    with pytest.raises(InputError, match="frame:row 1: the user id is empty"):
        from_frame(frame.assign(user=["a", None, "b"]))
