"""A device over loopback HTTP, for apps in any language on the same machine: what `Device` does, as
JSON.

    GET  /v1/recommend   n, user, only, without (these two may be repeated), scores=true
    POST /v1/events      {"event": "row" | "forget" | "not for me", "item", "value", "time",
                         "user"}, or a list of them
    POST /v1/pause       user: nothing of a user leaves from now on
    POST /v1/take-part   user: the end of a pause
    GET  /v1/receipt     user: what has left the device
    GET  /v1/rows        user: all rows of a user
    GET  /v1/health      200, or 503 and why; without a token
    GET  /v1/ready       200 once a model has come, else 503; without a token
    GET  /openapi.json   these routes, for programs; without a token

Of a shop, each request that needs the token names the user; of a node, the first of its users is
meant where none is named.

Every other request carries `Authorization: Bearer TOKEN`. The token is in the node's folder, in a
file that its owner alone may read: other users of the machine, and web pages, do not have it.
"""

from __future__ import annotations

import asyncio
import secrets
import sqlite3
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, final

import h11
import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from entrenous.core.errors import EntrenousError, InputError, one_line
from entrenous.core.files import write_private

from ..links.https import configured, listen
from ..wire.completed import completed
from .device import Device
from .served_shop import ShopDevices

HOST = "127.0.0.1"
TOKEN = "serve.token"
MOST_BODY = 1 << 20  # bytes of a request, at most
PATIENCE = 30.0  # seconds within which the port must answer
# The routes, as openapi.json says them: method, what it does, and the parameters of its address.
ROUTES: Mapping[str, tuple[str, str, tuple[str, ...]]] = {
    "/v1/recommend": (
        "get",
        "The best items that a user does not have",
        ("n", "user", "only", "without", "scores"),
    ),
    "/v1/events": ("post", "Takes what has happened: an event, or a list of them", ()),
    "/v1/pause": ("post", "Lets nothing of a user leave from now on", ("user",)),
    "/v1/take-part": ("post", "Ends a pause", ("user",)),
    "/v1/receipt": ("get", "What has left the device of a user", ("user",)),
    "/v1/rows": ("get", "All rows of a user", ("user",)),
    "/v1/health": ("get", "Whether the device can work", ()),
    "/v1/ready": ("get", "Whether a model has come", ()),
}


