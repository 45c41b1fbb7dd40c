"""A node that lives on: connects to a SuperLink, answers the server's frames in this process, comes back after every loss."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from secrets import SystemRandom
from typing import TYPE_CHECKING, NamedTuple, final

from ...core.errors import InputError, one_line
from ..link import Answer
from .keys import Keys
from .place import refuse_plain, split_address

if TYPE_CHECKING:
    from .fleet import Session

FIRST, LONGEST = 0.5, 30.0  # s before the second attempt at a connection, and at most
ATTEMPTS, MINUTE = 10, 60.0  # of connections, at most
POLL, IDLE = 0.15, 3.0  # s between two questions for work where the server does not hold them: while a round runs, and at most
AHEAD, BEHIND = (
    4.0,
    290.0,
)  # s that a clock may be off and nobody minds: servers refuse what was signed 5 s ahead or 5 minutes ago
HEARTBEAT = 15.0  # s; a node that is silent for twice as long is gone
Say = Callable[[str], None]


class FlowerNode(NamedTuple):
    """One of many nodes in a process: its key, and the function that answers requests."""

    keys: Keys
    answer: Answer


def serve(
    address: str,
    keys: Keys,
    answer: Answer,
    stop: threading.Event,
    *,
    insecure: bool = False,
    heartbeat: float = HEARTBEAT,
    say: Say = print,
) -> None:
    """Answers the frames of the server at `address` (HOST:PORT) until `stop` is set; about 3 s after that at most.

    A lost connection, a server that is away, a run that ended: the node waits and connects again (exponential back-off with
    jitter, at most 10 attempts a minute). An exception of `answer` costs that request its answer, and is said in one line.

    Raises:
        InputError: what no waiting mends, found at the first connection: key not registered, no key, another CA, TLS on one side
            only, plain text beyond loopback without `insecure`.
    """
    host, _ = split_address("server address", address)
    if keys.ca is None:
        refuse_plain("node", host, insecure)
    connections = Backoff()
    while not stop.is_set():
        connections.wait(stop)
        if stop.is_set():
            return
        try:
            _connected(address, keys, answer, stop, heartbeat, say, connections)
        except Exception as error:
            refusal = refusal_of(error, keys)
            if refusal and not connections.node:
                raise refusal from error
            why = clock_of(error) or str(error) or type(error).__name__
            say(one_line(f"connection to {address} lost: {why}; trying again"))


def serve_many(
    address: str,
    nodes: Sequence[FlowerNode],
    stop: threading.Event,
    *,
    insecure: bool = False,
    heartbeat: float = HEARTBEAT,
    say: Say = print,
) -> None:
    """Many nodes as threads of this process, each with its key and its answers, until all have ended. Raises the first InputError."""
    failures: list[InputError] = []

    def one(node: FlowerNode) -> None:
        try:
            serve(address, node.keys, node.answer, stop, insecure=insecure, heartbeat=heartbeat, say=say)
        except InputError as error:
            failures.append(error)

    threads = [threading.Thread(target=one, args=(node,), daemon=True, name=f"node {at}") for at, node in enumerate(nodes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


@final
class Backoff:
    """Waiting times between attempts to connect: 0.5 s, doubled up to 30 s, half of it random, and never more than 10 attempts
    in a minute."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.node = 0  # Flower's number of this node, once there was a connection
        self._clock, self._failures, self._attempts = clock, 0, deque[float](maxlen=ATTEMPTS)

    def pause(self) -> float:
        """The seconds to wait before the next attempt to connect."""
        delay = 0.0 if self._failures == 0 else min(LONGEST, FIRST * 2 ** (self._failures - 1)) * SystemRandom().uniform(0.5, 1.0)
        full = len(self._attempts) == ATTEMPTS
        return max(delay, self._attempts[0] + MINUTE - self._clock() if full else 0.0)

    def wait(self, stop: threading.Event) -> None:
        """Wait for the next attempt, and count it as failed until `success` is called."""
        stop.wait(self.pause())
        self._attempts.append(self._clock())
        self._failures += 1

    def success(self, node: int) -> None:
        self._failures, self.node = 0, node


