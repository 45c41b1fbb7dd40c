"""The questions of somebody who has a link and wants to join, over one connection, by the same
limits as a node's.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from typing import final

import httpx

from entrenous.core.errors import InputError, NotYet, one_line

from ..agreement.address import refuse_plain, split_address
from ..agreement.certificates import is_by
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


@final
class JoiningLine:
    """A connection to the server of a link, over which a device asks all that it has to ask: a
    handshake costs the server more than a question. Where the server hangs up meanwhile, the next
    question connects once more.

    certificate: of the server's authority, in PEM; "" = one that the system trusts. Raises
    InputError for a server of another authority than the link names.
    """

    def __init__(self, link: JoinLink) -> None:
        self.certificate = ""
        self._link = link
        self._shown = f"{JOINING} {link.token}"
        self._runner = asyncio.Runner()
        self._trust = _trust(link)
        self._line = self._connected()
        if link.tls and link.authority:
            try:
                self._find_authority()
            except BaseException:
                self.close()
                raise

    def close(self) -> None:
        """Hangs up."""
        with self._runner as runner:
            runner.run(self._line.aclose())

    def terms(self) -> bytes:
        """Returns what joining means, as files. Raises InputError."""
        return self._said("GET", "/v1/join", self._shown).body

    def joined(self, request: bytes) -> bytes:
        """Joins: returns the invitation, as files, without the items. Raises InputError."""
        return self._said("POST", "/v1/join", self._shown, request).body

    def _connected(self) -> ServerLine:
        scheme = "https" if self._link.tls else "http"
        return ServerLine(f"{scheme}://{self._link.server}", self._trust, LARGEST)

    def _find_authority(self) -> None:
        """Asks for the certificate of the server's authority, and trusts it alone from now on.
        Raises InputError.
        """
        link = self._link
        assert isinstance(self._trust, ssl.SSLContext)
        # Nobody is trusted yet: whoever answers can show the certificate that the link names, or
        # another one, which is found out here. The token is not sent.
        said = self._said("GET", "/v1/authority", "", largest=CERTIFICATE)
        if authority_of(said.body) != link.authority:
            raise InputError(
                "--link",
                f"{link.server} shows another authority than the link names",
                fix="ask the operator for the link once more: somebody may stand between",
            )
        self.certificate = said.body.decode("ascii", "replace")
        # Each further handshake is with a server of this authority, or fails.
        self._trust.load_verify_locations(cadata=self.certificate)
        self._trust.verify_mode = ssl.CERT_REQUIRED
        self._trust.check_hostname = True
        # Anybody may have answered and shown what the link names: the handshake that was is
        # good if its certificate is by that authority. Else there is another one.
        if not is_by(said.body, said.certificate, split_address("--link", link.server)[0]):
            self._runner.run(self._line.aclose())
            self._line = self._connected()

    def _said(
        self, method: str, path: str, header: str, body: bytes = b"", largest: int = LARGEST
    ) -> ServerSaid:
        """Returns the server's answer to one question. Raises InputError."""
        where = self._link.server
        for attempt in range(ATTEMPTS):
            try:
                said = self._runner.run(self._line.ask(method, path, header, body, largest))
                break
            except (httpx.HTTPError, ssl.SSLError, BadResponse, OSError) as error:
                known = refusal_of(error, self._link.tls)
                if known is not None:
                    raise known from None
                # A server that takes up longer lists is away for a moment.
                if attempt + 1 < ATTEMPTS:
                    time.sleep(PAUSE)
                    continue
                why = one_line(str(error)) or type(error).__name__
                problem = f"{where} does not answer ({why})"
                raise NotYet("--link", problem, fix="try again later") from None
        if said.status >= 300:
            problem, fix = REFUSALS.get(
                said.word, (f"refuses ({said.word or said.status})", "ask the operator")
            )
            raise InputError("--link", f"{where} {problem}", fix=fix)
        return said


def _trust(link: JoinLink) -> ssl.SSLContext | bool:
    """Returns whom to trust: those whom the system does, or, where the link names an authority,
    anybody until that is known. Raises InputError for plain text beyond loopback.
    """
    if not link.tls:
        refuse_plain("--link", split_address("--link", link.server)[0], insecure=False)
        return False
    if not link.authority:
        context = ssl.create_default_context()
    else:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    return context
