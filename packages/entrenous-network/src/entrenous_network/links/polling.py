"""A node's connection to its server. The node asks for work over HTTPS, answers in this process,
and comes back after every loss.

The server may be anybody who has its TLS key. So `ServerLine` reads a response as it comes, never
decodes it, and gives it up where it is longer than this server's responses can be. It keeps no
cookies, follows no redirects and knows no encodings, as an ordinary HTTP client would.
"""

from __future__ import annotations

import asyncio
import re
import ssl
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from email.utils import parsedate_to_datetime
from pathlib import Path
from secrets import SystemRandom
from typing import NamedTuple, Protocol, final

import httpx

from entrenous.core.errors import EntrenousError, InputError, NotYet, one_line

from ..agreement.address import is_loopback, refuse_plain, split_address
from .admission import HELD, STRETCH, Stretches, is_number
from .buffers import use_small_buffers
from .port import Answer

# Seconds before the second attempt at a connection, and at most.
FIRST = 0.5
LONGEST = 30.0
LATEST = 600.0  # seconds until the next question, however long a server says
# Attempts in a row each of which is said; then every tenth, and after a hundred every hundredth.
SAID = 5
# Connections within so many seconds, at most.
ATTEMPTS = 10
MINUTE = 60.0
# Seconds for which a server that refuses this node may be one that has just come up.
PATIENCE = 30.0
SHOWN = 60.0  # seconds for which a node shows one signed header
SHOWN_REASON = 240  # characters of a reason, which may quote a server
# Seconds within which a server without work says so only where it wants to be asked again later.
QUICK = 1.0
LARGEST = 1 << 26  # bytes of a request, at most, where the federation's own limit is not known
OFF = 290.0  # seconds that a clock may be off and nobody minds
# Seconds without a byte, besides the time that a server may hold a question, after which the
# connection is taken for lost.
CALL = 30.0
WORD = 1024  # bytes of a response that is no frame, at most
PIECE = 1 << 16  # bytes of an answer that are sent at once
LIKELY = re.compile(rb"[a-z0-9-]{1,40}")  # a word by which a server says why it refuses
# Refusals of a node that came, or changed its key, before the server's next start.
NOT_YET = ("unknown-node", "bad-signature")
# Reasons of OpenSSL for a connection to a server that speaks no TLS, or an old version of it.
NO_TLS = (
    "WRONG_VERSION",
    "PROTOCOL_VERSION",
    "UNSUPPORTED_PROTOCOL",
    "UNKNOWN_PROTOCOL",
    "RECORD_LAYER",
    "HTTP_REQUEST",
)
Say = Callable[[str], None]


# ---- one connection ------------------------------------------------------------------------------


class BadResponse(Exception):
    """Raised for a response that no server of a federation gives. Its text has nothing of the
    response.
    """


class ServerSaid(NamedTuple):
    """A response of the server, read whole within its limits."""

    status: int
    body: bytes
    """A frame, or the word of a refusal."""
    later: float
    """Seconds after which to ask again; 0 where the server does not say."""
    date: str
    """The time by the server's clock, as it says it."""
    certificate: bytes = b""
    """Of the server on this connection, DER; b"" without TLS."""

    @property
    def word(self) -> str:
        """The reason of a refusal, "" where it is no word."""
        word = LIKELY.fullmatch(self.body.strip())
        if word is None:
            return ""
        return word[0].decode("ascii")


