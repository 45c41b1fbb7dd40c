"""Tickets and revocations: the operator's word, for a while, that a number of a federation of peers
belongs to a key, and its end.

A ticket is the operator's signature of (federation, number, key, last second), and goes with every
record of a peer. The keys that the operator shuts out are on a signed list whose serial number
grows; peers hand the newest list on. Neither needs the operator to be there.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NamedTuple, Self, TypeAlias

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec import Meta, Struct

from entrenous.core.errors import InputError

from ..secure_sum.primitives import verified
from ..wire.completed import completed
from .files import read_json, write_json

REVOKED = "revoked.json"
# A signed text begins with its purpose, so that a signature is good for nothing else.
TICKET = b"entrenous peer ticket 2\0"
REVOCATION = b"entrenous revoked keys 1\0"
DAYS = 365  # for which a ticket is good, unless the operator says otherwise
# Revoked keys on a list, which so fits into an answer between peers; a key leaves the list when its
# ticket has ended.
MOST = 64

Key: TypeAlias = Annotated[bytes, Meta(min_length=32, max_length=32)]
Signature: TypeAlias = Annotated[bytes, Meta(min_length=64, max_length=64)]
Seconds: TypeAlias = Annotated[int, Meta(ge=0, lt=1 << 40)]  # since 1970


class Ticket(NamedTuple):
    """The operator's word that a number belongs to a key."""

    number: int
    until: int
    """The second since 1970 in which the ticket ends."""
    signature: bytes

    @classmethod
    def sign(
        cls, operator: Ed25519PrivateKey, schema: bytes, number: int, key: bytes, until: int
    ) -> Self:
        """Returns a ticket for a number and a public key, 32 bytes, in the federation `schema`."""
        signature = operator.sign(_ticket(schema, number, key, until))
        return cls(number, until, signature)

    def is_for(self, key: bytes, operator: bytes, schema: bytes) -> bool:
        """Returns whether the operator, by its public key, has given this ticket to `key` in this
        federation.
        """
        text = _ticket(schema, self.number, key, self.until)
        return verified(operator, self.signature, text)


def _ticket(schema: bytes, number: int, key: bytes, until: int) -> bytes:
    """Returns the text that the operator signs for a ticket."""
    # Every part has a fixed length, so no two tickets have the same text.
    numbers = number.to_bytes(4, "little") + until.to_bytes(8, "little")
    return TICKET + schema + numbers + key


def ends(days: float) -> int:
    """Returns the time at which a ticket of so many days ends if it is given now, in seconds since
    1970."""
    return int(time.time() + 86_400 * days)


@completed
class RevocationList(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The keys that are members' no more, signed by the operator."""

    serial: Annotated[int, Meta(ge=0, lt=1 << 31)]
    """Grows with every key that is shut out."""
    keys: Annotated[tuple[Key, ...], Meta(max_length=MOST)]
    signature: Signature

    @classmethod
    def sign(
        cls, operator: Ed25519PrivateKey, schema: bytes, serial: int, keys: Sequence[bytes]
    ) -> Self:
        """Returns the list number `serial` of the federation `schema`."""
        signature = operator.sign(_revoked(schema, serial, keys))
        return cls(serial, tuple(keys), signature)

    def is_of(self, operator: bytes, schema: bytes) -> bool:
        """Returns whether the operator, by its public key, has signed this list for this
        federation."""
        text = _revoked(schema, self.serial, self.keys)
        return verified(operator, self.signature, text)

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """Reads the list in a folder; None if there is none. Raises InputError for a file that is
        no such list.
        """
        path = folder / REVOKED
        if not path.exists():
            return None
        try:
            fields = read_json(path)
            keys = [bytes.fromhex(key) for key in fields["keys"]]
            signature = bytes.fromhex(fields["signature"])
            return msgspec.convert((fields["serial"], keys, signature), cls)
        except (KeyError, TypeError, ValueError) as bad:
            problem = f"no list of revoked keys ({type(bad).__name__})"
            expected = "the revoked.json that the operator sent"
            raise InputError(str(path), problem, expected=expected) from None

    def write(self, folder: Path) -> None:
        """Writes the list into a folder."""
        fields = {
            "serial": self.serial,
            "keys": [key.hex() for key in self.keys],
            "signature": self.signature.hex(),
        }
        write_json(folder / REVOKED, fields)


def _revoked(schema: bytes, serial: int, keys: Sequence[bytes]) -> bytes:
    """Returns the text that the operator signs for a list of revoked keys."""
    number = serial.to_bytes(8, "little")
    return REVOCATION + schema + number + b"".join(keys)
