"""A `Total` as one vector of integers, which is what a secure sum adds up, and back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ...core.errors import InputError
from ...core.types import Int64Array
from ...core.update import Total


class SumRows(NamedTuple):
    """The number of item rows a client adds to (of all its devices together, decoys included), and the number there are."""

    sent: int
    out_of: int

    def occupancy(self, parties: int) -> float:
        """Devices a row if `parties` send as many rows each. Without rows everyone is in every value."""
        return parties * self.sent / self.out_of if self.out_of else float(parties)


def rows_of(total: Total) -> SumRows:
    """How many item rows were added into `total`, and how many there are."""
    return SumRows(int(total.senders.sum()), len(total.senders) if total.rows else 0)


def pack(total: Total) -> Int64Array:
    """int64 [n]: rows by name, senders, dense by name, weight, devices. A copy.

    `shown` is not summed and stays out: what a device shows singly cannot be hidden in a sum, so an algorithm that shows anything is
    none for secure sums, and this raises InputError.
    """
    if total.shown:
        raise InputError(
            "secure sum", "the algorithm shows arrays singly, with their senders", fix="choose one that only adds up"
        )
    return np.concatenate([*(array.ravel() for array in _parts(total)), np.array([total.devices], np.int64)])


def unpack(vector: Int64Array, like: Total) -> Total:
    """The Total that `vector` is, in the shapes of `like`. Raises InputError for another length or dtype."""
    length = size(like)
    if vector.dtype != np.int64 or vector.shape != (length,):
        raise InputError("secure sum", f"a vector {vector.dtype} {vector.shape}", expected=f"int64 ({length},)")
    arrays, low = [], 0
    for part in _parts(like):
        arrays.append(vector[low : low + part.size].reshape(part.shape).copy())
        low += part.size
    parts = iter(arrays)
    rows = {name: next(parts) for name in sorted(like.rows)}
    senders = next(parts)
    dense = {name: next(parts) for name in sorted(like.dense)}
    return Total(
        {name: rows[name] for name in like.rows},
        senders,
        {name: dense[name] for name in like.dense},
        next(parts),
        int(vector[-1]),
    )


def size(like: Total) -> int:
    """The length of the vector into which a sum like `like` is packed."""
    return sum(part.size for part in _parts(like)) + 1


def _parts(total: Total) -> Iterator[Int64Array]:
    yield from (total.rows[name] for name in sorted(total.rows))
    yield total.senders
    yield from (total.dense[name] for name in sorted(total.dense))
    yield total.weight
