"""Limits of the other end of a connection: which connections stay, who speaks, how often, and how
much of it is read.

A node signs a short frame with its key and the time, and sends it in the head of every request, so
that nothing of a stranger's is read beyond a head.

    authorization: Entrenous BASE64URL(frame of kind "here", about: {"time": seconds since 1970})

The same limits hold for strangers, for members, and for a node's server. Whatever costs something
is counted before it is paid.

    connections                     strangers have few places, the other places are kept for known
                                    keys (`Guard`)
    bytes of a head                 until it is complete at most HEAD, within HEAD_SECONDS
                                    (`https.BoundedProtocol`)
    requests of a connection        one at a time, and none with a body that nobody reads
                                    (`https`, `application`)
    bytes of a body                 in memory as they arrive, by node and in all (`Bodies`)
    seconds of a body               STRETCH bytes, or its rest, in so many seconds (`Stretches`, at
                                    both ends)
    bytes of a server's response    said beforehand, and no more than the node expects
                                    (`polling.ServerLine`)
    decoded bytes                   as many as came: nothing is decoded
    signatures of nobody            one check a request (`Admission`), and few requests a second
                                    (`Rates`)
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import socket
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple, Protocol, TypeAlias, TypeVar, final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from entrenous.core.errors import EntrenousError

from ..agreement.members import Member
from ..frames.frames import FrameRefused, opened, seal, signed_by

T = TypeVar("T")
Peer: TypeAlias = tuple[str, int]  # address and port of the other end

HELD = 20.0  # seconds for which a server holds a question for work, at most
GONE = HELD + 10.0  # seconds without a word, after which a node is not there
LATER = 5  # seconds after which a node whose question is not held asks again

SCHEME = "Entrenous "
JOINING = "Entrenous-Join"  # the scheme of a header with the token of a link
KIND = "here"
STALE = 300.0  # seconds that a signed time may be from the server's
LONGEST = 2048  # characters of the header
CACHED = 16384  # headers whose signature was checked

# Requests a second, and at once.
# Requests of one node: in a second, and at once.
RATE = 100.0
BURST = 200.0
STRANGERS = 10.0, 40.0  # of all strangers of one address
UNASKED = 1.0, 10.0  # answers of one node that nobody waits for: sent again, or a flood
REMEMBERED = 16384  # senders that were seen last

# Bytes of a request outside its body, and seconds for its head.
HEAD = 16 << 10
HEAD_SECONDS = 10.0
STRETCH = 500_000  # bytes of a body that have to come within the seconds of a stretch
BODY_SECONDS = 10.0  # of a stretch, for a server: 50 kB a second
ROOM = 32 << 20  # bytes of bodies that a server reads, or has not dealt with, at once
UNASKED_PART = 4  # a quarter of the room, or one body, is for nodes that are not asked
DIGITS = 15  # of a number in a header
LINE_SECONDS = 25.0  # for which a body waits for room; a node takes a connection for lost after 30


class Denied(EntrenousError):
    """Raised for a request that is not answered.

    status: of HTTP. code: the word that says why.
    """

    def __init__(self, status: int, code: str) -> None:
        self.status = status
        self.code = code
        super().__init__(code)


# ---- who speaks ----------------------------------------------------------------------------------


def here(key: Ed25519PrivateKey, run: str, node: str) -> str:
    """Returns the header by which a node shows its key, good for five minutes."""
    now = int(time.time())
    frame = seal(key, KIND, run=run, node=node, about={"time": now})
    return SCHEME + urlsafe_b64encode(frame).decode()


class Joins(Protocol):
    """Those who let strangers join by a link. The methods may wait for a disk, and raise Denied.

    token: of the link. address: of the stranger.
    """

    def authority(self) -> bytes:
        """Returns the certificate of the server's authority, which a link names by its sha256."""
        ...

    def terms(self, token: str, address: str) -> bytes:
        """Returns what somebody agrees to by joining, as files (`join_link.Parts`)."""
        ...

    def joined(self, token: str, address: str, request: bytes) -> bytes:
        """Makes whoever asks a member. Returns the invitation, as files, without the items."""
        ...


