"""`Siblings`: the other workers of a server, to which requests of their nodes are passed on.

A secure sum is made by one process, so all nodes of a group must reach the same one, while a
connection may come to any. The process that a connection came to checks the node's key and reads
its answer under its own limits. Then it passes the request on over plain HTTP to the process that
makes the group's sum, which checks the key once more and answers.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import final

import httpx
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from .admission import Denied

CONNECT = 5.0  # seconds to reach another process
PASSED = ("content-length", "content-type", "retry-after")  # headers of an answer that go back


@final
class Siblings:
    """The other workers of a server, as one event loop uses them.

    own: the number of this worker.
    """

    def __init__(self, home: Mapping[str, int], own: int) -> None:
        self.addresses: Mapping[int, str] = {}
        """HOST:PORT of the workers that are there, by number; any thread may replace it."""
        self.home = home
        """The number of the worker for each node, by name; any thread may replace it. Where groups
        are dealt anew it is another one in each round."""
        self._own = own
        self._client: httpx.AsyncClient | None = None

    def elsewhere(self, node: str) -> int | None:
        """Returns the number of the worker that serves a node; None for this worker."""
        home = self.home.get(node, self._own)
        if home == self._own:
            return None
        return home

    async def passed_on(self, request: Request, worker: int, body: bytes = b"") -> Response:
        """Returns the answer of another worker to a request. body: of the request, read already.
        Raises Denied where that worker is not there.
        """
        try:
            answer = await self._sent(request, worker, body)
            if answer.status_code == 204:
                # Its connection is free once nothing has been read.
                await answer.aread()
                return Response(status_code=204, headers=_headers(answer))
        except (httpx.HTTPError, KeyError):
            raise Denied(503, "no-place") from None
        return Passed(answer)

    async def _sent(self, request: Request, worker: int, body: bytes) -> httpx.Response:
        """Returns the head of the other worker's answer, whose body is still to come."""
        # Made in the event loop that uses it, and only where there is something to pass on.
        if self._client is None:
            timeout = httpx.Timeout(None, connect=CONNECT)
            limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
            self._client = httpx.AsyncClient(trust_env=False, timeout=timeout, limits=limits)
        url = f"http://{self.addresses[worker]}{request.url.path}"
        headers = {"authorization": request.headers.get("authorization", "")}
        passed = self._client.build_request(request.method, url, headers=headers, content=body)
        return await self._client.send(passed, stream=True)


@final
class Passed(Response):
    """The answer of another worker, sent piece by piece."""

    def __init__(self, answer: httpx.Response) -> None:
        super().__init__(status_code=answer.status_code, headers=_headers(answer))
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the response, as ASGI asks for it."""
        start = {"type": "http.response.start", "status": self.status_code}
        await send({**start, "headers": self.raw_headers})
        left = int(self.headers.get("content-length", 0))
        try:
            # It ends with its last byte: a node that has that asks again at once, and a request
            # before the end is out of turn.
            if not left:
                await send({"type": "http.response.body"})
            async for piece in _pieces(self._answer):
                left -= len(piece)
                await send({"type": "http.response.body", "body": piece, "more_body": left > 0})
            if left:
                await send({"type": "http.response.body"})
        finally:
            await self._answer.aclose()


def _headers(answer: httpx.Response) -> dict[str, str]:
    """Returns the headers of an answer that go back."""
    return {name: answer.headers[name] for name in PASSED if name in answer.headers}


async def _pieces(answer: httpx.Response) -> AsyncIterator[bytes]:
    """Yields the bytes of an answer."""
    # If the other worker dies, fewer bytes come than were announced, and the node asks again.
    with suppress(httpx.HTTPError):
        async for piece in answer.aiter_raw():
            yield piece
