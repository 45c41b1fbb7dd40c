"""Training of GMF on a peer (kernels/gmf_node.py): it trains a model in place, or first judges and
merges one that it received (PEPPER, algorithm 2).

One local epoch is one step along the mean gradient of all samples (the history and `negatives`
others for each of its items), which for item i is (the sum of its errors) times p * h. So a step
needs one number for each item. Its length is divided by a running root mean square of the item's
gradients (RMSprop, Tieleman & Hinton 2012, with one number for each row, and Adam's correction of
the start).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from ..core.contract.gossip import Weighing
from ..core.keys import below, draw, fold
from ..core.lanes.simd import LANES, every, inside, load, store, sum_of
from ..core.types import BoolArray, Float32Array, Float64Array, Int32Array, Int64Array, UInt64Array
from .gmf_node import GMFPrivate, GMFShape, judge, model_scores
from .logistic import logistic
from .merging import merge_one
from .sampling import count_gaps, fill_gaps

DECAY, EPSILON = np.float32(0.999), np.float32(1e-7)
ONE = np.float32(1)
# Numbers gathered side by side, so that a loop over them is one of vector instructions.
CHUNK = 512


class GMFRates(NamedTuple):
    """Constants of a node's training."""

    item: np.float32
    """Learning rate of item vectors."""
    user: np.float32
    """Learning rate of the user vector."""
    output: np.float32
    """Learning rate of h and c."""
    reg: np.float32
    """How much a step shortens the vectors that it moves, for each unit of learning rate
    (decoupled, Loshchilov & Hutter 2019)."""
    decay: np.float32
    """The learning rates of step t are divided by 1 + decay t."""
    epochs: int
    negatives: int
    """For each consumed item."""


class GMFRows(NamedTuple):
    """The rows of all nodes."""

    ptr: Int64Array
    item: Int32Array
    """Trained on, as in `Histories`."""
    avoid_ptr: Int64Array
    avoid: Int32Array
    """Never drawn, as in `Histories`."""
    sets: Weighing
    """Weighed by."""


class TrainingRoom(NamedTuple):
    """Working memory of a training step, for one node after the other. error, step and shrink are
    zeros between steps.
    """

    score: Float32Array
    """[stride], of every item."""
    error: Float32Array
    """[stride], the sum of each item's errors."""
    step: Float32Array
    """[stride]"""
    shrink: Float32Array
    """[stride], by which part a vector is shortened."""
    touched: Int32Array
    """[stride + 1], the items of the samples, each once."""
    gaps: Int32Array
    """[stride + LANES], between the items that are not drawn."""
    toward: Float32Array
    """[factors]"""
    drawn: Int32Array
    """[CHUNK]"""
    first: Float32Array
    """[CHUNK], numbers that are gathered side by side."""
    second: Float32Array
    """[CHUNK], likewise."""


@njit(cache=True, nogil=True)
def training_room(shape: GMFShape) -> TrainingRoom:
    """Returns the working memory for training models of this layout."""
    stride = shape.stride
    return TrainingRoom(
        np.empty(stride, np.float32),
        np.zeros(stride, np.float32),
        np.zeros(stride, np.float32),
        np.zeros(stride, np.float32),
        np.empty(stride + 1, np.int32),
        np.empty(stride + LANES, np.int32),
        np.empty(shape.factors, np.float32),
        np.empty(CHUNK, np.int32),
        np.empty(CHUNK, np.float32),
        np.empty(CHUNK, np.float32),
    )


@njit(cache=True, nogil=True, error_model="numpy")
def train(
    pool: Float32Array,
    at: Int64Array,
    private: GMFPrivate,
    who: Int64Array,
    rows: GMFRows,
    rates: GMFRates,
    shape: GMFShape,
    keys: UInt64Array,
) -> None:
    """Trains the model pool[at[d]] of each node d in place on the rows of node who[d]."""
    room = training_room(shape)
    for d in range(len(at)):
        learn(pool[at[d]], private, who[d], rows, rates, shape, keys[d], room)


