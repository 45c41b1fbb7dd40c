"""The machine instructions that stand for the functions of `tiles` in compiled kernels."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import lower_builtin, type_callable

from .simd import LANES
from .simd_instructions import FLOATS, LANES_TYPE, address, is_flat, spread
from .tiles import CHAINS, add_outer, products, weighted


def _matrix(array: Any) -> bool:
    return is_flat(array, types.float32)


@type_callable(weighted)
def _type_weighted(context: Any) -> Any:
    return lambda tile, start, stride, x, at: LANES_TYPE if _matrix(tile) and _matrix(x) else None


@lower_builtin(weighted, types.Array, types.Integer, types.Integer, types.Array, types.Integer)
def _lower_weighted(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    rows = _Rows(context, builder, sig.args[:3], args[:3])
    scalars = _scalars(context, builder, sig.args[3:], args[3:])
    sums = [builder.fmul(scalars(k), rows.load(k)) for k in range(CHAINS)]
    for k in range(CHAINS, LANES):
        chain = k % CHAINS
        product = builder.fmul(scalars(k), rows.load(k))
        sums[chain] = builder.fadd(sums[chain], product)
    first = builder.fadd(sums[0], sums[1])
    last = builder.fadd(sums[2], sums[3])
    return builder.fadd(first, last)


@type_callable(products)
def _type_products(context: Any) -> Any:
    return lambda tile, start, stride, lanes: (
        LANES_TYPE if _matrix(tile) and lanes == LANES_TYPE else None
    )


@lower_builtin(products, types.Array, types.Integer, types.Integer, LANES_TYPE)
def _lower_products(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """Makes sixteen sums by halves, two vectors at a time: the halves of `sum_of`, for all rows
    together.
    """
    rows = _Rows(context, builder, sig.args[:3], args[:3])
    vectors = [builder.fmul(rows.load(k), args[3]) for k in range(LANES)]
    places = ir.VectorType(ir.IntType(32), LANES)
    half = LANES // 2
    while len(vectors) > 1:
        # Of two vectors side by side, the first half of every group of lanes, and the last.
        low = [base + k for base in range(0, 2 * LANES, 2 * half) for k in range(half)]
        high = [place + half for place in low]
        first = ir.Constant(places, low)
        last = ir.Constant(places, high)
        sums = []
        for a, b in zip(vectors[::2], vectors[1::2], strict=True):
            left = builder.shuffle_vector(a, b, first)
            right = builder.shuffle_vector(a, b, last)
            sums.append(builder.fadd(left, right))
        vectors = sums
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
    # Read before a row is written: for all that the compiler knows, the arrays overlap.
    factors = [scalars(k) for k in range(LANES)]
    for k in range(LANES):
        product = builder.fmul(factors[k], args[5])
        row = builder.fadd(rows.load(k), product)
        builder.store(row, rows.pointer(k), align=4)
    return context.get_dummy_value()


class _Rows:
    """The sixteen rows of a tile in memory."""

    def __init__(self, context: Any, builder: Any, kinds: Any, values: Any) -> None:
        self._context = context
        self._builder = builder
        self._kind = kinds[0]
        self._tile = values[0]
        self._start = context.cast(builder, values[1], kinds[1], types.int64)
        self._stride = context.cast(builder, values[2], kinds[2], types.int64)

    def pointer(self, k: int) -> Any:
        """Returns a pointer to row k."""
        builder = self._builder
        further = builder.mul(self._stride, ir.Constant(ir.IntType(64), k))
        at = builder.add(self._start, further)
        return address(self._context, builder, self._kind, self._tile, at, FLOATS)

    def load(self, k: int) -> Any:
        """Reads row k."""
        return self._builder.load(self.pointer(k), align=4)


def _scalars(context: Any, builder: Any, kinds: Any, values: Any) -> Any:
    """Returns a function k -> x[at + k] in all lanes."""
    at = context.cast(builder, values[1], kinds[1], types.int64)
    data = context.make_array(kinds[0])(context, builder, values[0]).data

    def scalar(k: int) -> Any:
        place = builder.add(at, ir.Constant(ir.IntType(64), k))
        number = builder.load(builder.gep(data, [place]), align=4)
        return spread(builder, number, FLOATS)

    return scalar
