"""Changes of an existing federation: nodes come, go and change their keys; certificates and tickets
are made anew.

The folder is that of `founding.found_federation`. A server reads its membership list when it
starts, so it has to be restarted after `invite` and `shut_out`. Peers learn of a key that was shut
out by a signed list, which they hand on (tickets.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from time import time
from typing import NamedTuple

from ...core.errors import InputError
from ...core.files import copy_file, rename_file, write_text
from ...core.keywords import at_least
from ...privacy.secure_sum.terms import Floors
from ..agreement.certificates import expiry, make_keys, names_of
from ..agreement.files import IDENTITY, read_identity, read_json, write_json
from ..agreement.groups import group_of, groups_left
from ..agreement.members import MEMBERS, Members
from ..agreement.terms import TERMS, FederationTerms
from ..agreement.tickets import DAYS, MOST, REVOKED, RevocationList, ends
from ..node.node_store import STORE, NodeStore
from ..server import server_folder
from ..server.leaving import resting_with
from .founding import OPERATOR, PLACE, SERVER, Requests, enrolled, operator_folder, write_invitation

PARTS = "server.crt", "server.key"


def invite(folder: Path, requests: Requests, days: float = DAYS) -> list[Path]:
    """Adds nodes to the membership list of an existing federation, or gives a member its new key,
    and writes their invitations. days: for which the tickets of peers are good. A server reads the
    list when it next starts.

    Raises InputError, before anything is written, for a name or key that is or was a member's, for
    more users than the terms have room for, and for a federation with secure sums, whose nodes have
    agreed on the list.
    """
    operator, terms, before = _opened(folder)
    # Owners have agreed on all nodes that may ever be in a sum with theirs: a newcomer could be the
    # server's own.
    if terms.masked:
        problem = "every node of a secure sum has agreed on who takes part"
        fix = "found the federation anew with `entrenous federation new`"
        raise InputError(str(folder), problem, fix=fix)
    members = enrolled(terms, before, requests, ends(days))
    _write(operator, terms, members)
    return [write_invitation(folder, request.name, members) for request, _ in requests]


class ShutOut(NamedTuple):
    """The result of shutting a node out."""

    users: int
    """The number of its users."""
    resting: Sequence[str] = ()
    """The nodes that are in no round any more, since sums are masked."""


def shut_out(folder: Path, name: str, rest_others: bool = False) -> ShutOut:
    """Removes a node from the membership list; of peers, signs a list of revoked keys with its key.

    rest_others: whether other nodes may be taken out of all rounds with it, where sums are masked
    and nodes consent to no sum without that node alone (`leaving`). Raises InputError for a name
    that is not in the list, for the last node, and where others would have to rest and may not, or
    too few would be left; it names them."""
    operator, terms, members = _opened(folder)
    member = members.nodes.get(name)
    if member is None:
        problem = f"no node '{name}' on the membership list"
        raise InputError("NAME", problem, expected=", ".join(members.names[:8]))
    if len(members.nodes) == 1:
        raise InputError(
            "NAME",
            f"'{name}' is the only node",
            expected="one that others remain beside",
            fix="stop the server instead",
        )
    resting = _resting(operator, terms, members, name, rest_others) if terms.masked else []
    _write(operator, terms, members.without(name).resting(resting))
    return ShutOut(len(member.users), resting)


def _resting(
    operator: Path, terms: FederationTerms, members: Members, name: str, may: bool
) -> list[str]:
    """Returns the nodes that have to rest when `name` is shut out. Raises InputError where they may
    not, or too few would be left.
    """
    active = {each: len(member.users) for each, member in members.nodes.items() if not member.rests}
    if name not in active:
        return []  # it is in no sum, so nothing differs without it
    group = group_of(members, terms, name)
    others = active.keys() - group  # the sums of other groups stay as they are
    active = {each: people for each, people in active.items() if each in group}
    own = terms.protection
    floors = Floors(people=own.people, parties=own.parties, apart=terms.apart)
    fewest = terms.people_for_noise
    past = server_folder.past_sums(operator)
    resting = resting_with(name, active, past, floors, terms.run, fewest)
    if resting is None and groups_left(members, terms, others) * 2 > own.groups:
        # The whole group rests: there is no further sum of anybody in it.
        resting = sorted(active.keys() - {name})
    problem = (
        f"a sum without '{name}' alone would tell what it sent; nodes consent to a difference of at"
        f" least {floors.parties} nodes with {floors.people} people"
    )
    if resting is None:
        least = max(floors.people, fewest)
        problem += (
            f", and {floors.parties} with {least} people have to be left of {len(active)} with"
            f" {sum(active.values())}"
        )
        fix = "found the federation anew with `entrenous federation new`"
        raise InputError("NAME", problem, fix=fix)
    if resting and not may:
        raise InputError(
            "NAME",
            problem,
            expected=f"{len(resting)} more that leave the rounds: {', '.join(resting)}",
            fix=(
                "--rest-others has them rest for good: they keep their users, are asked no more,"
                " and get the trained model"
            ),
        )
    return resting


def renew_tickets(folder: Path, days: float = DAYS) -> list[Path]:
    """Writes invitations with tickets for further `days` for all peers. Each is to be sent to its
    peer, which accepts it.
    """
    # A new ticket ends later than the one before, by which peers know which of both counts.
    operator, terms, members = _opened(folder)
    until = ends(days)
    members = members.with_nodes(
        (name, member._replace(until=max(until, member.until + 1)))
        for name, member in members.nodes.items()
    )
    _write(operator, terms, members)
    return [write_invitation(folder, name, members) for name in members.names]


def renew_certificate(folder: Path, names: Sequence[str] = ()) -> tuple[datetime, bool]:
    """Makes a new certificate for the server, by the same authority, for the old names and `names`.
    The old pair stays as server.*.old.

    Returns when it ends (UTC), and whether the authority is new: it is where ca.crt and ca.key were
    moved away, and then all nodes need the new ca.crt. Raises InputError where there is no
    certificate, or no ca.key to sign with; then all is as it was.
    """
    keys = folder / SERVER / "keys"
    wanted = list(dict.fromkeys((*names_of(keys / "server.crt"), *names)))
    anew = not (keys / "ca.crt").exists()
    if not anew and not (keys / "ca.key").exists():
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
    for invitation in (folder / "invitations").glob("*/ca.crt"):
        copy_file(keys / "ca.crt", invitation)
    return until, anew


def certificate_ends(server: Path) -> datetime | None:
    """Returns when a server's certificate or its authority ends (UTC); None where there is no
    certificate."""
    return expiry(server / "keys") if (server / "keys" / "server.crt").exists() else None


def rewind(folder: Path, number: int) -> int:
    """Goes back to where `number` rounds were done. Returns the rounds that had been done.

    A server, which must not be running, goes back to a round whose model it has kept. A node lets a
    server that went back go on, with the node's newest private vectors; by itself a node refuses
    that, since it would repeat the random draws of those rounds.

    Raises InputError for a round to come or one not kept, and for masked sums, of which no round
    comes again: see `go_back`.
    """
    at_least("--rounds", number, 0)
    folder = rewound_folder(folder)
    terms = _of_rounds(folder)
    if terms.masked:
        problem = "no round of masked sums comes again"
        raise InputError(str(folder), problem, expected="`going_back.go_back`")
    if is_server(folder):
        return server_folder.rewind(folder, number)
    with closing(NodeStore(folder / STORE)) as store:
        return store.rewind(number)


def rewound(folder: Path, number: int, after: int = -1) -> list[str]:
    """Goes back to where `number` rounds were done, by `rewind` or, where sums are masked, by
    `going_back`. Returns what was done and is to be done, in lines for people. after: as for
    `going_back.go_back`. Raises InputError.
    """
    at_least("--rounds", number, 0)
    folder = rewound_folder(folder)
    terms, of_server = _of_rounds(folder), is_server(folder)
    if after >= 0 and not (terms.masked and of_server):
        raise InputError("--after", "is for a server with masked sums", fix="leave it out")
    if terms.masked:
        return _gone_back(folder, number, after) if of_server else _allowed(folder, number)
    before = rewind(folder, number)
    if of_server:
        every = f"on every node: entrenous federation rewind NODE --rounds {number}"
        return [f"{folder}: from round {before} back to {number}; {every}"]
    return [f"{folder}: from round {before} back to {number}, with the users' newest vectors"]


def _gone_back(folder: Path, number: int, after: int) -> list[str]:
    from .going_back import go_back  # with the algorithm's libraries

    done = go_back(folder, number, after)
    went = (
        f"{folder}: from {done.before} rounds back to {done.counted}; the next one has the number"
        f" {done.number}"
    )
    if done.wanted <= done.left:
        return [went, "nodes go on by themselves"]
    return [
        went,
        f"nodes answer {done.left} rounds more by themselves, and {done.wanted} are to come: each"
        f" owner who agrees runs: entrenous federation rewind NODE --rounds {number}",
    ]


def _allowed(folder: Path, number: int) -> list[str]:
    from .going_back import allow_sums

    now = allow_sums(folder, number)
    spent = "" if now.epsilon is None else f", which spends epsilon {now.epsilon:.4g}"
    return [
        f"{folder}: updates of {now.sent} rounds have left, in masked sums; of {now.most}"
        f" may{spent}"
    ]


def rewound_folder(folder: Path) -> Path:
    """Returns the server's folder, where the operator's folder was named."""
    return folder / SERVER if (folder / SERVER / PLACE).exists() else folder


def _of_rounds(folder: Path) -> FederationTerms:
    """Returns the terms of a federation that has rounds. Raises InputError."""
    terms = FederationTerms.read(folder / TERMS)
    if not terms.has_server:
        expected = "the folder of a server, or of a node with one"
        raise InputError(str(folder), "peers have no rounds", expected=expected)
    return terms


def to_do(folder: Path) -> str:
    """Returns what the operator has to do, so that a change of the membership list counts."""
    if is_server(folder):
        return "it counts from the server's next start: stop it, and start it again"
    revoked = folder / OPERATOR / REVOKED
    if revoked.exists():
        return f"put {revoked} into a peer's folder and start it again: peers hand it on"
    return "peers need not be told"


def is_server(folder: Path) -> bool:
    """Returns whether a folder is a server's, or the operator's with a server in it, and no
    node's."""
    return any((place / PLACE).exists() for place in (folder, folder / SERVER))


