"""Synthetic interactions of any size, drawn by a seed: popular and rare items, active and quiet
users, and no other structure.

Nothing here resembles a taste, so accuracy on such data means nothing. Use it to measure speed,
memory and communication, and to test shapes.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..core.compiling import njit
from ..core.errors import InputError
from ..core.keys import below, draw, fold, folds, key, normals
from ..core.lanes.memory import starts_of
from ..core.types import BoolArray, Float64Array, Int32Array, Int64Array, UInt64Array
from .interactions import Interactions, Vocabulary

# The standard deviation of the logarithm of users' activity.
SPREAD = 1.0
# Draws for each item of a user before the exact method takes over.
PATIENCE = 8
# The lower 32 of 64 random bits.
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
    """Returns exactly `interactions` distinct (user, item) pairs, with value 1 and without time or
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
    counts = activity(users, items, interactions, seed)
    ptr = starts_of(counts)
    weight = np.arange(1, items + 1, dtype=np.float64) ** -skew
    of_rank = shuffled(items, key(seed, "synthetic", "rank"))
    item = drawn(ptr, weight, of_rank, key(seed, "synthetic", "user"))
    return Interactions(
        ptr=ptr,
        item=item,
        value=np.broadcast_to(np.float32(1), interactions),
        time=None,
        row=None,
        users=Vocabulary(size=users, kind="user"),
        items=Vocabulary(size=items, kind="item"),
        name=name or f"synthetic-{users}x{items}x{interactions}",
    ).noted(
        f"synthetic, not real data: popularity 1 / rank^{skew:g}, log-normal activity, seed {seed}"
    )


def _check(users: int, items: int, interactions: int, skew: float) -> None:
    if users < 1 or items < 2 or items >= 2**31 or users >= 2**31:
        raise InputError(
            "synthetic",
            f"got {users} users and {items} items",
            expected="at least 1 user and 2 items",
        )
    if not users <= interactions <= users * (items - 1):
        most = users * (items - 1)
        raise InputError(
            "synthetic",
            f"got {interactions:,} interactions",
            expected=f"from {users:,} (one for each user) to {most:,} (all items but one)",
        )
    if not (math.isfinite(skew) and 0 <= skew <= 10):
        raise InputError(
            "synthetic", f"got skew {skew}", expected="a number from 0 (all items alike) to 10"
        )


def activity(users: int, items: int, interactions: int, seed: int) -> Int64Array:
    """Returns the number of rows of each user, int64 [users]: 1 and a share by log-normal weights,
    at most items - 1, and `interactions` in all.
    """
    keys = folds(key(seed, "synthetic", "activity"), np.arange(users))
    weight = np.exp(normals(keys, 1, SPREAD)[:, 0].astype(np.float64))
    # One row is given to everybody, and one item is left to recommend.
    cap = items - 2
    rest = interactions - users
    # Bisects for the factor at which the capped shares add up to the rest: the sum of shares grows
    # with the factor, and at `high` every share has reached the cap.
    low = 0.0
    high = max(cap, 1) / weight.min()
    for _ in range(100):
        middle = (low + high) / 2
        if np.minimum(cap, middle * weight).sum() < rest:
            low = middle
        else:
            high = middle
    return 1 + _rounded(np.minimum(cap, high * weight), cap, rest)


def _rounded(share: Float64Array, cap: int, total: int) -> Int64Array:
    """Returns the shares as whole numbers from 0 to `cap`, with the sum `total`."""
    # Rounding the running sum, not each share, keeps the error of the sum below 1.
    whole = np.diff(np.floor(np.cumsum(share)), prepend=0.0).astype(np.int64)
    counts = np.minimum(whole, cap)
    # The cap and rounding leave a handful too few or too many.
    missing = total - int(counts.sum())
    while missing:
        if missing > 0:
            counts[np.flatnonzero(counts < cap)[:missing]] += 1
        else:
            counts[np.flatnonzero(counts > 0)[:-missing]] -= 1
        missing = total - int(counts.sum())
    return counts


class Alias(NamedTuple):
    """Walker's alias table: draws an index by its weight in constant time."""

    threshold: UInt64Array
    """uint64 [n]: slot s yields s if 32 random bits are below threshold[s]."""
    other: Int32Array
    """int32 [n]: the index that slot s yields otherwise."""


def alias(weight: Float64Array) -> Alias:
    """Returns the alias table of nonnegative weights (Vose 1991)."""
    # The share of each slot is 1 on average.
    share = weight / weight.sum() * len(weight)
    return Alias(*_alias(share))


