"""The gate alone, before a small application of our own: who is let in, what waits, what is too much."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from memory_transport import in_virtual_time

from entrenous.deploy.flower.gate import (
    ACTIVATES,
    ANSWER_PART,
    ASKS_ANSWERS,
    ASKS_WORK,
    SENDS_ANSWERS,
    SENDS_WORK,
    SMALL,
    WAIT_HEADER,
    WORK_PART,
    Bounds,
    Gate,
    Peek,
)

PRIVATE, PUBLIC = 9000, 8443
CONTROL_CALL, FLEET_CALL = "/v1/control/start-run", "/v1/fleet/get-run"


class Application:
    """Answers what it is told to, and remembers what it was asked."""

    def __init__(self) -> None:
        self.replies: dict[str, list[bytes]] = {}
        self.asked: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        path, event = scope["path"], {"more_body": True}
        while event.get("more_body"):
            event = await receive()
            if event["type"] == "http.disconnect":
                return
        self.asked.append(path)
        waiting = self.replies.get(path, [])
        body = waiting.pop(0) if waiting else b""
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body})


class Caller:
    """One request: its status and body, and when it was answered (virtual seconds after it was made)."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate

    async def __call__(self, path: str, body: bytes = b"", *, port: int = PUBLIC, **headers: str) -> tuple[int, bytes, float]:
        named = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
        named.setdefault(b"content-length", str(len(body)).encode())
        scope = {"type": "http", "method": "POST", "path": path, "headers": list(named.items())}
        scope |= {"server": ("127.0.0.1", port), "client": ("127.0.0.1", 5)}
        sent: list[Any] = []
        events = [{"type": "http.request", "body": body}]

        async def receive() -> Any:
            if events:
                return events.pop(0)
            await asyncio.sleep(3600)

        async def send(event: Any) -> None:
            sent.append(event)

        loop = asyncio.get_running_loop()
        began = loop.time()
        await self.gate(scope, receive, send)
        status = next((event["status"] for event in sent if "status" in event), 0)
        return status, b"".join(event.get("body", b"") for event in sent), loop.time() - began


def with_gate(
    test: Callable[[Caller, Application, Gate], Awaitable[None]],
    bounds: Bounds | None = None,
    run: Callable[[Any], Any] = in_virtual_time,
    **peek: Any,
) -> None:
    """Runs a test in virtual time, so that waits cost nothing and last exactly what they should. run: asyncio.run where threads work."""
    application = Application()
    usual: dict[str, Any] = {
        "genuine": lambda headers: headers.get(b"flwr-public-key") == b"known",
        "release": lambda headers: None,
        "asking": lambda body: int(body or b"0"),
        "addressed": lambda body: [int(each) for each in body.split()],
        "parts": lambda reply: int(reply or b"0"),
        "complete": lambda body, reply: reply == b"0",
    }
    gate = Gate(application, PRIVATE, "secret", bounds or Bounds(), Peek(**{**usual, **peek}))
    run(asyncio.wait_for(test(Caller(gate), application, gate), 20))


@pytest.mark.parametrize(
    ("path", "port", "headers", "status"),
    [
        (FLEET_CALL, PUBLIC, {}, 200),
        (CONTROL_CALL, PUBLIC, {"entrenous_secret": "secret"}, 404),
        ("/v1/runtime/get-nodes", PUBLIC, {}, 404),
        ("/docs", PUBLIC, {}, 404),
        (CONTROL_CALL, PRIVATE, {}, 401),
        (CONTROL_CALL, PRIVATE, {"entrenous_secret": "guess"}, 401),
        (CONTROL_CALL, PRIVATE, {"entrenous_secret": "secret"}, 200),
        ("/v1/runtime/get-nodes", PRIVATE, {}, 200),
        (FLEET_CALL, PUBLIC, {"content_length": str(2 << 30)}, 413),
        (FLEET_CALL, PUBLIC, {"content_length": "-1"}, 411),
        (FLEET_CALL, PUBLIC, {"content_length": str(SMALL + 1)}, 401),
        (FLEET_CALL, PUBLIC, {"content_length": str(SMALL + 1), "flwr_public_key": "unknown"}, 401),
        (FLEET_CALL, PUBLIC, {"content_length": str(SMALL + 1), "flwr_public_key": "known"}, 200),
    ],
)
def test_who_may_call_what(path: str, port: int, headers: dict[str, str], status: int) -> None:
    async def test(call: Caller, application: Application, gate: Gate) -> None:
        assert (await call(path, port=port, **headers))[0] == status
        assert application.asked == ([path] if status == 200 else [])

    with_gate(test, run=asyncio.run)


