"""The questions of somebody who has a link and wants to join: each over one connection, by the
same limits as a node's.
"""

from __future__ import annotations

import asyncio
import ssl
import time

import httpx

from entrenous.core.errors import InputError, NotYet, one_line

from ..agreement.join_link import AGAIN, JoinLink, authority_of
from .admission import JOINING
from .polling import BadResponse, ServerLine, ServerSaid, refusal_of

ATTEMPTS = 3
PAUSE = 1.0  # seconds between two of them
LARGEST = 1 << 26  # bytes of an answer, at most
CERTIFICATE = 1 << 14  # bytes of an authority's certificate, at most
# What a server says, and what to do.
REFUSALS = {
    "no-such-link": ("knows no such link", "copy the whole link, or " + AGAIN),
    "link-ended": ("says that the link has ended", AGAIN),
    "link-used-up": ("says that as many have joined by the link as may", AGAIN),
    "too-often": ("lets no more join from this address for now", "try again in an hour"),
    "not-taken": ("has no place left", "ask the operator"),
    "no-such-thing": ("lets nobody join by a link", "ask the operator for an invitation"),
    "busy": ("is busy", "try again in a moment"),
}


def authority(link: JoinLink) -> str:
    """Returns the certificate of the server's authority, in PEM, which is the one that the link
    names. Raises InputError.
    """
    # Nobody is trusted yet: whoever answers can show the certificate that the link names, or
    # another one, which is found out here. The token is not sent.
    unknown = ssl.create_default_context()
    unknown.check_hostname = False
    unknown.verify_mode = ssl.CERT_NONE
    certificate = _asked(link, unknown, "GET", "/v1/authority", "", b"", CERTIFICATE)
    if authority_of(certificate) != link.authority:
        raise InputError(
            "--link",
            f"{link.server} shows another authority than the link names",
            fix="ask the operator for the link once more: somebody may stand between",
        )
    return certificate.decode("ascii", "replace")


def terms(link: JoinLink, certificate: str) -> bytes:
    """Returns what joining means, as files. Raises InputError. certificate: of the server's
    authority, in PEM; "" = those that the system trusts."""
    return _asked(link, _trust(link, certificate), "GET", "/v1/join", _shown(link), b"", LARGEST)


def joined(link: JoinLink, certificate: str, request: bytes) -> bytes:
    """Joins: returns the invitation, as files, without the items. certificate and errors: as for
    `terms`."""
    trust = _trust(link, certificate)
    return _asked(link, trust, "POST", "/v1/join", _shown(link), request, LARGEST)


def _shown(link: JoinLink) -> str:
    return f"{JOINING} {link.token}"


def _trust(link: JoinLink, certificate: str) -> ssl.SSLContext | bool:
    if not link.tls:
        return False
    context = ssl.create_default_context(cadata=certificate or None)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    return context


def _asked(
    link: JoinLink,
    trust: ssl.SSLContext | bool,
    method: str,
    path: str,
    header: str,
    body: bytes,
    largest: int,
) -> bytes:
    """Returns the body of the server's answer to one question. Raises InputError."""

    async def asked() -> ServerSaid:
        scheme = "https" if link.tls else "http"
        async with ServerLine(f"{scheme}://{link.server}", trust, largest) as line:
            return await line.ask(method, path, header, body)

    for attempt in range(ATTEMPTS):
        try:
            said = asyncio.run(asked())
            break
        except (httpx.HTTPError, ssl.SSLError, BadResponse, OSError) as error:
            known = refusal_of(error, link.tls)
            if known is not None:
                raise known from None
            # A server that takes up longer lists is away for a moment.
            if attempt + 1 < ATTEMPTS:
                time.sleep(PAUSE)
                continue
            why = one_line(str(error)) or type(error).__name__
            problem = f"{link.server} does not answer ({why})"
            raise NotYet("--link", problem, fix="try again later") from None
    if said.status >= 300:
        problem, fix = REFUSALS.get(
            said.word, (f"refuses ({said.word or said.status})", "ask the operator")
        )
        raise InputError("--link", f"{link.server} {problem}", fix=fix)
    return said.body
