"""Interactions as named arrays and back, for runs whose data was only in memory."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..core.contract.protocols import Visits
from ..core.errors import EntrenousError
from ..core.lanes.memory import divides
from ..core.types import Array
from ..data.interactions import Interactions, Vocabulary, text_array
from ..data.reading import Reading

# The columns of `Interactions` that are arrays, and their types.
COLUMNS = {
    "ptr": np.int64,
    "item": np.int32,
    "value": np.float32,
    "time": np.int64,
    "row": np.int64,
}
UNIT = "microseconds"
VISITS = tuple(f"visits.{name}" for name in Visits._fields)


def arrays_of_rows(data: Interactions) -> dict[str, Array]:
    """Returns every row, id and item feature as arrays by name; texts as UTF-8 bytes."""
    # A column that the data lacks is not stored.
    columns = {name: getattr(data, name) for name in COLUMNS if getattr(data, name) is not None}
    if data.visits is not None:
        columns |= dict(zip(VISITS, data.visits, strict=True))
    words: dict[str, Any] = {
        "users": data.users.ids.tolist(),
        "items": data.items.ids.tolist(),
        "whole": [data.users.whole, data.items.whole],
        "features": {name: np.asarray(column).tolist() for name, column in data.features.items()},
        "name": data.name,
        "scale": data.scale,
        "reading": data.reading.as_json(),
        # Files of the first versions have seconds, and no such word.
        "times": UNIT,
    }
    columns["words"] = np.frombuffer(json.dumps(words).encode(), np.uint8)
    return columns


def rows_from_arrays(arrays: Mapping[str, Array], where: str = "stored rows") -> Interactions:
    """Returns the interactions that `arrays_of_rows` wrote. where: names the file in errors.

    Raises EntrenousError for arrays of another form, and for numbers that no rows can have:
    compiled code reads memory by them.
    """
    try:
        data = _read(arrays)
    except (KeyError, ValueError, TypeError, IndexError, OverflowError) as wrong:
        raise EntrenousError(
            f"{where}: cannot be read ({type(wrong).__name__}: {wrong}); expected rows as entrenous"
            " writes them"
        ) from None
    fault = _fault(data)
    if fault:
        raise EntrenousError(
            f"{where}: {fault}; expected rows as entrenous writes them; nothing was loaded"
        )
    return data


def _read(arrays: Mapping[str, Array]) -> Interactions:
    words = json.loads(arrays["words"].tobytes())
    visits = None
    if VISITS[0] in arrays:
        visits = Visits(*(arrays[name] for name in VISITS))
    if words["times"] != UNIT:
        raise ValueError(f"times in {words['times']}")
    scale = words["scale"]
    whole = words["whole"]
    if scale is not None:
        scale = scale[0], scale[1]
    return Interactions(
        ptr=arrays["ptr"],
        item=arrays["item"],
        value=arrays["value"],
        time=arrays.get("time"),
        row=arrays.get("row"),
        visits=visits,
        users=_ids(words["users"], "user", whole[0]),
        items=_ids(words["items"], "item", whole[1]),
        features={name: text_array(texts) for name, texts in words["features"].items()},
        name=words["name"],
        scale=scale,
        reading=Reading.parse(words["reading"]),
    )


def _ids(names: list[str], kind: str, whole: str) -> Vocabulary:
    """Returns stored ids. Raises ValueError or OverflowError where they are not of the integer type
    `whole`.
    """
    if whole:
        np.array(names, object).astype(np.iinfo(whole).dtype)
    return Vocabulary(names, kind=kind, whole=whole)


def _fault(data: Interactions) -> str:
    """Returns what is wrong with the columns of rows, "" if nothing is."""
    rows = len(data.item)
    for name, kind in COLUMNS.items():
        column = getattr(data, name)
        length = rows
        if name == "ptr":
            length = len(data.users) + 1
        if column is not None and (column.dtype != kind or column.shape != (length,)):
            shape = f"{column.dtype} {list(column.shape)}"
            return f"'{name}' is {shape}, not {np.dtype(kind)} [{length}]"
    # In this order: each check relies on those before it.
    if not rows or not divides(data.ptr, rows):
        return "'ptr' does not divide the rows among the users"
    if data.item.min() < 0 or data.item.max() >= len(data.items):
        return f"'item' has a number beyond the {len(data.items)} items"
    same_user = np.diff(data.user) == 0
    if (same_user & (np.diff(data.item) <= 0)).any():
        return "'item' does not ascend within a user"
    if not np.isfinite(data.value).all():
        return "'value' has a number that is NaN or infinite"
    if data.visits is not None:
        fault = _fault_of_visits(data.visits)
        if fault:
            return fault
    items = len(data.items)
    wrong = [name for name, column in data.features.items() if column.shape != (items,)]
    if wrong:
        return f"feature '{min(wrong)}' is not of the {items} items"
    return ""


def _fault_of_visits(visits: Visits) -> str:
    """Returns what is wrong with the visits of rows, "" if nothing is. That there is a start for
    each row is known.
    """
    if any(column.dtype != np.int64 or column.ndim != 1 for column in visits):
        return "'visits' are not int64"
    each_row_has_one = (np.diff(visits.ptr) >= 1).all()
    same_length = len(visits.time) == len(visits.row)
    if not (each_row_has_one and same_length and divides(visits.ptr, len(visits.time))):
        return "'visits' are not divided among the rows"
    return ""