@final
class Admission:
    """Finds out by a request's header which node sends it. clock: seconds since 1970. joins: whom
    strangers ask who want to join; None where nobody may.
    """

    def __init__(
        self, run: str, members: Mapping[str, Member], clock: Callable[[], float] = time.time
    ) -> None:
        self.run = run
        self.change(members)
        self.joins: Joins | None = None
        self._clock = clock

    def change(self, members: Mapping[str, Member]) -> None:
        """Lets these members in from now on, and nobody else. members: not copied, since a join
        would then cost as much as there are members.
        """
        self._members = members
        self._late: dict[str, Member] = {}
        # The node and the signed time of each checked header, by the header's sha256: what was
        # checked before was checked by other keys.
        self._checked: OrderedDict[bytes, tuple[str, int]] = OrderedDict()

    def welcome(self, member: Member) -> None:
        """Lets one more member in."""
        self._late[member.name] = member

    def node(self, header: str) -> str:
        """Returns the name of the member that signed a header. Raises Denied."""
        # A long header would be hashed and decoded before anybody is known to have signed it.
        if not header.startswith(SCHEME) or len(header) > LONGEST:
            raise Denied(401, "no-key")
        digest = hashlib.sha256(header.encode()).digest()
        # A signature is checked once, not with each of the requests that show it.
        name, signed = self._checked.get(digest) or self._signed(header, digest)
        # Whoever has seen a header could otherwise show it for ever.
        if abs(self._clock() - signed) > STALE:
            raise Denied(401, "clock")
        return name

    def _signed(self, header: str, digest: bytes) -> tuple[str, int]:
        """Returns the node that signed a new header, and the time that it signed."""
        try:
            signed = urlsafe_b64decode(header.removeprefix(SCHEME))
            frame = opened(signed, largest=0)
        except (FrameRefused, ValueError):
            raise Denied(401, "no-key") from None
        head = frame.head
        member = self._late.get(frame.node) or self._members.get(frame.node)
        # A frame that a member signed for something else, or elsewhere, shows nothing here.
        if head.kind != KIND or head.run != self.run:
            raise Denied(401, "wrong-run")
        if member is None:
            raise Denied(401, "unknown-node")
        if not signed_by(frame, member.key):
            raise Denied(401, "bad-signature")
        found = frame.node, head.about.get("time", 0)
        self._checked[digest] = found
        if len(self._checked) > CACHED:
            self._checked.popitem(last=False)
        return found


# ---- how often -----------------------------------------------------------------------------------


@final
class Rates:
    """Token buckets of many senders: `rate` requests a second, and `burst` at once. now: seconds
    that never run back. most: senders that are remembered.
    """

    def __init__(
        self,
        rate: float = RATE,
        burst: float = BURST,
        now: Callable[[], float] = time.monotonic,
        most: int = REMEMBERED,
    ) -> None:
        self._rate = rate
        self._burst = burst
        self._now = now
        self._most = most
        # What each sender has left, and when that was counted; the newest sender is last.
        self._left: OrderedDict[bytes | str, tuple[float, float]] = OrderedDict()

    def allow(self, sender: str) -> bool:
        """Returns whether a sender may send another request now, and counts that request."""
        return self.wait(sender, self._now()) == 0

    def wait(self, sender: bytes | str, now: float) -> float:
        """Counts a request of a sender and returns 0; or returns the seconds until the sender may
        send one, and counts none.
        """
        left, counted = self._left.pop(sender, (self._burst, now))
        left = min(self._burst, left + (now - counted) * self._rate)
        wait = 0.0
        if left < 1:
            # A little more, so that by rounding no turn comes just too early.
            wait = (1 - left) / self._rate + 1e-6 if self._rate else math.inf
        else:
            left -= 1
        self._left[sender] = left, now
        # Forgetting a sender gives it its burst back, so as many are kept as can hardly all come.
        if len(self._left) > self._most:
            self._left.popitem(last=False)
        return wait

    def give(self, sender: str) -> None:
        """Gives a sender back what its last request took."""
        if sender in self._left:
            left, counted = self._left[sender]
            self._left[sender] = min(self._burst, left + 1.0), counted


