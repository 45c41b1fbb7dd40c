"""Founding a federation: its terms, its server's folder, an invitation for each node; and a whole one on this machine, to try it."""

from __future__ import annotations

import hashlib
import json
import secrets
import shutil
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ..core.discover import kind_of
from ..core.errors import InputError, at_least
from ..core.own import is_place, lasting, short
from ..core.program import source_sha256
from ..core.protocols import Catalogue
from ..data.interactions import Interactions
from ..privacy.secure_sum.terms import Floors
from .certificates import make_keys
from .enrolment import EnrolmentRequest, identity, join, write_identity
from .items import Items, items_of
from .terms import OWN, FederationTerms, Member, Roll, read_json, write_text

PORT = 8443
EVERYWHERE = "0.0.0.0", "::", ""


class FoundedFederation(NamedTuple):
    """The folders of a new federation. nodes: by name; for a node that is yet to join, its invitation."""

    terms: FederationTerms
    server: Path
    nodes: dict[str, Path]


class Place(NamedTuple):
    """The address of a server: where it listens, the names and addresses in its certificate, and whether nodes reach it by TLS; proxy: the
    address of a proxy in front of it, if there is one."""

    host: str = "127.0.0.1"
    port: int = PORT
    names: tuple[str, ...] = ()
    tls: bool = True
    proxy: str = ""

    def checked(self) -> Self:
        """These settings with at least one host name. Raises InputError if no name is given or known by which nodes could
        reach the server."""
        if not self.names and self.host in EVERYWHERE:
            expected = "the host name or address by which nodes reach the server"
            raise InputError("--name", f"missing, with --host {self.host}", expected=expected, fix="add --name shop.example")
        return self._replace(names=tuple(self.names) or (self.host,))

    @property
    def reached(self) -> str:
        """The address HOST:PORT that nodes are given for the server."""
        return f"[{self.names[0]}]:{self.port}" if ":" in self.names[0] else f"{self.names[0]}:{self.port}"


def found_server(
    folder: Path, items: str, catalogue: Catalogue, requests: Sequence[tuple[EnrolmentRequest, int]], place: Place, **more: Any
) -> FoundedFederation:
    """A server's folder, and an invitation for each node that asked: `folder`/server, `folder`/invitations/NAME.

    items: the list of items, `items_text`. catalogue: of all nodes together. requests: with the number of users each may have. more: the
    other `FederationTerms`. Raises InputError for terms that make no sense, before anything is written, and for a folder that is there
    already.
    """
    key, own = Ed25519PrivateKey.generate(), str(more["algorithm"]) if is_place(more["algorithm"]) else ""
    if own:
        more["algorithm"] = f"{OWN}:{short(own)}"
    more["algorithm_sha256"] = source_sha256(kind_of(own or more["algorithm"])[0])
    terms = FederationTerms.parse(
        {**catalogue._asdict(), "items_sha256": hashlib.sha256(items.encode()).hexdigest(), "nonce": secrets.token_hex(8),
         "server": key.public_key().public_bytes_raw().hex(), **more}, "terms",
    )  # fmt: skip
    terms.make(place=own)
    roll, place = _roll(requests, terms.users), place.checked()
    server, invitations = folder / "server", {request.name: invitation_of(folder, request.name) for request, _ in requests}
    if server.exists():
        raise InputError(str(server), "there is a server already", expected="a new folder", fix="choose another, or remove it")
    server.mkdir(parents=True, mode=0o700)
    write_text(server / "terms.json", terms.text())
    write_text(server / "roll.json", roll.text())
    if own:
        write_text(server / "algorithm", lasting(own))
    (server / "items.json").write_text(items, encoding="utf-8")
    write_identity(server / "identity.key", key)
    write_text(server / "place.json", json.dumps(place._asdict(), indent=1))
    if place.tls:
        make_keys(server / "keys", names=place.names)
    for request, _ in requests:
        write_invitation(folder, request, roll)
    return FoundedFederation(terms, server, invitations)


def found(
    folder: Path, train: Interactions, *, nodes: int, floors: Floors | None = None, place: Place | None = None, **more: Any
) -> FoundedFederation:
    """Found a whole federation on this machine: `nodes` nodes share the users of `train` in order. floors: the least that the
    nodes insist on in secure sums; more: as for `found_server`."""
    at_least("--nodes", nodes, 1)
    own = str(more["algorithm"]) if is_place(more["algorithm"]) else ""
    if nodes > len(train.users):
        raise InputError("--nodes", f"got {nodes}", expected=f"at most {len(train.users)}, the users of {train.name}")
    if folder.exists() and any(folder.iterdir()):
        raise InputError(str(folder), "is not empty", expected="a new folder", fix="choose another, or remove it")
    shares = dict(zip(node_names(nodes), np.array_split(np.arange(len(train.users)), nodes), strict=True))
    folders = {name: folder / "nodes" / name for name in shares}
    requests = [(identity(folders[name], name), len(users)) for name, users in shares.items()]
    made = found_server(folder, items_text(items_of(train)), train.catalogue, requests, place or Place(), **more)
    for name, users in shares.items():
        join(folders[name], made.nodes[name], train.of_users(users), floors, algorithm=own)
    return FoundedFederation(made.terms, made.server, folders)


def free_port() -> int:
    """A TCP port of this machine that no program listens on at this moment."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def items_text(items: Items) -> str:
    """The list of items as all nodes get it: ids in order, titles and places where these are known."""
    titles = items.title if any(items.title) else None
    return json.dumps({"ids": items.ids, "titles": titles, "places": None if items.places is None else items.places.tolist()})


def node_names(nodes: int) -> list[str]:
    """Names for `nodes` nodes, node-1, node-2, ..., padded with zeros to one width."""
    return [f"node-{number:0{len(str(nodes))}d}" for number in range(1, nodes + 1)]


def invitation_of(folder: Path, name: str) -> Path:
    """The path of a node's invitation in the folder of its federation."""
    return folder / "invitations" / name


def write_invitation(folder: Path, request: EnrolmentRequest, roll: Roll) -> Path:
    """Write the folder to send to a node of the federation in `folder`."""
    server, own = folder / "server", invitation_of(folder, request.name)
    place = Place(**read_json(server / "place.json")).checked()
    own.mkdir(parents=True, exist_ok=True)
    for part in ("terms.json", "items.json"):
        shutil.copyfile(server / part, own / part)
    write_text(own / "roll.json", roll.text())
    write_text(own / "invitation.json", json.dumps({"server": place.reached, "tls": place.tls}, indent=1))
    if place.tls:
        shutil.copyfile(server / "keys" / "ca.crt", own / "ca.crt")
    return own


def _roll(requests: Sequence[tuple[EnrolmentRequest, int]], users: int) -> Roll:
    """Numbers for the users of each node, one node after the other."""
    members: dict[str, Member] = {}
    start = 0
    for request, count in requests:
        if request.name in members:
            raise InputError("--node", f"two nodes are called '{request.name}'", expected="a name for each")
        members[request.name] = request.member(start, count)
        start += count
    if start > users:
        raise InputError("--users", f"the nodes have {start} users", expected=f"at most {users}, as the terms say")
    return Roll(members, users)
