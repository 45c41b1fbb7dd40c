"""Synthetic interactions of any size, keyed: popular and rare items, active and quiet users, no
structure beyond that.

Nothing here resembles a taste, so accuracy on such data means nothing; it is for speed, memory,
communication and for shapes.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from ..core.errors import InputError
from ..core.keys import below, draw, fold, folds, key, normals
from ..core.types import BoolArray, Float64Array, Int32Array, Int64Array, UInt64Array
from ..core.vocabulary import Vocabulary
from .interactions import Interactions

SPREAD = 1.0  # standard deviation of the logarithm of users' activity
PATIENCE = 8  # draws for each item of a user before the exact method takes over
_LOW = np.uint64(0xFFFFFFFF)


def synthetic(
    *,
    users: int,
    items: int,
    interactions: int,
    skew: float = 1.0,
    seed: int = 0,
    name: str | None = None,
) -> Interactions:
    """Exactly `interactions` distinct (user, item) pairs, without value (1 everywhere), time or
    order.

    An item of popularity rank r is drawn with weight 1 / r^skew (0 = all alike; 1 = Zipf), without
    replacement within a user, and ranks are assigned to items at random. Users' activity is
    log-normal; every user has at least 1 and at most `items` - 1 items. The same arguments give the
    same bytes. 50 million pairs of 1,000,000 users and 100,000 items take seconds.

    Raises InputError for numbers that cannot be met.

    >>> data = synthetic(users=3, items=5, interactions=6)
    >>> len(data), len(data.users), len(data.items)
    (6, 3, 5)
    """
    _check(users, items, interactions, skew)
    ptr = np.concatenate([[0], np.cumsum(activity(users, items, interactions, seed))]).astype(
        np.int64
    )
    weight = np.arange(1, items + 1, dtype=np.float64) ** -skew
    item = drawn(
        ptr, weight, shuffled(items, key(seed, "synthetic", "rank")), key(seed, "synthetic", "user")
    )
    return Interactions(
        ptr=ptr,
        item=item,
        value=np.broadcast_to(np.float32(1), interactions),
        time=None,
        row=None,
        users=Vocabulary(size=users, kind="user"),
        items=Vocabulary(size=items, kind="item"),
        name=name or f"synthetic-{users}x{items}x{interactions}",
        notes=(
            (
                f"synthetic, not real data: popularity 1 / rank^{skew:g}, log-normal activity, seed"
                f" {seed}"
            ),
        ),
    )


def _check(users: int, items: int, interactions: int, skew: float) -> None:
    if users < 1 or items < 2 or items >= 2**31 or users >= 2**31:
        raise InputError(
            "synthetic",
            f"got {users} users and {items} items",
            expected="at least 1 user and 2 items",
        )
    if not users <= interactions <= users * (items - 1):
        expected = (
            f"from {users:,} (one for each user) to {users * (items - 1):,} (all items but one)"
        )
        raise InputError("synthetic", f"got {interactions:,} interactions", expected=expected)
    if not (math.isfinite(skew) and 0 <= skew <= 10):
        raise InputError(
            "synthetic", f"got skew {skew}", expected="a number from 0 (all items alike) to 10"
        )


def activity(users: int, items: int, interactions: int, seed: int) -> Int64Array:
    """Rows per user, int64 [users], each in 1..items - 1, together `interactions`: 1 + a share by
    log-normal weights, capped.
    """
    keys = folds(key(seed, "synthetic", "activity"), np.arange(users))
    weight = np.exp(normals(keys, 1, SPREAD)[:, 0].astype(np.float64))
    cap, rest = items - 2, interactions - users
    low, high = 0.0, max(cap, 1) / weight.min()
    for _ in range(100):  # the factor at which capped shares add up to the rest
        middle = (low + high) / 2
        low, high = (
            (middle, high) if np.minimum(cap, middle * weight).sum() < rest else (low, middle)
        )
    return 1 + _rounded(np.minimum(cap, high * weight), cap, rest)


def _rounded(share: Float64Array, cap: int, total: int) -> Int64Array:
    """Shares as whole numbers from 0 to `cap` with the given sum."""
    counts = np.minimum(np.diff(np.floor(np.cumsum(share)), prepend=0.0).astype(np.int64), cap)
    missing = total - int(counts.sum())
    while missing:  # rounding leaves a handful
        able = np.flatnonzero(counts < cap) if missing > 0 else np.flatnonzero(counts > 0)
        step = able[: abs(missing)]
        counts[step] += 1 if missing > 0 else -1
        missing = total - int(counts.sum())
    return counts


class Alias(NamedTuple):
    """Walker's alias table: slot s yields s if 32 random bits are below `threshold[s]` (32-bit
    fixed point), else `other[s]`.
    """

    threshold: UInt64Array
    other: Int32Array


def alias(weight: Float64Array) -> Alias:
    """The alias table of nonnegative weights, by which one index is drawn in constant time (Vose
    1991).
    """
    return Alias(*_alias(weight / weight.sum() * len(weight)))


@njit(cache=True, nogil=True)
def _alias(share: Float64Array) -> tuple[UInt64Array, Int32Array]:
    n = len(share)
    threshold, other = (
        np.full(n, np.uint64(1) << np.uint64(32), np.uint64),
        np.arange(n).astype(np.int32),
    )
    left, small, large = share.copy(), np.empty(n, np.int64), np.empty(n, np.int64)
    smalls, larges = 0, 0
    for s in range(n):
        if left[s] < 1.0:
            small[smalls] = s
            smalls += 1
        else:
            large[larges] = s
            larges += 1
    while smalls > 0 and larges > 0:
        smalls -= 1
        s, t = small[smalls], large[larges - 1]
        threshold[s], other[s] = np.uint64(left[s] * 4294967296.0), t
        left[t] -= 1.0 - left[s]
        if left[t] < 1.0:
            larges -= 1
            small[smalls] = t
            smalls += 1
    return threshold, other


@njit(cache=True, nogil=True)
def shuffled(n: int, name: np.uint64) -> Int32Array:
    """A permutation of 0..n - 1, int32 [n], that depends on the key alone (Fisher-Yates)."""
    out = np.arange(n).astype(np.int32)
    for last in range(n - 1, 0, -1):
        other = below(draw(name, last), last + 1)
        out[last], out[other] = out[other], out[last]
    return out


def drawn(
    ptr: Int64Array, weight: Float64Array, of_rank: Int32Array, name: np.uint64
) -> Int32Array:
    """Every user's items, ascending, int32 [ptr[-1]]. A user's items depend on the user's key
    alone.
    """
    item, table = np.empty(int(ptr[-1]), np.int32), alias(weight)
    _fill(ptr, item, table.threshold, table.other, weight, of_rank, name)
    return item


@njit(cache=True, nogil=True)
def _fill(
    ptr: Int64Array,
    item: Int32Array,
    threshold: UInt64Array,
    other: Int32Array,
    weight: Float64Array,
    of_rank: Int32Array,
    name: np.uint64,
) -> None:
    taken = np.zeros(len(of_rank), np.bool_)
    for u in range(len(ptr) - 1):
        mine = item[ptr[u] : ptr[u + 1]]
        if not _draw_ranks(mine, taken, threshold, other, fold(name, u)):
            _exact_ranks(mine, weight, fold(fold(name, u), 1))
        for k in range(len(mine)):
            mine[k] = of_rank[mine[k]]
        mine.sort()


@njit(cache=True, nogil=True)
def _draw_ranks(
    mine: Int32Array, taken: BoolArray, threshold: UInt64Array, other: Int32Array, name: np.uint64
) -> bool:
    """Distinct ranks by drawing until they are; False if that takes over PATIENCE draws an item.
    Leaves `taken` all False.
    """
    found, n = 0, len(taken)
    for counter in range(PATIENCE * len(mine) + 32):
        bits = draw(name, counter)
        rank = below(bits, n)
        if (bits & _LOW) >= threshold[rank]:
            rank = int(other[rank])
        if not taken[rank]:
            taken[rank] = True
            mine[found] = rank
            found += 1
            if found == len(mine):
                break
    for k in range(found):
        taken[mine[k]] = False
    return found == len(mine)


@njit(cache=True, nogil=True)
def _exact_ranks(mine: Int32Array, weight: Float64Array, name: np.uint64) -> None:
    """Weighted draws without replacement in one go: the smallest of exponential / weight
    (Efraimidis & Spirakis 2006).
    """
    arrival = np.empty(len(weight), np.float64)
    for rank in range(len(weight)):
        arrival[rank] = (
            -math.log((np.float64(draw(name, rank) >> np.uint64(11)) + 0.5) / 9007199254740992.0)
            / weight[rank]
        )
    order = np.argsort(arrival, kind="mergesort")
    for k in range(len(mine)):
        mine[k] = order[k]
