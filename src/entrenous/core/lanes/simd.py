"""Sixteen float32 at a time, in an order that is fixed: strict IEEE arithmetic that is the same on
every machine.

A row of 20 factors is too short for the vector loops that compilers make, so kernels over rows say
it themselves: `store(p, 0, load(p, 0) + every(alpha) * load(step, 0))`. Each function here is plain
NumPy, which is what runs under NUMBA_DISABLE_JIT=1, followed by the machine instruction that stands
for it in a compiled kernel. Both give the same bits; a processor with shorter vectors does the same
in several steps. Arrays are C-contiguous and addressed by flat position.

>>> row = np.arange(20, dtype=np.float32)
>>> float(sum_of(load(row, 0) * every(np.float32(2)))), load(row, 16, 4)[:5].tolist()
(240.0, [16.0, 17.0, 18.0, 19.0, 0.0])
"""

from __future__ import annotations

import operator
from typing import Any, TypeAlias

import numpy as np
from llvmlite import ir
from numba import njit
from numba.core import types
from numba.core.typing.templates import ConcreteTemplate, infer_global, signature
from numba.extending import lower_builtin, models, register_model, type_callable

from ..types import Array, Float32Array, Int32Array, Int64Array

LANES = 16
SCALE = np.float32(65536.0)  # 1 / STEP of core/contract/update.py
BOUND = np.float32(2147483648.0)
Lanes: TypeAlias = Any  # sixteen float32: a NumPy array, or a vector register
# Decorates a part of a compiled loop: it counts no references and is inlined; it may take arrays,
# but neither makes nor returns one.
# _nrt is missing in the stubs
inside = njit(cache=True, error_model="numpy", forceinline=True, _nrt=False)  # type: ignore[call-overload]


class _LanesType(types.Type):
    def __init__(self) -> None:
        super().__init__(name="Lanes")


@register_model(_LanesType)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, FLOATS)


LANES_TYPE = _LanesType()
FLOATS, _LONGS, _BITS = (
    ir.VectorType(kind, LANES) for kind in (ir.FloatType(), ir.IntType(64), ir.IntType(1))
)
_INTS = ir.VectorType(ir.IntType(32), LANES)


# ---- + - * / -------------------------------------------------------------------------------------


def _lower_operator(symbol: Any, instruction: str) -> None:
    @infer_global(symbol)
    class Operator(ConcreteTemplate):
        cases = [signature(LANES_TYPE, LANES_TYPE, LANES_TYPE)]  # noqa: RUF012

    @lower_builtin(symbol, LANES_TYPE, LANES_TYPE)
    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return getattr(builder, instruction)(*args)


for _symbol, _instruction in (
    (operator.add, "fadd"),
    (operator.sub, "fsub"),
    (operator.mul, "fmul"),
    (operator.truediv, "fdiv"),
):
    _lower_operator(_symbol, _instruction)


# ---- memory --------------------------------------------------------------------------------------


def load(array: Float32Array, start: int, count: int = LANES) -> Lanes:
    """Read `count` numbers (1 to LANES) from flat position `start` as lanes, followed by zeros."""
    out = np.zeros(LANES, np.float32)
    found = array.reshape(-1)[start : start + min(count, LANES)]
    out[: len(found)] = found
    return out


def store(array: Float32Array, start: int, lanes: Lanes) -> None:
    """Write all sixteen lanes to `array` from flat position `start` on."""
    array.reshape(-1)[start : start + LANES] = lanes


def every(number: np.float32) -> Lanes:
    """A vector of sixteen float32 lanes that all hold `number`."""
    return np.full(LANES, number, np.float32)


def fetch(array: Array, start: int) -> None:
    """Prefetch the memory around flat position `start`; no effect on any result."""


def address(context: Any, builder: Any, kind: Any, array: Any, start: Any, vector: Any) -> Any:
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [start]), vector.as_pointer())


def _mask(builder: Any, count: Any) -> Any:
    """<i < count> for each lane i; `count` is an i64 below 2^31."""
    lane = ir.Constant(_INTS, list(range(LANES)))
    return builder.icmp_signed(
        "<", lane, spread(builder, builder.trunc(count, ir.IntType(32)), _INTS)
    )


def spread(builder: Any, number: Any, vector: Any) -> Any:
    first = builder.insert_element(
        ir.Constant(vector, ir.Undefined), number, ir.Constant(ir.IntType(32), 0)
    )
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), vector.count), None)
    return builder.shuffle_vector(first, ir.Constant(vector, ir.Undefined), zeros)


def _masked_load(builder: Any, pointer: Any, vector: Any, mask: Any, align: int) -> Any:
    i32 = ir.IntType(32)
    letter = _letter(vector)
    kind = ir.FunctionType(vector, [pointer.type, i32, _BITS, vector])
    function = declared(builder, kind, f"llvm.masked.load.v{LANES}{letter}.p0")
    return builder.call(
        function, [pointer, ir.Constant(i32, align), mask, ir.Constant(vector, None)]
    )


