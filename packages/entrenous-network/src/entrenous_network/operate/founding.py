"""Founds a federation: writes its terms, its operator's folder and an invitation for each node.
`found` makes a whole federation on this machine, to try it.

FOLDER/server        with a server: terms, members, items, key and certificate; `entrenous server`
                     runs it
FOLDER/operator      without a server: terms, members, items, and the key that signs tickets, which
                     is needed only to invite and to shut out
FOLDER/invitations   a folder for each node, to be sent to it
"""

from __future__ import annotations

import secrets
import shutil
import socket
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import ceil, sqrt
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from entrenous.core.compiling import warn_if_slow
from entrenous.core.contract.declared import Contract, declared, is_gossip
from entrenous.core.contract.protocols import Catalogue
from entrenous.core.errors import EntrenousWarning, InputError
from entrenous.core.files import make_folder, write_atomically, write_text
from entrenous.core.keywords import at_least
from entrenous.core.printed import counted
from entrenous.core.registry.discover import is_place, lasting, short
from entrenous.core.registry.program import source_sha256
from entrenous.data.interactions import Interactions
from entrenous.privacy.protection import (
    DP,
    PRIVATE,
    PROTECT,
    ROBUST,
    ProtectionInForce,
    protection_of,
)
from entrenous.runs import store
from entrenous.runs.plan import algorithm_of, with_set
from entrenous.systems.named import kind_of

from ..agreement.address import is_host, joined_address
from ..agreement.catalogue import ITEMS, Items
from ..agreement.certificates import make_keys
from ..agreement.files import (
    IDENTITY,
    json_text,
    new_lines,
    public_bytes,
    read_identity,
    read_json,
    write_identity,
    write_json,
)
from ..agreement.growth import listed
from ..agreement.invitation import BOOTSTRAPS, INVITATION
from ..agreement.members import MEMBER, MEMBERS, Member, Members
from ..agreement.notice import known_addresses
from ..agreement.terms import MOST_USERS, OWN, TERMS, FederationTerms
from ..agreement.tickets import Ticket, ends
from ..frames.contribution import contract_of
from ..server.server_folder import FIRST
from .bounded import (
    NOT_KNOWN,
    first_protection,
    taking_part,
    with_answers,
    with_epsilon,
    with_protection,
)
from .enrolment import (
    EnrolmentRequest,
    identity,
    join,
)
from .first_model import FirstModel, first_model
from .plans import GOSSIPING, FoundingPlan, JoinPlan

PORT = 8443
EVERYWHERE = "0.0.0.0", "::", ""
SERVER = "server"
OPERATOR = "operator"
PLACE = "place.json"
# Each request with the number of users that its node may have; a peer has one.
Requests = Sequence[tuple[EnrolmentRequest, int]]


class FoundedFederation(NamedTuple):
    """The folders of a new federation."""

    terms: FederationTerms
    server: Path
    """The operator's folder, also of a federation of peers."""
    nodes: dict[str, Path]
    """The folder of each node by name; of a node that is yet to join, its invitation."""
    known: int | None = None
    """The number of items that the first model was trained on; None = it is a new one."""


class Place(NamedTuple):
    """The address of a server."""

    host: str = "127.0.0.1"
    """The server listens on this address; 0.0.0.0 = every address of the machine."""
    port: int = PORT
    names: tuple[str, ...] = ()
    """Host names and addresses in the certificate; nodes use the first."""
    tls: bool = True
    """True if nodes reach the server by TLS."""
    proxy: str = ""
    """The address of a proxy in front of the server; "" = none."""

    def checked(self) -> Self:
        """Returns this place with at least one name. Raises InputError if the server listens at
        every address and no name is given by which nodes could reach it, and for what is no host.
        """
        if not self.names and self.host in EVERYWHERE:
            raise InputError(
                "--name",
                f"missing, with --host {self.host}",
                expected="the host name or address by which nodes reach the server",
                fix="add --name shop.example",
            )
        whole = self._replace(names=tuple(self.names) or (self.host,))
        for name in (*whole.names, self.host or "::"):
            if not is_host(name):
                expected = "a host name or an IP address, such as shop.example or 10.0.0.7"
                raise InputError("--name, --host", f"got {name!r}", expected=expected)
        return whole

    @property
    def reached(self) -> str:
        """The address HOST:PORT that nodes are given for the server."""
        name = self.names[0]
        return joined_address(name, self.port)


