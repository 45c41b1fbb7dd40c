"""The meta network of MetaMF: from a user's embedding, it makes that user's factored item table
and predictor (eq. 3-11 of the paper).

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

from ..core.compiling import njit
from ..core.keys import fold_name, folds, normals
from ..core.lanes.memory import sealed
from ..core.lanes.simd import LANES, every, inner_product, inside, load, store
from ..core.types import Float32Array, Int32Array, Int64Array

# The outputs that make low, rise, first and second, each from a hidden layer of its own.
GENERATORS = 4


class MetaSizes(NamedTuple):
    """Sizes of the meta network."""

    users: int
    items: int
    user: int
    """The length of e_u."""
    taste: int
    """The length of c, a multiple of 16."""
    hidden: int
    """H, the width of each hidden layer, a multiple of 16."""
    low: int
    """L, the rank of item tables."""
    item: int
    """D, the length of an item embedding."""
    predictor: int
    """P, the width of the predictor's hidden layer."""

    @property
    def first(self) -> int:
        """Numbers in the predictor's first layer: weights [D, P], then biases [P]."""
        return (self.item + 1) * self.predictor

    def touched(self, users: Int64Array, items: Int64Array) -> Int64Array:
        """Returns the parts of a flat vector from which models of `users` (ascending) with rows of
        `items` (ascending) alone are made, int64 [n, 2]: where each begins and ends, ascending.
        """
        ends = np.cumsum([int(np.prod(shape)) for shape in self.shapes])
        # Where M, the output layer of A_u (weights, biases) and that of B_u begin.
        memory, low, low0, rise = (int(ends[k]) for k in (0, 3, 4, 5))
        user = _spans(users, 0, self.user)
        weight = _spans(items, low, self.low * self.hidden)
        bias = _spans(items, low0, self.low)
        # All but the rows of users and of items is touched by everybody.
        hidden = [[memory, low]]
        rest = [[rise, int(ends[-1])]]
        return np.concatenate([user, hidden, weight, bias, rest])

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of the arrays of `MetaParameters`, in its order."""
        h = self.hidden
        low = self.items * self.low
        rise = self.low * self.item
        second = self.predictor + 1
        return (
            (self.users, self.user),
            (self.user, self.taste),
            (GENERATORS, h, self.taste),
            (GENERATORS, h),
            (low, h),
            (low,),
            (rise, h),
            (rise,),
            (self.first, h),
            (self.first,),
            (second, h),
            (second,),
        )


def _spans(rows: Int64Array, start: int, width: int) -> Int64Array:
    """Returns where rows of a table that begins at `start` begin and end, int64 [n, 2]."""
    return np.stack([start + rows * width, start + rows * width + width], axis=1)


class MetaParameters(NamedTuple):
    """Parameters of the meta network, or a gradient by them: float32, views of one vector."""

    user: Float32Array
    """e_u [users, user]."""
    memory: Float32Array
    """M [user, taste]."""
    inner: Float32Array
    """W_g [4, H, taste]."""
    inner0: Float32Array
    """w_g [4, H]."""
    low: Float32Array
    """Weights [items L, H] of A_u."""
    low0: Float32Array
    """Biases [items L]."""
    rise: Float32Array
    """Weights [L D, H] of B_u."""
    rise0: Float32Array
    """Biases [L D]."""
    first: Float32Array
    """Weights [(D + 1) P, H] of the predictor's first layer."""
    first0: Float32Array
    """Biases [(D + 1) P]."""
    second: Float32Array
    """Weights [P + 1, H] of its second layer."""
    second0: Float32Array
    """Biases [P + 1]."""


class GeneratedModels(NamedTuple):
    """Models that the meta network makes for m users, or a gradient by them."""

    low: Float32Array
    """A_u, float32 [m, items, L]."""
    rise: Float32Array
    """B_u, [m, L, D]."""
    first: Float32Array
    """[m, (D + 1) P], weights [D, P] and then biases."""
    second: Float32Array
    """[m, P + 1], weights and a bias."""


def views(theta: Float32Array, sizes: MetaSizes) -> MetaParameters:
    """Returns the parts of a flat parameter (or gradient) vector, as views in their shapes."""
    parts = []
    start = 0
    for shape in sizes.shapes:
        end = start + int(np.prod(shape))
        parts.append(theta[start:end].reshape(shape))
        start = end
    return MetaParameters(*parts)


