"""What changes in a federation that is there already: nodes come and go, the server's certificate is made anew.

The operator's folder is that of `founding.found_server`: server/ and invitations/. A server reads its roll when it starts: after `invite`
and `shut_out` it is to be restarted. Who was shut out is kept in server/shut-out, so that nobody is given the numbers of its users.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path

from ..core.errors import InputError, at_least
from . import server_folder
from .certificates import expiry, make_keys, names_of
from .enrolment import EnrolmentRequest
from .founding import write_invitation
from .node_store import NodeStore
from .terms import FORMAT, FederationTerms, Roll, read_json, write_text

OUT = "shut-out"
PARTS = "server.crt", "server.key"


def invite(folder: Path, requests: Sequence[tuple[EnrolmentRequest, int]]) -> list[Path]:
    """Add nodes to the membership list of an existing federation, each with a number of users, and write their invitations. The
    server reads the list when it next starts.

    Raises InputError, before anything is written, for a name or key that is a member or was shut out, for more users than the
    terms have room for, and for a federation with secure sums, whose nodes have agreed on the list.
    """
    server, terms, roll = _opened(folder)
    gone = _gone(server)
    members, start = dict(roll.members), 1 + max(_last(roll), *(last for _, last in gone.values()), -1)
    for request, count in requests:
        known = {member.key.public_bytes_raw().hex() for member in members.values()}
        if request.name in members or request.name in gone or request.key in known | {key for key, _ in gone.values()}:
            fix = "make a new folder with `entrenous federation identity` and another --name"
            raise InputError("--node", f"'{request.name}' or its key is or was a node of this federation", fix=fix)
        if start + count > terms.users:
            problem = f"'{request.name}' with {count} users, and {max(0, terms.users - start)} are left"
            raise InputError("--node", problem, expected=f"at most {terms.users} in all, as the terms say")
        members[request.name] = request.member(start, count)
        start += count
    made = [write_invitation(folder, request, Roll(members, terms.users)) for request, _ in requests]
    write_text(server / "roll.json", Roll(members, terms.users).text())
    return made


def shut_out(folder: Path, name: str) -> int:
    """Remove a node from the membership list. Returns how many users it had.

    Raises InputError for a name that is not in the list, for the last node, and for a federation with secure sums.
    """
    server, terms, roll = _opened(folder)
    member = roll.members.get(name)
    if member is None:
        raise InputError("NAME", f"no node '{name}' on the roll", expected=", ".join(roll.names[:8]))
    if len(roll.members) == 1:
        raise InputError(
            "NAME", f"'{name}' is the only node", expected="one that others remain beside", fix="stop the server instead"
        )
    about = {"format": FORMAT, "key": member.key.public_bytes_raw().hex(), "last": int(member.users[-1])}
    write_text(server / OUT / f"{name}.json", json.dumps(about, indent=1))
    write_text(server / "roll.json", Roll({n: m for n, m in roll.members.items() if n != name}, terms.users).text())
    return len(member.users)


def is_server(folder: Path) -> bool:
    """Whether a folder is a server's, or the operator's with a server in it, and no node's."""
    return any((place / "place.json").exists() for place in (folder, folder / "server"))


def rewind(folder: Path, number: int) -> int:
    """Go back to where `number` rounds were done. Returns the rounds that had been done.

    On a server, which must not be running: to a round whose model it has kept. On a node: let a server that went back go on, with the
    node's newest private vectors; by itself a node refuses to, since it would repeat the random draws of those rounds.

    Raises InputError for a round to come or one not kept, and for secure sums: two sums of one round may tell what a node sent.
    """
    at_least("--rounds", number, 0)
    folder = folder / "server" if (folder / "server" / "place.json").exists() else folder
    if FederationTerms.read(folder / "terms.json").secure == "masks":
        problem = "two secure sums of one round may tell what a node has sent"
        raise InputError(str(folder), problem, fix="found the federation anew with `entrenous federation new`")
    if is_server(folder):
        return server_folder.rewind(folder, number)
    with closing(NodeStore(folder / "store.sqlite")) as store:
        return store.rewind(number)


def renew(folder: Path, names: Sequence[str] = ()) -> tuple[datetime, bool]:
    """A new certificate for the server, by the same authority, for the old names and `names`; when it ends (UTC), and whether the authority
    is new: it is where ca.crt and ca.key were moved away, and then all nodes need the new ca.crt. The old pair stays as server.*.old.

    Raises InputError where there is no certificate, or no ca.key to sign with; then all is as it was."""
    keys = folder / "server" / "keys"
    wanted = list(dict.fromkeys((*names_of(keys / "server.crt"), *names)))
    anew = not (keys / "ca.crt").exists()
    if not anew and not (keys / "ca.key").exists():
        raise InputError(
            str(keys / "ca.key"), "is missing", fix="bring it back for this, or move ca.crt away too to make a new authority"
        )
    for part in PARTS:
        (keys / part).replace(keys / f"{part}.old")
    try:
        until = make_keys(keys, names=wanted)
    except BaseException:
        for part in PARTS:
            (keys / f"{part}.old").replace(keys / part)
        raise
    for invitation in (folder / "invitations").glob("*/ca.crt"):
        invitation.write_bytes((keys / "ca.crt").read_bytes())
    return until, anew


def certificate_ends(server: Path) -> datetime | None:
    """When a server's certificate or its authority ends (UTC); None where there is none."""
    return expiry(server / "keys") if (server / "keys" / "server.crt").exists() else None


def _opened(folder: Path) -> tuple[Path, FederationTerms, Roll]:
    server = folder / "server"
    terms = FederationTerms.read(server / "terms.json")
    if terms.secure == "masks":
        problem = "every node of a secure sum has agreed on who takes part"
        raise InputError(str(folder), problem, fix="found the federation anew with `entrenous federation new`")
    return server, terms, Roll.read(server / "roll.json", terms.users)


def _last(roll: Roll) -> int:
    return max((int(member.users[-1]) for member in roll.members.values() if len(member.users)), default=-1)


def _gone(server: Path) -> dict[str, tuple[str, int]]:
    """Key and last user of those who were shut out, by name."""
    found = {path.stem: read_json(path) for path in sorted((server / OUT).glob("*.json"))}
    return {name: (str(about["key"]), int(about["last"])) for name, about in found.items()}