@inside
def learn(
    model: Float32Array,
    private: GMFPrivate,
    u: int,
    rows: GMFRows,
    rates: GMFRates,
    shape: GMFShape,
    key: np.uint64,
    room: TrainingRoom,
) -> None:
    """Trains one model in place on the rows of node u."""
    own = rows.item[rows.ptr[u] : rows.ptr[u + 1]]
    start = rows.avoid_ptr[u]
    avoided = rows.avoid_ptr[u + 1] - start
    if len(own) > 0:
        fill_gaps(rows.avoid, start, avoided, room.gaps)
        for epoch in range(rates.epochs):
            model_scores(model, private.user[u], shape, room.score)
            n = _errors(room, own, avoided, shape.items, rates.negatives, fold(key, epoch))
            private.steps[u] += 1
            _step(model, private, u, rates, shape, len(own), n, room)


@inside
def _errors(
    room: TrainingRoom, own: Int32Array, avoided: int, items: int, negatives: int, key: np.uint64
) -> int:
    """Adds sigmoid(y_ui) - y of every sample to its item's `error`, and lists the items `touched`.
    Returns how many.
    """
    score = room.score
    error = room.error
    touched = room.touched
    drawn, value = room.drawn, room.first
    n = 0
    left = items - avoided
    # The history, y = 1, in chunks: gather, compute, scatter.
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
    # The negatives, y = 0; an item may be drawn twice.
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
            # overwritten by the next one if it is listed already
            touched[n] = j
            n += error[j] == 0
            error[j] += value[s]
    return n


@inside
def _step(
    model: Float32Array,
    private: GMFPrivate,
    u: int,
    rates: GMFRates,
    shape: GMFShape,
    consumed: int,
    n: int,
    room: TrainingRoom,
) -> None:
    """Takes one step of Q, p, h along the mean gradient of the n touched items."""
    error = room.error
    step = room.step
    shrink = room.shrink
    touched, toward = room.touched, room.toward
    gradient, square = room.first, room.second
    user = private.user[u]
    squares = private.item_square[u]
    factors = shape.factors
    output = factors * shape.stride
    each = np.float32(1.0 / (consumed * (1 + rates.negatives)))
    # Adam's correction of the start, and the decay of the learning rates
    steps = private.steps[u]
    correct = np.float32(1.0 / (1.0 - math.pow(np.float64(DECAY), np.float64(steps))))
    slower = ONE / (ONE + rates.decay * np.float32(steps))
    item_pace = slower * rates.item
    user_pace = slower * rates.user
    output_pace = slower * rates.output
    # The gradient of item i is error_i (h * p), whose mean square needs `size` alone.
    size = np.float32(0)
    for k in range(factors):
        toward[k] = model[output + k] * user[k]
        size += toward[k] * toward[k]
    size /= np.float32(factors)
    # How far each touched item moves, in chunks: gather, compute, scatter.
    total = np.float32(0)
    for low in range(0, n, CHUNK):
        count = min(CHUNK, n - low)
        for t in range(count):
            i = touched[low + t]
            gradient[t] = error[i] * each
            square[t] = squares[i]
            total += gradient[t]
        for t in range(count):
            g = gradient[t]
            square[t] = DECAY * square[t] + (ONE - DECAY) * (g * g * size)
            gradient[t] = item_pace / (np.sqrt(square[t] * correct) + EPSILON) * g
        for t in range(count):
            i = touched[low + t]
            squares[i] = square[t]
            step[i] = gradient[t]
            shrink[i] = item_pace * rates.reg
    _move_items(model, room, shape)
    # From here on the gradient of p_k is h_k toward_k, that of h_k is p_k toward_k.
    user_size, output_size = np.float32(0), np.float32(0)
    for k in range(factors):
        toward[k] *= each
        user_size += (model[output + k] * toward[k]) ** 2
        output_size += (user[k] * toward[k]) ** 2
    for t in range(n):
        error[touched[t]] = 0
        step[touched[t]] = 0
        shrink[touched[t]] = 0
    private.user_square[u] = DECAY * private.user_square[u] + (ONE - DECAY) * (
        user_size / np.float32(factors)
    )
    private.output_square[u] = DECAY * private.output_square[u] + (ONE - DECAY) * (
        (output_size + total * total) / np.float32(factors + 1)
    )
    # p, h and c
    user_rate = user_pace / (np.sqrt(private.user_square[u] * correct) + EPSILON)
    output_rate = output_pace / (np.sqrt(private.output_square[u] * correct) + EPSILON)
    for k in range(factors):
        of_user, of_output = model[output + k] * toward[k], user[k] * toward[k]
        user[k] -= user_pace * rates.reg * user[k] + user_rate * of_user
        model[output + k] -= output_rate * of_output
    model[output + factors] -= output_rate * total


