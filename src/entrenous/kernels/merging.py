"""Models of other nodes: the refusal of unsound ones, the merge of one into the node's own, and the
likeness of two models.

Every gossip algorithm and the judging loop of GMF call these; a model is one float32 row.
"""

from __future__ import annotations

import math

import numpy as np

from ..core.compiling import njit
from ..core.contract.gossip import ACCEPTED, NOT_FINITE, TOO_LARGE, UNSEEN, WRONG_LENGTH
from ..core.lanes.simd import LANES, every, inside, load, store
from ..core.types import Float32Array, Float64Array, Int8Array, Int64Array


@njit(cache=True, nogil=True, error_model="numpy")
def refusals(
    pool: Float32Array, received: Int64Array, length: Int64Array, largest: float, numbers: Int8Array
) -> Int8Array:
    """Returns the reason for refusing each received model, int8 [m]: ACCEPTED, WRONG_LENGTH,
    NOT_FINITE, or TOO_LARGE for a number beyond `largest`. numbers: int8 [slots], as in `Arrivals`;
    UNSEEN models are looked at, and the verdict is noted there.
    """
    out = np.full(len(received), WRONG_LENGTH, np.int8)
    for d in range(len(received)):
        if length[d] != pool.shape[1]:
            continue
        # A model that was pushed to several nodes is looked at once.
        slot = received[d]
        if numbers[slot] == UNSEEN:
            numbers[slot] = wrong(pool[slot], np.float32(largest))
        out[d] = numbers[slot]
    return out


@njit(cache=True, nogil=True, error_model="numpy")
def wrong(model: Float32Array, largest: np.float32) -> int:
    """Returns NOT_FINITE, TOO_LARGE for a number beyond `largest`, or ACCEPTED."""
    # One pass without a jump for models that are sound, as nearly all are. A NaN is not at most
    # anything.
    beyond = np.int32(0)
    for f in range(len(model)):
        beyond |= np.int32(not (abs(model[f]) <= largest))
    if not beyond:
        return ACCEPTED
    for f in range(len(model)):
        if not math.isfinite(model[f]):
            return NOT_FINITE
    return TOO_LARGE


@njit(cache=True, nogil=True, error_model="numpy")
def merge(
    pool: Float32Array, own: Int64Array, received: Int64Array, into: Int64Array, share: Float32Array
) -> None:
    """Merges models in place, pool[into] = pool[own] + share (pool[received] - pool[own]) for each
    of m nodes; two equal models stay as they are.
    """
    for d in range(len(own)):
        merge_one(pool[own[d]], pool[received[d]], share[d], pool[into[d]])


@inside
def merge_one(
    mine: Float32Array, theirs: Float32Array, share: np.float32, out: Float32Array
) -> None:
    """Writes mine + share (theirs - mine) to `out`, which may be `mine`."""
    # LANES at a time by hand: since `out` may be `mine`, a compiler must go one by one.
    lanes = every(share)
    whole = len(out) - len(out) % LANES
    for f in range(0, whole, LANES):
        own = load(mine, f)
        store(out, f, own + lanes * (load(theirs, f) - own))
    for f in range(whole, len(out)):
        out[f] = mine[f] + share * (theirs[f] - mine[f])


@njit(cache=True, nogil=True, error_model="numpy")
def cosines(vectors: Float32Array, one: Int64Array, other: Int64Array) -> Float64Array:
    """Returns the cosine between the item vectors of two models, taken as one long vector each,
    float64 [m]; 0 where one of them is 0. vectors: of all models, [slots, items, numbers]; one,
    other: their slots, [m].
    """
    out = np.zeros(len(one), np.float64)
    for d in range(len(one)):
        a = vectors[one[d]]
        b = vectors[other[d]]
        both = of_a = of_b = 0.0
        for i in range(a.shape[0]):
            for f in range(a.shape[1]):
                x = float(a[i, f])
                y = float(b[i, f])
                both = both + x * y
                of_a = of_a + x * x
                of_b = of_b + y * y
        if of_a > 0 and of_b > 0:
            out[d] = both / math.sqrt(of_a * of_b)
    return out
