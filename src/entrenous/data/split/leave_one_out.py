"""Leave one out (He et al. 2017, section 4.1): the latest row of each user is test, the second
latest validation, the rest train.

Latest is `newest_first`: the highest time, and among equal times the row that comes last in the
source (415 of the 943 users of MovieLens-100K have such a tie).
`loo-99` ranks each held-out item against 99 items that its user never interacted with in any part,
drawn without replacement and named by (seed, "candidates", part, user), so that the same seed gives
the same items; any other number works; `loo-full` draws none. Validation rows choose settings and
rounds; the final model then trains on training and validation rows, as He et al. and those after
them do.
"""

from __future__ import annotations

import numpy as np

from ...core.compiling import njit
from ...core.errors import InputError
from ...core.keys import below, draw, folded, folds, key
from ...core.types import Array, Int32Array, Int64Array, UInt64Array
from ..interactions import Interactions
from .types import Split, assemble, named, newest_first, tie_notes


def sampled(data: Interactions, k: int, *, seed: int) -> list[Split]:
    """Holds out each user's latest row for test and the second latest for validation, each with K
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
    """Holds out each user's latest row for test and the second latest for validation, ranked
    against the whole catalogue only: the protocol `loo-full`. Nothing is drawn.
    """
    return [_leave_one_out(data, "loo-full", 0, seed)]


PROTOCOLS = {"loo-99": sampled, "loo-full": full}


def _leave_one_out(data: Interactions, name: str, k: int, seed: int) -> Split:
    place = newest_first(data)
    # The number of rows of the user of each row: a row is held out only if another one is left.
    rows = np.repeat(data.counts, data.counts)
    test = (place == 0) & (rows >= 2)
    validation = (place == 1) & (rows >= 3)
    notes = (*_few(data), *tie_notes(data, place, validation, test))
    candidates = None
    if k:
        # A key for each part: else one user would have the same candidates in both.
        validation_key = key(seed, "candidates", "validation")
        test_key = key(seed, "candidates", "test")
        candidates = (
            draw_candidates(data, data.user[validation], k, validation_key),
            draw_candidates(data, data.user[test], k, test_key),
        )
    return assemble(name, data, validation, test, refit=True, notes=notes, candidates=candidates)


def _few(data: Interactions) -> tuple[str, ...]:
    """Returns notes on the users with one row and on those with two."""
    texts = {
        1: "users with one row, which stays in training",
        2: "users with two rows, one to train and one to test, none to validate",
    }
    notes = []
    for rows, text in texts.items():
        users = np.flatnonzero(data.counts == rows)
        if len(users):
            which = named(users, data.users)
            notes.append(f"{text}: {len(users)} {which}")
    return tuple(notes)


def draw_candidates(
    data: Interactions, users: Array, k: int, key: np.uint64, *, items: Array | None = None
) -> Int32Array:
    """Draws k items for each of `users` that this user has no row of in `data`, uniformly and
    without replacement. Returns them ascending, int32 [len(users), k].

    items: the held-out items, int32 [len(users)], which name the draws where a user occurs more
    than once. Raises InputError that names the first user with fewer than k such items.
    """
    # The number of items that each user has no row of.
    left = len(data.items) - data.counts[users]
    if len(left) and left.min() < k:
        first = int(np.argmax(left < k))
        user = data.users[int(users[first])]
        most = int(left.min())
        raise InputError(
            data.name,
            f"{k} candidates are needed, but user '{user}' has only {int(left[first])} items"
            " never consumed",
            expected="fewer candidates",
            fix=f"use loo-{most} or loo-full" if most else "use loo-full",
        )
    users = np.asarray(users, np.int64)
    # A key for each user, so that no user's candidates depend on who else is there.
    keys = folds(key, users)
    if items is not None:
        keys = folded(keys, items)
    candidates = _draw(data.ptr, len(data.items), users, k, keys)
    # NumPy sorts here, since numba takes five seconds to compile a sort.
    candidates.sort(axis=1)
    _skip(data.ptr, data.item, users, candidates)
    return candidates


@njit(cache=True, nogil=True)
def _draw(ptr: Int64Array, items: int, users: Int64Array, k: int, keys: UInt64Array) -> Int32Array:
    """Draws k different numbers for each user, below the number m of items that the user has no row
    of, int32 [len(users), k].

    Floyd's algorithm: for j = m - k .. m - 1, take a number below j + 1, or j if that one is taken.
    """
    drawn = np.empty((len(users), k), np.int32)
    # One array for all users, each of whom leaves it as it was: all False.
    taken = np.zeros(items, np.bool_)
    for r in range(len(users)):
        user = users[r]
        free = items - (ptr[user + 1] - ptr[user])
        for c in range(k):
            j = free - k + c
            # The number j cannot be taken yet: earlier draws were all below it.
            number = below(draw(keys[r], c), j + 1)
            if taken[number]:
                number = j
            drawn[r, c] = number
            taken[number] = True
        for c in range(k):
            taken[drawn[r, c]] = False
    return drawn


@njit(cache=True, nogil=True)
def _skip(ptr: Int64Array, item: Int32Array, users: Int64Array, number: Int32Array) -> None:
    """Turns ascending numbers among the items outside each user's history (ascending) into item
    numbers, in place.
    """
    for r in range(len(users)):
        first = ptr[users[r]]
        stop = ptr[users[r] + 1]
        # Each item of the history at or below a candidate moves the candidate on by one.
        passed = first
        for c in range(number.shape[1]):
            while passed < stop and item[passed] <= number[r, c] + passed - first:
                passed += 1
            number[r, c] += passed - first
