"""Leave one out (He et al. 2017, section 4.1): the latest row of each user is test, the second
latest validation, the rest train.

Latest is `Interactions.time_order`: the highest time, and among equal times the row that comes last
in the source (415 of the 943 users of MovieLens-100K have such a tie). `loo-99` ranks each held-out
item against 99 items that its user never interacted with in any part, drawn without replacement and
frozen by (seed, "candidates", part, user); any other number works; `loo-full` draws none.
Validation rows choose settings and rounds; the final model then trains on training and validation
rows, as in that lineage.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ...core.errors import InputError
from ...core.keys import below, draw, fold, folds, key
from ...core.types import Array, Int32Array, Int64Array, UInt64Array
from ..interactions import Interactions
from .types import Split, assemble, named, newest_first


def sampled(data: Interactions, k: int, *, seed: int) -> list[Split]:
    """Hold out each user's latest row for test and the second latest for validation, each with K
    candidates: the protocol `loo-K`.

    Raises InputError if a user has fewer than K items that were never consumed: a shorter list
    would be an easier test.
    """
    if k < 1:
        raise InputError(
            "protocol",
            f"'loo-{k}' asks for {k} candidates",
            expected="loo-1 or more",
            fix="use loo-99, or loo-full for none",
        )
    return [_leave_one_out(data, f"loo-{k}", k, seed)]


def full(data: Interactions, *, seed: int) -> list[Split]:
    """Hold out each user's latest row for test and the second latest for validation, ranked against
    the whole catalogue only: the protocol `loo-full`. Nothing is drawn, so the seed has no
    effect.
    """
    return [_leave_one_out(data, "loo-full", 0, seed)]


PROTOCOLS = {"loo-99": sampled, "loo-full": full}


def _leave_one_out(data: Interactions, name: str, k: int, seed: int) -> Split:
    place = newest_first(data)
    rows = np.repeat(data.counts, data.counts)
    test = (place == 0) & (rows >= 2)
    validation = (place == 1) & (rows >= 3)
    candidates = None
    if k:
        candidates = (
            draw_candidates(data, data.user[validation], k, key(seed, "candidates", "validation")),
            draw_candidates(data, data.user[test], k, key(seed, "candidates", "test")),
        )
    return assemble(
        name, data, validation, test, refit=True, notes=_few(data), candidates=candidates
    )


def _few(data: Interactions) -> tuple[str, ...]:
    """The notes on users with fewer than three rows."""
    texts = {
        1: "users with one row, which stays in training",
        2: "users with two rows, one to train and one to test, none to validate",
    }
    notes = []
    for rows, text in texts.items():
        users = np.flatnonzero(data.counts == rows)
        if len(users):
            notes.append(f"{text}: {len(users)} {named(users, data.users)}")
    return tuple(notes)


def draw_candidates(
    data: Interactions, users: Array, k: int, key: np.uint64, *, items: Array | None = None
) -> Int32Array:
    """k items for each of the users that have no row in `data`, uniform without replacement,
    ascending, int32 [len(users), k].

    items: int32 [len(users)], the held-out items, which name the draws of users who occur more than
    once. Raises InputError that names the first user with fewer than k such items.
    """
    left = len(data.items) - data.counts[users]
    if len(left) and left.min() < k:
        first = int(np.argmax(left < k))
        most = int(left.min())
        raise InputError(
            data.name,
            f"{k} candidates are needed, but user '{data.users[int(users[first])]}' has only"
            f" {int(left[first])} items never consumed",
            expected="fewer candidates",
            fix=f"use loo-{most} or loo-full" if most else "use loo-full",
        )
    users = np.asarray(users, np.int64)
    keys = folds(key, users)
    if items is not None:
        keys = _folded(keys, items)
    drawn = _draw(data.ptr, len(data.items), users, k, keys)
    # Here, since numba takes five seconds to compile a sort.
    drawn.sort(axis=1)
    _skip(data.ptr, data.item, users, drawn)
    return drawn


@njit(cache=True, nogil=True)
def _folded(keys: UInt64Array, items: Int32Array) -> UInt64Array:
    """Each key with the name of its item, uint64 [m]."""
    out = np.empty_like(keys)
    for r in range(len(keys)):
        out[r] = fold(keys[r], items[r])
    return out


@njit(cache=True, nogil=True)
def _draw(ptr: Int64Array, items: int, users: Int64Array, k: int, keys: UInt64Array) -> Int32Array:
    """k different numbers for each user, below the number m of items without a row of the user.
    Floyd's algorithm: for j = m - k .. m - 1 take a number below j + 1, or j if that one is taken.
    """
    out = np.empty((len(users), k), np.int32)
    taken = np.zeros(items, np.bool_)
    for r in range(len(users)):
        free = items - (ptr[users[r] + 1] - ptr[users[r]])
        for c in range(k):
            j = free - k + c
            t = below(draw(keys[r], c), j + 1)
            out[r, c] = j if taken[t] else t
            taken[out[r, c]] = True
        for c in range(k):
            taken[out[r, c]] = False
    return out


@njit(cache=True, nogil=True)
def _skip(ptr: Int64Array, item: Int32Array, users: Int64Array, number: Int32Array) -> None:
    """Turns ascending numbers among the items outside each user's history (ascending) into item
    numbers, in place.
    """
    for r in range(len(users)):
        passed, stop = ptr[users[r]], ptr[users[r] + 1]
        for c in range(number.shape[1]):
            while passed < stop and item[passed] <= number[r, c] + passed - ptr[users[r]]:
                passed += 1
            number[r, c] += passed - ptr[users[r]]
