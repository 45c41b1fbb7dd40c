"""The answers of a server to its nodes, an ASGI application that is the same in one process
and in workers; and the requests and answers that wait between its event loop and the server's
thread.

    GET  /v1/work    the request that waits for this node, held until there is one: 200 and a frame,
                     or 204
    POST /v1/answer  a frame; answered with 200 when the server has dealt with it, and what counts
                     is on its disk
    GET  /v1/health  200; or 503 and why, where the server cannot do its work
    GET  /v1/authority, GET and POST /v1/join
                     what somebody who has a link needs to join

Work and answers carry the header of `admission.here`. A refusal has a word in its body; see
`Denied`.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from ..frames.frames import FrameParts, FrameRefused, claimed_node
from .admission import (
    GONE,
    HELD,
    JOINING,
    LATER,
    STRANGERS,
    UNASKED,
    Admission,
    Bodies,
    Body,
    Denied,
    Guard,
    Joins,
    Rates,
    is_number,
)
from .health import Trouble, no_trouble
from .siblings import Siblings

LARGEST_REQUEST = 4096  # bytes of a request to join
ALLOWED = 7200  # seconds for which a browser remembers what a page may
# Bytes of a frame that are given to a connection at once: TLS keeps as many of each connection.
PIECE = 1 << 15
# While the server rests: seconds for which a question is held, and after which its node is to ask
# again, at most and at least.
HELD_AT_REST = 3.0
LATEST = 600.0
LEAST = 2 * HELD
WAITING = 2048  # questions that are held at once
# Seconds for which a request is kept for a node to fetch it again, at most: after that a server
# asks it anew.
KEPT = 30.0
# Seconds after its line has ended in which a node may come back, and was never away: a client may
# renew its line before it brings an answer that took it long, and a worker that dies takes the
# lines of others' nodes with it.
BACK = 3.0

Line = tuple[str, int]
"""A connection, by the host and port of its other side."""


# ---- traffic -------------------------------------------------------------------------------------


class Parked(NamedTuple):
    """A request that its node has not answered."""

    frame: FrameParts
    until: float
    """Monotonic seconds at which the request ends."""


class Arrived(NamedTuple):
    """An answer that has arrived."""

    node: str
    frame: bytes
    done: asyncio.Future[None]
    """Resolves when the server has dealt with the answer."""


class Traffic:
    """Requests that wait for their nodes, and answers that wait for the server.

    The section of each method says which thread calls it; call `begin` first.
    """

    def __init__(self) -> None:
        self.since = time.monotonic()
        self._parked: dict[str, Parked] = {}
        self._asking: dict[str, asyncio.Future[FrameParts | None]] = {}
        # Monotonic seconds of each node's last word, or of the next one where it was told when.
        self._heard: dict[str, float] = {}
        # The newest line of each node, the nodes of each line, and the monotonic second of the end
        # of those nodes that have ended their newest line themselves.
        self._lines: dict[str, Line] = {}
        self._on_line: dict[Line, set[str]] = {}
        self._ended: dict[str, float] = {}
        self._rests_until = 0.0  # monotonic seconds
        self._arrived: SimpleQueue[Arrived | None] = SimpleQueue()  # None: another node is ready
        self._told = False  # True once that was said since `ready` was last called
        self._unanswered: list[Arrived] = []  # received, not yet acknowledged
        self._takes_questions = True
        self.loop: asyncio.AbstractEventLoop | None = None

    def begin(self) -> None:
        """Notes the event loop that calls this."""
        self.loop = asyncio.get_running_loop()

    # ---- for the server's thread ----

    def present(self) -> Collection[str]:
        """Returns the names of the nodes that have said something of late."""
        late = time.monotonic() - GONE
        # Copied at once: while pairs are listed one by one the event loop may have its turn.
        heard = self._heard.copy()
        return {node for node, seconds in heard.items() if seconds > late}

    def left(self) -> Collection[str]:
        """Returns the names of the nodes that have hung up and not come back in time."""
        late = time.monotonic() - BACK
        ended = self._ended.copy()
        return {node for node, seconds in ended.items() if seconds <= late}

    def ready(self) -> Collection[str]:
        """Returns the names of the nodes whose questions are held now."""
        self._told = False
        return list(self._asking)

    def send(self, node: str, frame: FrameParts, seconds: float) -> None:
        """Has a request fetched by its node, now if the node is asking."""
        assert self.loop is not None
        until = time.monotonic() + min(seconds, KEPT)
        request = Parked(frame, until)
        self.loop.call_soon_threadsafe(self._park, node, request)

    def receive(self, seconds: float) -> list[tuple[str, bytes]]:
        """Returns all answers that have come; waits for the first of them, or until another node is
        ready.
        """
        answers: list[Arrived] = []
        try:
            answer = self._arrived.get(timeout=seconds)
            while True:
                if answer is not None:
                    answers.append(answer)
                answer = self._arrived.get_nowait()
        except Empty:
            pass
        self._unanswered += answers
        return [(answer.node, answer.frame) for answer in answers]

    def rest(self, seconds: float) -> None:
        """Notes that no round begins for so many seconds."""
        self._rests_until = time.monotonic() + seconds

    def acknowledge(self) -> None:
        """Tells the nodes whose answers were received so far that these have been dealt with."""
        done = self._unanswered
        self._unanswered = []
        if done and self.loop is not None:
            self.loop.call_soon_threadsafe(_resolve, done)

    def end_questions(self) -> None:
        """Answers that there is nothing to whoever asks now or from now on."""
        if self.loop is not None:
            self.loop.call_soon_threadsafe(self._end_questions)

    def moved(self, siblings: Siblings) -> dict[str, float]:
        """Forgets the nodes that another worker serves from now on. Returns them by name, each with
        the seconds until it was heard, below 0, or until it was told to ask again.
        """
        now = time.monotonic()
        heard = self._heard.copy().items()
        moved = {node: at - now for node, at in heard if siblings.elsewhere(node) is not None}
        for node in moved:
            self._heard.pop(node, None)
        return moved

    def came(self, moved: Mapping[str, float]) -> None:
        """Notes nodes that another worker has served so far, as `moved` tells of them there."""
        now = time.monotonic()
        for node, seconds in moved.items():
            self._heard.setdefault(node, now + seconds)

    def send_on(self, siblings: Siblings) -> None:
        """Ends the questions of nodes that wait here for a request, and are served by another
        worker: they are put to that one.
        """
        assert self.loop is not None
        self.loop.call_soon_threadsafe(self._send_on, siblings)

    # ---- for the event loop ----

    def heard(self, node: str, again: float = 0.0) -> None:
        """Notes that a node is there. again: seconds after which it was told to ask again."""
        self._heard[node] = time.monotonic() + again

    def speaks(self, node: str, line: Line | None) -> None:
        """Notes that a node has said something on a line; None = on one that is not its own, as
        of a proxy or another worker, whose end says nothing of the node.
        """
        self._ended.pop(node, None)
        if line is None:
            self._lines.pop(node, None)
            return
        self._lines[node] = line
        self._on_line.setdefault(line, set()).add(node)

    def over(self, line: Line, *, hung_up: bool) -> None:
        """Notes that a line is over. hung_up: True if its other side has ended it. A node that
        speaks on a newer line is there.
        """
        for node in self._on_line.pop(line, ()):
            if self._lines.get(node) != line:
                continue
            del self._lines[node]
            if hung_up:
                self.gone(node)
                self._ended[node] = time.monotonic()

    def later(self) -> int:
        """Returns the seconds after which a node for whom there is nothing may ask again; 0 = it
        is to wait.
        """
        left = self._rests_until - time.monotonic()
        return int(min(left, LATEST)) if left > LEAST else 0

    def gone(self, node: str) -> None:
        """Notes that a node has hung up. It is there a little longer: it may come back at once, on
        another line or by another worker than one that has died.
        """
        last = self._heard.get(node)
        if last is not None:
            self._heard[node] = min(last, time.monotonic() - GONE + BACK)

    def parked(self, node: str) -> FrameParts | None:
        """Returns the request that waits for a node."""
        request = self._parked.get(node)
        if request is None:
            return None
        if request.until < time.monotonic():
            self._parked.pop(node, None)
            return None
        return request.frame

    def sweep(self) -> None:
        """Drops the requests of nodes that have gone: each holds a model. Call it about once a
        second.
        """
        now = time.monotonic()
        for node, request in list(self._parked.items()):
            if request.until <= now:
                del self._parked[node]

    def asks(self, node: str) -> asyncio.Future[FrameParts | None] | None:
        """Returns a future that resolves to the next request for a node, or to None where the node
        has asked once more elsewhere; None if too many ask, or questions have ended.
        """
        before = self._asking.pop(node, None)
        if before is not None and not before.done():
            before.set_result(None)
        if len(self._asking) >= WAITING or not self._takes_questions:
            return None
        self._asking[node] = asyncio.get_running_loop().create_future()
        if not self._told:
            self._told = True
            self._arrived.put(None)
        return self._asking[node]

    def asked(self, node: str, question: asyncio.Future[FrameParts | None]) -> None:
        """Notes that a question is over, however it ended."""
        if self._asking.get(node) is question:
            del self._asking[node]
        question.cancel()

    def waits_for(self, node: str) -> bool:
        """Returns whether a node has a request that it has not answered."""
        return node in self._parked

    def arrived(self, node: str, frame: bytes) -> asyncio.Future[None]:
        """Hands an answer to the server. Returns a future that resolves when the server has dealt
        with it."""
        self._parked.pop(node, None)
        # A node that only delivers has asked for no work, and is not there to be asked.
        if node in self._heard:
            self.heard(node)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._arrived.put(Arrived(node, frame, done))
        return done

    def _end_questions(self) -> None:
        self._takes_questions = False
        # They may come back to another server at once.
        self._rests_until = 0.0
        for question in self._asking.values():
            if not question.done():
                question.set_result(None)

    def _send_on(self, siblings: Siblings) -> None:
        for node, question in self._asking.items():
            if siblings.elsewhere(node) is not None and not question.done():
                self._heard.pop(node, None)
                question.set_result(None)

    def _park(self, node: str, request: Parked) -> None:
        question = self._asking.pop(node, None)
        if question is not None and not question.done():
            question.set_result(request.frame)
        # Kept, too, since the connection may be lost before the node has read it.
        self._parked[node] = request


def _resolve(answers: list[Arrived]) -> None:
    for answer in answers:
        if not answer.done.done():
            answer.done.set_result(None)


# ---- the application -----------------------------------------------------------------------------


class Front(NamedTuple):
    """The parts that the application works with."""

    admission: Admission
    traffic: Traffic
    guard: Guard | None
    largest: int
    """Bytes of an answer, at most."""
    counts: Counter[str]
    """Requests by what became of them."""
    trouble: Callable[[], Trouble | None] = no_trouble
    """Tells why the server cannot do its work; may wait for a disk."""
    siblings: Siblings | None = None
    """The other workers, which serve some of the nodes; None where this process serves all."""
    nearby: bool = False
    """True for what other workers pass on. It is not passed on again, since it could go in
    circles."""

    def elsewhere(self, node: str) -> int | None:
        """Returns the number of the worker that serves a node; None for this process."""
        if self.siblings is None:
            return None
        return self.siblings.elsewhere(node)


def application(front: Front, origins: Sequence[str] = ()) -> Starlette:
    """Returns the ASGI application of a server's nodes. origins: of web pages that may speak to
    it."""
    desk = _Requests(front)
    routes = [
        Route("/v1/work", desk.work),
        Route("/v1/answer", desk.answer, methods=["POST"]),
        Route("/v1/health", desk.health),
        Route("/v1/authority", desk.authority),
        Route("/v1/join", desk.terms),
        Route("/v1/join", desk.join, methods=["POST"]),
    ]
    handlers = {Denied: desk.denied, 404: desk.denied, 405: desk.denied}
    pages = []
    if origins:
        # A browser sends the header of a node only where the server allows that to the page.
        asks = Middleware(
            CORSMiddleware,
            allow_origins=list(origins),
            allow_methods=["GET", "POST"],
            allow_headers=["authorization"],
            expose_headers=["retry-after", "date"],
            max_age=ALLOWED,
        )
        pages.append(asks)
    return Starlette(routes=routes, middleware=pages, exception_handlers=handlers)  # type: ignore[arg-type]


@final
class FrameResponse(Response):
    """A frame as a response, sent piece by piece: its connection takes the next piece when it has
    room.
    """

    def __init__(self, frame: FrameParts) -> None:
        headers = {"content-length": str(len(frame))}
        super().__init__(media_type="application/octet-stream", headers=headers)
        self._frame = frame

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the response, as ASGI asks for it."""
        start = {"type": "http.response.start", "status": self.status_code}
        await send({**start, "headers": self.raw_headers})
        for piece in self._frame.pieces(PIECE):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


