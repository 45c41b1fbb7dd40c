"""Neural collaborative filtering on one device: GMF, MLP and NeuMF.

X. He, L. Liao, H. Zhang, L. Nie, X. Hu, T.-S. Chua, "Neural collaborative filtering", WWW 2017. The probability that u likes i is

    y_ui = sigma(h . [p_u^G * q_i^G ; a_L] + h_0),   a_0 = [p_u^M ; q_i^M],   a_l = max(0, a_{l-1} W_l + b_l)

with * element by element. Without layers it is GMF, without factors the MLP, with both NeuMF. The model has three parts (Cali3F,
section III): user embedding [p^G ; p^M], item embedding [q^G ; q^M], and the non-embedding part (W, b, h, h_0), here `network`,
one flat array. Training minimises binary cross-entropy over each consumed item and `negatives` others, redrawn every epoch.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from ..core.keys import below, draw, fold, folds
from ..core.simd import LANES, Lanes, every, load, padded, root, store, sum_of, unless_negative, zeros
from ..core.tiles import add_outer, products, weighted
from ..core.types import Float32Array, Int32Array, Int64Array, UInt64Array
from .logistic import logistic
from .triples import ONE, count_gaps, fill_gaps, first_slot


class Shape(NamedTuple):
    """Where everything is. Numbers are padded to whole lanes: the numbers that fill up are 0 and stay so.

    factors: length of p^G. embedding: length of p^M. gmf, mlp: the same, padded. width: int64 [L + 1], padded widths of a_0 .. a_L.
    weight, bias: int64 [L], where W_l [width[l], width[l + 1]] and b_l begin in `network`; head: where h begins, h_0 follows it;
    top: where a_L begins in a_0 .. a_L.
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
        """Numbers in a user's or an item's embedding."""
        return self.factors + self.embedding

    @property
    def network(self) -> int:
        """Numbers in the non-embedding part, h_0 in lanes of its own."""
        return self.head + self.gmf + int(self.width[-1]) + LANES


def shape_of(factors: int, layers: tuple[int, ...]) -> Shape:
    """The layout for p^G of length `factors` and a tower whose layers' outputs have these lengths; p^M has the length of the first."""
    embedding = layers[0] if layers else 0
    mlp = padded(embedding)
    width = np.array([2 * mlp, *(padded(length) for length in layers)] if layers else [0], np.int64)
    sizes = width[:-1] * width[1:] + width[1:]
    weight = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    bias = weight[:-1] + width[:-1] * width[1:]
    return Shape(factors, embedding, padded(factors), mlp, width, weight[:-1], bias, int(weight[-1]), int(width[:-1].sum()))


class Rates(NamedTuple):
    """How a device learns. user, item, network: learning rates of the three parts. reg: of the embeddings, for each sample.
    pull: how strongly network and user are held to where they are anchored (Ditto's lambda). adam: Adam instead of SGD, with its epsilon."""

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
    """What m devices learnt. ptr, item: as in an Update; row: float32 [n, gmf + mlp], how the item's embedding moved (padded);
    network: float32 [m, network], how the network moved; user: float32 [m, row], the new user embeddings."""

    ptr: Int64Array
    item: Int32Array
    row: Float32Array
    network: Float32Array
    user: Float32Array


class _Room(NamedTuple):
    """Memory for the devices of one call. Of one device at a time: u, net (what it learns), their gradients, anchors and Adam's
    moments; act, pre, back: the tower's outputs, what the rectifier received, and the gradient on its way back. Of a batch: row_of
    and gradient. slots, slot_of: which row holds an item, which row of the batch's gradient is a row's. gaps, order: see `triples`."""

    item: Int32Array
    row: Float32Array
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
    slots: Int32Array
    gaps: Int32Array
    order: Int32Array
    ptr: Int64Array


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
    return Sent(room.ptr, room.item[:n], room.row[:n], moved, user_out)


def _room(shape: Shape, rates: Rates, data: Data, items: int) -> _Room:
    counts, avoided = np.diff(data.ptr), np.diff(data.avoid_ptr)
    touched = np.minimum(counts * (1 + rates.negatives * rates.epochs), items)
    width, most, longest = shape.gmf + shape.mlp, int(touched.max(initial=0)), int(counts.max(initial=0))
    batch = min(rates.batch, max(1, longest * (1 + rates.negatives)))
    layers = int(shape.width.sum()) + LANES
    net = shape.network
    return _Room(
        item=np.empty(int(touched.sum()) + 1, np.int32),
        row=zeros(int(touched.sum()) + 1, width),
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
        slots=np.full(1 << max(2, (4 * most).bit_length()), -1, np.int32),
        gaps=np.empty(int(avoided.max(initial=0)) + LANES, np.int32),
        order=np.empty(longest, np.int32),
        ptr=np.zeros(len(counts) + 1, np.int64),
    )


