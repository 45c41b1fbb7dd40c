"""Frames taken apart into their single fields, and put together again with another value in one of
them.

What fields there are is read from the declarations: the `Head` of a frame, the msgspec structs of
the package, the arrays of a message of tensors. A field that is added is therefore attacked by
itself, and a body of a new kind is taken apart as plain msgpack.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, TypeAlias

import msgspec
import numpy as np
from bad_answers import framed
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from entrenous_network.frames.frames import opened
from entrenous_network.wire import tensors
from entrenous_network.wire.statement import Head

Where: TypeAlias = tuple[str | int, ...]
Tree: TypeAlias = Any  # Record, Packed, Arrays, list, dict, array, or a plain value
DERIVED = {("head", "size"), ("head", "digest")}  # follow from the body unless they are attacked


@dataclass(frozen=True)
class Record:
    """A struct of msgspec as its fields. kind: the struct's class."""

    kind: type[msgspec.Struct]
    fields: dict[str, Tree]


@dataclass(frozen=True)
class Packed:
    """Bytes that hold a message of msgpack. inside: the message."""

    inside: Tree


@dataclass(frozen=True)
class Arrays:
    """A message of tensors. arrays: by name, each an array or the message that its bytes hold.
    said: other values for entries of the header than those that follow from the arrays."""

    arrays: dict[str, Tree]
    said: dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Opened:
    """A frame as its fields. head: of its header by name; body: its content."""

    head: dict[str, Any]
    body: Tree
    attacked: Where = ()

    @property
    def kind(self) -> str:
        """What the frame asks for."""
        return str(self.head["kind"])


@cache
def declared_structs() -> list[type[msgspec.Struct]]:
    """All message formats that the package declares, those with more fields first."""
    found, left = [], list(msgspec.Struct.__subclasses__())
    while left:
        kind = left.pop()
        left += kind.__subclasses__()
        if kind.__module__.startswith("entrenous_network.") and kind.__struct_fields__:
            found.append(kind)
    return sorted(found, key=lambda kind: (-len(kind.__struct_fields__), kind.__name__))


# ---- taking apart ------------------------------------------------------------------------------


def take_apart(frame: bytes) -> Opened:
    """The fields of a frame."""
    found = opened(frame)
    head = {name: getattr(found.head, name) for name in Head.__struct_fields__}
    return Opened(head, read_body(bytes(found.body)))


def read_body(body: bytes) -> Tree:
    """The content of a frame: arrays, a message, or plain bytes."""
    if not body:
        return body
    header = _tensor_header(body)
    if header is not None:
        return _read_arrays(body, header)
    return read_bytes(body)


def read_bytes(data: bytes) -> Tree:
    """Bytes, as the message that they hold where they hold one that the package declares."""
    kinds = declared_structs()
    for kind in (*kinds, *(list[kind] for kind in kinds)):
        try:
            found = msgspec.msgpack.decode(data, type=kind)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            continue
        if found and msgspec.msgpack.encode(found) == data:
            return Packed(read_value(found))
    return _plain_message(data)


def read_value(value: Any) -> Tree:
    """A value of a struct as a tree."""
    if isinstance(value, msgspec.Struct):
        fields = {name: read_value(getattr(value, name)) for name in value.__struct_fields__}
        return Record(type(value), fields)
    if isinstance(value, list | tuple):
        return [read_value(each) for each in value]
    if isinstance(value, bytes) and len(value) > 64:
        return read_bytes(value)
    return value


def _plain_message(data: bytes) -> Tree:
    """A message of msgpack that no struct declares, where it is a list or a map."""
    try:
        found = msgspec.msgpack.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return data
    whole = isinstance(found, list | dict) and msgspec.msgpack.encode(found) == data
    return Packed(found) if whole else data


def _tensor_header(body: bytes) -> dict[str, Any] | None:
    length = int.from_bytes(body[:8], "little")
    if not 2 <= length <= tensors.LONGEST_HEADER or len(body) < 8 + length:
        return None
    try:
        header = json.loads(body[8 : 8 + length])
    except ValueError:
        return None
    return header if isinstance(header, dict) else None


def _read_arrays(body: bytes, header: dict[str, Any]) -> Arrays:
    start = 8 + int.from_bytes(body[:8], "little")
    kinds = {said: kind for kind, said in tensors.KINDS.items()}
    found: dict[str, Tree] = {}
    for name, entry in header.items():
        low, high = entry["data_offsets"]
        flat = np.frombuffer(body[start + low : start + high], kinds[entry["dtype"]])
        array = flat.reshape(entry["shape"]).copy()
        inside = read_bytes(array.tobytes()) if array.dtype == np.uint8 else array
        found[name] = inside if isinstance(inside, Packed) else array
    return Arrays(found, {})


# ---- putting together ----------------------------------------------------------------------------


def put_together(found: Opened, key: Ed25519PrivateKey) -> bytes:
    """The frame with these fields, signed by `key`. Size and digest follow from the body unless one
    of them is what was attacked."""
    body = write_body(found.body)
    head = dict(found.head)
    if found.attacked not in DERIVED:
        head["size"] = len(body)
        head["digest"] = hashlib.sha256(body).digest()
    said = msgspec.msgpack.encode(list(head.values()))
    return framed(said, key, body)