@final
class ServerLine:
    """One connection to the server at `url`, closed by `aclose`.

    trust: the certificates by which to know the server, False = plain text. largest: bytes of a
    frame of the server, at most. Raises what httpx raises, and BadResponse.
    """

    def __init__(self, url: str, trust: ssl.SSLContext | bool, largest: int) -> None:
        limits = httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=HELD)
        # A transport alone: a client around it would follow redirects and keep cookies.
        self._transport = httpx.AsyncHTTPTransport(verify=trust, trust_env=False, limits=limits)
        self._url = url
        self._largest = largest
        self._host = httpx.URL(url).netloc

    async def aclose(self) -> None:
        """Hangs up."""
        await self._transport.aclose()

    async def work(self, header: str) -> ServerSaid:
        """Asks for work, with the header that shows the node's key."""
        request = self._request("GET", "/v1/work", header, b"")
        return await self._said(request, self._largest, HELD + CALL)

    async def answer(self, header: str, frame: bytes) -> ServerSaid:
        """Brings an answer; returns when the server has dealt with it."""
        request = self._request("POST", "/v1/answer", header, frame)
        # A long frame is given the time of a slow connection.
        sending = CALL * len(frame) / STRETCH
        return await self._said(request, WORD, HELD + CALL + sending)

    async def ask(
        self, method: str, path: str, header: str, body: bytes, largest: int
    ) -> ServerSaid:
        """Asks something that is no work; returns the server's response, of so many bytes at
        most.
        """
        request = self._request(method, path, header, body)
        return await self._said(request, largest, CALL)

    def _request(self, method: str, path: str, header: str, frame: bytes) -> httpx.Request:
        headers = {
            "host": self._host.decode("ascii"),
            "authorization": header,
            "accept-encoding": "identity",
            "content-length": str(len(frame)),
        }
        timeout = {"connect": CALL, "read": HELD + CALL, "write": CALL, "pool": CALL}
        return httpx.Request(
            method,
            self._url + path,
            headers=headers,
            stream=_Pieces(frame),
            extensions={"timeout": timeout},
        )

    async def _said(self, request: httpx.Request, largest: int, seconds: float) -> ServerSaid:
        """Returns the response to a request. seconds: until its head is there."""
        try:
            async with asyncio.timeout(seconds):
                response = await self._transport.handle_async_request(request)
        except TimeoutError:
            raise BadResponse(f"the server gives no answer within {seconds:.0f} s") from None
        try:
            body = await _body(response, largest)
        finally:
            await response.aclose()
        wanted = response.headers.get("retry-after", "")
        later = float(wanted) if is_number(wanted) else 0.0
        # The date is shown to people, so a server cannot make it long.
        date = response.headers.get("date", "")[:40]
        return ServerSaid(response.status_code, body, later, date, _certificate(response))


@final
class _Pieces(httpx.AsyncByteStream):
    """A body that is sent piece by piece, so that a slow connection is not taken for a lost one."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for at in range(0, len(self._body), PIECE):
            yield self._body[at : at + PIECE]


def _certificate(response: httpx.Response) -> bytes:
    """Returns the certificate that the server has shown, DER; b"" without TLS."""
    shown = response.extensions["network_stream"].get_extra_info("ssl_object")
    if shown is None:
        return b""
    return shown.getpeercert(binary_form=True) or b""


async def _body(response: httpx.Response, largest: int) -> bytes:
    """Returns the body of a response. Raises BadResponse for a body that is encoded, longer than
    `largest`, or does not say how long it is.
    """
    # A small encoded body could become a huge one.
    encoding = response.headers.get("content-encoding", "identity")
    if encoding.strip().lower() != "identity":
        raise BadResponse("the server's response is encoded, which nobody asked for")
    if response.status_code == 204:
        return b""
    if response.status_code >= 300:
        return await _read(response, WORD)
    length = response.headers.get("content-length", "")
    if not is_number(length):
        raise BadResponse("the server's response does not say how long it is")
    size = int(length)
    if size > largest:
        raise BadResponse(f"the server's response is of {size} bytes; expected at most {largest}")
    return await _read(response, size)


async def _read(response: httpx.Response, most: int) -> bytes:
    """Returns the first `most` bytes of a body. Raises BadResponse where they come too slowly."""
    parts: list[bytes] = []
    left = most
    stretches = Stretches(CALL)
    try:
        async with stretches.limit:
            async for part in response.aiter_raw():
                parts.append(part[:left])
                left -= len(part)
                stretches.came(len(part))
                if left < 0:
                    break
    except TimeoutError:
        raise BadResponse("the server's response comes too slowly") from None
    return b"".join(parts)


# ---- connection after connection -----------------------------------------------------------------


class Watching(Protocol):
    """An observer that is told how a node's connection is, from its event loop."""

    def heard(self, again: float) -> None:
        """Notes that the server has answered; the node asks it again after so many seconds."""
        ...

    def lost(self, why: str) -> None:
        """Notes that the connection was lost, or could not be made."""
        ...

    def finished(self) -> bool:
        """Returns True if the node has all that its server will give: once the connection is lost,
        no other one is made.
        """
        ...


