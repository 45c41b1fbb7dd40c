"""Enrolment of a node or a peer: it makes its key, sends a request with the public half, is
invited, and joins with its users' rows.

    node      identity(folder, name)              -> request.json, which may be shown to anybody
    operator  founding.found_federation(...)      -> the operator's folder, and an invitation for
                                                     each request
    node      join(folder, invitation, rows)      -> the node's folder, ready to run
    node      accept(folder, invitation)          -> the same folder with a new ticket or
                                                     certificate

No private key leaves the machine on which it was made, and no row leaves the node.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from math import ceil, sqrt
from pathlib import Path
from typing import Any, Self

import msgspec
import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec import Struct

from entrenous.core.contract.protocols import some_visits
from entrenous.core.errors import InputError
from entrenous.core.files import copy_file, make_folder
from entrenous.core.keywords import at_least
from entrenous.core.printed import counted
from entrenous.core.registry.discover import lasting, short
from entrenous.core.types import Int32Array, Int64Array
from entrenous.data.interactions import Interactions, Vocabulary
from entrenous.privacy.protection import PAPER

from ..agreement.address import is_host, parted, port_of
from ..agreement.catalogue import ITEMS
from ..agreement.files import (
    IDENTITY,
    NODE_NAME,
    Hex32,
    Mark,
    NodeName,
    public_bytes,
    read_identity,
    read_json,
    write_identity,
    write_json,
)
from ..agreement.growth import current_items, current_terms
from ..agreement.invitation import INVITED, read_peer_invitation, read_server_invitation
from ..agreement.members import MEMBER, Member, OwnEntry
from ..agreement.terms import TERMS, FederationTerms
from ..node.node_store import NODE, STORE, NodeStore, check_times
from ..secure_sum.party_list import in_days
from ..secure_sum.terms import Floors
from ..wire.completed import completed
from .plans import JoinPlan

REQUEST = "request.json"
LONGEST = 56  # characters of an address


@completed
class EnrolmentRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """A request to take part."""

    name: NodeName
    """The name by which the operator knows the node."""
    key: Hex32
    """The node's Ed25519 public key."""
    listen: str = ""
    """HOST:PORT on which a peer listens."""
    advertise: tuple[str, ...] = ()
    """HOST:PORT that other peers are told instead of `listen`."""
    shop: Mark = ""

    @classmethod
    def read(cls, path: Path) -> Self:
        """Reads a request from a file. Raises InputError that names the file."""
        fields = read_json(path)
        with suppress(msgspec.ValidationError):
            request = msgspec.convert(fields, cls)
            # Addresses go into invitations, so other peers would dial whatever stands here.
            if all(_is_address(address) for address in (request.listen, *request.advertise)):
                return request
        raise InputError(
            str(path),
            "not a request to take part",
            expected="name and key",
            fix="make it on the node with `entrenous federation identity`",
        )

    @property
    def addresses(self) -> tuple[str, ...]:
        """The addresses at which other peers reach this one; () if it names no port."""
        addresses = self.advertise or (self.listen,)
        return tuple(address for address in addresses if address and not address.endswith(":0"))

    def member(self, start: int, count: int, until: int = 0) -> Member:
        """Returns the node as a member with the users `start` to `start + count - 1`. Raises
        InputError for a count below 1."""
        at_least(f"users of {self.name}", count, 1)
        return Member(self.name, self.key, start, start + count - 1, self.shop, until)


def _is_address(address: str) -> bool:
    """Returns whether a text is empty, or HOST:PORT that fits into the record of a peer."""
    host, digits = parted(address)
    if not address:
        return True
    return is_host(host) and port_of(digits) is not None and len(address) <= LONGEST


