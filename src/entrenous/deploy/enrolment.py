"""How a node comes to take part: it makes its keys, asks with their public halves, is invited, and joins with its users' rows.

    node      identity(folder, name)         -> request.json, which may be shown to anybody
    operator  founding.found_server(...)     -> a server's folder, and an invitation for each request
    node      join(folder, invitation, rows) -> the node's folder, ready to run

No private key leaves the machine on which it was made, and no row the node.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from ..core.errors import InputError, at_least
from ..core.files import write_private
from ..core.own import lasting, short
from ..core.types import Int32Array, Int64Array
from ..core.vocabulary import Vocabulary
from ..data.interactions import Interactions
from ..privacy.secure_sum.terms import Floors
from .address import split_address
from .frames import is_name
from .node import read_identity, read_items
from .node_store import NodeStore
from .terms import FORMAT, FederationTerms, Member, Roll, read_json, write_text

INVITED = (
    "terms.json",
    "roll.json",
    "items.json",
    "invitation.json",
    "ca.crt",
)  # what an operator sends to a node; the last with TLS


class EnrolmentRequest(NamedTuple):
    """A node's request to take part. key: its Ed25519 identity, hexadecimal."""

    name: str
    key: str

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a request from a file. Raises InputError that names the file."""
        found = read_json(path)
        try:
            request = cls(str(found["name"]), str(found["key"]))
            known = is_name(request.name.encode("ascii")) and len(bytes.fromhex(request.key)) == 32
        except (KeyError, ValueError):
            known = False
        if not known:
            fix = "make it on the node with `entrenous federation identity`"
            raise InputError(str(path), "not a request to take part", expected="name and key", fix=fix)
        return request

    def member(self, start: int, count: int) -> Member:
        """The entry of this node in the membership list, with `count` users from number `start`. Raises InputError for a count
        below 1."""
        at_least(f"users of {self.name}", count, 1)
        return Member(Ed25519PublicKey.from_public_bytes(bytes.fromhex(self.key)), np.arange(start, start + count))


class ServerAddress(NamedTuple):
    """Where the server is, as its operator says: the one thing that a node takes from outside into node.json. tls: whether it has a
    certificate."""

    server: str
    tls: bool

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read an invitation. Raises InputError for anything else in it: what a node insists on is for its owner to say."""
        found = read_json(path)
        if foreign := sorted(found.keys() - set(cls._fields)):
            expected, fix = "server and tls alone", "ask the operator why: these are the node's own to decide"
            raise InputError(str(path), f"says '{foreign[0][:40]}' too", expected=expected, fix=fix)
        if type(found.get("server")) is not str or type(found.get("tls")) is not bool:
            raise InputError(str(path), "is no invitation", expected='{"server": "HOST:PORT", "tls": true}')
        split_address(str(path), found["server"])
        return cls(found["server"], found["tls"])


def told(invitation: Path) -> list[str]:
    """What a node agrees to by taking an invitation up, in lines for its owner. Raises InputError."""
    terms, where = FederationTerms.read(invitation / "terms.json"), ServerAddress.read(invitation / "invitation.json")
    settings = ", ".join(f"{name}={value}" for name, value in sorted(terms.settings.items())) or "as they come"
    draws = {"public": "public: the server can repeat what devices draw, and so undo what drawing hides",
             "secret": "secret: from a number of this node's own"}[terms.draws]  # fmt: skip
    sums = {"masks": "masks: the server sees sums of nodes", "none": "none: the server sees what each node sends"}[terms.secure]
    return [
        f"run {terms.run}, server {where.server}, {'with' if where.tls else 'WITHOUT'} TLS",
        f"algorithm {short(terms.algorithm)}, settings {settings}; what it reveals: entrenous explain {short(terms.algorithm)}",
        f"{terms.rounds} rounds, {terms.users} users, {terms.items} items",
        f"draws={draws}",
        f"secure={sums}",
    ]


