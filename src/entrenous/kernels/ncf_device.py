"""Neural collaborative filtering learnt on one device, from private copies of the model: what every federated NCF system does there.

He et al. 2017, section 3.1 to 3.3, with the device's own history as the data: each epoch takes the consumed items in a random order, each
with `negatives` others drawn anew, and steps along the mean gradient of every `batch` samples, by SGD or Adam. A device copies only the
item rows that it touches.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from ..core.keys import below, draw, fold
from ..core.negatives import count_gaps, fill_gaps
from ..core.simd import LANES, Lanes, every, inside, load, store, zeros
from ..core.types import Float32Array, Int32Array, Int64Array, UInt64Array
from .ncf import Shape, adam, backward, forward, slope


class Rates(NamedTuple):
    """How a device learns. user, item, network: learning rates of the three parts. reg: of the embeddings, for each sample.
    pull: how strongly network and user are held to where they are anchored (Ditto's lambda). adam: by Adam with this
    epsilon, not by SGD."""

    user: np.float32
    item: np.float32
    network: np.float32
    reg: np.float32
    pull: np.float32
    adam: bool
    epsilon: np.float32
    epochs: int
    negatives: int
    batch: int


class Data(NamedTuple):
    """The private data of m devices: `Histories` without values, and the key each draws from."""

    ptr: Int64Array
    item: Int32Array
    avoid_ptr: Int64Array
    avoid: Int32Array
    keys: UInt64Array


class Sent(NamedTuple):
    """What m devices learnt. ptr, item: as in an Update, ascending within a device, since the order of learning would tell what was
    consumed; row: float32 [n, row], how the item's embedding moved; network: float32 [m, network], how the network moved; user:
    float32 [m, row], the new user embeddings."""

    ptr: Int64Array
    item: Int32Array
    row: Float32Array
    network: Float32Array
    user: Float32Array


class _Room(NamedTuple):
    """Memory for the devices of one call. ptr, item, moved: as in Sent. Of one device at a time: row, its copies of item embeddings
    (padded), and row_at, where an item's is (-1 = not copied yet); u, net (what it learns), their gradients, anchors and Adam's moments;
    act, pre, back: the tower's outputs, what the rectifier received, and the gradient on its way back. Of a batch: gradient, of which
    row slot_of[r] is row r's, and row_of, the reverse. gaps: see `triples`; order: of the consumed items in an epoch."""

    ptr: Int64Array
    item: Int32Array
    moved: Float32Array
    row: Float32Array
    row_at: Int32Array
    u: Float32Array
    net: Float32Array
    gu: Float32Array
    gnet: Float32Array
    user_anchor: Float32Array
    net_anchor: Float32Array
    moments: Float32Array
    row_moments: Float32Array
    act: Float32Array
    pre: Float32Array
    back: Float32Array
    gradient: Float32Array
    row_of: Int32Array
    slot_of: Int32Array
    gaps: Int32Array
    order: Int32Array


def train(
    shape: Shape, rates: Rates, user: Float32Array, item: Float32Array, network: Float32Array, group: Int32Array, data: Data,
    *, user_anchor: Float32Array | None = None, network_anchor: Float32Array | None = None,
) -> Sent:  # fmt: skip
    """What the m devices of `data` learn from private copies of the model.

    user: float32 [m, row], each device's own. item: float32 [items, row], read only where a device touches it. network: float32
    [groups, network], of which device d starts from number group[d] (int32 [m]). The anchors, float32 like user and [m, network] or
    [1, network], matter with rates.pull.
    """
    m = len(user)
    room, user_out = _room(shape, rates, data, len(item)), np.ascontiguousarray(user).copy()
    moved = np.empty((m, network.shape[1]), np.float32)
    anchors = user if user_anchor is None else user_anchor, network if network_anchor is None else network_anchor
    shared = network_anchor is None or len(network_anchor) == 1
    n = _train(shape, rates, item, user_out, network, group, data, *anchors, shared, room, moved)
    return Sent(room.ptr, room.item[:n], room.moved[:n], moved, user_out)


def _room(shape: Shape, rates: Rates, data: Data, items: int) -> _Room:
    counts, avoided = np.diff(data.ptr), np.diff(data.avoid_ptr)
    touched = np.minimum(counts * (1 + rates.negatives * rates.epochs), items)
    width, most, longest = shape.gmf + shape.mlp, int(touched.max(initial=0)), int(counts.max(initial=0))
    batch = min(rates.batch, max(1, longest * (1 + rates.negatives)))
    layers = int(shape.width.sum()) + LANES
    net = shape.network
    return _Room(
        ptr=np.zeros(len(counts) + 1, np.int64),
        item=np.empty(int(touched.sum()), np.int32),
        moved=np.empty((int(touched.sum()) + LANES, shape.row), np.float32),  # the last row's lanes may reach beyond it
        row=zeros(most + 1, width),
        row_at=np.full(items, -1, np.int32),
        u=zeros(1, width),
        net=zeros(1, net),
        gu=zeros(1, width),
        gnet=zeros(1, net),
        user_anchor=zeros(1, width),
        net_anchor=zeros(1, net),
        moments=zeros(2, width + net) if rates.adam else zeros(1, 1),
        row_moments=zeros(2 * most + 1, width) if rates.adam else zeros(1, 1),
        act=zeros(1, layers),
        pre=zeros(1, layers),
        back=zeros(1, layers),
        gradient=zeros(batch + 1, width),
        row_of=np.empty(batch + 1, np.int32),
        slot_of=np.full(most + 1, -1, np.int32),
        gaps=np.empty(int(avoided.max(initial=0)) + LANES, np.int32),
        order=np.empty(longest, np.int32),
    )


# Flat loops over arrays taken out of their tuples first: numba counts references to every array that a loop takes, hands on or
# slices, with an atomic instruction each, and that would cost more than the arithmetic. What is `inside` a loop counts none and is
# inlined by the compiler: it may take arrays, but neither makes nor returns one. Rows go LANES numbers at a time.


@inside
def descend(
    what: Float32Array, gradient: Float32Array, anchor: Float32Array, size: int, moments: Float32Array, m: int, v: int, rates: Rates,
    rate: np.float32, mean: Lanes, c1: Lanes, c2: Lanes,
) -> None:  # fmt: skip
    """A step of `what` along the mean gradient and the pull to its anchor; the gradient is 0 then. m, v: where its moments begin."""
    none, pull, epsilon = every(np.float32(0)), every(rates.pull), every(rates.epsilon)
    for f in range(0, size, LANES):
        step, x = mean * load(gradient, f), load(what, f)
        store(gradient, f, none)
        if rates.pull != 0:
            step = step + pull * (x - load(anchor, f))
        if rates.adam:
            step = adam(moments, m + f, v + f, step, c1, c2, epsilon)
        store(what, f, x - every(rate) * step)


@njit(cache=True, nogil=True, error_model="numpy")
def _train(
    shape: Shape, rates: Rates, table: Float32Array, user: Float32Array, networks: Float32Array, group: Int32Array, data: Data,
    user_anchors: Float32Array, network_anchors: Float32Array, shared: bool, room: _Room, moved: Float32Array,
) -> int:  # fmt: skip
    """All devices one after the other; writes what they learnt and returns how many rows that is. `user` changes in place."""
    ptr, history, avoid_ptr, avoid, keys = data.ptr, data.item, data.avoid_ptr, data.avoid, data.keys
    item, out, row, row_at, u, net, gu, gnet = room.item, room.moved, room.row, room.row_at, room.u, room.net, room.gu, room.gnet
    user_anchor, net_anchor, moments, row_moments = room.user_anchor, room.net_anchor, room.moments, room.row_moments
    act, pre, back, gradient = room.act, room.pre, room.back, room.gradient
    row_of, slot_of, gaps, order = room.row_of, room.slot_of, room.gaps, room.order
    factors, embedding, gmf, mlp = shape.factors, shape.embedding, shape.gmf, shape.mlp
    items, own, width, size, negatives = len(table), factors + embedding, gmf + mlp, net.shape[1], rates.negatives
    none, reg = every(np.float32(0)), every(rates.reg)
    held, epsilon = rates.pull != 0, every(rates.epsilon)
    n = 0
    for d in range(len(keys)):
        start, length, avoided = ptr[d], ptr[d + 1] - ptr[d], avoid_ptr[d + 1] - avoid_ptr[d]
        # private copies
        for f in range(0, factors, LANES):
            store(u, f, load(user, d * own + f, factors - f))
        for f in range(0, embedding, LANES):
            store(u, gmf + f, load(user, d * own + factors + f, embedding - f))
        at = int(group[d]) * size
        for f in range(0, size, LANES):
            store(net, f, load(networks, at + f))
        if held:
            at = 0 if shared else d * size
            for f in range(0, size, LANES):
                store(net_anchor, f, load(network_anchors, at + f))
            for f in range(0, factors, LANES):
                store(user_anchor, f, load(user_anchors, d * own + f, factors - f))
            for f in range(0, embedding, LANES):
                store(user_anchor, gmf + f, load(user_anchors, d * own + factors + f, embedding - f))
        copies = 0
        fill_gaps(avoid, avoid_ptr[d], avoided, gaps)
        extra = negatives if avoided < items else 0  # nothing is left to draw: the device learns from what it has
        if rates.adam:
            for f in range(0, width + size, LANES):
                store(moments, f, none)
                store(moments, width + size + f, none)
        decay1, decay2 = np.float64(1), np.float64(1)

        for epoch in range(rates.epochs):
            key = fold(keys[d], epoch)
            for r in range(length):
                order[r] = np.int32(r)
            for r in range(length - 1, 0, -1):  # Fisher and Yates
                other = below(draw(key, r), r + 1)
                order[r], order[other] = order[other], order[r]
            samples, filled, taken = length * (1 + extra), 0, 0
            for t in range(samples):
                # the sample: a consumed item, then its negatives
                which = t % (1 + extra)
                if which == 0:
                    i, label = int(history[start + order[t // (1 + extra)]]), True
                else:
                    k = below(draw(key, length + t), items - avoided)
                    i, label = int(k + count_gaps(gaps, avoided, k)), False
                # its row among the device's copies
                r = int(row_at[i])
                if r < 0:
                    r = copies
                    row_at[i] = np.int32(r)
                    for f in range(0, factors, LANES):
                        store(row, r * width + f, load(table, i * own + f, factors - f))
                    for f in range(0, embedding, LANES):
                        store(row, r * width + gmf + f, load(table, i * own + factors + f, embedding - f))
                    if rates.adam:
                        for f in range(0, width, LANES):
                            store(row_moments, 2 * r * width + f, none)
                            store(row_moments, 2 * r * width + width + f, none)
                    copies += 1
                at = r * width
                g = int(slot_of[r])
                if g < 0:
                    g = filled
                    slot_of[r], row_of[g] = np.int32(g), np.int32(r)
                    for f in range(0, width, LANES):
                        store(gradient, g * width + f, none)
                    filled += 1
                taken += 1
                error = slope(forward(shape, net, u, 0, row, at, act, pre), label)
                backward(shape, net, u, 0, row, at, act, pre, back, error, reg, gnet, gu, 0, gradient, g * width)

                # the step, at the end of a batch
                if taken == rates.batch or t == samples - 1:
                    share = np.float32(1) / np.float32(taken)
                    mean = every(share)
                    decay1, decay2 = decay1 * 0.9, decay2 * 0.999
                    c1, c2 = every(np.float32(1 / (1 - decay1))), every(np.float32(1 / (1 - decay2)))
                    descend(u, gu, user_anchor, width, moments, 0, width + size, rates, rates.user, mean, c1, c2)
                    descend(net, gnet, net_anchor, size, moments, width, 2 * width + size, rates, rates.network, mean, c1, c2)
                    rate = every(rates.item)
                    for g in range(filled):
                        r = int(row_of[g])
                        slot_of[r] = -1
                        for f in range(0, width, LANES):
                            step = mean * load(gradient, g * width + f)
                            if rates.adam:
                                mine = 2 * r * width + f
                                step = adam(row_moments, mine, mine + width, step, c1, c2, epsilon)
                            store(row, r * width + f, load(row, r * width + f) - rate * step)
                    filled, taken = 0, 0

        # how far everything moved
        for i in range(items):
            r = int(row_at[i])
            if r >= 0:
                row_at[i], item[n] = -1, np.int32(i)
                for f in range(0, factors, LANES):
                    store(out, n * own + f, load(row, r * width + f) - load(table, i * own + f, factors - f))
                for f in range(0, embedding, LANES):
                    was = load(table, i * own + factors + f, embedding - f)
                    store(out, n * own + factors + f, load(row, r * width + gmf + f) - was)
                n += 1
        room.ptr[d + 1] = n
        at = int(group[d]) * size
        for f in range(0, size, LANES):
            store(moved, d * size + f, load(net, f) - load(networks, at + f))
        for f in range(factors):
            user[d, f] = u[0, f]
        for f in range(embedding):
            user[d, factors + f] = u[0, gmf + f]
    return n