def identity(
    folder: Path, name: str, listen: str = "", advertise: tuple[str, ...] = (), shop: str = ""
) -> EnrolmentRequest:
    """Makes a node's key, readable by its owner alone, and request.json with the public half.
    listen, advertise: of a peer. shop: as of `EnrolmentRequest`.

    Raises InputError for a name or an address that no node may have, and for a folder that has a
    key already.
    """
    if not NODE_NAME.fullmatch(name.encode()):
        raise InputError("--name", f"got {name!r}", expected="1 to 64 of a-z, 0-9, - and .")
    options = [("--listen", listen)] + [("--advertise", address) for address in advertise]
    for option, address in options:
        if not _is_address(address):
            expected = "HOST:PORT, such as 10.0.0.7:9411"
            raise InputError(option, f"got {address!r}", expected=expected)
    make_folder(folder, mode=0o700)
    key = Ed25519PrivateKey.generate()
    write_identity(folder / IDENTITY, key)
    request = EnrolmentRequest(name, public_bytes(key).hex(), listen, advertise, shop)
    write_json(folder / REQUEST, msgspec.to_builtins(request))
    return request


def join(
    folder: Path,
    invitation: Path,
    rows: Interactions,
    plan: JoinPlan,
    tell: Callable[[str], None] = lambda line: None,
) -> Int64Array:
    """Accepts an invitation: completes the node's folder with its users' rows, whose items get the
    federation's numbers.

    tell: is called with the lines of `told` before anything is written. Returns the federation's
    numbers of rows.users, int64. Raises InputError for an invitation that is another node's or for
    another number of users, for terms that the plan does not allow, and for rows of items that are
    not on the list.
    """
    terms = FederationTerms.read(invitation / TERMS)
    request = EnrolmentRequest.read(folder / REQUEST)
    key = public_bytes(read_identity(folder / IDENTITY))
    users = invited(invitation, terms, request, key)
    if (folder / STORE).exists():
        raise InputError(
            str(folder), "has joined already", fix="leave --data out, to take a new invitation up"
        )
    # The server asks for the users that the list of members has, no more and no fewer.
    if len(rows.users) != len(users):
        fix = "give each of them a peer"
        if terms.has_server:
            fix = f"ask the operator for {len(rows.users)}"
        expected = f"{len(users)}, as '{request.name}' was invited with"
        raise InputError(rows.name, counted(len(rows.users), "user"), expected=expected, fix=fix)
    check_terms(invitation, terms, plan, len(users))
    # All refusals come before the first write: a node that may not join is left as it was.
    items = current_items(invitation, terms).items.vocabulary
    joined = with_items(rows, items.indices(rows.items.ids.tolist()), items)
    for line in told(invitation, plan.algorithm):
        tell(line)
    NodeStore.create(folder / STORE, joined, users).close()
    take(folder, invitation)
    about: dict[str, Any] = {"name": request.name}
    if terms.has_server:
        floors = Floors(plan.people, plan.occupancy)
        about |= {
            "floors": asdict(floors),
            "own": dict(plan.own),
            "least_users": plan.least_users,
            "algorithm": lasting(plan.algorithm) if plan.algorithm else "",
            **of_server(invitation),
        }
    else:
        about |= {"listen": request.listen or "0.0.0.0:0", "advertise": request.advertise}
    write_json(folder / NODE, about)
    return users


def check_terms(invitation: Path, terms: FederationTerms, plan: JoinPlan, users: int) -> None:
    """Raises InputError for terms that an owner's plan for so many users does not allow, whoever is
    a member, and for a plan that makes no sense.
    """
    at_least("--people", plan.people, 1)
    if not plan.occupancy >= 0:
        raise InputError("--occupancy", f"got {plan.occupancy:g}", expected="a number from 0")
    if not 1 <= plan.least_users <= users:
        expected = f"1 to {users}, the node's users"
        raise InputError("--least-users", f"got {plan.least_users}", expected=expected)
    _check_masks(invitation, terms, plan)
    if terms.masked:
        # A device holds the people of a sum against those before, and cannot for several.
        if users != 1:
            problem = f"is for {users} users, and under masks each has a device"
            fix = "join by a link, which makes one for each customer of a shop"
            raise InputError(str(invitation), problem, expected="one user", fix=fix)
        _check_reach(terms, plan)
    if not plan.public_draws:
        _check_draws(invitation, terms)
    check_epsilon(invitation, terms, plan.epsilon, plan.people)
    terms.check(plan.own, plan.algorithm)


def _check_masks(invitation: Path, terms: FederationTerms, plan: JoinPlan) -> None:
    """Raises InputError, with what can be read, for terms under which others can read what this
    node sends, unless its owner said that they may.
    """
    profile = terms.open_profile
    if profile and plan.profile not in (profile, PAPER):
        raise InputError(
            str(invitation),
            terms.limits(plan.algorithm),
            expected="masks" if terms.has_server else "noise",
            fix=f"--profile {profile}, in Python profile='{profile}', joins all the same",
        )


