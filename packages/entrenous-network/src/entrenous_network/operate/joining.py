"""Joining a federation by a link, on the device: three questions to its server, and no file that
anybody has to send.

    1. the certificate of the server's authority, which the link names
    2. terms and items: what the owner agrees to is said, and checked against the owner's own
       limits, before anybody knows of the device
    3. the device's public key, and the invitation in return, without the items
"""

from __future__ import annotations

import json
import secrets
import tempfile
import time
from collections.abc import Callable, Container, Mapping
from contextlib import closing
from pathlib import Path

import msgspec
import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from entrenous.core.errors import InputError
from entrenous.core.types import Int64Array
from entrenous.data.interactions import Interactions, Vocabulary

from ..agreement.files import IDENTITY, public_bytes, read_identity, write_json
from ..agreement.growth import current_items
from ..agreement.invitation import INVITATION, MEANT, PLACED
from ..agreement.join_link import AGAIN, JoinLink, asking
from ..agreement.terms import TERMS, FederationTerms
from ..links.knocking import JoiningLine
from ..node.node_store import STORE
from .enrolment import REQUEST, EnrolmentRequest, check_terms, identity, join, told, with_items
from .plans import JoinPlan
from .shop import devices_of, key_of, name_of

ME = "me"  # the id of a user who comes without rows
BAD = "sent what is no invitation"
MADE = "entrenous-join-"  # a folder in which an invitation is put together
APART = 0.2  # seconds between two customers who join: half as fast as a server allows


def join_by_link(
    folder: Path,
    text: str,
    rows: Interactions | None,
    plan: JoinPlan,
    tell: Callable[[str], None] = lambda line: None,
) -> Int64Array:
    """Joins the federation that a link leads to, with the rows of one user, and makes the device's
    folder, ready to run. rows: None = a user without rows, whose id is "me".

    tell: is called with the lines of what the owner agrees to, before the server hears of the
    device. Returns the federation's number of the user, int64 [1]. Raises InputError for a link
    that leads nowhere, for terms that the plan does not allow, and for rows of items that are not
    on the list. Whoever asks again, as after a lost connection, gets the same place.
    """
    link = JoinLink.parse(text)
    if (folder / STORE).exists():
        raise InputError(str(folder), "has joined already", fix="choose another folder")
    if rows is not None and len(rows.users) != 1:
        expected = "the rows of one person: a link is for one device"
        raise InputError(rows.name, f"{len(rows.users)} users", expected=expected)
    with tempfile.TemporaryDirectory(prefix=MADE) as place:
        invitation = Path(place)
        with closing(JoiningLine(link)) as line:
            own = _agreed(invitation, link, line, rows, plan, tell)
            return _entered(folder, invitation, link, line, own, plan)


def join_shop(
    folder: Path, text: str, rows: Interactions, plan: JoinPlan, tell: Callable[[str], None]
) -> int:
    """Has the users of some rows join by a link, with a device each in `folder`. Customers who have
    joined before are left as they are, so that a call that was interrupted can be made again.

    tell: as in `join_by_link`, and is called with the progress. Returns the number of customers who
    have joined now. Raises InputError as `join_by_link` does, before anybody joins where that can
    be known, and for a link to another federation than that of the shop.
    """
    link = JoinLink.parse(text)
    for device in devices_of(folder)[:1]:
        run = FederationTerms.read(device / TERMS).run
        if run != link.run:
            problem = f"leads to the federation {link.run}, and {folder} is in {run}"
            raise InputError("--link", problem, fix="choose another folder")
    devices = [folder / name_of(user) for user in rows.users.ids.tolist()]
    coming = [number for number, device in enumerate(devices) if not (device / STORE).exists()]
    if not coming:
        return 0
    with tempfile.TemporaryDirectory(prefix=MADE) as place, closing(JoiningLine(link)) as line:
        invitation = Path(place)
        _agreed(invitation, link, line, rows.of_users(np.array(coming)), plan, tell)
        # Before this the shop has no folder: terms that are refused leave nothing behind.
        key = key_of(folder)
        for done, number in enumerate(coming):
            own = rows.of_users(np.array([number]))
            # A server answers so many strangers of one address, and shuts it out if there are more.
            time.sleep(APART)
            try:
                _entered(devices[number], invitation, link, line, own, plan, key)
            except InputError as why:
                problem = f"{done} of {len(coming)} customers have joined, then: {why}"
                raise InputError(str(folder), problem, fix="the same command goes on") from None
            if (done + 1) % 100 == 0:
                tell(f"{done + 1} of {len(coming)} customers have joined")
    return len(coming)


