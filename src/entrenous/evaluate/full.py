"""The full ranking: every item competes that could have been recommended, and the n best of them
are the user's list.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..core.contract.protocols import TopN
from ..core.errors import InputError
from ..core.types import BoolArray, Float32Array, Int32Array, Int64Array
from ..data.interactions import Interactions
from ..kernels.arrays import ranks, top_n
from .ranking import Ranking
from .recommend import empty_lists, tie_places


class CompetingItems(NamedTuple):
    """The items that compete in a ranking. known: bool [items], the items with a training row, or
    all; ptr [users + 1], item: those that each user consumed already; place: int32 [items], the
    order of equal scores.
    """

    known: BoolArray
    ptr: Int64Array
    item: Int32Array
    place: Int32Array


class Full(NamedTuple):
    """The full ranking of some users, filled block by block: ranks of their held-out items, and
    lists.
    """

    ranking: Ranking
    best: TopN


def field_of(
    train: Interactions, also_mask: Interactions | None, seed: int, cold: bool = False
) -> CompetingItems:
    """The items that compete after training on `train`. Items in the rows of `also_mask` are left
    out of a user's list as well. cold: whether items without a training row compete too."""
    known, place = (train.popularity > 0) | cold, tie_places(len(train.items), seed)
    if also_mask is None:
        return CompetingItems(known, train.ptr, train.item, place)
    _same_shape(train, also_mask, "also_mask")
    pairs = np.union1d(_pairs(train), _pairs(also_mask))
    user, item = np.divmod(pairs, len(train.items))
    ptr = np.searchsorted(user, np.arange(len(train.users) + 1))
    return CompetingItems(known, ptr.astype(np.int64), item.astype(np.int32), place)


def check(train: Interactions, also_mask: Interactions | None, rows: Interactions) -> None:
    """Raises InputError if there is nothing to evaluate, or a held-out row is also a training row:
    it would count as missed.
    """
    _same_shape(train, rows, "the held-out rows")
    if not len(rows):
        raise InputError(
            rows.name, "there are no held-out rows to evaluate", fix="choose another protocol"
        )
    for masked, what in ((train, "training"), (also_mask, "masked")):
        both = (
            _common(rows, masked) if masked is not None and len(masked) else np.empty(0, np.int64)
        )
        if len(both):
            first = (
                f"the first is user '{rows.users[int(rows.user[both[0]])]}', item"
                f" '{rows.items[int(rows.item[both[0]])]}'"
            )
            raise InputError(
                rows.name,
                f"held-out rows that are also {what} rows: {len(both)}; {first}",
                expected="disjoint parts",
            )


def _common(rows: Interactions, others: Interactions) -> Int64Array:
    """Positions in `rows` of those that `others` (not empty) have too. Both tables are sorted, so
    this is a merge.
    """
    pairs, sought = _pairs(others), _pairs(rows)
    at = np.minimum(np.searchsorted(pairs, sought), len(pairs) - 1)
    return np.flatnonzero(pairs[at] == sought)


def _same_shape(train: Interactions, other: Interactions, what: str) -> None:
    if (len(train.users), len(train.items)) != (len(other.users), len(other.items)):
        problem = (
            f"{what} have {len(other.users)} users x {len(other.items)} items, training"
            f" {len(train.users)} x {len(train.items)}"
        )
        raise InputError(
            train.name,
            problem,
            expected="the same users and items",
            fix="unite them with split.given",
        )


def _pairs(rows: Interactions) -> Int64Array:
    return rows.user.astype(np.int64) * len(rows.items) + rows.item


def empty_full(users: Int64Array, rows: Interactions, n: int) -> Full:
    """A Full for the held-out rows of `users` and lists of length n, to be filled in."""
    ptr = np.concatenate([[0], np.cumsum(rows.counts[users])]).astype(np.int64)
    ranking = Ranking(ptr, np.empty(len(rows), np.int64), np.empty(len(users), np.int64), users)
    return Full(ranking, empty_lists(len(users), n))


def rank_block(
    full: Full, part: slice, scores: Float32Array, field: CompetingItems, rows: Interactions
) -> None:
    """Fill in the ranks and lists of the users `part` (positions in full.ranking.user), whose
    scores are given.
    """
    users, best = full.ranking.user[part], full.best
    ranking = full.ranking
    top_n(
        scores,
        users,
        field.known,
        field.ptr,
        field.item,
        field.place,
        best.item[part],
        best.score[part],
    )
    ranks(
        scores,
        users,
        field.known,
        field.ptr,
        field.item,
        field.place,
        rows.ptr,
        rows.item,
        ranking.rank,
        ranking.candidates[part],
    )
