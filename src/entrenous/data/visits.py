"""All visits of the rows of a data set as columns, and back: the form in which files and stores
keep them (`core.contract.protocols` has the form in which algorithms see them).
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..core.contract.protocols import grouped_visits
from ..core.errors import InputError
from ..core.types import Array, Int64Array
from .interactions import Interactions, find_rows, pair_name


class VisitColumns(NamedTuple):
    """One entry for each visit, arrays [visits]."""

    user: Array
    """The number of the user, int."""
    item: Array
    """The number of the item, int."""
    time: Int64Array
    """Microseconds since 1970, int64; NO_TIME if not known."""
    row: Int64Array
    """The place in the source, int64."""


def visit_columns(data: Interactions) -> VisitColumns | None:
    """Returns the visits of all rows, row by row; None if each row is one visit."""
    visits = data.visits
    if visits is None:
        return None
    # The row that each visit belongs to.
    row = np.repeat(np.arange(len(data)), np.diff(visits.ptr))
    return VisitColumns(data.user[row], data.item[row], visits.time, visits.row)


def with_visits(data: Interactions, columns: VisitColumns, where: str) -> Interactions:
    """Returns the same rows with all their visits. Raises InputError for a visit of no row, and for
    a row without a visit. where: the source, for errors.
    """
    row = find_rows(data, columns.user, columns.item)
    strange = np.flatnonzero(row < 0)
    if len(strange):
        first = strange[0]
        pair = pair_name(data, columns.user[first], columns.item[first])
        raise InputError(
            where,
            f"{len(strange):,} visits are of no row, such as that of {pair}",
            expected="visits of the rows",
        )
    visits = grouped_visits(row, columns.time, columns.row, len(data))
    without = np.flatnonzero(np.diff(visits.ptr) == 0)
    if len(without):
        first = without[0]
        pair = pair_name(data, data.user[first], data.item[first])
        raise InputError(
            where,
            f"{len(without):,} rows have no visit, such as that of {pair}",
            expected="one at least of each row",
        )
    return replace(data, visits=visits)
