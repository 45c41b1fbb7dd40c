"""The one vector of which the rows of a device are nearly multiples, and by what number each is."""

from __future__ import annotations

import numpy as np

from entrenous.core.compiling import njit
from entrenous.core.types import Float32Array, Float64Array, Int64Array

STEPS = 30  # of the power iteration; rows of one vector need one


def directions(
    rows: Float32Array, ptr: Int64Array
) -> tuple[Float64Array, Float64Array, Float64Array]:
    """The unit vector along which the rows of each device lie, float64 [m, F]; how long each row is
    along it, float64 [n]; and the standard deviation of a number of the rows around it, float64
    [m]. The first right singular vector; zeros where all rows are 0.

    rows: float32 [n, F]; device d has rows ptr[d] to ptr[d + 1]. The vector's sign is arbitrary.
    """
    devices = len(ptr) - 1
    unit = np.zeros((devices, rows.shape[1]))
    along = np.zeros(len(rows))
    around = np.zeros(devices)
    _directions(np.ascontiguousarray(rows), ptr, unit, along, around)
    return unit, along, around


@njit(cache=True, nogil=True, error_model="numpy")
def _directions(
    rows: Float32Array,
    ptr: Int64Array,
    unit: Float64Array,
    along: Float64Array,
    around: Float64Array,
) -> None:
    """Power iteration from the longest row of each device."""
    factors = rows.shape[1]
    ahead = np.zeros(factors)
    for d in range(len(ptr) - 1):
        low = ptr[d]
        high = ptr[d + 1]
        # Start along the longest row, and keep the sum of all squares.
        longest = 0.0
        whole = 0.0
        for r in range(low, high):
            size = 0.0
            for f in range(factors):
                size += np.float64(rows[r, f]) ** 2
            whole += size
            if size > longest:
                longest = size
                for f in range(factors):
                    unit[d, f] = rows[r, f] / np.sqrt(size)
        if longest == 0.0:
            continue
        for _ in range(STEPS):
            # One step: the sum of the rows, each times its length along the vector.
            ahead[:] = 0.0
            for r in range(low, high):
                along[r] = _dot(rows, r, unit, d)
                for f in range(factors):
                    ahead[f] += along[r] * rows[r, f]
            size = np.sqrt((ahead * ahead).sum())
            gap = 0.0
            for f in range(factors):
                difference = ahead[f] / size - unit[d, f]
                gap += difference**2
                unit[d, f] = ahead[f] / size
            if gap < 1e-18:
                break
        # Squares that the vector does not explain are spread over the other dimensions.
        explained = 0.0
        for r in range(low, high):
            along[r] = _dot(rows, r, unit, d)
            explained += along[r] ** 2
        # A direction takes one of the numbers of each row: the others are free.
        free = (high - low) * (factors - 1)
        left_over = max(whole - explained, 0.0)
        around[d] = np.sqrt(left_over / max(free, 1))


@njit(cache=True, nogil=True)
def _dot(rows: Float32Array, r: int, unit: Float64Array, d: int) -> float:
    total = 0.0
    for f in range(rows.shape[1]):
        total += rows[r, f] * unit[d, f]
    return total
