"""The meta network of MetaMF: from a user's embedding, a factored item table and a predictor of
that user's own (eq. 3-11 of the paper).

    c = e_u M,   h_g = relu(W_g c + w_g) for each of four generators g:
    A_u = low(h_0) [items, L],   B_u = rise(h_1) [L, D],   the item table is A_u B_u;
    first(h_2): a layer D -> P with biases,   second(h_3): a layer P -> 1 with a bias

All parameters are one flat vector, of which `MetaParameters` holds views: an optimiser needs no
more. Sums go sixteen at a time in a fixed order (core/lanes/simd.py), user by user: the same bits
in whatever block a user is computed, which BLAS would not promise.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from ..core.keys import fold_name, folds, normals
from ..core.lanes.simd import LANES, every, inside, load, store, sum_of
from ..core.types import Float32Array, Int32Array, Int64Array

GENERATORS = 4  # of low, rise, first and second


class MetaSizes(NamedTuple):
    """Sizes of the meta network. users, items; user: length of e_u; taste: of c; hidden: H; low: L;
    item: D; predictor: P. taste and hidden are multiples of 16."""

    users: int
    items: int
    user: int
    taste: int
    hidden: int
    low: int
    item: int
    predictor: int

    @property
    def first(self) -> int:
        """Numbers in the predictor's first layer: weights [D, P], then biases [P]."""
        return (self.item + 1) * self.predictor

    def touched(self, users: Int64Array, items: Int64Array) -> Int64Array:
        """The parts of a flat vector that models of `users` (ascending) with rows of `items`
        (ascending) alone are made from, int64 [n, 2]: where each begins and ends, ascending."""
        ends = np.cumsum([int(np.prod(shape)) for shape in self.shapes])
        memory, low, low0, rise = (int(ends[k]) for k in (0, 3, 4, 5))
        spans = (users, 0, self.user), (items, low, self.low * self.hidden), (items, low0, self.low)
        user, weight, bias = (
            np.stack([start + rows * n, start + rows * n + n], axis=1) for rows, start, n in spans
        )
        return np.concatenate([user, [[memory, low]], weight, bias, [[rise, int(ends[-1])]]])

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of the arrays of `MetaParameters`, in its order."""
        rise, second, h = self.low * self.item, self.predictor + 1, self.hidden
        inner = (GENERATORS, h, self.taste), (GENERATORS, h)
        outer = (
            (self.items * self.low, h),
            (self.items * self.low,),
            (rise, h),
            (rise,),
            (self.first, h),
            (self.first,),
        )
        return (
            (self.users, self.user),
            (self.user, self.taste),
            *inner,
            *outer,
            (second, h),
            (second,),
        )


class MetaParameters(NamedTuple):
    """Parameters of the meta network. user: e_u [users, user]; memory: M [user, taste]; inner: W_g
    [4, H, taste], inner0: w_g; then the output layers of the four generators, weights [outputs, H]
    and biases [outputs]. All float32, views of one vector.
    """

    user: Float32Array
    memory: Float32Array
    inner: Float32Array
    inner0: Float32Array
    low: Float32Array
    low0: Float32Array
    rise: Float32Array
    rise0: Float32Array
    first: Float32Array
    first0: Float32Array
    second: Float32Array
    second0: Float32Array


class GeneratedModels(NamedTuple):
    """Models that the meta network makes for m users. low: A_u float32 [m, items, L]; rise: B_u [m,
    L, D]; first: [m, (D + 1) P], weights [D, P] and then biases; second: [m, P + 1], weights and a
    bias.
    """

    low: Float32Array
    rise: Float32Array
    first: Float32Array
    second: Float32Array


def views(theta: Float32Array, sizes: MetaSizes) -> MetaParameters:
    """The parts of a flat parameter (or gradient) vector, as views in their shapes."""
    counts = [int(np.prod(shape)) for shape in sizes.shapes]
    ends = np.cumsum(counts)
    return MetaParameters(
        *(
            theta[end - n : end].reshape(shape)
            for n, end, shape in zip(counts, ends, sizes.shapes, strict=True)
        )
    )


def first_parameters(sizes: MetaSizes, key: np.uint64, shared_std: float) -> Float32Array:
    """Initial parameters: Xavier-normal weights, std^2 = 2 / (inputs + outputs) of each layer.
    Biases are 0, but those of output layers, which are what all users' models have in common, N(0,
    shared_std^2).
    """
    parts = []
    for name, shape in zip(MetaParameters._fields, sizes.shapes, strict=True):
        if name.endswith("0"):
            std = 0 if name == "inner0" else shared_std
            parts.append(
                normals(folds(fold_name(key, name), np.arange(int(np.prod(shape)))), 1, std)
            )
            continue
        std = (2 / (shape[-2] + shape[-1])) ** 0.5
        rows = int(np.prod(shape[:-1]))
        parts.append(normals(folds(fold_name(key, name), np.arange(rows)), shape[-1], std))
    return np.concatenate([part.ravel() for part in parts])


def generate(
    meta: MetaParameters, sizes: MetaSizes, users: Int64Array, item: Int32Array | None = None
) -> GeneratedModels:
    """The item tables and predictors that the meta network makes for some users (eq. 3-11).

    item: int32 [m, n], the items of which rows of each user's A_u are wanted, below 0 for none
    (that row is 0); low is then [m, n, L], with the bits that the whole table has. None = all
    items."""
    m, h = len(users), np.empty((len(users), GENERATORS, sizes.hidden), np.float32)
    _all_hidden(meta, users, np.empty(sizes.taste, np.float32), h)
    outs = []
    for g, (weight, bias) in enumerate(
        ((meta.rise, meta.rise0), (meta.first, meta.first0), (meta.second, meta.second0))
    ):
        outs.append(np.empty((m, len(bias)), np.float32))
        _outputs(weight, bias, h, g + 1, outs[-1])
    if item is None:
        low = np.empty((m, sizes.items, sizes.low), np.float32)
        _outputs(meta.low, meta.low0, h, 0, low.reshape(m, low.shape[1] * low.shape[2]))
    else:
        low = np.zeros((m, item.shape[1], sizes.low), np.float32)
        _some_rows(meta.low, meta.low0, h, item, low)
    return GeneratedModels(low, outs[0].reshape(m, sizes.low, sizes.item), outs[1], outs[2])


@inside
def _dot(a: Float32Array, at_a: int, b: Float32Array, at_b: int, n: int) -> np.float32:
    """The product of two vectors of n numbers, a multiple of LANES."""
    sums = load(a, at_a) * load(b, at_b)
    for f in range(LANES, n, LANES):
        sums = sums + load(a, at_a + f) * load(b, at_b + f)
    return sum_of(sums)


@inside
def _add(a: Float32Array, at_a: int, x: np.float32, b: Float32Array, at_b: int, n: int) -> None:
    """a += x b."""
    many = every(x)
    for f in range(0, n, LANES):
        store(a, at_a + f, load(a, at_a + f) + many * load(b, at_b + f))


# Arrays are taken out of their tuples before a loop: numba counts references to each array that a
# loop takes out or hands to a function,
# with an atomic instruction that costs more than the arithmetic. What is `inside` counts none.


@inside
def _hidden(
    user: Float32Array,
    memory: Float32Array,
    inner: Float32Array,
    inner0: Float32Array,
    u: int,
    c: Float32Array,
    h: Float32Array,
    d: int,
) -> None:
    """c = e_u M and the four h_g = relu(W_g c + w_g). c: [taste]; h: [m, 4, H], of which row d is
    written.
    """
    taste, hidden, zero = memory.shape[1], inner.shape[1], np.float32(0)
    for f in range(0, taste, LANES):
        store(c, f, every(zero))
    for k in range(user.shape[1]):
        _add(c, 0, user[u, k], memory, k * taste, taste)
    for g in range(GENERATORS):
        for j in range(hidden):
            z = _dot(inner, (g * hidden + j) * taste, c, 0, taste) + inner0[g, j]
            h[d, g, j] = z if z > zero else zero


@njit(cache=True, nogil=True)
def _all_hidden(meta: MetaParameters, users: Int64Array, c: Float32Array, h: Float32Array) -> None:
    """The hidden layers of all `users`, into h [m, 4, H]. c: room for one user's."""
    user, memory, inner, inner0 = meta.user, meta.memory, meta.inner, meta.inner0
    for d in range(len(users)):
        _hidden(user, memory, inner, inner0, users[d], c, h, d)


