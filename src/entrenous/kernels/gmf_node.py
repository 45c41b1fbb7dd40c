"""Generalised matrix factorisation on one peer that holds a whole model: y_ui = sigmoid(h . (p_u *
q_i) + c), as in He et al. 2017 (section 3.2). Here are the layout of a model, its scores and its
performance; kernels/gmf_train.py trains it.

A model is one row of float32: Q by factor, [factors, stride], then h [factors], then c. Q is stored
by factor because every pass over the items then reads numbers that lie side by side: a node judges,
merges and trains at the speed of its memory. The user vector p is not part of the row: it never
leaves the node.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np

from ..core.compiling import njit
from ..core.contract.declarations import axes
from ..core.contract.gossip import Weighing
from ..core.lanes.memory import padded
from ..core.lanes.simd import LANES, every, inside, load, store
from ..core.types import Float32Array, Float64Array, Int32Array, Int64Array


class GMFShape(NamedTuple):
    """The layout of a GMF model in one row of numbers."""

    items: int
    factors: int
    stride: int
    """The number of items, rounded up to whole lanes."""
    width: int
    """How many numbers a row has."""


class GMFPrivate(NamedTuple):
    """The private state of nodes, which never leaves them; the leading axis of each array is nodes.
    The squares are running means of squared gradients.
    """

    user: Annotated[Float32Array, axes("factors")]
    """User vectors p."""
    item_square: Annotated[Float32Array, axes("stride")]
    """One number for each item's vector."""
    user_square: Annotated[Float32Array, axes()]
    """One number for the user vector."""
    output_square: Annotated[Float32Array, axes()]
    """One number for h and c together."""
    steps: Annotated[Int64Array, axes(least=0)]
    """The number of steps that a node has made."""


def shape_of(items: int, factors: int) -> GMFShape:
    """Returns the layout of a model for so many items and factors."""
    stride = padded(items)
    width = factors * stride + padded(factors + 1)
    return GMFShape(items, factors, stride, width)


@inside
def model_scores(
    model: Float32Array, user: Float32Array, shape: GMFShape, out: Float32Array
) -> None:
    """Writes the scores c + sum_k h_k p_k Q_k of all items to `out`, float32 [stride]."""
    output = shape.factors * shape.stride
    # Sixteen items at a time, so that their scores stay in a register.
    for i in range(0, shape.stride, LANES):
        lanes = every(model[output + shape.factors])
        for k in range(shape.factors):
            weight = every(model[output + k] * user[k])
            lanes = lanes + weight * load(model, k * shape.stride + i)
        store(out, i, lanes)


@njit(cache=True, nogil=True, error_model="numpy")
def scores(
    pool: Float32Array, at: Int64Array, user: Float32Array, who: Int64Array, shape: GMFShape
) -> Float32Array:
    """Returns the scores of every item for the users of nodes `who` by the models pool[at], float32
    [m, items]: logits of y_ui.
    """
    out = np.empty((len(at), shape.items), np.float32)
    row = np.empty(shape.stride, np.float32)
    for d in range(len(at)):
        model_scores(pool[at[d]], user[who[d]], shape, row)
        # As a slice it would take seconds to compile.
        for i in range(shape.items):
            out[d, i] = row[i]
    return out


# ---- how well a model does -----------------------------------------------------------------------


@njit(cache=True, nogil=True)
def discounts(n: int) -> Float64Array:
    """Returns the discounts log 2 / log(p + 2) of places p = 0 .. n - 1, float64 [n] (PEPPER, eq.
    5).
    """
    out = np.empty(n, np.float64)
    for p in range(n):
        out[p] = math.log(2.0) / math.log(p + 2.0)
    return out


@inside
def place(score: Float32Array, item: int, candidates: Int32Array) -> int:
    """Returns the place of an item among candidates, from 0: the number of candidates that are not
    behind it. Equal scores count against it: a constant score must not look good.
    """
    own = score[item]
    ahead = 0
    for c in range(len(candidates)):
        other = candidates[c]
        ahead += other >= 0 and not (score[other] < own)
    return ahead


@njit(cache=True, nogil=True, error_model="numpy")
def performance(
    pool: Float32Array,
    at: Int64Array,
    user: Float32Array,
    who: Int64Array,
    sets: Weighing,
    discount: Float64Array,
    shape: GMFShape,
) -> tuple[Float64Array, Float64Array]:
    """Returns HR and NDCG at n = len(discount) of the models pool[at] on the nodes' weighting sets,
    float64 [m] each (PEPPER, eq. 4 and 5): the means over a node's weighting items, each among its
    candidates; 0 without any.
    """
    hr = np.zeros(len(at))
    ndcg = np.zeros(len(at))
    row = np.empty(shape.stride, np.float32)
    for d in range(len(at)):
        u = who[d]
        hr[d], ndcg[d] = judge(pool[at[d]], user[u], u, sets, discount, shape, row)
    return hr, ndcg


@inside
def judge(
    model: Float32Array,
    user: Float32Array,
    u: int,
    sets: Weighing,
    discount: Float64Array,
    shape: GMFShape,
    score: Float32Array,
) -> tuple[float, float]:
    """Returns HR and NDCG at n = len(discount) of one model on the weighting set of node u. Leaves
    the model's scores in `score`.
    """
    low = sets.ptr[u]
    high = sets.ptr[u + 1]
    n = high - low
    hr = 0.0
    ndcg = 0.0
    # A node without weighting items needs no scores.
    if n > 0:
        model_scores(model, user, shape, score)
    for r in range(low, high):
        p = place(score, sets.item[r], sets.candidates[r])
        # An item behind the end of the list counts nothing.
        if p < len(discount):
            hr += 1 / n
            ndcg += discount[p] / n
    return hr, ndcg