# Flat loops over arrays taken out of their tuples first: numba counts references to every array that a loop takes, hands on or
# slices, with an atomic instruction each, and that would cost more than the arithmetic. What is `inside` a loop counts none and is
# inlined by the compiler: it may take arrays, but neither makes nor returns one. Rows go LANES numbers at a time.

inside = njit(cache=True, error_model="numpy", forceinline=True, _nrt=False)  # type: ignore[call-overload]  # _nrt is missing in the stubs


@njit(cache=True, nogil=True, error_model="numpy")
def _train(
    shape: Shape, rates: Rates, table: Float32Array, user: Float32Array, networks: Float32Array, group: Int32Array, data: Data,
    user_anchors: Float32Array, network_anchors: Float32Array, shared: bool, room: _Room, moved: Float32Array,
) -> int:  # fmt: skip
    """All devices one after the other; writes what they learnt and returns how many rows that is. `user` changes in place."""
    ptr, history, avoid_ptr, avoid, keys = data.ptr, data.item, data.avoid_ptr, data.avoid, data.keys
    item, row, u, net, gu, gnet = room.item, room.row, room.u, room.net, room.gu, room.gnet
    user_anchor, net_anchor, moments, row_moments = room.user_anchor, room.net_anchor, room.moments, room.row_moments
    act, pre, back, gradient = room.act, room.pre, room.back, room.gradient
    row_of, slot_of, slots, gaps, order = room.row_of, room.slot_of, room.slots, room.gaps, room.order
    factors, embedding, gmf, mlp = shape.factors, shape.embedding, shape.gmf, shape.mlp
    items, own, width, size, negatives = len(table), factors + embedding, gmf + mlp, net.shape[1], rates.negatives
    none, reg, pull = every(np.float32(0)), every(rates.reg), every(rates.pull)
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
        first = n
        table_bits = np.uint64(4)
        while np.int64(table_bits) < 4 * min(length * (1 + negatives * rates.epochs), items):
            table_bits = table_bits << ONE
        mask = table_bits - ONE
        slots[: np.int64(table_bits)] = -1
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
                    i, label = int(history[start + order[t // (1 + extra)]]), np.float32(1)
                else:
                    k = below(draw(key, length + t), items - avoided)
                    i, label = int(k + count_gaps(gaps, avoided, k)), np.float32(0)
                # its row among the device's copies
                slot = first_slot(i) & mask
                r = int(slots[slot])
                while r >= 0 and item[r] != i:
                    slot = (slot + ONE) & mask
                    r = int(slots[slot])
                if r < 0:
                    r = n
                    slots[slot], item[r] = np.int32(r), np.int32(i)
                    for f in range(0, factors, LANES):
                        store(row, r * width + f, load(table, i * own + f, factors - f))
                    for f in range(0, embedding, LANES):
                        store(row, r * width + gmf + f, load(table, i * own + factors + f, embedding - f))
                    if rates.adam:
                        for f in range(0, width, LANES):
                            store(row_moments, 2 * (r - first) * width + f, none)
                            store(row_moments, 2 * (r - first) * width + width + f, none)
                    n += 1
                at = r * width
                g = int(slot_of[r - first])
                if g < 0:
                    g = filled
                    slot_of[r - first], row_of[g] = np.int32(g), np.int32(r)
                    for f in range(0, width, LANES):
                        store(gradient, g * width + f, none)
                    filled += 1
                taken += 1
                error = logistic(forward(shape, net, u, 0, row, at, act, pre)) - label
                backward(shape, net, u, 0, row, at, act, pre, back, error, reg, gnet, gu, 0, gradient, g * width)

                # the step, at the end of a batch
                if taken == rates.batch or t == samples - 1:
                    share = np.float32(1) / np.float32(taken)
                    mean = every(share)
                    decay1, decay2 = decay1 * 0.9, decay2 * 0.999
                    c1, c2 = every(np.float32(1 / (1 - decay1))), every(np.float32(1 / (1 - decay2)))
                    rate = every(rates.user)
                    for f in range(0, width, LANES):
                        step, x = mean * load(gu, f), load(u, f)
                        store(gu, f, none)
                        if held:
                            step = step + pull * (x - load(user_anchor, f))
                        if rates.adam:
                            step = adam(moments, f, width + size + f, step, c1, c2, epsilon)
                        store(u, f, x - rate * step)
                    rate = every(rates.network)
                    for f in range(0, size, LANES):
                        step, x = mean * load(gnet, f), load(net, f)
                        store(gnet, f, none)
                        if held:
                            step = step + pull * (x - load(net_anchor, f))
                        if rates.adam:
                            step = adam(moments, width + f, 2 * width + size + f, step, c1, c2, epsilon)
                        store(net, f, x - rate * step)
                    rate = every(rates.item)
                    for g in range(filled):
                        r = int(row_of[g])
                        slot_of[r - first] = -1
                        for f in range(0, width, LANES):
                            step = mean * load(gradient, g * width + f)
                            if rates.adam:
                                mine = 2 * (r - first) * width + f
                                step = adam(row_moments, mine, mine + width, step, c1, c2, epsilon)
                            store(row, r * width + f, load(row, r * width + f) - rate * step)
                    filled, taken = 0, 0

        # how far everything moved
        room.ptr[d + 1] = n
        for r in range(first, n):
            i = int(item[r])
            for f in range(0, factors, LANES):
                store(row, r * width + f, load(row, r * width + f) - load(table, i * own + f, factors - f))
            for f in range(0, embedding, LANES):
                at = r * width + gmf + f
                store(row, at, load(row, at) - load(table, i * own + factors + f, embedding - f))
        at = int(group[d]) * size
        for f in range(0, size, LANES):
            store(moved, d * size + f, load(net, f) - load(networks, at + f))
        for f in range(factors):
            user[d, f] = u[0, f]
        for f in range(embedding):
            user[d, factors + f] = u[0, gmf + f]
    return n


# ---- one sample --------------------------------------------------------------------------------------------------------------------


@inside
def forward(
    shape: Shape, net: Float32Array, user: Float32Array, u: int, item: Float32Array, i: int, act: Float32Array, pre: Float32Array
) -> np.float32:
    """h . [p^G * q^G ; a_L] + h_0 of the padded embeddings at flat positions u of `user` and i of `item`; leaves act and pre behind."""
    gmf, mlp, head, widths, weights, biases = shape.gmf, shape.mlp, shape.head, shape.width, shape.weight, shape.bias
    layers, last = len(weights), widths[len(weights)]
    total = every(np.float32(0))
    for f in range(0, gmf, LANES):
        total = total + load(net, head + f) * (load(user, u + f) * load(item, i + f))
    if layers:
        for f in range(0, mlp, LANES):
            store(act, f, load(user, u + gmf + f))
            store(act, mlp + f, load(item, i + gmf + f))
        into = 0
        for layer in range(layers):
            wide, narrow = widths[layer], widths[layer + 1]
            out = into + wide
            for o in range(0, narrow, LANES):
                z = load(net, biases[layer] + o)
                for f in range(0, wide, LANES):
                    z = z + weighted(net, weights[layer] + f * narrow + o, narrow, act, into + f)
                store(pre, out + o, z)
                store(act, out + o, unless_negative(z, z))
            into = out
        for f in range(0, last, LANES):
            total = total + load(net, head + gmf + f) * load(act, into + f)
    return sum_of(total) + net[0, head + gmf + last]


@inside
def backward(
    shape: Shape, net: Float32Array, user: Float32Array, u: int, item: Float32Array, i: int, act: Float32Array, pre: Float32Array,
    back: Float32Array, error: np.float32, reg: Lanes, gnet: Float32Array, gu: Float32Array, u_to: int, gi: Float32Array, i_to: int,
) -> None:  # fmt: skip
    """Adds the gradient of a sample's loss to gnet, to gu at flat position u_to and to gi at i_to. error: y_ui less its label."""
    gmf, mlp, head, widths, weights, biases = shape.gmf, shape.mlp, shape.head, shape.width, shape.weight, shape.bias
    layers, last, none = len(weights), widths[len(weights)], every(np.float32(0))
    head_mlp, into = head + gmf, shape.top
    e = every(error)
    gnet[0, head_mlp + last] += error
    for f in range(0, gmf, LANES):
        p, q, h = load(user, u + f), load(item, i + f), load(net, head + f)
        store(gnet, head + f, load(gnet, head + f) + e * (p * q))
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
                store(gnet, biases[layer] + o, load(gnet, biases[layer] + o) + dz)
            for f in range(0, wide, LANES):
                dx = none
                for o in range(0, narrow, LANES):
                    dz, tile = load(back, out + o), weights[layer] + f * narrow + o
                    dx = dx + products(net, tile, narrow, dz)
                    add_outer(gnet, tile, narrow, act, into + f, dz)
                store(back, into + f, dx)
        for f in range(0, mlp, LANES):
            p, q = load(user, u + gmf + f), load(item, i + gmf + f)
            store(gu, u_to + gmf + f, load(gu, u_to + gmf + f) + (load(back, f) + reg * p))
            store(gi, i_to + gmf + f, load(gi, i_to + gmf + f) + (load(back, mlp + f) + reg * q))


@njit(cache=True, inline="always")
def adam(moments: Float32Array, m: int, v: int, gradient: Lanes, c1: Lanes, c2: Lanes, epsilon: Lanes) -> Lanes:
    """Adam's step for sixteen numbers, without its rate (Kingma & Ba 2015): beta 0.9 and 0.999; rows that a batch does not
    touch keep their moments, as sparse Adam has it."""
    mean = every(np.float32(0.9)) * load(moments, m) + every(np.float32(0.1)) * gradient
    square = every(np.float32(0.999)) * load(moments, v) + every(np.float32(0.001)) * (gradient * gradient)
    store(moments, m, mean)
    store(moments, v, square)
    return c1 * mean / (root(c2 * square) + epsilon)


def init_network(shape: Shape, layers: tuple[int, ...], key: np.uint64) -> Float32Array:
    """The first non-embedding part, float32 [network]: W uniform as Glorot and Bengio (2010) have it, h as LeCun has it, biases 0."""
    out, inputs = np.zeros(shape.network, np.float32), 2 * shape.embedding
    for layer, outputs in enumerate(layers):
        wide, narrow = int(shape.width[layer]), int(shape.width[layer + 1])
        used = np.arange(inputs) if layer else np.concatenate([np.arange(shape.embedding), shape.mlp + np.arange(shape.embedding)])
        weights = np.zeros((wide, narrow), np.float32)
        weights[used[:, None], np.arange(outputs)] = _uniforms(fold(key, layer), inputs, outputs, np.sqrt(6 / (inputs + outputs)))
        out[shape.weight[layer] : shape.bias[layer]] = weights.reshape(-1)
        inputs = outputs
    heads = [shape.head + np.arange(shape.factors), shape.head + shape.gmf + np.arange(layers[-1] if layers else 0)]
    at = np.concatenate(heads)
    out[at] = _uniforms(fold(key, len(layers)), len(at), 1, np.sqrt(3 / len(at)))[:, 0]
    return out


def _uniforms(key: np.uint64, rows: int, columns: int, limit: float) -> Float32Array:
    """Uniform on [-limit, limit), float32 [rows, columns]."""
    bits = folds(np.uint64(key), np.arange(rows * columns))
    return (limit * (2 * (bits >> np.uint64(11)).astype(np.float64) / 2**53 - 1)).astype(np.float32).reshape(rows, columns)


# ---- scores ------------------------------------------------------------------------------------------------------------------------


def scores(shape: Shape, user: Float32Array, item: Float32Array, network: Float32Array, group: Int32Array) -> Float32Array:
    """h . [..] + h_0 of every item, whose order is that of y_ui: float32 [m, items]. Arguments as in `train`."""
    out = np.empty((len(user), len(item)), np.float32)
    act = zeros(1, int(shape.width.sum()) + LANES)
    _scores(shape, np.ascontiguousarray(user), np.ascontiguousarray(item), network, group, act, out)
    return out


@njit(cache=True, nogil=True, error_model="numpy")
def _scores(
    shape: Shape, user: Float32Array, table: Float32Array, networks: Float32Array, group: Int32Array, act: Float32Array,
    out: Float32Array,
) -> None:  # fmt: skip
    factors, embedding, gmf, mlp, head = shape.factors, shape.embedding, shape.gmf, shape.mlp, shape.head
    widths, weights, biases, layers, own = shape.width, shape.weight, shape.bias, len(shape.weight), factors + embedding
    last, size = widths[layers], networks.shape[1]
    for d in range(len(user)):
        base = np.int64(group[d]) * size
        for f in range(0, embedding, LANES):
            store(act, f, load(user, d * own + factors + f, embedding - f))
        for i in range(len(table)):
            total = every(np.float32(0))
            for f in range(0, factors, LANES):
                p, q = load(user, d * own + f, factors - f), load(table, i * own + f, factors - f)
                total = total + load(networks, base + head + f) * (p * q)
            if layers:
                for f in range(0, embedding, LANES):
                    store(act, mlp + f, load(table, i * own + factors + f, embedding - f))
                into = 0
                for layer in range(layers):
                    wide, narrow = widths[layer], widths[layer + 1]
                    stop = into + wide
                    for o in range(0, narrow, LANES):
                        z = load(networks, base + biases[layer] + o)
                        for f in range(0, wide, LANES):
                            z = z + weighted(networks, base + weights[layer] + f * narrow + o, narrow, act, into + f)
                        store(act, stop + o, unless_negative(z, z))
                    into = stop
                for f in range(0, last, LANES):
                    total = total + load(networks, base + head + gmf + f) * load(act, into + f)
            out[d, i] = sum_of(total) + networks[np.int64(group[d]), head + gmf + last]
