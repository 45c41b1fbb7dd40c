"""All visits of the rows of a data set as columns, and back: how files and stores keep them
(`core.visits` is how algorithms have them).
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..core.errors import InputError
from ..core.types import Array, Int64Array
from ..core.visits import grouped_visits
from .interactions import Interactions, pairs_of


class VisitColumns(NamedTuple):
    """One entry for each visit: user and item, numbers of the data set; time in seconds, NO_TIME
    where not known; row: its place in the source. All int64 [visits]."""

    user: Array
    item: Array
    time: Int64Array
    row: Int64Array


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


def with_visits(data: Interactions, found: VisitColumns, where: str) -> Interactions:
    """The same rows with all their visits. Raises InputError for a visit of no row, and for a row
    without one; where: names the source.
    """
    pairs, sought = pairs_of(data), found.user * len(data.items) + found.item
    at = np.searchsorted(pairs, sought)
    strange = np.append(pairs, -1)[at] != sought
    if strange.any():
        first = int(np.argmax(strange))
        who = (
            f"user '{data.users[int(found.user[first])]}', item"
            f" '{data.items[int(found.item[first])]}'"
        )
        raise InputError(
            where,
            f"{strange.sum():,} visits are of no row, such as that of {who}",
            expected="visits of the rows",
        )
    visits = grouped_visits(at, found.time, found.row, len(data))
    none = np.diff(visits.ptr) == 0
    if none.any():
        first = int(np.argmax(none))
        who = (
            f"user '{data.users[int(data.user[first])]}', item"
            f" '{data.items[int(data.item[first])]}'"
        )
        raise InputError(
            where,
            f"{none.sum():,} rows have no visit, such as that of {who}",
            expected="one at least of each row",
        )
    return replace(data, visits=visits)
