"""Hostile values: what somebody with a key may put into a message that is right in everything else.
Taken from the sizes that an algorithm declares, so that one that is added is tried by itself; the
same seed gives the same values.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from bad_answers import framed
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from entrenous_network.frames.frames import Frame

from entrenous.core.types import Array

FLOATS = (
    *(np.nan, np.inf, -np.inf, 1e30, -1e30, 3.4e38, 1e-42, -0.0, 0.0, 1.0, -1.0, 100.0),
    *(32767.99, 32768.0, -32768.0, 1e5, 1e9, -1e9, 1e15, 1e19, -1e19),
)
WHOLE = (
    -(2**63),
    -(2**31),
    -(10**9),
    -2,
    -1,
    0,
    1,
    2,
    2**16,
    10**9,
    2**30,
    2**31 - 1,
    2**31,
    2**40,
    2**62,
    2**63 - 1,
    2**64 - 1,
)
TYPES = ("f2", "f4", "f8", "i1", "i4", "i8", "u1", "u4", "u8")
NONCES = (b"", b"1", bytes(15), bytes(16), bytes(17), bytes(1000))
HASHES = (b"", bytes(32), bytes(31), b"\xff" * 32)


class Hostile:
    """Draws what to change, and to what. sizes: the numbers around which indices and counts are
    wrong by one.
    """

    def __init__(self, seed: int, sizes: Sequence[int] = ()) -> None:
        self.draw = random.Random(seed)
        self.whole = sorted({*WHOLE, *(size + d for size in sizes for d in (-1, 0, 1))})

    def times(self) -> int:
        """How many things are changed at once: mostly one."""
        return self.draw.choice((1, 1, 1, 2, 3))

    def number(self, low: int = -(2**63), high: int = 2**64 - 1) -> int:
        """A number that is likely to be wrong, of those that can be written down where it goes."""
        return self.draw.choice([n for n in self.whole if low <= n <= high])

    def array(self, array: Array) -> Array:
        """An array with other values, or, less often, another shape or type."""
        kind = self.draw.randrange(10)
        return (
            self.reshaped(array)
            if kind == 0
            else self.retyped(array)
            if kind == 1
            else self.revalued(array)
        )

    def revalued(self, array: Array) -> Array:
        """Some numbers, or all of them, are others of the same type; or two of them change places,
        or are the same.
        """
        out = np.array(array)
        flat, n = out.reshape(-1), out.size
        if not n:
            return self.reshaped(out)
        where = self.draw.choice(
            [
                [self.draw.randrange(n)],
                [0],
                [n - 1],
                list(range(n)),
                self.draw.sample(range(n), max(1, n // 2)),
            ]
        )
        if self.draw.random() < 0.15:
            flat[where] = flat[self.draw.randrange(n)]
        elif self.draw.random() < 0.1:
            out = np.ascontiguousarray(out[::-1])
        else:
            flat[where] = self.value(out.dtype)
        return out

    def value(self, dtype: Any) -> Any:
        """One number of a type."""
        if np.dtype(dtype).kind == "f":
            with np.errstate(over="ignore"):
                return np.dtype(dtype).type(self.draw.choice(FLOATS))
        return np.dtype(dtype).type(self.number(int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)))

    def reshaped(self, array: Array) -> Array:
        """No row, one more, one fewer; turned round, flat, or one axis more."""
        row = (
            array[:1] if array.ndim and len(array) else np.zeros((1, *array.shape[1:]), array.dtype)
        )
        return np.ascontiguousarray(
            self.draw.choice(
                [
                    array[:0] if array.ndim else array[None],
                    np.concatenate([array, row]) if array.ndim else row,
                    array[:-1] if array.ndim else row,
                    array.T,
                    array.reshape(-1),
                    array[None],
                    np.repeat(array, 3, axis=0) if array.ndim else row,
                ]
            )
        )

    def retyped(self, array: Array) -> Array:
        """The same numbers as another type."""
        with np.errstate(invalid="ignore", over="ignore"):
            return array.astype(
                self.draw.choice([kind for kind in TYPES if kind != array.dtype.str[1:]])
            )

    def arrays(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """The arrays of a body, of which one to three are others; seldom one is missing, has
        another's name, or is too much.
        """
        out, kind = dict(arrays), self.draw.randrange(40)
        if kind == 0 and len(out) > 1:
            out.pop(self.draw.choice(list(out)))
        elif kind == 1:
            out[self.draw.choice(["more", "shown.user", "row.q", "sender", "group"])] = np.zeros(
                3, np.float32
            )
        elif kind == 2:
            one, other = self.draw.choice(list(out)), self.draw.choice(list(out))
            out[one], out[other] = out[other], out[one]
        for _ in range(self.times()):
            name = self.draw.choice(list(out))
            out[name] = self.array(out[name])
        return out

    def head(self, said: Mapping[str, Any]) -> dict[str, Any]:
        """A head of which one to three fields are others."""
        out = dict(said)
        changes: dict[str, Callable[[], Any]] = {
            "round": lambda: self.near(int(said["round"])),
            "attempt": lambda: self.near(int(said["attempt"])),
            "items": lambda: self.near(int(said["items"])),
            "model": lambda: self.draw.choice(HASHES),
            "about": lambda: self.about(said["about"]),
            "run": lambda: self.draw.choice(["", "0" * 32, str(said["run"])[:-1]]),
            "kind": lambda: self.draw.choice(
                ["who", "work", "model", "update", "sum", "advert", "mask", "unmask", "taken", ""]
            ),
        }
        for _ in range(self.times()):
            name = self.draw.choice([*changes, "round", "about", "attempt"])
            out[name] = changes[name]()
        return out

    def near(self, number: int) -> int:
        """Another whole number, often a near one."""
        return (
            number + self.draw.choice((-2, -1, 1, 2)) if self.draw.random() < 0.3 else self.number()
        )

    def about(self, said: Mapping[str, int]) -> dict[str, int]:
        """The small numbers of a head, one of them another, or missing, or hundreds of them."""
        out, kind = dict(said), self.draw.randrange(8)
        if kind == 0:
            return {f"{n}": self.number() for n in range(self.draw.choice((1, 100)))}
        if kind == 1 or not out:
            return {}
        name = self.draw.choice(list(out))
        return {**out, name: self.near(out[name])}


def taken_apart(frame: Frame) -> dict[str, Any]:
    """The fields of a head, by name."""
    return msgspec.structs.asdict(frame.head)


def signed(said: Mapping[str, Any], body: bytes, key: Ed25519PrivateKey, **head: Any) -> bytes:
    """A frame with whatever head, rightly signed. A number that msgpack cannot hold is left as it
    was.
    """
    whole = {
        **said,
        "size": len(body),
        "digest": hashlib.sha256(body).digest(),
        **head,
    }
    packed = msgspec.msgpack.encode(list(whole.values()))
    return framed(packed, key, body)


def finite(arrays: Mapping[str, Array]) -> bool:
    """Whether all floats among some arrays are finite."""
    return all(
        bool(np.isfinite(array).all()) for array in arrays.values() if array.dtype.kind == "f"
    )
