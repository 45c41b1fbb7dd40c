"""Changes of an existing federation: nodes come and go; certificates and tickets are renewed.

`folder` is the one that `founding.found_federation` made. A server at work takes up changes of its
lists before its next round. Peers learn of a key that was shut out by a signed list, which they
hand on (tickets.py).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from time import time

from msgspec.structs import replace

from entrenous.core.contract.declared import bound
from entrenous.core.errors import InputError
from entrenous.core.files import copy_file, rename_file
from entrenous.core.keywords import at_least
from entrenous.core.lock import changing

from ..agreement.catalogue import ITEMS, ItemLog, Items
from ..agreement.certificates import expiry, make_keys, names_of
from ..agreement.files import IDENTITY, read_identity
from ..agreement.growth import check_growing, current_items
from ..agreement.members import MEMBERS, Member, Members
from ..agreement.terms import TERMS, FederationTerms
from ..agreement.tickets import DAYS, MOST, REVOKED, RevocationList, ends
from ..node.node_store import STORE, NodeStore
from ..server import server_folder
from . import going_back
from .founding import (
    OPERATOR,
    PLACE,
    SERVER,
    Requests,
    enrolled,
    operator_folder,
    write_invitations,
)

PARTS = "server.crt", "server.key"


def invite(folder: Path, requests: Requests, days: float = DAYS) -> list[Path]:
    """Adds nodes to the members of an existing federation, and writes their invitations.
    days: the time for which the tickets of peers are valid.

    Raises InputError, before anything is written, for a name or key that is or was a member's, and
    for more users than the terms have room for.
    """
    with changing(operator_folder(folder)):
        operator, terms, members = _opened(folder)
        come = enrolled(terms, members, requests, ends(days))
        members.write(operator / MEMBERS, come)
    names = [request.name for request, _ in requests]
    return list(write_invitations(folder, names, members).values())


def change_items(folder: Path, more: Items | None = None, retired: Collection[str] = ()) -> ItemLog:
    """Adds items at the end of the list of a federation with a server, and retires some, which are
    recommended to nobody any more. Returns the new list. A server at work takes it up before its
    next round, and its nodes are told then.

    Raises InputError, before anything is written, for an item that is on the list already or is not
    on it, for peers, and for an algorithm whose devices keep numbers for each item.
    """
    operator, terms, _ = _opened(folder)
    if not terms.has_server:
        problem = "peers cannot tell each other of more items yet"
        raise InputError(str(folder), problem, expected="a federation of a server and its nodes")
    with changing(operator):
        items = current_items(operator, terms)
        # What the server has not made its own yet.
        items.follow(operator / ITEMS)
        lines = items.retiring(retired)
        if more is not None:
            lines += more.lines
        items.add(lines, "--add")
        longer = terms.with_items(items)
        own = server_folder.own_algorithm(operator)
        check_growing(bound(longer.make(place=own), longer.catalogue))
        items.write(operator / ITEMS, lines)
    return items


def shut_out(folder: Path, name: str) -> int:
    """Removes a node from the members; of peers, signs a list of revoked keys with its key.
    Returns the number of its users.

    Raises InputError for a name that is not in the list, and for the last node.
    """
    with changing(operator_folder(folder)):
        operator, terms, members = _opened(folder)
        member = members.nodes.get(name)
        if member is None:
            problem = f"no node '{name}' on the membership list"
            raise InputError("NAME", problem, expected=", ".join(list(members.nodes)[:8]))
        if len(members.nodes) == 1:
            raise InputError(
                "NAME",
                f"'{name}' is the only node",
                expected="a node of several",
                fix="stop the server instead",
            )
        _changed(operator, terms, members, [replace(member, is_out=True)])
    return len(member.users)


def renew_tickets(folder: Path, days: float = DAYS) -> list[Path]:
    """Writes invitations with tickets for further `days` for all peers. Each is to be sent to its
    peer, which accepts it.
    """
    with changing(operator_folder(folder)):
        operator, terms, members = _opened(folder)
        until = ends(days)
        renewed = [replace(member, until=until) for member in members.nodes.values()]
        _changed(operator, terms, members, renewed)
    return list(write_invitations(folder, members.nodes, members).values())


def renew_certificate(folder: Path, names: Sequence[str] = ()) -> tuple[datetime, bool]:
    """Makes a new certificate for the server, by the same authority, for the old names and `names`.
    The old pair stays as server.*.old.

    Returns the end of the certificate (UTC), and True if the authority is new too: that is so if
    ca.crt and ca.key were moved away, and all nodes then need the new ca.crt. Raises InputError if
    there is no certificate, or no ca.key to sign with; then nothing has changed.
    """
    keys = folder / SERVER / "keys"
    wanted = list(dict.fromkeys((*names_of(keys / "server.crt"), *names)))
    is_new_authority = not (keys / "ca.crt").exists()
    if not is_new_authority and not (keys / "ca.key").exists():
        fix = "bring it back for this, or move ca.crt away too to make a new authority"
        raise InputError(str(keys / "ca.key"), "is missing", fix=fix)
    # The old pair is moved away first, since `make_keys` overwrites nothing, and comes back if no
    # new pair can be made.
    for part in PARTS:
        rename_file(keys / part, keys / f"{part}.old")
    try:
        until = make_keys(keys, names=wanted)
    except BaseException:
        for part in PARTS:
            rename_file(keys / f"{part}.old", keys / part)
        raise
    # Invitations that have not been taken up yet must lead to the server too.
    for invitation in (folder / "invitations").glob("*/ca.crt"):
        copy_file(keys / "ca.crt", invitation)
    return until, is_new_authority


def certificate_ends(server: Path) -> datetime | None:
    """Returns the time (UTC) at which a server's certificate or its authority ends, whichever is
    sooner; None without a certificate."""
    if (server / "keys" / "server.crt").exists():
        return expiry(server / "keys")
    return None


def rewind(folder: Path, number: int) -> list[str]:
    """Goes back to the state after `number` rounds. Returns lines for people on what was done and
    what they have to do.

    A server, which must not be running, goes back to a round whose model it has kept. Without
    masks a node then answers a server that went back, with the node's newest private vectors; by
    itself a node refuses that, since it would repeat the random draws of those rounds. Under masks
    no round comes again (`going_back`).

    Raises InputError for a round to come or one not kept, and for a node under masks.
    """
    folder, terms = _of_rounds(folder, number)
    of_server = is_server(folder)
    if terms.masked and not of_server:
        problem = "no round of masked sums comes again, and its node goes on by itself"
        raise InputError(str(folder), problem, expected="the folder of a server")
    if terms.masked:
        before, following = going_back.go_back(folder, number)
        went = f"from {before} rounds back to {number}; the next one has the number {following}"
        return [f"{folder}: {went}", "nodes go on by themselves"]
    if of_server:
        before = going_back.rewind(folder, number)
        every = f"on every node: entrenous federation rewind NODE --rounds {number}"
        return [f"{folder}: from round {before} back to {number}; {every}"]
    with closing(NodeStore(folder / STORE)) as store:
        before = store.rewind(number)
    return [f"{folder}: from round {before} back to {number}, with the users' newest vectors"]


def _of_rounds(folder: Path, number: int) -> tuple[Path, FederationTerms]:
    """Returns the folder of the server if the operator's folder was named, else the folder, and the
    terms. Raises InputError for a federation of peers, and for a number below 0.
    """
    at_least("--rounds", number, 0)
    if (folder / SERVER / PLACE).exists():
        folder = folder / SERVER
    terms = FederationTerms.read(folder / TERMS)
    if not terms.has_server:
        expected = "the folder of a server, or of a node with one"
        raise InputError(str(folder), "peers have no rounds", expected=expected)
    return folder, terms


def to_do(folder: Path) -> str:
    """Returns the step by which a change of the membership list takes effect, as a line."""
    if is_server(folder):
        return "a server at work takes it up before its next round"
    revoked = folder / OPERATOR / REVOKED
    if revoked.exists():
        return f"put {revoked} into a peer's folder and start it again: peers hand it on"
    return "peers need not be told"


def is_server(folder: Path) -> bool:
    """Returns whether a folder is a server's, or the operator's with a server in it."""
    return any((place / PLACE).exists() for place in (folder, folder / SERVER))


def _opened(folder: Path) -> tuple[Path, FederationTerms, Members]:
    """Returns the operator's folder, the terms and the membership list of a federation."""
    operator = operator_folder(folder)
    terms = FederationTerms.read(operator / TERMS)
    return operator, terms, Members.read(operator / MEMBERS, terms.users)


