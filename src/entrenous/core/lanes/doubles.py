"""Eight float64 at a time: what a sum of outer products and a factorisation of a small matrix are
made of.

As in `simd`, the function is plain NumPy followed by the instructions that stand for it in a
compiled kernel. Both add one product after the other, so they give the same bits on every machine,
and those of a plain loop.

>>> out, rows = np.ones(8), np.arange(32.0)
>>> add_products(out, 0, np.array([1.0, 0.0, 0.0, 2.0]), 0, 1, rows, 0, 8)
>>> out.tolist()[:3]
[49.0, 52.0, 55.0]
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import lower_builtin, type_callable

from ..types import Float64Array
from .simd import address, spread

DOUBLES, TERMS = 8, 4
_DOUBLES = ir.VectorType(ir.DoubleType(), DOUBLES)


def add_products(
    out: Float64Array,
    at: int,
    weights: Float64Array,
    w: int,
    apart: int,
    rows: Float64Array,
    r: int,
    stride: int,
) -> None:
    """Adds weights[w + k apart] * rows[r + k stride : ... + 8] to out[at : at + 8], for k = 0, 1,
    2, 3 in this order.

    Arrays are C-contiguous and addressed by flat position; out overlaps neither of the others.
    """
    found = out.reshape(-1)[at : at + DOUBLES]
    given = weights.reshape(-1)
    terms = rows.reshape(-1)
    for k in range(TERMS):
        found += given[w + k * apart] * terms[r + k * stride : r + k * stride + DOUBLES]


@type_callable(add_products)
def _type_add_products(context: Any) -> Any:
    def typer(
        out: Any, at: Any, weights: Any, w: Any, apart: Any, rows: Any, r: Any, stride: Any
    ) -> Any:
        return types.none if all(_doubles(array) for array in (out, weights, rows)) else None

    return typer


def _doubles(array: Any) -> bool:
    return isinstance(array, types.Array) and array.dtype == types.float64 and array.layout == "C"


_WHERE = (types.Array, types.Integer)


@lower_builtin(add_products, *_WHERE, *_WHERE, types.Integer, *_WHERE, types.Integer)
def _lower_add_products(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    def moved(place: int, by: int, k: int) -> Any:
        """The position in argument `place`, and k times that in argument `by` further."""
        first, step = (
            context.cast(builder, args[number], sig.args[number], types.int64)
            for number in (place, by)
        )
        return builder.add(first, builder.mul(step, ir.Constant(ir.IntType(64), k)))

    pointer = address(
        context,
        builder,
        sig.args[0],
        args[0],
        context.cast(builder, args[1], sig.args[1], types.int64),
        _DOUBLES,
    )
    total = builder.load(pointer, align=8)
    weights = context.make_array(sig.args[2])(context, builder, args[2]).data
    for k in range(TERMS):
        row = builder.load(
            address(context, builder, sig.args[5], args[5], moved(6, 7, k), _DOUBLES), align=8
        )
        weight = spread(builder, builder.load(builder.gep(weights, [moved(3, 4, k)])), _DOUBLES)
        total = builder.fadd(total, builder.fmul(weight, row))
    builder.store(total, pointer, align=8)
    return context.get_dummy_value()