# ---- which connections stay ----------------------------------------------------------------------


class Bounds(NamedTuple):
    """The connections that a server has at once, at most."""

    connections: int = 1024
    """In all, those of strangers too."""
    strangers: int = 256
    from_address: int = 64
    """Of strangers from one address."""
    of_node: int = 4
    patience: float = 10.0
    """Seconds within which a stranger must have shown a key."""
    banned: float = 10.0
    """Seconds for which an address that floods is refused."""
    silent: int = 1024
    """Connections that have not said a byte."""
    silent_from: int = 512
    """Connections from one address that have not said a byte."""
    greeted: float = 20.0
    """Handshakes a second with strangers of one address."""
    greeted_at_once: float = 200.0
    renewed: float = 1.0
    """Connections a second on which one node shows its key."""
    renewed_at_once: float = 20.0


STANDARD = Bounds()


class Guard:
    """The connections of one listening socket, by who they are. Used by one event loop alone.

    A connection is a stranger's until a key was shown on it. Each address may bring so many
    strangers a second; one that shows a key gives its turn back. Strangers have few places, of
    which the oldest gives way to the newest.

    proxy: the address of a proxy in front, which is not limited. refused, evicted: counts since the
    start. silent: connections that wait outside.
    """

    def __init__(
        self, bounds: Bounds = STANDARD, now: Callable[[], float] = time.monotonic, proxy: str = ""
    ) -> None:
        self.bounds = bounds
        self._now = now
        self._proxy = proxy
        self.refused = self.evicted = self.silent = 0
        self._greeted = Rates(bounds.greeted, bounds.greeted_at_once, now)
        self._renewed = Rates(bounds.renewed, bounds.renewed_at_once, now)
        self._proxied: dict[Peer, None] = {}  # the connections of the proxy
        self._strangers: dict[Peer, CountedSocket] = {}  # the oldest first
        self._from: dict[str, dict[Peer, None]] = {}  # the strangers of each address
        self._known: dict[Peer, tuple[str, CountedSocket]] = {}
        self._of: dict[str, dict[Peer, None]] = {}  # the connections of each node
        self._banned: dict[str, float] = {}  # addresses, until when

    @property
    def open(self) -> int:
        """The number of connections."""
        spoken = len(self._strangers) + len(self._known) + len(self._proxied)
        return self.silent + spoken

    def trusts(self, address: str) -> bool:
        """Returns whether an address is the proxy's, which limits connections itself and speaks for
        many.
        """
        return bool(self._proxy) and address == self._proxy

    def welcome(self, address: str) -> bool:
        """Returns whether an address may connect at all; counts the refusal if not."""
        if self._banned.get(address, 0.0) > self._now():
            self.refused += 1
            return False
        return True

    def arrived(self, connection: socket.socket, peer: Peer) -> CountedSocket | None:
        """Registers a connection. If the table is full, evicts the oldest unauthenticated
        connection. Returns None and closes the connection if its address is banned or over its
        limit."""
        counted = CountedSocket(connection, self, peer, self._now())
        address = peer[0]
        if self.trusts(address):
            self._proxied[peer] = None
            return counted
        if not self.welcome(address) or not self._may_greet(address):
            counted.close()
            return None
        # An address that brings too many pays with its own; else the oldest stranger gives way, so
        # that a newcomer always has a chance to show its key.
        here = self._from.setdefault(address, {})
        if len(here) >= self.bounds.from_address:
            self._evict(next(iter(here)))
        elif len(self._strangers) >= self.bounds.strangers:
            self._evict(next(iter(self._strangers)))
        self._from.setdefault(address, {})[peer] = None
        self._strangers[peer] = counted
        return counted

    def knows(self, peer: Peer, node: str) -> bool:
        """Notes that a key was shown on a connection, which is the node's from now on. Returns
        False if no place is left for it.
        """
        if peer in self._known or peer in self._proxied:
            return True
        if peer not in self._strangers:
            return False
        mine = self._of.setdefault(node, {})
        if len(mine) >= self.bounds.of_node:
            self._evict(next(iter(mine)))
        elif len(self._known) >= self.bounds.connections - self.bounds.strangers:
            # The rest of the places is for strangers, so that a new node can still come in.
            return False
        self._known[peer] = node, self._no_stranger(peer)
        self._of.setdefault(node, {})[peer] = None
        # A node that connects again and again uses up what its address has.
        if self._renewed.allow(node):
            self._greeted.give(peer[0])
        return True

    def left(self, peer: Peer) -> None:
        """Notes that a connection was closed."""
        if peer in self._strangers:
            self._no_stranger(peer)
        elif peer in self._known:
            node, _ = self._known.pop(peer)
            forget_member(self._of, node, peer)
        else:
            self._proxied.pop(peer, None)

    def ban(self, address: str) -> None:
        """Refuses an address for a while, and hangs up on its strangers; known nodes there stay,
        and so does the proxy.
        """
        if self.trusts(address):
            return
        self._banned[address] = self._now() + self.bounds.banned
        for peer in list(self._from.get(address, {})):
            self._evict(peer)

    def sweep(self) -> None:
        """Hangs up on strangers that have shown no key in time, and forgets bans that are over.
        Call it about once a second.
        """
        now = self._now()
        late = now - self.bounds.patience
        for peer, connection in list(self._strangers.items()):
            if connection.since < late:
                self._evict(peer)
        for address, until in list(self._banned.items()):
            if until <= now:
                del self._banned[address]

    def _evict(self, peer: Peer) -> None:
        """Hangs up; the event loop closes the connection when it notices."""
        connection = self._strangers.get(peer)
        if connection is None:
            _, connection = self._known[peer]
        self.left(peer)
        self.evicted += 1
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)

    def _may_greet(self, address: str) -> bool:
        if self._greeted.allow(address):
            return True
        self.refused += 1
        return False

    def _no_stranger(self, peer: Peer) -> CountedSocket:
        forget_member(self._from, peer[0], peer)
        return self._strangers.pop(peer)


