"""The machine instructions that stand for the functions of `simd` in compiled kernels. Only a
process that compiles loads them.
"""

from __future__ import annotations

import operator
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.typing.templates import ConcreteTemplate, infer_global, signature
from numba.extending import lower_builtin, models, register_model, type_callable

from .simd import (
    BOUND,
    LANES,
    SCALE,
    add_fixed,
    count_up_to,
    every,
    fetch,
    load,
    root,
    store,
    sum_of,
    unless_negative,
)


class _LanesType(types.Type):
    """The type of sixteen float32 lanes, as numba sees it."""

    def __init__(self) -> None:
        super().__init__(name="Lanes")


@register_model(_LanesType)
class _LanesModel(models.PrimitiveModel):
    """Lanes are one vector of LLVM, which a register holds."""

    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, FLOATS)


LANES_TYPE = _LanesType()
# The vectors of LLVM.
FLOATS = ir.VectorType(ir.FloatType(), LANES)
_INTS = ir.VectorType(ir.IntType(32), LANES)
_LONGS = ir.VectorType(ir.IntType(64), LANES)
_BITS = ir.VectorType(ir.IntType(1), LANES)


# ---- + - * / -------------------------------------------------------------------------------------


def _lower_operator(symbol: Any, instruction: str) -> None:
    """Lets a Python operator stand for one instruction on two vectors of lanes."""

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


# ---- memory ------------------------------------------------------------------------------------


def is_flat(array: Any, dtype: Any) -> bool:
    """Tells whether numba's type of an array is C-contiguous and of this type of numbers."""
    return isinstance(array, types.Array) and array.dtype == dtype and array.layout == "C"


def address(context: Any, builder: Any, kind: Any, array: Any, start: Any, vector: Any) -> Any:
    """Returns a pointer to a vector at flat position `start` of an array of numba's type `kind`."""
    data = context.make_array(kind)(context, builder, array).data
    element = builder.gep(data, [start])
    return builder.bitcast(element, vector.as_pointer())


def _first_address(context: Any, builder: Any, sig: Any, args: Any, vector: Any) -> Any:
    """Returns `address` for functions whose first arguments are an array and a position."""
    return address(context, builder, sig.args[0], args[0], args[1], vector)


def _mask(builder: Any, count: Any) -> Any:
    """Returns <i < count> for each lane i; `count` is an i64 below 2^31."""
    lane = ir.Constant(_INTS, list(range(LANES)))
    bound = builder.trunc(count, ir.IntType(32))
    return builder.icmp_signed("<", lane, spread(builder, bound, _INTS))


def spread(builder: Any, number: Any, vector: Any) -> Any:
    """Returns a vector whose elements are all `number`: put into the first, then shuffled."""
    undefined = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(undefined, number, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), vector.count), None)
    return builder.shuffle_vector(first, undefined, zeros)


def _masked_load(builder: Any, pointer: Any, vector: Any, mask: Any, align: int) -> Any:
    """Reads the elements that a mask names; the others are 0, and their memory is not touched."""
    zeros = ir.Constant(vector, None)
    arguments = [pointer, ir.Constant(ir.IntType(32), align), mask, zeros]
    return _masked(builder, "load", vector, vector, arguments)


def _masked_store(builder: Any, value: Any, pointer: Any, mask: Any, align: int) -> None:
    """Writes the elements that a mask names."""
    arguments = [value, pointer, ir.Constant(ir.IntType(32), align), mask]
    _masked(builder, "store", ir.VoidType(), value.type, arguments)


def _masked(builder: Any, name: str, result: Any, vector: Any, arguments: list[Any]) -> Any:
    """Calls LLVM's intrinsic of a masked load or store of a vector."""
    kind = ir.FunctionType(result, [argument.type for argument in arguments])
    function = declared(builder, kind, f"llvm.masked.{name}.v{LANES}{_letter(vector)}.p0")
    return builder.call(function, arguments)


def _letter(vector: Any) -> str:
    """Returns the element type of a vector as the names of LLVM's intrinsics have it."""
    if vector == FLOATS:
        return "f32"
    return f"i{vector.element.width}"


def declared(builder: Any, kind: Any, name: str) -> Any:
    """Returns a function of LLVM by its name, declared once in each module."""
    function = builder.module.globals.get(name)
    if function is None:
        return ir.Function(builder.module, kind, name)
    return function


@type_callable(load)
def _type_load(context: Any) -> Any:
    return lambda array, start, count=None: LANES_TYPE if is_flat(array, types.float32) else None


