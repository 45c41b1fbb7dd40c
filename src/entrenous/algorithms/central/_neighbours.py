"""The k nearest rows of a binary table by cosine, exactly and with a stated order, in memory of one
row.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from ...core.contract.protocols import Progress
from ...core.types import Float32Array, Int32Array, Int64Array

BLOCK = 1024  # rows between two reports of progress


class NeighbourTable(NamedTuple):
    """A binary table, row by row: row a has ones at the columns column[ptr[a]:ptr[a + 1]],
    ascending.
    """

    ptr: Int64Array
    column: Int32Array


class Neighbours(NamedTuple):
    """Weighted links in rows: row a is linked to other[ptr[a]:ptr[a + 1]] with `similarity` in (0,
    1].
    """

    ptr: Int64Array
    other: Int32Array
    similarity: Float32Array


def transpose(table: NeighbourTable, columns: int) -> NeighbourTable:
    """The transposed table: the same ones, column by column."""
    rows = np.repeat(np.arange(len(table.ptr) - 1, dtype=np.int32), np.diff(table.ptr))
    return NeighbourTable(
        _starts(table.column, columns), rows[np.argsort(table.column, kind="stable")]
    )


def reverse(links: Neighbours) -> Neighbours:
    """The reversed links (between rows of one table), gathered at the row they lead to, by
    ascending origin.
    """
    rows = len(links.ptr) - 1
    origin = np.repeat(np.arange(rows, dtype=np.int32), np.diff(links.ptr))
    order = np.argsort(links.other, kind="stable")
    return Neighbours(_starts(links.other, rows), origin[order], links.similarity[order])


def nearest(table: NeighbourTable, columns: int, k: int, progress: Progress) -> Neighbours:
    """The k other rows most similar to each row by cosine, most similar first, ties to the lower
    row.

    cosine(a, b) = |a and b| / sqrt(|a| |b|); rows with nothing in common are left out.
    """
    across, rows = transpose(table, columns), len(table.ptr) - 1
    k = max(1, min(k, rows - 1))
    other, similarity = np.full((rows, k), -1, np.int32), np.zeros((rows, k), np.float32)
    for start in range(0, rows, BLOCK):
        stop = min(start + BLOCK, rows)
        _nearest(table.ptr, table.column, across.ptr, across.column, start, stop, other, similarity)
        progress(stop, rows, "neighbours")
    found = other >= 0
    ptr = np.concatenate([[0], np.cumsum(found.sum(axis=1))]).astype(np.int64)
    return Neighbours(ptr, other[found], similarity[found])


def _starts(numbers: Int32Array, size: int) -> Int64Array:
    return np.concatenate([[0], np.cumsum(np.bincount(numbers, minlength=size))]).astype(np.int64)


@njit(cache=True, nogil=True)
def _nearest(
    ptr: Int64Array,
    column: Int32Array,
    across_ptr: Int64Array,
    across: Int32Array,
    start: int,
    stop: int,
    other: Int32Array,
    similarity: Float32Array,
) -> None:
    """Rows start:stop of `other` and `similarity` [rows, k]."""
    common = np.zeros(len(ptr) - 1, np.int64)
    for a in range(start, stop):
        common[:] = 0
        for at in range(ptr[a], ptr[a + 1]):
            for b in across[across_ptr[column[at]] : across_ptr[column[at] + 1]]:
                common[b] += 1
        common[a] = 0
        for b in range(len(common)):
            if common[b] > 0:
                cosine = common[b] / math.sqrt(
                    float(ptr[a + 1] - ptr[a]) * float(ptr[b + 1] - ptr[b])
                )
                _insert(other[a], similarity[a], b, np.float32(cosine))


@njit(cache=True, nogil=True)
def _insert(other: Int32Array, similarity: Float32Array, row: int, value: np.float32) -> None:
    """Puts `row` into a list that is sorted by falling similarity; an equal one stays ahead, and
    the last one drops out.
    """
    place = len(other)
    while place > 0 and similarity[place - 1] < value:
        place -= 1
    for at in range(len(other) - 1, place, -1):
        other[at], similarity[at] = other[at - 1], similarity[at - 1]
    if place < len(other):
        other[place], similarity[place] = row, value
