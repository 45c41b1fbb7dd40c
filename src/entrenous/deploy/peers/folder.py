"""A peer's folder: all that it is. Whoever has it is that peer; nothing of it but models, records and headers ever leaves.

invitation.json  what the operator gave it: charter, number, ticket, bootstraps; and where it listens
secret.json      its key, and what its draws are named by                                             (0600)
rows.csv         item[,value][,time]: its user's own rows                                              (0600)
items.csv        item[,title][,lat,lon]: the catalogue, the same for all, as the charter's hash says
state.sqlite     model, private arrays, events, whom it has met                                        (0600)
lock             the process id of who runs it
"""

from __future__ import annotations

import hashlib
import json
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from typing import Any, final

import msgspec
import numpy as np

from ...core.errors import EntrenousError, InputError, did_you_mean
from ...core.files import others_may_read, write_atomically, write_private
from ...core.gossip import DeviceData, Weighing
from ...core.lock import holding, is_held
from ...core.protocols import Histories
from ...wire.tensors import schema_of
from ..items import Items, number_in, read_items, table
from .book import Contact
from .charter import Charter, vars_of
from .identity import Self, public_key
from .keeping import Keeping, SavedPeerState
from .node import PeerNode

INVITATION, SECRET, ROWS, ITEMS, STATE, LOCK = (
    "invitation.json", "secret.json", "rows.csv", "items.csv", "state.sqlite", "lock",
)  # fmt: skip