def test_a_question_for_work_waits_until_all_parts_of_it_are_there() -> None:
    async def test(call: Caller, application: Application, gate: Gate) -> None:
        question = asyncio.create_task(call(ASKS_WORK, b"7", **{WAIT_HEADER: "2"}))
        other = asyncio.create_task(call(ASKS_WORK, b"8", **{WAIT_HEADER: "0.6"}))
        await asyncio.sleep(0.1)
        application.replies = {SENDS_WORK: [b"2"], ASKS_WORK: [b"work"]}
        await call(SENDS_WORK, b"7", port=PRIVATE)
        await call(WORK_PART, port=PRIVATE)
        await asyncio.sleep(0.1)
        assert not question.done()
        await call(WORK_PART, port=PRIVATE)
        status, body, seconds = await question
        assert (status, body) == (200, b"work")
        assert seconds == pytest.approx(0.2, abs=0.01)
        status, body, seconds = await other
        assert (status, body) == (200, b"")
        assert seconds == pytest.approx(0.6, abs=0.01)

    with_gate(test)


def test_a_bell_that_rang_while_nobody_waited_ends_no_wait() -> None:
    async def test(call: Caller, application: Application, gate: Gate) -> None:
        for _ in range(2):
            waiting = asyncio.create_task(call(ASKS_WORK, b"7", **{WAIT_HEADER: "0.2"}))
            await waiting
            gate.work.work([7], 0)
        _, body, seconds = await call(ASKS_WORK, b"7", **{WAIT_HEADER: "0.4"})
        assert body == b""
        assert seconds >= 0.4

    with_gate(test)


def test_the_server_is_told_of_answers_together() -> None:
    async def test(call: Caller, application: Application, gate: Gate) -> None:
        question = asyncio.create_task(call(ASKS_ANSWERS, port=PRIVATE, **{WAIT_HEADER: "2"}))
        await asyncio.sleep(0.1)
        application.replies = {ASKS_ANSWERS: [b"answers"]}
        for _ in range(5):
            await call(ANSWER_PART)
        assert (await question)[1] == b"answers"
        assert application.asked.count(ASKS_ANSWERS) == 2
        question = asyncio.create_task(call(ASKS_ANSWERS, port=PRIVATE, **{WAIT_HEADER: "2"}))
        await asyncio.sleep(0.1)
        application.replies = {ASKS_ANSWERS: [b"more"], SENDS_ANSWERS: [b"1", b"0"]}
        await call(SENDS_ANSWERS)
        await asyncio.sleep(0.1)
        assert not question.done()  # its part is still to come
        await call(SENDS_ANSWERS)  # its part was there already
        assert (await question)[1] == b"more"

    with_gate(test)


def test_a_message_that_came_between_question_and_wait_is_not_missed() -> None:
    async def test(call: Caller, application: Application, gate: Gate) -> None:
        class Late(Application):
            async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
                first = scope["path"] == ASKS_WORK and ASKS_WORK not in application.asked
                await application(scope, receive, send)
                if first:
                    application.replies = {ASKS_WORK: [b"work"]}
                    gate.work.work([7], 0)

        gate.app = Late()
        _, body, seconds = await call(ASKS_WORK, b"7", **{WAIT_HEADER: "2"})
        assert body == b"work"
        assert seconds < 0.01

    with_gate(test)


def test_b35_one_node_has_few_requests_at_a_time() -> None:
    async def test(call: Caller, application: Application, gate: Gate) -> None:
        waiting = [asyncio.create_task(call(ASKS_WORK, b"7", flwr_public_key="k", **{WAIT_HEADER: "0.5"})) for _ in range(3)]
        await asyncio.sleep(0.1)
        assert (await call(FLEET_CALL, flwr_public_key="k"))[0] == 429
        assert (await call(FLEET_CALL, flwr_public_key="other"))[0] == 200
        await asyncio.gather(*waiting)
        assert (await call(FLEET_CALL, flwr_public_key="k"))[0] == 200
        assert not gate.busy

    with_gate(test, Bounds(from_key=3))


def test_b31_a_body_that_does_not_come_is_given_up() -> None:
    async def test(call: Caller, application: Application, gate: Gate) -> None:
        sent: list[Any] = []

        async def never() -> Any:
            await asyncio.sleep(3600)

        async def send(event: Any) -> None:
            sent.append(event)

        scope = {"type": "http", "method": "POST", "path": FLEET_CALL, "headers": [(b"content-length", b"100")]}
        began = asyncio.get_running_loop().time()
        await gate({**scope, "server": ("", PUBLIC), "client": ("::1", 5)}, never, send)
        assert application.asked == [] and sent == []  # the connection is closed: there is nobody to answer
        assert asyncio.get_running_loop().time() - began == pytest.approx(0.2 + 100 / 1000, abs=0.01)

    with_gate(test, Bounds(head=0.2, rate=1000))


def test_a_returning_node_is_released_first() -> None:
    released: list[bytes] = []

    async def test(call: Caller, application: Application, gate: Gate) -> None:
        await call(ACTIVATES, flwr_public_key="known")
        assert released == [b"known"]

    with_gate(test, run=asyncio.run, release=lambda headers: released.append(headers[b"flwr-public-key"]))
