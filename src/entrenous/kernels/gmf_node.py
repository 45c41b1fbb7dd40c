"""Generalised matrix factorisation on one peer: y_ui = sigmoid(h . (p_u * q_i) + c), as He et al. 2017 (section 3.2) define it, learnt
by a node that holds a whole model of its own.

A model is one row of float32: Q by factor, [factors, stride], then h [factors], then c. By factor, because every pass over the items
then reads what lies side by side: a node judges, merges and trains at the speed of its memory. The user vector p is not part of the row:
it never leaves the node.

One local epoch is one step along the mean gradient of all samples (the history and `negatives` others for each of its items), which
for item i is (the sum of its errors) times p * h. So a step needs one number for each item. Its length is divided by a running root
mean square of the item's gradients (RMSprop, Tieleman & Hinton 2012, with one number for each row, and Adam's correction of the start).
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np
from numba import njit

from ..core.contract import axes
from ..core.keys import below, draw, fold
from ..core.logistic import logistic
from ..core.negatives import count_gaps, fill_gaps
from ..core.simd import LANES, inside, load, padded, sum_of
from ..core.types import Float32Array, Float64Array, Int32Array, Int64Array, UInt64Array

DECAY, EPSILON, ONE = np.float32(0.999), np.float32(1e-7), np.float32(1)


class GMFShape(NamedTuple):
    """The layout of a GMF model in one row of numbers. stride: items, rounded up; width: numbers in a row."""

    items: int
    factors: int
    stride: int
    width: int


class GMFRates(NamedTuple):
    """Constants of a node's training: learning rates of item, user and output vectors; reg: the part by which a step shortens the
    vectors that it moves, for each unit of learning rate (decoupled, Loshchilov & Hutter 2019); decay: the learning rates of step t are
    divided by 1 + decay t; passes and negatives for each consumed item."""

    item: np.float32
    user: np.float32
    output: np.float32
    reg: np.float32
    decay: np.float32
    epochs: int
    negatives: int


class GMFPrivate(NamedTuple):
    """The private state of nodes, which never leaves them; the leading axis of each array is nodes. user: their user vectors;
    item_square, user_square, output_square: running mean squares of gradients, of each item's vector, the user vector, the output layer;
    steps: that a node has made."""

    user: Annotated[Float32Array, axes("factors")]
    item_square: Annotated[Float32Array, axes("stride")]
    user_square: Annotated[Float32Array, axes()]
    output_square: Annotated[Float32Array, axes()]
    steps: Annotated[Int64Array, axes(least=0)]


def shape_of(items: int, factors: int) -> GMFShape:
    """The layout of a model for so many items and factors."""
    return GMFShape(items, factors, padded(items), factors * padded(items) + padded(factors + 1))


@inside
def _scores(model: Float32Array, user: Float32Array, factors: int, stride: int, out: Float32Array) -> None:
    """c + sum_k h_k p_k Q_k into `out`, item by item."""
    output = factors * stride
    first = model[output + factors]
    for i in range(stride):
        out[i] = first
    for k in range(factors):
        weight, row = model[output + k] * user[k], model[k * stride : (k + 1) * stride]
        for i in range(stride):
            out[i] += weight * row[i]


@njit(cache=True, nogil=True, error_model="numpy")
def scores(pool: Float32Array, at: Int64Array, user: Float32Array, who: Int64Array, items: int, factors: int) -> Float32Array:
    """Scores of every item for the users of nodes `who` by the models pool[at], float32 [m, items]: logits of y_ui."""
    stride = -(-items // LANES) * LANES
    out, row = np.empty((len(at), items), np.float32), np.empty(stride, np.float32)
    for d in range(len(at)):
        _scores(pool[at[d]], user[who[d]], factors, stride, row)
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
    """The place p of an item among candidates, from 0: how many of them are not behind it; equal scores count against it."""
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
    """HR and NDCG at n = len(discount) of the models pool[at] on the nodes' weighting sets, float64 [m] each (PEPPER, eq. 4 and 5): the
    means over a node's weighting items, each among its candidates; 0 without any."""
    stride = (pool.shape[1] - (factors + LANES) // LANES * LANES) // factors
    hr, ndcg, row = np.zeros(len(at)), np.zeros(len(at)), np.empty(stride, np.float32)
    for d in range(len(at)):
        u = who[d]
        low, high = ptr[u], ptr[u + 1]
        if high > low:
            _scores(pool[at[d]], user[u], factors, stride, row)
        for r in range(low, high):
            p = place(row, item[r], candidates[r])
            if p < len(discount):
                hr[d] += 1 / (high - low)
                ndcg[d] += discount[p] / (high - low)
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
    """How the models pool[received] rank the nodes' weighting items against pool[own]: the mean share of candidates behind an item, by how
    much it is larger than the own model's, and the variance of that mean; float64 [m] each, 0 without two items.

    The variance is that of the differences, row by row, and of a place in so many candidates: two equal rows are no certainty."""
    stride = -(-items // LANES) * LANES
    ahead, lead, variance = np.zeros(len(who)), np.zeros(len(who)), np.zeros(len(who))
    mine, theirs = np.empty(stride, np.float32), np.empty(stride, np.float32)
    for d in range(len(who)):
        u = who[d]
        low, high = ptr[u], ptr[u + 1]
        n, squares, width = high - low, 0.0, candidates.shape[1]
        if n < 2:
            continue
        _scores(pool[own[d]], user[u], factors, stride, mine)
        _scores(pool[received[d]], user[u], factors, stride, theirs)
        for r in range(low, high):
            before, after = place(mine, item[r], candidates[r]) / width, place(theirs, item[r], candidates[r]) / width
            ahead[d] += (1 - after) / n
            lead[d] += (before - after) / n
            squares += (before - after) ** 2
        variance[d] = (max(0.0, squares - n * lead[d] ** 2) / (n - 1) + 1.0 / width**2) / n
    return ahead, lead, variance


@njit(cache=True, nogil=True, error_model="numpy")
def train(
    pool: Float32Array,
    at: Int64Array,
    private: GMFPrivate,
    who: Int64Array,
    ptr: Int64Array,
    item: Int32Array,
    avoid_ptr: Int64Array,
    avoid: Int32Array,
    rates: GMFRates,
    items: int,
    factors: int,
    keys: UInt64Array,
) -> None:
    """Trains the model pool[at[d]] of each node d in place on its own rows item[ptr[who[d]]:ptr[who[d] + 1]]."""
    stride = -(-items // LANES) * LANES
    score, error, step = np.empty(stride, np.float32), np.zeros(stride, np.float32), np.zeros(stride, np.float32)
    shrink = np.zeros(stride, np.float32)
    touched, toward = np.empty(stride, np.int32), np.empty(factors, np.float32)
    gaps = np.empty(stride + LANES, np.int32)
    for d in range(len(at)):
        u = who[d]
        own, avoided = item[ptr[u] : ptr[u + 1]], avoid_ptr[u + 1] - avoid_ptr[u]
        if len(own) == 0:
            continue
        model, user = pool[at[d]], private.user[u]
        fill_gaps(avoid, avoid_ptr[u], avoided, gaps)
        for epoch in range(rates.epochs):
            _scores(model, user, factors, stride, score)
            n = _errors(score, own, gaps, avoided, items, rates.negatives, fold(keys[d], epoch), error, touched)
            private.steps[u] += 1
            _step(model, user, private, u, rates, factors, stride, len(own), n, error, step, shrink, touched, toward)


@inside
def _errors(
    score: Float32Array,
    own: Int32Array,
    gaps: Int32Array,
    avoided: int,
    items: int,
    negatives: int,
    key: np.uint64,
    error: Float32Array,
    touched: Int32Array,
) -> int:
    """Adds sigmoid(y_ui) - y of every sample to its item's `error`, and lists the items `touched`. Returns how many."""
    n, left = 0, items - avoided
    for s in range(len(own)):
        i = own[s]
        error[i] = logistic(score[i]) - ONE
        touched[n] = i
        n += 1
    if left > 0:
        for s in range(len(own) * negatives):
            k = below(draw(key, s), left)
            j = k + count_gaps(gaps, avoided, k)
            if error[j] == 0:
                touched[n] = j
                n += 1
            error[j] += logistic(score[j])
    return n


@inside
def _step(
    model: Float32Array,
    user: Float32Array,
    private: GMFPrivate,
    u: int,
    rates: GMFRates,
    factors: int,
    stride: int,
    consumed: int,
    n: int,
    error: Float32Array,
    step: Float32Array,
    shrink: Float32Array,
    touched: Int32Array,
    toward: Float32Array,
) -> None:
    """One step of Q, p, h along the mean gradient; `error`, `step` and `shrink` are zero again afterwards."""
    output, each = factors * stride, np.float32(1.0 / (consumed * (1 + rates.negatives)))
    correct = np.float32(1.0 / (1.0 - math.pow(np.float64(DECAY), np.float64(private.steps[u]))))
    slower = ONE / (ONE + rates.decay * np.float32(private.steps[u]))
    item_pace, user_pace, output_pace = slower * rates.item, slower * rates.user, slower * rates.output
    size = np.float32(0)
    for k in range(factors):
        toward[k] = model[output + k] * user[k]
        size += toward[k] * toward[k]
    size /= np.float32(factors)
    squares, total = private.item_square[u], np.float32(0)
    for t in range(n):
        i = touched[t]
        g = error[i] * each
        total += g
        squares[i] = DECAY * squares[i] + (ONE - DECAY) * (g * g * size)
        step[i] = item_pace / (np.sqrt(squares[i] * correct) + EPSILON) * g
        shrink[i] = item_pace * rates.reg
    user_size, output_size = np.float32(0), np.float32(0)
    for k in range(factors):
        row, by = model[k * stride : (k + 1) * stride], toward[k]
        lanes = load(error, 0) * load(row, 0)
        for i in range(LANES, stride, LANES):
            lanes = lanes + load(error, i) * load(row, i)
        toward[k] = sum_of(lanes) * each  # from here on the gradient of p_k is h_k toward_k, that of h_k is p_k toward_k
        user_size += (model[output + k] * toward[k]) ** 2
        output_size += (user[k] * toward[k]) ** 2
        for i in range(stride):
            row[i] -= shrink[i] * row[i] + step[i] * by
    for t in range(n):
        error[touched[t]] = 0
        step[touched[t]] = 0
        shrink[touched[t]] = 0
    private.user_square[u] = DECAY * private.user_square[u] + (ONE - DECAY) * (user_size / np.float32(factors))
    private.output_square[u] = DECAY * private.output_square[u] + (ONE - DECAY) * (
        (output_size + total * total) / np.float32(factors + 1)
    )
    user_rate = user_pace / (np.sqrt(private.user_square[u] * correct) + EPSILON)
    output_rate = output_pace / (np.sqrt(private.output_square[u] * correct) + EPSILON)
    for k in range(factors):
        of_user, of_output = model[output + k] * toward[k], user[k] * toward[k]
        user[k] -= user_pace * rates.reg * user[k] + user_rate * of_user
        model[output + k] -= output_rate * of_output
    model[output + factors] -= output_rate * total
