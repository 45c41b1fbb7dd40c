"""What a peer learns with GMF (kernels/gmf_node.py): it trains a model in place, or first judges
and merges one that it received, as PEPPER's algorithm 2 has it.

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

from ..core.keys import below, draw, fold
from ..core.lanes.simd import LANES, every, inside, load, store, sum_of
from ..core.types import BoolArray, Float32Array, Float64Array, Int32Array, Int64Array, UInt64Array
from ..kernels.merging import merge_one
from .gmf_node import GMFPrivate, judge, model_scores
from .logistic import logistic
from .negatives import count_gaps, fill_gaps

DECAY, EPSILON, ONE = np.float32(0.999), np.float32(1e-7), np.float32(1)
CHUNK = 512  # numbers gathered side by side, so that a loop over them is one of vector instructions


class GMFRates(NamedTuple):
    """Constants of a node's training: learning rates of item, user and output vectors; reg: the
    part by which a step shortens the vectors that it moves, for each unit of learning rate
    (decoupled, Loshchilov & Hutter 2019); decay: the learning rates of step t are divided by 1 +
    decay t; passes and negatives for each consumed item.
    """

    item: np.float32
    user: np.float32
    output: np.float32
    reg: np.float32
    decay: np.float32
    epochs: int
    negatives: int


class TrainingRoom(NamedTuple):
    """What a training step works in, for one node after the other: of every item its score, its
    error, its step and its shortening, each [stride], zeros between steps but for the scores; the
    items `touched` [stride + 1]; the gaps [stride + LANES] between the items that are not drawn;
    toward [factors]; items and two numbers of each that are gathered side by side [CHUNK].
    """

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
    """Trains the model pool[at[d]] of each node d in place on its own rows
    item[ptr[who[d]]:ptr[who[d] + 1]].
    """
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
    touched, gaps, drawn = (
        np.empty(stride + 1, np.int32),
        np.empty(stride + LANES, np.int32),
        np.empty(CHUNK, np.int32),
    )
    chunks = np.empty(CHUNK, np.float32), np.empty(CHUNK, np.float32)
    return TrainingRoom(
        np.empty(stride, np.float32),
        *zeros,
        touched,
        gaps,
        np.empty(factors, np.float32),
        drawn,
        *chunks,
    )


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
            model_scores(model, user, factors, stride, room.score)
            n = _errors(room, own, len(avoided), items, rates.negatives, fold(key, epoch))
            private.steps[u] += 1
            _step(model, user, private, u, rates, factors, stride, len(own), n, room)


@inside
def _errors(
    room: TrainingRoom, own: Int32Array, avoided: int, items: int, negatives: int, key: np.uint64
) -> int:
    """Adds sigmoid(y_ui) - y of every sample to its item's `error`, and lists the items `touched`.
    Returns how many.
    """
    score, error, touched, drawn, value = (
        room.score,
        room.error,
        room.touched,
        room.drawn,
        room.first,
    )
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
    error, step, shrink, touched, toward = (
        room.error,
        room.step,
        room.shrink,
        room.touched,
        room.toward,
    )
    gradient, square = room.first, room.second
    output, each = factors * stride, np.float32(1.0 / (consumed * (1 + rates.negatives)))
    correct = np.float32(1.0 / (1.0 - math.pow(np.float64(DECAY), np.float64(private.steps[u]))))
    slower = ONE / (ONE + rates.decay * np.float32(private.steps[u]))
    item_pace, user_pace, output_pace = (
        slower * rates.item,
        slower * rates.user,
        slower * rates.output,
    )
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
    _move_items(model, room, factors, stride)
    for k in range(factors):
        toward[k] *= (
            each  # from here on the gradient of p_k is h_k toward_k, that of h_k is p_k toward_k
        )
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
    user_rate = user_pace / (np.sqrt(private.user_square[u] * correct) + EPSILON)
    output_rate = output_pace / (np.sqrt(private.output_square[u] * correct) + EPSILON)
    for k in range(factors):
        of_user, of_output = model[output + k] * toward[k], user[k] * toward[k]
        user[k] -= user_pace * rates.reg * user[k] + user_rate * of_user
        model[output + k] -= output_rate * of_output
    model[output + factors] -= output_rate * total


@inside
def _move_items(model: Float32Array, room: TrainingRoom, factors: int, stride: int) -> None:
    """Moves Q by the step and the shortening of every item, and leaves in `toward` the sum over
    items of error times Q as it was.
    """
    error, step, shrink, toward = room.error, room.step, room.shrink, room.toward
    for k in range(factors):
        by, total = every(toward[k]), every(np.float32(0))
        for i in range(0, stride, LANES):
            row = load(model, k * stride + i)
            total = total + load(error, i) * row
            store(model, k * stride + i, row - (load(shrink, i) * row + load(step, i) * by))
        toward[k] = sum_of(total)


# ---- a received model ----------------------------------------------------------------------------
#
# Algorithm 2 judges both models, merges them and trains the result. Step by step for many nodes,
# each step reads their models from memory
# again: 54 kB each for the items of MovieLens-100K. Here all of it is done for one node before the
# next, while its two models lie in the
# cache. The outcome is the same to the last bit.


class ShareRule(NamedTuple):
    """How two performances become the share of a received model. half: whether that is one half,
    whatever they are; least: nothing is taken of a model that does less than this times as well as
    the own one; ranked: whether P is HR x NDCG, not HR.
    """

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
    """The rows of all nodes: `item` trained on, `avoid` never drawn, `weighing` that weigh, each
    among its `candidates`; as in `Histories` and `Weighing`."""

    ptr: Int64Array
    item: Int32Array
    avoid_ptr: Int64Array
    avoid: Int32Array
    weighing_ptr: Int64Array
    weighing: Int32Array
    candidates: Int32Array


@inside
def share_of(p_x: float, p_i: float, few: bool, least: float) -> float:
    """The share of a received model that does p_x, beside the own one that does p_i; half where too
    few rows weigh, 0 where both fail.
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
    items: int,
    factors: int,
) -> tuple[Float64Array, BoolArray]:
    """Merges the model that each of m nodes received by how well it does, and trains the result on
    the node's rows (PEPPER, algorithm 2).

    discount: of the places of a list, as long as HR and NDCG count. Writes to pool[into] and the
    nodes' private state. Returns the performances of what was received, float64 [m], and which
    nodes trained, bool [m]: all but those to which both models fail.
    """
    m, room = len(arrived.who), training_room(items, factors)
    p, trained = np.zeros(m, np.float64), np.zeros(m, np.bool_)
    for d in range(m):
        u = arrived.who[d]
        mine, theirs, out = pool[arrived.own[d]], pool[arrived.received[d]], pool[arrived.into[d]]
        user, low, high = private.user[u], rows.weighing_ptr[u], rows.weighing_ptr[u + 1]
        hr_x, ndcg_x = judge(
            theirs, user, low, high, rows.weighing, rows.candidates, discount, factors, room.score
        )
        hr_i, ndcg_i = judge(
            mine, user, low, high, rows.weighing, rows.candidates, discount, factors, room.score
        )
        p_x, p_i = (hr_x * ndcg_x, hr_i * ndcg_i) if shares.ranked else (hr_x, hr_i)
        few = shares.half or high - low < 2
        merge_one(mine, theirs, np.float32(share_of(p_x, p_i, few, shares.least)), out)
        p[d], trained[d] = p_x, few or p_i + p_x > 0
        if trained[d]:
            own, avoided = (
                rows.item[rows.ptr[u] : rows.ptr[u + 1]],
                rows.avoid[rows.avoid_ptr[u] : rows.avoid_ptr[u + 1]],
            )
            learn(out, private, u, own, avoided, rates, items, factors, arrived.keys[d], room)
    return p, trained
