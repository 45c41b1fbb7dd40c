"""Weighting sets that nodes draw from their own rows (PEPPER, algorithm 2, lines 1 to 5)."""

from __future__ import annotations

import numpy as np
from numba import njit

from ..core.gossip import DeviceData, Weighing
from ..core.keys import below, draw, fold
from ..core.negatives import negative
from ..core.types import Int32Array, Int64Array, UInt64Array

CANDIDATES = 100  # random items that each weighting item is ranked among (section 4.1)


def drawn(data: DeviceData, share: float, items: int, keys: UInt64Array) -> DeviceData:
    """`data` with int(share n) of each device's n rows as its weighting set, which it no longer trains on, and never draws as negatives."""
    own = data.histories
    counts = np.diff(own.ptr)
    held = (share * counts).astype(np.int64)
    ptr = np.concatenate([[0], np.cumsum(counts - held)]).astype(np.int64)
    weigh = np.concatenate([[0], np.cumsum(held)]).astype(np.int64)
    stay, chosen, candidates = _cut(own.ptr, own.item, ptr, weigh, items, keys)
    time, row = (None if column is None else column[stay] for column in (own.time, own.row))
    kept = own._replace(ptr=ptr, item=own.item[stay], value=own.value[stay], time=time, row=row)
    return DeviceData(kept, Weighing(weigh, chosen, candidates))


@njit(cache=True, nogil=True)
def _cut(
    old: Int64Array, item: Int32Array, ptr: Int64Array, weigh: Int64Array, items: int, keys: UInt64Array
) -> tuple[Int64Array, Int32Array, Int32Array]:
    """Where the rows are that stay, in their order, the items that weigh, and what each of those is ranked among."""
    stay = np.empty(ptr[-1], np.int64)
    chosen, candidates = np.empty(weigh[-1], np.int32), np.full((weigh[-1], CANDIDATES), -1, np.int32)
    for u in range(len(keys)):
        rows, want = item[old[u] : old[u + 1]], weigh[u + 1] - weigh[u]
        left, at, to = want, weigh[u], ptr[u]
        for r in range(len(rows)):  # each row with probability (still wanted) / (rows left): exactly `want`, in order
            if below(draw(keys[u], r), len(rows) - r) < left:
                chosen[at] = rows[r]
                at, left = at + 1, left - 1
            else:
                stay[to] = old[u] + r
                to += 1
        unseen = items - len(rows)
        for c in range(want * CANDIDATES if unseen > 0 else 0):
            bits = draw(fold(keys[u], 1), c)
            candidates[weigh[u] + c // CANDIDATES, c % CANDIDATES] = negative(rows, below(bits, unseen))
    return stay, chosen, candidates
