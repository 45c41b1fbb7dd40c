"""The visits of one device in order: the visit before each, and the items that followed an item."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..core.compiling import njit
from ..core.contract.protocols import Visits
from ..core.types import Int32Array, Int64Array

# As in data/interactions.py.
NO_TIME = np.iinfo(np.int64).min
# The predecessor of a first visit.
NOWHERE = -1


class VisitSequence(NamedTuple):
    """The m visits of a device to its n items, which are numbered as its rows are."""

    item: Int32Array
    """int32 [m], the item of each visit."""
    before: Int64Array
    """int64 [m], the visit before each, or NOWHERE."""
    ptr: Int64Array
    """int64 [n + 1] from 0."""
    next: Int32Array
    """int32 [ptr[n]]; from item c the device went to the items next[ptr[c]:ptr[c + 1]], ascending,
    each once.
    """


@njit(cache=True, nogil=True)
def in_order(time: Int64Array, row: Int64Array) -> Int64Array:
    """Returns the positions of a device's visits by time, then by `row`, int64 [n]; those without a
    time come first.
    """
    # Two stable sorts, the less important one first.
    by_row = np.argsort(row, kind="mergesort")
    return by_row[np.argsort(time[by_row], kind="mergesort")]


@njit(cache=True, nogil=True)
def previous(time: Int64Array, order: Int64Array, tau: int) -> Int64Array:
    """Returns the predecessor of each visit of a device, as its position, int64 [n]; NOWHERE for
    the first, after one without a time, and where more than `tau` microseconds lie between.
    """
    out = np.full(len(order), NOWHERE, np.int64)
    for t in range(1, len(order)):
        c = order[t - 1]
        i = order[t]
        if time[c] != NO_TIME and (tau == 0 or time[i] - time[c] <= tau):
            out[i] = c
    return out


@njit(cache=True, nogil=True)
def sequence_of(visits: Visits, low: int, high: int, tau: int) -> VisitSequence:
    """Returns the visits of the device whose rows are those from `low` to `high`."""
    first = visits.ptr[low]
    last = visits.ptr[high]
    n = high - low
    # A row stands for all visits to its item.
    item = np.empty(last - first, np.int32)
    for r in range(n):
        begin = visits.ptr[low + r] - first
        end = visits.ptr[low + r + 1] - first
        item[begin:end] = r
    time = visits.time[first:last]
    order = in_order(time, visits.row[first:last])
    before = previous(time, order, tau)
    # Sorted, the moves n c + i are grouped by c, and by i within it.
    moves = np.unique(_moves(item, before, n))
    ptr = np.zeros(n + 1, np.int64)
    for move in moves:
        ptr[move // n + 1] += 1
    # A device without items has no moves to divide.
    next = (moves % max(n, 1)).astype(np.int32)
    return VisitSequence(item, before, np.cumsum(ptr), next)


@njit(cache=True, nogil=True)
def _moves(item: Int32Array, before: Int64Array, n: int) -> Int64Array:
    """Returns n c + i for each visit to item i that comes from item c."""
    count = 0
    moves = np.empty(len(item), np.int64)
    for v in range(len(item)):
        if before[v] != NOWHERE:
            moves[count] = n * np.int64(item[before[v]]) + item[v]
            count += 1
    return moves[:count]
