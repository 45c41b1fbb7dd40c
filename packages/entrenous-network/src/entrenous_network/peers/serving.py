"""`PeerServer`: the receiving end of a peer. Connections are limited for each address and in time;
every stream is one request; protocol errors are counted."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import final

from ..links.admission import Rates
from .connections import ANSWER
from .intake import PeerIntake, deadline
from .messages import (
    CARRIED,
    AddressRecord,
    Offer,
    ProtocolError,
    Reply,
    Shuffle,
    frame,
    read_message,
)
from .node import ReceivedModel
from .port import Arriving, Connection, Host, LinkError, Stream
from .rate_limits import WATCHED
from .sending import Spawn

CONNECTIONS = 64
# Connections of keys that have shown no ticket yet; the other places are for keys that have.
STRANGERS = CONNECTIONS // 2
OF_ONE = 16  # connections from one address at once, and as many a second
STREAMS = 2  # streams of one connection at once
HANDSHAKE = 4.0  # seconds
# Bytes up to which a body is judged on the spot, in a millisecond: a thread costs more than half
# of that (bench).
SMALL = 1 << 20
# Seconds without a request after which a connection is closed; a stranger's after HANDSHAKE.
IDLE = 60.0


@final
class PeerServer:
    """The receiving end of one peer.

    record: returns the peer's own record. named: is called with a sender and the peer numbers that
    its message names. woken: is set when a model waits for the node."""

    def __init__(
        self,
        intake: PeerIntake,
        host: Host,
        record: Callable[[], AddressRecord],
        named: Callable[[int, tuple[int, ...]], None],
        woken: asyncio.Event,
    ) -> None:
        self.intake = intake
        self.host = host
        self.book = intake.book
        self.limits = intake.limits
        self.tally = intake.tally
        self.record = record
        self.named = named
        self.woken = woken
        self.connections: dict[bytes, Connection] = {}  # by public key
        # Connections of keys that have shown no ticket yet, by id, the oldest first.
        self.strangers: dict[int, Connection] = {}
        self.known: set[int] = set()  # ids of connections whose keys have shown a ticket
        self.leaving: set[int] = set()  # ids of connections that were hung up on, and still end
        self.origins: Counter[str] = Counter()  # connections from each address
        self.often = Rates(OF_ONE, OF_ONE, most=WATCHED)
        self.open = 0  # connections, also those in their handshake

    async def welcome(self, arriving: Arriving, spawn: Spawn) -> None:
        """Accepts a connection and serves it in a task. Refuses it before anything is spent on it
        if its address has too many, or if all places for strangers are taken and none can be made.
        """
        if self._crowded(arriving.origin) or (self._full() and not self._evicted()):
            self.tally["connections.refused"] += 1
            await arriving.refuse()
            return
        self.open += 1
        self.origins[arriving.origin] += 1
        spawn("connection", self._serve(arriving))

    def _crowded(self, origin: str) -> bool:
        """Returns whether too many connections are open from one address, or come too often."""
        # Peers of this machine all have the same address.
        if not origin:
            return False
        return self.origins[origin] >= OF_ONE or self.often.wait(origin, self.host.now()) > 0

    def _full(self) -> bool:
        """Returns whether there is no place for a connection that may be a stranger's."""
        staying = self.open - len(self.leaving)
        strangers = staying - len(self.known)
        return staying >= CONNECTIONS or strangers >= STRANGERS

    def _evicted(self) -> bool:
        """Hangs up on the oldest stranger. Returns whether that made a place. A key that has shown
        a ticket never loses its place to somebody else.
        """
        # Connections that end take a while, so those that leave are limited too.
        if not self.strangers or self.open >= 2 * CONNECTIONS:
            return False
        oldest, connection = next(iter(self.strangers.items()))
        del self.strangers[oldest]
        self.leaving.add(oldest)
        connection.close()
        self.tally["connections.evicted"] += 1
        return True

    def _has_a_ticket(self, connection: Connection) -> None:
        """Notes that the key of a connection has shown a ticket: it is no stranger any more."""
        if self.strangers.pop(id(connection), None) is not None:
            self.known.add(id(connection))

    async def _serve(self, arriving: Arriving) -> None:
        """Serves one connection until it ends, and frees its place."""
        connection = None
        try:
            async with asyncio.timeout(HANDSHAKE):
                connection = await arriving.take()
            if self.limits.is_banned(connection.peer, self.host.now()):
                self.tally["connections.banned"] += 1
                return
            self._only(connection)
            self.strangers[id(connection)] = connection
            await self._requests(connection)
        except (LinkError, TimeoutError):
            self.tally["connections.ended"] += 1
        finally:
            self.open -= 1
            self.origins -= Counter([arriving.origin])
            if connection is not None:
                connection.close()
                place = id(connection)
                self.strangers.pop(place, None)
                self.known.discard(place)
                self.leaving.discard(place)
                # A newer connection of the same key stays.
                if self.connections.get(connection.peer) is connection:
                    del self.connections[connection.peer]

    def _only(self, connection: Connection) -> None:
        """Keeps one connection for a key: the new one, since the peer may have died and come
        back."""
        before = self.connections.get(connection.peer)
        if before is not None:
            before.close()
        self.connections[connection.peer] = connection

    async def _requests(self, connection: Connection) -> None:
        """Answers requests until the connection ends, is idle for too long, or its peer is banned.
        Requests that are under way then end too.
        """
        under_way: set[asyncio.Task[None]] = set()
        async with asyncio.TaskGroup() as streams:
            async for stream in self._streams(connection, under_way):
                task = streams.create_task(self._request(connection, stream))
                under_way.add(task)
                task.add_done_callback(under_way.discard)
            connection.close()

    async def _streams(
        self, connection: Connection, under_way: set[asyncio.Task[None]]
    ) -> AsyncIterator[Stream]:
        """Yields the streams of a connection, as many at once as are allowed."""
        while not self.limits.is_banned(connection.peer, self.host.now()):
            if len(under_way) >= STREAMS:
                await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
            await self._turn(connection.peer)
            idle = HANDSHAKE if id(connection) in self.strangers else IDLE
            try:
                async with asyncio.timeout(idle):
                    stream = await connection.accept()
            except LinkError:
                return
            except TimeoutError:
                # A long body is no idleness.
                if under_way:
                    continue
                return
            yield stream

    async def _turn(self, peer: bytes) -> None:
        """Waits until a key may ask again, over whichever connection."""
        seconds = self.limits.wait(peer, self.host.now())
        while seconds > 0:
            self.tally["requests.held"] += 1
            await asyncio.sleep(seconds)
            seconds = self.limits.wait(peer, self.host.now())

    async def _request(self, connection: Connection, stream: Stream) -> None:
        """Answers one request. Nothing that a peer sends, or fails to send, gets beyond this."""
        try:
            async with asyncio.timeout(ANSWER):
                message = await read_message(stream)
            if isinstance(message, Shuffle):
                await _say(stream, self._shuffled(connection, message))
            elif isinstance(message, Offer):
                await self._offered(connection, message, stream)
            else:
                raise ProtocolError("reply")
            await _end(stream)
        except ProtocolError as bad:
            await self._counted(bad.code, connection, None if bad.answered else stream)
        except TimeoutError:
            await self._counted("stalled", connection, stream)
        except LinkError:
            await self._counted("dropped", connection, stream)

    async def _counted(self, code: str, connection: Connection, stream: Stream | None) -> None:
        """Counts an error of a peer, and hangs up if the peer is banned because of it. stream: one
        to be aborted; None if its sender has been told already."""
        self.tally[f"error.{code}"] += 1
        banned = self.limits.error(connection.peer, self.host.now())
        self.tally["banned"] += banned
        if stream is not None:
            await stream.abort()
        if banned:
            connection.close()

    def _shuffled(self, connection: Connection, message: Shuffle) -> Reply:
        """Stores the records of a message and answers with others. A sender with an older list of
        revoked keys gets the newer one, and then no records of others.
        """
        peer = connection.peer
        if message.schema != self.intake.terms.run_bytes:
            return Reply("schema")
        # Without its own record first, a sender would show no ticket.
        if not message.records or message.records[0].id != peer:
            raise ProtocolError("record")
        if not self.limits.may("shuffle", peer, self.host.now()):
            return Reply("busy")
        own, *others = message.records
        self.book.put(own, self.host.wall())
        self._has_a_ticket(connection)
        self.tally["records.stale"] += self.book.take(others, self.host.wall())
        verifier = self.book.verifier
        # A frame holds either the whole list or records of others.
        if message.serial < verifier.serial:
            return Reply("records", (self.record(),), verifier.revoked)
        told = self.book.some(message.wanted, self.host.below, besides=own.number, most=CARRIED - 1)
        return Reply("records", (self.record(), *told))

    async def _offered(self, connection: Connection, offer: Offer, stream: Stream) -> None:
        """Answers an offer; reads and queues the model if it is wanted."""
        peer = connection.peer
        answer = self.intake.offered(peer, offer, self.host.now(), self.host.wall())
        # Of another federation the record, and so the ticket, has not been looked at.
        if answer != "schema":
            self._has_a_ticket(connection)
        if answer != "go":
            self.tally[f"received.{answer}"] += 1
            await _say(stream, Reply(answer))
            return
        try:
            received = await self._read(offer, stream)
        finally:
            self.intake.dropped(offer)
        self.intake.arrived(received)
        self.limits.good(peer)
        self.tally["received.ok"] += 1
        self.named(received.sender, offer.peers)
        self.woken.set()
        await _say(stream, Reply("ok"))

    async def _read(self, offer: Offer, stream: Stream) -> ReceivedModel:
        """Reads the body of an offer, and returns it once it is known to be a model."""
        await _say(stream, Reply("go"))
        async with asyncio.timeout(deadline(offer.size)):
            body = await stream.read(offer.size)
        try:
            if offer.size <= SMALL:
                return self.intake.judged(offer, body)
            return await self.host.work(self.intake.judged, offer, body)
        except ProtocolError as bad:
            await _say(stream, Reply("rejected"))
            await _end(stream)
            raise ProtocolError(bad.code, answered=True) from None


async def _say(stream: Stream, reply: Reply) -> None:
    async with asyncio.timeout(ANSWER):
        await stream.write(frame(reply))


async def _end(stream: Stream) -> None:
    async with asyncio.timeout(ANSWER):
        await stream.finish()