def found_federation(
    folder: Path,
    items: Items,
    requests: Requests,
    plan: FoundingPlan,
    place: Place | None = None,
) -> FoundedFederation:
    """Makes the operator's folder, and an invitation for each node that asked.

    place: the address of the server. Noise comes from the operating system's generator; with public
    draws, from the seed. Raises InputError for terms that make no sense, before anything is
    written, and for a folder that exists already.
    """
    operator = folder / (OPERATOR if plan.peers else SERVER)
    if operator.exists():
        raise InputError(
            str(operator),
            "there is a federation already",
            expected="a new folder",
            fix="choose another, or remove it",
        )
    if plan.endless and (plan.rounds or plan.peers):
        problem = "peers have no rounds" if plan.peers else f"{plan.rounds} rounds, and without end"
        raise InputError("--endless", problem, fix="leave one of them out")
    algorithm = plan.algorithm or (GOSSIPING if plan.peers else "")
    if plan.profile == ROBUST or plan.protect.get("defence", "none") != "none":
        problem = "a defence reads each update, and is measured in simulations alone"
        fix = f"`entrenous run {algorithm} --profile {ROBUST}` is one; found with private or paper"
        raise InputError(f"--profile {ROBUST}", problem, fix=fix)
    # The place of an algorithm that is none of `entrenous algorithms`.
    own = algorithm if is_place(algorithm) else ""
    users = plan.users or sum(count for _, count in requests)
    if not users:
        fix = "add --users, of all who may ever come, and make a link by which they do"
        raise InputError("--node", "nobody has asked to take part", expected="a request", fix=fix)
    kind, preset = kind_of(own or algorithm)
    if plan.profile == PRIVATE and not plan.peers:
        # A preset of few devices a round is another algorithm with more.
        has_cohort = "cohort" in kind.model_fields and not preset.get("cohort")
        plan = taking_part(plan, users, has_cohort)
    plan = _with_set(replace(plan, algorithm=algorithm), users, len(items.ids))
    # The terms name a class of the user's own by its name alone: nobody loads a file because terms
    # say so.
    plan = replace(plan, algorithm=f"{OWN}:{short(own)}" if own else algorithm)
    key = Ed25519PrivateKey.generate()
    # Every node gets the list of items, which holds no more than the algorithm needs.
    if not declared(kind).traits.learns_features:
        items = items._replace(features={})
    log = items.log
    terms = FederationTerms.parse(
        {
            **plan.terms(),
            **_protection(kind.parse(preset), plan),
            "users": min(users, MOST_USERS),
            "items": log.count,
            "items_root": log.tree.head.root.hex(),
            "algorithm_sha256": source_sha256(kind),
            "nonce": secrets.token_hex(8),
            "operator": public_bytes(key).hex(),
        },
        "terms",
    )
    if users > MOST_USERS:
        raise InputError("--users", f"got {users}", expected=f"at most {MOST_USERS}")
    terms.check(place=own)
    if terms.profile == DP:
        terms = with_epsilon(terms, plan, own)
    elif terms.masked:
        terms = with_answers(terms, plan, own)
    members = Members(terms.users)
    come = enrolled(terms, members, requests, ends(plan.days))
    if terms.masked and "bits" not in plan.protect:
        terms = _in_32_bits(terms, own)
    terms = _pinned(terms, own)
    if terms.protection.groups > 1:
        _check_groups(terms, contract_of(terms, own))
    if terms.has_server:
        about = (place or Place()).checked()._asdict()
    else:
        about = {"bootstraps": _bootstraps(requests, members)}
    first = None
    if plan.from_model:
        first = _first_model(plan, terms, items, own)
    founded = write_operator(operator, key, terms, items, own, come, about, first)
    sent = write_invitations(folder, members.nodes, members)
    return founded._replace(nodes=sent)


def _first_model(plan: FoundingPlan, terms: FederationTerms, items: Items, own: str) -> FirstModel:
    """Returns the model that a federation begins with. Raises InputError for one that does not fit,
    and for peers, who have none in common.
    """
    if not terms.has_server:
        problem = "peers have no model in common"
        raise InputError("--from-model", problem, fix="leave it out with --peers")
    if terms.protection.step:
        problem = "devices could not tell a model that was trained elsewhere from a designed one"
        fix = "leave it out, or add --protect step=0: then devices take any model"
        raise InputError("--from-model", problem, expected="a new model", fix=fix)
    return first_model(Path(plan.from_model), terms.make(place=own), terms, items)