def write_body(body: Tree) -> bytes:
    """The bytes of a content."""
    if isinstance(body, Arrays):
        return _write_arrays(body)
    if isinstance(body, Packed):
        return msgspec.msgpack.encode(plain(body.inside))
    return bytes(body)


def plain(tree: Tree) -> Any:
    """A tree as what msgspec encodes."""
    if isinstance(tree, Record):
        return tree.kind(**{name: plain(value) for name, value in tree.fields.items()})
    if isinstance(tree, Packed):
        return msgspec.msgpack.encode(plain(tree.inside))
    if isinstance(tree, list):
        return [plain(each) for each in tree]
    if isinstance(tree, dict):
        return {name: plain(each) for name, each in tree.items()}
    return tree


def _write_arrays(found: Arrays) -> bytes:
    arrays = {name: _as_array(tree) for name, tree in found.arrays.items()}
    body = tensors.write(arrays)
    if not found.said:
        return body
    start = 8 + int.from_bytes(body[:8], "little")
    header = json.loads(body[8:start])
    for name, entries in found.said.items():
        header[name].update(entries)
    said = json.dumps(header, separators=(",", ":")).encode()
    said += b" " * (-len(said) % tensors.ALIGNED)
    return len(said).to_bytes(8, "little") + said + body[start:]


def _as_array(tree: Tree) -> np.ndarray:
    if isinstance(tree, np.ndarray):
        return tree
    return np.frombuffer(write_body(tree), np.uint8)


# ---- single fields -------------------------------------------------------------------------------


def leaves(found: Opened) -> Iterator[tuple[Where, Any]]:
    """Every field of a frame and its value: numbers, texts, bytes, arrays; and every list, map and
    entry of a header of tensors as a whole."""
    for name, value in found.head.items():
        yield from _leaves(("head", name), value)
    yield from _leaves(("body",), found.body)


def _leaves(path: Where, tree: Tree) -> Iterator[tuple[Where, Any]]:
    if isinstance(tree, Record):
        for name, value in tree.fields.items():
            yield from _leaves((*path, name), value)
    elif isinstance(tree, Packed):
        yield from _leaves((*path, "packed"), tree.inside)
    elif isinstance(tree, Arrays):
        yield from _leaves_of_arrays(path, tree)
    else:
        yield path, tree
        entries = enumerate(tree) if isinstance(tree, list) else ()
        entries = tree.items() if isinstance(tree, dict) else entries
        for name, value in entries:
            yield from _leaves((*path, name), value)


def _leaves_of_arrays(path: Where, found: Arrays) -> Iterator[tuple[Where, Any]]:
    for name, tree in found.arrays.items():
        yield from _leaves((*path, "arrays", name), tree)
        array = _as_array(tree)
        yield (*path, "said", name, "dtype"), tensors.KINDS[tensors._kind(array.dtype)]
        yield (*path, "said", name, "shape"), list(array.shape)
        yield (*path, "said", name, "data_offsets"), [0, array.nbytes]


def with_value(found: Opened, path: Where, value: Any) -> Opened:
    """The same frame with another value in one field."""
    if path[0] == "head":
        return replace(found, head=_put(found.head, path[1:], value), attacked=path)
    return replace(found, body=_put(found.body, path[1:], value), attacked=path)


def _put(tree: Tree, path: Where, value: Any) -> Tree:
    if not path:
        return value
    if isinstance(tree, Packed):
        return Packed(_put(tree.inside, path[1:], value))
    if isinstance(tree, Record):
        return Record(tree.kind, _put(tree.fields, path, value))
    if isinstance(tree, Arrays):
        return _put_into_arrays(tree, path, value)
    copy = list(tree) if isinstance(tree, list) else dict(tree)
    copy[path[0]] = _put(copy[path[0]], path[1:], value)
    return copy


def _put_into_arrays(tree: Arrays, path: Where, value: Any) -> Arrays:
    if path[0] == "arrays":
        return replace(tree, arrays=_put(tree.arrays, path[1:], value))
    name, entry = str(path[1]), str(path[2])
    return replace(tree, said={**tree.said, name: {**tree.said.get(name, {}), entry: value}})


def field_of(found: Opened, path: Where) -> tuple[str, str]:
    """The declaration that a field comes from, and its name there: ("Head", "model"),
    ("Inbox", "sharers"), ("download", "y"), ("tensors", "shape")."""
    if path[0] == "head":
        return "Head", str(path[1])
    owner, name, tree = "body", "", found.body
    for step in path[1:]:
        if isinstance(tree, Packed):
            tree = tree.inside
        elif isinstance(tree, Record):
            owner, name, tree = tree.kind.__name__, str(step), tree.fields[str(step)]
        elif isinstance(tree, Arrays) and step == "arrays":
            tree = dict(tree.arrays)
            owner = "arrays"
        elif isinstance(tree, Arrays):
            return "tensors", str(path[-1])
        elif owner == "arrays" and isinstance(tree, dict):
            owner, name, tree = "array", str(step), tree[step]
        elif isinstance(tree, list | dict):
            tree = tree[step]
    return owner, name


def loaded() -> None:
    """Imports all modules that declare messages, so that `declared_structs` knows them."""
    import entrenous_network.node.node
    import entrenous_network.server.server  # noqa: F401

    assert "entrenous_network.secure_sum.messages" in sys.modules
