"""The visits of one device in order: which came after which, and where it went from each of its
items.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from ..core.contract.protocols import Visits
from ..core.types import Int32Array, Int64Array

NO_TIME, NOWHERE = (
    np.iinfo(np.int64).min,
    -1,
)  # as in data/interactions.py; what lies before a first visit


class VisitSequence(NamedTuple):
    """A device's m visits of its n items, which are numbered as its rows are.

    item: int32 [m], what each visit was of; before: int64 [m], the visit before each, or NOWHERE;
    ptr, next: from item c it went to the items next[ptr[c]:ptr[c + 1]], ascending, each once.
    """

    item: Int32Array
    before: Int64Array
    ptr: Int64Array
    next: Int32Array


@njit(cache=True, nogil=True)
def in_order(time: Int64Array, row: Int64Array) -> Int64Array:
    """Positions of a device's visits by time, then by `row`, int64 [n]; those without a time
    first.
    """
    by_row = np.argsort(row, kind="mergesort")
    return by_row[np.argsort(time[by_row], kind="mergesort")]


@njit(cache=True, nogil=True)
def previous(time: Int64Array, order: Int64Array, tau: int) -> Int64Array:
    """The predecessor of each of a device's visits, as its position, int64 [n]; NOWHERE for the
    first, for one without a time, and where more than `tau` seconds lie between."""
    out = np.full(len(order), NOWHERE, np.int64)
    for t in range(1, len(order)):
        c, i = order[t - 1], order[t]
        if time[c] != NO_TIME and (tau == 0 or time[i] - time[c] <= tau):
            out[i] = c
    return out


@njit(cache=True, nogil=True)
def sequence_of(visits: Visits, low: int, high: int, tau: int) -> VisitSequence:
    """The visits of the device whose rows are those from `low` to `high`."""
    first = visits.ptr[low]
    last = visits.ptr[high]
    n = high - low
    item = np.empty(last - first, np.int32)
    time = visits.time[first:last]
    for r in range(n):
        item[visits.ptr[low + r] - first : visits.ptr[low + r + 1] - first] = r
    before = previous(time, in_order(time, visits.row[first:last]), tau)
    ptr = np.zeros(n + 1, np.int64)
    moves = np.unique(_moves(item, before, n))
    for move in moves:
        ptr[move // n + 1] += 1
    return VisitSequence(item, before, np.cumsum(ptr), (moves % max(n, 1)).astype(np.int32))


@njit(cache=True, nogil=True)
def _moves(item: Int32Array, before: Int64Array, n: int) -> Int64Array:
    """n c + i for each visit of item i that comes from item c."""
    found = 0
    moves = np.empty(len(item), np.int64)
    for v in range(len(item)):
        if before[v] != NOWHERE:
            moves[found] = n * np.int64(item[before[v]]) + item[v]
            found += 1
    return moves[:found]
