"""Founding a federation: its terms, its operator's folder, an invitation for each node; and a whole
one on this machine, to try it.

FOLDER/server       with a server: terms, members, items, key, certificate; run it with `entrenous
server` FOLDER/operator     without one: terms, members, items, and the key that signs tickets,
needed to invite and to shut out only FOLDER/invitations  a folder for each node, to be sent to it
"""

from __future__ import annotations

import secrets
import shutil
import socket
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ...algorithms.named import kind_of
from ...core.contract.declared import declared, is_federated, is_gossip
from ...core.contract.protocols import Catalogue
from ...core.errors import EntrenousWarning, InputError, at_least
from ...core.files import copy_file, make_folder, write_atomically
from ...core.registry.own import is_place, lasting, short
from ...core.registry.program import source_sha256
from ...data.interactions import Interactions
from ...privacy.protection import DP, PAPER, PRIVATE, PROTECT, protection_of
from ...privacy.secure_sum.terms import Floors
from ..agreement.catalogue import ITEMS, Items
from ..agreement.certificates import make_keys
from ..agreement.files import read_json, write_json, write_text
from ..agreement.groups import check_groups
from ..agreement.identity import IDENTITY, public_bytes, read_identity, write_identity
from ..agreement.invitation import BOOTSTRAPS, INVITATION
from ..agreement.members import MEMBERS, Member, Members
from ..agreement.terms import OWN, TERMS, FederationTerms
from ..agreement.tickets import DAYS, Ticket, ends
from ..frames.contribution import agreed
from ..node.node_store import NODE
from ..node.relay import BELOW
from .enrolment import REQUEST, EnrolmentRequest, identity, invited, join, of_server, take

PORT = 8443
EVERYWHERE = "0.0.0.0", "::", ""
SERVER, OPERATOR, PLACE = "server", "operator", "place.json"
ROOM = 0.2  # share of the devices that private sums can do without, and keep their noise
Requests = Sequence[
    tuple[EnrolmentRequest, int]
]  # each with the number of users it may have; peers have one


class FoundedFederation(NamedTuple):
    """The folders of a new federation. server: the operator's, also of peers; nodes: by name; for
    one that is yet to join, its invitation."""

    terms: FederationTerms
    server: Path
    nodes: dict[str, Path]


class Place(NamedTuple):
    """The address of a server: where it listens, the names and addresses in its certificate, and
    whether nodes reach it by TLS; proxy: the address of a proxy in front of it, if there is one."""

    host: str = "127.0.0.1"
    port: int = PORT
    names: tuple[str, ...] = ()
    tls: bool = True
    proxy: str = ""

    def checked(self) -> Self:
        """These settings with at least one host name. Raises InputError if no name is given or
        known by which nodes could reach the server."""
        if not self.names and self.host in EVERYWHERE:
            expected = "the host name or address by which nodes reach the server"
            raise InputError(
                "--name",
                f"missing, with --host {self.host}",
                expected=expected,
                fix="add --name shop.example",
            )
        return self._replace(names=tuple(self.names) or (self.host,))

    @property
    def reached(self) -> str:
        """The address HOST:PORT that nodes are given for the server."""
        return (
            f"[{self.names[0]}]:{self.port}"
            if ":" in self.names[0]
            else f"{self.names[0]}:{self.port}"
        )


def found_federation(
    folder: Path,
    items: Items,
    catalogue: Catalogue,
    requests: Requests,
    place: Place | None = None,
    *,
    days: float = DAYS,
    profile: str = PRIVATE,
    protect: Mapping[str, Any] | None = None,
    **more: Any,
) -> FoundedFederation:
    """Make the operator's folder, and an invitation for each node that asked.

    place: of the server. days: that tickets of peers are good for. profile, protect: what limits
    the data that leaves nodes, and settings of its own; noise is of the operating system's
    generator, with public draws of the seed. more: the other `FederationTerms`, among them the
    topology. Raises InputError for terms that make no sense, before anything is written, and for a
    folder that is there already.
    """
    own = str(more["algorithm"]) if is_place(more["algorithm"]) else ""
    operator = folder / (OPERATOR if more.get("topology") == "peers" else SERVER)
    if operator.exists():
        raise InputError(
            str(operator),
            "there is a federation already",
            expected="a new folder",
            fix="choose another, or remove it",
        )
    key = Ed25519PrivateKey.generate()
    if own:
        more["algorithm"] = f"{OWN}:{short(own)}"
    kind, preset = kind_of(own or more["algorithm"])
    more["algorithm_sha256"] = source_sha256(kind)
    more |= {"profile": profile, **_protection(kind.parse(preset), profile, protect or {}, more)}
    terms = FederationTerms.parse(
        {
            **catalogue._asdict(),
            "items_sha256": items.sha256,
            "nonce": secrets.token_hex(8),
            "operator": public_bytes(key).hex(),
            **more,
        },
        "terms",
    )
    terms.check(place=own)
    terms = _pinned(terms, own)
    members = enrolled(terms, Members({}, terms.users), requests, ends(days))
    _check_noise(terms, members)
    if terms.protection.groups > 1:
        check_groups(
            terms, members, agreed(terms.make(place=own), terms.catalogue, terms.protection)
        )
    place = (place or Place()).checked() if terms.has_server else None
    about = {"bootstraps": _bootstraps(requests, members)} if place is None else place._asdict()
    return _founded(operator, key, terms, members, items, about, own)


