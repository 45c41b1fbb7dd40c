"""Filters: k-core and active users. Each adds a note on what it did.

Users and items that have no row left leave the vocabulary.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..core.errors import InputError
from ..core.lanes.memory import starts_of
from ..core.types import BoolArray
from .interactions import Interactions, Vocabulary


def max_user_items(data: Interactions, n: int) -> Interactions:
    """Returns the users with at most `n` items: a program that follows every link has more than a
    person. Raises InputError if none is left.
    """
    keep = np.repeat(data.counts <= n, data.counts)
    what = f"users with <= {n} items"
    return only_rows(data, keep, what, fix="choose a larger number")


def k_core(data: Interactions, *, users: int = 1, items: int = 1) -> Interactions:
    """Returns the largest part in which every user has at least `users` rows and every item at
    least `items`: both conditions are applied in turn until nothing changes. Raises InputError if
    nothing is left.

    >>> k_core(data, users=10, items=10)  # the 10-core                           # doctest: +SKIP
    """
    what = f"the core of users with >= {users} and items with >= {items} rows"
    return only_rows(data, _core(data, users, items), what)


def _core(data: Interactions, users: int, items: int) -> BoolArray:
    keep = np.ones(len(data), bool)
    user = data.user
    # A row that goes may take its user or its item below the bound, so that further rows go.
    while True:
        user_stays = np.bincount(user[keep], minlength=len(data.users)) >= users
        item_stays = np.bincount(data.item[keep], minlength=len(data.items)) >= items
        still = keep & user_stays[user] & item_stays[data.item]
        if np.array_equal(still, keep):
            return keep
        keep = still


def only_rows(
    data: Interactions, keep: BoolArray, what: str, fix: str = "choose a smaller number"
) -> Interactions:
    """Returns the kept rows over the users and items that still occur, with a note. what: names the
    rows that are kept. Raises InputError if none is.
    """
    if not keep.any():
        raise InputError(
            data.name,
            f"no row is left by the filter: {what}",
            expected="a filter that leaves rows",
            fix=fix,
        )
    # What is left is the whole from here on, and so is its scale.
    small = replace(compact(data.select(keep)), scale=data.scale)
    rows = len(data) - len(small)
    users = len(data.users) - len(small.users)
    items = len(data.items) - len(small.items)
    dropped = f"rows: {rows:,}, users: {users:,}, items: {items:,}"
    note = f"kept {what}; dropped {dropped}"
    return small.noted(note)


def compact(data: Interactions) -> Interactions:
    """Returns the data set without the users and items that have no row; the order of both is
    kept.
    """
    has_rows = data.counts > 0
    occurs = data.popularity > 0
    if has_rows.all() and occurs.all():
        return data
    # Of an item that occurs: the number of those before it.
    new_number = np.cumsum(occurs, dtype=np.int32) - np.int32(1)
    return replace(
        data,
        ptr=starts_of(data.counts[has_rows]),
        item=new_number[data.item],
        users=_some(data.users, has_rows),
        items=_some(data.items, occurs),
        features={name: column[occurs] for name, column in data.features.items()},
    )


def _some(vocabulary: Vocabulary, keep: BoolArray) -> Vocabulary:
    # A vocabulary of numbers alone (synthetic data) stays free of memory if nothing goes.
    if keep.all():
        return vocabulary
    return vocabulary.some(keep)
