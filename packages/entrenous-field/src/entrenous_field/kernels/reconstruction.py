"""Reconstruction of a user's vector on one device, and the update of items with the vector held
fixed: the two parts of FedRecon's ClientUpdate for a matrix factorisation (fedrecon.py).

The score of an item is x_ui = p_u . q_i + b_i, and the loss of an example is its binary
cross-entropy. While p_u is fixed, the gradient by q_i is a number times p_u, and that by b_i the
same number. So all that an item learns on a device is one number c_i: q_i moves by c_i p_u, b_i by
c_i, and x_ui by c_i (|p_u|^2 + 1).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from entrenous.core.compiling import njit
from entrenous.core.keys import below, draw, fold
from entrenous.core.lanes.memory import padded, sealed, zeros
from entrenous.core.lanes.simd import LANES, every, inner_product, inside, load, store
from entrenous.core.types import Float32Array, Int32Array, Int64Array, UInt64Array
from entrenous.kernels.logistic import logistic
from entrenous.kernels.sampling import count_gaps, fill_gaps, shuffle

# The two draws of a device: the order of its examples, and its negatives.
ORDER, NEGATIVES = 0, 1


class ReconstructionRates(NamedTuple):
    """Constants of the two parts."""

    negatives: int
    """Items drawn for each consumed item."""
    batch: int
    """Examples of a step; 0 = all."""
    steps: int
    """The most steps of the vector."""
    passes: int
    """The most passes over the support set; 0 = as many as the steps take."""
    rate: np.float32
    """The learning rate of the vector."""
    reg: np.float32
    """lambda of lambda/2 |p_u|^2, in every step."""
    item_steps: int
    """The most steps of the items, in one pass over the query set; with all examples in a step, so
    many."""
    item_rate: np.float32
    """The learning rate of the items."""
    biased: np.float32
    """1 if b_i learns, else 0."""


class ReconstructionData(NamedTuple):
    """The private data of m devices: `Histories` without values, and the key each draws from."""

    ptr: Int64Array
    """int64 [m + 1] from 0."""
    item: Int32Array
    """int32 [ptr[m]], consumed items."""
    avoid_ptr: Int64Array
    """int64 [m + 1] from 0."""
    avoid: Int32Array
    """Items that a device never draws, ascending."""
    keys: UInt64Array
    """uint64 [m]."""


class Reconstructed(NamedTuple):
    """The result of m devices."""

    p: Float32Array
    """float32 [m, F], the vectors."""
    ptr: Int64Array
    """int64 [m + 1], as in an Update."""
    item: Int32Array
    """int32 [n], the items of the query sets, ascending within a device."""
    c: Float32Array
    """float32 [n], what each learnt."""
    queries: Float32Array
    """float32 [m], n_i, the examples of each query set."""


class _ReconstructionRoom(NamedTuple):
    """Memory for one device after the other."""

    p: Float32Array
    """[1, W], the vector, padded."""
    g: Float32Array
    """[1, W], its gradient."""
    x: Float32Array
    """[examples, W], the item vectors of the examples, padded."""
    b: Float32Array
    """[examples], their biases; then their scores."""
    error: Float32Array
    """[batch], the errors of a step."""
    item: Int32Array
    """[examples], their items, in a random order."""
    label: Float32Array
    """[examples], 1 of consumed items, else 0."""
    order: Int32Array
    """[examples]."""
    gaps: Int32Array
    """As in `sampling.fill_gaps`."""
    learnt: Float32Array
    """[items], c_i; 0 between devices."""
    asked: Int32Array
    """[items], the examples of each item in the query set; 0 between devices."""


def _room(
    data: ReconstructionData, items: int, factors: int, negatives: int
) -> _ReconstructionRoom:
    """Returns memory that suffices for the device with the longest history."""
    width = padded(factors)
    most = int(np.diff(data.ptr).max(initial=0)) * (1 + negatives)
    avoided = int(np.diff(data.avoid_ptr).max(initial=0))
    return _ReconstructionRoom(
        p=zeros(1, width),
        g=zeros(1, width),
        x=zeros(most + 1, width),
        b=np.zeros(most + 1, np.float32),
        error=np.zeros(most + 1, np.float32),
        item=np.zeros(most + 1, np.int32),
        label=np.zeros(most + 1, np.float32),
        order=np.zeros(most + 1, np.int32),
        gaps=np.zeros(avoided + LANES, np.int32),
        learnt=np.zeros(items, np.float32),
        asked=np.zeros(items, np.int32),
    )


def reconstruct(
    rates: ReconstructionRates,
    q: Float32Array,
    b: Float32Array,
    first: Float32Array,
    data: ReconstructionData,
    update: bool,
) -> Reconstructed:
    """Reconstructs the vectors of m devices, from `first`, float32 [m, F]. update: half of the
    examples reconstruct and the items learn from the other half; else all of them reconstruct.
    """
    items, factors = q.shape
    room = _room(data, items, factors, rates.negatives)
    p = np.array(first, np.float32, order="C")
    ptr = np.zeros(len(p) + 1, np.int64)
    queries = np.zeros(len(p), np.float32)
    # A device sends a row for each item of its query set, and no item twice.
    most = np.minimum(np.diff(data.ptr) * (1 + rates.negatives), items)
    rows = int(most.sum()) if update else 0
    item = np.empty(rows, np.int32)
    c = np.empty(rows, np.float32)
    given = ReconstructionData(
        ptr=sealed(data.ptr),
        item=sealed(data.item),
        avoid_ptr=sealed(data.avoid_ptr),
        avoid=sealed(data.avoid),
        keys=sealed(data.keys),
    )
    n = _reconstruct(
        rates, sealed(q), sealed(b), given, update, room, Reconstructed(p, ptr, item, c, queries)
    )
    return Reconstructed(p, ptr, item[:n], c[:n], queries)


@njit(cache=True, nogil=True, error_model="numpy")
def _reconstruct(
    rates: ReconstructionRates,
    q: Float32Array,
    b: Float32Array,
    data: ReconstructionData,
    update: bool,
    room: _ReconstructionRoom,
    out: Reconstructed,
) -> int:
    """Writes the results of all devices to `out`, and returns how many rows they send."""
    items, factors = q.shape
    n = 0
    for d in range(len(data.keys)):
        # 1. The examples of the device, and the vectors of their items.
        examples = _draw_examples(d, data, items, rates.negatives, room)
        _gather(q, b, examples, room)
        # 2. The first half, of a random order, is the support set (Alg. 1).
        support = (examples + 1) // 2 if update else examples
        for f in range(0, room.p.shape[1], LANES):
            numbers = load(out.p, d * factors + f, max(1, factors - f))
            store(room.p, f, numbers)
        # 3. The vector is rebuilt from it.
        _fit_vector(rates, support, room)
        for f in range(factors):
            out.p[d, f] = room.p[0, f]
        # 4. The items learn from the other half, with the vector held fixed.
        if update:
            _fit_items(rates, support, examples, room)
            out.queries[d] = np.float32(examples - support)
            # Items in ascending order: the order of learning would tell what was consumed.
            for i in range(items):
                if room.asked[i] > 0:
                    out.item[n] = np.int32(i)
                    out.c[n] = room.learnt[i]
                    n += 1
                    # The table is clean again for the next device.
                    room.asked[i] = 0
                    room.learnt[i] = 0
        out.ptr[d + 1] = n
    return n


@inside
def _draw_examples(
    d: int, data: ReconstructionData, items: int, negatives: int, room: _ReconstructionRoom
) -> int:
    """Writes the consumed items of a device and `negatives` others for each to `room`, in a random
    order. Returns how many.
    """
    start = data.ptr[d]
    length = data.ptr[d + 1] - start
    avoided = data.avoid_ptr[d + 1] - data.avoid_ptr[d]
    fill_gaps(data.avoid, data.avoid_ptr[d], avoided, room.gaps)
    # If nothing is left to draw, the device learns from its items alone.
    drawn = length * negatives if avoided < items else 0
    shuffle(room.order, 0, length + drawn, fold(data.keys[d], ORDER))
    # Order and negatives have keys of their names: one does not shift the other.
    draws = fold(data.keys[d], NEGATIVES)
    for r in range(length):
        # Example r lands where the shuffled order says.
        at = room.order[r]
        room.item[at] = data.item[start + r]
        room.label[at] = 1
    for r in range(drawn):
        at = room.order[length + r]
        # The k-th of the items that may be drawn.
        k = below(draw(draws, r), items - avoided)
        room.item[at] = np.int32(k + count_gaps(room.gaps, avoided, k))
        room.label[at] = 0
    return int(length + drawn)


@inside
def _gather(q: Float32Array, b: Float32Array, examples: int, room: _ReconstructionRoom) -> None:
    """Copies the vectors and biases of all examples, which are then read in many steps."""
    factors = q.shape[1]
    width = room.x.shape[1]
    for s in range(examples):
        i = np.int64(room.item[s])
        room.b[s] = b[i]
        for f in range(0, width, LANES):
            numbers = load(q, i * factors + f, max(1, factors - f))
            store(room.x, s * width + f, numbers)


@inside
def _fit_vector(rates: ReconstructionRates, support: int, room: _ReconstructionRoom) -> None:
    """Takes the steps of the vector, each along the mean gradient of a batch of the support set."""
    width = room.x.shape[1]
    # Batches of the support set, one after the other; without a batch size, all of it.
    size = min(rates.batch, support) if rates.batch else support
    steps = rates.steps if support > 0 else 0
    rate = every(rates.rate)
    reg = every(rates.reg)
    low = 0
    done = 0
    for _ in range(steps):
        high = min(low + size, support)
        for f in range(0, width, LANES):
            store(room.g, f, every(np.float32(0)))
        for s in range(low, high):
            # s(p_u . q_i + b_i) less the label: the slope of the loss by the logit.
            x = inner_product(room.p, 0, room.x, s * width, width) + room.b[s]
            gap = logistic(x) - room.label[s]
            error = every(gap)
            for f in range(0, width, LANES):
                along = error * load(room.x, s * width + f)
                store(room.g, f, load(room.g, f) + along)
        mean = every(np.float32(1) / np.float32(high - low))
        for f in range(0, width, LANES):
            p = load(room.p, f)
            # The mean over the batch, and the pull of the regulariser.
            step = mean * load(room.g, f) + reg * p
            store(room.p, f, p - rate * step)
        low = high
        # One pass over the support set is done.
        if low == support:
            low = 0
            done += 1
            if done == rates.passes:
                break


@inside
def _fit_items(
    rates: ReconstructionRates, support: int, examples: int, room: _ReconstructionRoom
) -> None:
    """Takes the steps of the items, each along the mean gradient of a batch of the query set;
    leaves c_i in `learnt`.
    """
    width = room.x.shape[1]
    # q_i moves along p_u alone, by c_i in all: its logit then moves by c_i (|p_u|^2 + 1).
    square = inner_product(room.p, 0, room.p, 0, width) + rates.biased
    for s in range(support, examples):
        room.b[s] += inner_product(room.p, 0, room.x, s * width, width)
        # Here b becomes the logit before any step, since the vectors are not needed again.
        room.asked[room.item[s]] += 1
    queries = examples - support
    size = min(rates.batch, queries) if rates.batch else queries
    steps = rates.item_steps if queries > 0 else 0
    low = support
    for _ in range(steps):
        high = min(low + size, examples)
        for s in range(low, high):
            # All errors of a batch first: an item may occur in it twice.
            x = room.b[s] + square * room.learnt[room.item[s]]
            room.error[s] = room.label[s] - logistic(x)
        rate = rates.item_rate / np.float32(high - low)
        for s in range(low, high):
            room.learnt[room.item[s]] += rate * room.error[s]
        low = high
        if low == examples:
            # One pass over batches; with one batch, every step is along the whole query set.
            if size < queries:
                break
            low = support
