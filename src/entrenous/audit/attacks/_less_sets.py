"""Rows of sums less sets of known parties, in plain loops: for `_peeling`, which looks for two of
them that leave the same party.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from ...core.types import BoolArray, Float64Array, Int64Array

LOOKS = 6  # projections of a vector
SMALL = 200  # in deviations of the noise: no shorter vector is looked at
MASKS = (
    1 << 20
    # codes of sets from here on are which doubts are turned, below of two parties: a + 1 + 1024 (b
    # + 1)
)


class Sums(NamedTuple):
    """Rows to take apart. rows, items: float64 [rounds, n, F], E and y; c, g: of the contribution
    of a party; noise: the standard deviation of an error in rows."""

    rows: Float64Array
    items: Float64Array
    c: float
    g: float
    noise: float


class Sets(NamedTuple):
    """Rows less sets of known parties, of which at most one party may be left: float64 [sets,
    LOOKS] projections of its vector, int64 rows and sets."""

    look: Float64Array
    row: Int64Array
    code: Int64Array


@njit(cache=True, nogil=True)
def tried(
    sums: Sums,
    x: Float64Array,
    weight: Float64Array,
    doubted: Int64Array,
    likely: BoolArray,
    pairs: int,
    ways: Float64Array,
    sets: Sets,
) -> int:
    """Fills in what is left of each row less each set; how many there are."""
    count, rest = 0, np.empty((len(x), x.shape[2]))
    for i in range(sums.rows.shape[1]):
        for a in range(-1, pairs):
            for b in range(-1, max(a, 0)):
                rest[:] = sums.rows[:, i]
                _add(rest, x, weight, i, a, -1.0)
                _add(rest, x, weight, i, b, -1.0)
                sets.row[count], sets.code[count] = i, a + 1 + 1024 * (b + 1)
                count += _look(sums, rest, i, ways, sets.look[count])
        count = _turned(sums, x, weight, doubted, likely, ways, sets, i, count)
    return count


@njit(cache=True, nogil=True)
def _turned(
    sums: Sums,
    x: Float64Array,
    weight: Float64Array,
    doubted: Int64Array,
    likely: BoolArray,
    ways: Float64Array,
    sets: Sets,
    i: int,
    count: int,
) -> int:
    """The same of one row less the likely parties with every set of doubts turned, one more or less
    at a time (a Gray code).
    """
    rest, now = sums.rows[:, i].copy(), 0
    for k in range(likely.shape[1]):
        if likely[i, k]:
            _add(rest, x, weight, i, k, -1.0)
    for step in range(1 << doubted.shape[1]):
        after, bit = step ^ (step >> 1), 0
        while (now ^ after) >> bit > 1:
            bit += 1
        if after != now:
            k = doubted[i, bit]
            _add(rest, x, weight, i, k, -1.0 if (after > now) != likely[i, k] else 1.0)
        now = after
        sets.row[count], sets.code[count] = i, MASKS + now
        count += _look(sums, rest, i, ways, sets.look[count])
    return count


@njit(cache=True, nogil=True)
def _add(
    rest: Float64Array, x: Float64Array, weight: Float64Array, i: int, k: int, sign: float
) -> None:
    """Adds what party k has in row i, if k is one."""
    for r in range(len(rest)):
        if k >= 0:
            rest[r] += sign * weight[r, i, k] * x[r, k]


@njit(cache=True, nogil=True)
def _look(sums: Sums, rest: Float64Array, i: int, ways: Float64Array, look: Float64Array) -> bool:
    """Projections of x of the only party left; False where no single party can be."""
    look[:] = 0
    for r in range(len(rest)):
        inside = sums.c**2 - 4 * sums.g * (rest[r] * sums.items[r, i]).sum()
        if inside < 0 or (rest[r] ** 2).sum() < (SMALL * sums.noise) ** 2:
            return False
        scale = 2 / (sums.c + np.sqrt(inside))
        for f in range(rest.shape[1]):
            for way in range(len(look)):
                look[way] += scale * rest[r, f] * ways[r, f, way]
    return True