def _changed(
    operator: Path, terms: FederationTerms, members: Members, changed: Sequence[Member]
) -> None:
    """Writes what has become of some members; for peers also the list of revoked keys. The caller
    holds the folder (`changing`).
    """
    for member in changed:
        members.add(member)
    revoked = None
    former = members.former
    # Signed before anything is written, since that fails for too many keys.
    if former and not terms.has_server:
        revoked = _revoked(operator, terms, former)
    members.write(operator / MEMBERS, changed)
    if revoked is not None:
        revoked.write(operator)


def _revoked(operator: Path, terms: FederationTerms, former: Sequence[Member]) -> RevocationList:
    """Returns the signed list of former keys whose tickets are still valid. Raises InputError for
    more keys than a list can have.
    """
    now = time()
    valid = [member for member in former if member.until > now]
    # The list travels in one frame.
    if len(valid) > MOST:
        first = datetime.fromtimestamp(min(member.until for member in valid), UTC)
        raise InputError(
            "NAME",
            f"{len(valid)} keys would be shut out whose tickets are still valid",
            expected=f"at most {MOST}",
            fix=f"wait until {first:%Y-%m-%d}, or found it anew",
        )
    keys = [bytes.fromhex(member.key) for member in valid]
    operator_key = read_identity(operator / IDENTITY)
    # The number of former keys only grows, so it tells which of two lists is newer.
    serial = len(former)
    return RevocationList.sign(operator_key, terms.run_bytes, serial, keys)
