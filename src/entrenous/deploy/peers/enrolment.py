"""How a peer comes to take part where everybody has a machine of their own. No private key and no row leaves the machine it was made on.

peer      identity(folder, name, listen) -> request.json, which may be shown to anybody
operator  begin(folder, items, requests) -> the charter, and an invitation for each request; the first two are the bootstraps
          invite(folder, requests)       -> further invitations, as long as the charter has numbers left
peer      join(folder, invitation, rows) -> the peer's folder, ready to run
"""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ...core.errors import InputError, at_least
from ...core.files import write_private
from ...data.interactions import Interactions
from ..items import read_items
from .charter import FORMAT, Charter
from .folder import (
    INVITATION,
    ITEMS,
    ROWS,
    SECRET,
    Bootstrap,
    Folder,
    Invitation,
    PeerSecret,
    charter_of,
    items_sha256,
    read_operator,
    write_json,
)
from .founding import BOOTSTRAPS, OPERATOR, whole, write_rows
from .identity import new_key, public_key, ticket

CHARTER, REQUEST, NUMBERS, INVITATIONS = "charter.json", "request.json", "numbers.json", "invitations"
NAME = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-.")


class PeerEnrolmentRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A peer's request to take part. key: its public key, 64 hexadecimal digits; listen, advertise: as in its invitation."""

    name: str
    key: str
    listen: str
    advertise: list[str]
    format: int = FORMAT

    @staticmethod
    def read(path: Path) -> PeerEnrolmentRequest:
        """Read a request from a file. Raises InputError that names the file."""
        try:
            found = msgspec.json.decode(path.read_bytes(), type=PeerEnrolmentRequest)
            known = _is_name(found.name) and len(bytes.fromhex(found.key)) == 32 and found.format == FORMAT
        except (OSError, ValueError):
            known = False
        if not known:
            fix = "make it on the peer's machine with `entrenous peer identity`"
            raise InputError(str(path), "not a peer's request to take part", expected=f"format {FORMAT}", fix=fix)
        return found

    @property
    def addresses(self) -> list[str]:
        """The addresses at which others reach this peer; [] if it names no port."""
        return [one for one in self.advertise or [self.listen] if not one.endswith(":0")]


def identity(folder: Path, name: str, listen: str, advertise: Sequence[str] = ()) -> PeerEnrolmentRequest:
    """Make a peer's key, readable by its owner alone, and its request. Raises InputError for a folder that has a key already."""
    if not _is_name(name):
        raise InputError("--name", f"got {name!r}", expected="1 to 64 of a-z, 0-9, - and .")
    for one in (listen, *advertise):
        host, _, port = one.rpartition(":")
        if not host or not port.isdigit() or int(port) > 65535:
            raise InputError(
                "--listen" if one == listen else "--advertise", f"got {one!r}", expected="HOST:PORT, such as 10.0.0.7:9411"
            )
    if (folder / SECRET).exists():
        raise InputError(str(folder / SECRET), "there is a key already", fix="choose another folder")
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    key = new_key()
    write_json(folder / SECRET, PeerSecret(key.hex(), secrets.randbits(63)), private=True)
    request = PeerEnrolmentRequest(name, public_key(key).hex(), listen, list(advertise))
    write_json(folder / REQUEST, request)
    return request


def begin(
    folder: Path, items: Path, requests: Sequence[PeerEnrolmentRequest], algorithm: str, *, name: str, settings: Mapping[str, Any],
    users: int = 0, seed: int = 0, draws: str = "secret", period: float = 10.0,
) -> list[Path]:  # fmt: skip
    """Found a federation of the peers that sent a request: write its shared settings, the operator's key, and an invitation for
    each. users: the most peers that there may ever be, 0 = as many as requests.

    Raises InputError before anything is written.
    """
    at_least("--peer, how often", len(requests), BOOTSTRAPS)
    if folder.exists() and any(folder.iterdir()):
        raise InputError(str(folder), "is not empty", expected="a new folder")
    for one in requests[:BOOTSTRAPS]:
        if not one.addresses:
            problem = f"'{one.name}' is to be a bootstrap and has no port that others could know"
            raise InputError(
                "--peer", problem, fix="name others first, or give it one: entrenous peer identity --listen HOST:PORT"
            )
    ids, operator = read_items(items).ids, new_key()
    charter = Charter(
        name=name, algorithm=algorithm, settings=whole(algorithm, settings), users=users or len(requests), items=len(ids),
        items_sha256=items_sha256(ids), seed=seed, draws=draws, period=period, operator=public_key(operator).hex(),
    )  # fmt: skip
    charter.made  # noqa: B018  # for what it refuses
    _numbered({}, requests, charter)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_private(folder / OPERATOR, f"{operator.hex()}\n".encode(), new=False)
    write_json(folder / CHARTER, charter_of(charter))
    shutil.copyfile(items, folder / ITEMS)
    bootstraps = [Bootstrap(n, one.key, one.addresses) for n, one in enumerate(requests[:BOOTSTRAPS])]
    write_json(folder / "bootstraps.json", bootstraps)
    return invite(folder, requests)


