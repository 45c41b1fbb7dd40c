"""What the other end of a connection may cost: every limit in one place, and the ledger of the
bodies in memory.

The same holds for strangers, for members, and for a node's server; none of it is paid before it is
counted.

    bytes of a head                until it is complete at most HEAD, within HEAD_SECONDS
    `protocol.BoundedProtocol` requests of a connection       one at a time, and none with a body
    that nobody reads      `protocol`, `application` bytes of a body                in memory as
    they arrive, by node and in all               `Bodies` seconds of a body              STRETCH
    bytes of it, or its rest, in so many seconds       `Stretches`, at both ends bytes of a server's
    response   said beforehand, and no more than the node knows of        `reading.Reading` decoded
    bytes                  as many as came: nothing is decoded, see `reading` signatures of nobody
    one check a request; strangers ask ten times a second      `admission`, `rates`, `intake`
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple, final

from .admission import Denied

HEAD, HEAD_SECONDS = 16 << 10, 10.0  # bytes of a request that are of no body; seconds for its head
STRETCH = 500_000  # bytes of a body that have to come within the seconds of a stretch
BODY_SECONDS = 10.0  # of a stretch, for a server: 50 kB a second
ROOM = 32 << 20  # bytes of bodies that a server reads, or has not dealt with, at once
UNASKED_PART = 4  # one part of so many of the room, or one body, is for those who are not asked
DIGITS = 15  # of a number in a header
LINE_SECONDS = 25.0  # for which a body waits for room; a node takes a connection for lost after 30


def is_number(text: str) -> bool:
    """Whether a header says a length or seconds: digits of ASCII, so few that they are soon
    read.
    """
    return text.isascii() and text.isdigit() and len(text) <= DIGITS


@final
class Stretches:
    """The deadline of a body as it comes: each STRETCH of bytes, and the rest, within `seconds` of
    the one before. Read it inside `async with` of `limit`, which raises TimeoutError when a stretch
    takes longer.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds, self._left = seconds, STRETCH
        self.limit = asyncio.timeout(seconds)

    def came(self, size: int) -> None:
        """Count bytes that have come."""
        self._left -= size
        if self._left <= 0:
            self._left = STRETCH
            self.resume()

    def pause(self) -> None:
        """Stop the clock: it is not the other end that lets us wait."""
        self.limit.reschedule(None)

    def resume(self) -> None:
        """Begin a stretch anew."""
        self.limit.reschedule(asyncio.get_running_loop().time() + self._seconds)

    def end(self) -> None:
        """Have the reading end at once."""
        if not self.limit.expired():
            self.limit.reschedule(asyncio.get_running_loop().time())


class Waiting(NamedTuple):
    """A body that waits for room for its next `size` bytes."""

    body: Body
    size: int
    granted: asyncio.Future[None]


@final
class Body:
    """A body that is read. node: whose; asked: whether the server waits for it; place: in the order
    in which they began; held: bytes in memory; whole: whether all has come; stretches: its
    deadline.
    """

    def __init__(self, ledger: Bodies, node: str, asked: bool, place: int) -> None:
        self.node, self.asked, self.place = node, asked, place
        self.held, self.whole = 0, False
        self.stretches = Stretches(BODY_SECONDS)
        self._ledger = ledger

    async def came(self, size: int) -> None:
        """Count bytes that have come, and wait until there is room for more. Raises Denied where
        none is made in time.
        """
        self.stretches.came(size)
        if self._ledger.takes(self, size):
            return
        self.stretches.pause()
        await self._ledger.waited(self, size)
        self.stretches.resume()


@final
class Bodies:
    """The bodies in a server's memory, counted as their bytes arrive; used by one event loop alone.
    largest: bytes of one, at most.

    A node has one at a time. Those who are asked may take all of the room, the others a part of it.
    Who finds none waits, those who are asked before the others and the oldest first. But one body
    that is asked for goes on beyond the room, and one of the others beyond their part: neither a
    crowd nor somebody whose bytes trickle can hold everybody up. Hence at most `room + largest`
    bytes in all. The room is at least that of two bodies: one node cannot fill it.
    """

    def __init__(self, largest: int, room: int = ROOM) -> None:
        self.room = max(room, 2 * largest)
        self.for_unasked = max(self.room // UNASKED_PART, largest)
        self.held = self.held_unasked = 0
        self._of: dict[str, Body] = {}
        self._line: list[Waiting] = []
        self._beyond: dict[
            bool, Body
        ] = {}  # who goes on although the room is taken: of those who are asked, and of the others
        self._begun = 0

    @asynccontextmanager
    async def of(self, node: str, asked: bool) -> AsyncIterator[Body]:
        """A body of a node, counted until the end of `async with`. A node's next one ends the one
        that it has not sent whole. Raises Denied where that one waits for the server."""
        before = self._of.get(node)
        if before is not None and before.whole:
            raise Denied(429, "one-at-a-time")
        if before is not None:
            before.stretches.end()
        self._begun += 1
        body = self._of[node] = Body(self, node, asked, self._begun)
        try:
            yield body
        finally:
            self._forget(body)

    def takes(self, body: Body, size: int) -> bool:
        """Count bytes of a body if there is room for them."""
        if not self._has_room(body, size):
            return False
        body.held += size
        self.held += size
        if not body.asked:
            self.held_unasked += size
        return True

    async def waited(self, body: Body, size: int) -> None:
        """Wait until bytes of a body are counted. Raises Denied."""
        one = Waiting(body, size, asyncio.get_running_loop().create_future())
        self._line.append(one)
        self._line.sort(key=lambda each: (not each.body.asked, each.body.place))
        try:
            await asyncio.wait_for(one.granted, LINE_SECONDS)
        except TimeoutError:
            raise Denied(503, "no-room") from None
        finally:
            if one in self._line:
                self._line.remove(one)

    def _has_room(self, body: Body, size: int) -> bool:
        if body.asked:
            return self.held + size <= self.room or self._goes_beyond(body)
        if self.held + size > self.room:
            return False
        return self.held_unasked + size <= self.for_unasked or self._goes_beyond(body)

    def _goes_beyond(self, body: Body) -> bool:
        """Whether a body is the one of its kind that may go on all the same; it is if there is
        none.
        """
        return self._beyond.setdefault(body.asked, body) is body

    def _forget(self, body: Body) -> None:
        if self._of.get(body.node) is body:
            del self._of[body.node]
        if self._beyond.get(body.asked) is body:
            del self._beyond[body.asked]
        self.held -= body.held
        if not body.asked:
            self.held_unasked -= body.held
        body.held = 0
        self._grant()

    def _grant(self) -> None:
        """Give the line what room there is now."""
        for one in list(self._line):
            if not one.granted.done() and self.takes(one.body, one.size):
                one.granted.set_result(None)
                self._line.remove(one)
