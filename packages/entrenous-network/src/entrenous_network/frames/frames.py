"""Frames: what a server and its nodes say to each other, signed, measured before it is read, and
never anything that could be run.

    ENTR | version u8 | length of the head u32 | head, msgpack | signature, 64 bytes | body

The head names kind, run, round, sender and the sha256 and length of the body; the Ed25519 signature
is over the head, and so over all.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple, final

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from entrenous.core.errors import EntrenousError

from ..agreement.files import NODE_NAME
from ..wire.statement import DOMAIN, Head
from ..wire.tensors import Buffer

MAGIC = b"ENTR"
VERSION = 1
SIGNATURE = 64
START = struct.Struct("<4sBI")
HEAD = 4096  # bytes of a head, at most
BODY = 1 << 30  # bytes of a body, at most, unless the reader knows better
# Kinds of longer lists and newer addresses, and of the words that they were taken.
MEMBERS_NEWS = "members"
ITEMS_NEWS = "items"
ADDRESS_NEWS = "addresses"
# The number in a request of a server that has moved: that of its newest notice of addresses.
MOVED = "moved"
# The number in a request: of all who are or were members.
MEMBERS = "members"
# The number in a refusal of a node that lacks a list: of items or members that it knows, 0 = it
# needs the whole list. Of addresses, the number of the notice that it knows.
KNOWN = "known"


# ---- why a frame is refused ----------------------------------------------------------------------


class Code(StrEnum):
    """The result of receiving a message. All but `accepted` leave the model unchanged.

    By these, log lines and counters say what happened without a byte of what was sent.
    """

    ACCEPTED = "accepted"
    # the frame
    NOT_A_FRAME = "not-a-frame"
    TRUNCATED = "truncated"
    TOO_LONG = "too-long"
    WRONG_LENGTH = "wrong-length"
    BAD_HEAD = "bad-head"
    BAD_NAME = "bad-name"
    WRONG_VERSION = "wrong-version"
    WRONG_DIGEST = "wrong-digest"
    # who sent it, and for what
    UNKNOWN_NODE = "unknown-node"
    BAD_SIGNATURE = "bad-signature"
    WRONG_KIND = "wrong-kind"
    WRONG_RUN = "wrong-run"
    PAST_ROUND = "past-round"
    FUTURE_ROUND = "future-round"
    WRONG_MODEL = "wrong-model"
    NOT_ASKED = "not-asked"
    TOO_FEW_USERS = "too-few-users"
    DUPLICATE = "duplicate"
    CONFLICT = "conflict"
    LATE = "late"
    # the arrays
    MALFORMED = "malformed"
    WRONG_TYPE = "wrong-type"
    WRONG_SHAPE = "wrong-shape"
    WRONG_ITEMS = "wrong-items"
    WRONG_ARRAYS = "wrong-arrays"
    TOO_MANY_ROWS = "too-many-rows"
    NEGATIVE_ITEM = "negative-item"
    UNKNOWN_ITEM = "unknown-item"
    DUPLICATE_ITEM = "duplicate-item"
    WRONG_COUNT = "wrong-count"
    WRONG_WEIGHT = "wrong-weight"
    WRONG_SENDER = "wrong-sender"
    WRONG_GROUP = "wrong-group"
    WRONG_PLACE = "wrong-place"
    NOT_FINITE = "not-finite"
    TOO_LARGE = "too-large"
    NOT_SUMMED = "not-summed"  # a message that the secure sum does not take
    # a node's own reasons
    WITHHELD = "withheld"
    FEWER_MEMBERS = "fewer-members"  # it knows fewer than the server names
    OLD_ADDRESSES = "old-addresses"  # it knows none of the server's newest notice
    NOT_DRAWN = "not-drawn"  # by its own lot, or since it has no answers left
    FAILED = "failed"


def reason(refusal: bytes) -> str:
    """Returns the part of a node's refusal that may be logged: its code, if known, and the first
    word of its explanation.
    """
    code, _, rest = refusal[:120].decode("ascii", "replace").partition("\n")
    # Nodes write this: whatever is no code of ours would go into the operator's log.
    if code not in {known.value for known in Code}:
        return ""
    word = re.match(r"([a-z][a-z -]{0,30}):", rest)
    if word is None:
        return code
    return f"{code}, {word[1]}"


@final
class FrameRefused(EntrenousError):
    """Raised for a frame that is not accepted, with a code and a text that has none of its
    content. about: small numbers that say more, which go into the head of the refusal.
    """

    def __init__(self, code: Code, text: str = "", about: Mapping[str, int] | None = None) -> None:
        self.code = code
        self.text = text
        self.about = about or {}
        super().__init__(f"{code.value}: {text}" if text else code.value)


# ---- frames --------------------------------------------------------------------------------------


class Frame(NamedTuple):
    """A frame as it was received: its head, body and signature."""

    head: Head
    said: bytes
    """The bytes of the header, which `signature` covers."""
    signature: bytes
    body: memoryview
    """The body, not parsed yet."""

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
        self._parts = parts
        self._size = sum(len(part) for part in parts)

    def __len__(self) -> int:
        return self._size

    def __bytes__(self) -> bytes:
        return b"".join(self._parts)

    def pieces(self, size: int) -> Iterator[bytes]:
        """Yields the frame as pieces of about `size` bytes, each copied when its turn comes."""
        # A long part is cut, and short ones are joined.
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
    """Returns a signed frame. fields: the other fields of the header."""
    return bytes(seal_parts(key, kind, [body], run=run, node=node, **fields))


def seal_parts(
    key: Ed25519PrivateKey, kind: str, body: Sequence[Buffer], *, run: str, node: str, **fields: Any
) -> FrameParts:
    """Returns the same frame with a body in parts, which nobody may change afterwards."""
    digest = hashlib.sha256()
    for part in body:
        digest.update(part)
    head = Head(
        kind=kind,
        run=run,
        node=node.encode(),
        size=sum(len(part) for part in body),
        digest=digest.digest(),
        **fields,
    )
    said = msgspec.msgpack.encode(head)
    return framed(said, key.sign(DOMAIN + said), body)


def framed(said: bytes, signature: bytes, body: Sequence[Buffer]) -> FrameParts:
    """Returns the frame of a head that was signed, and its body in parts."""
    start = START.pack(MAGIC, VERSION, len(said))
    return FrameParts([start + said + signature, *body])


def opened(buffer: bytes, largest: int = BODY) -> Frame:
    """Parses a frame and checks its lengths and digest, without copying or parsing the body. Raises
    FrameRefused.
    """
    view = memoryview(buffer)
    length = head_length(view[: START.size])
    signature = START.size + length  # where the signature begins
    start = signature + SIGNATURE  # where the body begins
    if len(view) < start:
        raise FrameRefused(Code.TRUNCATED, f"{len(view)} bytes")
    said = bytes(view[START.size : signature])
    head = _head(said)
    if head.size > largest:
        raise FrameRefused(Code.TOO_LONG, f"a body of {head.size} bytes, at most {largest}")
    body = view[start:]
    # A body that goes on behind the one that was announced would be hashed for nothing.
    if len(body) != head.size:
        code = Code.WRONG_LENGTH
        if len(body) < head.size:
            code = Code.TRUNCATED
        raise FrameRefused(code, f"{len(body)} bytes of a body of {head.size}")
    # The signature covers the head alone: without this digest any body would do.
    if hashlib.sha256(body).digest() != head.digest:
        raise FrameRefused(Code.WRONG_DIGEST)
    return Frame(head, said, bytes(view[signature:start]), body)


def claimed_node(buffer: bytes) -> str:
    """Returns the name of the node that claims to have sent a frame, by its head alone. Raises
    FrameRefused.
    """
    view = memoryview(buffer)
    length = head_length(view[: START.size])
    head = _head(bytes(view[START.size : START.size + length]))
    return head.node.decode("ascii")


def head_length(start: memoryview | bytes) -> int:
    """Returns the length of a frame's header, from its first bytes. Raises FrameRefused for a
    header that is too long, before it is read.
    """
    start = bytes(start)
    # Of a frame that is cut off, as much as is there must be right.
    if start[: len(MAGIC)] != MAGIC[: len(start)]:
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
    except (ValueError, RecursionError) as bad:
        raise FrameRefused(Code.BAD_HEAD, type(bad).__name__) from None
    # Names become names of files, and are said in logs.
    if not NODE_NAME.fullmatch(head.node):
        raise FrameRefused(Code.BAD_NAME, "1 to 64 of a-z, 0-9, - and .")
    if head.size < 0 or head.round < 0 or head.attempt < 0:
        raise FrameRefused(Code.BAD_HEAD, "a negative number")
    return head


def signed_by(frame: Frame, key: str) -> bool:
    """Returns whether a frame carries a valid signature by a public key, in hexadecimal."""
    public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(key))
    try:
        public.verify(frame.signature, DOMAIN + frame.said)
    except InvalidSignature:
        return False
    return True
