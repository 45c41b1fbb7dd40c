"""Drawing (u, i, j) triples on one device: i from its history, j never from it, without rejection loops."""

from __future__ import annotations

import numpy as np
from numba import njit

from ..core.types import Int32Array

_LOW32 = np.uint64(0xFFFFFFFF)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_S32, _S40, _ONE = np.uint64(32), np.uint64(40), np.uint64(1)


@njit(cache=True, inline="always")
def below_low(bits: np.uint64, n: int) -> int:
    """As `keys.below`, from the lower half of the random bits: one draw gives two independent integers."""
    return np.int64(((bits & _LOW32) * np.uint64(n)) >> _S32)


@njit(cache=True)
def negative(history: Int32Array, k: int) -> int:
    """The k-th item (k = 0, 1, ...) that is not in the ascending `history`; k < items - len(history). O(log len(history)).

    Before history[m] lie history[m] - m items that are not in it, so a binary search over m finds the place.
    """
    low, length = 0, len(history)
    while length > 1:
        half = length >> 1
        probe = low + half
        low = probe if history[probe - 1] - (probe - 1) <= k else low
        length -= half
    if length == 1 and history[low] - low <= k:
        low += 1
    return k + low


@njit(cache=True)
def row_of(slots: Int32Array, item: Int32Array, n: int, wanted: int) -> int:
    """The row of `wanted` among item[:n], or n if it is new (its slot is then taken; the caller writes item[n]).

    `slots` is an open-addressing hash table, a power of two in length, -1 where empty.
    """
    mask = np.uint64(len(slots) - 1)
    slot = ((np.uint64(wanted) * _GOLDEN) >> _S40) & mask
    while True:
        row = slots[slot]
        if row < 0:
            slots[slot] = n
            return n
        if item[row] == wanted:
            return row
        slot = (slot + _ONE) & mask


def slots_for(rows: int) -> Int32Array:
    """An empty table for `row_of` with room for `rows` items at a load of at most one half."""
    return np.full(1 << max(2, (2 * rows - 1).bit_length()), -1, np.int32)