def _pinned(terms: FederationTerms, own: str) -> FederationTerms:
    """The terms with the pins of their algorithm. Warns (EntrenousWarning) where it cannot be
    tried. own: as of `_founded`.
    """
    pinned = terms.pinned(place=own)
    if pinned.pins is not None and not pinned.pins.test_round:
        said = (
            "it cannot be run in the fixed test round, so every node must have its very source, and"
            " an upgrade that changes it ends this"
        )
        warnings.warn(f"{short(terms.algorithm)}: {said}", EntrenousWarning, stacklevel=3)
    return pinned


def _check_noise(terms: FederationTerms, members: Members) -> None:
    """Raise InputError where so few of the users are there that no sum would have its noise: under
    masks nobody joins later."""
    there = sum(len(member.users) for member in members.nodes.values())
    if there < terms.people_for_noise:
        problem = (
            f"{there} of {terms.users} users are there; the noise of a sum needs"
            f" {terms.people_for_noise}"
        )
        fix = (
            f"leave it out, since nobody joins a federation with masks later, or {PROTECT}"
            " lost=SHARE"
        )
        raise InputError("--users", problem, expected=f"at most {there}", fix=fix)


def _protection(
    algorithm: Any, profile: str, asked: Mapping[str, Any], more: Mapping[str, Any]
) -> dict[str, Any]:
    """The protection of a federation with a server, as its terms say it. Raises InputError for what
    was never measured.
    """
    traits = declared(algorithm).traits
    if more.get("topology") == "peers":
        if asked:
            raise InputError(
                PROTECT, "peers have no sums", fix="leave it out; --profile says how peers push"
            )
        settings = more.get("settings", {})
        if (
            profile == PRIVATE
            and is_gossip(algorithm)
            and not (traits.private_settings or "push_noise" in settings)
        ):
            problem = f"{short(more['algorithm'])} was not measured under it"
            fix = (
                "try pepper-gmf, or --set push_noise=0.1 and measure it with `entrenous audit`;"
                " --profile paper limits nothing"
            )
            raise InputError("--profile private", problem, fix=fix)
        return {}
    if profile == PRIVATE and is_federated(algorithm) and not (traits.private or "noise" in asked):
        problem = f"{short(more['algorithm'])} was not measured under it"
        fix = (
            f"try fpl or fcf, or {PROTECT} noise=0.1 and measure it with `entrenous audit`;"
            " --profile paper limits nothing"
        )
        raise InputError("--profile private", problem, fix=fix)
    repeated = (
        more.get("draws") == "public" and profile != DP
    )  # which the terms refuse, and say why
    across = {"noise_from": "seed" if repeated else "system"}
    lost = round(1 - float(more.get("quorum", 1.0)), 6)
    if profile == PRIVATE:
        # nodes refuse a sum that has less noise than was promised; without room, no node that lies
        # could ever be shut out, which takes as many people out of the rounds as a sum must have
        lost = max(lost, ROOM)
    if lost:
        across["lost"] = str(lost)
    return {
        "protection": protection_of(profile, {**across, **asked}, traits).model_dump(mode="json")
    }


