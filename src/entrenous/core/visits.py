"""`Visits`: when each row of a history happened, where a row stands for several visits of the same
item, such as a venue.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .types import Int64Array


class Visits(NamedTuple):
    """The visits of n rows: row r happened at time[ptr[r]:ptr[r + 1]], at least once.

    ptr: int64 [n + 1] from 0; time: int64 [ptr[n]] in seconds, NO_TIME where not known; row: int64
    [ptr[n]], the place of each visit in the source, which breaks ties in time.
    """

    ptr: Int64Array
    time: Int64Array
    row: Int64Array


class Moments(NamedTuple):
    """When n rows happened: the columns `time` and `row`, int64 [n], and all visits, None if each
    row is one.
    """

    time: Int64Array
    row: Int64Array
    visits: Visits | None

    @property
    def each(self) -> Visits:
        """All visits, those of rows that are one visit too."""
        return (
            Visits(np.arange(len(self.time) + 1), self.time, self.row)
            if self.visits is None
            else self.visits
        )


def some_visits(visits: Visits | None, rows: Int64Array | slice) -> Visits | None:
    """The visits of some rows, in their order; None of None. rows: int64 [m], or a slice without a
    step.

    >>> some_visits(Visits(np.array([0, 2, 3]), np.array([5, 9, 7]), np.arange(3)), np.array([1,
    ...     0])).time.tolist()
    [7, 5, 9]
    """
    if visits is None:
        return None
    if isinstance(rows, slice):
        rows = np.arange(len(visits.ptr) - 1)[rows]
    counts = np.diff(visits.ptr)[rows]
    ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    at = np.repeat(visits.ptr[rows] - ptr[:-1], counts) + np.arange(ptr[-1])
    return Visits(ptr, visits.time[at], visits.row[at])


def joined_visits(parts: Sequence[Moments | None]) -> Visits | None:
    """The visits of the rows of several parts, one behind the other; None if every row of all is
    one visit, or a part has no times.
    """
    known = [part for part in parts if part is not None]
    if len(known) < len(parts) or all(part.visits is None for part in known):
        return None
    each = [part.each for part in known]
    counts = np.concatenate([np.diff(one.ptr) for one in each])
    ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return Visits(
        ptr, np.concatenate([one.time for one in each]), np.concatenate([one.row for one in each])
    )


def grouped_visits(row_of: Int64Array, time: Int64Array, row: Int64Array, rows: int) -> Visits:
    """Visits in the order of the rows that they are of, those of a row by time and place in the
    source.

    row_of: int64 [visits], the row (0 to rows - 1) that each is of; every row has one at least.
        time, row: as in `Visits`.

    >>> grouped_visits(np.array([1, 0, 1]), np.array([9, 7, 5]), np.arange(3), 2)
    Visits(ptr=array([0, 1, 3]), time=array([7, 5, 9]), row=array([1, 2, 0]))
    """
    order = np.lexsort((row, time, row_of))
    ptr = np.concatenate([[0], np.cumsum(np.bincount(row_of, minlength=rows))]).astype(np.int64)
    return Visits(ptr, time[order], row[order])