def _with_set(plan: FoundingPlan, users: int, items: int) -> FoundingPlan:
    """Returns a plan with the set of its profile, and with the set's number of rounds if none was
    asked for.
    """
    # Sets are of sums, which peers do not have.
    if plan.peers:
        return plan
    whole = with_set(plan, users)
    if plan.rounds or whole.settings == plan.settings:
        return whole
    catalogue = Catalogue(users, items, plan.interactions, plan.scale)
    made: Any = algorithm_of(whole.algorithm, whole.settings, whole.profile)
    return replace(whole, rounds=made.configured(catalogue).default_rounds(catalogue))


def _in_32_bits(terms: FederationTerms, own: str) -> FederationTerms:
    """Returns terms whose masked sums have words of 32 bits, which halve an answer. Warns
    (EntrenousWarning) and returns the terms unchanged if sums do not fit these. own: the place
    of an algorithm of the user's own.
    """
    narrow = with_protection(terms, bits=32)
    try:
        narrow.check(place=own)
        ProtectionInForce(narrow.protection, contract_of(narrow, own))
    except InputError as why:
        warnings.warn(
            f"numbers in sums have 64 bits, not 32, and answers twice the bytes: {why.problem}",
            EntrenousWarning,
            stacklevel=2,
        )
        return terms
    return narrow


def _check_groups(terms: FederationTerms, contract: Contract) -> None:
    """Raises InputError for groups in which there are often too few people for a sum."""
    own = terms.protection
    mean = contract.cohort / own.groups
    # Two standard deviations below the mean, of a draw of few among many.
    fewest = mean - 2 * sqrt(mean)
    if fewest < own.people:
        raise InputError(
            f"{PROTECT} groups",
            f"{own.groups} groups of {contract.cohort} people in a round: one often has fewer than"
            f" the {own.people} of a sum",
            expected=f"a mean of {ceil((1 + sqrt(1 + own.people)) ** 2)} people in each",
            fix="fewer groups, or a larger --set cohort",
        )


def _pinned(terms: FederationTerms, own: str) -> FederationTerms:
    """Returns the terms with the pins of their algorithm. Warns (EntrenousWarning) if the algorithm
    cannot run in the test round. own: as of `_in_32_bits`.
    """
    warn_if_slow()
    pinned = terms.pinned(place=own)
    if pinned.pins is not None and not pinned.pins.test_round:
        warnings.warn(
            f"{short(terms.algorithm)}: it cannot be run in the fixed test round, so every node"
            " must have its very source, and an upgrade that changes it ends this",
            EntrenousWarning,
            stacklevel=3,
        )
    return pinned


def _protection(algorithm: Any, plan: FoundingPlan) -> dict[str, Any]:
    """Returns the field `protection` of the terms, none for peers. Raises InputError for a profile
    under which this algorithm was never measured.
    """
    traits = declared(algorithm).traits
    unmeasured = f"{short(plan.algorithm)} was not measured under it"
    if plan.peers:
        if plan.protect:
            raise InputError(
                PROTECT, "peers have no sums", fix="leave it out; --profile says how peers push"
            )
        measured = traits.private_settings or "push_noise" in plan.settings
        if plan.profile == PRIVATE and is_gossip(algorithm) and not measured:
            fix = (
                "try pepper-gmf, or --set push_noise=0.1 and measure it with `entrenous audit`;"
                " --profile paper limits nothing"
            )
            raise InputError("--profile private", unmeasured, fix=fix)
        return {}
    if plan.profile == DP:
        return {"protection": first_protection(plan.protect, traits)}
    across = {"noise_from": "seed" if plan.draws == "public" else "system"}
    if plan.profile == PRIVATE:
        across["answers"] = str(NOT_KNOWN)
    lost = round(1 - plan.quorum, 6)
    if lost:
        across["lost"] = str(lost)
    protection = protection_of(plan.profile, {**across, **plan.protect}, traits)
    return {"protection": protection.model_dump(mode="json")}


def write_operator(
    operator: Path,
    key: Ed25519PrivateKey,
    terms: FederationTerms,
    items: Items,
    own: str,
    members: Sequence[Member],
    about: Mapping[str, Any],
    first: FirstModel | None,
) -> FoundedFederation:
    """Writes the operator's own files, and a certificate if there is TLS, and returns them.

    operator: the operator's folder, which does not exist yet. about: the content of place.json.
    first: the model that it begins with; None = a new one.
    """
    make_folder(operator, mode=0o700)
    write_identity(operator / IDENTITY, key)
    write_text(operator / TERMS, terms.text())
    Members(terms.users).write(operator / MEMBERS, members)
    write_atomically(operator / ITEMS, items.lines)
    write_json(operator / PLACE, about)
    known = None
    if first is not None:
        store.write_arrays(operator / FIRST, first.arrays, run=terms.run)
        known = first.known
    if about.get("tls"):
        make_keys(operator / "keys", names=about["names"])
    if own:
        write_text(operator / "algorithm", lasting(own))
    return FoundedFederation(terms, operator, {}, known)


