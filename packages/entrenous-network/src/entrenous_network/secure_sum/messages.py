"""The messages: msgpack arrays read strictly, so that anything that is not exactly a message is
refused before its contents are read.

From a client come `Signed` messages, of which the server keeps a journal; from the server
`Roster`, `Inbox`, the set of survivors, `Consents`. Parties are referred to by their place in the
roster; sets of them are bits, least significant first.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from ..wire.completed import completed
from .merkle import Hash, LogEntry
from .refusal import SumRefused, require

DOMAIN = "entrenous secure sum 8"
MAX_PARTIES = 1024  # of one sum, of whom everybody has to do with everybody
SHARE = 33  # bytes of a share: a number below 2^256 + 297
BOX = 12 + 2 * SHARE + 16  # nonce, a share of each secret, tag
COMMITTED = 64  # bytes: the hashes of a share of each secret
SLACK = 256  # bytes around the parts of a message, at most
ADVERT, SHARES, MASKED, CONSENT, UNMASKING = range(5)
STAGES = ("advert", "share", "mask", "consent", "unmask")  # as frames name their kinds

Signature = Annotated[bytes, Meta(min_length=64, max_length=64)]
Box = Annotated[bytes, Meta(min_length=BOX, max_length=BOX)]
Bits = Annotated[bytes, Meta(min_length=1, max_length=MAX_PARTIES // 8)]


class Strict(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A message format that takes no unknown, missing or mistyped field."""


@completed
class Signed(Strict, frozen=True, tag="signed"):
    """A message of one client at one stage, in the parts of its frame. The server's journal has it
    so.
    """

    stage: int
    sender: str
    head: bytes
    """As `SumTerms.head` returns it. The signature covers it, and so all."""
    signature: bytes
    body: bytes


@completed
class Close(Strict, frozen=True, tag="close"):
    """A record of the server's journal: a stage is closed, and no message is taken for it any
    more.
    """

    stage: int


@completed
class Advert(Strict, frozen=True):
    """A client's public keys and commitments for one attempt."""

    model: Hash
    """The hash of its model."""
    boxes: Hash
    """The x25519 public key of the boxes that it receives."""
    masks: Hash
    """The x25519 public key of the masks that it shares."""
    seed: Hash
    """The sha256 of the seed of its own mask."""


@completed
class Shares(Strict, frozen=True):
    """A client's shares of its secrets, and a hash by which each share can be known again."""

    boxes: Annotated[list[Box], Meta(max_length=MAX_PARTIES)]
    """For each other party, in the order of the roster: its shares, encrypted for it."""
    commitments: Annotated[bytes, Meta(max_length=COMMITTED * MAX_PARTIES)]
    """For each party, this client included: the hashes of its shares, 64 bytes."""


@completed
class SignedAdvert(Strict, frozen=True):
    """An advert in a roster. Who reads it builds the head that the signature covers."""

    entry: LogEntry
    """The sender, with the proof that the log of members has it."""
    signature: Signature
    body: Annotated[bytes, Meta(max_length=SLACK)]


@completed
class Inbox(Strict, frozen=True):
    """Server to one client: which clients sent shares, and their boxes for it."""

    sharers: Bits
    boxes: Annotated[list[Box], Meta(max_length=MAX_PARTIES)]
    """Of each other party that shared: the encrypted shares."""


@completed
class Consents(Strict, frozen=True):
    """Server to all survivors: which clients signed the list of survivors, and their signatures, 64
    bytes each.
    """

    signers: Bits
    signatures: Annotated[bytes, Meta(max_length=64 * MAX_PARTIES)]


Roster = Annotated[list[SignedAdvert], Meta(max_length=MAX_PARTIES)]
"""Server to all clients: every signed advert, ordered by name."""
T = TypeVar("T")


def encode(message: object) -> bytes:
    """A message as msgpack bytes."""
    return msgspec.msgpack.encode(message)


def decode(data: bytes, kind: type[T], limit: int) -> T:
    """Decodes a message of the type `kind`. Raises SumRefused `size` above `limit` bytes, and
    `malformed` for anything else.
    """
    require(len(data) <= limit, "size", f"{len(data)} bytes; at most {limit}")
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except (ValueError, RecursionError) as error:
        raise SumRefused(
            "malformed", f"no {getattr(kind, '__name__', 'message')}: {error}"
        ) from None


def largest_message(nbytes: int) -> int:
    """The most bytes of a client's message at any stage; `nbytes`: of a masked vector."""
    # Shares are longer than the messages of the other stages.
    shares = MAX_PARTIES * (BOX + 2 + COMMITTED) + SLACK
    return max(shares, nbytes)


def to_bits(places: Iterable[int], parties: int) -> bytes:
    """A set of places as bits. [(parties + 7) / 8] bytes."""
    return sum(1 << place for place in places).to_bytes((parties + 7) // 8, "little")


def from_bits(data: bytes, parties: int) -> list[int] | None:
    """The places in a set of bits, ascending; None for bytes that are no set over so many
    parties.
    """
    number = int.from_bytes(data, "little")
    if len(data) != (parties + 7) // 8 or number >> parties:
        return None
    return [place for place in range(parties) if number >> place & 1]


def seen(view: bytes, *parts: bytes) -> bytes:
    """The hash chain of all that a client has seen, continued by `parts`."""
    return hashlib.sha256(encode((view, parts))).digest()


def roster_view(terms: bytes, adverts: Sequence[SignedAdvert]) -> bytes:
    """The hash of all that a client has seen after the roster. It binds all later messages to run,
    round, attempt, model, names and keys.
    """
    parts: list[bytes] = []
    for advert in adverts:
        parts += [advert.entry.leaf.name.encode(), advert.body]
    return seen(terms, *parts)
