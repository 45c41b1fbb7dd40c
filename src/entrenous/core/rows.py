"""Rows of several owners side by side: owner d has rows[ptr[d]:ptr[d + 1]]."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .types import Array, Int64Array


def starts_of(counts: Array | Sequence[int]) -> Int64Array:
    """Returns where the rows of each owner begin, int64 [n + 1] from 0. counts: rows of each.

    >>> starts_of(np.array([2, 0, 3])).tolist()
    [0, 2, 2, 5]
    """
    ptr = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=ptr[1:])
    return ptr


def owners_of(ptr: Int64Array) -> Int64Array:
    """Returns the owner of each row, int64 [ptr[n]].

    >>> owners_of(np.array([0, 2, 2, 5])).tolist()
    [0, 0, 2, 2, 2]
    """
    return np.repeat(np.arange(len(ptr) - 1), np.diff(ptr))


def rows_of(ptr: Int64Array, owners: Array) -> tuple[Int64Array, Int64Array]:
    """Returns the rows of some owners side by side: where those of each begin, int64 [m + 1], and
    their places among all rows, int64.

    >>> [found.tolist() for found in rows_of(np.array([0, 2, 2, 5]), np.array([2, 0]))]
    [[0, 3, 5], [2, 3, 4, 0, 1]]
    """
    first = ptr[owners]
    counts = ptr[owners + 1] - first
    starts = starts_of(counts)
    # A row lies as far behind the first of its owner in `ptr` as it does here.
    moved = np.repeat(first - starts[:-1], counts)
    return starts, moved + np.arange(starts[-1])
