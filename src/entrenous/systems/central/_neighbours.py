"""The k nearest rows of a binary table by cosine, exact and in a stated order, in the memory of one
row.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ...core.compiling import njit
from ...core.contract.protocols import Progress
from ...core.lanes.memory import starts_of
from ...core.types import Float32Array, Int32Array, Int64Array

# Rows between two reports of progress.
BLOCK = 1024


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
    """Returns the transposed table: the same ones, column by column."""
    rows = np.arange(len(table.ptr) - 1, dtype=np.int32)
    row = np.repeat(rows, np.diff(table.ptr))
    # Stable: the rows of one column stay in ascending order.
    order = np.argsort(table.column, kind="stable")
    return NeighbourTable(_starts(table.column, columns), row[order])


def reverse(links: Neighbours) -> Neighbours:
    """Returns the reversed links (between rows of one table), gathered at the row that they lead
    to, by ascending origin.
    """
    rows = len(links.ptr) - 1
    numbers = np.arange(rows, dtype=np.int32)
    origin = np.repeat(numbers, np.diff(links.ptr))
    # Stable: links to one row stay in the order of their origins.
    order = np.argsort(links.other, kind="stable")
    ptr = _starts(links.other, rows)
    return Neighbours(ptr, origin[order], links.similarity[order])


def nearest(table: NeighbourTable, columns: int, k: int, progress: Progress) -> Neighbours:
    """Returns links from each row to the k other rows that are most similar by cosine, most similar
    first, ties to the lower row.

    cosine(a, b) = |a and b| / sqrt(|a| |b|); rows with nothing in common are left out.
    """
    rows = len(table.ptr) - 1
    k = max(1, min(k, rows - 1))
    across = transpose(table, columns)
    other = np.full((rows, k), -1, np.int32)
    similarity = np.zeros((rows, k), np.float32)
    for start in range(0, rows, BLOCK):
        stop = min(start + BLOCK, rows)
        _nearest(table, across, start, stop, other, similarity)
        progress(stop, rows, "neighbours")
    # Rows with fewer than k others in common leave places empty, which the links do not have.
    linked = other >= 0
    ptr = starts_of(linked.sum(axis=1))
    return Neighbours(ptr, other[linked], similarity[linked])


def _starts(numbers: Int32Array, size: int) -> Int64Array:
    """The place at which each number begins once `numbers` are sorted, int64 [size + 1]."""
    counts = np.bincount(numbers, minlength=size)
    return starts_of(counts)


@njit(cache=True, nogil=True)
def _nearest(
    table: NeighbourTable,
    across: NeighbourTable,
    start: int,
    stop: int,
    other: Int32Array,
    similarity: Float32Array,
) -> None:
    """Writes rows start:stop of `other` and `similarity`, [rows, k]. across: the transposed
    table.
    """
    ptr = table.ptr
    column = table.column
    across_ptr = across.ptr
    row_of = across.column
    # common[b]: the number of columns in which both a and b have ones.
    common = np.zeros(len(ptr) - 1, np.int64)
    for a in range(start, stop):
        common[:] = 0
        for at in range(ptr[a], ptr[a + 1]):
            c = column[at]
            # Only rows with a column in common are met, which are few of all pairs.
            for b in row_of[across_ptr[c] : across_ptr[c + 1]]:
                common[b] += 1
        # A row is no neighbour of itself.
        common[a] = 0
        size_a = float(ptr[a + 1] - ptr[a])
        for b in range(len(common)):
            if common[b] > 0:
                size_b = float(ptr[b + 1] - ptr[b])
                cosine = common[b] / math.sqrt(size_a * size_b)
                _insert(other[a], similarity[a], b, np.float32(cosine))


@njit(cache=True, nogil=True)
def _insert(other: Int32Array, similarity: Float32Array, row: int, value: np.float32) -> None:
    """Puts `row` into a list that is sorted by falling similarity. An equal one stays ahead, and
    the last one drops out.
    """
    place = len(other)
    while place > 0 and similarity[place - 1] < value:
        place -= 1
    for at in range(len(other) - 1, place, -1):
        other[at] = other[at - 1]
        similarity[at] = similarity[at - 1]
    if place < len(other):
        other[place] = row
        similarity[place] = value
