"""Rows that a run keeps: what comes back is what was kept, and valid files with wrong numbers are
one line.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from small_data import random_data

from entrenous.core.errors import EntrenousError
from entrenous.runs.kept import arrays_of_rows, rows_from_arrays

DATA = random_data()


def test_rows_come_back_whole() -> None:
    again = rows_from_arrays(arrays_of_rows(DATA))
    assert (
        again.sha256() == DATA.sha256()
        and again.notes == DATA.notes
        and again.rating_scale == DATA.rating_scale
    )
    assert {name: list(column) for name, column in again.features.items()} == {
        name: list(column) for name, column in DATA.features.items()
    }


def changed(name: str, place: int, value: Any) -> np.ndarray:
    array = arrays_of_rows(DATA)[name].copy()
    array[place] = value
    return array


def words(**changes: Any) -> np.ndarray:
    """The words of the stored rows with other entries."""
    stored = json.loads(arrays_of_rows(DATA)["words"].tobytes())
    return np.frombuffer(json.dumps({**stored, **changes}).encode(), np.uint8)


@pytest.mark.parametrize(
    ("lie", "said"),
    [
        ({"item": changed("item", 3, len(DATA.items))}, "'item' has a number beyond the 30 items"),
        ({"item": changed("item", 3, -1)}, "'item' has a number beyond"),
        ({"item": changed("item", 1, DATA.item[2])}, "'item' does not ascend within a user"),
        ({"ptr": changed("ptr", 2, 1 << 40)}, "'ptr' does not divide the rows"),
        ({"ptr": changed("ptr", -1, 0)}, "'ptr' does not divide the rows"),
        ({"ptr": np.zeros(1, np.int64)}, "'ptr' is int64 [1], not int64 [41]"),
        ({"value": changed("value", 5, np.nan)}, "'value' has a number that is NaN or infinite"),
        ({"value": DATA.value[:-1]}, "'value' is float32"),
        ({"item": DATA.item.astype(np.int64)}, "'item' is int64"),
        (
            {
                name: np.zeros(0, array.dtype)
                for name, array in arrays_of_rows(DATA).items()
                if name not in ("words", "ptr")
            }
            | {"ptr": np.zeros(41, np.int64)},
            "'ptr' does not divide the rows",
        ),
        ({"words": np.frombuffer(b"[]", np.uint8)}, "cannot be read (TypeError"),
        ({"words": words(whole=["int8", ""], users=["u"] * 40)}, "cannot be read (ValueError"),
        ({"words": words(whole=["int8", ""], users=["999"] * 40)}, "cannot be read (OverflowError"),
        ({"words": words(whole=["float32", ""])}, "cannot be read (ValueError"),
        ({"words": words(whole=["evil", ""])}, "cannot be read (ValueError"),
        ({"words": words(whole=3)}, "cannot be read (TypeError"),
    ],
)
def test_a_lie_that_looks_valid_is_one_line(lie: dict[str, Any], said: str) -> None:
    with pytest.raises(EntrenousError) as refused:
        rows_from_arrays({**arrays_of_rows(DATA), **lie}, "rows.safetensors")
    assert (
        said in str(refused.value)
        and str(refused.value).startswith("rows.safetensors: ")
        and "\n" not in str(refused.value)
    )
