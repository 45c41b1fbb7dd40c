"""`Ranking`: where each held-out item ended up. Every accuracy metric is a function of it."""

from __future__ import annotations

from typing import NamedTuple

from ..core.types import BoolArray, Int32Array, Int64Array


class Ranking(NamedTuple):
    """Queries and the ranks of their relevant items.

    Full ranking: one query per user with held-out rows; all items but the user's training items compete.
    Sampled: one query per held-out row, against its own candidates.

    ptr: int64 [q + 1]; rank: int64 [ptr[q]], 1-based, ascending within a query; `unranked` items (never a candidate, such as an
    item no training row has) have rank candidates + 1, that is, they are missed. candidates: int64 [q], how many items competed.
    user: int64 [q], ascending, the user who asked.
    """

    ptr: Int64Array
    rank: Int64Array
    candidates: Int64Array
    user: Int64Array


class Lists(NamedTuple):
    """The top-n lists of all evaluated users from the full ranking, and what beyond-accuracy metrics compare them with.

    item: int32 [m, n], -1 where a list is shorter. user: int64 [m]. items: size of the catalogue.
    popularity: int64 [items], training rows per item. category: bool [items, c], which categories an item has; None if unknown. names: the c categories.
    """

    item: Int32Array
    user: Int64Array
    items: int
    popularity: Int64Array
    category: BoolArray | None
    names: tuple[str, ...]
