"""Clipping: upper limits on the length of a device's message, and on the size of each of its
numbers.

M. Abadi et al., "Deep learning with differential privacy", CCS 2016, clip whole gradients: v <- v
min(1, S / |v|). Differential privacy needs the bound S on the whole message: it is the sensitivity
of a sum. It does not stop a poisoner, whose one row fits within any such bound: that takes a bound
on each row.
"""

from __future__ import annotations

import numpy as np

from ..core.compiling import njit
from ..core.contract.update import STEP, Update
from ..core.types import Array, Float32Array, Float64Array, Int64Array, UInt64Array
from .limit import Limit


def clip(bound: float) -> Limit:
    """A limit that shortens each device's message, its rows and dense arrays together, to the
    Euclidean length `bound`.

    Every number is then rounded towards zero to the fixed-point grid of 2^-16, so that the length
    holds exactly for the integers that are added up. Arrays that are shown singly, and weights, are
    not part of the message.
    """

    def clipped(update: Update, keys: UInt64Array) -> Update:
        # Rows and dense arrays share one length: clipping each by itself would allow more.
        factor = _factor(bound, lengths(update))
        # Every row of a device has the device's factor.
        of_rows = np.repeat(factor, np.diff(update.ptr))
        rows = {name: _scaled(row, of_rows) for name, row in update.rows.items()}
        dense = {name: _scaled(array, factor) for name, array in update.dense.items()}
        return update._replace(rows=rows, dense=dense)

    return clipped


def within(bound: float) -> Limit:
    """A limit that moves every number of a message into -`bound` to `bound`, so that a sum of known
    size fits into words of known size.
    """

    def bounded(update: Update, keys: UInt64Array) -> Update:
        rows = {name: row.clip(-bound, bound) for name, row in update.rows.items()}
        dense = {name: array.clip(-bound, bound) for name, array in update.dense.items()}
        return update._replace(rows=rows, dense=dense)

    return bounded


def _factor(bound: float, length: Float64Array) -> Float64Array:
    """The factors that shorten vectors of these lengths to `bound`; 1 for those within it."""
    return np.minimum(1.0, bound / np.maximum(length, 1e-300))


def lengths(update: Update) -> Float64Array:
    """The Euclidean length of each device's message, its rows and dense arrays together: float64
    [m].
    """
    # In float64: the bound must hold for the sum of many small squares.
    square = np.zeros(update.devices)
    for row in update.rows.values():
        square += _by_device(_squares(row), update.ptr)
    for array in update.dense.values():
        square += _squares(array)
    return np.asarray(np.sqrt(square))


def _squares(array: Float32Array) -> Float64Array:
    """The sum of squares of each leading entry, float64 [len(array)]."""
    return _sums_of_squares(array.reshape(len(array), -1))


@njit(cache=True, nogil=True)
def _sums_of_squares(array: Float32Array) -> Float64Array:
    out = np.zeros(len(array))
    for r in range(array.shape[0]):
        for f in range(array.shape[1]):
            out[r] += np.float64(array[r, f]) * np.float64(array[r, f])
    return out


@njit(cache=True, nogil=True)
def _by_device(of_rows: Float64Array, ptr: Int64Array) -> Float64Array:
    """The sum over the rows of each device, row by row."""
    out = np.zeros(len(ptr) - 1)
    for d in range(len(out)):
        for r in range(ptr[d], ptr[d + 1]):
            out[d] += of_rows[r]
    return out


def _scaled(array: Float32Array, factor: Float64Array) -> Float32Array:
    """Each leading entry times its factor, rounded towards zero to the grid."""
    scaled: Array = np.empty_like(array)
    _scale(array.reshape(len(array), -1), factor, scaled.reshape(len(array), -1))
    return scaled


@njit(cache=True, nogil=True)
def _scale(array: Float32Array, factor: Float64Array, out: Float32Array) -> None:
    """`_scaled`, number by number."""
    for r in range(array.shape[0]):
        for f in range(array.shape[1]):
            # Towards zero: rounding to the nearest step could make a message longer than the bound.
            steps = np.trunc(np.float64(array[r, f]) * factor[r] / STEP)
            out[r, f] = np.float32(steps * STEP)