def found_relay(
    folder: Path, invitation: Path, requests: Requests, place: Place, algorithm: str = ""
) -> FoundedFederation:
    """Make a relay of a node that was invited: `folder`/below is the folder of a federation of its
    own nodes, with the terms of the one above, whose users it has. algorithm: the place of the
    federation's, where that is none of `entrenous algorithms`.

    Raises InputError for an invitation that is another node's or for fewer users, for secure sums
    and defences, and for a folder that has joined."""
    above, request = (
        FederationTerms.read(invitation / TERMS),
        EnrolmentRequest.read(folder / REQUEST),
    )
    users = invited(invitation, above, request.name, public_bytes(read_identity(folder / IDENTITY)))
    if above.masked or above.defended or not above.has_server:
        problem = "a relay sees what its nodes send, and answers for all of them as one"
        raise InputError(
            str(invitation), problem, expected="a federation with a server, and --profile paper"
        )
    if (folder / NODE).exists():
        raise InputError(
            str(folder),
            "has joined already",
            fix="make a new folder with `entrenous federation identity`",
        )
    above.check(place=algorithm)
    items, key, place = (
        Items.read(invitation / ITEMS, above.items_sha256),
        Ed25519PrivateKey.generate(),
        place.checked(),
    )
    named = {
        **above.model_dump(mode="json"),
        "operator": public_bytes(key).hex(),
        "nonce": secrets.token_hex(8),
    }
    terms = FederationTerms.parse(named, "terms")
    members, start = Members({}, terms.users), int(users[0])
    for each, count in requests:
        if members.is_known(each.name, each.key):
            raise InputError(
                "--node", f"'{each.name}' or its key is named twice", expected="each node once"
            )
        if start + count > int(users[-1]) + 1:
            raise InputError(
                "--node",
                f"'{each.name}' with {count} users",
                expected=f"at most {len(users)} users in all",
            )
        members, start = members.with_nodes([(each.name, each.member(start, count))]), start + count
    made = _founded(folder / BELOW / SERVER, key, terms, members, items, place._asdict(), algorithm)
    take(folder, invitation)
    own = {"algorithm": lasting(algorithm) if algorithm else "", **of_server(invitation)}
    write_json(folder / NODE, {"name": request.name, "relay": True, **own})
    return made


def _founded(
    operator: Path,
    key: Ed25519PrivateKey,
    terms: FederationTerms,
    members: Members,
    items: Items,
    about: Mapping[str, Any],
    own: str,
) -> FoundedFederation:
    """Writes the operator's own files, a certificate where there is to be one, and an invitation
    for each member. own: the place of an algorithm that is none of `entrenous algorithms`, else
    "".
    """
    make_folder(operator, mode=0o700)
    write_identity(operator / IDENTITY, key)
    write_text(operator / TERMS, terms.text())
    write_text(operator / MEMBERS, members.text())
    write_atomically(operator / ITEMS, items.text.encode())
    write_json(operator / PLACE, about)
    if about.get("tls"):
        make_keys(operator / "keys", names=about["names"])
    if own:
        write_text(operator / "algorithm", lasting(own))
    sent = {name: write_invitation(operator.parent, name, members) for name in members.nodes}
    return FoundedFederation(terms, operator, sent)


def must_be_new(folder: Path) -> None:
    """Raises InputError where a folder for a new federation has files already."""
    if folder.exists() and any(folder.iterdir()):
        raise InputError(
            str(folder), "is not empty", expected="a new folder", fix="choose another, or remove it"
        )


def found(
    folder: Path,
    train: Interactions,
    *,
    nodes: int,
    floors: Floors | None = None,
    place: Place | None = None,
    **more: Any,
) -> FoundedFederation:
    """Found a whole federation on this machine: `nodes` nodes share the users of `train` in order,
    or are peers of the first ones. floors: the least that the nodes insist on in secure sums; more:
    as for `found_federation`.
    """
    peers = more.get("topology") == "peers"
    at_least("--nodes", nodes, BOOTSTRAPS + 1 if peers else 1)
    if floors is not None and not peers:
        least = (
            {}
            if more.get("profile") == PAPER
            else {"people": floors.people, "parties": floors.parties}
        )
        more = {"apart": floors.apart, **more, "protect": {**least, **more.get("protect", {})}}
    own = str(more["algorithm"]) if is_place(more["algorithm"]) else ""
    if nodes > len(train.users):
        raise InputError(
            "--nodes",
            f"got {nodes}",
            expected=f"at most {len(train.users)}, the users of {train.name}",
        )
    must_be_new(folder)
    train = train.of_users(np.arange(nodes)) if peers else train
    shares = dict(
        zip(node_names(nodes), np.array_split(np.arange(len(train.users)), nodes), strict=True)
    )
    listens = [f"127.0.0.1:{port}" for port in free_ports(BOOTSTRAPS, udp=True)] if peers else []
    listens += ["127.0.0.1:0" if peers else ""] * (nodes - len(listens))
    folders = {name: folder / "nodes" / name for name in shares}
    try:
        requests = [
            (identity(folders[name], name, listen), len(shares[name]))
            for name, listen in zip(shares, listens, strict=True)
        ]
        made = found_federation(folder, Items.of(train), train.catalogue, requests, place, **more)
    except BaseException:
        shutil.rmtree(folder)
        raise
    for name, mine in shares.items():
        join(
            folders[name],
            made.nodes[name],
            train.of_users(mine),
            floors,
            algorithm=own,
            public_draws=True,
        )
    return made._replace(nodes=folders)


def free_ports(count: int = 1, *, udp: bool = False) -> list[int]:
    """Ports of this machine that no program listens on at this moment."""
    sockets = [
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM if udp else socket.SOCK_STREAM)
        for _ in range(count)
    ]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]
    finally:
        for one in sockets:
            one.close()


