"""Compiled ranking of score blocks: the n best items of each row, and the ranks of given items, exact and deterministic.

Both share one order. Item i precedes item j if its score is higher, or if the scores are equal and i comes earlier in a keyed
shuffle of the items (`place`). Item numbers never break a tie: they correlate with popularity, and a constant score would look
good. An item competes for user u unless it is not `known` or stands in row u of the mask (a CSR table: ptr, item), usually the
training rows.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .keys import draw
from .types import BoolArray, Float32Array, Int32Array, Int64Array, UInt64Array


def shuffle_places(n: int, key: np.uint64) -> Int32Array:
    """The place of each of n items in a keyed shuffle, int32 [n]: a permutation of 0..n-1 that depends on the key alone."""
    place = np.empty(n, np.int32)
    place[np.argsort(draws(key, n), kind="stable")] = np.arange(n, dtype=np.int32)
    return place


@njit(cache=True, nogil=True)
def draws(key: np.uint64, n: int) -> UInt64Array:
    """Draws 0..n-1 of a key, uint64 [n]."""
    out = np.empty(n, np.uint64)
    for c in range(n):
        out[c] = draw(key, c)
    return out


@njit(cache=True, nogil=True)
def nonfinite_row(scores: Float32Array) -> int:
    """The first row of scores [m, items] that holds a NaN or an infinity; -1 if there is none."""
    for row in range(len(scores)):
        total = 0.0
        for i in range(scores.shape[1]):
            total += abs(scores[row, i]) * 0.0  # 0 for every finite number, NaN otherwise
        if total != 0.0:
            return row
    return -1


@njit(cache=True, nogil=True)
def top_n(
    scores: Float32Array,
    users: Int64Array,
    known: BoolArray,
    ptr: Int64Array,
    item: Int32Array,
    place: Int32Array,
    best: Int32Array,
    value: Float32Array,
) -> None:
    """Writes the n best competing items of each row into best [m, n] (-1 where fewer compete) and value [m, n] (-inf there).

    scores: [m, items], finite; row r belongs to user users[r]. Cost: one pass per row, insertion only for an item in the current
    list.
    """
    blocked = ~known
    for row in range(len(scores)):
        user = users[row]
        for e in range(ptr[user], ptr[user + 1]):
            blocked[item[e]] = True
        _insert_best(scores[row], blocked, place, best[row], value[row])
        for e in range(ptr[user], ptr[user + 1]):
            blocked[item[e]] = not known[item[e]]


@njit(cache=True, nogil=True)
def _insert_best(score: Float32Array, blocked: BoolArray, place: Int32Array, best: Int32Array, value: Float32Array) -> None:
    n = len(best)
    best[:] = -1
    value[:] = -np.inf
    for i in range(len(score)):
        s = score[i]
        if s < value[n - 1] or blocked[i]:
            continue
        if s == value[n - 1] and place[i] > place[best[n - 1]]:
            continue
        k = n - 1
        while k > 0 and (s > value[k - 1] or (s == value[k - 1] and place[i] < place[best[k - 1]])):
            best[k], value[k] = best[k - 1], value[k - 1]
            k -= 1
        best[k], value[k] = i, s


@njit(cache=True, nogil=True)
def ranks(
    scores: Float32Array,
    users: Int64Array,
    known: BoolArray,
    ptr: Int64Array,
    item: Int32Array,
    place: Int32Array,
    held_ptr: Int64Array,
    held_item: Int32Array,
    rank: Int64Array,
    competing: Int64Array,
) -> None:
    """Writes, for each row, the ranks of its held items among all that compete, ascending, and how many compete.

    Row r's held items are held_item[held_ptr[users[r]]:held_ptr[users[r] + 1]]; their ranks go to the same positions of `rank`,
    sorted. A held item that does not compete has rank competing + 1. One binary search per item that beats the lowest held one.
    """
    blocked = ~known
    for row in range(len(scores)):
        user = users[row]
        for e in range(ptr[user], ptr[user + 1]):
            blocked[item[e]] = True
        start, stop = held_ptr[user], held_ptr[user + 1]
        competing[row] = _ranks_of_row(scores[row], blocked, place, held_item[start:stop], rank[start:stop])
        for e in range(ptr[user], ptr[user + 1]):
            blocked[item[e]] = not known[item[e]]


@njit(cache=True, nogil=True)
def _ranks_of_row(score: Float32Array, blocked: BoolArray, place: Int32Array, held: Int32Array, rank: Int64Array) -> int:
    order = _sort_held(score, blocked, place, held)
    ahead = np.zeros(len(order) + 1, np.int64)  # ahead[k]: items that precede held item k but not k - 1
    last = order[-1] if len(order) else -1
    competing = 0
    for i in range(len(score)):
        if blocked[i]:
            continue
        competing += 1
        if last < 0 or score[i] < score[last]:
            continue
        low, high = 0, len(order)
        while low < high:
            middle = (low + high) // 2
            if _precedes(score, place, i, order[middle]):
                high = middle
            else:
                low = middle + 1
        ahead[low] += 1
    rank[:] = competing + 1
    total = 0
    for k in range(len(order)):
        total += ahead[k]
        rank[k] = total + 1
    return competing


@njit(cache=True, nogil=True)
def _sort_held(score: Float32Array, blocked: BoolArray, place: Int32Array, held: Int32Array) -> Int32Array:
    """The held items that compete, best first (insertion sort: a user has few)."""
    order = np.empty(len(held), np.int32)
    size = 0
    for h in held:
        if blocked[h]:
            continue
        k = size
        while k > 0 and _precedes(score, place, h, order[k - 1]):
            order[k] = order[k - 1]
            k -= 1
        order[k] = h
        size += 1
    return order[:size]


@njit(cache=True, nogil=True)
def _precedes(score: Float32Array, place: Int32Array, i: int, j: int) -> bool:
    return score[i] > score[j] or (score[i] == score[j] and place[i] < place[j])


@njit(cache=True, nogil=True)
def ranks_among(
    scores: Float32Array,
    row: Int64Array,
    item: Int32Array,
    candidates: Int32Array,
    known: BoolArray,
    place: Int32Array,
    rank: Int64Array,
    competing: Int64Array,
) -> None:
    """Writes the rank of item[h] among itself and its own candidates[h], by row row[h] of the scores, and how many items that is.

    candidates: int32 [len(item), k], -1 where there are fewer. A candidate that is not known stands behind every known item;
    an item that is not known itself has rank competing + 1.
    """
    for h in range(len(item)):
        score, i = scores[row[h]], item[h]
        ahead, present = 0, 0
        for j in candidates[h]:
            if j >= 0:
                present += 1
                if known[j] and _precedes(score, place, j, i):
                    ahead += 1
        competing[h] = present + known[i]
        rank[h] = ahead + 1 if known[i] else competing[h] + 1
