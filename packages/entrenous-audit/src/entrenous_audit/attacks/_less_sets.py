"""Rows of sums less sets of known parties, in plain loops: for `_peeling`, which looks for two of
them that leave the same party.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from entrenous.core.compiling import njit
from entrenous.core.types import BoolArray, Float64Array, Int64Array

LOOKS = 6  # projections of a vector
SMALL = 200  # in deviations of the noise: no shorter vector is looked at
# Codes of sets: of two parties a and b it is a + 1 + 1024 (b + 1); from MASKS on, its bits say
# which doubts are turned.
PAIR = 1024
MASKS = 1 << 20


class Sums(NamedTuple):
    """Rows to take apart."""

    rows: Float64Array
    """[rounds, n, F], E."""
    items: Float64Array
    """[rounds, n, F], y."""
    c: float
    """Of the contribution of a party, (c - g x . y) x."""
    g: float
    noise: float
    """The standard deviation of an error in rows."""


class Doubts(NamedTuple):
    """The knowledge of the codes of rows that are not explained."""

    doubted: Int64Array
    """[n, DOUBTED], the parties whose codes are least clear."""
    likely: BoolArray
    """[n, parties], whether a party is rather in the row than not."""


class Sets(NamedTuple):
    """Rows less sets of known parties, of which at most one party may be left."""

    look: Float64Array
    """[sets, LOOKS], projections of that party's vector."""
    row: Int64Array
    """[sets]."""
    code: Int64Array
    """[sets], which parties are taken off."""


@njit(cache=True, nogil=True)
def tried(
    sums: Sums,
    x: Float64Array,
    weight: Float64Array,
    doubts: Doubts,
    pairs: int,
    ways: Float64Array,
    sets: Sets,
) -> int:
    """Fills `sets` with the rest of each row less each set. Returns how many sets there are.

    weight: [rounds, n, parties], by which a party's vector counts in a row. pairs: how many parties
    are taken off by ones and twos. ways: [rounds, F, LOOKS], the directions of projections.
    """
    count = 0
    rest = np.empty((len(x), x.shape[2]))
    for i in range(sums.rows.shape[1]):
        # All sets of at most two parties; -1 = no party.
        for a in range(-1, pairs):
            for b in range(-1, max(a, 0)):
                rest[:] = sums.rows[:, i]
                _add(rest, x, weight, i, a, -1.0)
                _add(rest, x, weight, i, b, -1.0)
                sets.row[count] = i
                sets.code[count] = a + 1 + PAIR * (b + 1)
                count += _look(sums, rest, i, ways, sets.look[count])
        count = _turned(sums, x, weight, doubts, ways, sets, i, count)
    return count


@njit(cache=True, nogil=True)
def _turned(
    sums: Sums,
    x: Float64Array,
    weight: Float64Array,
    doubts: Doubts,
    ways: Float64Array,
    sets: Sets,
    i: int,
    count: int,
) -> int:
    """Fills `sets` with the rest of one row less its likely parties, with every set of doubts
    turned. Returns how many sets there are by then.
    """
    rest = sums.rows[:, i].copy()
    for k in range(doubts.likely.shape[1]):
        if doubts.likely[i, k]:
            _add(rest, x, weight, i, k, -1.0)
    # In the order of a Gray code one set differs from the next by one party.
    now = 0
    for step in range(1 << doubts.doubted.shape[1]):
        after = step ^ (step >> 1)
        if after != now:
            bit = 0
            while (now ^ after) >> bit > 1:
                bit += 1
            k = doubts.doubted[i, bit]
            taken_off = (after > now) != doubts.likely[i, k]
            _add(rest, x, weight, i, k, -1.0 if taken_off else 1.0)
        now = after
        sets.row[count] = i
        sets.code[count] = MASKS + now
        count += _look(sums, rest, i, ways, sets.look[count])
    return count


@njit(cache=True, nogil=True)
def _add(
    rest: Float64Array, x: Float64Array, weight: Float64Array, i: int, k: int, sign: float
) -> None:
    """Adds what party k has in row i, if k is one."""
    if k >= 0:
        for r in range(len(rest)):
            rest[r] += sign * weight[r, i, k] * x[r, k]


@njit(cache=True, nogil=True)
def _look(sums: Sums, rest: Float64Array, i: int, ways: Float64Array, look: Float64Array) -> bool:
    """Projections of x of the only party left; False where no single party can be."""
    look[:] = 0
    for r in range(len(rest)):
        # x = k E with g (E . y) k^2 - c k + 1 = 0, as in `_peeling._alone`.
        product = (rest[r] * sums.items[r, i]).sum()
        inside = sums.c**2 - 4 * sums.g * product
        if inside < 0 or (rest[r] ** 2).sum() < (SMALL * sums.noise) ** 2:
            return False
        scale = 2 / (sums.c + np.sqrt(inside))
        for f in range(rest.shape[1]):
            for way in range(len(look)):
                look[way] += scale * rest[r, f] * ways[r, f, way]
    return True