@lower_builtin(load, types.Array, types.Integer)
def _lower_load(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    # Rows need not begin where a vector would have to.
    pointer = _first_address(context, builder, sig, args, FLOATS)
    return builder.load(pointer, align=4)


@lower_builtin(load, types.Array, types.Integer, types.Integer)
def _lower_load_some(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    pointer = _first_address(context, builder, sig, args, FLOATS)
    count = context.cast(builder, args[2], sig.args[2], types.int64)
    return _masked_load(builder, pointer, FLOATS, _mask(builder, count), 4)


@type_callable(store)
def _type_store(context: Any) -> Any:
    return lambda array, start, lanes: types.none if is_flat(array, types.float32) else None


@lower_builtin(store, types.Array, types.Integer, LANES_TYPE)
def _lower_store(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    pointer = _first_address(context, builder, sig, args, FLOATS)
    builder.store(args[2], pointer, align=4)
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
    pointer = _first_address(context, builder, sig, args, ir.IntType(8))
    kind = ir.FunctionType(ir.VoidType(), [pointer.type, i32, i32, i32])
    function = declared(builder, kind, "llvm.prefetch.p0")
    to_read = ir.Constant(i32, 0)
    keep_near = ir.Constant(i32, 3)
    is_data = ir.Constant(i32, 1)
    builder.call(function, [pointer, to_read, keep_near, is_data])
    return context.get_dummy_value()


# ---- one number at a time ------------------------------------------------------------------------


@type_callable(root)
def _type_root(context: Any) -> Any:
    return lambda lanes: lanes if lanes in (LANES_TYPE, types.float32, types.float64) else None


@lower_builtin(root, LANES_TYPE)
def _lower_root(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    kind = ir.FunctionType(FLOATS, [FLOATS])
    function = declared(builder, kind, f"llvm.sqrt.v{LANES}f32")
    return builder.call(function, [args[0]])


@lower_builtin(root, types.float32)
@lower_builtin(root, types.float64)
def _lower_root_of_one(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    kind = ir.FunctionType(args[0].type, [args[0].type])
    function = declared(builder, kind, f"llvm.sqrt.f{sig.args[0].bitwidth}")
    return builder.call(function, [args[0]])


@type_callable(unless_negative)
def _type_unless_negative(context: Any) -> Any:
    return lambda sign, lanes: LANES_TYPE if sign == lanes == LANES_TYPE else None


@lower_builtin(unless_negative, LANES_TYPE, LANES_TYPE)
def _lower_unless_negative(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    zero = ir.Constant(FLOATS, None)
    # An ordered comparison is false for NaN.
    negative = builder.fcmp_ordered("<", args[0], zero)
    return builder.select(negative, zero, args[1])


# ---- sums --------------------------------------------------------------------------------------


@type_callable(sum_of)
def _type_sum_of(context: Any) -> Any:
    return lambda lanes: types.float32 if lanes == LANES_TYPE else None


@lower_builtin(sum_of, LANES_TYPE)
def _lower_sum_of(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    i32 = ir.IntType(32)
    lanes = args[0]
    for half in (8, 4, 2, 1):
        places = ir.VectorType(i32, half)
        low = ir.Constant(places, list(range(half)))
        high = ir.Constant(places, list(range(half, 2 * half)))
        first = builder.shuffle_vector(lanes, lanes, low)
        last = builder.shuffle_vector(lanes, lanes, high)
        lanes = builder.fadd(first, last)
    return builder.extract_element(lanes, ir.Constant(i32, 0))


@type_callable(add_fixed)
def _type_add_fixed(context: Any) -> Any:
    return lambda total, start, lanes, count: types.boolean if is_flat(total, types.int64) else None


@lower_builtin(add_fixed, types.Array, types.Integer, LANES_TYPE, types.Integer)
def _lower_add_fixed(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    of_lanes = ir.FunctionType(FLOATS, [FLOATS])
    rint = declared(builder, of_lanes, f"llvm.rint.v{LANES}f32")
    fabs = declared(builder, of_lanes, f"llvm.fabs.v{LANES}f32")
    scale = ir.Constant(FLOATS, [float(SCALE)] * LANES)
    bound = ir.Constant(FLOATS, [float(BOUND)] * LANES)
    scaled = builder.call(rint, [builder.fmul(args[2], scale)])
    size = builder.call(fabs, [scaled])
    fits = builder.fcmp_ordered("<", size, bound)
    # What does not fit becomes 0: to convert it would be undefined.
    in_range = builder.select(fits, scaled, ir.Constant(FLOATS, None))
    whole = builder.fptosi(in_range, _INTS)
    pointer = _first_address(context, builder, sig, args, _LONGS)
    count = context.cast(builder, args[3], sig.args[3], types.int64)
    mask = _mask(builder, count)
    before = _masked_load(builder, pointer, _LONGS, mask, 8)
    after = builder.add(before, builder.sext(whole, _LONGS))
    _masked_store(builder, after, pointer, mask, 8)
    # All sixteen bits must be set.
    bits = ir.IntType(LANES)
    return builder.icmp_unsigned("==", builder.bitcast(fits, bits), ir.Constant(bits, -1))


# ---- searching ---------------------------------------------------------------------------------


@type_callable(count_up_to)
def _type_count_up_to(context: Any) -> Any:
    return lambda numbers, start, bound: types.int64 if is_flat(numbers, types.int32) else None


@lower_builtin(count_up_to, types.Array, types.Integer, types.Integer)
def _lower_count_up_to(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    bits = ir.IntType(LANES)
    pointer = _first_address(context, builder, sig, args, _INTS)
    numbers = builder.load(pointer, align=4)
    bound = context.cast(builder, args[2], sig.args[2], types.int32)
    at_most = builder.icmp_signed("<=", numbers, spread(builder, bound, _INTS))
    # Sixteen comparisons are sixteen bits of one number, which one instruction counts.
    kind = ir.FunctionType(bits, [bits])
    ctpop = declared(builder, kind, f"llvm.ctpop.i{LANES}")
    count = builder.call(ctpop, [builder.bitcast(at_most, bits)])
    return builder.zext(count, ir.IntType(64))