def first_parameters(sizes: MetaSizes, key: np.uint64, shared_std: float) -> Float32Array:
    """Returns initial parameters: Xavier-normal weights, std^2 = 2 / (inputs + outputs) of each
    layer. Biases are 0, except for those of output layers, which all users' models have in common:
    N(0, shared_std^2).
    """
    parts = []
    for name, shape in zip(MetaParameters._fields, sizes.shapes, strict=True):
        if name.endswith("0"):
            rows = int(np.prod(shape))
            width = 1
            std = 0.0 if name == "inner0" else shared_std
        else:
            rows = int(np.prod(shape[:-1]))
            width = shape[-1]
            std = (2 / (shape[-2] + width)) ** 0.5
        # Each row has a key of its own, so that it does not depend on the number of rows.
        keys = folds(fold_name(key, name), np.arange(rows))
        parts.append(normals(keys, width, std).ravel())
    return np.concatenate(parts)


def generate(
    meta: MetaParameters, sizes: MetaSizes, users: Int64Array, item: Int32Array | None = None
) -> GeneratedModels:
    """Returns the item tables and predictors that the meta network makes for some users (eq. 3-11).

    item: int32 [m, n], the items of which rows of each user's A_u are wanted, below 0 for none
    (that row is 0); low is then [m, n, L], with the bits that the whole table has. None = all
    items.
    """
    m = len(users)
    meta = MetaParameters(*map(sealed, meta))
    h = np.empty((m, GENERATORS, sizes.hidden), np.float32)
    taste = np.empty(sizes.taste, np.float32)
    _all_hidden(meta, users, taste, h)
    rise = _outputs_of(meta.rise, meta.rise0, h, 1).reshape(m, sizes.low, sizes.item)
    first = _outputs_of(meta.first, meta.first0, h, 2)
    second = _outputs_of(meta.second, meta.second0, h, 3)
    if item is None:
        low = _outputs_of(meta.low, meta.low0, h, 0).reshape(m, sizes.items, sizes.low)
    else:
        low = np.zeros((m, item.shape[1], sizes.low), np.float32)
        _some_rows(meta.low, meta.low0, h, item, low)
    return GeneratedModels(low, rise, first, second)


def _outputs_of(weight: Float32Array, bias: Float32Array, h: Float32Array, g: int) -> Float32Array:
    """Returns the outputs of generator g for all users, float32 [m, outputs]."""
    out = np.empty((len(h), len(bias)), np.float32)
    _outputs(weight, bias, h, g, out)
    return out


@inside
def _add(a: Float32Array, at_a: int, x: np.float32, b: Float32Array, at_b: int, n: int) -> None:
    """Adds x b to a, n numbers each."""
    many = every(x)
    for f in range(0, n, LANES):
        store(a, at_a + f, load(a, at_a + f) + many * load(b, at_b + f))


# Arrays are taken out of their tuples before a loop: numba counts references to each array that a
# loop takes out or hands to a function, with an atomic instruction that costs more than the
# arithmetic. What is `inside` counts none.


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
    """Writes c = e_u M, [taste], and the four h_g = relu(W_g c + w_g) to row d of h, [m, 4, H]."""
    taste = memory.shape[1]
    hidden = inner.shape[1]
    zero = np.float32(0)
    # The user's taste c, row by row of M.
    for f in range(0, taste, LANES):
        store(c, f, every(zero))
    for k in range(user.shape[1]):
        _add(c, 0, user[u, k], memory, k * taste, taste)
    # The hidden layers, rectified.
    for g in range(GENERATORS):
        for j in range(hidden):
            at = (g * hidden + j) * taste
            z = inner_product(inner, at, c, 0, taste) + inner0[g, j]
            h[d, g, j] = z if z > zero else zero


@njit(cache=True, nogil=True)
def _all_hidden(meta: MetaParameters, users: Int64Array, c: Float32Array, h: Float32Array) -> None:
    """Writes the hidden layers of all `users` to h, [m, 4, H]. c: room for one user's."""
    user = meta.user
    memory = meta.memory
    inner = meta.inner
    inner0 = meta.inner0
    for d in range(len(users)):
        _hidden(user, memory, inner, inner0, users[d], c, h, d)


@njit(cache=True, nogil=True)
def _some_rows(
    weight: Float32Array, bias: Float32Array, h: Float32Array, item: Int32Array, low: Float32Array
) -> None:
    """Writes row item[u, n] of A_u, where there is one, to low[u, n]."""
    hidden = weight.shape[1]
    length = low.shape[2]
    for u in range(len(item)):
        # The hidden layer of generator 0.
        at = u * GENERATORS * hidden
        for n in range(item.shape[1]):
            if item[u, n] < 0:
                continue
            for k in range(length):
                o = np.int64(item[u, n]) * length + k
                product = inner_product(weight, o * hidden, h, at, hidden)
                low[u, n, k] = product + bias[o]