def _check_reach(terms: FederationTerms, plan: JoinPlan) -> None:
    """Raises InputError if hardly any sum of the terms has as many people as the owner insists on:
    the node would send nothing in any round.
    """
    # A lot draws more than two standard deviations above the mean in one round of forty.
    most = terms.in_sum + 2 * sqrt(terms.in_sum)
    if Floors(plan.people).unmet(most) is None:
        return
    raise InputError(
        "--people",
        f"{plan.people}, and a sum here has {ceil(terms.in_sum)} people: this node would send"
        " nothing, in any round",
        fix=(
            f"--people {terms.protection.people}, as the terms say, if so few hide enough for you;"
            " or do not join"
        ),
    )


def _check_draws(invitation: Path, terms: FederationTerms) -> None:
    """Raises InputError for terms under which others can repeat the draws of devices, or subtract
    their noise."""
    allow = "ask the operator why; --public-draws allows it"
    if terms.draws == "public":
        raise InputError(
            str(invitation),
            "its draws are public: others can repeat what devices draw, and so undo what drawing"
            " hides",
            expected="secret draws",
            fix=allow,
        )
    if terms.protection.noise and terms.protection.noise_from == "seed":
        raise InputError(
            str(invitation),
            "its noise is from the seed: whoever knows that subtracts it",
            expected="noise_from=system",
            fix=allow,
        )


def check_epsilon(
    invitation: Path,
    terms: FederationTerms,
    most: float | None,
    people: int,
) -> None:
    """Raises InputError for terms that prove no epsilon for a user, or a larger one than the owner
    allows, in sums over `people` users.

    most: the owner's epsilon; None = no bound."""
    if most is None:
        return
    if not most > 0:
        raise InputError("--epsilon", f"got {most:g}", expected="a number above 0")
    proven = terms.proven(people)
    if proven is None:
        problem = "its terms prove no epsilon"
    elif proven > most:
        problem = f"its {terms.sums} rounds may spend epsilon {proven:.4g}"
    else:
        return
    fix = "ask the operator for more noise, a shorter clip or fewer rounds"
    # Every sum has as many people as the terms say, of whom the owner may count on more.
    least = terms.protection.people
    told = None
    if least > people:
        told = terms.proven(least)
    if told is not None and told <= most:
        fix = f"--people {least}, if you believe that as many add their noise; or {fix}"
    raise InputError(
        str(invitation),
        problem,
        expected=f"at most {most:g} at delta {terms.protection.delta:g}",
        fix=fix,
    )


def accept(folder: Path, invitation: Path) -> None:
    """Accepts a further invitation for a node that has joined, with a new ticket, address or
    certificate.

    Raises InputError for an invitation to another federation, for another key, or for other
    users.
    """
    terms = FederationTerms.read(invitation / TERMS)
    about = read_json(folder / NODE)
    # The hash of the terms is the federation: with other terms, the owner's decisions would hold
    # for something that the owner has never seen.
    if terms.run != FederationTerms.read(folder / TERMS).run:
        raise InputError(
            str(invitation),
            "is to another federation",
            fix="make a new folder with `entrenous federation identity`",
        )
    key = public_bytes(read_identity(folder / IDENTITY))
    users = invited(invitation, terms, EnrolmentRequest.read(folder / REQUEST), key)
    with closing(NodeStore(folder / STORE)) as store:
        same = np.array_equal(users, store.users)
    if not same:
        raise InputError(
            str(invitation), "is for other users than this node's", fix="ask the operator why"
        )
    take(folder, invitation)
    write_json(folder / NODE, about | (of_server(invitation) if terms.has_server else {}))