def invite(folder: Path, requests: Sequence[PeerEnrolmentRequest]) -> list[Path]:
    """Make invitations for peers, folders to be sent to them. Raises InputError for a name or key that has a number, and when
    none is left."""
    operator = read_operator(folder / OPERATOR)
    try:
        charter = Charter(**json.loads((folder / CHARTER).read_text()))
        bootstraps = msgspec.json.decode((folder / "bootstraps.json").read_bytes(), type=list[Bootstrap])
        given = json.loads((folder / NUMBERS).read_text()) if (folder / NUMBERS).exists() else {}
    except (OSError, ValueError, TypeError) as cause:
        raise InputError(str(folder), f"cannot be read ({cause})", expected="what `entrenous peer new` wrote") from None
    made, given = [], _numbered(given, requests, charter)
    for one in requests:
        number, own = given[one.name]["number"], folder / INVITATIONS / one.name
        said = ticket(operator, charter.schema, number, bytes.fromhex(one.key)).hex()
        own.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(folder / ITEMS, own / ITEMS)
        write_json(own / INVITATION, Invitation(charter_of(charter), number, said, bootstraps, one.listen, one.advertise))
        made.append(own)
    write_json(folder / NUMBERS, given)
    return made


def join(folder: Path, invitation: Path, rows: Interactions) -> int:
    """Accept an invitation with one user's rows. Returns how many rows there are. Raises InputError, before anything is
    written."""
    for part in (INVITATION, ITEMS):
        if not (invitation / part).is_file():
            raise InputError(str(invitation), f"has no {part}", expected="the folder that the operator sent")
    if len(rows.users) != 1:
        raise InputError(rows.name, f"{len(rows.users)} users", expected="one: a peer is one user's")
    if (folder / ROWS).exists():
        raise InputError(str(folder), "has joined already", fix="make a new folder with `entrenous peer identity`")
    known = set(read_items(invitation / ITEMS).ids)
    unknown = [name for name in rows.items.ids.tolist() if name not in known]
    if unknown:
        fix = "leave these rows out, or ask the operator for a list that has them"
        raise InputError(
            rows.name, f"{len(unknown)} items that are not on the federation's list, such as '{unknown[0]}'", fix=fix
        )
    secret = msgspec.json.decode((folder / SECRET).read_bytes(), type=PeerSecret) if (folder / SECRET).is_file() else None
    found = Folder(invitation)
    if secret is None or not _is_for(found, secret):
        raise InputError(
            str(invitation), f"is not for the key in {folder}", fix="ask the operator with this folder's request.json"
        )
    for part in (INVITATION, ITEMS):
        shutil.copyfile(invitation / part, folder / part)
    write_rows(folder / ROWS, rows, 0)
    return len(rows)


def _is_for(found: Folder, secret: PeerSecret) -> bool:
    """Whether the invitation's ticket is the operator's word for this key."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    from .identity import _ticket

    said = _ticket(found.charter.schema, found.invitation.number, public_key(bytes.fromhex(secret.key)))
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(found.charter.operator)).verify(
            bytes.fromhex(found.invitation.ticket), said
        )
    except (InvalidSignature, ValueError):
        return False
    return True


def _is_name(name: str) -> bool:
    return 0 < len(name) <= 64 and set(name) <= NAME and name[0] not in "-."


def _numbered(given: Mapping[str, Any], requests: Sequence[PeerEnrolmentRequest], charter: Charter) -> dict[str, Any]:
    """Numbers for those who ask, after those that were given."""
    found = dict(given)
    for one in requests:
        if one.name in found or one.key in {each["key"] for each in found.values()}:
            raise InputError("--peer", f"'{one.name}' or its key has a number already", expected="each peer once")
        if len(found) >= charter.users:
            raise InputError(
                "--peer", f"no number is left for '{one.name}'", expected=f"at most {charter.users} peers, as the charter says"
            )
        found[one.name] = {"number": len(found), "key": one.key}
    return found
