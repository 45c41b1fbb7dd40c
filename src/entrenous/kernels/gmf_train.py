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

from ..core.compiling import njit
from ..core.contract.gossip import Weighing
from ..core.keys import below, draw, fold
from ..core.lanes.simd import LANES, every, inside, load, store, sum_of
from ..core.types import BoolArray, Float32Array, Float64Array, Int32Array, Int64Array, UInt64Array
from .gmf_node import GMFPrivate, GMFShape, judge, model_scores
from .logistic import logistic
from .merging import merge_one
from .sampling import count_gaps, fill_gaps

# Of the running mean of squared gradients, and what keeps it from 0.
DECAY = np.float32(0.999)
EPSILON = np.float32(1e-7)
ONE = np.float32(1)
# Numbers gathered side by side, so that a loop over them is one of vector instructions.
CHUNK = 512


class GMFRates(NamedTuple):
    """Constants of the training of a node."""

    item: np.float32
    """The learning rate of item vectors."""
    user: np.float32
    """The learning rate of the user vector."""
    output: np.float32
    """The learning rate of h and c."""
    reg: np.float32
    """The share by which a step shortens the vectors that it moves, for each unit of learning rate
    (decoupled, Loshchilov & Hutter 2019).
    """
    decay: np.float32
    """The learning rates of step t are divided by 1 + decay t."""
    epochs: int
    """Local epochs of a training."""
    negatives: int
    """Items drawn for each consumed item."""


class GMFRows(NamedTuple):
    """The rows of all nodes."""

    ptr: Int64Array
    """int64 [m + 1] from 0."""
    item: Int32Array
    """The items that each node trains on, as in `Histories`."""
    avoid_ptr: Int64Array
    """int64 [m + 1] from 0."""
    avoid: Int32Array
    """The items that each node never draws, as in `Histories`."""
    sets: Weighing
    """The rows by which each node judges models."""


class TrainingRoom(NamedTuple):
    """Working memory of a training step, for one node after the other. error, step and shrink are
    zeros between steps.
    """

    score: Float32Array
    """[stride], the score of every item."""
    error: Float32Array
    """[stride], the sum of the errors of every item."""
    step: Float32Array
    """[stride], the movement of every item vector along h * p."""
    shrink: Float32Array
    """[stride], the share by which every item vector is shortened."""
    touched: Int32Array
    """[stride + 1], the items of the samples, each once."""
    gaps: Int32Array
    """[stride + LANES], of the items that are not drawn (`fill_gaps`)."""
    toward: Float32Array
    """[factors], h * p; then the sum over items of error times Q."""
    drawn: Int32Array
    """[CHUNK], drawn items."""
    first: Float32Array
    """[CHUNK], numbers that are gathered side by side."""
    second: Float32Array
    """[CHUNK], likewise."""