def identity(folder: Path, name: str) -> EnrolmentRequest:
    """Make a node's keys, readable by their owner alone, and request.json with their public halves.

    Raises InputError for a name that no node may have, and for a folder that has keys already.
    """
    if not is_name(name.encode()):
        raise InputError("--name", f"got {name!r}", expected="1 to 64 of a-z, 0-9, - and .")
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    key = Ed25519PrivateKey.generate()
    write_identity(folder / "identity.key", key)
    request = EnrolmentRequest(name, key.public_key().public_bytes_raw().hex())
    write_text(folder / "request.json", json.dumps({"format": FORMAT, **request._asdict()}, indent=1))
    return request


def join(
    folder: Path,
    invitation: Path,
    rows: Interactions,
    floors: Floors | None = None,
    own: Mapping[str, str] | None = None,
    algorithm: str = "",
    least_users: int = 1,
    tell: Callable[[str], None] = lambda line: None,
) -> Int64Array:
    """Takes an invitation up: the node's folder with its users' rows, whose items are called as in the federation. Returns the
    federation's numbers of rows.users, int64. floors: what the node insists on in secure sums; own: settings that are the user's to
    decide, such as FPL's pi; algorithm: the place of the federation's algorithm, where that is none of `entrenous algorithms`; least_users:
    of whom one answer must be; tell: is given the lines of `told`, before anything is written.

    Raises InputError for an invitation that is another node's or for another number of users, and for rows of items not on the list.
    """
    terms, key = FederationTerms.read(invitation / "terms.json"), read_identity(folder / "identity.key")
    name = str(read_json(folder / "request.json")["name"])
    member = Roll.read(invitation / "roll.json", terms.users).members.get(name)
    if member is None or member.key.public_bytes_raw() != key.public_key().public_bytes_raw():
        raise InputError(
            str(invitation), f"is not for '{name}' with this key", fix="ask the operator with this folder's request.json"
        )
    if len(rows.users) != len(member.users):
        fix = f"ask the operator for {len(rows.users)}"
        raise InputError(
            rows.name, f"{len(rows.users)} users", expected=f"{len(member.users)}, as '{name}' was invited with", fix=fix
        )
    if not 1 <= least_users <= len(member.users):
        raise InputError("--least-users", f"got {least_users}", expected=f"1 to {len(member.users)}, the node's users")
    where = ServerAddress.read(invitation / "invitation.json")
    items, _ = read_items(invitation / "items.json", terms.items_sha256)
    users = member.users
    terms.make(own, algorithm)  # for what it refuses
    joined = with_items(rows, items.indices(rows.items.ids.tolist()), items)
    for line in told(invitation):
        tell(line)
    NodeStore.create(folder / "store.sqlite", joined, users).close()
    for part in INVITED:
        if (invitation / part).exists() and invitation != folder:
            shutil.copyfile(invitation / part, folder / part)
    about: dict[str, Any] = {"format": FORMAT, "name": name, "floors": asdict(floors or Floors()), "own": dict(own or {}),
                             "algorithm": lasting(algorithm) if algorithm else "", "least_users": least_users}  # fmt: skip
    write_text(folder / "node.json", json.dumps({**about, **where._asdict()}, indent=1))
    return users


def with_items(rows: Interactions, place: Int32Array, items: Vocabulary) -> Interactions:
    """The same rows, renumbered to the federation's items. place: int [rows.items], the federation's number of each item, -1 =
    none. Raises InputError for rows of items that the federation does not have."""
    unknown = int((place[rows.item] < 0).sum()) if len(rows) else 0
    if unknown:
        first = rows.items[int(rows.item[int(np.argmax(place[rows.item] < 0))])]
        fix = "leave these rows out, or ask the operator for a list that has them"
        raise InputError(rows.name, f"{unknown} rows of items that are not on the federation's list, such as '{first}'", fix=fix)
    order = np.lexsort((place[rows.item], rows.user))
    time, row = (None if column is None else column[order] for column in (rows.time, rows.row))
    return replace(rows, item=place[rows.item][order], value=rows.value[order], items=items, features={}, time=time, row=row)


def write_identity(path: Path, key: Ed25519PrivateKey) -> None:
    """Write a private key to a new file that its owner alone may read, never over an existing one."""
    try:
        write_private(path, f"{key.private_bytes_raw().hex()}\n".encode())
    except FileExistsError:
        fix = "choose another folder, or remove it if nobody needs it"
        raise InputError(str(path), "there is a key already", fix=fix) from None
