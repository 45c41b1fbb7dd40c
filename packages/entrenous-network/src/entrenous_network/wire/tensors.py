"""Named arrays as bytes: the safetensors layout, written plainly and read strictly against a schema
that was agreed beforehand.

    u64 length of the header | header: JSON {name: {"dtype", "shape", "data_offsets"}}, spaces up to
    a multiple of 8 | the arrays, one after the other, little-endian

A hundred bytes can make a trusting reader use gigabytes (research/p2p.md, 5: 300,000 empty tensors,
headers of 99 MB, names given twice). Here the header is bounded before it is parsed, and must say
what the schema says and nothing else.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple, NoReturn, TypeAlias, final

import msgspec
import numpy as np

from entrenous.core.errors import EntrenousError
from entrenous.core.types import Array

from .completed import completed

LENGTH = 8  # bytes that hold the length of the header
LONGEST_HEADER = 1 << 14  # bytes
ALIGNED = 8  # bytes: where the arrays begin, so that each may be used where it lies
# The name of each type that travels: in numpy, and in the header.
KINDS = {
    "<f8": "F64",
    "<i8": "I64",
    "<u8": "U64",
    "<f4": "F32",
    "<i4": "I32",
    "<u4": "U32",
    "<f2": "F16",
    "|i1": "I8",
    "|u1": "U8",
}
# What can be wrong with a message, in one word. Logs and tests hold them, so they never change.
CODES = (
    "short",
    "header",
    "json",
    "duplicate",
    "names",
    "entry",
    "dtype",
    "shape",
    "bounds",
    "offsets",
    "size",
)

Extent: TypeAlias = int | tuple[int, int]  # one dimension: exactly so many, or from low to high
Buffer: TypeAlias = bytes | bytearray | memoryview


@final
class Malformed(EntrenousError):
    """Raised for bytes that are not the arrays that were agreed on.

    code: one of CODES. text: what is wrong.
    """

    def __init__(self, code: str, text: str) -> None:
        self.code = code
        self.text = text
        super().__init__(f"{code}: {text}")


class TensorField(NamedTuple):
    """The type and shape of an array that both ends have agreed on."""

    dtype: str
    """A key of KINDS or another name of it in numpy ("f4")."""
    shape: tuple[Extent, ...]
    """Each dimension a number, or (low, high)."""


Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]


@completed
class ArrayEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An array in a header, in the form that any array has."""

    dtype: str
    shape: list[Count]
    data_offsets: tuple[Count, Count]
    """Where it begins and ends, counted from the end of the header."""


Schema: TypeAlias = Mapping[str, TensorField]


def write(arrays: Mapping[str, Array]) -> bytes:
    """Returns the arrays as bytes, the same for the same arrays: larger types first, then by name,
    so that each array is aligned.
    """
    return b"".join(parts(arrays))


def parts(arrays: Mapping[str, Array]) -> list[Buffer]:
    """Returns the same bytes as parts that follow each other: the header, and views of the arrays
    where these lie.
    """
    plain = [(name, _plain(array)) for name, array in arrays.items()]
    # After arrays of larger numbers every smaller number is aligned, too, without padding.
    plain.sort(key=lambda pair: (-pair[1].itemsize, pair[0]))
    header: dict[str, Any] = {}
    views: list[Buffer] = []
    start = 0
    for name, array in plain:
        end = start + array.nbytes
        header[name] = {
            "dtype": KINDS[_kind(array.dtype)],
            "shape": array.shape,
            "data_offsets": (start, end),
        }
        numbers = array.reshape(-1)
        views.append(numbers.view(np.uint8).data)
        start = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % ALIGNED)
    length = len(text).to_bytes(LENGTH, "little")
    return [length + text, *views]


def schema_of(arrays: Mapping[str, Array]) -> dict[str, TensorField]:
    """Returns the schema that accepts exactly the names, types and shapes of these arrays."""
    return {name: TensorField(_kind(array.dtype), array.shape) for name, array in arrays.items()}


def largest(schema: Schema) -> int:
    """Returns an upper bound for the bytes of a message that a schema allows, for which a receiver
    has to be ready.
    """
    nbytes = LENGTH + LONGEST_HEADER
    for field in schema.values():
        numbers = 1
        for extent in field.shape:
            numbers *= extent[1] if isinstance(extent, tuple) else extent
        nbytes += numbers * np.dtype(field.dtype).itemsize
    return nbytes


def read(buffer: Buffer, schema: Schema) -> dict[str, Array]:
    """Returns the arrays of a message, in the order of the schema: read-only views of `buffer`
    (copies only where it does not begin at a multiple of 8). Raises Malformed for anything but
    exactly the agreed names, types and shapes, laid out without gaps or overlap.
    """
    data = memoryview(buffer).cast("B")
    header, start = _header(data)
    if header.keys() != schema.keys():
        names = sorted(header)[:8]
        _bad("names", f"got {names}, agreed were {sorted(schema)}")
    # The whole layout is checked before an array is looked at.
    spans = {}
    for name, field in schema.items():
        spans[name] = _span(name, header[name], field)
    _check_layout(sorted(spans.values()), len(data) - start)
    arrays = {}
    for name, field in schema.items():
        low, _ = spans[name]
        arrays[name] = _array(data, start + low, header[name].shape, field)
    return arrays