@completed
class DeviceEvent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Something that has happened to a user, as an app tells it; see `Device`."""

    event: Literal["row", "forget", "not for me"]
    item: str | None = None
    value: float | None = None
    time: float | None = None
    user: str | None = None


@final
class OneDevice:
    """The device of one node, as a port serves it."""

    def __init__(self, device: Device) -> None:
        self._device = device

    def of(self, user: str | None) -> AbstractContextManager[Device]:
        """Opens the device of a user for one request. Raises InputError for a stranger."""
        return nullcontext(self._device)

    def check(self) -> None:
        """Raises EntrenousError or sqlite3.Error where a device cannot work."""
        self._device.export(user=None)

    def check_ready(self) -> None:
        """Raises EntrenousError or sqlite3.Error where a device cannot recommend yet."""
        self._device.recommend(1, only=None, without=[], user=None)


ServedDevices: TypeAlias = OneDevice | ShopDevices
"""The devices that one port serves."""


class PortBounds(NamedTuple):
    """The limits of the port to programs, which may connect without the token."""

    connections: int = 64
    """At once; further ones are closed at once."""
    patience: float = 10.0
    """Seconds within which a connection must have sent a request, head and body."""


STANDARD = PortBounds()


@final
class BoundedConnection(H11Protocol):
    """HTTP/1.1 of one connection by uvicorn and h11, with the limits that these lack. An unfinished
    head has 16 KiB at most by h11, besides what one read of the socket brings.
    """

    def __init__(self, bounds: PortBounds, **of_uvicorn: Any) -> None:
        super().__init__(**of_uvicorn)
        self._bounds = bounds
        self._patience: asyncio.TimerHandle | None = None

    def connection_made(  # type: ignore[override]
        self, transport: asyncio.Transport
    ) -> None:
        """Waits for a request, or closes a connection for which there is no place."""
        super().connection_made(transport)
        if len(self.connections) > self._bounds.connections:
            transport.abort()
        else:
            self._wait()

    def data_received(self, data: bytes) -> None:
        """Parses the bytes that have come, and waits for the rest of a request."""
        super().data_received(data)
        # The body too: whoever lacks the token could otherwise keep a place with a byte now and
        # then, since uvicorn waits anew after each.
        if self.conn.their_state in (h11.IDLE, h11.SEND_BODY):
            self._wait()
        else:
            self._stop_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forgets the connection, which gives its place back."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait(self) -> None:
        if self._patience is None:
            self._patience = self.loop.call_later(self._bounds.patience, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None


@contextmanager
def serving(
    devices: ServedDevices, folder: Path, port: int, bounds: PortBounds = STANDARD
) -> Iterator[int]:
    """Serves devices on 127.0.0.1 meanwhile. folder: has the token. port: 0 = a free one. Yields
    the port. Raises InputError for a port that is taken.
    """
    listening = listen(HOST, port)
    routes = DeviceRoutes(devices, token_of(folder)).application()
    # Not httptools, which keeps a head of any length.
    server = uvicorn.Server(configured(routes, http=partial(BoundedConnection, bounds)))
    # The signals of the process are its main thread's.
    thread = threading.Thread(
        target=server.run, kwargs={"sockets": [listening]}, daemon=True, name="device"
    )
    thread.start()
    waited = time.monotonic() + PATIENCE
    while not server.started and thread.is_alive() and time.monotonic() < waited:
        time.sleep(0.01)
    if not server.started:
        raise InputError("--serve", f"the port {HOST}:{port} does not answer")
    try:
        yield int(listening.getsockname()[1])
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


def token_of(folder: Path) -> str:
    """Returns the token of a node, drawn when it is first asked for."""
    path = folder / TOKEN
    if not path.exists():
        write_private(path, secrets.token_urlsafe(32).encode())
    return path.read_text().strip()


@final
class DeviceRoutes:
    """The routes of devices. Those that need the token answer 401 without it; bad input is 400 and
    one line.
    """

    def __init__(self, devices: ServedDevices, token: str) -> None:
        self._devices = devices
        self._token = token

    def application(self) -> Starlette:
        """Returns the ASGI application."""
        handlers: dict[str, Callable[..., Any]] = {
            "/v1/recommend": self._recommend,
            "/v1/events": self._events,
            "/v1/pause": self._of_user(lambda device, user: device.pause(user=user)),
            "/v1/take-part": self._of_user(lambda device, user: device.take_part(user=user)),
            "/v1/receipt": self._of_user(lambda device, user: device.receipt(user=user)),
            "/v1/rows": self._of_user(lambda device, user: device.export(user=user)),
            "/v1/health": partial(_works, self._devices.check),
            "/v1/ready": partial(_works, self._devices.check_ready),
        }
        routes = [
            Route(place, handlers[place], methods=[method.upper()])
            for place, (method, _, _) in ROUTES.items()
        ]
        return Starlette(routes=[*routes, Route("/openapi.json", _openapi)])

    # ---- what is asked for -----------------------------------------------------------------------

    async def _recommend(self, request: Request) -> Response:
        asked = request.query_params
        only = asked.getlist("only")
        without = asked.getlist("without")

        # Scores tell which items a list left out: an app gets them only where it says so.
        scores = asked.get("scores") == "true"
        user = asked.get("user")

        def recommended() -> dict[str, Any]:
            n = _whole("n", asked.get("n", "10"))
            with self._devices.of(user) as device:
                found = device.recommend(
                    n, only=only or None, without=without, scores=scores, user=user
                )
            return {"user": found.user, "round": found.round, "items": found.items}

        return await self._done(request, recommended)

    def _of_user(
        self, act: Callable[[Device, str | None], Any]
    ) -> Callable[[Request], Awaitable[Response]]:
        """Returns what answers a request by what `act` does with the user's device."""

        async def answered(request: Request) -> Response:
            user = request.query_params.get("user")

            def acted() -> Any:
                with self._devices.of(user) as device:
                    return act(device, user)

            return await self._done(request, acted)

        return answered

    # ---- what has happened -----------------------------------------------------------------------

    async def _events(self, request: Request) -> Response:
        if not self._may(request):
            return _stranger()
        body = await _body(request)
        if body is None:
            return _error(413, f"the body has more than {MOST_BODY} bytes")
        return await self._done(request, partial(self._happened, body))

    def _happened(self, body: bytes) -> dict[str, int]:
        """Takes events in their order. Raises InputError, which says of which event, for one that
        cannot be; those before it have been taken.
        """
        events = _events_of(body)
        for number, event in enumerate(events):
            try:
                self._take(event)
            except InputError as bad:
                where = f"event {number}, {bad.where}"
                taken = f"the {number} before it were taken"
                raise InputError(
                    where, f"{bad.problem} ({taken})", expected=bad.expected, fix=bad.fix
                ) from None
        return {"taken": len(events)}

    def _take(self, event: DeviceEvent) -> None:
        user = event.user
        with self._devices.of(user) as device:
            if event.event == "forget":
                device.forget(event.item, user=user)
                return
            if event.item is None:
                raise InputError("item", "is missing", expected="the id of an item")
            if event.event == "row":
                device.consumed(event.item, event.value, event.time, user=user)
            else:
                device.not_for_me(event.item, user=user)

    # ---- answers ---------------------------------------------------------------------------------

    def _may(self, request: Request) -> bool:
        """Tells whether a request has the token."""
        shown = request.headers.get("authorization", "").encode()
        return secrets.compare_digest(shown, f"Bearer {self._token}".encode())

    async def _done(self, request: Request, act: Callable[[], Any]) -> Response:
        """Answers with what `act` returns, or with the line that says why not."""
        if not self._may(request):
            return _stranger()
        # A misspelt `without` must not recommend what was to be left out.
        _, _, named = ROUTES[request.url.path]
        strange = sorted(request.query_params.keys() - set(named))
        if strange:
            return _error(
                400, f"unknown parameter {strange[0]!r:.40}; expected {', '.join(named) or 'none'}"
            )
        try:
            # In a thread: the device waits for the disk, and for its turn.
            found = await run_in_threadpool(act)
        except InputError as why:
            return _error(400, str(why))
        except (EntrenousError, sqlite3.Error) as why:
            return _error(503, str(why))
        return JSONResponse({} if found is None else found)


