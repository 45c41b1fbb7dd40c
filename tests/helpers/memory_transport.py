"""The transport and the machine in memory: peers in one process, in virtual time, without a socket
or a thread.

Nothing waits: when no peer has anything to do, the clock jumps to the next timer. What a run draws
comes from a key, and what happens at the same time has an order. So an hour between a hundred peers
takes seconds, and the same run again gives the same bytes.
"""

from __future__ import annotations

import asyncio
import selectors
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar, final

import numpy as np
from entrenous_network.peers.port import Arriving, Connection, LinkError, Stream

from entrenous.core.keys import below, draw, fold_name, key

T = TypeVar("T")
EPOCH = 1_800_000_000.0  # the wall clock at time 0
WINDOW = 1 << 22  # bytes under way in one direction of a stream, at most
RESET = b""  # in a queue: nothing more will come, and not because it was finished


# ---- time ----------------------------------------------------------------------------------------


@final
class _Jumping(selectors.SelectSelector):
    """A selector that never waits: it moves the clock."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        """What is ready now."""
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise RuntimeError("nothing will ever happen again: every task waits for another")
            self.now += timeout
        return ready


@final
class _VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock is the selector's."""

    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        """Seconds since it began."""
        return self._jumping.now


def in_virtual_time(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on an event loop whose clock jumps to the next event instead of waiting;
    return its result.
    """
    with asyncio.Runner(loop_factory=_VirtualLoop) as runner:
        return runner.run(main)


@final
class VirtualHost:
    """The machine of one simulated peer: a virtual clock, and random numbers from a key that `seed`
    and `name` give.
    """

    def __init__(self, seed: int, name: int) -> None:
        self._key, self._drawn = fold_name(key(seed, "host"), name), 0

    def now(self) -> float:
        """Virtual seconds since the event loop began."""
        return asyncio.get_running_loop().time()

    def wall(self) -> float:
        """Virtual time as a wall clock shows it, in seconds since 1970."""
        return EPOCH + self.now()

    def below(self, n: int) -> int:
        """A random number from 0 to n - 1, the next of this machine's sequence."""
        self._drawn += 1
        return int(below(np.uint64(draw(self._key, self._drawn)), n))

    async def work(self, function: Callable[..., T], *arguments: Any) -> T:
        """Run a function in this thread and return its result, in no virtual time."""
        return function(*arguments)


# ---- the network ---------------------------------------------------------------------------------


@final
class Hub:
    """A network in memory. latency: virtual seconds for every piece of data; cut: whether one
    address cannot reach another, given both keys. What is sent across a cut is lost and nobody is
    told, as on a real network.
    """

    def __init__(
        self, latency: float = 0.01, cut: Callable[[bytes, bytes], bool] = lambda one, other: False
    ) -> None:
        self.latency, self.cut = latency, cut
        self.links: dict[str, MemoryPeerLink] = {}
        self.count = 0

    def link(self, key: bytes, address: str = "") -> MemoryPeerLink:
        """Connect a new peer to the network, at the given address or at an unused one."""
        self.count += 1
        found = MemoryPeerLink(self, key, address or f"memory:{self.count}")
        self.links[found.address] = found
        return found

    def kill(self, link: MemoryPeerLink) -> None:
        """Take a peer off the network as SIGKILL would: others wait for answers that do not
        come.
        """
        self.links.pop(link.address, None)
        link.dead = True


@final
class MemoryPeerLink:
    """The connection of one simulated peer to the network; a `PeerLink`."""

    def __init__(self, hub: Hub, key: bytes, address: str) -> None:
        self.hub, self.key, self.address, self.dead = hub, key, address, False
        self.arriving: asyncio.Queue[Arriving] = asyncio.Queue()

    def addresses(self) -> list[str]:
        """The one address of this peer, as a list."""
        return [self.address]

    async def dial(self, key: bytes, addresses: Sequence[str]) -> Connection:
        """Open a connection to a peer. Raises LinkError if another key answers at these addresses;
        waits for ever if nobody does."""
        there = next((self.hub.links[one] for one in addresses if one in self.hub.links), None)
        await asyncio.sleep(self.hub.latency)
        if there is None or self.hub.cut(self.key, key):
            await asyncio.Event().wait()
            raise AssertionError
        if there.key != key:
            raise LinkError("another key")
        near, far = MemoryConnection(self, there), MemoryConnection(there, self)
        near.other, far.other = far, near
        there.arriving.put_nowait(_MemoryArriving(far))
        return near

    async def accept(self) -> Arriving:
        """Wait for the next incoming connection, before the handshake."""
        return await self.arriving.get()

    async def close(self) -> None:
        """Leave the network and close all connections, as a process that ends."""
        self.hub.kill(self)


@final
class _MemoryArriving:
    def __init__(self, connection: MemoryConnection) -> None:
        self._connection = connection
        self.origin = connection.there.address.partition("#")[
            0
        ]  # several peers of one house: `house#1`, `house#2`

    async def take(self) -> Connection:
        return self._connection

    async def refuse(self) -> None:
        self._connection.close()


@final
class MemoryConnection:
    """One end of a connection between two simulated peers; a `Connection`."""

    other: MemoryConnection

    def __init__(self, own: MemoryPeerLink, there: MemoryPeerLink) -> None:
        self.own, self.there, self.peer = own, there, there.key
        self.closed = asyncio.Event()
        self._offered: deque[Stream] = deque()
        self._any = asyncio.Event()
        self.streams: list[MemoryStream] = []

    async def open(self) -> Stream:
        """Open a stream, which the other end receives from `accept`."""
        self.check()
        near, far = MemoryStream(self), MemoryStream(self.other)
        near.other, far.other = far, near
        self.streams.append(near)
        self.other.streams.append(far)
        self.other._offered.append(far)
        self.other._any.set()
        return near

    async def accept(self) -> Stream:
        """Wait for the next stream that the other end opens."""
        while not self._offered:
            self.check()
            self._any.clear()
            await self._any.wait()
        return self._offered.popleft()

    def close(self) -> None:
        """Close both ends, unless one of the peers is dead or cut off, which then learns
        nothing.
        """
        for end in (self, self.other):
            if not end.is_lost():
                end.closed.set()
                end._any.set()
                for stream in end.streams:
                    stream.arrived.set()

    def is_lost(self) -> bool:
        """Whether one of the two peers is dead or cut off, so that nothing arrives."""
        return self.own.dead or self.there.dead or self.own.hub.cut(self.own.key, self.there.key)

    def check(self) -> None:
        """Raise LinkError if the connection is closed."""
        if self.closed.is_set():
            raise LinkError("closed")


@final
class MemoryStream:
    """One end of a stream between two simulated peers; a `Stream`."""

    other: MemoryStream

    def __init__(self, connection: MemoryConnection) -> None:
        self.connection = connection
        self.got, self.arrived, self.ended, self.broken = bytearray(), asyncio.Event(), False, False

    async def read(self, size: int) -> bytearray:
        """Read exactly `size` bytes. Raises LinkError if the stream ends before."""
        while len(self.got) < size:
            if self.broken or self.connection.closed.is_set() or self.ended:
                raise LinkError("reset" if self.broken else "ended")
            self.arrived.clear()
            await self.arrived.wait()
        found = self.got[:size]
        del self.got[:size]
        self.other.arrived.set()
        return found

    async def write(self, data: bytes) -> None:
        """Send bytes, which arrive after the network's latency. Waits while the other end has a
        full window.
        """
        await asyncio.sleep(self.connection.own.hub.latency)
        for low in range(0, len(data), 1 << 16):
            while len(self.other.got) >= WINDOW:
                self._check()
                self.arrived.clear()
                await self.arrived.wait()
            self._check()
            if not self.connection.is_lost():
                self.other.got += data[low : low + (1 << 16)]
                self.other.arrived.set()

    async def finish(self) -> None:
        """End this direction: the other end reads what is left, and raises LinkError if it reads
        on.
        """
        if not self.connection.is_lost():
            self.other.ended = True
            self.other.arrived.set()

    async def abort(self) -> None:
        """Break both directions of the stream."""
        for end in (self, self.other):
            end.broken = True
            end.arrived.set()

    def _check(self) -> None:
        if self.broken or self.connection.closed.is_set():
            raise LinkError("reset" if self.broken else "closed")
