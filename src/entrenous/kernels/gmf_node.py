"""Generalised matrix factorisation on one peer: y_ui = sigmoid(h . (p_u * q_i) + c), as He et al.
2017 (section 3.2) define it, on a node that holds a whole model of its own: its layout, its scores,
and how well it does. kernels/gmf_train.py trains it.

A model is one row of float32: Q by factor, [factors, stride], then h [factors], then c. By factor,
because every pass over the items then reads what lies side by side: a node judges, merges and
trains at the speed of its memory. The user vector p is not part of the row: it never leaves the
node.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np
from numba import njit

from ..core.contract.declarations import axes
from ..core.lanes.simd import LANES, every, inside, load, padded, store
from ..core.types import Float32Array, Float64Array, Int32Array, Int64Array


class GMFShape(NamedTuple):
    """The layout of a GMF model in one row of numbers. stride: items, rounded up; width: numbers in
    a row.
    """

    items: int
    factors: int
    stride: int
    width: int


class GMFPrivate(NamedTuple):
    """The private state of nodes, which never leaves them; the leading axis of each array is nodes.
    user: their user vectors; item_square, user_square, output_square: running mean squares of
    gradients, of each item's vector, the user vector, the output layer; steps: that a node has
    made.
    """

    user: Annotated[Float32Array, axes("factors")]
    item_square: Annotated[Float32Array, axes("stride")]
    user_square: Annotated[Float32Array, axes()]
    output_square: Annotated[Float32Array, axes()]
    steps: Annotated[Int64Array, axes(least=0)]


def shape_of(items: int, factors: int) -> GMFShape:
    """The layout of a model for so many items and factors."""
    return GMFShape(items, factors, padded(items), factors * padded(items) + padded(factors + 1))


@inside
def model_scores(
    model: Float32Array, user: Float32Array, factors: int, stride: int, out: Float32Array
) -> None:
    """Writes the scores c + sum_k h_k p_k Q_k of all items to `out`, float32 [stride]."""
    output = factors * stride
    for i in range(0, stride, LANES):
        lanes = every(model[output + factors])
        for k in range(factors):
            lanes = lanes + every(model[output + k] * user[k]) * load(model, k * stride + i)
        store(out, i, lanes)


@njit(cache=True, nogil=True, error_model="numpy")
def scores(
    pool: Float32Array,
    at: Int64Array,
    user: Float32Array,
    who: Int64Array,
    items: int,
    factors: int,
) -> Float32Array:
    """Scores of every item for the users of nodes `who` by the models pool[at], float32 [m, items]:
    logits of y_ui.
    """
    stride = -(-items // LANES) * LANES
    out, row = np.empty((len(at), items), np.float32), np.empty(stride, np.float32)
    for d in range(len(at)):
        model_scores(pool[at[d]], user[who[d]], factors, stride, row)
        for i in range(items):  # as a slice it would take seconds to compile
            out[d, i] = row[i]
    return out


@njit(cache=True, nogil=True)
def discounts(n: int) -> Float64Array:
    """Discounts log 2 / log(p + 2) of the places p = 0 .. n - 1, float64 [n] (PEPPER, eq. 5)."""
    out = np.empty(n, np.float64)
    for p in range(n):
        out[p] = math.log(2.0) / math.log(p + 2.0)
    return out


@inside
def place(score: Float32Array, item: int, candidates: Int32Array) -> int:
    """The place p of an item among candidates, from 0: how many of them are not behind it; equal
    scores count against it.
    """
    own, p = score[item], 0
    for c in range(len(candidates)):
        other = candidates[c]
        p += other >= 0 and not (score[other] < own)
    return p


@njit(cache=True, nogil=True, error_model="numpy")
def performance(
    pool: Float32Array,
    at: Int64Array,
    user: Float32Array,
    who: Int64Array,
    ptr: Int64Array,
    item: Int32Array,
    candidates: Int32Array,
    discount: Float64Array,
    factors: int,
) -> tuple[Float64Array, Float64Array]:
    """HR and NDCG at n = len(discount) of the models pool[at] on the nodes' weighting sets, float64
    [m] each (PEPPER, eq. 4 and 5): the means over a node's weighting items, each among its
    candidates; 0 without any.
    """
    stride = (pool.shape[1] - (factors + LANES) // LANES * LANES) // factors
    hr, ndcg, row = np.zeros(len(at)), np.zeros(len(at)), np.empty(stride, np.float32)
    for d in range(len(at)):
        u = who[d]
        hr[d], ndcg[d] = judge(
            pool[at[d]], user[u], ptr[u], ptr[u + 1], item, candidates, discount, factors, row
        )
    return hr, ndcg


@inside
def judge(
    model: Float32Array,
    user: Float32Array,
    low: int,
    high: int,
    item: Int32Array,
    candidates: Int32Array,
    discount: Float64Array,
    factors: int,
    score: Float32Array,
) -> tuple[float, float]:
    """HR and NDCG at n = len(discount) of one model on the weighting rows low to high, by the
    scores that it leaves in `score`.
    """
    hr, ndcg = 0.0, 0.0
    if high > low:
        model_scores(model, user, factors, len(score), score)
    for r in range(low, high):
        p = place(score, item[r], candidates[r])
        if p < len(discount):
            hr += 1 / (high - low)
            ndcg += discount[p] / (high - low)
    return hr, ndcg


@njit(cache=True, nogil=True, error_model="numpy")
def leads(
    pool: Float32Array,
    own: Int64Array,
    received: Int64Array,
    user: Float32Array,
    who: Int64Array,
    ptr: Int64Array,
    item: Int32Array,
    candidates: Int32Array,
    items: int,
    factors: int,
) -> tuple[Float64Array, Float64Array, Float64Array]:
    """How the models pool[received] rank the nodes' weighting items against pool[own]: the mean
    share of candidates behind an item, by how much it is larger than the own model's, and the
    variance of that mean; float64 [m] each, 0 without two items.

    The variance is that of the differences, row by row, and of a place in so many candidates: two
    equal rows are no certainty.
    """
    stride = -(-items // LANES) * LANES
    ahead, lead, variance = np.zeros(len(who)), np.zeros(len(who)), np.zeros(len(who))
    mine, theirs = np.empty(stride, np.float32), np.empty(stride, np.float32)
    for d in range(len(who)):
        u = who[d]
        low, high = ptr[u], ptr[u + 1]
        n, squares, width = high - low, 0.0, candidates.shape[1]
        if n < 2:
            continue
        model_scores(pool[own[d]], user[u], factors, stride, mine)
        model_scores(pool[received[d]], user[u], factors, stride, theirs)
        for r in range(low, high):
            before, after = (
                place(mine, item[r], candidates[r]) / width,
                place(theirs, item[r], candidates[r]) / width,
            )
            ahead[d] += (1 - after) / n
            lead[d] += (before - after) / n
            squares += (before - after) ** 2
        variance[d] = (max(0.0, squares - n * lead[d] ** 2) / (n - 1) + 1.0 / width**2) / n
    return ahead, lead, variance
