"""`Ranking` and `Lists`: all that a metric sees. Where each held-out item ended up, and what was
recommended.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..core.types import Array, BoolArray, Float64Array, Int32Array, Int64Array


class Ranking(NamedTuple):
    """Queries and the ranks of their relevant items.

    Full ranking: one query per user with held-out rows; all items but the user's training items
    compete. Sampled: one query per held-out row, against its own candidates.

    ptr: int64 [q + 1]; every query has at least one relevant item. rank: int64 [ptr[q]], 1-based,
    ascending within a query; `unranked` items (never a candidate, such as an item no training row
    has) have rank candidates + 1, that is, they are missed. candidates: int64 [q], how many items
    competed. user: int64 [q], ascending, the user who asked."""

    ptr: Int64Array
    rank: Int64Array
    candidates: Int64Array
    user: Int64Array

    @property
    def relevant(self) -> Int64Array:
        """The number of relevant items of each query, int64 [q]."""
        return np.diff(self.ptr)

    @property
    def position(self) -> Int64Array:
        """1, 2, 3, ... within each query: which of its relevant items a rank belongs to, int64
        [ptr[q]].
        """
        return np.arange(1, len(self.rank) + 1) - np.repeat(self.ptr[:-1], self.relevant)

    def missed(self) -> BoolArray:
        """Whether each relevant item can be in no list, bool [ptr[q]]."""
        return self.rank > np.repeat(self.candidates, self.relevant)

    def within(self, n: int) -> BoolArray:
        """Whether each relevant item stands in the top n, bool [ptr[q]]."""
        return (self.rank <= n) & ~self.missed()

    def total(self, values: Array) -> Float64Array:
        """The sum of `values` [ptr[q]] over each query, float64 [q]."""
        query = np.repeat(np.arange(len(self.candidates)), self.relevant)
        return np.bincount(
            query, weights=values.astype(np.float64), minlength=len(self.candidates)
        ).astype(np.float64)


def with_absent(ranking: Ranking, absent: Int64Array) -> Ranking:
    """The ranking with further relevant items that are in no list, since they are not in the
    catalogue. absent: int64 [q], how many of each query.

    >>> with_absent(ranking_of([[2], [1]], candidates=5), np.array([1, 0])).rank
    array([2, 6, 1])
    """
    ptr = np.concatenate([[0], np.cumsum(ranking.relevant + absent)])
    rank = np.repeat(ranking.candidates + 1, ranking.relevant + absent)
    rank[
        np.repeat(ptr[:-1] - ranking.ptr[:-1], ranking.relevant) + np.arange(len(ranking.rank))
    ] = ranking.rank
    return ranking._replace(ptr=ptr, rank=rank)


class Lists(NamedTuple):
    """The top-n lists of all evaluated users from the full ranking, and what beyond-accuracy
    metrics compare them with.

    item: int32 [m, n], -1 where a list is shorter. user: int64 [m]. known: bool [all items], the
    catalogue: those that have a training row, if no other item can be recommended. popularity:
    int64 [all items], training rows per item. category: bool [all items, c], which categories an
    item has; None if unknown. names: the c categories.
    """

    item: Int32Array
    user: Int64Array
    known: BoolArray
    popularity: Int64Array
    category: BoolArray | None
    names: tuple[str, ...]

    @property
    def items(self) -> int:
        """The number of items that could be recommended."""
        return int(self.known.sum())

    def counts(self, n: int) -> Int64Array:
        """The number of lists that have each item among their first n, int64 [all items]."""
        top = self.item[:, :n]
        return np.bincount(top[top >= 0], minlength=len(self.popularity))


def ranking_of(ranks: list[list[int]], candidates: int) -> Ranking:
    """A Ranking of a few queries by hand: the ranks of each query's relevant items, among
    `candidates` items.

    >>> ranking_of([[2, 5], [1]], candidates=5).position
    array([1, 2, 1])
    """
    ptr = np.cumsum([0, *map(len, ranks)])
    rank = np.array([rank for query in ranks for rank in sorted(query)], np.int64)
    return Ranking(ptr, rank, np.full(len(ranks), candidates), np.arange(len(ranks)))


def lists_of(
    lists: list[list[int]], popularity: list[int], category: dict[str, list[int]] | None = None
) -> Lists:
    """Lists by hand: the items of each list, the training rows of each item, and the items of each
    category.

    >>> lists_of([[0, 2], [2, 1]], popularity=[3, 1, 0]).counts(1)
    array([1, 0, 1])
    """
    length, rows = max(map(len, lists)), np.array(popularity, np.int64)
    item = np.array([[*items, *[-1] * (length - len(items))] for items in lists], np.int32)
    member = (
        None
        if category is None
        else np.array([np.isin(np.arange(len(rows)), of) for of in category.values()]).T
    )
    return Lists(item, np.arange(len(lists)), rows > 0, rows, member, tuple(category or ()))