@njit(cache=True, nogil=True)
def _outputs(
    weight: Float32Array, bias: Float32Array, h: Float32Array, g: int, out: Float32Array
) -> None:
    """Writes weight h[u, g] + bias to out[u], a row of weights for all users before the next."""
    hidden = weight.shape[1]
    # The weights are the largest array: each row is read once.
    for o in range(len(bias)):
        for u in range(len(out)):
            at = (u * GENERATORS + g) * hidden
            product = inner_product(weight, o * hidden, h, at, hidden)
            out[u, o] = product + bias[o]


def back(
    meta: MetaParameters,
    users: Int64Array,
    item: Int32Array,
    gradient: GeneratedModels,
    scale: np.float32,
    out: MetaParameters,
) -> None:
    """Adds to `out` the gradient of a loss by the meta network's parameters, from `scale` times
    those by the models that it made for `users`.

    item: [m, n], the rows of A_u that gradient.low [m, n, L] is about, below 0 for none;
    gradient.rise is [m, L D]. One user after the other, in the order given.
    """
    meta = MetaParameters(*map(sealed, meta))
    gradient = GeneratedModels(*map(sealed, gradient))
    _back(meta, sealed(users), sealed(item), gradient, scale, out)


@njit(cache=True, nogil=True)
def _back(
    meta: MetaParameters,
    users: Int64Array,
    item: Int32Array,
    gradient: GeneratedModels,
    scale: np.float32,
    out: MetaParameters,
) -> None:
    low = gradient.low
    rise = gradient.rise
    first = gradient.first
    second = gradient.second
    user = meta.user
    memory = meta.memory
    inner = meta.inner
    inner0 = meta.inner0
    w_low = meta.low
    w_rise = meta.rise
    w_first = meta.first
    w_second = meta.second
    g_user = out.user
    g_memory = out.memory
    g_inner = out.inner
    g_inner0 = out.inner0
    g_low = out.low
    g_low0 = out.low0
    g_rise = out.rise
    g_rise0 = out.rise0
    g_first = out.first
    g_first0 = out.first0
    g_second = out.second
    g_second0 = out.second0
    taste = memory.shape[1]
    hidden = inner.shape[1]
    length = low.shape[2]
    zero = np.float32(0)
    c = np.empty(taste, np.float32)
    dc = np.empty(taste, np.float32)
    h = np.empty((1, GENERATORS, hidden), np.float32)
    dh = np.empty((GENERATORS, hidden), np.float32)
    for d in range(len(users)):
        u = users[d]
        # The forward pass once more: what it made is cheaper to compute than to keep.
        _hidden(user, memory, inner, inner0, u, c, h, 0)
        # Back through the output layers: their gradients, and the gradient by h.
        for f in range(0, GENERATORS * hidden, LANES):
            store(dh, f, every(zero))
        for n in range(item.shape[1]):
            if item[d, n] < 0:
                continue
            for k in range(length):
                o = np.int64(item[d, n]) * length + k
                _back_row(w_low, o, scale * low[d, n, k], h, dh, 0, g_low, g_low0)
        for o in range(rise.shape[1]):
            _back_row(w_rise, o, scale * rise[d, o], h, dh, 1, g_rise, g_rise0)
        for o in range(first.shape[1]):
            _back_row(w_first, o, scale * first[d, o], h, dh, 2, g_first, g_first0)
        for o in range(second.shape[1]):
            _back_row(w_second, o, scale * second[d, o], h, dh, 3, g_second, g_second0)
        # Back through the rectified layers: a unit at 0 passes nothing on.
        for f in range(0, taste, LANES):
            store(dc, f, every(zero))
        for g in range(GENERATORS):
            for j in range(hidden):
                if h[0, g, j] > zero:
                    at = (g * hidden + j) * taste
                    slope = dh[g, j]
                    _add(g_inner, at, slope, c, 0, taste)
                    _add(dc, 0, slope, inner, at, taste)
                    g_inner0[g, j] += slope
        # Back through c = e_u M.
        for k in range(user.shape[1]):
            _add(g_memory, k * taste, user[u, k], dc, 0, taste)
            g_user[u, k] += inner_product(memory, k * taste, dc, 0, taste)


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
    """Adds the gradients that follow from `slope`, the gradient by output o of generator g: by its
    weights and bias, and by the hidden layer.
    """
    hidden = weight.shape[1]
    _add(out, o * hidden, slope, h, g * hidden, hidden)
    _add(dh, g * hidden, slope, weight, o * hidden, hidden)
    out0[o] += slope
