"""`Siblings`: the other workers of a server, to which requests of their nodes are passed on.

A secure sum is made by one process, so all nodes of a group must reach the same one, while a
connection may come to any. The process that a connection came to checks the node's key, reads its
answer under its own limits, and passes the request on over plain HTTP; the one that makes the
group's sum checks the key once more and answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import final

import httpx
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from .admission import Denied

CONNECT = 5.0  # seconds to reach another process
PASSED = ("content-length", "content-type", "retry-after")  # headers of an answer that go back


@final
class Siblings:
    """Used by one event loop; `addresses` is replaced by any thread.

    home: the number of the worker for each node, by name. own: the number of this worker.
    """

    def __init__(self, home: Mapping[str, int], own: int) -> None:
        self.addresses: Mapping[int, str] = {}
        """HOST:PORT of the workers that are there, by number."""
        self._home, self._own = home, own
        self._client: httpx.AsyncClient | None = None

    def elsewhere(self, node: str) -> int | None:
        """The number of the worker that serves a node; None for this worker."""
        home = self._home.get(node, self._own)
        return None if home == self._own else home

    async def passed_on(self, request: Request, worker: int, body: bytes = b"") -> Response:
        """The answer of another worker to a request. body: of the request, read already. Raises
        Denied where that worker is not there, and where the node hangs up.
        """
        asking = asyncio.ensure_future(self._asked(request, worker, body))
        away = asyncio.ensure_future(disconnected(request))
        try:
            await asyncio.wait((asking, away), return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                raise Denied(408, "too-slow")
            return Passed(asking.result())
        except (httpx.HTTPError, KeyError):
            raise Denied(503, "no-place") from None
        finally:
            away.cancel()
            asking.cancel()

    async def _asked(self, request: Request, worker: int, body: bytes) -> httpx.Response:
        if self._client is None:
            timeout = httpx.Timeout(None, connect=CONNECT)
            limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
            self._client = httpx.AsyncClient(trust_env=False, timeout=timeout, limits=limits)
        where = f"http://{self.addresses[worker]}{request.url.path}"
        key = {"authorization": request.headers.get("authorization", "")}
        asked = self._client.build_request(request.method, where, headers=key, content=body)
        return await self._client.send(asked, stream=True)


@final
class Passed(StreamingResponse):
    """The answer of another worker, piece by piece."""

    def __init__(self, answer: httpx.Response) -> None:
        headers = {name: answer.headers[name] for name in PASSED if name in answer.headers}
        super().__init__(_pieces(answer), answer.status_code, headers)
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response, as ASGI asks for it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._answer.aclose()


async def _pieces(answer: httpx.Response) -> AsyncIterator[bytes]:
    """The bytes of an answer. Where the other worker dies, fewer come than were announced, and the
    node asks again."""
    with suppress(httpx.HTTPError):
        async for piece in answer.aiter_raw():
            yield piece


async def disconnected(request: Request) -> None:
    """Returns when the client of a request hangs up."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
