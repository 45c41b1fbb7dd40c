"""Records: a peer's own word where it is, with the operator's ticket that its number belongs to its
key. Anyone can check both without asking anybody.

The operator hands out tickets and is not needed afterwards. Without tickets anyone could take any
number, and one machine many numbers. Keys are random and of one federation only: a key that is kept
for long, or made from a user's name, is itself personal data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, final

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ..agreement.files import public_bytes
from ..agreement.terms import FederationTerms
from ..agreement.tickets import RevocationList, Ticket
from ..secure_sum.primitives import verified
from .messages import AddressRecord, ProtocolError

RECORD = b"entrenous peer record 2\0"  # what is signed begins with what it is for
SKEW = 300  # seconds that a record may be from the future: clocks differ
# Codes of records that a correct peer may pass on, since it cannot know better.
GENTLE = ("stale", "revoked")


def _record(schema: bytes, record: AddressRecord) -> bytes:
    """Returns the text that a peer signs in its record."""
    fields = (record.id, record.number, record.addresses, record.issued)
    return RECORD + schema + msgspec.msgpack.encode(fields)


class PeerIdentity(NamedTuple):
    """The identity of this peer in a federation: its private key, and the operator's ticket for its
    number.
    """

    key: Ed25519PrivateKey
    schema: bytes
    ticket: Ticket

    @property
    def number(self) -> int:
        """The number by which algorithms call this peer."""
        return self.ticket.number

    def record(self, addresses: Sequence[str], wall: float) -> AddressRecord:
        """Returns a record of this peer, signed with its key, that says it can be reached at
        `addresses`; issued at wall-clock time `wall`."""
        number, until, ticket = self.ticket
        key = public_bytes(self.key)
        reached = tuple(addresses)[:4]
        bare = AddressRecord(key, number, reached, int(wall), until, ticket, b"\0" * 64)
        return msgspec.structs.replace(bare, signature=self.key.sign(_record(self.schema, bare)))


@final
class Verifier:
    """Checks the records of peers of one federation.

    life: seconds for which a record is valid. revoked: the newest known list of revoked keys. keep:
    is called with a newer list, to write it down.
    """

    def __init__(
        self,
        terms: FederationTerms,
        life: float,
        revoked: RevocationList | None = None,
        keep: Callable[[RevocationList], None] = lambda newer: None,
    ) -> None:
        self.schema = terms.run_bytes
        self.users = terms.users
        self.life = life
        self.revoked = revoked
        self._keep = keep
        self._operator = bytes.fromhex(terms.operator)

    def check(self, record: AddressRecord, wall: float, *, ticket: bool = True) -> None:
        """Raises ProtocolError for a forged record, and for one that is too old or of a revoked key
        (`stale`, `revoked`, which a correct peer may pass on). ticket: False where the operator's
        signature has been checked before.
        """
        # A record from far in the future would be the newest for ever.
        if record.number >= self.users or record.issued > wall + SKEW:
            raise ProtocolError("record")
        if not self.is_fresh(record, wall):
            raise ProtocolError("stale")
        if self.is_revoked(record.id):
            raise ProtocolError("revoked")
        # Without the ticket one machine could be many peers; without the signature anybody could
        # send others to any address in a peer's name.
        given = Ticket(record.number, record.until, record.ticket)
        if ticket and not given.is_for(record.id, self._operator, self.schema):
            raise ProtocolError("record")
        if not verified(record.id, record.signature, _record(self.schema, record)):
            raise ProtocolError("record")

    def is_fresh(self, record: AddressRecord, wall: float) -> bool:
        """Returns whether neither a record nor its ticket has expired at wall-clock time `wall`."""
        return wall < record.issued + self.life and wall < record.until

    # ---- who is shut out -------------------------------------------------------------------------

    @property
    def serial(self) -> int:
        """The number of the newest list of revoked keys that is known; 0 without one."""
        if self.revoked is None:
            return 0
        return self.revoked.serial

    def is_revoked(self, key: bytes) -> bool:
        """Returns whether the operator has revoked a public key."""
        return self.revoked is not None and key in self.revoked.keys

    def take_revoked(self, revoked: RevocationList) -> bool:
        """Takes a list of revoked keys if it is newer than the known one. Returns whether it is.
        Raises ProtocolError for a list that the operator has not signed."""
        if not revoked.is_of(self._operator, self.schema):
            raise ProtocolError("revocation")
        if revoked.serial <= self.serial:
            return False
        self.revoked = revoked
        self._keep(revoked)
        return True
