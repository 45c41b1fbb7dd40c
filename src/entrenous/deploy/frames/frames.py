"""Frames: what a server and its nodes say to each other, signed, measured before it is read, and
never anything that could be run.

    ENTR | version u8 | length of the head u32 | head, msgpack | signature, 64 bytes | body

The head names kind, run, round, sender and the sha256 and length of the body; the Ed25519 signature
is over the head, and so over all.
"""

from __future__ import annotations

import hashlib
import secrets
import struct
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, final

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from ..agreement.identity import is_name
from ..wire.tensors import Buffer
from .codes import Code, FrameRefused

MAGIC, VERSION, SIGNATURE = b"ENTR", 1, 64
START = struct.Struct("<4sBI")
HEAD = 4096  # bytes of a head, at most
BODY = 1 << 30  # bytes of a body, at most, unless the reader knows better
DOMAIN = (
    b"entrenous frame 1\n"  # before what is signed, so that a signature is good for nothing else
)
PACKED = (
    b"\x1f\x8b",
    b"PK\x03\x04",
    b"\x28\xb5\x2f\xfd",
    b"BZh",
    b"\xfd7zXZ",
)  # gzip, zip, zstandard, bzip2, xz


class Head(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The header of a frame. model: sha256 of the download of the round. items: of the catalogue.
    about: small numbers by name."""

    kind: str
    run: str
    node: bytes
    round: int = 0
    attempt: int = 0
    nonce: bytes = b""
    model: bytes = b""
    items: int = 0
    order: str = "<"
    about: dict[str, int] = {}
    size: int = 0
    digest: bytes = b""


class Frame(NamedTuple):
    """A received frame. head: its header; said: the header's bytes, which `signature` covers; body:
    not parsed yet.
    """

    head: Head
    said: bytes
    signature: bytes
    body: memoryview

    @property
    def node(self) -> str:
        """The name of the node that claims to have sent the frame."""
        return self.head.node.decode("ascii")


@final
class FrameParts:
    """A signed frame as parts that follow each other, of which many frames share the long ones;
    `bytes` joins them.
    """

    def __init__(self, parts: Sequence[Buffer]) -> None:
        self._parts, self._size = parts, sum(map(len, parts))

    def __len__(self) -> int:
        return self._size

    def __bytes__(self) -> bytes:
        return b"".join(self._parts)

    def pieces(self, size: int) -> Iterator[bytes]:
        """The frame as pieces of about `size` bytes, each copied when its turn comes."""
        piece = bytearray()
        for part in self._parts:
            for at in range(0, len(part), size):
                piece += part[at : at + size]
                if len(piece) >= size:
                    yield bytes(piece)
                    piece.clear()
        if piece:
            yield bytes(piece)


def seal(
    key: Ed25519PrivateKey, kind: str, body: bytes = b"", *, run: str, node: str, **fields: Any
) -> bytes:
    """Make a signed frame with a fresh nonce. fields: the other fields of the header."""
    return bytes(seal_parts(key, kind, [body], run=run, node=node, **fields))


def seal_parts(
    key: Ed25519PrivateKey, kind: str, body: Sequence[Buffer], *, run: str, node: str, **fields: Any
) -> FrameParts:
    """The same with a body in parts, which nobody may change afterwards."""
    digest = hashlib.sha256()
    for part in body:
        digest.update(part)
    said = msgspec.msgpack.encode(
        Head(
            kind=kind,
            run=run,
            node=node.encode(),
            nonce=secrets.token_bytes(16),
            size=sum(map(len, body)),
            digest=digest.digest(),
            **fields,
        )
    )
    return FrameParts(
        [START.pack(MAGIC, VERSION, len(said)) + said + key.sign(DOMAIN + said), *body]
    )


def opened(buffer: bytes, largest: int = BODY) -> Frame:
    """Parse a frame and check its lengths and digest, without copying or parsing the body. Raises
    FrameRefused.
    """
    view = memoryview(buffer)
    length = head_length(view[: START.size])
    if len(view) < START.size + length + SIGNATURE:
        raise FrameRefused(Code.TRUNCATED, f"{len(view)} bytes")
    said = bytes(view[START.size : START.size + length])
    head = _head(said)
    if head.size > largest:
        raise FrameRefused(Code.TOO_LONG, f"a body of {head.size} bytes, at most {largest}")
    body = view[START.size + length + SIGNATURE :]
    if len(body) != head.size:
        code = Code.TRUNCATED if len(body) < head.size else Code.WRONG_LENGTH
        raise FrameRefused(code, f"{len(body)} bytes of a body of {head.size}")
    if hashlib.sha256(body).digest() != head.digest:
        raise FrameRefused(Code.WRONG_DIGEST)
    return Frame(
        head, said, bytes(view[START.size + length : START.size + length + SIGNATURE]), body
    )


def headed(said: bytes, signature: bytes) -> Frame:
    """A frame of which only the head came, with its signature. Raises FrameRefused."""
    return Frame(_head(said), said, signature, memoryview(b""))


def claimed_node(buffer: bytes) -> str:
    """The name of the node that claims to have sent a frame, by its head alone. Raises
    FrameRefused.
    """
    start = memoryview(buffer)[: START.size]
    length = head_length(start)
    head = _head(bytes(memoryview(buffer)[START.size : START.size + length]))
    return head.node.decode("ascii")


def head_length(start: memoryview | bytes) -> int:
    """The length of a frame's header, from its first bytes. Raises FrameRefused for one too long,
    before it is read.
    """
    start = bytes(start)
    if start[:4] != MAGIC[: len(start)]:
        if start.startswith(PACKED):
            raise FrameRefused(Code.COMPRESSED, "frames are not compressed")
        raise FrameRefused(Code.NOT_A_FRAME)
    if len(start) < START.size:
        raise FrameRefused(Code.TRUNCATED, f"{len(start)} bytes")
    _, version, length = START.unpack(start)
    if version != VERSION:
        raise FrameRefused(Code.WRONG_VERSION, f"version {version}, expected {VERSION}")
    if length > HEAD:
        raise FrameRefused(Code.TOO_LONG, f"a head of {length} bytes, at most {HEAD}")
    return int(length)


def _head(said: bytes) -> Head:
    try:
        head = msgspec.msgpack.decode(said, type=Head)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as bad:
        raise FrameRefused(Code.BAD_HEAD, type(bad).__name__) from None
    if not is_name(head.node):
        raise FrameRefused(Code.BAD_NAME, "1 to 64 of a-z, 0-9, - and .")
    if head.order != "<":
        raise FrameRefused(Code.WRONG_BYTE_ORDER, "arrays are little-endian")
    if head.size < 0 or head.round < 0 or head.attempt < 0:
        raise FrameRefused(Code.BAD_HEAD, "a negative number")
    return head


def signed_by(frame: Frame, key: Ed25519PublicKey) -> bool:
    """Whether a frame carries a valid signature of the owner of `key`."""
    try:
        key.verify(frame.signature, DOMAIN + frame.said)
    except InvalidSignature:
        return False
    return True