def _connected(
    address: str, keys: Keys, answer: Answer, stop: threading.Event, heartbeat: float, say: Say, connections: Backoff
) -> None:
    """One connection, from activation until `stop` or an error. Heartbeats go on while an answer is being made."""
    from .fleet import session

    with session(address, keys, known=connections.node, wait=IDLE, heartbeat=heartbeat) as opened:
        over, failure = threading.Event(), list[Exception]()
        beating = threading.Thread(target=_beat, args=(opened, heartbeat, over, failure), daemon=True, name="heartbeat")
        beating.start()
        try:
            last = time.monotonic()
            while not stop.is_set() and not failure:
                last = _turn(opened, answer, stop, say, last)
                connections.success(opened.node.node_id)
            if failure:
                raise failure[0]
        finally:
            over.set()


def _turn(opened: Session, answer: Answer, stop: threading.Event, say: Say, last: float) -> float:
    """A question for work, and its answer if there was some; returns when this node last had work (monotonic seconds)."""
    began = time.monotonic()
    with _ended_runs():
        request = opened.request()
        if request is not None:
            started = time.monotonic()
            reply = _answered(answer, request.frame, say)
            if reply is not None:
                opened.reply(request.message, reply, time.monotonic() - started)
            opened.confirm(request.message)
            return time.monotonic()
    taken = time.monotonic() - began
    if (
        taken < IDLE / 2
    ):  # the server did not hold the question: poll, the more slowly the longer nothing came and the busier it is
        stop.wait(min(IDLE, max(POLL, (began - last) / 10, 10 * taken)))
    return last


def _answered(answer: Answer, frame: bytes, say: Say) -> bytes | None:
    try:
        return answer(frame)
    except Exception as error:  # the node must not die of one request
        say(one_line(f"a request was not answered: {type(error).__name__}: {error}"))
        return None


def _beat(opened: Session, seconds: float, over: threading.Event, failure: list[Exception]) -> None:
    """A sign of life, a little more often than promised; an error ends the connection, which the node's own thread then makes again."""
    while not over.wait(0.7 * seconds * SystemRandom().uniform(0.9, 1.1)):
        try:
            if not opened.heartbeat(seconds):
                raise ConnectionError("the server does not know this node any more")
        except Exception as error:
            failure.append(error)
            return


@contextmanager
def _ended_runs() -> Iterator[None]:
    """A message of a run that has ended is let go (Flower answers 403)."""
    import httpx

    try:
        yield
    except httpx.HTTPStatusError as error:
        if error.response.status_code != 403:
            raise


def refusal_of(error: Exception, keys: Keys) -> InputError | None:
    """The error, as one line, that no later attempt would mend; None where trying again is right (server away, busy,
    restarting)."""
    import httpx

    text = str(error)
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return InputError(
            "node", f"the server's certificate is not to be trusted: {text}", fix="give the ca.crt of this federation"
        )
    if isinstance(error, httpx.ConnectError) and "SSL" in text:
        return InputError("node", "the server does not speak TLS", fix="give the server its keys, or this node none")
    if isinstance(error, httpx.RemoteProtocolError) and keys.ca is None:
        return InputError(
            "node", "the server hangs up on plain text", fix="give this node the federation's ca.crt and its own key"
        )
    if clock_of(error):  # somebody may set it right
        return None
    if isinstance(error, httpx.HTTPStatusError) and 400 <= error.response.status_code < 500 and error.response.status_code != 429:
        if keys.private is None:
            return InputError(
                "node", "this server lets in registered keys alone, and no key was given", fix="give this node its key"
            )
        return InputError(
            "node", "this key is not registered with the server", fix="put its .pub into the nodes folder of the server's keys"
        )
    return None


def clock_of(error: Exception) -> str:
    """How far this machine's clock and the server's are apart, where that is why the server refuses; "" where it is not. What a node signs
    holds for five minutes."""
    import httpx

    if not isinstance(error, httpx.HTTPStatusError) or not 400 <= error.response.status_code < 500:
        return ""
    try:
        there = parsedate_to_datetime(error.response.headers.get("date", "")).timestamp()
    except (TypeError, ValueError):
        return ""
    off = time.time() - there
    if -BEHIND < off < AHEAD:
        return ""
    return (
        f"this machine's clock is {abs(off):.0f} s {'ahead of' if off > 0 else 'behind'} the server's: set both by a time server"
    )
