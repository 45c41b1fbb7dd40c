"""A node that lives on: asks its server for work over HTTPS, answers in this process, comes back
after every loss.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from email.utils import parsedate_to_datetime
from pathlib import Path
from secrets import SystemRandom
from typing import NamedTuple, Protocol, final

import httpx

from ...core.errors import InputError, NotYet, one_line
from ..agreement.address import refuse_plain, split_address
from .port import Answer
from .server_line import BadResponse, ServerLine, ServerSaid
from .traffic import LATER

FIRST, LONGEST = 0.5, 30.0  # seconds before the second attempt at a connection, and at most
RESTING = 600.0  # the same at most, for a node that has all that its server will give
# attempts in a row of which each is said; then every tenth, and after a hundred every hundredth
SAID = 5
ATTEMPTS, MINUTE = 10, 60.0  # of connections, at most
PATIENCE = (
    30.0  # seconds for which a server that refuses this node may be one that has just come up
)
SHOWN = 60.0  # seconds for which a node shows one signed header
SHOWN_REASON = 240  # characters of a reason, which may quote a server
# seconds within which a server that has no work says so only where it wants to be asked again later
QUICK = 1.0
LARGEST = 1 << 26  # bytes of a request, at most, where the federation's own limit is not known
OFF = 290.0  # seconds that a clock may be off and nobody minds
NOT_YET = (
    "unknown-node",
    "bad-signature",
)  # of a node that came, or changed its key, before the server's next start
NO_TLS = (
    "WRONG_VERSION",
    "PROTOCOL_VERSION",
    "UNSUPPORTED_PROTOCOL",
    "UNKNOWN_PROTOCOL",
    "RECORD_LAYER",
    "HTTP_REQUEST",
)  # OpenSSL's
Say = Callable[[str], None]


class Watching(Protocol):
    """Who is told how a node's connection is, from its event loop."""

    def heard(self) -> None:
        """Note that the server has answered."""
        ...

    def lost(self, why: str) -> None:
        """Note that the connection was lost, or could not be made."""
        ...

    def finished(self) -> bool:
        """Whether the node has all that its server will give: then it knocks seldom."""
        ...


class Unwatched:
    """A node's connection of which nobody is told."""

    def heard(self) -> None:
        """Do nothing with a word of the server."""

    def lost(self, why: str) -> None:
        """Do nothing about a lost connection."""

    def finished(self) -> bool:
        """False: a node of which nobody is told goes on asking."""
        return False


class PollingNode(NamedTuple):
    """One of many nodes in a process."""

    here: Callable[[], str]
    """Makes the header by which the node shows its key."""
    answer: Answer
    """Answers requests."""
    watch: Watching = Unwatched()
    """Who is told of the node's connection."""
    largest: int = LARGEST
    """Bytes of a request that its server may send, at most."""


class Refused(Exception):
    """Raised when the server refuses a request: the status of HTTP, its word for why, and its
    clock.
    """

    def __init__(self, status: int, code: str, date: str) -> None:
        self.status, self.code, self.date = status, code, date
        super().__init__(f"the server says {code or status}")


def serve(
    address: str,
    ca: Path | None,
    node: PollingNode,
    stop: threading.Event,
    *,
    tls: bool = True,
    insecure: bool = False,
    say: Say = print,
) -> None:
    """Answers the requests of the server at `address` (HOST:PORT) until `stop` is set. ca: the file
    with the authority of its certificate, None = those that the system trusts.

    A lost connection, a server that is away or busy: the node waits and connects again (exponential
    back-off with jitter, at most 10 attempts a minute). An exception of `answer` costs that request
    its answer, and is said in one line.

    Raises InputError for what no waiting mends: another authority, other terms, TLS on one side
    only, plain text beyond loopback without `insecure`; of these NotYet for what the operator may
    mend without this node: one that the server does not know yet, a certificate that has ended."""
    serve_many(address, ca, [node], stop, tls=tls, insecure=insecure, say=say)


def serve_many(
    address: str,
    ca: Path | None,
    nodes: Sequence[PollingNode],
    stop: threading.Event,
    *,
    tls: bool = True,
    insecure: bool = False,
    say: Say = print,
) -> None:
    """Many nodes in one process, each with its key and its connection, until `stop` is set. Raises
    the first InputError.
    """
    host, _ = split_address("server address", address)
    if not tls:
        refuse_plain("node", host, insecure)
    url, trust = f"{'https' if tls else 'http'}://{address}", _trust(ca) if tls else False
    asyncio.run(_all(url, trust, nodes, stop, say))


async def _all(
    url: str,
    trust: ssl.SSLContext | bool,
    nodes: Sequence[PollingNode],
    stop: threading.Event,
    say: Say,
) -> None:
    lives = [asyncio.create_task(_live(url, trust, node, stop, say)) for node in nodes]
    try:
        while not stop.is_set() and not any(life.done() for life in lives):
            await asyncio.sleep(0.1)
        for life in lives:
            if life.done():
                await life
    finally:
        for life in lives:
            life.cancel()
        await asyncio.gather(*lives, return_exceptions=True)


