"""Sixteen float32 at a time, in an order that is fixed: strict IEEE arithmetic that is the same on
every machine.

A row of 20 factors is too short for the vector loops that compilers make, so kernels over rows say
it themselves: `store(p, 0, load(p, 0) + every(alpha) * load(step, 0))`. Each function here is plain
NumPy, which is what runs uncompiled; `simd_instructions` has the machine instruction that stands
for it in a compiled kernel. Both give the same bits; a processor with shorter vectors does the same
in several steps. Arrays are C-contiguous and addressed by flat position.

>>> row = np.arange(20, dtype=np.float32)
>>> float(sum_of(load(row, 0) * every(np.float32(2)))), load(row, 16, 4)[:5].tolist()
(240.0, [16.0, 17.0, 18.0, 19.0, 0.0])
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from ..compiling import njit
from ..types import Array, Float32Array, Int32Array, Int64Array

LANES = 16
# 1 / STEP of core/contract/update.py.
SCALE = np.float32(65536.0)
# The first number that int32 does not hold.
BOUND = np.float32(2147483648.0)
# Sixteen float32: a NumPy array, or a vector register.
Lanes: TypeAlias = Any
# Decorates a part of a compiled loop: it counts no references and is inlined; it may take arrays,
# but neither makes nor returns one. The stubs of numba lack `_nrt`.
inside = njit(cache=True, error_model="numpy", forceinline=True, _nrt=False)  # type: ignore[call-overload]


# ---- memory --------------------------------------------------------------------------------------


def load(array: Float32Array, start: int, count: int = LANES) -> Lanes:
    """Reads `count` numbers (1 to LANES) from flat position `start` as lanes, followed by zeros."""
    out = np.zeros(LANES, np.float32)
    numbers = array.reshape(-1)[start : start + min(count, LANES)]
    out[: len(numbers)] = numbers
    return out


def store(array: Float32Array, start: int, lanes: Lanes) -> None:
    """Writes all sixteen lanes to `array` from flat position `start` on."""
    array.reshape(-1)[start : start + LANES] = lanes


def every(number: np.float32) -> Lanes:
    """Returns sixteen lanes that all hold `number`."""
    return np.full(LANES, number, np.float32)


def fetch(array: Array, start: int) -> None:
    """Prefetches the memory around flat position `start`; no effect on any result."""


# ---- one number at a time ------------------------------------------------------------------------


def root(lanes: Lanes) -> Lanes:
    """Returns the square root of each lane, or of a single number, correctly rounded (IEEE 754)."""
    return np.sqrt(lanes)


def unless_negative(sign: Lanes, lanes: Lanes) -> Lanes:
    """Returns each lane, or 0 where `sign` is below 0: `unless_negative(z, z)` is the rectifier.
    NaN stays NaN.
    """
    return np.where(sign < 0, np.float32(0), lanes)


# ---- sums ----------------------------------------------------------------------------------------


def sum_of(lanes: Lanes) -> np.float32:
    """Returns the sum of all sixteen lanes in a fixed order: first eight plus last eight, of those
    first four plus last four, and so on.
    """
    for half in (8, 4, 2, 1):
        lanes = lanes[:half] + lanes[half : 2 * half]
    return lanes[0]


@inside
def inner_product(a: Float32Array, at_a: int, b: Float32Array, at_b: int, n: int) -> np.float32:
    """Returns the inner product of n numbers of a and of b, each from a flat position; n is a
    multiple of LANES: rows are padded with zeros.
    """
    sums = load(a, at_a) * load(b, at_b)
    for f in range(LANES, n, LANES):
        sums = sums + load(a, at_a + f) * load(b, at_b + f)
    return sum_of(sums)


@inside
def dot(x: Float32Array, y: Float32Array, at: int, count: int) -> np.float32:
    """Returns the inner product of x, padded with zeros from flat position 0 on, and the `count`
    numbers of y from flat position `at`.
    """
    total = every(np.float32(0))
    for f in range(0, count, LANES):
        total = total + load(x, f) * load(y, at + f, count - f)
    return sum_of(total)


def add_fixed(total: Int64Array, start: int, lanes: Lanes, count: int) -> bool:
    """Adds numbers to an int64 total in fixed point: total[start + k] += rint(2^16 lanes[k]) for k
    < count. Returns False if one of the sixteen is not finite or beyond +-32768.
    """
    scaled = np.rint(lanes * SCALE)
    if not bool((np.abs(scaled) < BOUND).all()):
        return False
    numbers = total.reshape(-1)[start : start + min(count, LANES)]
    numbers += scaled[: len(numbers)].astype(np.int64)
    return True


# ---- searching -----------------------------------------------------------------------------------


def count_up_to(numbers: Int32Array, start: int, bound: int) -> int:
    """Returns how many of the sixteen int32 from position `start` are at most `bound`."""
    return int((numbers[start : start + LANES] <= bound).sum())
