"""What attacks on sums share: the arrays of a sum by their declared names, and what it says of
items.
"""

from __future__ import annotations

import numpy as np

from ...core.types import Array, Float64Array
from ...federation.recorder import TAKEN, Seen
from ..transcript import Transcript


def added_up(transcript: Transcript, seen: Seen) -> dict[str, tuple[str, Array]]:
    """The arrays of a sum by the name under which they were recorded: "rows" or "dense", and the
    array.
    """
    names = (
        (f"{sent['name']}_" if sent["name"] in TAKEN else sent["name"], sent["way"])
        for sent in transcript.about["sends"]
    )
    return {
        name: (way, seen.sent[name])
        for name, way in names
        if way in ("rows", "dense") and name in seen.sent
    }


def summed_items(transcript: Transcript, seen: Seen) -> Float64Array | None:
    """What a sum says of items, float64 [items, numbers]: all arrays with a row for each item side
    by side; None = there are none.
    """
    arrays = (
        array.sum(axis=0) if way == "dense" else array
        for way, array in added_up(transcript, seen).values()
    )
    found = [
        np.asarray(array, np.float64).reshape(transcript.items, -1)
        for array in arrays
        if array.ndim and len(array) == transcript.items
    ]
    return np.concatenate(found, axis=1) if found else None
