"""Discrete Gaussian noise: whole numbers k with probability proportional to exp(-k^2 / 2 sigma^2),
from random words by tables.

C. Canonne, G. Kamath, T. Steinke, "The discrete Gaussian for differential privacy", NeurIPS 2020:
on whole numbers it protects as continuous noise of the same sigma does. P. Kairouz, Z. Liu, T.
Steinke, "The distributed discrete Gaussian mechanism", ICML 2021: the sum of such shares is, at the
sigma used here, another one but for a difference far below any delta.

The sampler is Walker's alias method (A. J. Walker, ACM TOMS 1977; M. D. Vose, 1991) on a table of
4,096 columns in 64-bit integers: one random word, one look. A sigma above 220 is put together from
narrow ones, k = k1 + c k2 with sigma^2 = sigma1^2 + c^2 sigma2^2 (D. Micciancio, M. Walter, CRYPTO
2017), one word each. The error: at most 2^-50 a level in total variation, from probabilities
rounded to 2^-64, exp in float64, tails cut at 9 sigma, and the composition (sigma1 / c >= 2: below
2^-100).
"""

from __future__ import annotations

import math
import os
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ..core.compiling import COMPILES, njit
from ..core.contract.update import STEP
from ..core.keys import draw
from ..core.types import Float32Array, Int64Array, UInt64Array

BITS = 12
COLUMNS = 1 << BITS
CAPACITY = 1 << 64 - BITS  # of a column, of the whole probability 2^64
MOST = 220.0  # sigma of one table, at most
INNER = 200.0  # sigma of the inner one of several tables
SPREAD = 100  # c, at most
_BITS = np.uint64(BITS)
_COLUMN = np.uint64(COLUMNS - 1)
SEEDED = np.empty(0, np.uint64)  # in the place of words from the system: draw them from the key


class GaussianTable(NamedTuple):
    """The tables of one sigma."""

    packed: UInt64Array
    """[levels, 4096], a column's threshold in the upper 52 bits and its alias in the lower 12."""
    scale: Int64Array
    """[levels], the factor of the numbers of a level."""

    @property
    def words(self) -> int:
        """Random words that one number takes."""
        return len(self.scale)


def gaussian_table(sigma: float) -> GaussianTable:
    """The tables for a standard deviation `sigma`, in units of the grid, greater than 0."""
    # sigma^2 = INNER^2 + times^2 rest^2, until the rest fits into one table.
    sigmas = []
    scales = [1]
    while sigma > MOST:
        rest = math.sqrt(sigma * sigma - INNER * INNER)
        times = min(SPREAD, math.ceil(rest / MOST))
        sigmas.append(INNER)
        scales.append(scales[-1] * times)
        sigma = rest / times
    packed = [_packed(level) for level in (*sigmas, sigma)]
    return GaussianTable(np.stack(packed), np.array(scales, np.int64))


# A device makes its limits anew whenever its rows have changed, and its sigma stays.
@lru_cache(maxsize=64)
def _packed(sigma: float) -> UInt64Array:
    """Walker's table of one level, in whole numbers: columns of equal capacity. Each holds as much
    of one value's probability as fits, and one other value fills it up.
    """
    left = _weights(sigma)
    # A column that nobody fills up holds one value alone.
    threshold = [CAPACITY - 1] * COLUMNS
    alias = list(range(COLUMNS))
    small = [k for k in range(COLUMNS) if left[k] < CAPACITY]
    large = [k for k in range(COLUMNS) if left[k] >= CAPACITY]
    while small and large:
        # A small column is filled up by a large one, which may become a small one by that.
        low = small.pop()
        high = large[-1]
        threshold[low] = left[low]
        alias[low] = high
        left[high] -= CAPACITY - left[low]
        if left[high] < CAPACITY:
            small.append(large.pop())
    columns = zip(threshold, alias, strict=True)
    return np.array([least << BITS | other for least, other in columns], np.uint64)


def _weights(sigma: float) -> list[int]:
    """The probabilities of -2048 to 2047 as whole numbers that add up to 2^64."""
    k = np.arange(-COLUMNS // 2, COLUMNS // 2, dtype=np.float64)
    density = np.exp(-k * k / (2 * sigma * sigma))
    probability = density / math.fsum(density)
    weights = [int(share * 2.0**64) for share in probability.tolist()]
    # The rest is for 0, whose large probability it changes least.
    weights[COLUMNS // 2] += (1 << 64) - sum(weights)
    return weights


def system_words(count: int) -> UInt64Array:
    """Random words from the operating system's generator, uint64 [count]."""
    return np.frombuffer(os.urandom(8 * count), np.uint64)


@njit(cache=True, inline="always")
def _number(
    packed: UInt64Array, scale: Int64Array, parent: np.uint64, words: UInt64Array, first: int
) -> np.int64:
    """One number: of the words from `first`, those given or those of a key. Uncompiled, `first` may
    be an array, of as many numbers.
    """
    number = np.int64(0)
    for level in range(len(scale)):
        word = words[first + level] if len(words) else draw(parent, first + level)
        # The lower bits choose a column, the upper ones between the column and its alias.
        column = word & _COLUMN
        held = packed[level, column]
        further = (held & _COLUMN) - column
        column = column + further * np.uint64(word >> _BITS >= held >> _BITS)
        number += scale[level] * (np.int64(column) - np.int64(COLUMNS // 2))
    return number


@njit(cache=True, nogil=True)
def integers(table: GaussianTable, count: int, key: np.uint64, words: UInt64Array) -> Int64Array:
    """`count` numbers, int64, by the words of `key`, or by `words` where there are any
    (`table.words` of them for each).
    """
    packed = table.packed
    scale = table.scale
    out = np.empty(count, np.int64)
    for n in range(count):
        out[n] = _number(packed, scale, key, words, n * len(scale))
    return out


def add_noise(
    values: Float32Array, table: GaussianTable, key: np.uint64, words: UInt64Array
) -> None:
    """Rounds numbers to the fixed-point grid of 2^-16 and adds to each a whole number of steps, in
    place. values: float32 [n].
    """
    if COMPILES:
        _add_noise(values, table, key, words)
        return
    # One number after the other would take most of the round of a node that compiles nothing.
    first = np.arange(len(values)) * table.words
    added = _number(table.packed, table.scale, key, words, first)
    steps = np.rint(values.astype(np.float64) / STEP) + added
    values[:] = steps * STEP


@njit(cache=True, nogil=True)
def _add_noise(
    values: Float32Array, table: GaussianTable, key: np.uint64, words: UInt64Array
) -> None:
    """`add_noise`, number by number."""
    packed = table.packed
    scale = table.scale
    for n in range(len(values)):
        added = _number(packed, scale, key, words, n * len(scale))
        steps = np.rint(np.float64(values[n]) / STEP) + added
        values[n] = np.float32(steps * STEP)