async def _live(
    url: str, trust: ssl.SSLContext | bool, node: PollingNode, stop: threading.Event, say: Say
) -> None:
    """One node: connection after connection."""
    connections = Backoff()
    began = time.monotonic()
    while not stop.is_set():
        await asyncio.sleep(connections.pause(RESTING if node.watch.finished() else LONGEST))
        connections.attempt()
        try:
            await _connected(url, trust, node, say, connections)
        except (httpx.HTTPError, ssl.SSLError, Refused, BadResponse, OSError) as error:
            refusal = refusal_of(error, url.startswith("https"))
            if (
                refusal is not None
                and not connections.ever
                and (time.monotonic() - began > PATIENCE or not waits(error))
            ):
                raise refusal from error
            why = clock_of(error) or not_yet(error) or str(refusal or error) or type(error).__name__
            node.watch.lost(why)
            if connections.worth_saying:
                say(
                    one_line(
                        f"connection to {url} lost: {one_line(why, SHOWN_REASON)};"
                        f" {connections.trying}"
                    )
                )


async def _connected(
    url: str, trust: ssl.SSLContext | bool, node: PollingNode, say: Say, connections: Backoff
) -> None:
    """One connection, until an error ends it."""
    header = _renewed(node.here)
    async with ServerLine(url, trust, node.largest) as line:
        while True:
            asked = time.monotonic()
            found = _good(await line.work(header()))
            connections.success()
            node.watch.heard()
            if found.status == 204:
                await asyncio.sleep(pause_of(found, time.monotonic() - asked))
                continue
            answer = await _answered(node.answer, found.body, say)
            if answer is not None:
                _good(await line.answer(header(), answer))


def _renewed(here: Callable[[], str]) -> Callable[[], str]:
    """The same header for a minute, then a new one: the server checks each but once."""
    shown, since = "", -SHOWN

    def header() -> str:
        nonlocal shown, since
        if time.monotonic() - since >= SHOWN or not shown:
            shown, since = here(), time.monotonic()
        return shown

    return header


def _good(found: ServerSaid) -> ServerSaid:
    """The response itself. Raises Refused for anything but success."""
    if found.status >= 300:
        raise Refused(found.status, found.word, found.date)
    return found


def pause_of(found: ServerSaid, waited: float) -> float:
    """Seconds until the next question, for a server that had no work and took `waited` seconds to
    say so.
    """
    wanted = min(10.0 * LATER, found.later)
    least = QUICK if waited < QUICK else 0.0  # else a server could keep a node busy with asking
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
    never more than 10 attempts in a minute. ever: whether there was a connection."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.ever = False
        self._clock, self._failures, self._attempts = clock, 0, deque[float](maxlen=ATTEMPTS)

    @property
    def worth_saying(self) -> bool:
        """Whether the last failure is to be said: a server that is away for a night fills no
        log.
        """
        every = 1 if self._failures <= SAID else 10 if self._failures <= 100 else 100
        return self._failures % every == 0

    @property
    def trying(self) -> str:
        """That it goes on, and how often it has failed where not every failure is said."""
        return (
            "trying again"
            if self._failures <= SAID
            else f"trying again, {self._failures} times so far"
        )

    def pause(self, longest: float = LONGEST) -> float:
        """The seconds to wait before the next attempt to connect, at most `longest` or what ten
        attempts a minute leave.
        """
        doubled = FIRST * 2.0 ** min(self._failures - 1, 60)
        delay = (
            0.0 if self._failures == 0 else min(longest, doubled) * SystemRandom().uniform(0.5, 1.0)
        )
        full = len(self._attempts) == ATTEMPTS
        return max(delay, self._attempts[0] + MINUTE - self._clock() if full else 0.0)

    def attempt(self) -> None:
        """Count an attempt as failed until `success` is called."""
        self._attempts.append(self._clock())
        self._failures += 1

    def success(self) -> None:
        """Note that the server has answered."""
        self._failures, self.ever = 0, True


def _trust(ca: Path | None) -> ssl.SSLContext:
    """Raises InputError for a file that holds no certificate."""
    try:
        context = ssl.create_default_context(cafile=None if ca is None else str(ca))
    except (OSError, ssl.SSLError) as error:
        raise InputError(
            str(ca),
            f"no certificate can be read ({error})",
            expected="the ca.crt of this federation",
        ) from error
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    return context


def waits(error: Exception) -> bool:
    """Whether waiting may mend what a server refuses: it reads its list of members when it
    starts.
    """
    return isinstance(error, Refused)


def refusal_of(error: Exception, tls: bool = True) -> InputError | None:
    """The error, as one line, that no later attempt would mend; None where trying again is right
    (server away, busy, restarting).
    """
    text = str(error)
    if "CERTIFICATE_VERIFY_FAILED" in text and not not_yet(error):
        problem, fix = (
            f"the server's certificate is not to be trusted: {text}",
            "give the ca.crt of this federation",
        )
        return InputError("node", problem, fix=fix)
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
        fix = "ask the operator whether this node's request was taken, and the server started since"
        kind = NotYet if error.code in NOT_YET else InputError
        return kind("node", f"the server does not let this node in ({error.code})", fix=fix)
    return None


def not_yet(error: Exception) -> str:
    """What is wrong with the time, where a certificate is refused for that alone; "" where it is
    not.
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
    """How far this machine's clock and the server's are apart, where that is why the server
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
