"""Neural collaborative filtering on one device: GMF, MLP and NeuMF.

X. He, L. Liao, H. Zhang, L. Nie, X. Hu, T.-S. Chua, "Neural collaborative filtering", WWW 2017. The
probability that u likes i is

    y_ui = sigma(h . [p_u^G * q_i^G ; a_L] + h_0),   a_0 = [p_u^M ; q_i^M],   a_l = max(0, a_{l-1}
    W_l + b_l)

with * element by element. Without layers it is GMF, without factors the MLP, with both NeuMF. The
model has three parts (Cali3F, section III): user embedding [p^G ; p^M], item embedding [q^G ; q^M],
and the non-embedding part (W, b, h, h_0), here `network`, one flat array. `train` is what every
federated NCF system does on a device, from private copies of the model (sections 3.1 to 3.3 with
the device's own history as the data): binary cross-entropy over the consumed items in a random
order, each with `negatives` others drawn anew in every epoch; a step along the mean gradient of
every `batch` samples, by SGD or Adam. A device copies only the item rows that it touches.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from numba import njit

from ..core.errors import InputError
from ..core.keys import below, draw, fold, folds
from ..core.lanes.simd import (
    LANES,
    Lanes,
    every,
    inside,
    load,
    padded,
    store,
    sum_of,
    unless_negative,
    zeros,
)
from ..core.lanes.tiles import add_outer, products, weighted
from ..core.types import Float32Array, Int32Array, Int64Array, UInt64Array
from .adam import BETA1, BETA2, direction, moment
from .logistic import logistic
from .negatives import count_gaps, fill_gaps


class NCFShape(NamedTuple):
    """The layout of a model in flat arrays. Numbers are padded to whole lanes: the numbers that
    fill up are 0 and stay so.

    factors: length of p^G. embedding: length of p^M. gmf, mlp: the same, padded. width: int64 [L +
    1], padded widths of a_0 .. a_L. weight, bias: int64 [L], where W_l [width[l], width[l + 1]] and
    b_l begin in `network`; head: where h begins, h_0 follows it; top: where a_L begins in a_0 ..
    a_L.
    """

    factors: int
    embedding: int
    gmf: int
    mlp: int
    width: Int64Array
    weight: Int64Array
    bias: Int64Array
    head: int
    top: int

    @property
    def row(self) -> int:
        """Numbers in a user's or an item's embedding, with padding."""
        return self.factors + self.embedding

    @property
    def network(self) -> int:
        """Numbers in the non-embedding part, h_0 in lanes of its own."""
        return self.head + self.gmf + int(self.width[-1]) + LANES


@cache
def shape_of(factors: int, layers: tuple[int, ...]) -> NCFShape:
    """The layout for p^G of length `factors` and a tower whose layers' outputs have these lengths;
    p^M has the length of the first.
    """
    embedding = layers[0] if layers else 0
    mlp = padded(embedding)
    width = np.array([2 * mlp, *(padded(length) for length in layers)] if layers else [0], np.int64)
    sizes = width[:-1] * width[1:] + width[1:]
    weight = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    bias = weight[:-1] + width[:-1] * width[1:]
    return NCFShape(
        factors,
        embedding,
        padded(factors),
        mlp,
        width,
        weight[:-1],
        bias,
        int(weight[-1]),
        int(width[:-1].sum()),
    )


def unpadded(shape: NCFShape, row: Float32Array) -> Float32Array:
    """Rows without the numbers that fill up: float32 [n, row]."""
    return np.concatenate(
        [row[:, : shape.factors], row[:, shape.gmf : shape.gmf + shape.embedding]], axis=1
    )


# ---- one sample ----------------------------------------------------------------------------------


@inside
def forward(
    shape: NCFShape,
    net: Float32Array,
    user: Float32Array,
    u: int,
    item: Float32Array,
    i: int,
    act: Float32Array,
    pre: Float32Array,
    k: int,
) -> np.float32:
    """The logit h . [p^G * q^G ; a_L] + h_0 by network k of `net`, of the padded embeddings at flat
    positions u of `user` and i of `item`; leaves act and pre behind."""
    gmf, mlp, head, widths, weights, biases = (
        shape.gmf,
        shape.mlp,
        shape.head,
        shape.width,
        shape.weight,
        shape.bias,
    )
    layers, last, own = len(weights), widths[len(weights)], k * net.shape[1]
    total = every(np.float32(0))
    for f in range(0, gmf, LANES):
        total = total + load(net, own + head + f) * (load(user, u + f) * load(item, i + f))
    if layers:
        for f in range(0, mlp, LANES):
            store(act, f, load(user, u + gmf + f))
            store(act, mlp + f, load(item, i + gmf + f))
        into = 0
        for layer in range(layers):
            wide, narrow = widths[layer], widths[layer + 1]
            out = into + wide
            for o in range(0, narrow, LANES):
                z = load(net, own + biases[layer] + o)
                for f in range(0, wide, LANES):
                    z = z + weighted(
                        net, own + weights[layer] + f * narrow + o, narrow, act, into + f
                    )
                store(pre, out + o, z)
                store(act, out + o, unless_negative(z, z))
            into = out
        for f in range(0, last, LANES):
            total = total + load(net, own + head + gmf + f) * load(act, into + f)
    return sum_of(total) + net[k, head + gmf + last]


@inside
def backward(
    shape: NCFShape,
    net: Float32Array,
    user: Float32Array,
    u: int,
    item: Float32Array,
    i: int,
    act: Float32Array,
    pre: Float32Array,
    back: Float32Array,
    error: np.float32,
    reg: Lanes,
    gnet: Float32Array,
    gu: Float32Array,
    u_to: int,
    gi: Float32Array,
    i_to: int,
    k: int,
) -> None:
    """Adds the gradient of a sample's loss by network k to row k of gnet and, of network 0 alone,
    to gu at flat position u_to and to gi at i_to. error: y_ui less its label."""
    gmf, mlp, head, widths, weights, biases = (
        shape.gmf,
        shape.mlp,
        shape.head,
        shape.width,
        shape.weight,
        shape.bias,
    )
    layers, last, none, own = (
        len(weights),
        widths[len(weights)],
        every(np.float32(0)),
        k * net.shape[1],
    )
    head_gmf, head_mlp, into = own + head, own + head + gmf, shape.top
    e = every(error)
    gnet[k, head + gmf + last] += error
    for f in range(0, gmf, LANES):
        p, q, h = load(user, u + f), load(item, i + f), load(net, head_gmf + f)
        store(gnet, head_gmf + f, load(gnet, head_gmf + f) + e * (p * q))
        if k == 0:
            store(gu, u_to + f, load(gu, u_to + f) + (e * (h * q) + reg * p))
            store(gi, i_to + f, load(gi, i_to + f) + (e * (h * p) + reg * q))
    if layers:
        for f in range(0, last, LANES):
            h = load(net, head_mlp + f)
            store(gnet, head_mlp + f, load(gnet, head_mlp + f) + e * load(act, into + f))
            store(back, into + f, e * h)
        for layer in range(layers - 1, -1, -1):
            wide, narrow = widths[layer], widths[layer + 1]
            out = into
            into = out - wide
            for o in range(0, narrow, LANES):
                dz = unless_negative(load(pre, out + o), load(back, out + o))
                store(back, out + o, dz)
                store(gnet, own + biases[layer] + o, load(gnet, own + biases[layer] + o) + dz)
            for f in range(0, wide, LANES):
                dx = none
                for o in range(0, narrow, LANES):
                    dz, tile = load(back, out + o), own + weights[layer] + f * narrow + o
                    dx = dx + products(net, tile, narrow, dz)
                    add_outer(gnet, tile, narrow, act, into + f, dz)
                store(back, into + f, dx)
        for f in range(0, mlp if k == 0 else 0, LANES):
            p, q = load(user, u + gmf + f), load(item, i + gmf + f)
            store(gu, u_to + gmf + f, load(gu, u_to + gmf + f) + (load(back, f) + reg * p))
            store(gi, i_to + gmf + f, load(gi, i_to + gmf + f) + (load(back, mlp + f) + reg * q))


@inside
def slope(logit: np.float32, label: bool) -> np.float32:
    """The slope of the loss by the logit, y_ui less its label, without the digits that 1 - y_ui
    would lose where y_ui is nearly 1.
    """
    return -logistic(-logit) if label else logistic(logit)


@njit(cache=True, inline="always")
def adam(
    moments: Float32Array, m: int, v: int, gradient: Lanes, c1: Lanes, c2: Lanes, epsilon: Lanes
) -> Lanes:
    """Adam's step for sixteen numbers, without its rate; rows that a batch does not touch keep
    their moments, as sparse Adam has it.
    """
    mean = moment(
        load(moments, m), gradient, every(np.float32(BETA1)), every(np.float32(1 - BETA1))
    )
    square = moment(
        load(moments, v),
        gradient * gradient,
        every(np.float32(BETA2)),
        every(np.float32(1 - BETA2)),
    )
    store(moments, m, mean)
    store(moments, v, square)
    return direction(mean, square, c1, c2, epsilon)


# ---- one device ----------------------------------------------------------------------------------


class NCFRates(NamedTuple):
    """Constants of a device's training. user, item, network: learning rates of the three parts.
    reg: of the embeddings, for each sample. pull: how strongly network and user are held to where
    they are anchored (Ditto's lambda). adam: by Adam with this epsilon, not by SGD."""

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


class NCFData(NamedTuple):
    """The private data of m devices: `Histories` without values, and the key each draws from."""

    ptr: Int64Array
    item: Int32Array
    avoid_ptr: Int64Array
    avoid: Int32Array
    keys: UInt64Array


class NCFLearnt(NamedTuple):
    """Moves and new embeddings that m devices learnt. ptr, item: as in an Update, ascending within
    a device, since the order of learning would tell what was consumed; row: float32 [n, row], how
    the item's embedding moved; network: float32 [m, network], how the network moved; beside: the
    same of the network beside it, [0, network] without; user: float32 [m, row], the new user
    embeddings.
    """

    ptr: Int64Array
    item: Int32Array
    row: Float32Array
    network: Float32Array
    beside: Float32Array
    user: Float32Array


class _NCFDeviceRoom(NamedTuple):
    """Memory for the devices of one call. ptr, item, moved: as in NCFLearnt. Of one device at a
    time: row, its copies of item embeddings (padded), and row_at, where an item's is (-1 = not
    copied yet); u, net (what it learns), their gradients, anchors and Adam's moments (those of u
    and the first network, then those of the second); act, pre, back: the tower's outputs, what the
    rectifier received, and the gradient on its way back. Of a batch: gradient, of which row
    slot_of[r] is row r's, and row_of, the reverse. gaps: see `triples`; order: of the consumed
    items in an epoch.
    """

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
    shape: NCFShape,
    rates: NCFRates,
    user: Float32Array,
    item: Float32Array,
    network: Float32Array,
    group: Int32Array,
    data: NCFData,
    *,
    user_anchor: Float32Array | None = None,
    network_anchor: Float32Array | None = None,
    beside: Float32Array | None = None,
) -> NCFLearnt:
    """Trains private copies of the model on each of the m devices of `data`, and returns what they
    learnt.

    user: float32 [m, row], each device's own. item: float32 [items, row], read only where a device
    touches it. network: float32 [groups, network], of which device d starts from number group[d]
    (int32 [m]). The anchors, float32 like user and [m, network] or [1, network], matter with
    rates.pull. beside: float32 [1, network], a second network that every device trains in the same
    pass: on the same samples, and on the embeddings as they are then, which it does not move.
    Raises InputError for a group without a network.
    """
    _check_groups(group, network)
    m, second = len(user), network[:0] if beside is None else np.ascontiguousarray(beside)
    room, user_out = (
        _room(shape, rates, data, len(item), 1 + len(second)),
        np.ascontiguousarray(user).copy(),
    )
    moved, moved_beside = (
        np.empty((rows, network.shape[1]), np.float32) for rows in (m, m * len(second))
    )
    anchors = (
        user if user_anchor is None else user_anchor,
        network if network_anchor is None else network_anchor,
    )
    shared = network_anchor is None or len(network_anchor) == 1
    n = _train(
        shape,
        rates,
        item,
        user_out,
        network,
        group,
        data,
        *anchors,
        shared,
        second,
        room,
        moved,
        moved_beside,
    )
    return NCFLearnt(room.ptr, room.item[:n], room.moved[:n], moved, moved_beside, user_out)


