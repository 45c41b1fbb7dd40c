"""Invitations: an operator sends a node the terms, the items, and invitation.json, which says where
the federation is and nothing else.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NamedTuple, TypeVar

import msgspec
from msgspec import Meta, Struct

from entrenous.core.errors import InputError

from ..wire.completed import completed
from .address import split_address
from .catalogue import ITEMS
from .files import Hex32, Hex64, read_json
from .members import MEMBER
from .terms import TERMS
from .tickets import Seconds, Ticket

T = TypeVar("T")
INVITATION = "invitation.json"
# Its entry with a server, the certificate with TLS.
INVITED = (TERMS, MEMBER, ITEMS, INVITATION, "ca.crt")
# What comes by a link: before somebody joins, and with the place. The list of items is long, and
# whoever joins has it.
MEANT = frozenset(INVITED) - {MEMBER}
PLACED = frozenset(INVITED) - {ITEMS}
# Peers whose addresses are in every invitation, at least: with a single one, nobody could join
# after its end.
BOOTSTRAPS = 2


class Contact(NamedTuple):
    """The number, public key and addresses by which a peer is dialled."""

    number: int
    key: bytes
    addresses: tuple[str, ...]


@completed
class ServerInvitation(Struct, frozen=True, forbid_unknown_fields=True):
    """The way to a server."""

    server: str
    """HOST:PORT."""
    tls: bool
    """True if the server has a certificate."""


@completed
class Bootstrap(Struct, frozen=True, forbid_unknown_fields=True):
    """A peer whose address is in the invitation."""

    number: Annotated[int, Meta(ge=0)]
    key: Hex32
    """Its public key."""
    addresses: Annotated[tuple[str, ...], Meta(min_length=1)]

    def contact(self) -> Contact:
        """Returns the contact by which to dial this peer."""
        return Contact(self.number, bytes.fromhex(self.key), self.addresses)


@completed
class PeerInvitation(Struct, frozen=True, forbid_unknown_fields=True):
    """The number of a peer, the operator's ticket for it, and the peers to begin with."""

    number: Annotated[int, Meta(ge=0)]
    until: Seconds
    ticket: Hex64
    """The operator's signature."""
    bootstraps: Annotated[tuple[Bootstrap, ...], Meta(min_length=BOOTSTRAPS)]

    def signed(self) -> Ticket:
        """Returns the ticket of the invitation, as records carry it."""
        return Ticket(self.number, self.until, bytes.fromhex(self.ticket))


def read_server_invitation(folder: Path) -> ServerInvitation:
    """Reads the invitation of a node with a server. Raises InputError for anything else in it."""
    # A node's owner alone decides what the node insists on, so an invitation sets nothing.
    invitation = _read(folder, ServerInvitation, "server and tls alone")
    split_address(str(folder / INVITATION), invitation.server)
    return invitation


def read_peer_invitation(folder: Path) -> PeerInvitation:
    """Reads the invitation of a peer. Raises InputError."""
    return _read(folder, PeerInvitation, "number, until, ticket and two bootstraps or more")


def _read(folder: Path, kind: type[T], expected: str) -> T:
    path = folder / INVITATION
    try:
        return msgspec.convert(read_json(path), kind)
    except msgspec.ValidationError as wrong:
        fix = "ask the operator for another invitation, and why"
        raise InputError(str(path), str(wrong).lower(), expected=expected, fix=fix) from None