def _opened(folder: Path) -> tuple[Path, FederationTerms, Members]:
    operator = operator_folder(folder)
    terms = FederationTerms.read(operator / TERMS)
    return operator, terms, Members.read(operator / MEMBERS, terms.users)


def _write(operator: Path, terms: FederationTerms, members: Members) -> None:
    """Writes the list; of peers also where to begin, by the keys that bootstraps have now, and the
    list of revoked keys.
    """
    if terms.has_server:
        write_text(operator / MEMBERS, members.text())
        return
    # Signed before anything is written, since that fails for too many keys.
    revoked = _revoked(operator, terms, members) if members.former else None
    write_text(operator / MEMBERS, members.text())
    keys = {}
    for member in members.nodes.values():
        keys[int(member.users[0])] = member.key.public_bytes_raw().hex()
    bootstraps = read_json(operator / PLACE)["bootstraps"]
    for bootstrap in bootstraps:
        bootstrap["key"] = keys.get(bootstrap["number"], bootstrap["key"])
    write_json(operator / PLACE, {"bootstraps": bootstraps})
    if revoked is not None:
        revoked.write(operator)


def _revoked(operator: Path, terms: FederationTerms, members: Members) -> RevocationList:
    """Returns the signed list of former keys whose tickets still count. Raises InputError for more
    keys than it can have.
    """
    now = time()
    still = [member for member in members.former if member.until > now]
    if len(still) > MOST:
        first = datetime.fromtimestamp(min(member.until for member in still), UTC)
        raise InputError(
            "NAME",
            f"{len(still)} keys would be shut out whose tickets still count",
            expected=f"at most {MOST}",
            fix=f"wait until {first:%Y-%m-%d}, or found it anew",
        )
    keys = [bytes.fromhex(member.key) for member in still]
    operator_key = read_identity(operator / IDENTITY)
    return RevocationList.sign(operator_key, terms.run_bytes, len(members.former), keys)
