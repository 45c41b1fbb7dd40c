"""Interactions as named arrays and back, for runs whose data lived in memory alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..core.errors import EntrenousError
from ..core.types import Array
from ..core.vocabulary import Vocabulary
from .interactions import Interactions

COLUMNS = ("ptr", "item", "value", "time", "row")


def arrays_of_rows(data: Interactions) -> dict[str, Array]:
    """Every row, id and item feature as arrays by name; texts as UTF-8 bytes."""
    columns = {name: getattr(data, name) for name in COLUMNS if getattr(data, name) is not None}
    words: dict[str, Any] = {
        "users": data.users.ids.tolist(),
        "items": data.items.ids.tolist(),
        "features": {name: np.asarray(column).tolist() for name, column in data.features.items()},
        "name": data.name,
        "scale": data.scale,
        "notes": data.notes,
    }
    return columns | {"words": np.frombuffer(json.dumps(words).encode(), np.uint8)}


def rows_from_arrays(arrays: Mapping[str, Array]) -> Interactions:
    """The interactions that `arrays_of_rows` wrote. Raises EntrenousError for arrays that are not its own."""
    try:
        words = json.loads(arrays["words"].tobytes())
        return Interactions(
            ptr=arrays["ptr"],
            item=arrays["item"],
            value=arrays["value"],
            time=arrays.get("time"),
            row=arrays.get("row"),
            users=Vocabulary(np.array(words["users"], np.str_), kind="user"),
            items=Vocabulary(np.array(words["items"], np.str_), kind="item"),
            features={name: np.array(column, np.str_) for name, column in words["features"].items()},
            name=words["name"],
            scale=None if words["scale"] is None else (words["scale"][0], words["scale"][1]),
            notes=tuple(words["notes"]),
        )
    except (KeyError, ValueError, TypeError, IndexError) as wrong:
        raise EntrenousError(
            f"stored rows cannot be read ({type(wrong).__name__}: {wrong}); expected a file of entrenous"
        ) from None
