"""Arrays over a wire: written so that anybody's safetensors reads them, read so that nothing but
what was agreed gets in.
"""

from __future__ import annotations

import json
import random
import tracemalloc
from typing import Any

import numpy as np
import pytest
from bad_answers import mutated
from entrenous_network.wire.tensors import (
    CODES,
    LONGEST_HEADER,
    Malformed,
    TensorField,
    largest,
    read,
    schema_of,
    write,
)
from safetensors.numpy import load

ARRAYS = {
    "rows": np.arange(12, dtype=np.float32).reshape(4, 3),
    "item": np.arange(4, dtype=np.int32),
    "sum": np.arange(5, dtype=np.int64),
    "words": np.array([1, 2**63], np.uint64),
    "flag": np.array([7], np.uint8),
}
SCHEMA = {
    **schema_of(ARRAYS),
    "rows": TensorField("f4", ((0, 9), 3)),
    "item": TensorField("i4", ((0, 9),)),
}


def message(header: Any, payload: bytes = b"") -> bytes:
    said = header if isinstance(header, bytes) else json.dumps(header).encode()
    said += b" " * (-len(said) % 8)
    return len(said).to_bytes(8, "little") + said + payload


def one(shape=(2,), offsets=(0, 8), dtype="F32", **more: Any) -> dict[str, Any]:
    return {"x": {"dtype": dtype, "shape": shape, "data_offsets": offsets, **more}}


def code(data: bytes, schema: Any = None) -> str:
    with pytest.raises(Malformed) as found:
        read(data, schema or {"x": TensorField("f4", (2,))})
    return found.value.code


def test_what_is_written_is_read_and_is_safetensors() -> None:
    data = write(ARRAYS)
    found, theirs = read(data, SCHEMA), load(data)
    assert list(found) == list(SCHEMA)
    for name, array in ARRAYS.items():
        assert (
            found[name].dtype == array.dtype
            and found[name].tobytes() == array.tobytes() == theirs[name].tobytes()
        )
        assert (
            found[name].shape == array.shape
            and found[name].flags.aligned
            and not found[name].flags.writeable
        )
    assert data == write(dict(reversed(ARRAYS.items()))), "the order of the arrays does not matter"


def test_nothing_is_copied() -> None:
    data = write({"x": np.zeros(1 << 20, np.float32)})
    tracemalloc.start()
    found = read(data, {"x": TensorField("f4", (1 << 20,))})
    assert tracemalloc.get_traced_memory()[1] < 1 << 15
    tracemalloc.stop()
    assert np.shares_memory(found["x"], np.frombuffer(data, np.uint8))


def test_a_buffer_that_begins_anywhere_is_read() -> None:
    data = write(ARRAYS)
    for shift in range(9):
        found = read(memoryview(b"." * shift + data)[shift:], SCHEMA)
        assert found["words"].flags.aligned and found["words"].tolist() == [1, 2**63]


def test_big_endian_and_strided_arrays_are_written_as_they_are_read() -> None:
    data = write({"x": np.arange(6, dtype=">f4")[::3]})
    assert read(data, {"x": TensorField("f4", (2,))})["x"].tolist() == [0, 3]


def test_rows_may_be_few_or_none_but_not_too_many() -> None:
    schema = {"x": TensorField("f4", ((0, 3), 2))}
    for n in range(4):
        assert read(write({"x": np.ones((n, 2), np.float32)}), schema)["x"].shape == (n, 2)
    assert code(write({"x": np.ones((4, 2), np.float32)}), schema) == "bounds"
    assert largest(schema) >= len(write({"x": np.ones((3, 2), np.float32)}))


@pytest.mark.parametrize("dtype", ["O", "U3", "?", "c8", "M8[s]"])
def test_only_numbers_travel(dtype: str) -> None:
    with pytest.raises(ValueError, match="do not travel"):
        write({"x": np.zeros(1, dtype)})


