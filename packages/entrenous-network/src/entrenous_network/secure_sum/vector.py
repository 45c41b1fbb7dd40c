"""A `Total` as one vector of integers, which is what a secure sum adds up, and back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from entrenous.core.contract.update import Total
from entrenous.core.errors import InputError
from entrenous.core.types import Int64Array


class SumRows(NamedTuple):
    """The occupancy of the rows of a client's vector."""

    sent: int
    """The item rows that it adds to, decoys included."""
    out_of: int
    """The items of the catalogue; 0 where no rows are sent."""
    width: int = 0
    """The numbers that it sends for an item, in a message that has all items, or the same
    ones in every round."""

    def occupancy(self, people: int, sums: int = 1) -> float:
        """Devices that fill a row, on average, if all `people` of the sum send as many rows as
        this client does.

        A message that has a row for every item is full of everybody, and its numbers alone tell the
        consumed items. Each of `sums` sums of the same people is then `width` equations for each
        item, in one unknown a person: devices an equation. From 1 on such sums can be solved. So
        it is with rows of the same items in every round. The less of both counts where there are
        both.
        """
        filled = float(people)
        if self.out_of:
            filled = people * self.sent / self.out_of
        if self.width:
            filled = min(filled, people / (self.width * sums))
        return filled


def rows_of(total: Total, same_rows: bool = False) -> SumRows:
    """Counts the rows of a client's total that are filled. same_rows: it sends rows of the same
    items in every round (`Traits.same_rows`).
    """
    items = len(total.senders)
    width = 0
    for array in total.dense.values():
        # An array with numbers for each item is as many equations in each person's items.
        if array.ndim > 1 and array.shape[1] == items:
            width += array[0, 0].size
    if same_rows:
        width += sum(array[0].size for array in total.rows.values())
    return SumRows(int(total.senders.sum()), items if total.rows else 0, width)


def pack(total: Total) -> Int64Array:
    """int64 [n]: rows by name, senders, dense by name, weight, devices. A copy.

    `shown` is not summed and stays out: what a device shows singly cannot be hidden in a sum, so an
    algorithm that shows anything is none for secure sums, and this raises InputError.
    """
    if total.shown:
        raise InputError(
            "secure sum",
            "the algorithm shows arrays singly, with their senders",
            fix="choose one that only adds up",
        )
    # The number of devices is summed too: the mean of a sum needs it.
    parts = [array.ravel() for array in _parts(total)]
    return np.concatenate([*parts, np.array([total.devices], np.int64)])


def unpack(vector: Int64Array, like: Total) -> Total:
    """The Total that `vector` is, in the shapes of `like`. Raises InputError for another length or
    dtype.
    """
    length = size(like)
    if vector.dtype != np.int64 or vector.shape != (length,):
        raise InputError(
            "secure sum", f"a vector {vector.dtype} {vector.shape}", expected=f"int64 ({length},)"
        )
    arrays = []
    low = 0
    # Copies: a caller may keep the vector, and a total is changed in place.
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
    # By name: clients of two versions may declare arrays in another order.
    yield from (total.rows[name] for name in sorted(total.rows))
    yield total.senders
    yield from (total.dense[name] for name in sorted(total.dense))
    yield total.weight
