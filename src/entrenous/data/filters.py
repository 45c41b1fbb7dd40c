"""Filters: k-core, active users, binarise. Each adds to `notes` what it did.

Users and items without rows leave the vocabulary.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..core.errors import InputError
from ..core.types import BoolArray
from ..core.vocabulary import Vocabulary
from .interactions import Interactions


def binarise(data: Interactions, *, at_least: float | None = None) -> Interactions:
    """The rows with a value of `at_least` (all rows by default), each with value 1. Raises
    InputError if none is left.
    """
    if at_least is None:
        kept = replace(data, notes=(*data.notes, "every row has value 1"))
    else:
        keep = data.value >= np.float32(at_least)
        kept = _apply(data, keep, f"rows with value >= {at_least:g}, set to 1")
    ones = np.broadcast_to(np.float32(1), len(kept))
    return replace(kept, value=ones, scale=None)


def min_user_rows(data: Interactions, n: int) -> Interactions:
    """The users with at least `n` rows, in a single pass: items may keep any number of rows."""
    _check("n", n)
    return _apply(data, np.repeat(data.counts >= n, data.counts), f"users with >= {n} rows")


def k_core(data: Interactions, *, users: int = 1, items: int = 1) -> Interactions:
    """The largest part in which every user has at least `users` rows and every item at least
    `items`: both conditions are applied in turn until nothing changes. Raises InputError if nothing
    is left.

    >>> k_core(data, users=10, items=10)  # the 10-core                           # doctest: +SKIP
    """
    _check("users", users)
    _check("items", items)
    what = f"the core of users with >= {users} and items with >= {items} rows"
    return _apply(data, _core(data, users, items), what)


def _core(data: Interactions, users: int, items: int) -> BoolArray:
    keep = np.ones(len(data), bool)
    user = data.user
    while True:
        per_user = np.bincount(user[keep], minlength=len(data.users))
        per_item = np.bincount(data.item[keep], minlength=len(data.items))
        still = keep & (per_user >= users)[user] & (per_item >= items)[data.item]
        if np.array_equal(still, keep):
            return keep
        keep = still


def _check(name: str, n: int) -> None:
    if n < 1:
        raise InputError(name, f"got {n}", expected="a whole number of at least 1")


def _apply(data: Interactions, keep: BoolArray, what: str) -> Interactions:
    """The kept rows over the users and items that still occur, with a note."""
    if not keep.any():
        raise InputError(
            data.name,
            f"no row is left by the filter: {what}",
            expected="a filter that leaves rows",
            fix="choose a smaller number",
        )
    small = compact(data.select(keep))
    rows = len(data) - len(small)
    users = len(data.users) - len(small.users)
    items = len(data.items) - len(small.items)
    note = f"kept {what}; dropped rows: {rows:,}, users: {users:,}, items: {items:,}"
    return replace(small, notes=(*data.notes, note))


def compact(data: Interactions) -> Interactions:
    """The data set without the users and items that have no row; the order of both is kept."""
    counts, occurs = data.counts, data.popularity > 0
    if counts.all() and occurs.all():
        return data
    moved = np.cumsum(occurs, dtype=np.int32) - np.int32(1)
    return replace(
        data,
        ptr=np.concatenate([[0], np.cumsum(counts[counts > 0])]).astype(np.int64),
        item=moved[data.item],
        users=_some(data.users, counts > 0),
        items=_some(data.items, occurs),
        features={name: column[occurs] for name, column in data.features.items()},
    )


def _some(vocabulary: Vocabulary, keep: BoolArray) -> Vocabulary:
    return vocabulary if keep.all() else Vocabulary(vocabulary.ids[keep], kind=vocabulary.kind)