class Bootstrap(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A peer whose address is in the invitation. key: its public key, 64 hexadecimal digits."""

    number: int
    key: str
    addresses: list[str]

    def contact(self) -> Contact:
        """The contact to dial this bootstrap peer by."""
        return Contact(self.number, bytes.fromhex(self.key), tuple(self.addresses))


class Invitation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The invitation of a peer to a federation. ticket: the operator's signature, 128 hexadecimal digits; listen: HOST:PORT,
    port 0 = any; advertise: the addresses that others are told instead."""

    charter: dict[str, Any]
    number: int
    ticket: str
    bootstraps: list[Bootstrap]
    listen: str = "127.0.0.1:0"
    advertise: list[str] = []


class PeerSecret(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The secrets of a peer. key: its private key, 64 hexadecimal digits; draws: the number that its random draws follow from
    if they are secret."""

    key: str
    draws: int


@final
class Folder:
    """The folder of a peer on disk; files are read on first use. Raises InputError for a file that is missing or malformed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if not (path / INVITATION).is_file():
            raise InputError(
                str(path),
                "is not the folder of a peer",
                expected=f"a folder with {INVITATION}",
                fix="make some with `entrenous peer prepare`",
            )

    @cached_property
    def invitation(self) -> Invitation:
        """The invitation that the operator of the federation wrote for this peer. Raises InputError if it names fewer than two
        bootstraps."""
        found: Invitation = read_json(self.path / INVITATION, Invitation)
        if len(found.bootstraps) < 2:
            expected = "at least two: with one the federation ends when that ends"
            raise InputError(str(self.path / INVITATION), f"{len(found.bootstraps)} bootstraps", expected=expected)
        return found

    @cached_property
    def charter(self) -> Charter:
        """The settings that all peers of the federation share, read from the invitation. Raises InputError if they are
        malformed."""
        try:
            charter = Charter(**self.invitation.charter)
            assert len(bytes.fromhex(charter.operator)) == 32
        except (TypeError, ValueError, AssertionError) as wrong:
            raise InputError(str(self.path / INVITATION), f"charter: {wrong}", expected="as the operator wrote it") from None
        if not 0 <= self.invitation.number < charter.users:
            raise InputError(
                str(self.path / INVITATION), f"number {self.invitation.number}", expected=f"0 to {charter.users - 1}"
            )
        return charter

    @cached_property
    def secret(self) -> PeerSecret:
        """The secret key of this peer, and the number that its random draws follow from. Raises InputError if others may read
        the file."""
        path = self.path / SECRET
        found: PeerSecret = read_json(path, PeerSecret)
        if others_may_read(path):
            raise InputError(
                str(path), "others may read it", expected="mode 0600", fix=f"chmod 600 {path}; and ask for a new ticket"
            )
        return found

    @property
    def me(self) -> Self:
        """The identity of this peer: its secret key, its number, and the operator's signature for both. Raises InputError."""
        try:
            key, ticket = bytes.fromhex(self.secret.key), bytes.fromhex(self.invitation.ticket)
            public_key(key)
        except ValueError as wrong:
            raise InputError(
                str(self.path / SECRET), str(wrong), expected="hexadecimal digits as `entrenous peer new` writes"
            ) from None
        return Self(key, self.charter.schema, self.invitation.number, ticket)

    @property
    def seed(self) -> int:
        """The number that this peer's random draws follow from: the federation's seed if draws are public, else the secret
        one."""
        return self.charter.seed if self.charter.draws == "public" else self.secret.draws

    @cached_property
    def items(self) -> Items:
        """The items of items.csv. Raises InputError if they are not the catalogue of the federation."""
        path = self.path / ITEMS
        found = read_items(path)
        if len(found.ids) != self.charter.items or items_sha256(found.ids) != self.charter.items_sha256:
            raise InputError(str(path), "is not the catalogue of the charter", expected="the list that came with the invitation")
        return found

    def rows(self) -> DeviceData:
        """All rows of this peer's user, as the data of one device (leading axis 1). The weighting set is left empty, for the
        algorithm to draw. Raises InputError for an unknown item."""
        path, items = self.path / ROWS, self.items
        number, found = {name: n for n, name in enumerate(items.ids)}, {}
        for line, row in table(path, "item"):
            if row["item"] not in number:
                near = did_you_mean(row["item"], items.ids[:100_000])
                raise InputError(f"{path}:{line}", f"unknown item '{row['item']}'", expected="an item of items.csv", fix=near)
            found[number[row["item"]]] = (
                number_in(path, line, row, "value", 1.0),
                int(number_in(path, line, row, "time", 0)),
                line,
            )
        order = sorted(found)
        ptr, item = np.array([0, len(order)], np.int64), np.array(order, np.int32)
        value = np.array([found[i][0] for i in order], np.float32)
        time, row_of = (np.array([found[i][k] for i in order], np.int64) for k in (1, 2))
        own = Histories(ptr, item, value, ptr, item, time, row_of, items.places)
        return DeviceData(own, Weighing(np.zeros(2, np.int64), np.empty(0, np.int32), np.empty((0, 1), np.int32)))

    def node(self) -> PeerNode:
        """A node with this peer's settings and rows, before its first event."""
        return PeerNode(self.charter, self.invitation.number, self.rows(), self.seed)

    def bootstraps(self) -> list[Contact]:
        """The contacts of the bootstrap peers, which a new peer asks first."""
        return [one.contact() for one in self.invitation.bootstraps]

    def kept(self, node: PeerNode) -> SavedPeerState | None:
        """The state that was last saved for `node`; None if nothing was saved. Raises EntrenousError if it is damaged."""
        if not (self.path / STATE).is_file():
            return None
        keeping = Keeping(self.path / STATE, reading=True)
        try:
            return keeping.load(schema_of(node.arrays()))
        finally:
            keeping.close()

    def locked(self) -> AbstractContextManager[None]:
        """A lock, held inside `with`, that keeps a second process from running this peer. Raises InputError that names the
        process that has it."""
        return holding(self.path / LOCK)

    def is_running(self) -> bool:
        """Whether a process is running this peer now."""
        return is_held(self.path / LOCK)


def write_json(path: Path, thing: Any, *, private: bool = False) -> None:
    """Write an object as an indented JSON file, whole or not at all. private: readable by its owner alone, from the first
    byte."""
    body = as_json(thing).encode()
    if private:
        write_private(path, body, new=False)
    else:
        write_atomically(path, body)


def as_json(thing: Any) -> str:
    """An object as indented JSON text that ends with a newline."""
    return json.dumps(msgspec.to_builtins(thing), indent=2) + "\n"


def charter_of(charter: Charter) -> dict[str, Any]:
    """The settings of a federation as the JSON object that goes into an invitation."""
    return vars_of(charter)


def items_sha256(ids: list[str]) -> str:
    """The SHA-256, in hexadecimal, of the item ids in their order: the identity of a catalogue of peers."""
    return hashlib.sha256("".join(f"{len(one)} {one}\n" for one in ids).encode()).hexdigest()


def read_json(path: Path, kind: Any) -> Any:
    """Read a JSON file as an object of the type `kind`. Raises InputError for a missing, malformed or unknown field."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError, ValueError) as cause:
        raise InputError(str(path), f"cannot be read ({cause})", expected="as `entrenous peer new` writes it") from None


def read_operator(path: Path) -> bytes:
    """Read an operator's secret key, 32 bytes, from a file of hexadecimal digits. Raises InputError."""
    try:
        key = bytes.fromhex(path.read_text().strip())
        public_key(key)
        return key
    except (OSError, ValueError) as cause:
        raise EntrenousError(
            f"{path}: cannot be read ({cause}); expected the operator's key as `entrenous peer new` wrote it"
        ) from None
