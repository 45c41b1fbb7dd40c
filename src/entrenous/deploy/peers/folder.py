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
import os
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from typing import Any, final

import msgspec
import numpy as np

from ...core.errors import EntrenousError, InputError, did_you_mean
from ...core.files import write_atomically, write_private
from ...core.gossip import DeviceData, Weighing
from ...core.protocols import Histories
from ...wire.tensors import schema_of
from ..items import Items, number_in, read_items, table
from ..lock import holding, is_held
from .book import Contact
from .charter import Charter, vars_of
from .identity import Self, public_key
from .keeping import Keeping, Kept
from .node import Node

INVITATION, SECRET, ROWS, ITEMS, STATE, LOCK = (
    "invitation.json", "secret.json", "rows.csv", "items.csv", "state.sqlite", "lock",
)  # fmt: skip


class Bootstrap(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A peer whose address is known beforehand. key: 64 hexadecimal digits."""

    number: int
    key: str
    addresses: list[str]

    def contact(self) -> Contact:
        """As the book wants it."""
        return Contact(self.number, bytes.fromhex(self.key), tuple(self.addresses))


class Invitation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a peer begins with. ticket: 128 hexadecimal digits; listen: HOST:PORT, port 0 = any; advertise: what others are told instead."""

    charter: dict[str, Any]
    number: int
    ticket: str
    bootstraps: list[Bootstrap]
    listen: str = "127.0.0.1:0"
    advertise: list[str] = []


class Secret(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """key: 64 hexadecimal digits; draws: what names this peer's draws where the charter says they are secret."""

    key: str
    draws: int


@final
class Folder:
    """A peer's folder, read when it is needed. Raises InputError for what is not there or not right."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if not (path / INVITATION).is_file():
            raise InputError(
                str(path),
                "is not the folder of a peer",
                expected=f"a folder with {INVITATION}",
                fix="make some with `entrenous peer new`",
            )

    @cached_property
    def invitation(self) -> Invitation:
        """What the operator gave it."""
        found: Invitation = read_json(self.path / INVITATION, Invitation)
        if len(found.bootstraps) < 2:
            expected = "at least two: with one the federation ends when that ends"
            raise InputError(str(self.path / INVITATION), f"{len(found.bootstraps)} bootstraps", expected=expected)
        return found

    @cached_property
    def charter(self) -> Charter:
        """What all have agreed on."""
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
    def secret(self) -> Secret:
        """Its key."""
        path = self.path / SECRET
        found: Secret = read_json(path, Secret)
        if os.name == "posix" and path.stat().st_mode & 0o077:
            raise InputError(
                str(path), "others may read it", expected="mode 0600", fix=f"chmod 600 {path}; and ask for a new ticket"
            )
        return found

    @property
    def me(self) -> Self:
        """Who it says it is."""
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
        """What names its draws."""
        return self.charter.seed if self.charter.draws == "public" else self.secret.draws

    @cached_property
    def items(self) -> Items:
        """The catalogue, which must be the charter's."""
        path = self.path / ITEMS
        found = read_items(path)
        if len(found.ids) != self.charter.items or items_sha256(found.ids) != self.charter.items_sha256:
            raise InputError(str(path), "is not the catalogue of the charter", expected="the list that came with the invitation")
        return found

    def rows(self) -> DeviceData:
        """Its user's rows: all of them, for the algorithm draws its own weighting set. Leading axis 1."""
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

    def node(self) -> Node:
        """Its node, before its first event."""
        return Node(self.charter, self.invitation.number, self.rows(), self.seed)

    def bootstraps(self) -> list[Contact]:
        """Whom it asks first."""
        return [one.contact() for one in self.invitation.bootstraps]

    def kept(self, node: Node) -> Kept | None:
        """What `node` was when it was last saved."""
        if not (self.path / STATE).is_file():
            return None
        keeping = Keeping(self.path / STATE, reading=True)
        try:
            return keeping.load(schema_of(node.arrays()))
        finally:
            keeping.close()

    def locked(self) -> AbstractContextManager[None]:
        """Two processes with one key would be two peers with one number. Raises InputError that names the other."""
        return holding(self.path / LOCK)

    def is_running(self) -> bool:
        """Whether a process holds it."""
        return is_held(self.path / LOCK)


def write_json(path: Path, thing: Any, *, private: bool = False) -> None:
    """A JSON file for people, written whole; private: for its owner alone, from the first byte."""
    body = as_json(thing).encode()
    if private:
        write_private(path, body, new=False)
    else:
        write_atomically(path, body)


def as_json(thing: Any) -> str:
    """For people."""
    return json.dumps(msgspec.to_builtins(thing), indent=2) + "\n"


def charter_of(charter: Charter) -> dict[str, Any]:
    """As an invitation has it."""
    return vars_of(charter)


def items_sha256(ids: list[str]) -> str:
    """The identity of a catalogue: its ids in their order."""
    return hashlib.sha256("".join(f"{len(one)} {one}\n" for one in ids).encode()).hexdigest()


def read_json(path: Path, kind: Any) -> Any:
    """A JSON file of exactly that kind. Raises InputError."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError, ValueError) as cause:
        raise InputError(str(path), f"cannot be read ({cause})", expected="as `entrenous peer new` writes it") from None


def read_operator(path: Path) -> bytes:
    """An operator's secret key. Raises InputError."""
    try:
        key = bytes.fromhex(path.read_text().strip())
        public_key(key)
        return key
    except (OSError, ValueError) as cause:
        raise EntrenousError(
            f"{path}: cannot be read ({cause}); expected the operator's key as `entrenous peer new` wrote it"
        ) from None
