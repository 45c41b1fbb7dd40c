"""How a node or a peer comes to take part: it makes its key, asks with the public half, is invited,
and joins with its users' rows.

    node      identity(folder, name)              -> request.json, which may be shown to anybody
    operator  founding.found_federation(...)      -> the operator's folder, and an invitation for
    each request node      join(folder, invitation, rows)      -> the node's folder, ready to run
    node      rotate(folder)                      -> a request with a new key, signed by the old one
    node      accept(folder, invitation)          -> the same folder with a new key, ticket or
    certificate

No private key leaves the machine on which it was made, and no row the node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from ...core.errors import InputError, at_least
from ...core.files import copy_file, make_folder, rename_file
from ...core.registry.own import lasting, short
from ...core.types import Int32Array, Int64Array
from ...core.visits import some_visits
from ...core.vocabulary import Vocabulary
from ...data.interactions import Interactions
from ...privacy.secure_sum.terms import Floors
from ..agreement.address import is_host, port_of
from ..agreement.catalogue import ITEMS, Items
from ..agreement.files import read_json, write_json
from ..agreement.identity import (
    IDENTITY,
    is_name,
    is_signed,
    public_bytes,
    read_identity,
    write_identity,
)
from ..agreement.invitation import INVITED, read_peer_invitation, read_server_invitation
from ..agreement.members import MEMBERS, Member, Members
from ..agreement.terms import TERMS, FederationTerms
from ..node.node_store import NODE, STORE, NodeStore

REQUEST, NEXT = "request.json", "next.key"
LONGEST = 56  # characters of an address
ROTATION = b"entrenous new key 1\0"  # begins what an old key signs for a new one


class EnrolmentRequest(NamedTuple):
    """A request to take part. key: Ed25519, hexadecimal. listen, advertise: HOST:PORT of a peer,
    and what others are told instead. replaces, signature: the key that a member had before, and its
    word for the new one.
    """

    name: str
    key: str
    listen: str = ""
    advertise: tuple[str, ...] = ()
    replaces: str = ""
    signature: str = ""

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a request from a file. Raises InputError that names the file."""
        found = read_json(path)
        try:
            request = cls(**{**found, "advertise": tuple(found.get("advertise", ()))})
            known = is_name(request.name.encode("ascii")) and len(bytes.fromhex(request.key)) == 32
            known &= all(_is_address(one) for one in (request.listen, *request.advertise))
        except (AttributeError, TypeError, ValueError):
            known = False
        if not known:
            fix = "make it on the node with `entrenous federation identity`"
            raise InputError(
                str(path), "not a request to take part", expected="name and key", fix=fix
            )
        return request

    @property
    def addresses(self) -> tuple[str, ...]:
        """The addresses at which other peers reach this one; () if it names no port."""
        return tuple(
            one for one in self.advertise or (self.listen,) if one and not one.endswith(":0")
        )

    def member(self, start: int, count: int, until: int = 0) -> Member:
        """The entry of this node in the membership list, with `count` users from number `start`.
        Raises InputError for a count below 1."""
        at_least(f"users of {self.name}", count, 1)
        return Member(
            Ed25519PublicKey.from_public_bytes(bytes.fromhex(self.key)),
            np.arange(start, start + count),
            until,
        )

    def is_by_owner_of(self, key: str, run: str) -> bool:
        """Whether the owner of a key, hexadecimal, asks to replace it in the federation `run`."""
        try:
            signature = bytes.fromhex(self.signature)
        except (TypeError, ValueError):
            return False
        return self.replaces == key and is_signed(
            bytes.fromhex(key), signature, _rotation(run, self.name, self.key)
        )


def _is_address(one: str) -> bool:
    """Whether a text is HOST:PORT, no longer than a record of a peer can hold; or empty."""
    host, _, port = one.rpartition(":")
    known = is_host(host.removeprefix("[").removesuffix("]")) and port_of(port) is not None
    return not one or (known and len(one) <= LONGEST)


def _rotation(run: str, name: str, key: str) -> bytes:
    return ROTATION + f"{run} {name} {key}".encode()


def identity(
    folder: Path, name: str, listen: str = "", advertise: tuple[str, ...] = ()
) -> EnrolmentRequest:
    """Make a node's key, readable by its owner alone, and request.json with the public half.
    listen, advertise: of a peer.

    Raises InputError for a name or an address that no node may have, and for a folder that has a
    key already.
    """
    if not is_name(name.encode()):
        raise InputError("--name", f"got {name!r}", expected="1 to 64 of a-z, 0-9, - and .")
    for option, one in (("--listen", listen), *(("--advertise", one) for one in advertise)):
        if not _is_address(one):
            raise InputError(option, f"got {one!r}", expected="HOST:PORT, such as 10.0.0.7:9411")
    make_folder(folder, mode=0o700)
    request = EnrolmentRequest(name, _new_key(folder / IDENTITY), listen, advertise)
    write_json(folder / REQUEST, request._asdict())
    return request


