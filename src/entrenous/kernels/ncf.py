"""Neural collaborative filtering on one device: GMF, MLP and NeuMF.

X. He, L. Liao, H. Zhang, L. Nie, X. Hu, T.-S. Chua, "Neural collaborative filtering", WWW 2017. The probability that u likes i is

    y_ui = sigma(h . [p_u^G * q_i^G ; a_L] + h_0),   a_0 = [p_u^M ; q_i^M],   a_l = max(0, a_{l-1} W_l + b_l)

with * element by element. Without layers it is GMF, without factors the MLP, with both NeuMF. The model has three parts (Cali3F,
section III): user embedding [p^G ; p^M], item embedding [q^G ; q^M], and the non-embedding part (W, b, h, h_0), here `network`,
one flat array. Training minimises binary cross-entropy over each consumed item and `negatives` others, redrawn every epoch.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from numba import njit

from ..core.adam import BETA1, BETA2, direction, moment
from ..core.keys import fold, folds
from ..core.logistic import logistic
from ..core.simd import LANES, Lanes, every, inside, load, padded, store, sum_of, unless_negative, zeros
from ..core.tiles import add_outer, products, weighted
from ..core.types import Float32Array, Int32Array, Int64Array


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


@cache
def shape_of(factors: int, layers: tuple[int, ...]) -> Shape:
    """The layout for p^G of length `factors` and a tower whose layers' outputs have these lengths; p^M has the length of the first."""
    embedding = layers[0] if layers else 0
    mlp = padded(embedding)
    width = np.array([2 * mlp, *(padded(length) for length in layers)] if layers else [0], np.int64)
    sizes = width[:-1] * width[1:] + width[1:]
    weight = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    bias = weight[:-1] + width[:-1] * width[1:]
    return Shape(factors, embedding, padded(factors), mlp, width, weight[:-1], bias, int(weight[-1]), int(width[:-1].sum()))


def unpadded(shape: Shape, row: Float32Array) -> Float32Array:
    """Rows without the numbers that fill up: float32 [n, row]."""
    return np.concatenate([row[:, : shape.factors], row[:, shape.gmf : shape.gmf + shape.embedding]], axis=1)


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


@inside
def slope(logit: np.float32, label: bool) -> np.float32:
    """y_ui less its label: the slope of the loss, without the digits that 1 - y_ui would lose where y_ui is nearly 1."""
    return -logistic(-logit) if label else logistic(logit)


@njit(cache=True, inline="always")
def adam(moments: Float32Array, m: int, v: int, gradient: Lanes, c1: Lanes, c2: Lanes, epsilon: Lanes) -> Lanes:
    """Adam's step for sixteen numbers, without its rate; rows that a batch does not touch keep their moments, as sparse Adam has it."""
    mean = moment(load(moments, m), gradient, every(np.float32(BETA1)), every(np.float32(1 - BETA1)))
    square = moment(load(moments, v), gradient * gradient, every(np.float32(BETA2)), every(np.float32(1 - BETA2)))
    store(moments, m, mean)
    store(moments, v, square)
    return direction(mean, square, c1, c2, epsilon)


def init_network(shape: Shape, layers: tuple[int, ...], key: np.uint64) -> Float32Array:
    """The first non-embedding part, float32 [network]: W uniform as Glorot and Bengio (2010) have it, h as LeCun has it, biases 0."""
    out, inputs = np.zeros(shape.network, np.float32), 2 * shape.embedding
    for layer, outputs in enumerate(layers):
        wide, narrow = int(shape.width[layer]), int(shape.width[layer + 1])
        used = (
            np.arange(inputs) if layer else np.concatenate([np.arange(shape.embedding), shape.mlp + np.arange(shape.embedding)])
        )
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
    out, tower = np.empty((len(user), len(item)), np.float32), int(shape.width.sum()) + LANES
    room = zeros(1, tower), zeros(1, tower), zeros(1, shape.network)
    _scores(shape, _filled(shape, user), _filled(shape, item), np.ascontiguousarray(network), group, *room, out)
    return out


def _filled(shape: Shape, row: Float32Array) -> Float32Array:
    """Rows with the numbers that fill up, float32 [n, gmf + mlp]."""
    out = zeros(len(row), shape.gmf + shape.mlp)
    out[:, : shape.factors], out[:, shape.gmf : shape.gmf + shape.embedding] = row[:, : shape.factors], row[:, shape.factors :]
    return out


@njit(cache=True, nogil=True, error_model="numpy")
def _scores(
    shape: Shape, user: Float32Array, table: Float32Array, networks: Float32Array, group: Int32Array, act: Float32Array,
    pre: Float32Array, net: Float32Array, out: Float32Array,
) -> None:  # fmt: skip
    """`forward` of every device and item."""
    size, width = networks.shape[1], user.shape[1]
    for d in range(len(user)):
        for f in range(0, size, LANES):
            store(net, f, load(networks, int(group[d]) * size + f))
        for i in range(len(table)):
            out[d, i] = forward(shape, net, user, d * width, table, i * width, act, pre)
