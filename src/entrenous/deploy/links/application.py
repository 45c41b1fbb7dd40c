"""What a server answers to its nodes: an ASGI application of three routes, the same in one process,
in workers, and under another engine.

    GET  /v1/work    the request that waits for this node, held until there is one: 200 and a frame,
    or 204 POST /v1/answer  a frame; answered when the server has dealt with it, and what counts is
    on its disk: 200 GET  /v1/health  200; or 503 and why, where the server cannot do its work

Both of the first carry the header of `admission.here`. What is refused has a word in its body; see
`Denied`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, final

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from ..frames.codes import FrameRefused
from ..frames.frames import FrameParts, claimed_node
from .admission import Admission, Denied
from .health import Trouble, no_trouble
from .listening import Guard
from .rates import STRANGERS, UNASKED, Rates
from .resources import Bodies, Body, is_number
from .siblings import Siblings, disconnected
from .traffic import HELD, LATER, Traffic

PIECE = (
    1 << 16
)  # bytes of a frame that are given to a connection at once: TLS keeps as many of each connection


class Front(NamedTuple):
    """What the application works with. largest: bytes of an answer, at most; counts: requests by
    what became of them; trouble: tells why the server cannot do its work. It may wait for a
    disk.
    """

    admission: Admission
    traffic: Traffic
    guard: Guard | None
    largest: int
    counts: Counter[str]
    trouble: Callable[[], Trouble | None] = no_trouble
    siblings: Siblings | None = None
    """Other workers, which serve some of the nodes; None where this process serves all."""

    def elsewhere(self, node: str) -> int | None:
        """The number of the worker that serves a node; None for this process."""
        return None if self.siblings is None else self.siblings.elsewhere(node)


def application(front: Front) -> Starlette:
    """The ASGI application of a server's nodes."""
    desk = _Requests(front)
    routes = [
        Route("/v1/work", desk.work),
        Route("/v1/answer", desk.answer, methods=["POST"]),
        Route("/v1/health", desk.health),
    ]
    return Starlette(
        routes=routes, exception_handlers={Denied: desk.denied, 404: desk.denied, 405: desk.denied}
    )  # type: ignore[dict-item]