@final
class _Requests:
    """The handlers of the routes."""

    def __init__(self, front: Front) -> None:
        self._front = front
        self._bodies = Bodies(front.largest)
        self._nodes = Rates()
        self._strangers = Rates(*STRANGERS)
        self._unasked = Rates(*UNASKED)

    async def work(self, request: Request) -> Response:
        """Answers with the next request for the node that asks."""
        node = self._admitted(request)
        _refuse_body(request)
        while True:
            worker = self._front.elsewhere(node)
            if worker is None:
                response = await self._work_here(request, node)
            elif self._front.nearby:
                return Response(status_code=204)
            else:
                response = await self._passed_on(request, worker)
            # Groups may have been dealt anew meanwhile: the node need not ask again.
            if response.status_code != 204 or self._front.elsewhere(node) == worker:
                return response

    async def _work_here(self, request: Request, node: str) -> Response:
        """Returns the next request for a node that this process serves."""
        traffic = self._front.traffic
        traffic.heard(node)
        frame = traffic.parked(node)
        if frame is None:
            question = traffic.asks(node)
            if question is None:
                # This node comes back later.
                return Response(status_code=204, headers={"retry-after": str(LATER)})
            frame = await self._held(request, node, question)
        if frame is None:
            self._front.counts["nothing"] += 1
            later = traffic.later()
            if not later:
                return Response(status_code=204)
            # Its connection would cost it more than the few bytes of a further question.
            traffic.heard(node, later)
            return Response(status_code=204, headers={"retry-after": str(later)})
        self._front.counts["work"] += 1
        return FrameResponse(frame)

    async def _held(
        self, request: Request, node: str, question: asyncio.Future[FrameParts | None]
    ) -> FrameParts | None:
        """Waits for a request, for some time, and as long as the node does."""
        try:
            held = HELD_AT_REST if self._front.traffic.later() else HELD
            if not await _outwaits(request, question, held):
                self._front.traffic.gone(node)
            if question.done():
                return question.result()
            return None
        finally:
            self._front.traffic.asked(node, question)

    async def answer(self, request: Request) -> Response:
        """Takes an answer when it is whole; acknowledges it when the server has dealt with it."""
        node = self._admitted(request)
        # The length is known before a byte is read: whoever sends more is cut off.
        size = _header(request, b"content-length")
        if not is_number(size):
            raise Denied(411, "no-length")
        if int(size) > self._front.largest:
            raise Denied(413, "too-long")
        worker = None if self._front.nearby else self._front.elsewhere(node)
        asked = worker is not None or self._front.traffic.waits_for(node)
        # Refused here, so that a flood of answers never reaches the server itself.
        if not asked and not self._unasked.allow(node):
            raise Denied(429, "too-often")
        async with self._bodies.of(node, asked) as body:
            frame = await _read(request, int(size), body)
            _check_sender(frame, node)
            if worker is not None:
                return await self._passed_on(request, worker, frame)
            self._front.counts["answer"] += 1
            await self._front.traffic.arrived(node, frame)
        return Response(status_code=200)

    async def _passed_on(self, request: Request, worker: int, body: bytes = b"") -> Response:
        """Returns the answer of the worker that serves a node. Raises Denied."""
        siblings = self._front.siblings
        assert siblings is not None  # where a node is elsewhere
        self._front.counts["passed-on"] += 1
        answer = asyncio.ensure_future(siblings.passed_on(request, worker, body))
        try:
            if not await _outwaits(request, answer):
                raise Denied(408, "too-slow")
            return answer.result()
        finally:
            answer.cancel()

    async def health(self, request: Request) -> Response:
        """Tells whether the server can do its work. Whoever shows no key may ask a few times a
        second, and learns the kind of trouble, and no more."""
        self._pace(request)
        _refuse_body(request)
        # In a thread, since a disk that is slow would hold up all nodes.
        why = await asyncio.to_thread(self._front.trouble)
        if why is not None:
            return Response(f"{why.kind}\n", 503, media_type="text/plain")
        return Response(b"ok\n", media_type="text/plain")

    async def authority(self, request: Request) -> Response:
        """Answers with the certificate of the server's authority."""
        joins = self._joins(request)
        certificate = await asyncio.to_thread(joins.authority)
        return Response(certificate, media_type="application/x-pem-file")

    async def terms(self, request: Request) -> Response:
        """Answers whoever has a link with what joining means."""
        joins = self._joins(request)
        said = await asyncio.to_thread(joins.terms, _token(request), _address(request))
        return Response(said, media_type="application/json")

    async def join(self, request: Request) -> Response:
        """Makes whoever has a link a member."""
        joins = self._joins(request, has_body=True)
        size = _header(request, b"content-length")
        if not is_number(size) or int(size) > LARGEST_REQUEST:
            raise Denied(413, "too-long")
        token = _token(request)
        address = _address(request)
        async with self._bodies.of(f"from {address}", False) as body:
            asked = await _read(request, int(size), body)
            said = await asyncio.to_thread(joins.joined, token, address, asked)
        self._front.counts["joined"] += 1
        return Response(said, media_type="application/json")

    def _joins(self, request: Request, has_body: bool = False) -> Joins:
        """Returns those whom a stranger asks who wants to join. Raises Denied where there are
        none."""
        self._pace(request)
        if not has_body:
            _refuse_body(request)
        joins = self._front.admission.joins
        if joins is None:
            raise Denied(404, "no-such-thing")
        return joins

    async def denied(self, request: Request, why: Exception) -> Response:
        """Answers a refusal. A sender who is refused again and again is shut out for a while."""
        # Starlette's own errors, for a route or method that does not exist.
        if not isinstance(why, Denied):
            why = Denied(getattr(why, "status_code", 400), "no-such-thing")
        self._front.counts[why.code] += 1
        # This side ends the line, and its node comes back.
        client = request.client
        if client is not None:
            self._front.traffic.over((client.host, client.port), hung_up=False)
        with suppress(Denied):
            self._pace(request)
        headers = {"connection": "close"}
        if why.status in (429, 503):
            headers["retry-after"] = str(LATER)
        return Response(f"{why.code}\n", why.status, headers, "text/plain")

    def _admitted(self, request: Request) -> str:
        """Returns the node that sends a request. Raises Denied."""
        guard = self._front.guard
        node = self._front.admission.node(_header(request, b"authorization"))
        if not self._nodes.allow(node):
            raise Denied(429, "too-often")
        client = request.client
        if self._front.nearby:
            self._front.traffic.speaks(node, None)
        if guard is None or client is None:
            return node
        # One key on ever more connections would take the places of the other nodes.
        line = (client.host, client.port)
        if not guard.knows(line, node):
            raise Denied(503, "no-place")
        # A proxy's line is not one node's.
        own = None if guard.trusts(client.host) else line
        self._front.traffic.speaks(node, own)
        return node

    def _pace(self, request: Request) -> None:
        """Counts one more request of a stranger. If there are too many, shuts its address out for a
        while and raises Denied.
        """
        guard = self._front.guard
        address = _address(request)
        # A proxy speaks for many, and limits each of them itself.
        if guard is not None and guard.trusts(address):
            return
        if not self._strangers.allow(address):
            if guard is not None:
                guard.ban(address)
            raise Denied(429, "too-often")


