"""Kernels of GPFedRec (gpfedrec.py): the training of a device's MLP, vector and whole item
table, the similarity of the tables of all users, and the means over neighbours.

A table of items is long, and each pair of users has one product: so the two functions of the server
read a piece of every table at a time, which stays in the cache. They add in a fixed order: the same
bits on any machine, which BLAS does not promise, and a threshold turns one bit into a neighbour.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from entrenous.core.compiling import njit
from entrenous.core.keys import below, draw, fold, fold_name, folds, uniforms
from entrenous.core.lanes.memory import sealed, starts_of, zeros
from entrenous.core.lanes.simd import LANES, Lanes, every, inside, load, store, sum_of
from entrenous.core.types import BoolArray, Float32Array, Float64Array, Int32Array, Int64Array
from entrenous.kernels.ncf import (
    NCFData,
    NCFParts,
    NCFPlace,
    NCFShape,
    NCFTower,
    backward,
    clear,
    copy,
    forward,
    slope,
    tower_of,
)
from entrenous.kernels.sampling import count_gaps, fill_gaps, shuffle

# Numbers of each table that are read together, so that those of all users fit a cache.
CHUNK = 512
# Numbers whose sums over neighbours are made side by side, in registers.
PIECE = 4 * LANES


class GraphRates(NamedTuple):
    """Constants of the training of a device."""

    user: np.float32
    """The learning rate of p_u."""
    item: np.float32
    """The learning rate of the item table."""
    network: np.float32
    """The learning rate of the MLP."""
    pull: np.float32
    """The share of the way to R_u that a step takes every row of the table: the learning rate times
    the gradient of g mean (Q - R)^2."""
    epochs: int
    """Local epochs of a round."""
    negatives: int
    """Items drawn for each consumed item."""
    batch: int
    """Samples of a step."""


class GraphModels(NamedTuple):
    """The models of m devices, which training overwrites."""

    user: Float32Array
    """float32 [m, F], p_u."""
    network: Float32Array
    """float32 [m, network], the MLP of each."""
    item: Float32Array
    """float32 [m, items, F], the table Q_u of each; it begins as the table that was received."""


class _GraphRoom(NamedTuple):
    """Working memory of a device."""

    u: Float32Array
    net: Float32Array
    gu: Float32Array
    gnet: Float32Array
    gitem: Float32Array
    """The gradients by the rows that a batch touches."""
    slot_of: Int32Array
    """int32 [items], the place of each item among them; -1 = none."""
    item_of: Int32Array
    order: Int32Array
    gaps: Int32Array
    tower: NCFTower


def train(
    shape: NCFShape,
    rates: GraphRates,
    models: GraphModels,
    near: Float32Array,
    data: NCFData,
) -> None:
    """Trains the models of m devices in place. near: float32 [m, items, F], the R_u that each table
    is held to, read only if rates.pull is not 0. The shape must be one without padding in rows.
    """
    counts = np.diff(data.ptr)
    longest = int(counts.max(initial=0))
    batch = min(rates.batch, max(1, longest * (1 + rates.negatives)))
    items, width = models.item.shape[1:]
    room = _GraphRoom(
        u=zeros(1, width),
        net=zeros(1, shape.network),
        gu=zeros(1, width),
        gnet=zeros(1, shape.network),
        gitem=zeros(batch + 1, width),
        slot_of=np.full(items, -1, np.int32),
        item_of=np.empty(batch + 1, np.int32),
        order=np.empty(max(1, longest * (1 + rates.negatives)), np.int32),
        gaps=np.empty(int(np.diff(data.avoid_ptr).max(initial=0)) + LANES, np.int32),
        tower=tower_of(shape),
    )
    given = NCFData(
        ptr=sealed(data.ptr),
        item=sealed(data.item),
        avoid_ptr=sealed(data.avoid_ptr),
        avoid=sealed(data.avoid),
        keys=sealed(data.keys),
    )
    _train(shape, rates, models, sealed(near), given, room)


@njit(cache=True, nogil=True, error_model="numpy")
def _train(
    shape: NCFShape,
    rates: GraphRates,
    models: GraphModels,
    near: Float32Array,
    data: NCFData,
    room: _GraphRoom,
) -> None:
    items = models.item.shape[1]
    width = models.item.shape[2]
    size = room.net.shape[1]
    table = models.item
    gitem = room.gitem
    slot_of = room.slot_of
    item_of = room.item_of
    order = room.order
    tower = room.tower
    model = NCFParts(room.u, table, room.net)
    slopes = NCFParts(room.gu, gitem, room.gnet)
    nothing = every(np.float32(0))
    pull = every(rates.pull)
    for d in range(len(data.keys)):
        start = data.ptr[d]
        length = data.ptr[d + 1] - start
        avoided = data.avoid_ptr[d + 1] - data.avoid_ptr[d]
        # The device works on copies of its vector and its network, and on its table in place.
        copy(models.user, d * width, room.u, 0, width)
        copy(models.network, d * size, room.net, 0, size)
        fill_gaps(data.avoid, data.avoid_ptr[d], avoided, room.gaps)
        # If nothing is left to draw, the device learns from its items alone.
        extra = rates.negatives if avoided < items else 0
        samples = length * (1 + extra)
        # The place of its table among those of all devices.
        first = d * items * width
        for epoch in range(rates.epochs):
            # Each epoch has negatives and an order of its own.
            key = fold(data.keys[d], epoch)
            shuffle(order, 0, samples, key)
            filled = 0
            taken = 0
            for t in range(samples):
                # The first `length` samples are consumed items, the others are drawn.
                which = order[t]
                label = which < length
                if label:
                    i = int(data.item[start + which])
                else:
                    # The first draws of the key made the order.
                    k = below(draw(key, samples + which), items - avoided)
                    i = int(k + count_gaps(room.gaps, avoided, k))
                # Gradients of a batch are added up by item, in few rows instead of a table.
                g = int(slot_of[i])
                if g < 0:
                    g = filled
                    filled += 1
                    slot_of[i] = np.int32(g)
                    item_of[g] = np.int32(i)
                    clear(gitem, g * width, width)
                taken += 1
                at = NCFPlace(0, first + i * width, 0)
                # Forward and backward through the network, one sample at a time.
                error = slope(forward(shape, model, at, tower), label)
                to = NCFPlace(0, g * width, 0)
                backward(shape, model, at, tower, error, nothing, slopes, to)
                if taken == rates.batch or t == samples - 1:
                    # A step along the mean gradient of the batch.
                    mean = every(np.float32(1) / np.float32(taken))
                    _descend(room.u, room.gu, width, every(rates.user) * mean)
                    _descend(room.net, room.gnet, size, every(rates.network) * mean)
                    # Every row of the table goes towards R_u, whether it was touched or not.
                    if rates.pull != 0:
                        for f in range(first, first + items * width, LANES):
                            x = load(table, f)
                            away = x - load(near, f)
                            store(table, f, x - pull * away)
                    by = every(rates.item) * mean
                    for g in range(filled):
                        i = int(item_of[g])
                        # The slot is free for the next batch.
                        slot_of[i] = -1
                        for f in range(0, width, LANES):
                            place = first + i * width + f
                            step = by * load(gitem, g * width + f)
                            store(table, place, load(table, place) - step)
                    filled = 0
                    taken = 0
        # What was learnt goes back to the place of the device.
        copy(room.u, 0, models.user, d * width, width)
        copy(room.net, 0, models.network, d * size, size)


@inside
def _descend(numbers: Float32Array, gradient: Float32Array, size: int, rate: Lanes) -> None:
    """Takes a step of `size` numbers along a gradient, and sets that to 0."""
    for f in range(0, size, LANES):
        store(numbers, f, load(numbers, f) - rate * load(gradient, f))
        store(gradient, f, every(np.float32(0)))


def scores(shape: NCFShape, models: GraphModels) -> Float32Array:
    """Returns the logit of every item by each device's own model, float32 [m, items]."""
    out = np.empty(models.item.shape[:2], np.float32)
    room = NCFParts(zeros(1, shape.mlp), zeros(1, LANES), zeros(1, shape.network))
    given = GraphModels(*map(sealed, models))
    _scores(shape, given, room, tower_of(shape), out)
    return out


