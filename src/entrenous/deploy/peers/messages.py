"""Control frames between peers: `u32 length (at most 4,096) | msgpack`. A frame is one of four
messages, or it is an error.

One request on each stream: Shuffle -> Reply; or Offer -> Reply, and if that says `go`, the body of
exactly `size` bytes -> Reply.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta, Struct

from ..agreement.tickets import Key, RevocationList, Seconds, Signature
from .port import Stream

LONGEST = 4096  # bytes of a frame
CARRIED = 8  # records in one frame, at most
Number: TypeAlias = Annotated[int, Meta(ge=0, lt=1 << 31)]
Count: TypeAlias = Annotated[int, Meta(ge=0, lt=1 << 40)]
Address: TypeAlias = Annotated[str, Meta(min_length=1, max_length=56)]
Named: TypeAlias = Annotated[int, Meta(ge=-1, lt=1 << 31)]
ANSWERS = ("go", "busy", "schema", "seen", "ok", "rejected", "records")


class ProtocolError(Exception):
    """Raised for a message that no correct peer sends. code: a word that is counted; answered:
    whether its sender has been told already."""

    def __init__(self, code: str, *, answered: bool = False) -> None:
        self.code, self.answered = code, answered
        super().__init__(code)


class AddressRecord(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A signed statement of a peer's addresses. issued: unix seconds, from which it is valid for a
    while; until, ticket: the operator's word, up to that second, that the number belongs to the
    key; signature: by the peer's own key.
    """

    id: Key
    number: Number
    addresses: Annotated[tuple[Address, ...], Meta(max_length=4)]
    issued: Seconds
    until: Seconds
    ticket: Signature
    signature: Signature


Records: TypeAlias = Annotated[tuple[AddressRecord, ...], Meta(max_length=CARRIED)]


class Shuffle(Struct, frozen=True, tag="shuffle", forbid_unknown_fields=True):
    """A request to exchange records: some of the sender's, its own first. wanted: numbers that the
    sender has heard of and has no record of; serial: of the newest list of revoked keys that it
    has.
    """

    schema: Annotated[bytes, Meta(min_length=16, max_length=16)]
    records: Records
    wanted: Annotated[tuple[Number, ...], Meta(max_length=CARRIED)] = ()
    serial: Number = 0


class Offer(Struct, frozen=True, tag="offer", forbid_unknown_fields=True):
    """The offer of a model, with the header that goes with it (`core.gossip.Headers`). push: its
    number at its sender.
    """

    schema: Annotated[bytes, Meta(min_length=16, max_length=16)]
    record: AddressRecord
    push: Count
    size: Annotated[int, Meta(ge=0, lt=1 << 62)]
    digest: Key
    age: Annotated[int, Meta(ge=0, lt=1 << 31)]
    samples: Annotated[int, Meta(ge=0, lt=1 << 31)]
    peers: Annotated[tuple[Named, ...], Meta(max_length=100)]


class Reply(Struct, frozen=True, tag="reply", forbid_unknown_fields=True):
    """The answer to a request. go: send the body; busy: not now; schema: another federation; seen:
    had that; ok: taken; rejected: not taken; records: answer to an exchange of records, few of them
    beside a newer list of revoked keys.
    """

    answer: Annotated[str, Meta(pattern=f"^({'|'.join(ANSWERS)})$")]
    records: Records = ()
    revoked: RevocationList | None = None


Message: TypeAlias = Shuffle | Offer | Reply


def frame(message: Message) -> bytes:
    """Encode a message with its length in front, as it is sent."""
    said = msgspec.msgpack.encode(message)
    assert len(said) <= LONGEST
    return len(said).to_bytes(4, "little") + said


def message_of(said: bytes | bytearray) -> Message:
    """Decode the message of a frame without its length. Raises ProtocolError for anything else."""
    try:
        found: Any = msgspec.msgpack.decode(said, type=Message)
    except (msgspec.DecodeError, ValueError, RecursionError):  # also of text that is not UTF-8
        raise ProtocolError("frame") from None
    return found  # type: ignore[no-any-return]


async def read_message(stream: Stream) -> Message:
    """Read the next message of a stream. Raises ProtocolError before it reads anything too long."""
    length = int.from_bytes(await stream.read(4), "little")
    if not 1 <= length <= LONGEST:
        raise ProtocolError("length")
    return message_of(await stream.read(length))
