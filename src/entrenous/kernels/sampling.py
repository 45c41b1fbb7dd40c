"""Draws from keys: the devices of a round, two integers from one draw, an item that is not in a
history, an order; and the slots of a small hash table.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.compiling import njit
from ..core.keys import below, draw, draws, fold, folds
from ..core.lanes.simd import LANES, count_up_to, inside
from ..core.types import Int32Array, Int64Array

# So many gaps are counted, not bisected: counting needs no jumps.
WINDOW = 64
# Larger than any gap.
_END = np.int32(2**31 - 1)
ONE = np.uint64(1)
_LOW32 = np.uint64(0xFFFFFFFF)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_S32 = np.uint64(32)
_S40 = np.uint64(40)


# ---- devices -------------------------------------------------------------------------------------


@njit(cache=True)
def one_of(key: np.uint64, users: int) -> int:
    """Draws a user number below `users`, uniformly at random from `key`."""
    return below(draw(key, 0), users)


def cohort(key: np.uint64, size: int, users: int) -> Int64Array:
    """Draws `size` distinct users from `users`, uniformly at random, in ascending order. One user
    costs O(1), more cost O(users).
    """
    if size >= users:
        return np.arange(users)
    if size == 1:
        return np.array([one_of(key, users)], np.int64)
    # Everybody draws a number, and the smallest take part.
    drawn = folds(key, np.arange(users))
    first = np.argsort(drawn, kind="stable")[:size]
    return np.sort(first)


@njit(cache=True)
def shuffled(key: np.uint64, t: int, n: int) -> int:
    """Returns the number at place t (0 <= t < n) of a random order of 0 .. n - 1 that the key
    names, n < 2^32, without making the order: a Feistel network of four rounds over the next power
    of 4, walked until it is below n.
    """
    # The bits of each half of a number.
    half = np.uint64(1)
    while np.int64(1) << (np.int64(2) * np.int64(half)) < n:
        half += np.uint64(1)
    mask = (np.uint64(1) << half) - np.uint64(1)
    x = np.uint64(t)
    while True:
        # Whatever a round draws, its exchange of halves can be undone: so places and numbers match
        # one to one.
        left = x >> half
        right = x & mask
        for number in range(4):
            drawn = draw(fold(key, number), np.int64(right))  # type: ignore[arg-type]
            left, right = right, left ^ (drawn & mask)
        x = (left << half) | right
        # A number beyond n leads on to another, and in the end to one below n.
        if x < np.uint64(n):
            return np.int64(x)  # type: ignore[return-value]  # an int to its callers


def in_turns(key: np.uint64, first: int, size: int, turns: Int64Array) -> Int64Array:
    """Returns the users whose turns are `first` .. first + size - 1 of a random order of all turns,
    ascending, each once. The order begins anew after the last. turns: int64 [users], the number of
    turns of each user in an order; if all are 0, everybody has one.
    """
    ends = np.cumsum(turns if turns.any() else np.ones_like(turns))
    places = _places(key, first, size, int(ends[-1]))
    return np.unique(np.searchsorted(ends, places, side="right"))


@njit(cache=True)
def _places(key: np.uint64, first: int, size: int, n: int) -> Int64Array:
    out = np.empty(size, np.int64)
    for k in range(size):
        out[k] = shuffled(key, (first + k) % n, n)
    return out


# ---- items ---------------------------------------------------------------------------------------


@njit(cache=True, inline="always")
def below_low(bits: np.uint64, n: int) -> int:
    """Returns a random integer from 0 to n - 1, as `keys.below` does, but from the lower half of
    `bits`: so one draw gives two independent integers.
    """
    # an int to its callers
    return np.int64(((bits & _LOW32) * np.uint64(n)) >> _S32)  # type: ignore[return-value]


@njit(cache=True, inline="always")
def first_slot(item: int | np.integer[Any]) -> np.uint64:
    """Returns the slot of an open-addressing hash table at which the search for an item begins,
    before it is masked to the size of the table (at most 2^24).
    """
    return (np.uint64(item) * _GOLDEN) >> _S40


def slots_for(rows: int) -> Int32Array:
    """Returns an empty hash table for `rows` items at a load of at most one quarter: int32, a power
    of two in length, -1 in every slot.
    """
    bits = max(2, (4 * rows - 1).bit_length())
    return np.full(1 << bits, -1, np.int32)


@njit(cache=True, inline="always")
def fill_gaps(avoid: Int32Array, start: int, length: int, gaps: Int32Array) -> None:
    """Writes gaps[m] = avoid[start + m] - m for m < length, the number of items before that one
    that are not avoided.

    The k-th item (k = 0, 1, ...) that is not in the ascending avoid[start : start + length] is k
    plus the number of gaps up to k.
    """
    for m in range(length):
        gaps[m] = avoid[start + m] - np.int32(m)
    # `count_gaps` looks at whole lanes.
    for m in range(length, length + LANES):
        gaps[m] = _END


@njit(cache=True, inline="always")
def count_gaps(gaps: Int32Array, length: int, k: int) -> int:
    """Returns how many of the first `length` gaps are at most k."""
    # Halve the range in which the answer lies, without a jump.
    low = 0
    while length > WINDOW:
        half = length >> 1
        low += half if gaps[low + half - 1] <= k else 0
        length -= half
    # Count the rest, sixteen at a time.
    count = low
    for m in range(low, low + length, LANES):
        count += count_up_to(gaps, m, k)
    return count


@njit(cache=True, nogil=True)
def negative(history: Int32Array, k: int) -> int:
    """Returns the k-th item (k = 0, 1, ...) that is not in the ascending `history`; k < items -
    len(history). O(log len(history)).

    Before history[m] lie history[m] - m items that are not in it, so a binary search over m finds
    the place.
    """
    low = 0
    length = len(history)
    while length > 1:
        half = length >> 1
        middle = low + half - 1
        if history[middle] - middle <= k:
            low += half
        length -= half
    if length == 1 and history[low] - low <= k:
        low += 1
    return k + low


@njit(cache=True, nogil=True)
def others(candidates: Int32Array, own: Int32Array) -> Int32Array:
    """Returns the candidates that are items (not -1) and none of `own`, which is ascending."""
    keep = np.empty(len(candidates), np.bool_)
    for c in range(len(candidates)):
        candidate = candidates[c]
        at = np.searchsorted(own, candidate)
        is_own = at < len(own) and own[at] == candidate
        keep[c] = candidate >= 0 and not is_own
    return candidates[keep]


def shuffle_places(n: int, key: np.uint64) -> Int32Array:
    """Returns the place of each of n items in a keyed shuffle, int32 [n]: a permutation of 0..n-1
    that depends on the key alone.
    """
    place = np.empty(n, np.int32)
    place[np.argsort(draws(key, n), kind="stable")] = np.arange(n, dtype=np.int32)
    return place


@inside
def shuffle(order: Int32Array | Int64Array, start: int, stop: int, key: np.uint64) -> None:
    """Writes start .. stop - 1 to order[start:stop], shuffled as Fisher and Yates do. Uses draws of
    the key by their number below stop - start.
    """
    for r in range(start, stop):
        order[r] = r
    # Each place is swapped with one that is not yet final.
    for n in range(stop - start - 1, 0, -1):
        a = start + n
        b = start + below(draw(key, n), n + 1)
        order[a], order[b] = order[b], order[a]