class Unwatched:
    """An observer that does nothing."""

    def heard(self, again: float) -> None:
        """Ignores that the server was heard."""

    def lost(self, why: str) -> None:
        """Ignores that the server was lost."""

    def finished(self) -> bool:
        """Returns False: the node goes on asking."""
        return False


class PollingNode(NamedTuple):
    """One of many nodes in a process."""

    here: Callable[[], str]
    """Makes the header by which the node shows its key."""
    answer: Answer
    """Answers requests."""
    watch: Watching = Unwatched()
    """Is told of the node's connection."""
    largest: int = LARGEST
    """Bytes of a request that its server may send, at most."""
    addresses: Callable[[str], Sequence[str]] = lambda first: (first,)
    """Returns where its server may be reached, in the order in which to try it. first: where it was
    at first."""


# Returns the addresses that a node tries, with their scheme; one at least.
Urls = Callable[[PollingNode], list[str]]


class Refused(EntrenousError):
    """Raised when the server refuses a request.

    status: of HTTP. code: the server's word for why. date: its clock.
    """

    def __init__(self, status: int, code: str, date: str) -> None:
        self.status = status
        self.code = code
        self.date = date
        super().__init__(f"the server says {code or status}")


def serve(
    address: str,
    ca: Path | None,
    nodes: Sequence[PollingNode],
    stop: threading.Event,
    *,
    tls: bool = True,
    insecure: bool = False,
    say: Say = print,
) -> None:
    """Answers the requests of the server at `address` (HOST:PORT) until `stop` is set, or all nodes
    have finished, by nodes of which each has its key and its connection, and may know further
    addresses. ca: the file with the authority of the server's certificate, None = those that the
    system trusts.

    If a connection is lost, or the server is away or busy, the node waits and connects again
    (exponential back-off with jitter, at most 10 attempts a minute), to its first address, and then
    to each of the others in turn. An exception of `answer` costs
    that request its answer, and is said in one line.

    Raises the first InputError of a node, for faults that no waiting mends: another authority,
    other terms, TLS on one side only, plain text beyond loopback without `insecure`. Raises NotYet,
    a kind of it, for faults that the operator may mend without this node: a node that the server
    does not know yet, or a certificate that has ended.
    """
    host, _ = split_address("server address", address)
    if not tls:
        refuse_plain("node", host, insecure)
    use_small_buffers()
    scheme = "https" if tls else "http"
    trust = _trust(ca) if tls else False

    def urls(node: PollingNode) -> list[str]:
        known = node.addresses(address)
        # Nothing beyond loopback goes in plain text, whatever a server says.
        may = [each for each in known if tls or insecure or is_loopback(split_address("", each)[0])]
        return [f"{scheme}://{each}" for each in may]

    asyncio.run(_all(urls, trust, nodes, stop, say))


async def _all(
    urls: Urls,
    trust: ssl.SSLContext | bool,
    nodes: Sequence[PollingNode],
    stop: threading.Event,
    say: Say,
) -> None:
    """Runs all nodes until `stop` is set, all have finished or one of them fails, and raises the
    first error.
    """
    lives = [asyncio.create_task(_live(urls, trust, node, stop, say)) for node in nodes]
    try:
        # `stop` is set by another thread, which no event loop can be told of.
        left = set(lives)
        while left and not stop.is_set():
            first = asyncio.FIRST_EXCEPTION
            done, left = await asyncio.wait(left, timeout=0.1, return_when=first)
            for life in done:
                life.result()
    finally:
        for life in lives:
            life.cancel()
        await asyncio.gather(*lives, return_exceptions=True)


