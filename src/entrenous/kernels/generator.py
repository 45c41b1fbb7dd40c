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
    (core/keys.py), whatever the platform or the version of NumPy."""

    def __init__(self, key: int | np.uint64) -> None:
        self._key, self._drawn = int(key) & MASK, 0

    def bits(self, size: Size) -> UInt64Array:
        """The next 64-bit words, uint64 of the shape `size`."""
        many = int(np.prod(size, dtype=np.int64))
        counters = np.arange(self._drawn + 1, self._drawn + many + 1, dtype=np.uint64)
        self._drawn += many
        return _mixed(np.uint64(self._key) + counters * np.uint64(GOLDEN)).reshape(size)

    def uniform(self, size: Size) -> Float64Array:
        """Numbers from 0 to below 1, float64 of the shape `size`."""
        return (self.bits(size) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def integers(self, below: int, size: Size) -> Int64Array:
        """Whole numbers from 0 to `below` - 1, int64 of the shape `size`; 1 <= below < 2^32."""
        if not 1 <= below < 1 << 32:
            raise InputError("generator.integers", f"below is {below}", expected="1 to 2^32 - 1")
        return ((self.bits(size) >> np.uint64(32)) * np.uint64(below) >> np.uint64(32)).astype(
            np.int64
        )

    def normal(self, size: Size, scale: float = 1.0) -> Float64Array:
        """Normally distributed numbers with mean 0 and standard deviation `scale`, float64 of the
        shape `size` (Box and Muller 1958).
        """
        first = -(-self._drawn // 2)
        many = int(np.prod(size, dtype=np.int64))
        self._drawn = 2 * (first + many)  # two words for each number
        return scale * normal_range(np.uint64(self._key), first, many).reshape(size)

    def permutation(self, n: int) -> Int64Array:
        """0 .. n - 1 in random order, int64 [n]."""
        return np.argsort(self.bits(n), kind="stable")


def _mixed(z: UInt64Array) -> UInt64Array:
    """`core.keys.mix` of many words."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: UInt64Array = z ^ (z >> np.uint64(31))
    return mixed


def generator(key: int | np.uint64) -> Generator:
    """Random numbers under a key, such as the one that `local` receives with the user's number:
    `generator(fold_name(key, user))`.

    >>> generator(7).integers(100, 3).tolist() == generator(7).integers(100, 3).tolist()
    True
    """
    return Generator(key)


def negatives(draws: Generator, history: Array, items: int, size: int) -> Int32Array:
    """Items without an interaction, each as likely as any other, with repeats: int32 [size].

    Args: draws: where the numbers come from. history: what the user has, ascending, each item once
        (`histories.avoid[avoid_ptr[d]:avoid_ptr[d + 1]]` of a device d). items: how many items
        there are. size: how many to draw.

    Raises:
        InputError: where the user has every item, so that there is none to draw.

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
    gaps = np.asarray(history, np.int64) - np.arange(
        len(history)
    )  # how many items before each are not in the history
    chosen = draws.integers(left, size)
    return (chosen + np.searchsorted(gaps, chosen, side="right")).astype(np.int32)