def must_be_new(folder: Path) -> None:
    """Raises InputError if the folder of a new federation has files already."""
    if folder.exists() and any(folder.iterdir()):
        raise InputError(
            str(folder), "is not empty", expected="a new folder", fix="choose another, or remove it"
        )


def found(
    folder: Path,
    train: Interactions,
    plan: FoundingPlan,
    *,
    nodes: int,
    owner: JoinPlan | None = None,
    place: Place | None = None,
) -> FoundedFederation:
    """Founds a whole federation on this machine: the users of `train` are divided among `nodes`
    nodes in order, or the first `nodes` users are peers. owner: how each joins; None = it agrees to
    all that the plan says.
    """
    at_least("--nodes", nodes, BOOTSTRAPS + 1 if plan.peers else 1)
    if nodes > len(train.users):
        raise InputError(
            "--nodes",
            f"got {nodes}",
            expected=f"at most {len(train.users)}, the users of {train.name}",
        )
    must_be_new(folder)
    if plan.peers:
        train = train.of_users(np.arange(nodes))
        # The addresses of the bootstraps are in every invitation, so these have fixed ports.
        listens = [f"127.0.0.1:{port}" for port in free_ports(BOOTSTRAPS, udp=True)]
        listens += ["127.0.0.1:0"] * (nodes - BOOTSTRAPS)
    else:
        listens = [""] * nodes
    plan = plan.with_catalogue(train.catalogue)
    names = node_names(nodes)
    shares = np.array_split(np.arange(len(train.users)), nodes)
    folders = {name: folder / "nodes" / name for name in names}
    requests = []
    try:
        for name, listen, share in zip(names, listens, shares, strict=True):
            request = identity(folders[name], name, listen)
            requests.append((request, len(share)))
        founded = found_federation(folder, Items.of(train), requests, plan, place)
    # Terms are refused when identities have been written already: nothing of them stays.
    except BaseException:
        shutil.rmtree(folder)
        raise
    if owner is None:
        owner = JoinPlan(profile="paper", people=founded.terms.fewest, public_draws=True)
    if is_place(plan.algorithm):
        owner = replace(owner, algorithm=plan.algorithm)
    for name, share in zip(names, shares, strict=True):
        join(folders[name], founded.nodes[name], train.of_users(share), owner)
    return founded._replace(nodes=folders)


def free_ports(count: int = 1, *, udp: bool = False) -> list[int]:
    """Returns ports of this machine that no program listens on at this moment."""
    kind = socket.SOCK_DGRAM if udp else socket.SOCK_STREAM
    # All sockets are open at once, so that no port is given twice.
    sockets = [socket.socket(socket.AF_INET, kind) for _ in range(count)]
    try:
        for opened in sockets:
            opened.bind(("127.0.0.1", 0))
        return [int(opened.getsockname()[1]) for opened in sockets]
    finally:
        for opened in sockets:
            opened.close()


def node_names(nodes: int) -> list[str]:
    """Returns names for `nodes` nodes: node-1, node-2, ..., padded with zeros to one width."""
    width = len(str(nodes))
    return [f"node-{number:0{width}d}" for number in range(1, nodes + 1)]


def enrolled(
    terms: FederationTerms, members: Members, requests: Requests, until: int
) -> list[Member]:
    """Adds the nodes that ask to the members, and returns them, numbered after all present and
    former ones.

    until: the second in which tickets of peers end. Raises InputError as `added` does.
    """
    come = []
    for request, count in requests:
        member = added(terms, members, request, count, 0 if terms.has_server else until)
        members.add(member)
        come.append(member)
    return come


