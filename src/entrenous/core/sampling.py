"""Choosing devices for a round."""

from __future__ import annotations

import numpy as np
from numba import njit

from .keys import below, draw, folds
from .types import Int64Array


@njit(cache=True)
def one_of(key: np.uint64, users: int) -> int:
    """A user number below `users`, drawn uniformly at random from `key`."""
    return below(draw(key, 0), users)


def cohort(key: np.uint64, size: int, users: int) -> Int64Array:
    """Draw `size` distinct users from `users`, uniformly at random, in ascending order. One user costs O(1), more cost
    O(users)."""
    if size >= users:
        return np.arange(users)
    if size == 1:
        return np.array([one_of(key, users)], np.int64)
    return np.sort(np.argsort(folds(key, np.arange(users)), kind="stable")[:size])
