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
CHUNK = 512  # numbers gathered side by side, so that a loop over them is one of vector instructions


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


class TrainingRoom(NamedTuple):
    """What a training step works in, for one node after the other: of every item its score, its error, its step and its shortening, each
    [stride], zeros between steps but for the scores; the items `touched` [stride + 1]; the gaps [stride + LANES] between the items that
    are not drawn; toward [factors]; items and two numbers of each that are gathered side by side [CHUNK]."""

    score: Float32Array
    error: Float32Array
    step: Float32Array
    shrink: Float32Array
    touched: Int32Array
    gaps: Int32Array
    toward: Float32Array
    drawn: Int32Array
    first: Float32Array
    second: Float32Array


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
        hr[d], ndcg[d] = judge(pool[at[d]], user[u], ptr[u], ptr[u + 1], item, candidates, discount, factors, row)
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
    """HR and NDCG at n = len(discount) of one model on the weighting rows low to high, by the scores that it leaves in `score`."""
    hr, ndcg = 0.0, 0.0
    if high > low:
        _scores(model, user, factors, len(score), score)
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
    room = training_room(items, factors)
    for d in range(len(at)):
        u = who[d]
        own, avoided = item[ptr[u] : ptr[u + 1]], avoid[avoid_ptr[u] : avoid_ptr[u + 1]]
        learn(pool[at[d]], private, u, own, avoided, rates, items, factors, keys[d], room)


@njit(cache=True, nogil=True)
def training_room(items: int, factors: int) -> TrainingRoom:
    """The room for training models of so many items and factors."""
    stride = -(-items // LANES) * LANES
    zeros = np.zeros(stride, np.float32), np.zeros(stride, np.float32), np.zeros(stride, np.float32)
    touched, gaps, drawn = np.empty(stride + 1, np.int32), np.empty(stride + LANES, np.int32), np.empty(CHUNK, np.int32)
    chunks = np.empty(CHUNK, np.float32), np.empty(CHUNK, np.float32)
    return TrainingRoom(np.empty(stride, np.float32), *zeros, touched, gaps, np.empty(factors, np.float32), drawn, *chunks)


@inside
def learn(
    model: Float32Array,
    private: GMFPrivate,
    u: int,
    own: Int32Array,
    avoided: Int32Array,
    rates: GMFRates,
    items: int,
    factors: int,
    key: np.uint64,
    room: TrainingRoom,
) -> None:
    """Trains one model in place on the rows `own` of node u, which never draws `avoided`."""
    user, stride = private.user[u], len(room.score)
    if len(own) > 0:
        fill_gaps(avoided, 0, len(avoided), room.gaps)
        for epoch in range(rates.epochs):
            _scores(model, user, factors, stride, room.score)
            n = _errors(room, own, len(avoided), items, rates.negatives, fold(key, epoch))
            private.steps[u] += 1
            _step(model, user, private, u, rates, factors, stride, len(own), n, room)


@inside
def _errors(room: TrainingRoom, own: Int32Array, avoided: int, items: int, negatives: int, key: np.uint64) -> int:
    """Adds sigmoid(y_ui) - y of every sample to its item's `error`, and lists the items `touched`. Returns how many."""
    score, error, touched, drawn, value = room.score, room.error, room.touched, room.drawn, room.first
    n, left = 0, items - avoided
    for low in range(0, len(own), CHUNK):
        count = min(CHUNK, len(own) - low)
        for s in range(count):
            value[s] = score[own[low + s]]
        for s in range(count):
            value[s] = logistic(value[s])
        for s in range(count):
            error[own[low + s]] = value[s] - ONE
            touched[n + s] = own[low + s]
        n += count
    for low in range(0, len(own) * negatives if left > 0 else 0, CHUNK):
        count = min(CHUNK, len(own) * negatives - low)
        for s in range(count):
            k = below(draw(key, low + s), left)
            drawn[s] = k + count_gaps(room.gaps, avoided, k)
            value[s] = score[drawn[s]]
        for s in range(count):
            value[s] = logistic(value[s])
        for s in range(count):
            j = drawn[s]
            touched[n] = j  # overwritten by the next one if it is already there
            n += error[j] == 0
            error[j] += value[s]
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
    room: TrainingRoom,
) -> None:
    """One step of Q, p, h along the mean gradient of the n touched items."""
    error, step, shrink, touched, toward = room.error, room.step, room.shrink, room.touched, room.toward
    gradient, square = room.first, room.second
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
    for low in range(0, n, CHUNK):
        count = min(CHUNK, n - low)
        for t in range(count):
            i = touched[low + t]
            gradient[t], square[t] = error[i] * each, squares[i]
            total += gradient[t]
        for t in range(count):
            g = gradient[t]
            square[t] = DECAY * square[t] + (ONE - DECAY) * (g * g * size)
            gradient[t] = item_pace / (np.sqrt(square[t] * correct) + EPSILON) * g
        for t in range(count):
            i = touched[low + t]
            squares[i], step[i], shrink[i] = square[t], gradient[t], item_pace * rates.reg
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
