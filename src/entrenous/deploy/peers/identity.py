"""Who somebody is. A key is made by the peer itself; a ticket is the operator's word that a number belongs to a key; a record is the key's
word where it is. Anyone can check both, and nobody is asked.

The operator hands out invitations and is not needed afterwards. Without tickets anyone could take any number, and one machine many.
Keys are random and of one federation only: one that is kept for long, or made from a user's name, is itself personal data.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple, final

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from .frames import AddressRecord, ProtocolError

KEY_BYTES = 32
TICKET, RECORD = b"entrenous peer ticket 1\0", b"entrenous peer record 1\0"  # what is signed begins with what it is for
SKEW = 300  # seconds that a record may be from the future: clocks differ


def new_key() -> bytes:
    """A new secret key: 32 random bytes."""
    return os.urandom(KEY_BYTES)


def public_key(secret: bytes) -> bytes:
    """The public key of a secret key, 32 bytes."""
    return Ed25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()


def ticket(operator: bytes, schema: bytes, number: int, peer: bytes) -> bytes:
    """The operator's signature, by its secret key, that a number of the federation `schema` belongs to the public key `peer`."""
    return Ed25519PrivateKey.from_private_bytes(operator).sign(_ticket(schema, number, peer))


def _ticket(schema: bytes, number: int, peer: bytes) -> bytes:
    return TICKET + schema + number.to_bytes(4, "little") + peer


def _record(schema: bytes, one: AddressRecord) -> bytes:
    return RECORD + schema + msgspec.msgpack.encode((one.id, one.number, one.addresses, one.issued))


class Self(NamedTuple):
    """The identity of this peer. secret: its secret key; ticket: the operator's signature for its number."""

    secret: bytes
    schema: bytes
    number: int
    ticket: bytes

    def record(self, addresses: Sequence[str], wall: float) -> AddressRecord:
        """A record of this peer, signed with its key, that says it can be reached at `addresses`; issued at wall-clock time
        `wall`."""
        bare = AddressRecord(public_key(self.secret), self.number, tuple(addresses)[:4], int(wall), self.ticket, b"\0" * 64)
        signature = Ed25519PrivateKey.from_private_bytes(self.secret).sign(_record(self.schema, bare))
        return msgspec.structs.replace(bare, signature=signature)


@final
class Verifier:
    """Checks the records of peers of one federation. life: seconds for which a record is valid."""

    def __init__(self, schema: bytes, operator: bytes, users: int, life: float) -> None:
        self.schema, self.users, self.life = schema, users, life
        self._operator = Ed25519PublicKey.from_public_bytes(operator)

    def check(self, one: AddressRecord, wall: float, *, ticket: bool = True) -> None:
        """Raise ProtocolError for a forged record, or one too old (`stale`, which a correct peer may pass on). ticket: False
        where the operator's signature has been checked before."""
        if one.number >= self.users or one.issued > wall + SKEW:
            raise ProtocolError("record")
        if not self.is_fresh(one, wall):
            raise ProtocolError("stale")
        try:
            if ticket:
                self._operator.verify(one.ticket, _ticket(self.schema, one.number, one.id))
            Ed25519PublicKey.from_public_bytes(one.id).verify(one.signature, _record(self.schema, one))
        except (InvalidSignature, ValueError):
            raise ProtocolError("record") from None

    def is_fresh(self, one: AddressRecord, wall: float) -> bool:
        """Whether a record has not expired at wall-clock time `wall`."""
        return wall < one.issued + self.life
