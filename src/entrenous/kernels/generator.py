"""Random numbers for algorithms of plain NumPy: the same numbers in a simulation, on any number of
threads, and on a real device.

draws = generator(fold_name(key, user))   # one for each device, from the key of the round
noise = draws.normal(10)
others = negatives(draws, history, items, size=len(history))
"""

from __future__ import annotations

from typing import final

import numpy as np

from ..core.errors import InputError
from ..core.keys import GOLDEN, MASK, normal_range
from ..core.types import Array, Float64Array, Int32Array, Int64Array, UInt64Array

Size = int | tuple[int, ...]


@final
class Generator:
    """A sequence of random numbers that its key alone decides: number c is draw c of the key
    (core/keys.py), whatever the platform or the version of NumPy.
    """

    def __init__(self, key: int | np.uint64) -> None:
        self._key = int(key) & MASK
        self._drawn = 0

    def bits(self, size: Size) -> UInt64Array:
        """Returns the next 64-bit words, uint64 of the shape `size`."""
        many = int(np.prod(size, dtype=np.int64))
        counters = np.arange(self._drawn + 1, self._drawn + many + 1, dtype=np.uint64)
        self._drawn += many
        words = np.uint64(self._key) + counters * np.uint64(GOLDEN)
        return _mixed(words).reshape(size)

    def uniform(self, size: Size) -> Float64Array:
        """Returns numbers from 0 to below 1, float64 of the shape `size`."""
        # A float64 holds 53 bits.
        bits = self.bits(size) >> np.uint64(11)
        return bits.astype(np.float64) * 2.0**-53

    def integers(self, below: int, size: Size) -> Int64Array:
        """Returns whole numbers from 0 to `below` - 1, int64 of the shape `size`.

        Raises InputError unless 1 <= below < 2^32.
        """
        if not 1 <= below < 1 << 32:
            raise InputError("generator.integers", f"below is {below}", expected="1 to 2^32 - 1")
        # The upper half of each word, as a fraction of 2^32, times `below`.
        half = self.bits(size) >> np.uint64(32)
        numbers = half * np.uint64(below) >> np.uint64(32)
        return numbers.astype(np.int64)

    def normal(self, size: Size, scale: float = 1.0) -> Float64Array:
        """Returns normally distributed numbers with mean 0 and standard deviation `scale`, float64
        of the shape `size` (Box and Muller 1958).
        """
        # Each number takes two words, from an even one on.
        first = -(-self._drawn // 2)
        many = int(np.prod(size, dtype=np.int64))
        self._drawn = 2 * (first + many)
        return scale * normal_range(np.uint64(self._key), first, many).reshape(size)

    def permutation(self, n: int) -> Int64Array:
        """Returns 0 .. n - 1 in random order, int64 [n]."""
        return np.argsort(self.bits(n), kind="stable")


def _mixed(z: UInt64Array) -> UInt64Array:
    """Applies `core.keys.mix` to many words."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: UInt64Array = z ^ (z >> np.uint64(31))
    return mixed


def generator(key: int | np.uint64) -> Generator:
    """Returns random numbers under a key, such as the one that `local` receives with the number of
    the user: `generator(fold_name(key, user))`.

    >>> generator(7).integers(100, 3).tolist() == generator(7).integers(100, 3).tolist()
    True
    """
    return Generator(key)


def negatives(draws: Generator, history: Array, items: int, size: int) -> Int32Array:
    """Draws items without an interaction, each as likely as any other, with repeats: int32 [size].

    Args:
        draws: the source of the numbers.
        history: the items that the user has, ascending, each once
            (`histories.avoid[avoid_ptr[d]:avoid_ptr[d + 1]]` of a device d).
        items: the number of all items.
        size: the number of items to draw.

    Raises:
        InputError: if the user has every item, so that there is none to draw.

    >>> negatives(generator(1), np.array([0, 2]), 4, 5).tolist()
    [3, 3, 3, 1, 1]
    """
    left = items - len(history)
    if left < 1:
        raise InputError(
            "negatives",
            f"the history holds all {items} items",
            expected="an item that is not in it",
        )
    # The number of items before each that are not in the history.
    gaps = np.asarray(history, np.int64) - np.arange(len(history))
    chosen = draws.integers(left, size)
    passed = np.searchsorted(gaps, chosen, side="right")
    return (chosen + passed).astype(np.int32)