def added(
    terms: FederationTerms, members: Members, request: EnrolmentRequest, count: int, until: int = 0
) -> Member:
    """Returns a new member with `count` users, who is not on the list yet. Raises InputError for a
    name or a key that is known, and if no number is left.
    """
    # A name or a key that came back would inherit what others know of its former owner.
    if members.is_known(request.name, request.key):
        raise InputError(
            "--node",
            f"'{request.name}' or its key is or was a node of this federation",
            fix="make a new folder with `entrenous federation identity` and another --name",
        )
    if count != 1 and (terms.masked or not terms.has_server):
        why = "a peer is one user's"
        if terms.masked:
            why = "under masks each device decides by itself; a shop joins by a link, with a device"
            why += " for each customer"
        raise InputError("--node", f"'{request.name}' with {count} users", expected=f"one: {why}")
    start = members.next_user
    if start + count > terms.users:
        raise InputError(
            "--node",
            f"'{request.name}' with {counted(count, 'user')}, and {terms.users - start} are left",
            expected=f"at most {terms.users}, as the terms say",
        )
    return request.member(start, count, until)


def _bootstraps(requests: Requests, members: Members) -> list[dict[str, Any]]:
    """Returns the first peers, whose addresses are in every invitation. Raises InputError if they
    are too few, or have no address.
    """
    at_least("--node, how often", len(requests), BOOTSTRAPS)
    bootstraps = []
    for request, _ in requests[:BOOTSTRAPS]:
        if not request.addresses:
            raise InputError(
                "--node",
                f"'{request.name}' is to be a bootstrap and has no port that others could know",
                fix=(
                    "name others first, or give it one: entrenous federation identity --listen"
                    " HOST:PORT"
                ),
            )
        number = members.nodes[request.name].first
        bootstraps.append({"number": number, "key": request.key, "addresses": request.addresses})
    return bootstraps


def operator_folder(folder: Path) -> Path:
    """Returns the operator's part of a federation's folder: server/, or operator/ for peers. Raises
    InputError if there is neither.
    """
    for name in (SERVER, OPERATOR):
        if (folder / name / TERMS).exists():
            return folder / name
    read_json(folder / SERVER / TERMS)  # raises the error that says what is missing
    return folder / SERVER


def write_invitations(folder: Path, names: Iterable[str], members: Members) -> dict[str, Path]:
    """Writes the folders to send to some members of the federation in `folder`, and returns them by
    name.
    """
    operator = operator_folder(folder)
    terms = FederationTerms.read(operator / TERMS)
    # What all of them get is made once: lists of thousands are long.
    common = _terms(operator) | items_of_invitation(operator)
    if terms.has_server:
        common |= parts_of_invitation(operator)
    sent = {}
    for name in names:
        invitation = folder / "invitations" / name
        make_folder(invitation)
        if terms.has_server:
            own = {MEMBER: members.own_entry(name)}
        else:
            bootstraps = read_json(operator / PLACE)["bootstraps"]
            where = _peer_invitation(operator, terms, members.nodes[name], bootstraps)
            own = {INVITATION: json_text(where)}
        for part, text in {**common, **own}.items():
            write_atomically(invitation / part, text.encode())
        sent[name] = invitation
    return sent


def parts_of_invitation(server: Path) -> dict[str, str]:
    """Returns the files of an invitation to a server's federation by their names, but for the
    items and the node's own entry. server: its folder.
    """
    place = read_json(server / PLACE)
    newest, *_ = known_addresses(server, Place(**place).reached)
    where = {"server": newest, "tls": place["tls"]}
    parts = {**_terms(server), INVITATION: json_text(where)}
    authority = server / "keys" / "ca.crt"
    # Without the file the certificate is of an authority that every system trusts.
    if place["tls"] and authority.exists():
        parts["ca.crt"] = authority.read_text(encoding="ascii")
    return parts


def items_of_invitation(operator: Path) -> dict[str, str]:
    """Returns the items of a federation, as the file of an invitation. operator: its folder."""
    # Without what the operator has added since, which the server has not made its own.
    return {ITEMS: new_lines(operator / ITEMS, 0, listed(operator)).decode()}


def _terms(operator: Path) -> dict[str, str]:
    return {TERMS: (operator / TERMS).read_text(encoding="utf-8")}


def _peer_invitation(
    operator: Path, terms: FederationTerms, member: Member, bootstraps: list[dict[str, Any]]
) -> dict[str, Any]:
    """Returns the content of a peer's invitation: its ticket, and the bootstraps with their present
    keys."""
    ticket = Ticket.sign(
        read_identity(operator / IDENTITY),
        terms.run_bytes,
        member.first,
        bytes.fromhex(member.key),
        member.until,
    )
    return {
        "number": member.first,
        "until": ticket.until,
        "ticket": ticket.signature.hex(),
        "bootstraps": bootstraps,
    }