def invited(
    invitation: Path, terms: FederationTerms, request: EnrolmentRequest, key: bytes
) -> Int64Array:
    """Returns the numbers of the users for whom the owner of `key` is invited, who made a request.
    Raises InputError if it is not invited.
    """
    # An invitation that was sent to another node, or changed on its way, is found out here: by the
    # key in the log of members, or by the operator's signature of the ticket.
    if terms.has_server:
        own = OwnEntry.read(invitation / MEMBER)
        member = own.member
        # With the mark that it asked for: without it a shop could be counted as many people.
        asked = (request.name, key.hex(), request.shop)
        # Before there is memory for its users.
        exists = member.last < terms.users
        if exists and (member.name, member.key, member.shop) == asked and own.is_proven():
            return member.users
    else:
        ticket = read_peer_invitation(invitation).signed()
        if ticket.is_for(key, bytes.fromhex(terms.operator), terms.run_bytes):
            return np.array([ticket.number])
    raise InputError(
        str(invitation),
        f"is not for '{request.name}' with this key and mark",
        fix="ask the operator with this folder's request.json",
    )


def take(folder: Path, invitation: Path) -> None:
    """Copies the files of an invitation that a node needs into its folder."""
    for part in INVITED:
        # A node that lives knows more items and members than an old invitation.
        known = part in (ITEMS, MEMBER) and (folder / part).exists()
        if (invitation / part).exists() and invitation != folder and not known:
            copy_file(invitation / part, folder / part)


def of_server(invitation: Path) -> dict[str, Any]:
    """Returns the fields of node.json about the server. Nothing else of an invitation goes into
    that file: the rest is decided by the owner."""
    where = read_server_invitation(invitation)
    return {"server": where.server, "tls": where.tls}


def told(invitation: Path, place: str = "") -> list[str]:
    """Returns lines for an owner on what the node agrees to by accepting an invitation. place: the
    file of the owner's own algorithm. Raises InputError for a malformed invitation."""
    terms = current_terms(invitation)
    settings = ", ".join(f"{name}={value}" for name, value in sorted(terms.settings.items()))
    name = short(terms.algorithm)
    algorithm = (
        f"algorithm {name}, settings {settings or 'as they come'}; what it reveals:"
        f" entrenous explain {name}"
    )
    draws = "draws=secret: from a number of this node's own"
    if terms.draws == "public":
        others = "the server" if terms.has_server else "everybody"
        draws = (
            f"draws=public: {others} can repeat what devices draw, and so undo what drawing hides"
        )
    if not terms.has_server:
        peer = read_peer_invitation(invitation)
        end = datetime.fromtimestamp(peer.until, UTC)
        where = f"peer {peer.number} of {terms.users}, no server; the ticket ends on {end:%Y-%m-%d}"
        pushes = f"{terms.items} items, a push each {terms.period:g} s"
        return [f"run {terms.run}, {where}", algorithm, pushes, draws, terms.limits()]
    server = read_server_invitation(invitation)
    where = f"server {server.server}, {'with' if server.tls else 'WITHOUT'} TLS"
    answers = ""
    if terms.masked:
        own = terms.protection
        answers = f", {own.answers} answers of this node at most{in_days(own.days)}"
    rounds = "rounds without end" if terms.endless else f"{terms.rounds} rounds"
    sizes = f"{rounds}{answers}, {terms.users} users, {terms.items} items"
    limits = [terms.limits(place), *terms.reveals(place)]
    return [f"run {terms.run}, {where}", algorithm, sizes, draws, *limits]


def with_items(rows: Interactions, place: Int32Array, items: Vocabulary) -> Interactions:
    """Returns the same rows, renumbered to the federation's items.

    place: int [rows.items], the federation's number of each item, -1 = none. Raises InputError for
    rows of items that the federation does not have, and of the future.
    """
    item = place[rows.item]
    unknown = np.flatnonzero(item < 0)
    if len(unknown):
        first = rows.items[int(rows.item[unknown[0]])]
        raise InputError(
            rows.name,
            f"{len(unknown)} rows of items that are not on the federation's list, such as"
            f" '{first}'",
            fix="leave these rows out, or ask the operator for a list that has them",
        )
    if rows.time is not None:
        check_times(rows.name, rows.time)
    # A user's rows stand in the order of the items, as in every data set of this package.
    order = np.lexsort((item, rows.user))
    return replace(
        rows,
        item=item[order],
        value=rows.value[order],
        items=items,
        features={},
        time=None if rows.time is None else rows.time[order],
        row=None if rows.row is None else rows.row[order],
        visits=some_visits(rows.visits, order),
    )
