"""Randomness derived from names, never from a stateful generator.

A *key* is 64 bits made from names: `key(seed, "round", 3)`. Draw number `c` of a key is a pure
function of both, so a device draws the same numbers in a simulation, on another thread and behind a
socket, whatever was drawn elsewhere. The mixing function is the finaliser of SplitMix64 (Steele,
Lea & Flood 2014), which passes BigCrush as a counter-based generator.
"""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np

from .compiling import njit
from .elementary import cos, ln
from .types import UInt64Array

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
# The same constants as 64-bit words, which numba treats as compile-time values.
_GOLDEN = np.uint64(GOLDEN)
_M1 = np.uint64(0xBF58476D1CE4E5B9)
_M2 = np.uint64(0x94D049BB133111EB)
_S30 = np.uint64(30)
_S27 = np.uint64(27)
_S31 = np.uint64(31)
_S32 = np.uint64(32)
_S11 = np.uint64(11)
_ONE = np.uint64(1)


def key(seed: int, *names: int | str) -> np.uint64:
    """Returns the key of `names` under `seed`. Integers and strings may be mixed; order matters.

    >>> first = key(0, "round", 1)
    >>> bool(first == key(0, "round", 1)), bool(first == key(0, "round", 2))
    (True, False)
    """
    return fold_name(np.uint64(_mix_int(seed & MASK)), *names)


def fold_name(parent: np.uint64, *names: int | str) -> np.uint64:
    """Returns the key of further `names` under a key.

    >>> bool(fold_name(key(0, "a"), "b") == key(0, "a", "b"))
    True
    """
    value = int(parent)
    for name in names:
        value = _fold_int(value, _word(name))
    return np.uint64(value)


def _word(name: int | str) -> int:
    """Returns a name as 64 bits: integers as they are, text by a cryptographic hash."""
    if isinstance(name, str):
        digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
        return int.from_bytes(digest, "little")
    return int(name) & MASK


def _fold_int(value: int, word: int) -> int:
    """Folds a word into a key, as `fold` does in compiled kernels."""
    mixed = _mix_int((word + GOLDEN) & MASK)
    return _mix_int(((value ^ mixed) + GOLDEN) & MASK)


def _mix_int(z: int) -> int:
    """Mixes a word, as `mix` does in compiled kernels."""
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


@njit(cache=True, inline="always")
def mix(z: np.uint64) -> np.uint64:
    """Applies the finaliser of SplitMix64: a bijection of 64-bit words in which every output bit
    depends on every input bit.
    """
    z = (z ^ (z >> _S30)) * _M1
    z = (z ^ (z >> _S27)) * _M2
    return z ^ (z >> _S31)


@njit(cache=True, inline="always")
def fold(parent: np.uint64, name: int | np.integer) -> np.uint64:
    """Returns the key of integer `name` under `parent`: the compiled form of `fold_name`."""
    # Without the constant, the name 0 would leave the key 0 as it is.
    mixed = mix(np.uint64(name) + _GOLDEN)
    return mix((parent ^ mixed) + _GOLDEN)


_SELECT = np.uint64(_word("select"))
_LOCAL = np.uint64(_word("local"))


@njit(cache=True)
def select_key(rounds: np.uint64, number: int) -> np.uint64:
    """Returns the key with which the server chooses the cohort of round `number`; `rounds` is the
    key of the run for its rounds.
    """
    return fold(fold(rounds, number), _SELECT)


@njit(cache=True)
def local_key(rounds: np.uint64, number: int) -> np.uint64:
    """Returns the key of the work of devices in round `number`; device u draws from
    `fold(local_key, u)`.
    """
    return fold(fold(rounds, number), _LOCAL)


@njit(cache=True, inline="always")
def draw(parent: np.uint64, counter: int) -> np.uint64:
    """Returns 64 random bits: draw number `counter` (>= 0) of a key."""
    return mix(parent + (np.uint64(counter) + _ONE) * _GOLDEN)


def draws(parent: np.uint64, n: int) -> UInt64Array:
    """Returns the first n draws of a key, uint64 [n]."""
    # In NumPy: to load compiled code would take longer, and the first call comes before any other.
    counted: Any = parent + np.arange(1, n + 1, dtype=np.uint64) * _GOLDEN
    mix_plainly = getattr(mix, "py_func", mix)
    words: Any = mix_plainly(counted)
    return words


@njit(cache=True, inline="always")
def below(bits: np.uint64, n: int) -> int:
    """Returns an integer in [0, n) from random bits, n < 2^32; the bias is under n / 2^32."""
    # The upper half, a fraction of 2^32, times n. An int to its callers.
    return np.int64(((bits >> _S32) * np.uint64(n)) >> _S32)  # type: ignore[return-value]


@njit(cache=True, inline="always")
def uniform(bits: np.uint64) -> float:
    """Returns a float64 in [0, 1) from random bits, on a grid of 2^-53."""
    return np.float64(bits >> _S11) * (1.0 / 9007199254740992.0)


@njit(cache=True)
def normal(parent: np.uint64, counter: int) -> float:
    """Returns a standard normal float64 (Box and Muller 1958) from draws `2 counter` and `2 counter
    + 1` of the key.
    """
    first = uniform(draw(parent, 2 * counter))
    second = uniform(draw(parent, 2 * counter + 1))
    # `first` may be 0 and is never 1.
    radius = math.sqrt(-2.0 * ln(1.0 - first))
    return radius * cos(6.283185307179586 * second)


@njit(cache=True, nogil=True)
def normal_range(parent: np.uint64, first: int, many: int) -> np.ndarray:
    """Returns standard normal numbers of one key, number `first` to `first + many - 1`: float64
    [many].
    """
    out = np.empty(many, np.float64)
    for c in range(many):
        out[c] = normal(parent, first + c)
    return out


@njit(cache=True, nogil=True)
def normals(keys: UInt64Array, width: int, scale: float) -> np.ndarray:
    """Returns N(0, scale^2) float32 [len(keys), width]; row r depends on keys[r] alone."""
    out = np.empty((len(keys), width), np.float32)
    for r in range(len(keys)):
        for f in range(width):
            out[r, f] = np.float32(scale * normal(keys[r], f))
    return out


@njit(cache=True, nogil=True)
def folds(parent: np.uint64, names: np.ndarray) -> np.ndarray:
    """Returns the keys of many integer names under one key, uint64 [len(names)]."""
    out = np.empty(len(names), np.uint64)
    for r in range(len(names)):
        out[r] = fold(parent, names[r])
    return out


@njit(cache=True, nogil=True)
def folded(keys: UInt64Array, names: np.ndarray) -> np.ndarray:
    """Returns the key of names[r] under keys[r], uint64 [len(keys)]."""
    out = np.empty(len(keys), np.uint64)
    for r in range(len(keys)):
        out[r] = fold(keys[r], names[r])
    return out


def named(keys: UInt64Array, *names: str) -> UInt64Array:
    """The key of some names under each of many keys, uint64 [len(keys)]."""
    word = fold_name(np.uint64(0), *names)
    own: UInt64Array = folded(keys, np.full(len(keys), word, np.uint64))
    return own


@njit(cache=True, nogil=True)
def uniforms(keys: UInt64Array) -> np.ndarray:
    """Returns a float64 in [0, 1) from each key, its draw 0: float64 [len(keys)]."""
    out = np.empty(len(keys), np.float64)
    for r in range(len(keys)):
        out[r] = uniform(draw(keys[r], 0))
    return out
