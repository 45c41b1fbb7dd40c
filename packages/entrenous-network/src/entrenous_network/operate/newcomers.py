"""Joining by a link, on the server's side: the links that the operator has given out, and who may
still join by each.

A link is a secret of those who have it. The folder keeps its sha256 alone, so a copy of the folder
lets nobody join. How many join by one link, until when, and how many an hour from one address, is
for the operator to say: whoever can make up people can make up a crowd around one person, and a
limit makes that slow and dear, no more.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Generic, TypeAlias, TypeVar, final

import msgspec
from msgspec import Meta, Struct

from entrenous.core.errors import InputError
from entrenous.core.keywords import at_least
from entrenous.core.lock import changing

from ..agreement.catalogue import ITEMS
from ..agreement.files import Hex32, Hex64, Mark, NodeName, read_json, write_json
from ..agreement.growth import LISTED
from ..agreement.invitation import INVITATION
from ..agreement.join_link import TOKEN, JoinLink, asking, authority_of
from ..agreement.members import MEMBER, MEMBERS, Member, Members
from ..agreement.notice import ADDRESSES
from ..agreement.terms import TERMS, FederationTerms
from ..links.admission import Denied, Rates
from ..secure_sum.primitives import verified
from ..wire.completed import completed
from .enrolment import EnrolmentRequest
from .founding import PLACE, added, items_of_invitation, operator_folder, parts_of_invitation

T = TypeVar("T")
# The number, the time and the bytes of a file.
Written: TypeAlias = tuple[int, int, int]
LINKS = "links.json"
REPEATS = 10  # times an hour that a member who asks for its place once more is answered
HOUR = 3600.0
DAY = 86_400


@completed
class LinkLeft(Struct, frozen=True, forbid_unknown_fields=True):
    """The uses and the time that are left of one link."""

    sha256: Hex32
    """Of the token."""
    left: Annotated[int, Meta(ge=0)]
    """How many may still join by it."""
    until: Annotated[int, Meta(ge=0)]
    """The second since 1970 in which it ends."""
    an_hour: Annotated[int, Meta(ge=1)]
    """How many may join from one address in an hour."""


@completed
class PlaceRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """A request for a place, by a link: the name that a device chose, its new key, and the
    signature by this key (`asking`), and by that of its shop if it has one.
    """

    name: NodeName
    key: Hex32
    signature: Hex64
    shop: Mark = ""
    shop_signature: Hex64 = ""


def make_link(folder: Path, uses: int, days: float, an_hour: int) -> JoinLink:
    """Makes a link by which `uses` people may join a federation within some days, at most `an_hour`
    an hour from one address. folder: the federation's.

    Raises InputError for a federation that nobody can join while it runs.
    """
    at_least("--uses", uses, 1)
    at_least("--an-hour", an_hour, 1)
    if not 0 < days <= 3650:
        raise InputError("--days", f"got {days:g}", expected="above 0, at most 3650")
    server = operator_folder(folder)
    terms = check_joinable(folder)
    token = secrets.token_bytes(TOKEN)
    parts = parts_of_invitation(server)
    where = json.loads(parts[INVITATION])
    authority = ""
    if "ca.crt" in parts:
        authority = authority_of(parts["ca.crt"].encode())
    standing = LinkLeft(_hash(token), uses, int(time.time() + DAY * days), an_hour)
    with changing(server):
        _write(server, {**_read(server), standing.sha256: standing})
    return JoinLink(where["server"], where["tls"], terms.run, token.hex(), authority)


def check_joinable(folder: Path) -> FederationTerms:
    """Returns the terms of a federation. Raises InputError for one that nobody can join while it
    runs.
    """
    terms = FederationTerms.read(operator_folder(folder) / TERMS)
    if not terms.has_server:
        raise InputError(str(folder), "peers join by tickets", fix="use `federation invite`")
    return terms


def end_links(folder: Path) -> int:
    """Ends all links of a federation. Returns how many there were."""
    server = operator_folder(folder)
    with changing(server):
        ended = len(_read(server))
        _write(server, {})
    return ended


def links_of(folder: Path) -> list[LinkLeft]:
    """Returns what is left of each link of a federation, the one that ends first at the front."""
    standing = _read(operator_folder(folder)).values()
    return sorted(standing, key=lambda one: one.until)


def _hash(token: bytes) -> str:
    return hashlib.sha256(token).hexdigest()


def _read(server: Path) -> dict[str, LinkLeft]:
    """Returns the links of a server by the sha256 of their tokens."""
    path = server / LINKS
    if not path.exists():
        return {}
    try:
        several = msgspec.convert(read_json(path)["links"], list[LinkLeft])
    except (KeyError, ValueError) as wrong:
        fix = "remove the file, and give out new links"
        raise InputError(str(path), f"no list of links ({wrong})", fix=fix) from None
    return {one.sha256: one for one in several}


def _write(server: Path, links: Mapping[str, LinkLeft]) -> None:
    write_json(server / LINKS, {"links": [msgspec.to_builtins(one) for one in links.values()]})


def packed(parts: Mapping[str, str]) -> bytes:
    """Returns files as they travel: a JSON object of texts by their names."""
    return json.dumps(parts).encode()


@final
class Reread(Generic[T]):
    """The content of some files, read anew only when one of them was written: each join would
    otherwise pay for files that seldom change. read: reads them.
    """

    def __init__(self, paths: Sequence[Path], read: Callable[[], T]) -> None:
        self._paths = paths
        self._read = read
        self._kept: dict[tuple[Written | None, ...], T] = {}

    def now(self) -> T:
        """Returns what the files say. May be called in several threads."""
        # Looked at before they are read: what is written meanwhile is read the next time.
        written = tuple(map(_written, self._paths))
        kept = self._kept
        if written not in kept:
            kept = {written: self._read()}
            self._kept = kept
        return kept[written]


def _written(path: Path) -> Written | None:
    """Returns by what to see that a file was written; None where there is none."""
    try:
        about = path.stat()
    except FileNotFoundError:
        return None
    return about.st_ino, about.st_mtime_ns, about.st_size


@final
class JoinDesk:
    """The `Joins` of a server. clock: seconds since 1970. welcomed: is told of each new member.

    server: its folder.
    """

    def __init__(
        self,
        server: Path,
        welcomed: Callable[[Member], None] = lambda member: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._server = server
        self._welcomed = welcomed
        self._clock = clock
        self._rates: dict[int, Rates] = {}  # by the number an hour
        self._repeats = Rates(REPEATS / HOUR, REPEATS)
        self._terms = FederationTerms.read(server / TERMS)
        self._links = Reread([server / LINKS], lambda: _read(server))
        of_parts = [server / PLACE, server / TERMS, server / ADDRESSES, server / "keys" / "ca.crt"]
        self._parts = Reread(of_parts, lambda: parts_of_invitation(server))
        of_items = [server / ITEMS, server / LISTED]
        self._meant = Reread(
            [*of_parts, *of_items],
            lambda: packed(self._parts.now() | items_of_invitation(server)),
        )
        # A list of its own: it grows at any moment, and that of the server between two rounds.
        self._members = Members.read(server / MEMBERS, self._terms.users)

    def authority(self) -> bytes:
        """Returns the certificate of the server's authority, as `Joins.authority` says."""
        certificate = self._server / "keys" / "ca.crt"
        if not certificate.exists():
            raise Denied(404, "no-such-thing")
        return certificate.read_bytes()

    def terms(self, token: str, address: str) -> bytes:
        """Returns what somebody agrees to by joining, as `Joins.terms` says."""
        # Whoever asks again, when all places are taken, may have one of them.
        self._standing(token)
        return self._meant.now()

    def joined(self, token: str, address: str, request: bytes) -> bytes:
        """Makes whoever asks a member, as `Joins.joined` says. A member that asks again gets the
        same again, and no second place. The answer is as short for a long list of items.
        """
        self._standing(token)
        # Before the list is locked for it: a request is cheap to make up.
        asked = _request(self._terms.run, token, request)
        try:
            # An operator's command may change the list at this moment.
            with changing(self._server):
                self._members.follow(self._server / MEMBERS)
                member = self._member(token, address, asked)
                entry = self._members.own_entry(member.name)
        except InputError:
            raise Denied(503, "busy") from None
        self._welcomed(member)
        return packed({**self._parts.now(), MEMBER: f"{entry}\n"})

    def _member(self, token: str, address: str, asked: EnrolmentRequest) -> Member:
        """Returns whoever asks as a member, who is on the list then. Raises Denied."""
        members = self._members
        standing = self._standing(token)
        before = members.nodes.get(asked.name)
        if before is not None and before.key == asked.key:
            # An answer is lost once, not a hundred times.
            if not self._repeats.allow(asked.key):
                raise Denied(429, "too-often")
            return before
        if not standing.left:
            raise Denied(403, "link-used-up")
        rates = self._rates.setdefault(
            standing.an_hour, Rates(standing.an_hour / HOUR, standing.an_hour)
        )
        if not rates.allow(address):
            raise Denied(429, "too-often")
        try:
            member = added(self._terms, members, asked, 1)
        except InputError:
            # A name or key that is or was another's, or no place is left.
            raise Denied(409, "not-taken") from None
        # The link first: whoever comes between the two writes has used it for nothing.
        used = msgspec.structs.replace(standing, left=standing.left - 1)
        _write(self._server, {**self._links.now(), used.sha256: used})
        members.write(self._server / MEMBERS, [member])
        members.add(member)
        return member

    def _standing(self, token: str) -> LinkLeft:
        """Returns what is left of a link, which may be nothing. Raises Denied."""
        standing = None
        with suppress(ValueError):
            standing = self._links.now().get(_hash(bytes.fromhex(token)))
        if standing is None:
            raise Denied(401, "no-such-link")
        if standing.until < self._clock():
            raise Denied(403, "link-ended")
        return standing


def _request(run: str, token: str, body: bytes) -> EnrolmentRequest:
    """Reads a request for a place, which the key in it has signed for this link. Raises Denied."""
    try:
        said = msgspec.json.decode(body, type=PlaceRequest)
    except (ValueError, RecursionError):
        raise Denied(400, "no-request") from None
    signatures = {said.key: said.signature}
    # Nobody fills the share of a shop with devices that are not its own.
    if said.shop:
        signatures[said.shop] = said.shop_signature
    statement = asking(run, token, said.name)
    for key, signature in signatures.items():
        if not verified(bytes.fromhex(key), bytes.fromhex(signature), statement):
            raise Denied(401, "bad-signature")
    return EnrolmentRequest(said.name, said.key, shop=said.shop)