def _new_key(path: Path) -> str:
    """Write a new key. Returns its public half, hexadecimal."""
    key = Ed25519PrivateKey.generate()
    write_identity(path, key)
    return public_bytes(key).hex()


def rotate(folder: Path) -> EnrolmentRequest:
    """Make a new key for a node that has joined, and a request for it that its old key has signed.
    The old one counts until an invitation for the new one is accepted. Raises InputError for a
    folder that waits for such an invitation already.
    """
    terms, old = FederationTerms.read(folder / TERMS), read_identity(folder / IDENTITY)
    before, key = EnrolmentRequest.read(folder / REQUEST), _new_key(folder / NEXT)
    signature = old.sign(_rotation(terms.run, before.name, key)).hex()
    request = before._replace(key=key, replaces=public_bytes(old).hex(), signature=signature)
    write_json(folder / REQUEST, request._asdict())
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
    public_draws: bool = False,
    epsilon: float | None = None,
) -> Int64Array:
    """Takes an invitation up: the node's folder with its users' rows, whose items are called as in
    the federation. Returns the federation's numbers of rows.users, int64. floors: what the node
    insists on in secure sums; own: settings that are the user's to decide, such as FPL's pi;
    algorithm: the place of the federation's algorithm, where that is none of `entrenous
    algorithms`; least_users: of whom one answer must be; tell: is given the lines of `told`, before
    anything is written; public_draws: whether the node's owner lets its devices draw from the
    federation's seed; epsilon: the most of differential privacy that each user may give up over all
    rounds, None = the owner sets no bound.

    Raises InputError for an invitation that is another node's or for another number of users, for
    terms with public draws that the owner does not allow, and for rows of items not on the list.
    """
    terms, request = (
        FederationTerms.read(invitation / TERMS),
        EnrolmentRequest.read(folder / REQUEST),
    )
    users = invited(invitation, terms, request.name, public_bytes(read_identity(folder / IDENTITY)))
    if (folder / STORE).exists():
        raise InputError(
            str(folder), "has joined already", fix="leave --data out, to take a new invitation up"
        )
    if len(rows.users) != len(users):
        fix = (
            f"ask the operator for {len(rows.users)}"
            if terms.has_server
            else "give each of them a peer"
        )
        expected = f"{len(users)}, as '{request.name}' was invited with"
        raise InputError(rows.name, f"{len(rows.users)} users", expected=expected, fix=fix)
    if terms.draws == "public" and not public_draws:
        problem = (
            "its draws are public: others can repeat what devices draw, and so undo what drawing"
            " hides"
        )
        raise InputError(
            str(invitation),
            problem,
            expected="secret draws",
            fix="ask the operator why; --public-draws allows it",
        )
    if terms.protection.noise and terms.protection.noise_from == "seed" and not public_draws:
        problem = "its noise is from the seed: whoever knows that subtracts it"
        raise InputError(
            str(invitation),
            problem,
            expected="noise_from=system",
            fix="ask the operator why; --public-draws allows it",
        )
    if not 1 <= least_users <= len(users):
        raise InputError(
            "--least-users", f"got {least_users}", expected=f"1 to {len(users)}, the node's users"
        )
    check_epsilon(invitation, terms, epsilon, (floors or Floors()).people)
    items = Items.read(invitation / ITEMS, terms.items_sha256).vocabulary
    terms.check(own, algorithm)
    joined = with_items(rows, items.indices(rows.items.ids.tolist()), items)
    for line in told(invitation, algorithm):
        tell(line)
    NodeStore.create(folder / STORE, joined, users).close()
    take(folder, invitation)
    about: dict[str, Any] = {"name": request.name}
    if terms.has_server:
        about |= {
            "floors": asdict(floors or Floors()),
            "own": dict(own or {}),
            "least_users": least_users,
            "epsilon": epsilon,
            "algorithm": lasting(algorithm) if algorithm else "",
            **of_server(invitation),
        }
    else:
        about |= {"listen": request.listen or "0.0.0.0:0", "advertise": request.advertise}
    write_json(folder / NODE, about)
    return users


def check_epsilon(
    invitation: Path,
    terms: FederationTerms,
    most: float | None,
    people: int,
    sums: int | None = None,
) -> None:
    """Refuses terms by which a user gives up more than the owner allows, as far as sums of so many
    people prove. sums: that may leave a node; None = as many as the terms say."""
    if most is None:
        return
    if not most > 0:
        raise InputError("--epsilon", f"got {most:g}", expected="a number above 0")
    sums = terms.sums if sums is None else sums
    proven = terms.proven(people, sums)
    if proven is None or proven > most:
        problem = (
            "its terms prove no epsilon"
            if proven is None
            else f"its {sums} rounds may spend epsilon {proven:.4g}"
        )
        fix = "ask the operator for more noise, a shorter clip or fewer rounds"
        raise InputError(
            str(invitation),
            problem,
            expected=f"at most {most:g} at delta {terms.protection.delta:g}",
            fix=fix,
        )


