"""Generalised matrix factorisation on a peer that receives a model: PEPPER's algorithm 2, one node after the other.

Algorithm 2 judges both models, merges them and trains the result. Step by step for many nodes, each step reads their models from memory
again: 54 kB each for the items of MovieLens-100K. Here all of it is done for one node before the next, while its two models lie in the
cache. The outcome is the same to the last bit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from ..core.gossip_node import merge_one
from ..core.simd import inside
from ..core.types import BoolArray, Float32Array, Float64Array, Int32Array, Int64Array, UInt64Array
from .gmf_node import GMFPrivate, GMFRates, judge, learn, training_room


class ShareRule(NamedTuple):
    """How two performances become the share of a received model. half: whether that is one half, whatever they are; least: nothing is
    taken of a model that does less than this times as well as the own one; ranked: whether P is HR x NDCG, not HR."""

    half: bool
    least: float
    ranked: bool


class ModelsToMerge(NamedTuple):
    """Models that m nodes received, as in `Arrivals`, and the key of each for its training."""

    who: Int64Array
    own: Int64Array
    received: Int64Array
    into: Int64Array
    keys: UInt64Array


class GMFRows(NamedTuple):
    """The rows of all nodes: `item` trained on, `avoid` never drawn, `weighing` that weigh, each among its `candidates`; as in
    `Histories` and `Weighing`."""

    ptr: Int64Array
    item: Int32Array
    avoid_ptr: Int64Array
    avoid: Int32Array
    weighing_ptr: Int64Array
    weighing: Int32Array
    candidates: Int32Array


@inside
def share_of(p_x: float, p_i: float, few: bool, least: float) -> float:
    """The share of a received model that does p_x, beside the own one that does p_i; half where too few rows weigh, 0 where both fail."""
    if few:
        return 0.5
    return p_x / (p_i + p_x) if p_i + p_x > 0 and not p_x < least * p_i else 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def judge_merge_train(
    pool: Float32Array,
    arrived: ModelsToMerge,
    private: GMFPrivate,
    rows: GMFRows,
    shares: ShareRule,
    discount: Float64Array,
    rates: GMFRates,
    items: int,
    factors: int,
) -> tuple[Float64Array, BoolArray]:
    """Merges the model that each of m nodes received by how well it does, and trains the result on the node's rows (PEPPER, algorithm 2).

    discount: of the places of a list, as long as HR and NDCG count. Writes to pool[into] and the nodes' private state. Returns the
    performances of what was received, float64 [m], and which nodes trained, bool [m]: all but those to which both models fail."""
    m, room = len(arrived.who), training_room(items, factors)
    p, trained = np.zeros(m, np.float64), np.zeros(m, np.bool_)
    for d in range(m):
        u = arrived.who[d]
        mine, theirs, out = pool[arrived.own[d]], pool[arrived.received[d]], pool[arrived.into[d]]
        user, low, high = private.user[u], rows.weighing_ptr[u], rows.weighing_ptr[u + 1]
        hr_x, ndcg_x = judge(theirs, user, low, high, rows.weighing, rows.candidates, discount, factors, room.score)
        hr_i, ndcg_i = judge(mine, user, low, high, rows.weighing, rows.candidates, discount, factors, room.score)
        p_x, p_i = (hr_x * ndcg_x, hr_i * ndcg_i) if shares.ranked else (hr_x, hr_i)
        few = shares.half or high - low < 2
        merge_one(mine, theirs, np.float32(share_of(p_x, p_i, few, shares.least)), out)
        p[d], trained[d] = p_x, few or p_i + p_x > 0
        if trained[d]:
            own, avoided = rows.item[rows.ptr[u] : rows.ptr[u + 1]], rows.avoid[rows.avoid_ptr[u] : rows.avoid_ptr[u + 1]]
            learn(out, private, u, own, avoided, rates, items, factors, arrived.keys[d], room)
    return p, trained