@njit(cache=True, nogil=True)
def training_room(shape: GMFShape) -> TrainingRoom:
    """Returns the working memory for training models of this layout."""
    stride = shape.stride
    return TrainingRoom(
        score=np.empty(stride, np.float32),
        error=np.zeros(stride, np.float32),
        step=np.zeros(stride, np.float32),
        shrink=np.zeros(stride, np.float32),
        touched=np.empty(stride + 1, np.int32),
        gaps=np.empty(stride + LANES, np.int32),
        toward=np.empty(shape.factors, np.float32),
        drawn=np.empty(CHUNK, np.int32),
        first=np.empty(CHUNK, np.float32),
        second=np.empty(CHUNK, np.float32),
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
            # Other negatives in each epoch.
            draws = fold(key, epoch)
            n = _errors(room, own, avoided, shape.items, rates.negatives, draws)
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
    drawn = room.drawn
    value = room.first
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
    # The negatives, y = 0; an item may be drawn twice. Without any item to draw there are none.
    draws = len(own) * negatives if left > 0 else 0
    for low in range(0, draws, CHUNK):
        count = min(CHUNK, draws - low)
        for s in range(count):
            k = below(draw(key, low + s), left)
            drawn[s] = k + count_gaps(room.gaps, avoided, k)
            value[s] = score[drawn[s]]
        for s in range(count):
            value[s] = logistic(value[s])
        for s in range(count):
            j = drawn[s]
            # The next one overwrites it if it is listed already.
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
    touched = room.touched
    toward = room.toward
    gradient = room.first
    square = room.second
    user = private.user[u]
    squares = private.item_square[u]
    factors = shape.factors
    output = factors * shape.stride
    # The weight of one sample in the mean.
    each = np.float32(1.0 / (consumed * (1 + rates.negatives)))
    # The running means begin at 0: Adam's correction of the start. Learning rates decay.
    steps = private.steps[u]
    forgotten = math.pow(np.float64(DECAY), np.float64(steps))
    correct = np.float32(1.0 / (1.0 - forgotten))
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
            root = np.sqrt(square[t] * correct) + EPSILON
            gradient[t] = item_pace / root * g
        for t in range(count):
            i = touched[low + t]
            squares[i] = square[t]
            step[i] = gradient[t]
            shrink[i] = item_pace * rates.reg
    _move_items(model, room, shape)
    # From here on the gradient of p_k is h_k toward_k, that of h_k is p_k toward_k.
    user_size = np.float32(0)
    output_size = np.float32(0)
    for k in range(factors):
        toward[k] *= each
        user_size += (model[output + k] * toward[k]) ** 2
        output_size += (user[k] * toward[k]) ** 2
    # Leave zeros for the next step; only touched items have anything else.
    for t in range(n):
        error[touched[t]] = 0
        step[touched[t]] = 0
        shrink[touched[t]] = 0
    user_mean = user_size / np.float32(factors)
    output_mean = (output_size + total * total) / np.float32(factors + 1)
    user_square = DECAY * private.user_square[u] + (ONE - DECAY) * user_mean
    output_square = DECAY * private.output_square[u] + (ONE - DECAY) * output_mean
    private.user_square[u] = user_square
    private.output_square[u] = output_square
    # Move p, h and c, each along the gradient at the others as they were.
    user_rate = user_pace / (np.sqrt(user_square * correct) + EPSILON)
    output_rate = output_pace / (np.sqrt(output_square * correct) + EPSILON)
    for k in range(factors):
        of_user = model[output + k] * toward[k]
        of_output = user[k] * toward[k]
        user[k] -= user_pace * rates.reg * user[k] + user_rate * of_user
        model[output + k] -= output_rate * of_output
    model[output + factors] -= output_rate * total


@inside
def _move_items(model: Float32Array, room: TrainingRoom, shape: GMFShape) -> None:
    """Moves Q by the step and the shortening of every item, and leaves in `toward` the sum over
    items of error times Q as it was.
    """
    for k in range(shape.factors):
        by = every(room.toward[k])
        total = every(np.float32(0))
        at = k * shape.stride
        for i in range(0, shape.stride, LANES):
            row = load(model, at + i)
            # The sum is of Q as it was before this step.
            total = total + load(room.error, i) * row
            moved = load(room.shrink, i) * row + load(room.step, i) * by
            store(model, at + i, row - moved)
        room.toward[k] = sum_of(total)


# ---- a received model ----------------------------------------------------------------------------
#
# Algorithm 2 judges both models, merges them and trains the result. Done step by step for many
# nodes, each step would read their models from memory again: 54 kB each for the items of
# MovieLens-100K. Here all steps are done for one node before the next, while its two models lie in
# the cache. The outcome is the same to the last bit.


class ShareRule(NamedTuple):
    """The rule by which two performances become the share of a received model."""

    half: bool
    """The share is one half, whatever the performances."""
    least: float
    """The share is 0 for a model that does less than this times as well as the node's own one."""
    ranked: bool
    """The performance is HR x NDCG, not HR."""


class ModelsToMerge(NamedTuple):
    """Models that m nodes received, as in `Arrivals`."""

    who: Int64Array
    own: Int64Array
    received: Int64Array
    into: Int64Array
    keys: UInt64Array
    """The key of each training."""


@inside
def share_of(p_x: float, p_i: float, few: bool, least: float) -> float:
    """Returns the share of a received model of performance p_x against the node's own one of
    performance p_i: half if there are too few rows to judge by, 0 if both fail.
    """
    if few:
        return 0.5
    both = p_i + p_x
    if both > 0 and not p_x < least * p_i:
        return p_x / both
    return 0.0


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

    discount: the weight of each place of a list as long as HR and NDCG count. Writes to pool[into]
    and to the private state of the nodes. Returns the performances of the received models, float64
    [m], and True for nodes that trained, bool [m]: all but those where both models fail.
    """
    m = len(arrived.who)
    room = training_room(shape)
    sets = rows.sets
    p = np.zeros(m, np.float64)
    trained = np.zeros(m, np.bool_)
    for d in range(m):
        u = arrived.who[d]
        mine = pool[arrived.own[d]]
        theirs = pool[arrived.received[d]]
        out = pool[arrived.into[d]]
        user = private.user[u]
        # Judge both on rows that the node does not train on.
        hr_x, ndcg_x = judge(theirs, user, u, sets, discount, shape, room.score)
        hr_i, ndcg_i = judge(mine, user, u, sets, discount, shape, room.score)
        p_x, p_i = (hr_x * ndcg_x, hr_i * ndcg_i) if shares.ranked else (hr_x, hr_i)
        weighed = sets.ptr[u + 1] - sets.ptr[u]
        few = shares.half or weighed < 2
        # Merge, and train unless both fail: noise would be trained on otherwise.
        share = np.float32(share_of(p_x, p_i, few, shares.least))
        merge_one(mine, theirs, share, out)
        p[d] = p_x
        trained[d] = few or p_i + p_x > 0
        if trained[d]:
            learn(out, private, u, rows, rates, shape, arrived.keys[d], room)
    return p, trained