def _agreed(
    invitation: Path,
    link: JoinLink,
    line: JoiningLine,
    rows: Interactions | None,
    plan: JoinPlan,
    tell: Callable[[str], None],
) -> Interactions:
    """Looks at what joining means, and tells it. Returns the rows as `_checked` does. Raises
    InputError.
    """
    _unpacked(invitation, line.terms(), MEANT, link, line.certificate)
    own = _checked(invitation, rows, plan)
    for said in told(invitation, plan.algorithm):
        tell(said)
    return own


def _entered(
    folder: Path,
    invitation: Path,
    link: JoinLink,
    line: JoiningLine,
    rows: Interactions,
    plan: JoinPlan,
    shop: Ed25519PrivateKey | None = None,
) -> Int64Array:
    """Asks a server for a place, and makes the device's folder. Returns the federation's number of
    the user, int64 [1]. invitation: has the items. shop: the key of the device's shop. Raises
    InputError.
    """
    mark = "" if shop is None else public_bytes(shop).hex()
    request = _request(folder, mark)
    statement = asking(link.run, link.token, request.name)
    signature = read_identity(folder / IDENTITY).sign(statement)
    said = {"name": request.name, "key": request.key, "signature": signature.hex()}
    if shop is not None:
        said |= {"shop": request.shop, "shop_signature": shop.sign(statement).hex()}
    answer = line.joined(json.dumps(said).encode())
    _unpacked(invitation, answer, PLACED, link, line.certificate)
    return join(folder, invitation, rows, plan)


def _unpacked(
    folder: Path, packed: bytes, names: Container[str], link: JoinLink, certificate: str
) -> None:
    """Writes the files that a server sent, as an invitation to the server that the link names.
    names: that they may have. Raises InputError for anything but one to the federation that the
    link names.
    """
    try:
        parts: Mapping[str, str] = msgspec.json.decode(packed, type=dict[str, str])
    except (ValueError, RecursionError):
        raise InputError("--link", f"{link.server} {BAD}", fix=AGAIN) from None
    for name, text in parts.items():
        # A name leads to a file of this machine.
        if name not in names:
            raise InputError("--link", f"{link.server} {BAD}", fix=AGAIN)
        (folder / name).write_bytes(text.encode())
    if certificate:
        (folder / "ca.crt").write_text(certificate, encoding="ascii")
    found = FederationTerms.read(folder / TERMS).run
    if found != link.run:
        problem = f"{link.server} has the federation {found}, and the link names {link.run}"
        raise InputError("--link", problem, fix=AGAIN)
    # Whoever answers sends nobody on to another place: where the server has moved, a signed notice
    # says so.
    write_json(folder / INVITATION, {"server": link.server, "tls": link.tls})


def _checked(invitation: Path, rows: Interactions | None, plan: JoinPlan) -> Interactions:
    """Returns the rows with which to join. Raises InputError where the owner would refuse the
    invitation, or the rows do not fit it.
    """
    terms = FederationTerms.read(invitation / TERMS)
    # Each person has a device, also in a shop.
    check_terms(Path("--link"), terms, plan, 1)
    items = current_items(invitation, terms).items.vocabulary
    if rows is None:
        return _nobody(items)
    with_items(rows, items.indices(rows.items.ids.tolist()), items)
    return rows


def _request(folder: Path, mark: str) -> EnrolmentRequest:
    """Returns the request of the device, whose key is made if there is none. Its name says
    nothing. mark: of its shop.
    """
    if (folder / IDENTITY).exists():
        return EnrolmentRequest.read(folder / REQUEST)
    return identity(folder, f"device-{secrets.token_hex(8)}", shop=mark)


def _nobody(items: Vocabulary) -> Interactions:
    """Returns the rows of one user who has none."""
    return Interactions(
        ptr=np.zeros(2, np.int64),
        item=np.empty(0, np.int32),
        value=np.empty(0, np.float32),
        time=np.empty(0, np.int64),
        row=np.empty(0, np.int64),
        users=Vocabulary([ME], kind="user"),
        items=items,
    )