@njit(cache=True, nogil=True)
def _alias(share: Float64Array) -> tuple[UInt64Array, Int32Array]:
    n = len(share)
    # A full slot always yields itself.
    threshold = np.full(n, np.uint64(1) << np.uint64(32), np.uint64)
    other = np.arange(n).astype(np.int32)
    # Two stacks: slots whose own share does not fill them, and slots with more than they hold.
    left = share.copy()
    small = np.empty(n, np.int64)
    large = np.empty(n, np.int64)
    smalls = 0
    larges = 0
    for slot in range(n):
        if left[slot] < 1.0:
            small[smalls] = slot
            smalls += 1
        else:
            large[larges] = slot
            larges += 1
    while smalls > 0 and larges > 0:
        # A large slot fills up the small one, and may be small afterwards.
        smalls -= 1
        taker = small[smalls]
        giver = large[larges - 1]
        threshold[taker] = np.uint64(left[taker] * 4294967296.0)
        other[taker] = giver
        left[giver] -= 1.0 - left[taker]
        if left[giver] < 1.0:
            larges -= 1
            small[smalls] = giver
            smalls += 1
    return threshold, other


@njit(cache=True, nogil=True)
def shuffled(n: int, name: np.uint64) -> Int32Array:
    """Returns a permutation of 0..n - 1, int32 [n], by the key alone (Fisher-Yates)."""
    order = np.arange(n).astype(np.int32)
    for last in range(n - 1, 0, -1):
        other = below(draw(name, last), last + 1)
        order[last], order[other] = order[other], order[last]
    return order


def drawn(
    ptr: Int64Array, weight: Float64Array, of_rank: Int32Array, name: np.uint64
) -> Int32Array:
    """Returns the items of every user, ascending, int32 [ptr[-1]]; they depend on the user's key
    alone.

    weight: the weight of each popularity rank, float64 [items]. of_rank: the item of each rank,
    int32 [items].
    """
    item = np.empty(int(ptr[-1]), np.int32)
    _fill(ptr, item, alias(weight), weight, of_rank, name)
    return item


@njit(cache=True, nogil=True)
def _fill(
    ptr: Int64Array,
    item: Int32Array,
    table: Alias,
    weight: Float64Array,
    of_rank: Int32Array,
    name: np.uint64,
) -> None:
    """Fills `item` with the items of every user, ascending."""
    # One array for all users, each of whom leaves it as it was: all False.
    taken = np.zeros(len(of_rank), np.bool_)
    for u in range(len(ptr) - 1):
        # A view: the items of this user, which are popularity ranks at first.
        ranks = item[ptr[u] : ptr[u + 1]]
        if not _draw_ranks(ranks, taken, table, fold(name, u)):
            _exact_ranks(ranks, weight, fold(fold(name, u), 1))
        for k in range(len(ranks)):
            ranks[k] = of_rank[ranks[k]]
        ranks.sort()


@njit(cache=True, nogil=True)
def _draw_ranks(ranks: Int32Array, taken: BoolArray, table: Alias, name: np.uint64) -> bool:
    """Fills `ranks` with distinct ranks by drawing until they are distinct. Returns False if that
    takes more than PATIENCE draws an item. Leaves `taken` all False.
    """
    count = 0
    for counter in range(PATIENCE * len(ranks) + 32):
        bits = draw(name, counter)
        # The upper bits choose a slot of the alias table, the lower ones one of its two ranks.
        rank = below(bits, len(taken))
        if (bits & _LOW) >= table.threshold[rank]:
            rank = int(table.other[rank])
        if not taken[rank]:
            taken[rank] = True
            ranks[count] = rank
            count += 1
            if count == len(ranks):
                break
    for k in range(count):
        taken[ranks[k]] = False
    return count == len(ranks)


@njit(cache=True, nogil=True)
def _exact_ranks(ranks: Int32Array, weight: Float64Array, name: np.uint64) -> None:
    """Fills `ranks` by weighted draws without replacement: each rank arrives at an exponential time
    of its weight, and the first to arrive are drawn (Efraimidis & Spirakis 2006).
    """
    arrival = np.empty(len(weight), np.float64)
    for rank in range(len(weight)):
        # 53 random bits, in the middle of their interval so that the logarithm is finite.
        uniform = (np.float64(draw(name, rank) >> np.uint64(11)) + 0.5) / 9007199254740992.0
        arrival[rank] = -math.log(uniform) / weight[rank]
    order = np.argsort(arrival, kind="mergesort")
    for k in range(len(ranks)):
        ranks[k] = order[k]
