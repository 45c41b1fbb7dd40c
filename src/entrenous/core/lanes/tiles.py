"""Sixteen by sixteen float32 at a time: what a dense layer of a small network does, for one sample,
on one device.

A tile is sixteen rows of sixteen numbers of a C-contiguous array, addressed by the flat position of
its first number and the distance between rows. As in `simd`, each function is plain NumPy followed
by the instructions that stand for it in a compiled kernel, and both add in the same order, so they
give the same bits on every machine.

>>> eye, x = np.eye(16, dtype=np.float32), np.arange(16, dtype=np.float32)
>>> weighted(eye, 0, 16, x, 0)[:3].tolist(), products(eye, 0, 16, x)[13:].tolist()
([0.0, 1.0, 2.0], [13.0, 14.0, 15.0])
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import lower_builtin, type_callable

from ..types import Float32Array
from .simd import FLOATS, LANES, LANES_TYPE, Lanes, address, load, spread, store, sum_of

CHAINS = 4  # sums that grow side by side, so that an addition need not wait for the one before


def weighted(tile: Float32Array, start: int, stride: int, x: Float32Array, at: int) -> Lanes:
    """The sum over rows k of a tile of row k * x[at + k]: the forward pass of a layer."""
    sums = [_row(tile, start, stride, x, at, k) for k in range(CHAINS)]
    for k in range(CHAINS, LANES):
        sums[k % CHAINS] = sums[k % CHAINS] + _row(tile, start, stride, x, at, k)
    return (sums[0] + sums[1]) + (sums[2] + sums[3])


def products(tile: Float32Array, start: int, stride: int, lanes: Lanes) -> Lanes:
    """For each row k of a tile the sum over lanes of row k * lanes: the backward pass of a
    layer.
    """
    return np.array(
        [sum_of(load(tile, start + k * stride) * lanes) for k in range(LANES)], np.float32
    )


def add_outer(
    tile: Float32Array, start: int, stride: int, x: Float32Array, at: int, lanes: Lanes
) -> None:
    """Add x[at + k] * lanes to each row k of a tile: the gradient of a layer's weights."""
    for k in range(LANES):
        store(
            tile, start + k * stride, load(tile, start + k * stride) + x.reshape(-1)[at + k] * lanes
        )


def _row(tile: Float32Array, start: int, stride: int, x: Float32Array, at: int, k: int) -> Lanes:
    return x.reshape(-1)[at + k] * load(tile, start + k * stride)


# ---- the same, compiled --------------------------------------------------------------------------


def _matrix(array: Any) -> bool:
    return isinstance(array, types.Array) and array.dtype == types.float32 and array.layout == "C"


@type_callable(weighted)
def _type_weighted(context: Any) -> Any:
    return lambda tile, start, stride, x, at: LANES_TYPE if _matrix(tile) and _matrix(x) else None


@lower_builtin(weighted, types.Array, types.Integer, types.Integer, types.Array, types.Integer)
def _lower_weighted(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    rows = _Rows(context, builder, sig.args[:3], args[:3])
    scalars = _scalars(context, builder, sig.args[3:], args[3:])
    sums = [builder.fmul(scalars(k), rows.load(k)) for k in range(CHAINS)]
    for k in range(CHAINS, LANES):
        sums[k % CHAINS] = builder.fadd(sums[k % CHAINS], builder.fmul(scalars(k), rows.load(k)))
    return builder.fadd(builder.fadd(sums[0], sums[1]), builder.fadd(sums[2], sums[3]))


@type_callable(products)
def _type_products(context: Any) -> Any:
    return lambda tile, start, stride, lanes: (
        LANES_TYPE if _matrix(tile) and lanes == LANES_TYPE else None
    )


@lower_builtin(products, types.Array, types.Integer, types.Integer, LANES_TYPE)
def _lower_products(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """Sixteen sums by halves, two vectors at a time: the halves of `sum_of`, for all rows
    together.
    """
    rows = _Rows(context, builder, sig.args[:3], args[:3])
    vectors = [builder.fmul(rows.load(k), args[3]) for k in range(LANES)]
    half = LANES // 2
    while len(vectors) > 1:
        low = [base + k for base in range(0, 2 * LANES, 2 * half) for k in range(half)]
        picks = [
            ir.Constant(ir.VectorType(ir.IntType(32), LANES), [p + shift for p in low])
            for shift in (0, half)
        ]
        pairs = zip(vectors[::2], vectors[1::2], strict=True)
        vectors = [
            builder.fadd(*(builder.shuffle_vector(a, b, pick) for pick in picks)) for a, b in pairs
        ]
        half //= 2
    return vectors[0]


@type_callable(add_outer)
def _type_add_outer(context: Any) -> Any:
    return lambda tile, start, stride, x, at, lanes: (
        types.none if _matrix(tile) and _matrix(x) and lanes == LANES_TYPE else None
    )


@lower_builtin(
    add_outer, types.Array, types.Integer, types.Integer, types.Array, types.Integer, LANES_TYPE
)
def _lower_add_outer(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    rows = _Rows(context, builder, sig.args[:3], args[:3])
    scalars = _scalars(context, builder, sig.args[3:5], args[3:5])
    factors = [
        scalars(k) for k in range(LANES)
    ]  # read before a row is written: for all the compiler knows, the arrays overlap
    for k in range(LANES):
        builder.store(
            builder.fadd(rows.load(k), builder.fmul(factors[k], args[5])), rows.pointer(k), align=4
        )
    return context.get_dummy_value()


class _Rows:
    """The sixteen rows of a tile in memory."""

    def __init__(self, context: Any, builder: Any, kinds: Any, values: Any) -> None:
        tile, start, stride = values
        self._context, self._builder, self._kind, self._tile = context, builder, kinds[0], tile
        self._start, self._stride = (
            context.cast(builder, v, k, types.int64)
            for v, k in zip((start, stride), kinds[1:], strict=True)
        )

    def pointer(self, k: int) -> Any:
        at = self._builder.add(
            self._start, self._builder.mul(self._stride, ir.Constant(ir.IntType(64), k))
        )
        return address(self._context, self._builder, self._kind, self._tile, at, FLOATS)

    def load(self, k: int) -> Any:
        return self._builder.load(self.pointer(k), align=4)


def _scalars(context: Any, builder: Any, kinds: Any, values: Any) -> Any:
    """k -> x[at + k] in all lanes."""
    at = context.cast(builder, values[1], kinds[1], types.int64)
    data = context.make_array(kinds[0])(context, builder, values[0]).data

    def scalar(k: int) -> Any:
        pointer = builder.gep(data, [builder.add(at, ir.Constant(ir.IntType(64), k))])
        return spread(builder, builder.load(pointer, align=4), FLOATS)

    return scalar
