"""Tickets and revocations: the operator's word, for a while, that a number of a federation of peers
belongs to a key, and its end.

A ticket is the operator's signature of (federation, number, key, last second), and goes with every
record of a peer. Whom the operator shuts out is on a signed list whose serial number grows; peers
hand the newest on. Neither needs the operator to be there.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NamedTuple, Self, TypeAlias

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec import Meta, Struct

from ...core.errors import InputError
from .files import is_signed, read_json, write_json

REVOKED = "revoked.json"
TICKET, REVOCATION = (
    b"entrenous peer ticket 2\0",
    b"entrenous revoked keys 1\0",
)  # what is signed begins with what it is for
DAYS = 365  # that a ticket is good for, unless the operator says otherwise
# revoked keys on a list, which so fits into an answer between peers; a key leaves it when its
# ticket has ended
MOST = 64

Key: TypeAlias = Annotated[bytes, Meta(min_length=32, max_length=32)]
Signature: TypeAlias = Annotated[bytes, Meta(min_length=64, max_length=64)]
Seconds: TypeAlias = Annotated[int, Meta(ge=0, lt=1 << 40)]  # since 1970


class Ticket(NamedTuple):
    """The operator's word that a number belongs to a key. until: the second, since 1970, in which
    it ends.
    """

    number: int
    until: int
    signature: bytes

    @classmethod
    def sign(
        cls, operator: Ed25519PrivateKey, schema: bytes, number: int, key: bytes, until: int
    ) -> Self:
        """A ticket for a number and a public key, 32 bytes, in the federation `schema`."""
        return cls(number, until, operator.sign(_ticket(schema, number, key, until)))

    def is_for(self, key: bytes, operator: bytes, schema: bytes) -> bool:
        """Whether the operator, by its public key, has given this ticket to `key` in this
        federation.
        """
        return is_signed(operator, self.signature, _ticket(schema, self.number, key, self.until))


def _ticket(schema: bytes, number: int, key: bytes, until: int) -> bytes:
    return TICKET + schema + number.to_bytes(4, "little") + until.to_bytes(8, "little") + key


def ends(days: float) -> int:
    """The second, since 1970, in which a ticket ends that is given now for some days."""
    return int(time.time() + 86_400 * days)


class RevocationList(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The keys that are members' no more, signed by the operator. serial: grows with every key that
    was ever shut out.
    """

    serial: Annotated[int, Meta(ge=0, lt=1 << 31)]
    keys: Annotated[tuple[Key, ...], Meta(max_length=MOST)]
    signature: Signature

    @classmethod
    def sign(
        cls, operator: Ed25519PrivateKey, schema: bytes, serial: int, keys: Sequence[bytes]
    ) -> Self:
        """The list number `serial` of the federation `schema`."""
        return cls(serial, tuple(keys), operator.sign(_revoked(schema, serial, keys)))

    def is_of(self, operator: bytes, schema: bytes) -> bool:
        """Whether the operator, by its public key, has signed this list for this federation."""
        return is_signed(operator, self.signature, _revoked(schema, self.serial, self.keys))

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """Read the list in a folder; None if there is none. Raises InputError for a file that is
        none.
        """
        path = folder / REVOKED
        if not path.exists():
            return None
        try:
            found = read_json(path)
            keys = [bytes.fromhex(key) for key in found["keys"]]
            return msgspec.convert((found["serial"], keys, bytes.fromhex(found["signature"])), cls)
        except (KeyError, TypeError, ValueError) as bad:
            expected = "the revoked.json that the operator sent"
            raise InputError(
                str(path), f"no list of revoked keys ({type(bad).__name__})", expected=expected
            ) from None

    def write(self, folder: Path) -> None:
        """Write the list into a folder."""
        keys = [key.hex() for key in self.keys]
        write_json(
            folder / REVOKED,
            {"serial": self.serial, "keys": keys, "signature": self.signature.hex()},
        )


def _revoked(schema: bytes, serial: int, keys: Sequence[bytes]) -> bytes:
    return REVOCATION + schema + serial.to_bytes(8, "little") + b"".join(keys)