@njit(cache=True, nogil=True)
def _some_rows(
    weight: Float32Array, bias: Float32Array, h: Float32Array, item: Int32Array, low: Float32Array
) -> None:
    """low[u, n] = row item[u, n] of A_u, where there is one."""
    hidden, length, none = weight.shape[1], low.shape[2], np.float32(0)
    for u in range(len(item)):
        for n in range(item.shape[1]):
            if item[u, n] >= none:
                for k in range(length):
                    o = np.int64(item[u, n]) * length + k
                    low[u, n, k] = (
                        _dot(weight, o * hidden, h, u * GENERATORS * hidden, hidden) + bias[o]
                    )


@njit(cache=True, nogil=True)
def _outputs(
    weight: Float32Array, bias: Float32Array, h: Float32Array, g: int, out: Float32Array
) -> None:
    """out[u] = weight h[u, g] + bias, a row of weights for all users before the next."""
    hidden = weight.shape[1]
    for o in range(len(bias)):
        for u in range(len(out)):
            out[u, o] = _dot(weight, o * hidden, h, (u * GENERATORS + g) * hidden, hidden) + bias[o]


@njit(cache=True, nogil=True)
def back(
    meta: MetaParameters,
    users: Int64Array,
    item: Int32Array,
    low: Float32Array,
    rise: Float32Array,
    first: Float32Array,
    second: Float32Array,
    scale: np.float32,
    out: MetaParameters,
) -> None:
    """Adds to `out` the gradient of a loss by the meta network's parameters, from `scale` times
    those by what it made for `users`.

    item: [m, n], which rows of A_u the gradient low [m, n, L] is about, below 0 for none. rise: [m,
    L D]; first: [m, (D + 1) P]; second: [m, P + 1]. One user after the other, in the order given.
    """
    taste, hidden, length, zero = (
        meta.memory.shape[1],
        meta.inner.shape[1],
        low.shape[2],
        np.float32(0),
    )
    c, dc = np.empty(taste, np.float32), np.empty(taste, np.float32)
    h, dh = (
        np.empty((1, GENERATORS, hidden), np.float32),
        np.empty((GENERATORS, hidden), np.float32),
    )
    user, memory, inner, inner0 = meta.user, meta.memory, meta.inner, meta.inner0
    w_low, w_rise, w_first, w_second = meta.low, meta.rise, meta.first, meta.second
    g_user, g_memory, g_inner, g_inner0, g_low, g_low0 = (
        out.user,
        out.memory,
        out.inner,
        out.inner0,
        out.low,
        out.low0,
    )
    g_rise, g_rise0, g_first, g_first0, g_second, g_second0 = (
        out.rise,
        out.rise0,
        out.first,
        out.first0,
        out.second,
        out.second0,
    )
    for d in range(len(users)):
        u = users[d]
        _hidden(user, memory, inner, inner0, u, c, h, 0)
        for f in range(0, GENERATORS * hidden, LANES):
            store(dh, f, every(zero))
        for n in range(item.shape[1]):
            if item[d, n] >= zero:
                for k in range(length):
                    _back_row(
                        w_low,
                        np.int64(item[d, n]) * length + k,
                        scale * low[d, n, k],
                        h,
                        dh,
                        0,
                        g_low,
                        g_low0,
                    )
        for o in range(rise.shape[1]):
            _back_row(w_rise, o, scale * rise[d, o], h, dh, 1, g_rise, g_rise0)
        for o in range(first.shape[1]):
            _back_row(w_first, o, scale * first[d, o], h, dh, 2, g_first, g_first0)
        for o in range(second.shape[1]):
            _back_row(w_second, o, scale * second[d, o], h, dh, 3, g_second, g_second0)
        for f in range(0, taste, LANES):
            store(dc, f, every(zero))
        for g in range(GENERATORS):
            for j in range(hidden):
                if h[0, g, j] > zero:
                    at = (g * hidden + j) * taste
                    _add(g_inner, at, dh[g, j], c, 0, taste)
                    _add(dc, 0, dh[g, j], inner, at, taste)
                    g_inner0[g, j] += dh[g, j]
        for k in range(user.shape[1]):
            _add(g_memory, k * taste, user[u, k], dc, 0, taste)
            g_user[u, k] += _dot(memory, k * taste, dc, 0, taste)


@inside
def _back_row(
    weight: Float32Array,
    o: int,
    slope: np.float32,
    h: Float32Array,
    dh: Float32Array,
    g: int,
    out: Float32Array,
    out0: Float32Array,
) -> None:
    """Output number o of a generator has gradient `slope`."""
    hidden = weight.shape[1]
    _add(out, o * hidden, slope, h, g * hidden, hidden)
    _add(dh, g * hidden, slope, weight, o * hidden, hidden)
    out0[o] += slope
