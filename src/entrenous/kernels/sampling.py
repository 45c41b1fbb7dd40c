"""Choosing devices for a round."""

from __future__ import annotations

import numpy as np
from numba import njit

from ..core.keys import below, draw, fold, folds
from ..core.types import Int64Array


@njit(cache=True)
def one_of(key: np.uint64, users: int) -> int:
    """A user number below `users`, drawn uniformly at random from `key`."""
    return below(draw(key, 0), users)


def cohort(key: np.uint64, size: int, users: int) -> Int64Array:
    """Draw `size` distinct users from `users`, uniformly at random, in ascending order. One user
    costs O(1), more cost O(users)."""
    if size >= users:
        return np.arange(users)
    if size == 1:
        return np.array([one_of(key, users)], np.int64)
    return np.sort(np.argsort(folds(key, np.arange(users)), kind="stable")[:size])


@njit(cache=True)
def shuffled(key: np.uint64, t: int, n: int) -> int:
    """What stands at place t (0 <= t < n) of a random order of 0 .. n - 1 that the key names, n <
    2^32, without making the order: a Feistel network of four rounds over the next power of 4,
    walked until it is below n.
    """
    half = np.uint64(1)
    while np.int64(1) << (np.int64(2) * np.int64(half)) < n:
        half += np.uint64(1)
    mask = (np.uint64(1) << half) - np.uint64(1)
    x = np.uint64(t)
    while True:
        left = x >> half
        right = x & mask
        for number in range(4):
            left, right = right, left ^ (draw(fold(key, number), np.int64(right)) & mask)  # type: ignore[arg-type]
        x = (left << half) | right
        if x < np.uint64(n):
            return np.int64(x)  # type: ignore[return-value]  # an int to its callers


def in_turns(key: np.uint64, first: int, size: int, turns: Int64Array) -> Int64Array:
    """The users whose turns are `first` .. first + size - 1 of a random order of all turns,
    ascending, each once. The order begins anew after the last. turns: int64 [users], how many each
    user has in an order; one each where nobody has any.
    """
    ends = np.cumsum(turns if turns.any() else np.ones_like(turns))
    return np.unique(np.searchsorted(ends, _places(key, first, size, int(ends[-1])), side="right"))


@njit(cache=True)
def _places(key: np.uint64, first: int, size: int, n: int) -> Int64Array:
    out = np.empty(size, np.int64)
    for k in range(size):
        out[k] = shuffled(key, (first + k) % n, n)
    return out