def _masked_store(builder: Any, value: Any, pointer: Any, mask: Any, align: int) -> None:
    i32 = ir.IntType(32)
    letter = _letter(value.type)
    kind = ir.FunctionType(ir.VoidType(), [value.type, pointer.type, i32, _BITS])
    function = declared(builder, kind, f"llvm.masked.store.v{LANES}{letter}.p0")
    builder.call(function, [value, pointer, ir.Constant(i32, align), mask])


def _letter(vector: Any) -> str:
    return "f32" if vector == FLOATS else f"i{vector.element.width}"


def declared(builder: Any, kind: Any, name: str) -> Any:
    found = builder.module.globals.get(name)
    return found if found is not None else ir.Function(builder.module, kind, name)


@type_callable(load)
def _type_load(context: Any) -> Any:
    def typer(array: Any, start: Any, count: Any = None) -> Any:
        return (
            LANES_TYPE
            if isinstance(array, types.Array)
            and array.dtype == types.float32
            and array.layout == "C"
            else None
        )

    return typer


@lower_builtin(load, types.Array, types.Integer)
def _lower_load(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return builder.load(address(context, builder, sig.args[0], args[0], args[1], FLOATS), align=4)


@lower_builtin(load, types.Array, types.Integer, types.Integer)
def _lower_load_some(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    pointer = address(context, builder, sig.args[0], args[0], args[1], FLOATS)
    count = context.cast(builder, args[2], sig.args[2], types.int64)
    return _masked_load(builder, pointer, FLOATS, _mask(builder, count), 4)


@type_callable(store)
def _type_store(context: Any) -> Any:
    def typer(array: Any, start: Any, lanes: Any) -> Any:
        return (
            types.none
            if isinstance(array, types.Array)
            and array.dtype == types.float32
            and array.layout == "C"
            else None
        )

    return typer


@lower_builtin(store, types.Array, types.Integer, LANES_TYPE)
def _lower_store(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    builder.store(
        args[2], address(context, builder, sig.args[0], args[0], args[1], FLOATS), align=4
    )
    return context.get_dummy_value()


@type_callable(every)
def _type_every(context: Any) -> Any:
    return lambda number: LANES_TYPE if number == types.float32 else None


@lower_builtin(every, types.float32)
def _lower_every(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return spread(builder, args[0], FLOATS)


@type_callable(fetch)
def _type_fetch(context: Any) -> Any:
    return lambda array, start: types.none if isinstance(array, types.Array) else None


@lower_builtin(fetch, types.Array, types.Integer)
def _lower_fetch(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    i32 = ir.IntType(32)
    data = context.make_array(sig.args[0])(context, builder, args[0]).data
    pointer = builder.bitcast(builder.gep(data, [args[1]]), ir.IntType(8).as_pointer())
    kind = ir.FunctionType(ir.VoidType(), [pointer.type, i32, i32, i32])
    to_read, keep_near, is_data = (ir.Constant(i32, number) for number in (0, 3, 1))
    builder.call(
        declared(builder, kind, "llvm.prefetch.p0"), [pointer, to_read, keep_near, is_data]
    )
    return context.get_dummy_value()


# ---- one number at a time ------------------------------------------------------------------------


def root(lanes: Lanes) -> Lanes:
    """The square root of each lane, or of a single number, correctly rounded (IEEE 754)."""
    return np.sqrt(lanes)


def unless_negative(sign: Lanes, lanes: Lanes) -> Lanes:
    """Each lane, or 0 where `sign` is below 0: `unless_negative(z, z)` is the rectifier. NaN stays
    NaN.
    """
    return np.where(sign < 0, np.float32(0), lanes)


@type_callable(root)
def _type_root(context: Any) -> Any:
    return lambda lanes: lanes if lanes in (LANES_TYPE, types.float32, types.float64) else None


@lower_builtin(root, LANES_TYPE)
def _lower_root(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    kind = ir.FunctionType(FLOATS, [FLOATS])
    return builder.call(declared(builder, kind, f"llvm.sqrt.v{LANES}f32"), [args[0]])


@lower_builtin(root, types.float32)
@lower_builtin(root, types.float64)
def _lower_root_of_one(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    kind = ir.FunctionType(args[0].type, [args[0].type])
    return builder.call(declared(builder, kind, f"llvm.sqrt.f{sig.args[0].bitwidth}"), [args[0]])


@type_callable(unless_negative)
def _type_unless_negative(context: Any) -> Any:
    return lambda sign, lanes: LANES_TYPE if sign == LANES_TYPE and lanes == LANES_TYPE else None


@lower_builtin(unless_negative, LANES_TYPE, LANES_TYPE)
def _lower_unless_negative(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    zero = ir.Constant(FLOATS, None)
    return builder.select(builder.fcmp_ordered("<", args[0], zero), zero, args[1])


# ---- sums ----------------------------------------------------------------------------------------


def sum_of(lanes: Lanes) -> np.float32:
    """The sum of all sixteen lanes in a fixed order: first eight plus last eight, of those first
    four plus last four, and so on."""
    for half in (8, 4, 2, 1):
        lanes = lanes[:half] + lanes[half : 2 * half]
    return lanes[0]


@type_callable(sum_of)
def _type_sum_of(context: Any) -> Any:
    return lambda lanes: types.float32 if lanes == LANES_TYPE else None


@lower_builtin(sum_of, LANES_TYPE)
def _lower_sum_of(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    lanes = args[0]
    for half in (8, 4, 2, 1):
        low, high = (
            ir.Constant(ir.VectorType(ir.IntType(32), half), [base + k for k in range(half)])
            for base in (0, half)
        )
        lanes = builder.fadd(
            builder.shuffle_vector(lanes, lanes, low), builder.shuffle_vector(lanes, lanes, high)
        )
    return builder.extract_element(lanes, ir.Constant(ir.IntType(32), 0))


@inside
def dot(x: Float32Array, y: Float32Array, at: int, count: int) -> np.float32:
    """The inner product of x, padded with zeros from flat position 0 on, and the `count` numbers of
    y from flat position `at`.
    """
    total = every(np.float32(0))
    for f in range(0, count, LANES):
        total = total + load(x, f) * load(y, at + f, count - f)
    return sum_of(total)


def add_fixed(total: Int64Array, start: int, lanes: Lanes, count: int) -> bool:
    """Add numbers to an int64 total in fixed point: total[start + k] += rint(2^16 lanes[k]) for k <
    count. Returns False if one of the sixteen is not finite or beyond +-32768."""
    scaled = np.rint(lanes * SCALE)
    if not bool((np.abs(scaled) < BOUND).all()):
        return False
    found = total.reshape(-1)[start : start + min(count, LANES)]
    found += scaled[: len(found)].astype(np.int64)
    return True


@type_callable(add_fixed)
def _type_add_fixed(context: Any) -> Any:
    def typer(total: Any, start: Any, lanes: Any, count: Any) -> Any:
        return (
            types.boolean
            if isinstance(total, types.Array) and total.dtype == types.int64 and total.layout == "C"
            else None
        )

    return typer


@lower_builtin(add_fixed, types.Array, types.Integer, LANES_TYPE, types.Integer)
def _lower_add_fixed(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    one = ir.FunctionType(FLOATS, [FLOATS])
    scaled = builder.fmul(args[2], ir.Constant(FLOATS, [float(SCALE)] * LANES))
    scaled = builder.call(declared(builder, one, f"llvm.rint.v{LANES}f32"), [scaled])
    size = builder.call(declared(builder, one, f"llvm.fabs.v{LANES}f32"), [scaled])
    fits = builder.fcmp_ordered("<", size, ir.Constant(FLOATS, [float(BOUND)] * LANES))
    whole = builder.fptosi(builder.select(fits, scaled, ir.Constant(FLOATS, None)), _INTS)
    pointer = address(context, builder, sig.args[0], args[0], args[1], _LONGS)
    mask = _mask(builder, context.cast(builder, args[3], sig.args[3], types.int64))
    total = _masked_load(builder, pointer, _LONGS, mask, 8)
    _masked_store(builder, builder.add(total, builder.sext(whole, _LONGS)), pointer, mask, 8)
    return builder.icmp_unsigned(
        "==", builder.bitcast(fits, ir.IntType(LANES)), ir.Constant(ir.IntType(LANES), -1)
    )


# ---- searching -----------------------------------------------------------------------------------


def count_up_to(numbers: Int32Array, start: int, bound: int) -> int:
    """The number of the sixteen int32 from position `start` that are at most `bound`."""
    return int((numbers[start : start + LANES] <= bound).sum())


@type_callable(count_up_to)
def _type_count_up_to(context: Any) -> Any:
    def typer(numbers: Any, start: Any, bound: Any) -> Any:
        return (
            types.int64
            if isinstance(numbers, types.Array)
            and numbers.dtype == types.int32
            and numbers.layout == "C"
            else None
        )

    return typer


@lower_builtin(count_up_to, types.Array, types.Integer, types.Integer)
def _lower_count_up_to(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    bits = ir.IntType(LANES)
    found = builder.load(address(context, builder, sig.args[0], args[0], args[1], _INTS), align=4)
    bound = context.cast(builder, args[2], sig.args[2], types.int32)
    at_most = builder.bitcast(builder.icmp_signed("<=", found, spread(builder, bound, _INTS)), bits)
    counted = builder.call(
        declared(builder, ir.FunctionType(bits, [bits]), f"llvm.ctpop.i{LANES}"), [at_most]
    )
    return builder.zext(counted, ir.IntType(64))