async def _works(check: Callable[[], None], request: Request) -> Response:
    """Answers 200 if a check passes, and 503 with the reason if it does not."""
    try:
        await run_in_threadpool(check)
    except (EntrenousError, sqlite3.Error) as why:
        return _error(503, str(why))
    return JSONResponse({})


def _error(status: int, line: str) -> Response:
    return JSONResponse({"error": line}, status)


def _stranger() -> Response:
    return _error(401, f"the token is missing or wrong: it is in {TOKEN} of the node's folder")


async def _body(request: Request) -> bytes | None:
    """Returns the body of a request; None if it is too long, whatever its head says."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MOST_BODY:
            return None
    return body


def _events_of(body: bytes) -> list[DeviceEvent]:
    """Returns the events of a body. Raises InputError before any is taken."""
    try:
        found = msgspec.json.decode(body, type=DeviceEvent | list[DeviceEvent])
    except (ValueError, RecursionError) as wrong:
        problem = f"is no event ({one_line(str(wrong), 120)})"
        expected = 'such as {"event": "row", "item": "42"}, or a list of these'
        raise InputError("the body", problem, expected=expected) from None
    return found if isinstance(found, list) else [found]


def _whole(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InputError(name, f"is {text!r:.40}", expected="a whole number") from None


async def _openapi(request: Request) -> Response:
    """Answers with the routes in OpenAPI 3.1."""
    paths = {}
    for place, (method, summary, named) in ROUTES.items():
        parameters = [
            {"name": name, "in": "query", "required": False, "schema": {"type": "string"}}
            for name in named
        ]
        answers = {"200": {"description": "Done"}, "400": {"description": "Bad input, in a line"}}
        said = {"summary": summary, "parameters": parameters, "responses": answers}
        paths[place] = {method: said}
    bearer = {"type": "http", "scheme": "bearer"}
    return JSONResponse(
        {
            "openapi": "3.1.0",
            "info": {"title": "An Entrenous device", "version": "1"},
            "components": {"securitySchemes": {"token": bearer}},
            "security": [{"token": []}],
            "paths": paths,
        }
    )