async def _live(
    urls: Urls, trust: ssl.SSLContext | bool, node: PollingNode, stop: threading.Event, say: Say
) -> None:
    """Runs one node: connection after connection."""
    connections = Backoff()
    refused = 0  # addresses in a row of which no later attempt would be better
    began = time.monotonic()
    while not stop.is_set():
        await asyncio.sleep(connections.pause())
        known = urls(node)
        url = known[connections.lost % len(known)]
        connections.attempt()
        try:
            await _connected(url, trust, node, say, connections)
        except (httpx.HTTPError, ssl.SSLError, Refused, BadResponse, OSError) as error:
            if node.watch.finished():
                return
            refusal = refusal_of(error, url.startswith("https"))
            # A server reads its list of members when it starts, so a node that it refuses waits
            # for a while; nothing else that it refuses becomes better by waiting. A node that was
            # let in once goes on for ever.
            waited = time.monotonic() - began > PATIENCE
            waited |= not isinstance(error, Refused)
            refused = 0 if refusal is None else refused + 1
            # Of several addresses one may be another's by now, or not be the server's yet.
            spent = refused >= len(known)
            if refusal is not None and spent and not connections.ever and waited:
                raise refusal from error
            why = clock_of(error) or not_yet(error) or str(refusal or error)
            # Some errors of httpx have no text.
            why = why or type(error).__name__
            node.watch.lost(why)
            if connections.worth_saying:
                reason = one_line(why, SHOWN_REASON)
                line = f"connection to {url} lost: {reason}; {connections.trying}"
                say(one_line(line))


async def _connected(
    url: str, trust: ssl.SSLContext | bool, node: PollingNode, say: Say, connections: Backoff
) -> None:
    """Asks and answers over one connection, until an error ends it."""
    # One header is shown for a minute: the server checks the signature of each but once.
    header = ""
    since = -SHOWN

    def shown() -> str:
        nonlocal header, since
        if time.monotonic() - since >= SHOWN or not header:
            header = node.here()
            since = time.monotonic()
        return header

    async with aclosing(ServerLine(url, trust, node.largest)) as line:
        while True:
            asked = time.monotonic()
            response = _good(await line.work(shown()))
            connections.success()
            if response.status == 204:
                again = pause_of(response, time.monotonic() - asked)
                node.watch.heard(again)
                await asyncio.sleep(again)
                continue
            node.watch.heard(0.0)
            answer = await _answered(node.answer, response.body, say)
            if answer is not None:
                _good(await line.answer(shown(), answer))


def _good(response: ServerSaid) -> ServerSaid:
    """Returns the response itself. Raises Refused for anything but success."""
    if response.status >= 300:
        raise Refused(response.status, response.word, response.date)
    return response


def pause_of(response: ServerSaid, waited: float) -> float:
    """Returns the seconds until the next question, for a server that had no work and took `waited`
    seconds to say so.
    """
    wanted = min(LATEST, response.later)
    # Without this a server could keep a node busy with asking.
    least = QUICK if waited < QUICK else 0.0
    return max(least, wanted) * SystemRandom().uniform(0.5, 1.0)


async def _answered(answer: Answer, frame: bytes, say: Say) -> bytes | None:
    try:
        return await asyncio.to_thread(answer, frame)
    except Exception as error:  # the node must not die of one request
        say(one_line(f"a request was not answered: {type(error).__name__}: {error}"))
        return None


