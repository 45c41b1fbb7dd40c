"""Compiled ranking of score blocks: the n best items of each row, and the ranks of given items,
exact and deterministic.

Both share one order. Item i precedes item j if its score is higher, or if the scores are equal and
i comes earlier in a keyed shuffle of the items (`place`). Item numbers never break a tie: they
correlate with popularity, and a constant score would look good. An item competes for user u unless
it is not `known` or stands in row u of the mask (a CSR table: ptr, item), usually the training
rows.
"""

from __future__ import annotations

import numpy as np

from ..core.compiling import njit
from ..core.types import Array, BoolArray, Float32Array, Int32Array, Int64Array


@njit(cache=True, nogil=True)
def nonfinite_row(scores: Float32Array) -> int:
    """Returns the first row of scores [m, items] with a NaN or an infinity; -1 if there is none."""
    for r in range(len(scores)):
        row = scores[r]
        bad = 0
        for i in range(len(row)):
            bad += not (abs(row[i]) < np.inf)
        if bad:
            return r
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
    """Writes the n best competing items of each row into best [m, n] (-1 where fewer compete) and
    value [m, n] (-inf there).

    scores: [m, items], finite; row r belongs to user users[r]. One pass per row; only an item that
    enters the list costs more.
    """
    for r in range(len(scores)):
        u = users[r]
        score = _competing(scores[r], known, item[ptr[u] : ptr[u + 1]])
        _insert_best(score, place, best[r], value[r])


@njit(cache=True, nogil=True)
def _competing(row: Float32Array, known: BoolArray, masked: Int32Array) -> Float32Array:
    """Returns a copy of a row of scores with -inf for every item that does not compete."""
    score = np.empty_like(row)
    for i in range(len(row)):
        score[i] = row[i] if known[i] else -np.inf
    for i in masked:
        score[i] = -np.inf
    return score


@njit(cache=True, nogil=True)
def _insert_best(
    score: Float32Array, place: Int32Array, best: Int32Array, value: Float32Array
) -> None:
    """Writes the best items of one row to `best`, in order, and their scores to `value`."""
    last = len(best) - 1
    best[:] = -1
    value[:] = -np.inf
    for i in range(len(score)):
        s = score[i]
        # Nearly all items stop here: behind the last of the list, or not competing.
        if s < value[last] or s == -np.inf or (s == value[last] and place[i] > place[best[last]]):
            continue
        # Move up those that come after it.
        k = last
        while k > 0 and (s > value[k - 1] or (s == value[k - 1] and place[i] < place[best[k - 1]])):
            best[k] = best[k - 1]
            value[k] = value[k - 1]
            k -= 1
        best[k] = i
        value[k] = s


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
    """Writes, for each row, the ranks of its held items among all that compete, ascending, and how
    many compete.

    Row r's held items are held_item[held_ptr[users[r]]:held_ptr[users[r] + 1]]; their ranks go to
    the same positions of `rank`, sorted. A held item that does not compete has rank competing + 1.
    One pass of comparisons per held item.
    """
    for r in range(len(scores)):
        u = users[r]
        start = held_ptr[u]
        stop = held_ptr[u + 1]
        score = _competing(scores[r], known, item[ptr[u] : ptr[u + 1]])
        competing[r] = _count_above(score, -np.inf)
        for h in range(start, stop):
            i = held_item[h]
            # A held item that does not compete stands behind all that do.
            ahead = competing[r] if score[i] == -np.inf else _count_ahead(score, place, i)
            insert_ascending(rank, start, h, 1 + ahead)


@njit(cache=True, nogil=True)
def insert_ascending(ordered: Int64Array, start: int, stop: int, number: int) -> None:
    """Puts a number in its place among ordered[start:stop], ascending, which grows by one. (numba
    takes seconds to compile a sort.)
    """
    at = stop
    while at > start and ordered[at - 1] > number:
        ordered[at] = ordered[at - 1]
        at -= 1
    ordered[at] = number


@njit(cache=True, nogil=True)
def _count_above(score: Float32Array, s: float) -> int:
    """Returns how many scores are above s."""
    above = 0
    for i in range(len(score)):
        above += score[i] > s
    return above


@njit(cache=True, nogil=True)
def _count_ahead(score: Float32Array, place: Int32Array, i: int) -> int:
    """Returns how many items precede item i."""
    above = 0
    equal = 0
    s = score[i]
    for j in range(len(score)):
        above += score[j] > s
        equal += score[j] == s
    # Ties are rare: a second loop breaks them, and the first stays free of jumps.
    tied = len(score) if equal > 1 else 0
    for j in range(tied):
        above += score[j] == s and place[j] < place[i]
    return above


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
    """Writes the rank of item[h] among itself and its own candidates[h], by row row[h] of the
    scores, and the number of these items.

    candidates: int32 [len(item), k], -1 where there are fewer. A candidate that is not known stands
    behind every known item; an item that is not known itself has rank competing + 1.
    """
    for h in range(len(item)):
        score = scores[row[h]]
        i = item[h]
        ahead = 0
        present = 0
        for j in candidates[h]:
            if j >= 0:
                present += 1
                ahead += known[j] and (
                    score[j] > score[i] or (score[j] == score[i] and place[j] < place[i])
                )
        competing[h] = present + known[i]
        rank[h] = ahead + 1 if known[i] else competing[h] + 1


@njit(cache=True, nogil=True)
def all_below(values: Array, limit: float) -> bool:
    """Tells whether all numbers of a flat array are finite and below `limit` in absolute value."""
    # A NaN is not below anything.
    ok = True
    for i in range(len(values)):
        ok &= abs(values[i]) < limit
    return ok


@njit(cache=True, nogil=True)
def squares(values: Array) -> float:
    """Returns the sum of the squares of a flat array, added up in order in float64."""
    total = 0.0
    for i in range(len(values)):
        total += np.float64(values[i]) * np.float64(values[i])
    return total


@njit(cache=True, nogil=True)
def has_repeats(numbers: Int32Array, below: int) -> bool:
    """Tells whether a number occurs twice. numbers: each from 0 to below - 1."""
    seen = np.zeros(below, np.uint8)
    for number in numbers:
        if seen[number]:
            return True
        seen[number] = 1
    return False
