"""All visits of the rows of a data set as columns, and back: how files and stores keep them
(`core.visits` is how algorithms have them).
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..core.contract.protocols import grouped_visits
from ..core.errors import InputError
from ..core.types import Array, Int64Array
from .interactions import Interactions, pairs_of


class VisitColumns(NamedTuple):
    """One entry for each visit, all int64 [visits]."""

    user: Array
    item: Array
    time: Int64Array
    """Seconds, NO_TIME if not known."""
    row: Int64Array
    """The place in the source."""


def visit_columns(data: Interactions) -> VisitColumns | None:
    """The visits of all rows, row by row; None where each row is one visit."""
    if data.visits is None:
        return None
    at = np.repeat(np.arange(len(data)), np.diff(data.visits.ptr))
    return VisitColumns(
        data.user[at].astype(np.int64),
        data.item[at].astype(np.int64),
        data.visits.time,
        data.visits.row,
    )


def with_visits(data: Interactions, columns: VisitColumns, where: str) -> Interactions:
    """The same rows with all their visits. Raises InputError for a visit of no row, and for a row
    without a visit. where: the source, for errors.
    """

    def pair(user: Array, item: Array, first: int) -> str:
        return f"user '{data.users[int(user[first])]}', item '{data.items[int(item[first])]}'"

    pairs = pairs_of(data)
    sought = columns.user * len(data.items) + columns.item
    at = np.searchsorted(pairs, sought)
    strange = np.append(pairs, -1)[at] != sought
    if strange.any():
        who = pair(columns.user, columns.item, int(np.argmax(strange)))
        raise InputError(
            where,
            f"{strange.sum():,} visits are of no row, such as that of {who}",
            expected="visits of the rows",
        )
    visits = grouped_visits(at, columns.time, columns.row, len(data))
    none = np.diff(visits.ptr) == 0
    if none.any():
        who = pair(data.user, data.item, int(np.argmax(none)))
        raise InputError(
            where,
            f"{none.sum():,} rows have no visit, such as that of {who}",
            expected="one at least of each row",
        )
    return replace(data, visits=visits)