@final
class Backoff:
    """Waiting times between attempts to connect: 0.5 s, doubled up to 30 s, half of it random, and
    never more than 10 attempts in a minute. ever: True once there was a connection. lost: attempts
    since there was one."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.ever = False
        self.lost = 0
        self._clock = clock
        self._attempts: deque[float] = deque(maxlen=ATTEMPTS)

    @property
    def worth_saying(self) -> bool:
        """True where the last failure is to be said: a server that is away for a night fills no
        log.
        """
        if self.lost <= SAID:
            return True
        every = 10 if self.lost <= 100 else 100
        return self.lost % every == 0

    @property
    def trying(self) -> str:
        """The words that the node goes on, with the number of failures where not every failure is
        said."""
        if self.lost <= SAID:
            return "trying again"
        return f"trying again, {self.lost} times so far"

    def pause(self) -> float:
        """Returns the seconds to wait before the next attempt to connect, at most half a minute or
        what ten attempts a minute leave.
        """
        delay = 0.0
        if self.lost:
            doubled = FIRST * 2.0 ** min(self.lost - 1, 60)
            # Half of it random: the nodes of a server that was away must not come all at once.
            delay = min(LONGEST, doubled) * SystemRandom().uniform(0.5, 1.0)
        if len(self._attempts) < ATTEMPTS:
            return delay
        return max(delay, self._attempts[0] + MINUTE - self._clock())

    def attempt(self) -> None:
        """Counts an attempt as failed until `success` is called."""
        self._attempts.append(self._clock())
        self.lost += 1

    def success(self) -> None:
        """Notes that the server has answered."""
        self.lost = 0
        self.ever = True


def _trust(ca: Path | None) -> ssl.SSLContext:
    """Returns the certificates to trust. Raises InputError for a file that holds no certificate."""
    try:
        # With a file, that authority alone is trusted, and none of the system's.
        context = ssl.create_default_context(cafile=None if ca is None else str(ca))
    except (OSError, ssl.SSLError) as error:
        problem = f"no certificate can be read ({error})"
        raise InputError(str(ca), problem, expected="the ca.crt of this federation") from error
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    return context


# ---- what an error means -------------------------------------------------------------------------


def refusal_of(error: Exception, tls: bool = True) -> InputError | None:
    """Returns the error, as one line, that no later attempt would mend; None where trying again is
    right (server away, busy, restarting).
    """
    text = str(error)
    if "CERTIFICATE_VERIFY_FAILED" in text and not not_yet(error):
        return InputError(
            "node",
            f"the server's certificate is not to be trusted: {text}",
            fix="give the ca.crt of this federation",
        )
    if isinstance(error, httpx.ConnectError) and any(reason in text for reason in NO_TLS):
        return InputError(
            "node",
            "the server does not speak TLS 1.3",
            fix="give the server its keys, or this node none",
        )
    if isinstance(error, httpx.RemoteProtocolError) and not tls:
        return InputError(
            "node",
            "the server does not speak plain HTTP",
            fix="give this node the federation's ca.crt",
        )
    if isinstance(error, Refused) and error.status == 401 and error.code != "clock":
        kind = NotYet if error.code in NOT_YET else InputError
        return kind(
            "node",
            f"the server does not let this node in ({error.code})",
            fix="ask the operator whether it is invited, by the key that it has now, and not shut"
            " out",
        )
    return None


def not_yet(error: Exception) -> str:
    """Returns what is wrong with the time, where a certificate is refused for that alone; "" where
    something else is wrong.
    """
    text = str(error)
    if "CERTIFICATE_VERIFY_FAILED" not in text:
        return ""
    if "not yet valid" in text:
        return (
            "the server's certificate is not valid yet: this machine's clock is behind, or the"
            " server's ahead; set both by a time server"
        )
    if "expired" in text:
        return (
            "the server's certificate has expired: the operator has to renew it, unless this"
            " machine's clock is ahead"
        )
    return ""


def clock_of(error: Exception) -> str:
    """Returns how far this machine's clock and the server's are apart, where that is why the server
    refuses; "" where it is not.
    """
    if not isinstance(error, Refused) or error.code != "clock":
        return ""
    try:
        there = parsedate_to_datetime(error.date).timestamp()
    except (TypeError, ValueError, OverflowError):
        return ""
    off = time.time() - there
    if abs(off) < OFF:
        return ""
    side = "ahead of" if off > 0 else "behind"
    return (
        f"this machine's clock is {abs(off):.0f} s {side} the server's: set both by a time server"
    )