def accept(folder: Path, invitation: Path) -> None:
    """Takes a new invitation up for a node that has joined: after `rotate`, or with a new ticket,
    address or certificate.

    Raises InputError for an invitation to another federation, for another key, or for other
    users.
    """
    terms, about = FederationTerms.read(invitation / TERMS), read_json(folder / NODE)
    if terms.run != FederationTerms.read(folder / TERMS).run:
        raise InputError(
            str(invitation),
            "is to another federation",
            fix="make a new folder with `entrenous federation identity`",
        )
    rotated = (folder / NEXT).exists()
    key = public_bytes(read_identity(folder / (NEXT if rotated else IDENTITY)))
    users = invited(invitation, terms, str(about["name"]), key)
    store = NodeStore(folder / STORE)
    mine = store.users
    store.close()
    if not np.array_equal(users, mine):
        raise InputError(
            str(invitation), "is for other users than this node's", fix="ask the operator why"
        )
    take(folder, invitation)
    if rotated:
        rename_file(folder / NEXT, folder / IDENTITY)
    write_json(folder / NODE, about | (of_server(invitation) if terms.has_server else {}))


def invited(invitation: Path, terms: FederationTerms, name: str, key: bytes) -> Int64Array:
    """The numbers of the users with whom the owner of `key` is invited. Raises InputError where it
    is not.
    """
    if terms.has_server:
        member = Members.read(invitation / MEMBERS, terms.users).nodes.get(name)
        users = (
            member.users if member is not None and member.key.public_bytes_raw() == key else None
        )
    else:
        ticket = read_peer_invitation(invitation).signed()
        users = (
            np.array([ticket.number])
            if ticket.is_for(key, bytes.fromhex(terms.operator), terms.run_bytes)
            else None
        )
    if users is None:
        raise InputError(
            str(invitation),
            f"is not for '{name}' with this key",
            fix="ask the operator with this folder's request.json",
        )
    return users


def take(folder: Path, invitation: Path) -> None:
    """Copy what a node needs of an invitation into its folder."""
    for part in INVITED:
        if (invitation / part).exists() and invitation != folder:
            copy_file(invitation / part, folder / part)


def of_server(invitation: Path) -> dict[str, Any]:
    """What node.json says of the server: the one thing that a node takes from outside into it."""
    where = read_server_invitation(invitation)
    return {"server": where.server, "tls": where.tls}


def told(invitation: Path, place: str = "") -> list[str]:
    """What a node agrees to by taking an invitation up, in lines for its owner. place: of an
    algorithm of the owner's own. Raises InputError."""
    terms = FederationTerms.read(invitation / TERMS)
    settings = (
        ", ".join(f"{name}={value}" for name, value in sorted(terms.settings.items()))
        or "as they come"
    )
    others = "the server" if terms.has_server else "everybody"
    draws = {
        "public": f"public: {others} can repeat what devices draw, and so undo what drawing hides",
        "secret": "secret: from a number of this node's own",
    }[terms.draws]
    lines = [
        f"algorithm {short(terms.algorithm)}, settings {settings}; what it reveals: entrenous"
        f" explain {short(terms.algorithm)}"
    ]
    if not terms.has_server:
        found = read_peer_invitation(invitation)
        end = datetime.fromtimestamp(found.until, UTC)
        where = (
            f"peer {found.number} of {terms.users}, no server; the ticket ends on {end:%Y-%m-%d}"
        )
        pushes = f"{terms.items} items, a push each {terms.period:g} s"
        return [f"run {terms.run}, {where}", *lines, pushes, f"draws={draws}", terms.limits()]
    server = read_server_invitation(invitation)
    where = f"server {server.server}, {'with' if server.tls else 'WITHOUT'} TLS"
    more = f" (or {terms.sums} with lost ones)" if terms.masked else ""
    sizes = f"{terms.rounds} rounds{more}, {terms.users} users, {terms.items} items"
    limits = [terms.limits(place), *terms.reveals(place)]
    return [f"run {terms.run}, {where}", *lines, sizes, f"draws={draws}", *limits]


def with_items(rows: Interactions, place: Int32Array, items: Vocabulary) -> Interactions:
    """The same rows, renumbered to the federation's items. place: int [rows.items], the
    federation's number of each item, -1 = none. Raises InputError for rows of items that the
    federation does not have.
    """
    unknown = int((place[rows.item] < 0).sum()) if len(rows) else 0
    if unknown:
        first = rows.items[int(rows.item[int(np.argmax(place[rows.item] < 0))])]
        fix = "leave these rows out, or ask the operator for a list that has them"
        raise InputError(
            rows.name,
            f"{unknown} rows of items that are not on the federation's list, such as '{first}'",
            fix=fix,
        )
    order = np.lexsort((place[rows.item], rows.user))
    time, row = (None if column is None else column[order] for column in (rows.time, rows.row))
    item, value, visits = (
        place[rows.item][order],
        rows.value[order],
        some_visits(rows.visits, order),
    )
    return replace(
        rows, item=item, value=value, items=items, features={}, time=time, row=row, visits=visits
    )
