"""What a value may be changed to: by its type, by what the same field says elsewhere, and in
agreement with what follows from it in the same frame."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from adversary.leaves import Arrays, Opened, Where, leaves, with_value, write_body
from entrenous_network.frames.request import announced

from entrenous.core.contract.declared import Contract

LOW_ORDER = (b"\1" + bytes(31), (2**255 - 20).to_bytes(32, "little"))
LARGEST = 2**63 - 1
KINDS = ("work", "model", "advert", "share", "mask", "consent", "unmask")
Value = tuple[str, Any]  # the name of a change, and the new value


class Change(NamedTuple):
    """One field of a frame with another value. name: of the kind of change; agreed: whether what
    follows from the field says so too."""

    path: Where
    name: str
    value: Any
    agreed: bool = False


def values(value: Any, elsewhere: Mapping[str, Any]) -> Iterator[Value]:
    """Other values for a field. elsewhere: what it says in other frames: to another node, in an
    earlier round, in the other world."""
    of_type = _of_type(value)
    if of_type is not None:
        yield from ((name, new) for name, new in of_type(value) if not same(new, value))
    for name, other in elsewhere.items():
        if not same(other, value):
            yield name, other


def same(a: Any, b: Any) -> bool:
    """Whether two values of a field are the same, to the bit."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return False
    return type(a) is type(b) and bool(a == b)


def _of_type(value: Any) -> Callable[[Any], Iterator[Value]] | None:
    kinds: tuple[tuple[type, Callable[[Any], Iterator[Value]]], ...] = (
        (int, _numbers),
        (bytes, _octets),
        (str, _texts),
        (list, _lists),
        (dict, _maps),
        (np.ndarray, _arrays),
    )
    return next((made for kind, made in kinds if isinstance(value, kind)), None)


def _numbers(value: int) -> Iterator[Value]:
    yield "zero", 0
    yield "one more", value + 1
    yield "one less", value - 1
    yield "maximum", LARGEST
    yield "negative", -1


def _octets(value: bytes) -> Iterator[Value]:
    n = len(value)
    yield "zeros", bytes(n)
    yield "ones", b"\xff" * n
    yield "another of the length", hashlib.shake_256(b"another" + value).digest(n)
    yield "empty", b""
    yield "longer", value + b"\0"
    if n:
        yield "a flipped bit", bytes([value[0] ^ 1]) + value[1:]
        yield "a flipped bit at the end", value[:-1] + bytes([value[-1] ^ 0x80])
        yield "shorter", value[:-1]
    if n == 32:
        yield from (("low order", key) for key in LOW_ORDER)


def _texts(value: str) -> Iterator[Value]:
    yield "empty", ""
    yield "longer", value + "x"
    yield from ((f"kind {kind}", kind) for kind in KINDS)
    yield "order", ">"


def _lists(value: list[Any]) -> Iterator[Value]:
    yield "none", []
    if value:
        yield "first dropped", value[1:]
        yield "last dropped", value[:-1]
        yield "first doubled", [value[0], *value]
        yield "last doubled", [*value, value[-1]]
        yield "first for all", [value[0]] * len(value)
    if len(value) > 1:
        yield "swapped", [value[1], value[0], *value[2:]]
        yield "reversed", value[::-1]


def _maps(value: dict[str, Any]) -> Iterator[Value]:
    yield "none", {}
    yield "one more", {**value, "more": 1}
    for name in value:
        yield f"without {name}", {each: number for each, number in value.items() if each != name}


def _arrays(value: np.ndarray) -> Iterator[Value]:
    yield "zero", np.zeros_like(value)
    yield "turned round", np.ascontiguousarray(value[::-1])
    yield "first dropped", value[1:]
    yield "first doubled", np.concatenate([value[:1], value])
    if not value.size:
        return
    for name, number in _extremes(value):
        yield name, np.full_like(value, number)
        one = value.copy()
        one.reshape(-1)[0] = number
        yield f"{name} in one place", one
    with np.errstate(all="ignore"):
        yield "loud", (value * 8).astype(value.dtype)
        yield "moved", (value + 1).astype(value.dtype)
    if len(value) > 1:
        swapped = value.copy()
        swapped[[0, 1]] = swapped[[1, 0]]
        yield "swapped", swapped


def _extremes(value: np.ndarray) -> Iterator[Value]:
    if value.dtype.kind == "f":
        yield "nan", np.nan
        yield "inf", np.inf
        yield "maximum", np.finfo(value.dtype).max
        yield "large", 1000.0
    else:
        yield "maximum", np.iinfo(value.dtype).max


# ---- what follows from a field -------------------------------------------------------------------


def apply(found: Opened, change: Change, contract: Contract) -> Opened:
    """The frame with the change, and, if it is to agree with itself, with what follows from it."""
    changed = with_value(found, change.path, change.value)
    if not change.agreed:
        return changed
    for old, new in derived(found, changed, contract):
        for path, value in list(leaves(changed)):
            if path != change.path and isinstance(value, bytes) and value == old:
                changed = with_value(changed, path, new)
    return changed


def derived(before: Opened, after: Opened, contract: Contract) -> list[tuple[bytes, bytes]]:
    """The hashes of a download that a frame may hold, as they were and as they are."""
    pairs = zip(digests(before, contract), digests(after, contract), strict=False)
    return [(old, new) for old, new in pairs if old != new]


def digests(found: Opened, contract: Contract) -> list[bytes]:
    """The hashes of what a frame brings: of the model, of all that is downloaded, of the body."""
    body = found.body
    if not isinstance(body, Arrays):
        return [hashlib.sha256(write_body(body)).digest()]
    received = {field.name for field in contract.receives}
    arrays = {name: array for name, array in body.arrays.items() if name in received}
    made = contract.declaration.receives
    some = [
        hashlib.sha256(write_body(body)).digest(),
        hashlib.sha256(write_body(Arrays(arrays, {}))).digest(),
    ]
    if made is None or arrays.keys() != received:
        return some
    try:
        return [*some, announced(contract, made(**arrays))]
    except (ValueError, TypeError, KeyError):
        return some


def changes(found: Opened, elsewhere: Mapping[str, Opened], contract: Contract) -> Iterator[Change]:
    """Every change of one field of a frame, from the declarations of its fields. elsewhere: other
    frames of the same kind, whose values the field may take."""
    others = {name: dict(_hashable(other)) for name, other in elsewhere.items()}
    for path, value in leaves(found):
        said = {name: other[path] for name, other in others.items() if path in other}
        for name, new in values(value, said):
            yield Change(path, name, new)
            if path[:2] == ("body", "arrays"):
                yield Change(path, name, new, agreed=True)


def _hashable(found: Opened) -> Iterator[tuple[Where, Any]]:
    yield from leaves(found)