class CountedSocket(socket.socket):
    """A connection that is taken off the count when it is closed, however that comes about. since:
    when it was accepted.
    """

    def __init__(self, connection: socket.socket, guard: Guard, peer: Peer, since: float) -> None:
        super().__init__(
            connection.family, connection.type, connection.proto, fileno=connection.detach()
        )
        self._guard = guard
        self._peer = peer
        self.since = since

    def close(self) -> None:
        """Closes the connection, and gives its place back."""
        super().close()
        self._guard.left(self._peer)


def forget_member(groups: dict[str, dict[T, None]], name: str, member: T) -> None:
    """Takes a member away from the group of a name, and the group with its last member."""
    group = groups.get(name, {})
    group.pop(member, None)
    if not group:
        groups.pop(name, None)


# ---- how much ------------------------------------------------------------------------------------


def is_number(text: str) -> bool:
    """Returns whether a header is a length or a number of seconds: ASCII digits, and few of them,
    since a long number takes long to read.
    """
    return text.isascii() and text.isdigit() and len(text) <= DIGITS


@final
class Stretches:
    """The deadline of a body as it comes: each STRETCH of bytes, and the rest, within `seconds` of
    the one before. Read the body inside `async with` of `limit`, which raises TimeoutError when a
    stretch takes longer.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._left = STRETCH
        self.limit = asyncio.timeout(seconds)

    def came(self, size: int) -> None:
        """Counts bytes that have come."""
        self._left -= size
        if self._left <= 0:
            self._left = STRETCH
            self.resume()

    def pause(self) -> None:
        """Stops the clock while this end, and not the other one, lets the body wait."""
        self.limit.reschedule(None)

    def resume(self) -> None:
        """Begins a stretch anew."""
        now = asyncio.get_running_loop().time()
        self.limit.reschedule(now + self._seconds)

    def end(self) -> None:
        """Ends the reading at once."""
        if not self.limit.expired():
            self.limit.reschedule(asyncio.get_running_loop().time())


class Waiting(NamedTuple):
    """A body that waits for room for its next bytes."""

    body: Body
    size: int
    granted: asyncio.Future[None]


@final
class Body:
    """A body that is being read.

    asked: True if the server waits for it. place: in the order in which bodies began. held: bytes
    in memory. whole: True once all of it has come.
    """

    def __init__(self, ledger: Bodies, node: str, asked: bool, place: int) -> None:
        self.node = node
        self.asked = asked
        self.place = place
        self.held = 0
        self.whole = False
        self.stretches = Stretches(BODY_SECONDS)
        self._ledger = ledger

    async def came(self, size: int) -> None:
        """Counts bytes that have come, and waits until there is room for more. Raises Denied where
        no room is made in time.
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
    largest: bytes of one body, at most.

    A node has one body at a time. Nodes that are asked may take all of the room, the others a part
    of it. A body that finds no room waits: those of asked nodes go before the others, and the
    oldest first. But one body of an asked node goes on beyond the room, and one of the others
    beyond their part: so neither a crowd nor somebody whose bytes trickle can hold everybody up.
    That makes at most `room + largest` bytes in all. The room is at least that of two bodies, so
    that one node cannot fill it.
    """

    def __init__(self, largest: int, room: int = ROOM) -> None:
        self.room = max(room, 2 * largest)
        self.for_unasked = max(self.room // UNASKED_PART, largest)
        self.held = self.held_unasked = 0
        self._of: dict[str, Body] = {}
        self._line: list[Waiting] = []
        # The body that goes on although the room is taken, of asked nodes and of the others.
        self._beyond: dict[bool, Body] = {}
        self._begun = 0

    @asynccontextmanager
    async def of(self, node: str, asked: bool) -> AsyncIterator[Body]:
        """Counts a body of a node until the end of `async with`. A node's next body ends the one
        that it has not sent whole. Raises Denied where the one before waits for the server."""
        before = self._of.get(node)
        # A node that sends body after body would otherwise take all the room.
        if before is not None and before.whole:
            raise Denied(429, "one-at-a-time")
        if before is not None:
            before.stretches.end()
        self._begun += 1
        body = Body(self, node, asked, self._begun)
        self._of[node] = body
        try:
            yield body
        finally:
            self._forget(body)

    def takes(self, body: Body, size: int) -> bool:
        """Counts bytes of a body if there is room for them, and returns whether there is."""
        if not self._has_room(body, size):
            return False
        body.held += size
        self.held += size
        if not body.asked:
            self.held_unasked += size
        return True

    async def waited(self, body: Body, size: int) -> None:
        """Waits until bytes of a body are counted. Raises Denied."""
        waiting = Waiting(body, size, asyncio.get_running_loop().create_future())
        self._line.append(waiting)
        # Those of asked nodes first, then the oldest.
        self._line.sort(key=lambda other: (not other.body.asked, other.body.place))
        try:
            await asyncio.wait_for(waiting.granted, LINE_SECONDS)
        except TimeoutError:
            raise Denied(503, "no-room") from None
        finally:
            if waiting in self._line:
                self._line.remove(waiting)

    def _has_room(self, body: Body, size: int) -> bool:
        if body.asked:
            return self.held + size <= self.room or self._goes_beyond(body)
        if self.held + size > self.room:
            return False
        return self.held_unasked + size <= self.for_unasked or self._goes_beyond(body)

    def _goes_beyond(self, body: Body) -> bool:
        """Returns whether a body is the one of its kind that may go on all the same; it becomes
        that one if there is none.
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
        # The room that is free now goes to those who wait, in their order.
        for waiting in list(self._line):
            if not waiting.granted.done() and self.takes(waiting.body, waiting.size):
                waiting.granted.set_result(None)
                self._line.remove(waiting)
