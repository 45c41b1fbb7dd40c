"""The machine instructions that stand for the function of `doubles` in compiled kernels."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import lower_builtin, type_callable

from .doubles import DOUBLES, TERMS, add_products
from .simd_instructions import address, is_flat, spread

_DOUBLES = ir.VectorType(ir.DoubleType(), DOUBLES)


@type_callable(add_products)
def _type_add_products(context: Any) -> Any:
    return lambda out, at, weights, w, apart, rows, r, stride: (
        types.none if all(is_flat(a, types.float64) for a in (out, weights, rows)) else None
    )


_WHERE = (types.Array, types.Integer)


@lower_builtin(add_products, *_WHERE, *_WHERE, types.Integer, *_WHERE, types.Integer)
def _lower_add_products(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    def number(place: int) -> Any:
        """The integer in argument `place`, as an i64."""
        return context.cast(builder, args[place], sig.args[place], types.int64)

    def moved(first: Any, step: Any, k: int) -> Any:
        """The position k steps behind the first."""
        return builder.add(first, builder.mul(step, ir.Constant(ir.IntType(64), k)))

    at, w, apart, r, stride = (number(place) for place in (1, 3, 4, 6, 7))
    pointer = address(context, builder, sig.args[0], args[0], at, _DOUBLES)
    total = builder.load(pointer, align=8)
    weights = context.make_array(sig.args[2])(context, builder, args[2]).data
    # One product after the other, as a plain loop would add them.
    for k in range(TERMS):
        begin = moved(r, stride, k)
        place = address(context, builder, sig.args[5], args[5], begin, _DOUBLES)
        row = builder.load(place, align=8)
        weight = builder.load(builder.gep(weights, [moved(w, apart, k)]))
        product = builder.fmul(spread(builder, weight, _DOUBLES), row)
        total = builder.fadd(total, product)
    builder.store(total, pointer, align=8)
    return context.get_dummy_value()