X = np.zeros(2, np.float32).tobytes()
ENTRY = json.dumps(one()["x"])
TWICE = f'{{"x":{ENTRY},"x":{ENTRY}}}'.encode()
WRONG: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "short"),
    "half a length": (b"\0" * 7, "short"),
    "2 GB header": ((2 << 30).to_bytes(8, "little") + b"{}", "header"),
    "2^64 header": (b"\xff" * 8, "header"),
    "99 MB header": ((99 << 20).to_bytes(8, "little") + b" " * 100, "header"),
    "header beyond the end": ((64).to_bytes(8, "little") + b"{}", "short"),
    "not JSON": (message(b"{]"), "json"),
    "not UTF-8": (message(b'{"\xff":1}'), "json"),
    "a list": (message([]), "entry"),
    "10,000 brackets": (message(b"[" * 10_000), "entry"),
    "a number of 5,000 digits": (message(b'{"x":' + b"9" * 5_000 + b"}"), "entry"),
    "NaN": (message(b'{"x":NaN}'), "json"),
    "a pickle": (b"\x80\x05cos\nsystem\n", "header"),
    "no array": (message({}), "names"),
    "another name": (message({"y": one()["x"]}, X), "names"),
    "metadata": (message({**one(), "__metadata__": {"a": "b"}}, X), "entry"),
    "1,000 arrays": (message({str(n): 0 for n in range(1000)}), "entry"),
    "a name twice": (message(TWICE, X), "duplicate"),
    "not an object": (message({"x": 3}, X), "entry"),
    "something more": (message(one(more=1), X), "entry"),
    "float64": (message(one(dtype="F64", offsets=(0, 16)), X + X), "dtype"),
    "float16": (message(one(dtype="F16", offsets=(0, 4)), X[:4]), "dtype"),
    "integers": (message(one(dtype="I32"), X), "dtype"),
    "big-endian": (message(one(dtype=">f4"), X), "dtype"),
    "objects": (message(one(dtype="O"), X), "dtype"),
    "no type": (message(one(dtype=["F32"]), X), "entry"),
    "too long": (message(one(shape=(3,), offsets=(0, 12)), X + X[:4]), "shape"),
    "broadcastable": (message(one(shape=(1, 2)), X), "shape"),
    "scalar": (message(one(shape=(), offsets=(0, 4)), X[:4]), "shape"),
    "negative": (message(one(shape=(-2,)), X), "entry"),
    "True": (message(one(shape=(True,), offsets=(0, 4)), X[:4]), "entry"),
    "2.0": (message(one(shape=(2.0,)), X), "entry"),
    "2^70": (message(one(shape=(2**70,)), X), "shape"),
    "shape of text": (message(one(shape="ab"), X), "entry"),
    "offsets that lie": (message(one(offsets=(0, 4)), X), "offsets"),
    "offsets that run back": (message(one(offsets=(8, 0)), X), "offsets"),
    "a hole before": (message(one(offsets=(8, 16)), X + X), "offsets"),
    "offsets of 2^64": (message(one(offsets=(2**64, 2**64 + 8)), X), "offsets"),
    "three offsets": (message(one(offsets=(0, 8, 8)), X), "entry"),
    "cut short": (message(one(), X[:7]), "size"),
    "a byte too many": (message(one(), X + b"\0"), "size"),
}


@pytest.mark.parametrize("name", WRONG)
def test_everything_else_has_its_code(name: str) -> None:
    data, expected = WRONG[name]
    assert code(data) == expected
    assert expected in CODES


def test_overlapping_and_separated_arrays_are_refused() -> None:
    schema = {"x": TensorField("f4", (2,)), "y": TensorField("f4", (2,))}

    def two(second: tuple[int, int], payload: int) -> bytes:
        return message(
            {**one(), "y": {"dtype": "F32", "shape": [2], "data_offsets": second}}, b"\0" * payload
        )

    assert (
        code(two((0, 8), 8), schema)
        == code(two((4, 12), 12), schema)
        == code(two((12, 20), 20), schema)
        == "offsets"
    )
    assert read(two((8, 16), 16), schema)["y"].tolist() == [0, 0]


def test_a_long_header_costs_nothing() -> None:
    tracemalloc.start()
    for length in (LONGEST_HEADER + 8, 2 << 30, 1 << 62):
        assert code(length.to_bytes(8, "little") + b"{" * 100) == "header"
    assert tracemalloc.get_traced_memory()[1] < 1 << 18
    tracemalloc.stop()


def test_ten_thousand_mutations_are_read_or_refused_but_never_break_anything() -> None:
    draw, data, refused = random.Random(1), write(ARRAYS), 0
    for _ in range(10_000):
        try:
            found = read(mutated(draw, data), SCHEMA)
        except Malformed as why:
            assert why.code in CODES
            refused += 1
        else:
            assert all(found[name].dtype == np.dtype(field.dtype) for name, field in SCHEMA.items())
    assert refused > 5_000