@inside
def _move_items(model: Float32Array, room: TrainingRoom, shape: GMFShape) -> None:
    """Moves Q by the step and the shortening of every item, and leaves in `toward` the sum over
    items of error times Q as it was.
    """
    for k in range(shape.factors):
        by, total = every(room.toward[k]), every(np.float32(0))
        at = k * shape.stride
        for i in range(0, shape.stride, LANES):
            row = load(model, at + i)
            total = total + load(room.error, i) * row
            moved = load(room.shrink, i) * row + load(room.step, i) * by
            store(model, at + i, row - moved)
        room.toward[k] = sum_of(total)


# ---- a received model ----------------------------------------------------------------------------
#
# Algorithm 2 judges both models, merges them and trains the result. Step by step for many nodes,
# each step reads their models from memory again: 54 kB each for the items of MovieLens-100K. Here
# all of it is done for one node before the next, while its two models lie in the cache. The outcome
# is the same to the last bit.


class ShareRule(NamedTuple):
    """The rule by which two performances become the share of a received model."""

    half: bool
    """One half, whatever the performances."""
    least: float
    """Nothing is taken of a model that does less than this times as well as the own one."""
    ranked: bool
    """P is HR x NDCG, not HR."""


class ModelsToMerge(NamedTuple):
    """Models that m nodes received, as in `Arrivals`."""

    who: Int64Array
    own: Int64Array
    received: Int64Array
    into: Int64Array
    keys: UInt64Array
    """For the training of each."""


@inside
def share_of(p_x: float, p_i: float, few: bool, least: float) -> float:
    """Returns the share of a received model that does p_x, next to the own one that does p_i: half
    where too few rows weigh, 0 where both fail.
    """
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
    shape: GMFShape,
) -> tuple[Float64Array, BoolArray]:
    """Merges the model that each of m nodes received by how well it does, and trains the result on
    the node's rows (PEPPER, algorithm 2).

    discount: of the places of a list, as long as HR and NDCG count. Writes to pool[into] and the
    nodes' private state. Returns the performances of the received models, float64 [m], and which
    nodes trained, bool [m]: all but those to which both models fail.
    """
    m = len(arrived.who)
    room = training_room(shape)
    sets = rows.sets
    p, trained = np.zeros(m, np.float64), np.zeros(m, np.bool_)
    for d in range(m):
        u = arrived.who[d]
        mine = pool[arrived.own[d]]
        theirs = pool[arrived.received[d]]
        out = pool[arrived.into[d]]
        user = private.user[u]
        # judge both
        hr_x, ndcg_x = judge(theirs, user, u, sets, discount, shape, room.score)
        hr_i, ndcg_i = judge(mine, user, u, sets, discount, shape, room.score)
        p_x, p_i = (hr_x * ndcg_x, hr_i * ndcg_i) if shares.ranked else (hr_x, hr_i)
        few = shares.half or sets.ptr[u + 1] - sets.ptr[u] < 2
        # merge, and train unless both fail
        merge_one(mine, theirs, np.float32(share_of(p_x, p_i, few, shares.least)), out)
        p[d] = p_x
        trained[d] = few or p_i + p_x > 0
        if trained[d]:
            learn(out, private, u, rows, rates, shape, arrived.keys[d], room)
    return p, trained
