"""What stands before the SuperLink's one port: who may call what, how much, how slowly; and answers that wait for work instead of polling.

Flower 1.41 serves nodes, operators and the server's program on one port, and asks nobody who starts a program there for a name.
So nodes get a port of their own, where nothing but the fleet's calls exists; the rest is a second, loopback port with a secret.
No flwr here: plain ASGI, so that a test needs no SuperLink.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from contextlib import contextmanager
from hmac import compare_digest
from typing import Any, NamedTuple, final

Scope = MutableMapping[str, Any]
Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

SECRET_HEADER = "entrenous-secret"  # on the private port, before the operator's calls
WAIT_HEADER = "entrenous-wait"  # seconds for which a node lets its question for work lie
KEY_HEADER = b"flwr-public-key"
FLEET, CONTROL, RUNTIME = "/v1/fleet/", "/v1/control/", "/v1/runtime/"
ASKS_WORK, ASKS_ANSWERS = FLEET + "pull-messages", RUNTIME + "pull-messages"  # questions that may wait
SENDS_WORK, SENDS_ANSWERS = RUNTIME + "push-messages", FLEET + "push-messages"
WORK_PART, ANSWER_PART = RUNTIME + "push-object", FLEET + "push-object"  # what belongs to messages that were sent just before
ACTIVATES = FLEET + "activate-node"
SERVER = -1  # who waits for answers; nodes have Flower's numbers
SMALL = 1 << 18  # bytes that anybody may send; more only with a registered key's signature
SETTLE = 0.04  # s between the first answer and the server's waking: others come with it
LATEST = 5.0  # s after which nodes are woken though parts of their messages seem to be missing


class Bounds(NamedTuple):
    """Limits on what one caller may use. Sizes in bytes, times in seconds."""

    body: int = 64 << 20  # the largest request; a frame and a little
    head: float = 10.0  # until a request's head is complete
    head_bytes: int = 1 << 16  # of a head that is not complete yet
    rate: int = 20_000  # bytes a second that a body must come with, after `head`
    wait: float = 3.0  # longest time that a question for work may lie
    connections: int = 1024
    from_address: int = 256  # connections from one address: a company's nodes share one
    from_key: int = 8  # requests of one key at a time


class Peek(NamedTuple):
    """Functions that read what the gate must know from Flower's messages."""

    genuine: Callable[[dict[bytes, bytes]], bool]  # whether a registered key has signed these headers
    release: Callable[[dict[bytes, bytes]], None]  # says of that key's node that it has gone, so that it may come again
    asking: Callable[[bytes], int]  # the node that asks for work, from the body
    addressed: Callable[[bytes], Iterable[int]]  # the nodes that messages are for, from the body
    parts: Callable[[bytes], int]  # how many parts of them are to follow, from the reply
    complete: Callable[
        [bytes, bytes], bool
    ]  # whether an answer's frame is there already (from body and reply): it is not sent again


