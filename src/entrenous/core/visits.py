"""`Visits`: when each row of a history happened, where a row stands for several visits of the same
item, such as a venue.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .rows import rows_of, starts_of
from .types import Int64Array


class Visits(NamedTuple):
    """The visits of n rows: row r happened at time[ptr[r]:ptr[r + 1]], at least once."""

    ptr: Int64Array
    """int64 [n + 1] from 0."""
    time: Int64Array
    """int64 [ptr[n]] in seconds, NO_TIME where not known."""
    row: Int64Array
    """int64 [ptr[n]], the place of each visit in the source, which breaks ties in time."""


class Moments(NamedTuple):
    """When n rows happened."""

    time: Int64Array
    """int64 [n], the column of that name."""
    row: Int64Array
    """int64 [n], the column of that name."""
    visits: Visits | None
    """All visits of the rows; None if each row is one visit."""

    @property
    def each(self) -> Visits:
        """All visits, including those of rows that are one visit."""
        if self.visits is not None:
            return self.visits
        return Visits(np.arange(len(self.time) + 1), self.time, self.row)


def some_visits(visits: Visits | None, rows: Int64Array | slice) -> Visits | None:
    """Returns the visits of some rows, in their order; None of None. rows: int64 [m], or a slice
    without a step.

    >>> visits = Visits(np.array([0, 2, 3]), np.array([5, 9, 7]), np.arange(3))
    >>> some_visits(visits, np.array([1, 0])).time.tolist()
    [7, 5, 9]
    """
    if visits is None:
        return None
    if isinstance(rows, slice):
        rows = np.arange(len(visits.ptr) - 1)[rows]
    ptr, at = rows_of(visits.ptr, rows)
    return Visits(ptr, visits.time[at], visits.row[at])


def joined_visits(parts: Sequence[Moments | None]) -> Visits | None:
    """Returns the visits of the rows of several parts, one behind the other; None if every row of
    all parts is one visit, or a part has no times.
    """
    known = [part for part in parts if part is not None]
    if len(known) < len(parts) or all(part.visits is None for part in known):
        return None
    each = [part.each for part in known]
    ptr = starts_of(np.concatenate([np.diff(visits.ptr) for visits in each]))
    time = np.concatenate([visits.time for visits in each])
    row = np.concatenate([visits.row for visits in each])
    return Visits(ptr, time, row)


def grouped_visits(row_of: Int64Array, time: Int64Array, row: Int64Array, rows: int) -> Visits:
    """Returns visits grouped by the row that they belong to, those of a row by time and then by
    place in the source.

    row_of: int64 [visits], the row (0 to rows - 1) of each visit; every row has at least one. time,
    row: as in `Visits`.

    >>> grouped_visits(np.array([1, 0, 1]), np.array([9, 7, 5]), np.arange(3), 2)
    Visits(ptr=array([0, 1, 3]), time=array([7, 5, 9]), row=array([1, 2, 0]))
    """
    order = np.lexsort((row, time, row_of))
    ptr = starts_of(np.bincount(row_of, minlength=rows))
    return Visits(ptr, time[order], row[order])