def node_names(nodes: int) -> list[str]:
    """Names for `nodes` nodes, node-1, node-2, ..., padded with zeros to one width."""
    return [f"node-{number:0{len(str(nodes))}d}" for number in range(1, nodes + 1)]


def enrolled(terms: FederationTerms, members: Members, requests: Requests, until: int) -> Members:
    """The membership list with the nodes that ask, numbered after all who are or were there, or
    with a member's new key. until: when tickets of peers end. Raises InputError for a name or a key
    that is known, and where no number is left.
    """
    until = 0 if terms.has_server else until
    for request, count in requests:
        if request.replaces:
            members = members.with_nodes(
                [(request.name, _replaced(terms, members, request, until))]
            )
            continue
        if members.is_known(request.name, request.key):
            fix = "make a new folder with `entrenous federation identity` and another --name"
            raise InputError(
                "--node",
                f"'{request.name}' or its key is or was a node of this federation",
                fix=fix,
            )
        if count != 1 and (terms.defended or not terms.has_server):
            why = (
                "a defence looks at the update of each device"
                if terms.has_server
                else "a peer is one user's"
            )
            raise InputError(
                "--node", f"'{request.name}' with {count} users", expected=f"one: {why}"
            )
        start = members.next_user
        if start + count > terms.users:
            problem = f"'{request.name}' with {count} users, and {terms.users - start} are left"
            raise InputError("--node", problem, expected=f"at most {terms.users}, as the terms say")
        members = members.with_nodes([(request.name, request.member(start, count, until))])
    return members


def _replaced(
    terms: FederationTerms, members: Members, request: EnrolmentRequest, until: int
) -> Member:
    """The member with its new key. Its ticket ends later than the old one, by which peers know
    which of both counts.
    """
    before = members.nodes.get(request.name)
    if before is None or not request.is_by_owner_of(before.key.public_bytes_raw().hex(), terms.run):
        problem, fix = (
            f"'{request.name}' does not show that its old key wants this",
            "make it with `entrenous federation rotate`",
        )
        raise InputError(
            "--node", problem, expected="a request that the member's key has signed", fix=fix
        )
    if members.is_known("", request.key):
        raise InputError(
            "--node", f"the new key of '{request.name}' is or was a node's of this federation"
        )
    member = request.member(0, 1, max(until, before.until + 1) if before.until else 0)
    return member._replace(users=before.users)


def _bootstraps(requests: Requests, members: Members) -> list[dict[str, Any]]:
    """The first peers, whose addresses are in every invitation. Raises InputError where they are
    too few, or have none.
    """
    at_least("--node, how often", len(requests), BOOTSTRAPS)
    for request, _ in requests[:BOOTSTRAPS]:
        if not request.addresses:
            problem = (
                f"'{request.name}' is to be a bootstrap and has no port that others could know"
            )
            fix = (
                "name others first, or give it one: entrenous federation identity --listen"
                " HOST:PORT"
            )
            raise InputError("--node", problem, fix=fix)
    return [
        {
            "number": int(members.nodes[request.name].users[0]),
            "key": request.key,
            "addresses": request.addresses,
        }
        for request, _ in requests[:BOOTSTRAPS]
    ]


def operator_folder(folder: Path) -> Path:
    """The operator's part of a federation's folder: server/, or operator/ where there is none.
    Raises InputError.
    """
    found = [folder / name for name in (SERVER, OPERATOR) if (folder / name / TERMS).exists()]
    if not found:
        read_json(folder / SERVER / TERMS)  # for what it says
    return found[0]


def write_invitation(folder: Path, name: str, members: Members) -> Path:
    """Write the folder to send to a member of the federation in `folder`."""
    operator, own = operator_folder(folder), folder / "invitations" / name
    terms, place = FederationTerms.read(operator / TERMS), read_json(operator / PLACE)
    make_folder(own)
    for part in (TERMS, ITEMS):
        copy_file(operator / part, own / part)
    if terms.has_server:
        write_text(own / MEMBERS, members.text())
        write_json(own / INVITATION, {"server": Place(**place).reached, "tls": place["tls"]})
        if place["tls"]:
            copy_file(operator / "keys" / "ca.crt", own / "ca.crt")
    else:
        write_json(
            own / INVITATION,
            _peer_invitation(operator, terms, members.nodes[name], place["bootstraps"]),
        )
    return own


def _peer_invitation(
    operator: Path, terms: FederationTerms, member: Member, bootstraps: list[dict[str, Any]]
) -> dict[str, Any]:
    """A ticket, and where to begin: the bootstraps by the keys that they have now."""
    number, key = int(member.users[0]), member.key.public_bytes_raw()
    ticket = Ticket.sign(
        read_identity(operator / IDENTITY), terms.run_bytes, number, key, member.until
    )
    return {
        "number": number,
        "until": ticket.until,
        "ticket": ticket.signature.hex(),
        "bootstraps": bootstraps,
    }