@njit(cache=True, nogil=True, error_model="numpy")
def _scores(
    shape: NCFShape, models: GraphModels, room: NCFParts, tower: NCFTower, out: Float32Array
) -> None:
    users, items, width = models.item.shape
    size = models.network.shape[1]
    model = NCFParts(room.user, models.item, room.net)
    for d in range(users):
        copy(models.user, d * width, room.user, 0, width)
        copy(models.network, d * size, room.net, 0, size)
        for i in range(items):
            at = NCFPlace(0, (d * items + i) * width, 0)
            out[d, i] = forward(shape, model, at, tower)


def first_network(shape: NCFShape, layers: tuple[int, ...], key: np.uint64) -> Float32Array:
    """Returns a first MLP, float32 [network]: weights and biases of a layer with n inputs are drawn
    uniformly within 1 / sqrt(n), as PyTorch's linear layers are.
    """
    out = np.zeros(shape.network, np.float32)
    # The input of the first layer is [p_u; q_i].
    inputs = 2 * shape.embedding
    for layer, outputs in enumerate(layers):
        drawn = _within(fold_name(key, "layer", layer), (inputs + 1) * outputs, inputs)
        # Padded to whole lanes: numbers beyond inputs and outputs stay 0.
        weights = np.zeros((shape.width[layer], shape.width[layer + 1]), np.float32)
        weights[:inputs, :outputs] = drawn[outputs:].reshape(inputs, outputs)
        out[shape.weight[layer] : shape.bias[layer]] = weights.reshape(-1)
        out[shape.bias[layer] : shape.bias[layer] + outputs] = drawn[:outputs]
        inputs = outputs
    drawn = _within(fold_name(key, "head"), inputs + 1, inputs)
    out[shape.head : shape.head + inputs] = drawn[1:]
    out[shape.head + shape.width[-1]] = drawn[0]
    return out


