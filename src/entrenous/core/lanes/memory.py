"""The memory of the arrays that compiled kernels work on.

Rows of several owners lie side by side: owner d has rows[ptr[d]:ptr[d + 1]].

What a kernel only reads is sealed: C-contiguous and not to be written to. numba compiles a kernel
anew for each combination of types, and to numba an array that may be written to, one that may not,
and one with other strides are three types. A kernel's door, the plain function that calls it, seals
what the kernel reads, so that there is one compiled form of it, wherever the arrays come from: a
server's state, a frame from a network, a mapped file.

A kernel's own tables begin where a cache line does, so that no row lies in more cache lines than it
must.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ..types import Array, Float32Array, Int64Array
from .simd import LANES

Number = TypeVar("Number", bound=np.generic)
# Bytes of a cache line.
CACHE_LINE = 64


def view_only(array: NDArray[Number]) -> NDArray[Number]:
    """Returns a view of an array that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


def sealed(array: NDArray[Number]) -> NDArray[Number]:
    """Returns the numbers of an array, C-contiguous and not to be written to. Copies them only if
    they are not contiguous.

    >>> sealed(np.zeros((2, 3)).T).flags.c_contiguous, sealed(np.zeros(2)).flags.writeable
    (True, False)
    """
    return view_only(np.ascontiguousarray(array))


def padded(width: int) -> int:
    """Returns the least multiple of LANES that holds `width` numbers.

    >>> padded(16), padded(20)
    (16, 32)
    """
    return -(-width // LANES) * LANES


def zeros(rows: int, width: int) -> Float32Array:
    """Returns float32 [rows, width] of zeros; each row begins a cache line if `width` is padded."""
    size = rows * width
    # The system hands out zeros as small pages when they are first touched: a table that grows
    # costs no memory before it is used.
    memory = np.zeros(size + CACHE_LINE // 4, np.float32)
    start = -memory.ctypes.data % CACHE_LINE // 4
    return memory[start : start + size].reshape(rows, width)


def written_zeros(shape: tuple[int, ...]) -> Int64Array:
    """Returns int64 zeros that begin a cache line and are written to memory at once: `np.zeros`
    would leave them to the system, which then hands out small pages; a table that is read at random
    wants large ones.
    """
    size = math.prod(shape)
    memory = np.empty(size + CACHE_LINE // 8, np.int64)
    memory.fill(0)
    start = -memory.ctypes.data % CACHE_LINE // 8
    return memory[start : start + size].reshape(shape)


# ---- rows of several owners ----------------------------------------------------------------------


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


def divides(ptr: Int64Array, rows: int) -> bool:
    """Tells whether `ptr` divides so many rows among owners."""
    return bool(ptr[0] == 0 and ptr[-1] == rows and (np.diff(ptr) >= 0).all())
