"""`Connections`: a peer's connections to others. Each is kept and used again, since making one
costs as much as pushing 0.5 MB.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import final

from ..agreement.invitation import Contact
from .messages import Message, ProtocolError, Reply, frame, read_message
from .port import Connection, LinkError, PeerLink, Stream

KEPT = 8  # connections, at least
# Seconds for a connection, and for the answer to a control frame.
CONNECT = 4.0
ANSWER = 4.0
FAILED = (LinkError, TimeoutError, ProtocolError)  # errors of the other end, or of the network


@final
class Connections:
    """Connections of one peer to others, opened on the first request and used again. kept: number
    of connections that stay open; idle ones are closed beyond it, the least recently used first.

    After any error the connection is closed: one to a peer whose process has died looks sound for
    half a minute."""

    def __init__(self, link: PeerLink, kept: int = KEPT) -> None:
        self._link = link
        self.kept = kept
        # All three by public key: open connections, the least recently used first; the number of
        # requests under way; and locks, so that two requests at once dial once.
        self._kept: OrderedDict[bytes, Connection] = OrderedDict()
        self._used: dict[bytes, int] = {}
        self._dialling: dict[bytes, asyncio.Lock] = {}

    async def ask(
        self, to: Contact, message: Message, body: bytes | None = None, seconds: float = 0.0
    ) -> Reply:
        """Sends a request to a peer, and the body if the peer answers "go"; returns its last
        answer. seconds: the time limit for sending the body.

        If a connection that was open already fails, the request is sent once more over a new one,
        since the peer may have been restarted. Raises LinkError, TimeoutError or ProtocolError."""
        self._used[to.key] = self._used.get(to.key, 0) + 1
        try:
            if to.key in self._kept:
                try:
                    return await self._asked(to, message, body, seconds)
                except FAILED:
                    self.forget(to.key)
            return await self._asked(to, message, body, seconds)
        except FAILED:
            self.forget(to.key)
            raise
        finally:
            # Nothing is kept of a peer that no request needs, since there may be many.
            self._used[to.key] -= 1
            if not self._used[to.key]:
                del self._used[to.key]
                self._dialling.pop(to.key, None)
            self._trim()

    async def _asked(
        self, to: Contact, message: Message, body: bytes | None, seconds: float
    ) -> Reply:
        async with asyncio.timeout(CONNECT):
            connection = await self._connection(to)
            stream = await connection.open()
        try:
            reply = await _exchange(stream, frame(message), ANSWER)
            if reply.answer == "go" and body is not None:
                reply = await _exchange(stream, body, seconds)
            async with asyncio.timeout(ANSWER):
                await stream.finish()
            return reply
        # Also when the task is cancelled: the other end must not wait for the rest.
        except BaseException:
            await stream.abort()
            raise

    async def _connection(self, to: Contact) -> Connection:
        """Returns the open connection to a peer, or dials."""
        async with self._dialling.setdefault(to.key, asyncio.Lock()):
            if to.key not in self._kept:
                self._kept[to.key] = await self._link.dial(to.key, to.addresses)
        self._kept.move_to_end(to.key)
        return self._kept[to.key]

    def forget(self, key: bytes) -> None:
        """Closes the connection with the peer that has this public key, if there is one."""
        connection = self._kept.pop(key, None)
        if connection is not None:
            connection.close()

    def _trim(self) -> None:
        """Closes the least recently used connections on which nothing is under way."""
        idle = [key for key in self._kept if key not in self._used]
        too_many = max(0, len(self._kept) - self.kept)
        for key in idle[:too_many]:
            self.forget(key)

    def close(self) -> None:
        """Closes the connections with all peers."""
        for key in list(self._kept):
            self.forget(key)


async def _exchange(stream: Stream, message: bytes, seconds: float) -> Reply:
    """Sends a message and reads the reply, within `seconds`."""
    async with asyncio.timeout(seconds):
        await stream.write(message)
        reply = await read_message(stream)
    if not isinstance(reply, Reply):
        raise ProtocolError("answer")
    return reply