@final
class FrameResponse(Response):
    """A frame as a response, sent piece by piece: its connection takes the next one when it has
    room.
    """

    def __init__(self, frame: FrameParts) -> None:
        super().__init__(
            media_type="application/octet-stream", headers={"content-length": str(len(frame))}
        )
        self._frame = frame

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response, as ASGI asks for it."""
        await send(
            {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        )
        for piece in self._frame.pieces(PIECE):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


@final
class _Requests:
    """The handlers of the routes."""

    def __init__(self, front: Front) -> None:
        self._front, self._bodies = front, Bodies(front.largest)
        self._nodes, self._strangers = Rates(), Rates(*STRANGERS)
        self._unasked = Rates(*UNASKED)

    async def work(self, request: Request) -> Response:
        """The next request for the node that asks."""
        node, traffic = self._admitted(request), self._front.traffic
        _refuse_body(request)
        worker = self._front.elsewhere(node)
        if worker is not None:
            return await self._passed_on(request, worker)
        traffic.heard(node)
        frame = traffic.parked(node)
        if frame is None:
            question = traffic.asks(node)
            if question is None:
                return Response(status_code=204, headers={"retry-after": str(LATER)})
            frame = await self._held(request, node, question)
        self._front.counts["work" if frame is not None else "nothing"] += 1
        return Response(status_code=204) if frame is None else FrameResponse(frame)

    async def _held(
        self, request: Request, node: str, question: asyncio.Future[FrameParts | None]
    ) -> FrameParts | None:
        """Waits for a request, for some time, and as long as the node does."""
        away = asyncio.ensure_future(disconnected(request))
        try:
            await asyncio.wait((question, away), timeout=HELD, return_when=asyncio.FIRST_COMPLETED)
            if away.done() and not question.done():
                self._front.traffic.gone(node)
            return question.result() if question.done() else None
        finally:
            away.cancel()
            self._front.traffic.asked(node, question)

    async def answer(self, request: Request) -> Response:
        """An answer, taken when it is whole; acknowledged when the server has dealt with it."""
        node = self._admitted(request)
        size = _header(request, b"content-length")
        if not is_number(size):
            raise Denied(411, "no-length")
        if int(size) > self._front.largest:
            raise Denied(413, "too-long")
        worker = self._front.elsewhere(node)
        asked = worker is not None or self._front.traffic.waits_for(node)
        if not asked and not self._unasked.allow(node):
            raise Denied(429, "too-often")  # the server itself never hears of it
        async with self._bodies.of(node, asked) as body:
            frame = await _read(request, int(size), body)
            _check_sender(frame, node)
            if worker is not None:
                return await self._passed_on(request, worker, frame)
            self._front.counts["answer"] += 1
            await self._front.traffic.arrived(node, frame)
        return Response(status_code=200)

    async def _passed_on(self, request: Request, worker: int, body: bytes = b"") -> Response:
        assert self._front.siblings is not None  # where a node is elsewhere
        self._front.counts["passed-on"] += 1
        return await self._front.siblings.passed_on(request, worker, body)

    async def health(self, request: Request) -> Response:
        """That the server is there and can do its work. Who shows no key may ask a few times a
        second, and learns of what kind trouble is, and no more."""
        self._pace(request)
        _refuse_body(request)
        why = await asyncio.to_thread(self._front.trouble)
        if why is not None:
            return Response(f"{why.kind}\n", 503, media_type="text/plain")
        return Response(b"ok\n", media_type="text/plain")

    async def denied(self, request: Request, why: Exception) -> Response:
        """A refusal. Who is refused again and again is not listened to for a while."""
        known = (
            why
            if isinstance(why, Denied)
            else Denied(getattr(why, "status_code", 400), "no-such-thing")
        )
        self._front.counts[known.code] += 1
        with suppress(Denied):
            self._pace(request)
        later = {"retry-after": str(LATER)} if known.status in (429, 503) else {}
        return Response(
            f"{known.code}\n", known.status, {"connection": "close", **later}, "text/plain"
        )

    def _admitted(self, request: Request) -> str:
        """The node that sends a request. Raises Denied."""
        front = self._front
        node = front.admission.node(_header(request, b"authorization"))
        if not self._nodes.allow(node):
            raise Denied(429, "too-often")
        if (
            front.guard is not None
            and request.client is not None
            and not front.guard.knows((request.client.host, request.client.port), node)
        ):
            raise Denied(503, "no-place")
        return node

    def _pace(self, request: Request) -> None:
        """One more request of a stranger. Raises Denied, and shuts its address out for a while,
        when these are too many.
        """
        address = request.client.host if request.client is not None else "?"
        if self._front.guard is not None and self._front.guard.trusts(address):
            return  # it speaks for many, and limits each itself
        if not self._strangers.allow(address):
            if self._front.guard is not None:
                self._front.guard.ban(address)
            raise Denied(429, "too-often")


def _header(request: Request, name: bytes) -> str:
    """A header of a request, "" where it has none."""
    return next(
        (value.decode("latin-1") for key, value in request.scope["headers"] if key == name), ""
    )


def _refuse_body(request: Request) -> None:
    """Raise Denied where a body is announced that nobody would read."""
    size = _header(request, b"content-length")
    if size not in ("", "0") or _header(request, b"transfer-encoding"):
        raise Denied(400, "no-body-here")


def _check_sender(frame: bytes, node: str) -> None:
    """Raise Denied for a frame that names another node than the one whose key was shown. So the
    server checks it against one key, and what is signed by nobody costs it one check. What is no
    frame at all has a code of its own there.
    """
    try:
        other = claimed_node(frame) != node
    except FrameRefused:
        other = False
    if other:
        raise Denied(403, "another-node")


async def _read(request: Request, size: int, body: Body) -> bytes:
    """The body of a request, of as many bytes as it says. Raises Denied for another length, for one
    that comes too slowly, and where there is no room for it."""
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
