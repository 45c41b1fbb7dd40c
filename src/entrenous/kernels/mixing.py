"""Models of peers: whether to take one at all, how well it ranks a node's weighting set, and the average with one's own."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from ..core.gossip import ACCEPTED, NOT_FINITE, TOO_LARGE, WRONG_LENGTH
from ..core.simd import inside
from ..core.types import Float32Array, Float64Array, Int8Array, Int32Array, Int64Array


@njit(cache=True, nogil=True, error_model="numpy")
def refusals(pool: Float32Array, received: Int64Array, length: Int64Array, largest: float) -> Int8Array:
    """Why each received model is not taken, int8 [m]: ACCEPTED, WRONG_LENGTH, NOT_FINITE, or TOO_LARGE for a number beyond `largest`."""
    out, width, bound = np.full(len(received), ACCEPTED, np.int8), pool.shape[1], np.float32(largest)
    for d in range(len(received)):
        if length[d] != width:
            out[d] = WRONG_LENGTH
            continue
        model, beyond = pool[received[d]], 0
        for f in range(width):
            beyond += not (abs(model[f]) <= bound)  # also of what is not a number
        if beyond:
            out[d] = TOO_LARGE
            for f in range(width):
                if not math.isfinite(model[f]):
                    out[d] = NOT_FINITE
    return out


@njit(cache=True, nogil=True, error_model="numpy")
def merge(pool: Float32Array, own: Int64Array, received: Int64Array, into: Int64Array, share: Float32Array) -> None:
    """pool[into] = pool[own] + share (pool[received] - pool[own]) for each of m nodes; two models that are the same stay what they are."""
    for d in range(len(own)):
        mine, theirs, out, weight = pool[own[d]], pool[received[d]], pool[into[d]], share[d]
        for f in range(len(out)):
            out[f] = mine[f] + weight * (theirs[f] - mine[f])


@njit(cache=True, nogil=True)
def discounts(n: int) -> Float64Array:
    """log 2 / log(p + 2) for the places p = 0 .. n - 1, float64 [n] (PEPPER, eq. 5)."""
    out = np.empty(n, np.float64)
    for p in range(n):
        out[p] = math.log(2.0) / math.log(p + 2.0)
    return out


@inside
def place(score: Float32Array, item: int, candidates: Int32Array) -> int:
    """How many candidates are not behind the item: its place p, from 0; equal scores count against it."""
    own, p = score[item], 0
    for c in range(len(candidates)):
        other = candidates[c]
        p += other >= 0 and not (score[other] < own)
    return p