def _check_groups(group: Int32Array, network: Float32Array) -> None:
    """The compiled loops read where they are told: a group that does not exist must not reach
    them.
    """
    if len(group) and not 0 <= int(group.min()) <= int(group.max()) < len(network):
        problem = f"groups from {group.min()} to {group.max()}"
        raise InputError(
            "networks",
            problem,
            expected=f"numbers from 0, below the {len(network)} networks there are",
        )


def _room(
    shape: NCFShape, rates: NCFRates, data: NCFData, items: int, networks: int
) -> _NCFDeviceRoom:
    counts, avoided = np.diff(data.ptr), np.diff(data.avoid_ptr)
    touched = np.minimum(counts * (1 + rates.negatives * rates.epochs), items)
    width, most, longest = (
        shape.gmf + shape.mlp,
        int(touched.max(initial=0)),
        int(counts.max(initial=0)),
    )
    batch = min(rates.batch, max(1, longest * (1 + rates.negatives)))
    layers = int(shape.width.sum()) + LANES
    net = shape.network
    return _NCFDeviceRoom(
        ptr=np.zeros(len(counts) + 1, np.int64),
        item=np.empty(int(touched.sum()), np.int32),
        moved=np.empty(
            (int(touched.sum()) + LANES, shape.row), np.float32
        ),  # the last row's lanes may reach beyond it
        row=zeros(most + 1, width),
        row_at=np.full(items, -1, np.int32),
        u=zeros(1, width),
        net=zeros(networks, net),
        gu=zeros(1, width),
        gnet=zeros(networks, net),
        user_anchor=zeros(1, width),
        net_anchor=zeros(1, net),
        moments=zeros(2, width + networks * net) if rates.adam else zeros(1, 1),
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


# Flat loops over arrays taken out of their tuples first: numba counts references to every array
# that a loop takes, hands on or
# slices, with an atomic instruction each, and that would cost more than the arithmetic. What is
# `inside` a loop counts none and is
# inlined by the compiler: it may take arrays, but neither makes nor returns one. Rows go LANES
# numbers at a time.


@inside
def descend(
    what: Float32Array,
    gradient: Float32Array,
    anchor: Float32Array,
    at: int,
    size: int,
    moments: Float32Array,
    m: int,
    v: int,
    rates: NCFRates,
    rate: np.float32,
    mean: Lanes,
    c1: Lanes,
    c2: Lanes,
) -> None:
    """Takes a step of `what`, from flat position `at`, along the mean gradient and the pull to its
    anchor, and sets the gradient to 0. m, v: where its moments begin."""
    none, pull, epsilon = every(np.float32(0)), every(rates.pull), every(rates.epsilon)
    for f in range(0, size, LANES):
        step, x = mean * load(gradient, at + f), load(what, at + f)
        store(gradient, at + f, none)
        if rates.pull != 0:
            step = step + pull * (x - load(anchor, f))
        if rates.adam:
            step = adam(moments, m + f, v + f, step, c1, c2, epsilon)
        store(what, at + f, x - every(rate) * step)


@njit(cache=True, nogil=True, error_model="numpy")
def _train(
    shape: NCFShape,
    rates: NCFRates,
    table: Float32Array,
    user: Float32Array,
    networks: Float32Array,
    group: Int32Array,
    data: NCFData,
    user_anchors: Float32Array,
    network_anchors: Float32Array,
    shared: bool,
    second: Float32Array,
    room: _NCFDeviceRoom,
    moved: Float32Array,
    moved_beside: Float32Array,
) -> int:
    """All devices one after the other; writes what they learnt and returns how many rows that is.
    `user` changes in place.
    """
    ptr, history, avoid_ptr, avoid, keys = (
        data.ptr,
        data.item,
        data.avoid_ptr,
        data.avoid,
        data.keys,
    )
    item, out, row, row_at, u, net, gu, gnet = (
        room.item,
        room.moved,
        room.row,
        room.row_at,
        room.u,
        room.net,
        room.gu,
        room.gnet,
    )
    user_anchor, net_anchor, moments, row_moments = (
        room.user_anchor,
        room.net_anchor,
        room.moments,
        room.row_moments,
    )
    act, pre, back, gradient = room.act, room.pre, room.back, room.gradient
    row_of, slot_of, gaps, order = room.row_of, room.slot_of, room.gaps, room.order
    factors, embedding, gmf, mlp = shape.factors, shape.embedding, shape.gmf, shape.mlp
    items, own, width, size, negatives = (
        len(table),
        factors + embedding,
        gmf + mlp,
        net.shape[1],
        rates.negatives,
    )
    none, reg = every(np.float32(0)), every(rates.reg)
    held, epsilon, several = rates.pull != 0, every(rates.epsilon), 1 + len(second)
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
        for f in range(0, size if several > 1 else 0, LANES):
            store(net, size + f, load(second, f))
        if held:
            at = 0 if shared else d * size
            for f in range(0, size, LANES):
                store(net_anchor, f, load(network_anchors, at + f))
            for f in range(0, factors, LANES):
                store(user_anchor, f, load(user_anchors, d * own + f, factors - f))
            for f in range(0, embedding, LANES):
                store(
                    user_anchor, gmf + f, load(user_anchors, d * own + factors + f, embedding - f)
                )
        copies = 0
        fill_gaps(avoid, avoid_ptr[d], avoided, gaps)
        extra = (
            negatives if avoided < items else 0
        )  # nothing is left to draw: the device learns from what it has
        if rates.adam:
            for f in range(0, 2 * (width + several * size), LANES):
                store(moments, f, none)
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
                        store(
                            row,
                            r * width + gmf + f,
                            load(table, i * own + factors + f, embedding - f),
                        )
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
                for number in range(several):
                    error = slope(forward(shape, net, u, 0, row, at, act, pre, number), label)
                    backward(
                        shape,
                        net,
                        u,
                        0,
                        row,
                        at,
                        act,
                        pre,
                        back,
                        error,
                        reg,
                        gnet,
                        gu,
                        0,
                        gradient,
                        g * width,
                        number,
                    )

                # the step, at the end of a batch
                if taken == rates.batch or t == samples - 1:
                    share = np.float32(1) / np.float32(taken)
                    mean = every(share)
                    decay1, decay2 = decay1 * BETA1, decay2 * BETA2
                    c1, c2 = (
                        every(np.float32(1 / (1 - decay1))),
                        every(np.float32(1 / (1 - decay2))),
                    )
                    descend(
                        u,
                        gu,
                        user_anchor,
                        0,
                        width,
                        moments,
                        0,
                        width,
                        rates,
                        rates.user,
                        mean,
                        c1,
                        c2,
                    )
                    for number in range(several):
                        m, own_net = 2 * (width + number * size), number * size
                        descend(
                            net,
                            gnet,
                            net_anchor,
                            own_net,
                            size,
                            moments,
                            m,
                            m + size,
                            rates,
                            rates.network,
                            mean,
                            c1,
                            c2,
                        )
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
                    store(
                        out,
                        n * own + f,
                        load(row, r * width + f) - load(table, i * own + f, factors - f),
                    )
                for f in range(0, embedding, LANES):
                    was = load(table, i * own + factors + f, embedding - f)
                    store(out, n * own + factors + f, load(row, r * width + gmf + f) - was)
                n += 1
        room.ptr[d + 1] = n
        at = int(group[d]) * size
        for f in range(0, size, LANES):
            store(moved, d * size + f, load(net, f) - load(networks, at + f))
        for f in range(0, size if several > 1 else 0, LANES):
            store(moved_beside, d * size + f, load(net, size + f) - load(second, f))
        for f in range(factors):
            user[d, f] = u[0, f]
        for f in range(embedding):
            user[d, factors + f] = u[0, gmf + f]
    return n


# ---- the first network ---------------------------------------------------------------------------


def init_network(shape: NCFShape, layers: tuple[int, ...], key: np.uint64) -> Float32Array:
    """The initial non-embedding part, float32 [network]: W uniform as Glorot and Bengio (2010) have
    it, h as LeCun has it, biases 0.
    """
    out, inputs = np.zeros(shape.network, np.float32), 2 * shape.embedding
    for layer, outputs in enumerate(layers):
        wide, narrow = int(shape.width[layer]), int(shape.width[layer + 1])
        used = (
            np.arange(inputs)
            if layer
            else np.concatenate(
                [np.arange(shape.embedding), shape.mlp + np.arange(shape.embedding)]
            )
        )
        weights = np.zeros((wide, narrow), np.float32)
        weights[used[:, None], np.arange(outputs)] = _uniforms(
            fold(key, layer), inputs, outputs, np.sqrt(6 / (inputs + outputs))
        )
        out[shape.weight[layer] : shape.bias[layer]] = weights.reshape(-1)
        inputs = outputs
    heads = [
        shape.head + np.arange(shape.factors),
        shape.head + shape.gmf + np.arange(layers[-1] if layers else 0),
    ]
    at = np.concatenate(heads)
    out[at] = _uniforms(fold(key, len(layers)), len(at), 1, np.sqrt(3 / len(at)))[:, 0]
    return out


def _uniforms(key: np.uint64, rows: int, columns: int, limit: float) -> Float32Array:
    """Uniform on [-limit, limit), float32 [rows, columns]."""
    bits = folds(np.uint64(key), np.arange(rows * columns))
    return (
        (limit * (2 * (bits >> np.uint64(11)).astype(np.float64) / 2**53 - 1))
        .astype(np.float32)
        .reshape(rows, columns)
    )


# ---- scores --------------------------------------------------------------------------------------


def scores(
    shape: NCFShape,
    user: Float32Array,
    item: Float32Array,
    network: Float32Array,
    group: Int32Array,
) -> Float32Array:
    """Scores of every item, float32 [m, items]: the logits h . [..] + h_0, whose order is that of
    y_ui. Arguments as in `train`.
    """
    _check_groups(group, network)
    out, tower = np.empty((len(user), len(item)), np.float32), int(shape.width.sum()) + LANES
    room = zeros(1, tower), zeros(1, tower), zeros(1, shape.network)
    _scores(
        shape,
        _filled(shape, user),
        _filled(shape, item),
        np.ascontiguousarray(network),
        group,
        *room,
        out,
    )
    return out


def _filled(shape: NCFShape, row: Float32Array) -> Float32Array:
    """Rows with the numbers that fill up, float32 [n, gmf + mlp]."""
    out = zeros(len(row), shape.gmf + shape.mlp)
    out[:, : shape.factors], out[:, shape.gmf : shape.gmf + shape.embedding] = (
        row[:, : shape.factors],
        row[:, shape.factors :],
    )
    return out


@njit(cache=True, nogil=True, error_model="numpy")
def _scores(
    shape: NCFShape,
    user: Float32Array,
    table: Float32Array,
    networks: Float32Array,
    group: Int32Array,
    act: Float32Array,
    pre: Float32Array,
    net: Float32Array,
    out: Float32Array,
) -> None:
    """`forward` of every device and item."""
    size, width = networks.shape[1], user.shape[1]
    for d in range(len(user)):
        for f in range(0, size, LANES):
            store(net, f, load(networks, int(group[d]) * size + f))
        for i in range(len(table)):
            out[d, i] = forward(shape, net, user, d * width, table, i * width, act, pre, 0)
