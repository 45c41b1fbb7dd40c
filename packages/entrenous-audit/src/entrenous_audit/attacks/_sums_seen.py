"""Common parts of attacks on sums: the arrays of a sum by their declared names, and their numbers
item by item.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from entrenous.core.types import Array, Float64Array, Int64Array
from entrenous.federation.recorder import Seen

from ..transcript import Transcript
from ._rows_seen import RowsSeen, place_of


def added_up(transcript: Transcript, seen: Seen) -> dict[str, tuple[str, Array]]:
    """The arrays of a sum by the name under which they were recorded: "rows" or "dense", and the
    array.
    """
    arrays = {}
    for sent in transcript.about["sends"]:
        name = place_of(sent["name"])
        if sent["way"] in ("rows", "dense") and name in seen.sent:
            arrays[name] = (sent["way"], seen.sent[name])
    return arrays


def summed_items(transcript: Transcript, seen: Seen) -> Float64Array | None:
    """The numbers of a sum for each item, float64 [items, numbers]: all arrays with a row for each
    item next to each other; None if no array has.
    """
    items = transcript.items
    tables = []
    for way, array in added_up(transcript, seen).values():
        # Dense arrays come as one sum for each group of parties.
        table = array.sum(axis=0) if way == "dense" else array
        if table.ndim and len(table) == items:
            rows = np.asarray(table, np.float64).reshape(items, -1)
            tables.append(rows)
    if tables:
        return np.concatenate(tables, axis=1)
    return None


def same_model(seen: Seen, other: Seen) -> bool:
    """Checks whether devices received in one round all arrays that they received in another."""
    return all(
        name in seen.received and np.array_equal(array, seen.received[name])
        for name, array in other.received.items()
    )


def differences(transcript: Transcript) -> tuple[Seen, ...]:
    """The differences of every two entries of a transcript, the sum of some parties and that of
    fewer of them, where devices received one model: each as the sum of those who are in the first
    alone. Noise of the two adds up.
    """
    found = []
    for whole, less in _pairs(transcript):
        apart = np.setdiff1d(whole.users, less.users)
        # Nobody may be in the second sum alone, or their numbers would be in the difference too.
        if len(apart) and len(whole.users) == len(less.users) + len(apart):
            found.append(_less(transcript, whole, less)._replace(users=apart))
    return tuple(found)


def changes(transcript: Transcript) -> tuple[Seen, ...]:
    """The differences of every two entries of a transcript that are of the same people, where
    devices received one model.
    """
    return tuple(
        _less(transcript, one, other)
        for one, other in _pairs(transcript)
        if np.array_equal(one.users, other.users)
    )


def _pairs(transcript: Transcript) -> Iterator[tuple[Seen, Seen]]:
    """Yields every two entries one after the other whose devices received one model."""
    for one, other in zip(transcript.rounds[::2], transcript.rounds[1::2], strict=False):
        if same_model(other, one):
            yield one, other


def _less(transcript: Transcript, one: Seen, other: Seen) -> Seen:
    """The first sum less the second one."""
    names = ["weight"] if "weight" in one.sent else []
    names += added_up(transcript, one)
    return one._replace(sent={name: one.sent[name] - other.sent[name] for name in names})


def senders_of(seen: Seen) -> Int64Array:
    """The number of devices that added to each row of a sum of FPL, int64 [items]; 0 where the
    counts stay inside the sum.
    """
    # Under noise the count of senders does not leave the sum.
    uncounted = np.zeros(len(seen.received["b"]), np.int64)
    return seen.sent.get("senders", uncounted)


def as_single_rows(place: int, seen: Seen, item: Int64Array) -> RowsSeen:
    """Rows of a sum of FPL that have one sender, as if each were a single update of somebody."""
    sent: dict[str, Array] = {name: seen.sent[name][item].astype(np.float32) for name in ("q", "b")}
    nobody = np.zeros(len(item), np.int64)
    alone = seen._replace(sent=sent)
    return RowsSeen(place, alone, nobody, nobody, item.astype(np.int32))
