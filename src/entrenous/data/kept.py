"""Interactions as named arrays and back, for runs whose data lived in memory alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..core.contract.protocols import Visits
from ..core.errors import EntrenousError
from ..core.types import Array
from ..core.vocabulary import Vocabulary
from .interactions import Interactions

COLUMNS = ("ptr", "item", "value", "time", "row")
VISITS = tuple(f"visits.{name}" for name in Visits._fields)


def arrays_of_rows(data: Interactions) -> dict[str, Array]:
    """Every row, id and item feature as arrays by name; texts as UTF-8 bytes."""
    columns = {name: getattr(data, name) for name in COLUMNS if getattr(data, name) is not None}
    columns |= {} if data.visits is None else dict(zip(VISITS, data.visits, strict=True))
    words: dict[str, Any] = {
        "users": data.users.ids.tolist(),
        "items": data.items.ids.tolist(),
        "features": {name: np.asarray(column).tolist() for name, column in data.features.items()},
        "name": data.name,
        "scale": data.scale,
        "notes": data.notes,
    }
    return columns | {"words": np.frombuffer(json.dumps(words).encode(), np.uint8)}


def rows_from_arrays(arrays: Mapping[str, Array], where: str = "stored rows") -> Interactions:
    """The interactions that `arrays_of_rows` wrote. Raises EntrenousError for arrays that are not
    its own, and for numbers that no rows can have, since kernels read by them. where: names the
    file in errors.
    """
    try:
        words = json.loads(arrays["words"].tobytes())
        data = Interactions(
            ptr=arrays["ptr"],
            item=arrays["item"],
            value=arrays["value"],
            time=arrays.get("time"),
            row=arrays.get("row"),
            visits=Visits(*(arrays[name] for name in VISITS)) if VISITS[0] in arrays else None,
            users=Vocabulary(np.array(words["users"], np.str_), kind="user"),
            items=Vocabulary(np.array(words["items"], np.str_), kind="item"),
            features={
                name: np.array(column, np.str_) for name, column in words["features"].items()
            },
            name=words["name"],
            scale=None if words["scale"] is None else (words["scale"][0], words["scale"][1]),
            notes=tuple(words["notes"]),
        )
    except (KeyError, ValueError, TypeError, IndexError) as wrong:
        raise EntrenousError(
            f"{where}: cannot be read ({type(wrong).__name__}: {wrong}); expected rows as entrenous"
            " writes them"
        ) from None
    if bad := _wrong(data):
        raise EntrenousError(
            f"{where}: {bad}; expected rows as entrenous writes them; nothing was loaded"
        )
    return data


def _wrong(data: Interactions) -> str:
    """What is wrong with the columns of rows, "" if nothing is."""
    columns = {
        "ptr": np.int64,
        "item": np.int32,
        "value": np.float32,
        "time": np.int64,
        "row": np.int64,
    }
    for name, kind in columns.items():
        column, length = (
            getattr(data, name),
            len(data.users) + 1 if name == "ptr" else len(data.item),
        )
        if column is not None and (column.dtype != kind or column.shape != (length,)):
            return (
                f"'{name}' is {column.dtype} {list(column.shape)}, not {np.dtype(kind)} [{length}]"
            )
    if (
        not len(data.item)
        or data.ptr[0] != 0
        or data.ptr[-1] != len(data.item)
        or (np.diff(data.ptr) < 0).any()
    ):
        return "'ptr' does not divide the rows among the users"
    if data.item.min() < 0 or data.item.max() >= len(data.items):
        return f"'item' has a number beyond the {len(data.items)} items"
    if ((np.diff(data.item) <= 0) & (np.diff(data.user) == 0)).any():
        return "'item' does not ascend within a user"
    if not np.isfinite(data.value).all():
        return "'value' has a number that is NaN or infinite"
    if data.visits is not None and (bad := _wrong_visits(data.visits)):
        return bad
    lengths = {
        name: len(column)
        for name, column in data.features.items()
        if len(column) != len(data.items)
    }
    return f"feature '{min(lengths)}' is not of the {len(data.items)} items" if lengths else ""


def _wrong_visits(visits: Visits) -> str:
    """What is wrong with the visits of rows, "" if nothing is; that there are as many as rows is
    known.
    """
    if any(column.dtype != np.int64 or column.ndim != 1 for column in visits):
        return "'visits' are not int64"
    if (
        visits.ptr[0] != 0
        or (np.diff(visits.ptr) < 1).any()
        or not len(visits.time) == len(visits.row) == visits.ptr[-1]
    ):
        return "'visits' are not divided among the rows"
    return ""
