"""Compiled loops of loading: the numbers of ids, and the order of rows. They are loaded for large
files alone, since numba takes a second to start.
"""

from __future__ import annotations

import numpy as np

from ..core.compiling import njit
from ..core.types import Array, BoolArray, Int32Array, Int64Array


@njit(cache=True, nogil=True)
def mark(numbers: Int64Array, lowest: int, present: BoolArray) -> None:
    """Sets present[number - lowest] for every number."""
    for number in numbers:
        present[number - lowest] = True


@njit(cache=True, nogil=True)
def encode(numbers: Int64Array, lowest: int, code: Int32Array, out: Int32Array) -> None:
    """Writes code[number - lowest] of every number to `out`."""
    for row in range(len(numbers)):
        out[row] = code[numbers[row] - lowest]


@njit(cache=True, nogil=True)
def disorder(user: Array, item: Array) -> int:
    """Returns 0 if the pairs of user and item ascend and none repeats, 1 if they ascend with
    repeats, 2 if they do not ascend.
    """
    repeats = 0
    for row in range(1, len(user)):
        if user[row] < user[row - 1]:
            return 2
        if user[row] == user[row - 1]:
            if item[row] < item[row - 1]:
                return 2
            if item[row] == item[row - 1]:
                repeats = 1
    return repeats


@njit(cache=True, nogil=True)
def order_of_pairs(user: Array, item: Array, users: int, items: int) -> Int64Array:
    """Returns the positions of the rows sorted by user, then item, then place, int64 [rows]."""
    # The second sort keeps the order of the first among the rows of a user.
    by_item = _counted_order(item, np.arange(len(item)), items)
    return _counted_order(user, by_item, users)


@njit(cache=True, nogil=True)
def _counted_order(keys: Array, before: Int64Array, most: int) -> Int64Array:
    """Returns the positions `before` sorted by key; equal keys keep their order."""
    # Where the rows of each key begin.
    start = np.zeros(most + 1, np.int64)
    for key in keys:
        start[key + 1] += 1
    for key in range(most):
        start[key + 1] += start[key]
    order = np.empty(len(keys), np.int64)
    for position in before:
        key = keys[position]
        order[start[key]] = position
        start[key] += 1
    return order


@njit(cache=True, nogil=True)
def repeats(user: Array, item: Array, order: Int64Array) -> bool:
    """Returns True if two rows in an order have the same user and item as their neighbour."""
    for place in range(1, len(order)):
        row = order[place]
        other = order[place - 1]
        if user[row] == user[other] and item[row] == item[other]:
            return True
    return False