@final
class Gate:
    """An ASGI application in front of Flower's that limits what callers may use. private: the loopback port on which every
    call is allowed with `secret`; elsewhere only the nodes' calls are."""

    def __init__(self, app: App, private: int, secret: str, bounds: Bounds, peek: Peek) -> None:
        self.app, self.private, self.secret, self.bounds, self.peek = app, private, secret, bounds, peek
        self.busy: Counter[bytes] = Counter()  # requests under way, by claimed key and address
        self.work = Work()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)
        headers = dict(scope["headers"])
        refusal = await self._refusal(scope, headers)
        if refusal:
            return await _answer(send, *refusal)
        receive = _timely(receive, self.bounds.head + int(headers.get(b"content-length", 0)) / self.bounds.rate)
        path = scope["path"]
        if (
            path == ACTIVATES
        ):  # Flower takes a killed node for present until its heartbeats have been missed, and refuses its return
            await asyncio.to_thread(self.peek.release, headers)
        with self._counted(_caller(scope, headers)):
            if path in (ASKS_WORK, ASKS_ANSWERS) and WAIT_HEADER.encode() in headers:
                await self._question(scope, receive, send, _seconds(headers[WAIT_HEADER.encode()]))
            elif path in (SENDS_WORK, SENDS_ANSWERS, WORK_PART, ANSWER_PART):
                await self._message(scope, receive, send)
            else:
                await self.app(scope, receive, send)

    async def _refusal(self, scope: Scope, headers: dict[bytes, bytes]) -> tuple[int, str] | None:
        """Why a request is not let in, before any of its body is read: status and a line. None = welcome."""
        if scope["type"] != "http":
            return 404, "not found"
        inside, path = (scope.get("server") or ("", 0))[1] == self.private, scope["path"]
        if not path.startswith(FLEET) and not inside:
            return 404, "not found"
        if path.startswith(CONTROL) and not compare_digest(headers.get(SECRET_HEADER.encode(), b""), self.secret.encode()):
            return 401, "the operator's calls need the secret in the state folder"
        length = headers.get(b"content-length", b"0" if scope["method"] == "GET" else b"")
        if not length.isdigit():
            return 411, "length required"
        if len(length) > 12 or int(length) > self.bounds.body:
            return 413, f"at most {self.bounds.body} bytes"
        if not inside and int(length) > SMALL and not await asyncio.to_thread(self.peek.genuine, headers):
            return 401, f"more than {SMALL} bytes need a registered key"
        if not inside and self.busy[_caller(scope, headers)] >= self.bounds.from_key:
            return 429, f"at most {self.bounds.from_key} requests of one node at a time"
        return None

    @contextmanager
    def _counted(self, caller: bytes) -> Any:
        self.busy[caller] += 1
        try:
            yield
        finally:
            self.busy[caller] -= 1
            if not self.busy[caller]:
                del self.busy[caller]

    async def _message(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A message or a part of one: passed on, and who waits for it woken when all its parts are there."""
        path = scope["path"]
        if path in (WORK_PART, ANSWER_PART):
            await self.app(scope, receive, send)
            return self.work.part() if path == WORK_PART else self.work.answer()
        body, reply = await read_body(receive), _Held()
        await self.app(scope, replayed(body, receive), reply)
        await reply.send_to(send)
        if path == SENDS_WORK:
            self.work.work(self.peek.addressed(body), self.peek.parts(reply.body))
        elif self.peek.complete(body, reply.body):
            self.work.answer()

    async def _question(self, scope: Scope, receive: Receive, send: Send, seconds: float) -> None:
        """A question for work, or for answers: an empty reply waits until there is more, `seconds` or `bounds.wait` at most."""
        loop, body = asyncio.get_running_loop(), await read_body(receive)
        node = SERVER if scope["path"] == ASKS_ANSWERS else self.peek.asking(body)
        until = loop.time() + min(self.bounds.wait, seconds)
        gone = asyncio.ensure_future(receive())  # nothing but the end of the connection can come now
        try:
            while True:
                seen, answer = self.work.count(node), _Held()
                await self.app({**scope, "state": dict(scope.get("state", {}))}, replayed(body, receive), answer)
                left = until - loop.time()
                if not answer.empty or left <= 0 or gone.done() or not await self.work.more(node, seen, left, gone):
                    return await answer.send_to(send)
        finally:
            gone.cancel()


@final
class Work:
    """Counts of the messages that have come for each node and for the server, by which callers wait for more: a node until all
    parts of its message are there, the server until no answer has come for a moment."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self._bell: dict[int, asyncio.Event] = {}
        self._for: set[int] = set()  # nodes whose messages' parts are still coming
        self._missing = 0  # of these parts
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def count(self, node: int) -> int:
        return self._counts[node]

    def work(self, nodes: Iterable[int], parts: int) -> None:
        """Announce messages for `nodes`, of which `parts` parts are still to come."""
        self._for.update(nodes)
        self._missing += parts
        self._later("work", LATEST, self._begin)
        if self._missing <= 0:
            self._begin()

    def part(self) -> None:
        self._missing -= 1
        if self._missing <= 0:
            self._begin()

    def answer(self) -> None:
        """Announce a complete answer. The server is woken once for several."""
        self._later("answers", SETTLE, lambda: self._ring({SERVER}))

    def _begin(self) -> None:
        nodes, self._for, self._missing = self._for, set(), 0
        self._ring(nodes)

    def _ring(self, nodes: Iterable[int]) -> None:
        for node in nodes:
            self._counts[node] += 1
            if bell := self._bell.get(node):
                bell.set()

    def _later(self, name: str, seconds: float, call: Callable[[], None]) -> None:
        """Calls after `seconds`, unless that call is under way already."""
        timer = self._timers.get(name)
        loop = asyncio.get_running_loop()
        if timer is None or timer.cancelled() or timer.when() <= loop.time():
            self._timers[name] = loop.call_later(seconds, call)

    async def more(self, node: int, seen: int, seconds: float, gone: asyncio.Future[Event]) -> bool:
        """Whether more than `seen` pushes come for `node` within `seconds`, and before its connection is gone."""
        bell = self._bell.setdefault(node, asyncio.Event())
        if self._counts[node] == seen:
            bell.clear()  # it may have rung while nobody waited
            ringing = asyncio.ensure_future(bell.wait())
            waiting: set[asyncio.Future[Any]] = {ringing, gone}
            await asyncio.wait(waiting, timeout=seconds, return_when="FIRST_COMPLETED")
            ringing.cancel()
        return self._counts[node] != seen and not gone.done()


@final
class _Held:
    """An answer that is kept back until it is known whether it is the one."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    async def __call__(self, event: Event) -> None:
        self.events.append(event)

    @property
    def body(self) -> bytes:
        """Of a success; of anything else, nothing."""
        return b"".join(event.get("body", b"") for event in self.events) if self._status == 200 else b""

    @property
    def empty(self) -> bool:
        return self._status == 200 and not self.body

    @property
    def _status(self) -> int:
        return next((event["status"] for event in self.events if event["type"] == "http.response.start"), 500)

    async def send_to(self, send: Send) -> None:
        for event in self.events:
            await send(event)


def _caller(scope: Scope, headers: dict[bytes, bytes]) -> bytes:
    """Key and address together: a key that somebody merely claims from elsewhere does not shut out its owner."""
    return headers.get(KEY_HEADER, b"") + b" " + str((scope.get("client") or ("",))[0]).encode()


def _seconds(text: bytes) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def _timely(receive: Receive, seconds: float) -> Receive:
    """`receive` that reports the connection as gone when the body has not come after `seconds` in all."""
    until, complete = asyncio.get_running_loop().time() + seconds, False

    async def timely() -> Event:
        nonlocal complete
        if complete:
            return await receive()
        try:
            event = await asyncio.wait_for(receive(), max(0.0, until - asyncio.get_running_loop().time()))
        except TimeoutError:
            return {"type": "http.disconnect"}
        complete = not event.get("more_body", False)
        return event

    return timely


async def read_body(receive: Receive) -> bytes:
    parts = []
    while True:
        event = await receive()
        if event["type"] != "http.request":
            raise ConnectionError("the caller went before its request was complete")
        parts.append(event.get("body", b""))
        if not event.get("more_body", False):
            return b"".join(parts)


def replayed(body: bytes, receive: Receive) -> Receive:
    first = True

    async def again() -> Event:
        nonlocal first
        if first:
            first = False
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return again


async def _answer(send: Send, status: int, line: str) -> None:
    headers = [(b"content-type", b"text/plain"), (b"content-length", str(len(line)).encode()), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": line.encode()})