def _within(key: np.uint64, count: int, inputs: int) -> Float32Array:
    """Returns numbers uniform within 1 / sqrt(inputs), float32 [count]."""
    unit = uniforms(folds(key, np.arange(count)))
    numbers = (2 * unit - 1) / np.sqrt(inputs)
    return numbers.astype(np.float32)


# ---- on the server -------------------------------------------------------------------------------


def similarities(tables: Float32Array) -> Float64Array:
    """Returns cos(vec Q_u, vec Q_v) of every two users, float64 [m, m]; 0 with a table of zeros.
    tables: float32 [m, n], n a multiple of LANES.
    """
    products = np.zeros((len(tables), len(tables)))
    _products(sealed(tables), products)
    # The diagonal has the squared lengths. A table of zeros is like no other.
    length = np.sqrt(np.diag(products))
    length[length == 0] = np.inf
    # Only pairs with v <= u were added up.
    lower = products / length[:, None] / length
    return np.tril(lower) + np.tril(lower, -1).T


@njit(cache=True, nogil=True)
def _products(tables: Float32Array, out: Float64Array) -> None:
    """Adds Q_u . Q_v to out[u, v] for v <= u; four pairs of users at a time."""
    m, n = tables.shape
    for low in range(0, n, CHUNK):
        high = min(low + CHUNK, n)
        for u in range(0, m, 2):
            # The last user may be alone: its other half is left out at the end.
            next_u = min(u + 1, m - 1)
            for v in range(0, u + 1, 2):
                next_v = min(v + 1, m - 1)
                a = every(np.float32(0))
                b = every(np.float32(0))
                c = every(np.float32(0))
                d = every(np.float32(0))
                for f in range(low, high, LANES):
                    first = load(tables, u * n + f)
                    second = load(tables, next_u * n + f)
                    third = load(tables, v * n + f)
                    fourth = load(tables, next_v * n + f)
                    # Two rows of each side make four products: loads are the cost here.
                    a = a + first * third
                    b = b + first * fourth
                    c = c + second * third
                    d = d + second * fourth
                out[u, v] += sum_of(a)
                if next_v > v:
                    out[u, next_v] += sum_of(b)
                if next_u > u:
                    out[next_u, v] += sum_of(c)
                    if next_v > v:
                        out[next_u, next_v] += sum_of(d)


def means(tables: Float32Array, near: BoolArray) -> Float32Array:
    """Returns the mean of the tables of each user's neighbours, float32 [m, n]. near: bool [m, m],
    the neighbours of user u in row u, at least one. n is a multiple of LANES.
    """
    out = np.empty_like(tables)
    # Neighbours as lists, since most users have few.
    user, neighbour = np.nonzero(near)
    ptr = starts_of(np.bincount(user, minlength=len(near)))
    held = zeros(len(tables), PIECE)
    _means(sealed(tables), ptr, neighbour.astype(np.int32), held, out)
    return out


@njit(cache=True, nogil=True, error_model="numpy")
def _means(
    tables: Float32Array,
    ptr: Int64Array,
    neighbour: Int32Array,
    held: Float32Array,
    out: Float32Array,
) -> None:
    """Writes the means, PIECE numbers of every table at a time. held: room for these."""
    m, n = tables.shape
    for low in range(0, n, PIECE):
        size = min(PIECE, n - low)
        # The same piece of every table lies together, so that it stays in the cache.
        for v in range(m):
            for f in range(0, size, LANES):
                numbers = load(tables, v * n + low + f)
                store(held, v * PIECE + f, numbers)
        for u in range(m):
            a = every(np.float32(0))
            b = every(np.float32(0))
            c = every(np.float32(0))
            d = every(np.float32(0))
            for at in range(ptr[u], ptr[u + 1]):
                row = int(neighbour[at]) * PIECE
                a = a + load(held, row)
                b = b + load(held, row + LANES)
                c = c + load(held, row + 2 * LANES)
                d = d + load(held, row + 3 * LANES)
            # The mean: a sum over the number of neighbours.
            share = every(np.float32(1) / np.float32(ptr[u + 1] - ptr[u]))
            # The last piece of a table may have fewer lanes.
            place = u * n + low
            store(out, place, share * a)
            if size > LANES:
                store(out, place + LANES, share * b)
            if size > 2 * LANES:
                store(out, place + 2 * LANES, share * c)
            if size > 3 * LANES:
                store(out, place + 3 * LANES, share * d)
