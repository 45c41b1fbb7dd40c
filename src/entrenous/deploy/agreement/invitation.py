"""What an operator sends to one node: terms, items, and invitation.json, which says where the
federation is and nothing else.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NamedTuple, TypeAlias, TypeVar

import msgspec
from msgspec import Meta, Struct

from ...core.errors import InputError
from .address import split_address
from .catalogue import ITEMS
from .files import read_json
from .members import MEMBERS
from .terms import TERMS
from .tickets import Seconds, Ticket

T = TypeVar("T")
INVITATION = "invitation.json"
INVITED = (TERMS, MEMBERS, ITEMS, INVITATION, "ca.crt")  # members with a server, the last with TLS
# peers whose addresses are in every invitation, at least: with one the federation ends when that
# ends
BOOTSTRAPS = 2
Hex32: TypeAlias = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
Hex64: TypeAlias = Annotated[str, Meta(pattern="^[0-9a-f]{128}$")]


class Contact(NamedTuple):
    """The number, public key and addresses by which a peer is dialled."""

    number: int
    key: bytes
    addresses: tuple[str, ...]


class ServerInvitation(Struct, frozen=True, forbid_unknown_fields=True):
    """The address of the server, HOST:PORT, and whether it has a certificate."""

    server: str
    tls: bool


class Bootstrap(Struct, frozen=True, forbid_unknown_fields=True):
    """A peer whose address is in the invitation. key: its public key."""

    number: Annotated[int, Meta(ge=0)]
    key: Hex32
    addresses: Annotated[tuple[str, ...], Meta(min_length=1)]

    def contact(self) -> Contact:
        """The contact to dial this bootstrap peer by."""
        return Contact(self.number, bytes.fromhex(self.key), self.addresses)


class PeerInvitation(Struct, frozen=True, forbid_unknown_fields=True):
    """The number of a peer, the operator's ticket for it, and the peers to begin with. ticket: the
    operator's signature.
    """

    number: Annotated[int, Meta(ge=0)]
    until: Seconds
    ticket: Hex64
    bootstraps: Annotated[tuple[Bootstrap, ...], Meta(min_length=BOOTSTRAPS)]

    def signed(self) -> Ticket:
        """The ticket of the invitation, as records carry it."""
        return Ticket(self.number, self.until, bytes.fromhex(self.ticket))


def read_server_invitation(folder: Path) -> ServerInvitation:
    """Read the invitation of a node with a server. Raises InputError for anything else in it: what
    a node insists on is for its owner to say."""
    found = _read(folder, ServerInvitation, "server and tls alone")
    split_address(str(folder / INVITATION), found.server)
    return found


def read_peer_invitation(folder: Path) -> PeerInvitation:
    """Read the invitation of a peer. Raises InputError."""
    return _read(folder, PeerInvitation, "number, until, ticket and two bootstraps or more")


def _read(folder: Path, kind: type[T], expected: str) -> T:
    path = folder / INVITATION
    try:
        return msgspec.convert(read_json(path), kind)
    except msgspec.ValidationError as wrong:
        fix = "ask the operator for another invitation, and why"
        raise InputError(str(path), str(wrong).lower(), expected=expected, fix=fix) from None