async def _outwaits(
    request: Request, future: asyncio.Future[Any], seconds: float | None = None
) -> bool:
    """Waits for a future, for some seconds at most. Returns False if the client of the request hung
    up first.
    """
    away = asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait((future, away), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        return future.done() or not away.done()
    finally:
        away.cancel()


async def _disconnected(request: Request) -> None:
    """Returns when the client of a request hangs up."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _header(request: Request, name: bytes) -> str:
    """Returns a header of a request, "" where it has none."""
    for key, value in request.scope["headers"]:
        if key == name:
            return str(value.decode("latin-1"))
    return ""


def _address(request: Request) -> str:
    """Returns the address that a request comes from: that of a proxy where there is one."""
    return request.client.host if request.client is not None else "?"


def _token(request: Request) -> str:
    """Returns the token of a link, "" where a request shows none."""
    scheme, _, token = _header(request, b"authorization").partition(" ")
    return token if scheme == JOINING else ""


def _refuse_body(request: Request) -> None:
    """Raises Denied where a body is announced that nobody would read."""
    size = _header(request, b"content-length")
    if size not in ("", "0") or _header(request, b"transfer-encoding"):
        raise Denied(400, "no-body-here")


def _check_sender(frame: bytes, node: str) -> None:
    """Raises Denied for a frame that names another node than the one whose key was shown.

    So the server checks the frame against one key, and a frame that nobody signed costs it one
    check. Bytes that are no frame at all pass here: the server refuses them by another code.
    """
    try:
        other = claimed_node(frame) != node
    except FrameRefused:
        other = False
    if other:
        raise Denied(403, "another-node")


async def _read(request: Request, size: int, body: Body) -> bytes:
    """Returns the body of a request, of as many bytes as it says. Raises Denied for another length,
    for a body that comes too slowly, and where there is no room for it."""
    parts: list[bytes] = []
    try:
        async with body.stretches.limit:
            async for part in request.stream():
                await body.came(len(part))
                parts.append(part)
    except (TimeoutError, ClientDisconnect):
        raise Denied(408, "too-slow") from None
    frame = b"".join(parts)
    if len(frame) != size:
        raise Denied(400, "wrong-length")
    body.whole = True
    return frame