def _header(data: memoryview) -> tuple[dict[str, ArrayEntry], int]:
    """Returns the header, and where the arrays begin. Raises Malformed."""
    if len(data) < LENGTH:
        _bad("short", f"{len(data)} bytes are not even a length")
    length = int.from_bytes(data[:LENGTH], "little")
    # Bounded before it is parsed: parsed JSON takes many times its size in memory.
    if not 2 <= length <= LONGEST_HEADER or length % ALIGNED:
        expected = f"expected a multiple of {ALIGNED} up to {LONGEST_HEADER}"
        _bad("header", f"a header of {length} bytes; {expected}")
    start = LENGTH + length
    if len(data) < start:
        _bad("short", f"a header of {length} bytes in a message of {len(data)}")
    text = bytes(data[LENGTH:start])
    try:
        header = msgspec.json.decode(text, type=dict[str, ArrayEntry])
    except msgspec.ValidationError as cause:
        raise Malformed("entry", f"the header is none ({cause})") from None
    except (ValueError, RecursionError) as cause:
        raise Malformed("json", f"the header cannot be read ({type(cause).__name__})") from None
    # Of a name that is given twice, one reader takes the first value and another the last.
    if text.count(b'"data_offsets"') != len(header):
        _bad("duplicate", "a name is given twice")
    return header, start


def _span(name: str, entry: ArrayEntry, field: TensorField) -> tuple[int, int]:
    """Returns where an array begins and ends, counted from the end of the header. Raises Malformed
    unless its type and shape are what was agreed.
    """
    kind = entry.dtype
    shape = entry.shape
    dtype = np.dtype(field.dtype)
    agreed_kind = KINDS[_kind(dtype)]
    if kind != agreed_kind:
        _bad("dtype", f"'{name}' is {kind!r:.40}, agreed was {agreed_kind}")
    if len(shape) != len(field.shape):
        _bad("shape", f"'{name}' has the shape {shape!r:.60}, agreed was {field.shape}")
    for extent, agreed in zip(shape, field.shape, strict=True):
        _check_extent(name, extent, agreed)
    low, high = entry.data_offsets
    itemsize = dtype.itemsize
    # In Python's whole numbers, since those of numpy overflow.
    nbytes = math.prod(shape) * itemsize
    if high - low != nbytes or low % itemsize:
        numbers = f"of shape {shape} and {itemsize} bytes each"
        _bad("offsets", f"'{name}' {numbers} lies at {low} to {high}")
    return low, high


def _check_extent(name: str, extent: int, agreed: Extent) -> None:
    if isinstance(agreed, tuple):
        if not agreed[0] <= extent <= agreed[1]:
            _bad("bounds", f"'{name}' has {extent} rows, agreed were {agreed[0]} to {agreed[1]}")
    elif extent != agreed:
        _bad("shape", f"'{name}' has {extent} where {agreed} was agreed")


def _check_layout(spans: list[tuple[int, int]], room: int) -> None:
    """Raises Malformed unless the arrays follow each other from the first byte to the last."""
    # An overlap would unfold a small message into large arrays; a gap would hide bytes.
    end = 0
    for low, high in spans:
        if low != end:
            _bad("offsets", f"an array begins at {low} where the one before ended at {end}")
        end = high
    if end != room:
        _bad("size", f"the arrays take {end} bytes, the message has {room}")


def _array(data: memoryview, start: int, shape: list[int], field: TensorField) -> Array:
    """Returns an array as a read-only view of the message where that is aligned, else as a copy."""
    array = np.frombuffer(data, field.dtype, math.prod(shape), start)
    # numba would compile a kernel anew for arrays that are not aligned.
    if not array.flags.aligned:
        array = array.copy()
    array.flags.writeable = False
    return array.reshape(shape)


def _plain(array: Array) -> Array:
    """Returns an array contiguous and little-endian. Raises ValueError for a type that never
    travels.
    """
    contiguous = np.asarray(array, order="C")
    kind = _kind(contiguous.dtype)
    return contiguous.astype(kind, copy=False)


def _kind(dtype: Any) -> str:
    """Returns the name of a type in KINDS. Raises ValueError for a type that never travels
    (objects, text, booleans).
    """
    native = np.dtype(dtype)
    kind = native.newbyteorder("<").str
    if kind not in KINDS:
        known = ", ".join(KINDS)
        raise ValueError(f"arrays of type {native} do not travel; those that do: {known}")
    return kind


def _bad(code: str, text: str) -> NoReturn:
    raise Malformed(code, text)
