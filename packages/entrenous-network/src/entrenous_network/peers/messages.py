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
from ..wire.completed import completed
from .port import Stream

LONGEST = 4096  # bytes of a frame
CARRIED = 8  # records in one frame, at most
# msgspec checks these limits while it decodes: whatever has a type here is within them.
Number: TypeAlias = Annotated[int, Meta(ge=0, lt=1 << 31)]
Count: TypeAlias = Annotated[int, Meta(ge=0, lt=1 << 40)]
Address: TypeAlias = Annotated[str, Meta(min_length=1, max_length=56)]
Named: TypeAlias = Annotated[int, Meta(ge=-1, lt=1 << 31)]  # a number, or -1 = no peer
ANSWERS = ("go", "busy", "schema", "seen", "ok", "rejected", "records")


class ProtocolError(Exception):
    """Raised for a message that no correct peer sends.

    code: the word under which it is counted. answered: True if its sender has been told already."""

    def __init__(self, code: str, *, answered: bool = False) -> None:
        self.code = code
        self.answered = answered
        super().__init__(code)


@completed
class AddressRecord(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A signed statement of a peer's addresses."""

    id: Key
    """The peer's public key."""
    number: Number
    """The number of the peer in the federation."""
    addresses: Annotated[tuple[Address, ...], Meta(max_length=4)]
    """HOST:PORT at which the peer can be reached."""
    issued: Seconds
    """Seconds since 1970, from which the record is valid for a while."""
    until: Seconds
    """Seconds since 1970, up to which the ticket is valid."""
    ticket: Signature
    """The operator's word that the number belongs to the key."""
    signature: Signature
    """The signature of the record by the peer's own key."""


Records: TypeAlias = Annotated[tuple[AddressRecord, ...], Meta(max_length=CARRIED)]


@completed
class Shuffle(Struct, frozen=True, tag="shuffle", forbid_unknown_fields=True):
    """A request to exchange records."""

    schema: Annotated[bytes, Meta(min_length=16, max_length=16)]
    """The identity of the federation."""
    records: Records
    """Some of the sender's records, its own first."""
    wanted: Annotated[tuple[Number, ...], Meta(max_length=CARRIED)] = ()
    """Numbers that the sender has heard of and has no record of."""
    serial: Number = 0
    """The number of the newest list of revoked keys that the sender has."""


@completed
class Offer(Struct, frozen=True, tag="offer", forbid_unknown_fields=True):
    """The offer of a model, with the header that goes with it (`core.gossip.Headers`)."""

    schema: Annotated[bytes, Meta(min_length=16, max_length=16)]
    """The identity of the federation."""
    record: AddressRecord
    """The sender's own record."""
    push: Count
    """The number of the push at its sender."""
    size: Annotated[int, Meta(ge=0, lt=1 << 62)]
    """Bytes of the body."""
    digest: Key
    """The SHA-256 of the body."""
    age: Annotated[int, Meta(ge=0, lt=1 << 31)]
    """The number of updates of the model."""
    samples: Annotated[int, Meta(ge=0, lt=1 << 31)]
    """The number of rows that the sender trains on."""
    peers: Annotated[tuple[Named, ...], Meta(max_length=100)]
    """Numbers of peers that the sender names to the algorithm; -1 = no peer."""


@completed
class Reply(Struct, frozen=True, tag="reply", forbid_unknown_fields=True):
    """The answer to a request."""

    answer: Annotated[str, Meta(pattern=f"^({'|'.join(ANSWERS)})$")]
    """go: send the body. busy: not now. schema: another federation. seen: accepted before. ok:
    accepted. rejected: refused after it was read. records: the answer to an exchange of records."""
    records: Records = ()
    """Records of an exchange; few if the reply brings a list of revoked keys too."""
    revoked: RevocationList | None = None
    """A newer list of revoked keys than the asking peer has."""


Message: TypeAlias = Shuffle | Offer | Reply


def frame(message: Message) -> bytes:
    """Encodes a message with its length in front, as it is sent."""
    encoded = msgspec.msgpack.encode(message)
    # The limits of all fields together keep to it.
    assert len(encoded) <= LONGEST
    return len(encoded).to_bytes(4, "little") + encoded


def message_of(encoded: bytes | bytearray) -> Message:
    """Decodes the message of a frame without its length. Raises ProtocolError for anything else."""
    try:
        message: Any = msgspec.msgpack.decode(encoded, type=Message)
    except (ValueError, RecursionError):  # also of text that is not UTF-8
        raise ProtocolError("frame") from None
    return message  # type: ignore[no-any-return]


async def read_message(stream: Stream) -> Message:
    """Reads the next message of a stream. Raises ProtocolError before it reads anything too
    long."""
    length = int.from_bytes(await stream.read(4), "little")
    if not 1 <= length <= LONGEST:
        raise ProtocolError("length")
    return message_of(await stream.read(length))
