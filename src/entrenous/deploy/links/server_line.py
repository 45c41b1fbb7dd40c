"""`ServerLine`: a node's connection to its server, which may be anybody with the server's TLS key:
it reads no more than it can need.

A response is read as it comes, never decoded, and given up where it is longer than what this server
may have to say. Cookies, redirects and encodings, which a client of the web keeps or follows by
itself, are nothing here.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncIterator
from types import TracebackType
from typing import NamedTuple, final

import httpx

from .resources import STRETCH, Stretches, is_number
from .traffic import HELD

# seconds without a byte, beside the time that a server may hold a question, then the connection is
# taken for lost
CALL = 30.0
WORD = 1024  # bytes of a response that is no frame, at most
PIECE = 1 << 16  # bytes of an answer that are sent at once
LIKELY = re.compile(rb"[a-z0-9-]{1,40}")  # a word by which a server says why it refuses


class BadResponse(Exception):
    """Raised for a response that no server of a federation gives. Its text has nothing of the
    response.
    """


class ServerSaid(NamedTuple):
    """A response, read. body: a frame, or the word of a refusal; later: seconds after which to ask
    again, 0 where it does not say; date: by the server's clock, as it says it."""

    status: int
    body: bytes
    later: float
    date: str

    @property
    def word(self) -> str:
        """Why a server refuses, as far as that is a word."""
        found = LIKELY.fullmatch(self.body.strip())
        return "" if found is None else found[0].decode("ascii")


@final
class ServerLine:
    """One connection to the server at `url`, closed by `async with`. trust: whom to trust to be it,
    False = anybody, in plain text; largest: bytes of a frame of it, at most. Raises what httpx
    raises, and BadResponse.
    """

    def __init__(self, url: str, trust: ssl.SSLContext | bool, largest: int) -> None:
        limits = httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=HELD)
        self._transport = httpx.AsyncHTTPTransport(verify=trust, trust_env=False, limits=limits)
        self._url, self._host, self._largest = url, httpx.URL(url).netloc, largest

    async def __aenter__(self) -> ServerLine:
        await self._transport.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._transport.__aexit__(kind, raised, trace)

    async def work(self, header: str) -> ServerSaid:
        """Ask for work, with the header that shows the node's key."""
        return await self._said(
            self._request("GET", "/v1/work", header, b""), self._largest, HELD + CALL
        )

    async def answer(self, header: str, frame: bytes) -> ServerSaid:
        """Bring an answer; returns when the server has dealt with it."""
        seconds = HELD + CALL + CALL * len(frame) / STRETCH
        return await self._said(self._request("POST", "/v1/answer", header, frame), WORD, seconds)

    def _request(self, method: str, path: str, header: str, frame: bytes) -> httpx.Request:
        headers = {
            "host": self._host.decode("ascii"),
            "authorization": header,
            "accept-encoding": "identity",
            "content-length": str(len(frame)),
        }
        timeout = {"connect": CALL, "read": HELD + CALL, "write": CALL, "pool": CALL}
        stream = _Pieces(frame)
        return httpx.Request(
            method,
            self._url + path,
            headers=headers,
            stream=stream,
            extensions={"timeout": timeout},
        )

    async def _said(self, request: httpx.Request, largest: int, seconds: float) -> ServerSaid:
        """The response to a request. seconds: until its head is there."""
        try:
            async with asyncio.timeout(seconds):
                response = await self._transport.handle_async_request(request)
        except TimeoutError:
            raise BadResponse(f"the server gives no answer within {seconds:.0f} s") from None
        try:
            body = await _body(response, largest)
        finally:
            await response.aclose()
        return ServerSaid(
            response.status_code, body, _later(response), response.headers.get("date", "")[:40]
        )


@final
class _Pieces(httpx.AsyncByteStream):
    """A body that is sent piece by piece, so that a slow connection is not taken for a lost one."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for at in range(0, len(self._body), PIECE):
            yield self._body[at : at + PIECE]


async def _body(response: httpx.Response, largest: int) -> bytes:
    """The body of a response. Raises BadResponse for what is encoded, longer than `largest`, or
    does not say how long it is.
    """
    if response.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise BadResponse("the server's response is encoded, which nobody asked for")
    if response.status_code == 204:
        return b""
    if response.status_code >= 300:
        return await _read(response, WORD)
    said = response.headers.get("content-length", "")
    if not is_number(said):
        raise BadResponse("the server's response does not say how long it is")
    if int(said) > largest:
        raise BadResponse(
            f"the server's response is of {int(said)} bytes; expected at most {largest}"
        )
    return await _read(response, int(said))


async def _read(response: httpx.Response, most: int) -> bytes:
    """The first `most` bytes of a body. Raises BadResponse where they come too slowly."""
    parts: list[bytes] = []
    left, stretches = most, Stretches(CALL)
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


def _later(response: httpx.Response) -> float:
    """Seconds after which a server wants to be asked again."""
    text = response.headers.get("retry-after", "")
    return float(text) if is_number(text) else 0.0
