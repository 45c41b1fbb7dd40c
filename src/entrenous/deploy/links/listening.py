"""`GuardedSocket`: a listening socket that counts its connections from the moment they are accepted, before any handshake.

A connection is a stranger's until a key was shown on it. Strangers have few places, of which the oldest gives way to the newest: silent
ones go first, since whoever means to speak does so at once. The other places are kept for known keys.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias

Peer: TypeAlias = tuple[str, int]  # address and port of the other end


class Bounds(NamedTuple):
    """How many connections a server has at once: in all; of these, of strangers; of strangers from one address; of one node. patience:
    seconds within which a stranger must have shown a key; banned: seconds for which an address that floods is refused."""

    connections: int = 1024
    strangers: int = 256
    from_address: int = 64
    of_node: int = 4
    patience: float = 10.0
    banned: float = 10.0


STANDARD = Bounds()


class Guard:
    """The connections of one listening socket, by who they are. Used by one event loop alone. refused, evicted: counts since the start."""

    def __init__(self, bounds: Bounds = STANDARD, now: Callable[[], float] = time.monotonic) -> None:
        self.bounds, self._now = bounds, now
        self.refused = self.evicted = 0
        self._strangers: dict[Peer, CountedSocket] = {}  # the oldest first
        self._from: dict[str, dict[Peer, None]] = {}  # the strangers of each address
        self._known: dict[Peer, tuple[str, CountedSocket]] = {}
        self._of: dict[str, dict[Peer, None]] = {}  # the connections of each node
        self._banned: dict[str, float] = {}  # addresses, until when

    @property
    def open(self) -> int:
        """How many connections there are."""
        return len(self._strangers) + len(self._known)

    def arrived(self, connection: socket.socket, peer: Peer) -> CountedSocket:
        """Count a new connection, for which an older stranger may have to go. Raises ConnectionAbortedError for a banned address."""
        if self._banned.get(peer[0], 0.0) > self._now():
            self.refused += 1
            connection.close()
            raise ConnectionAbortedError  # event loops pass over it
        own = CountedSocket(connection, self, peer, self._now())
        here = self._from.setdefault(peer[0], {})
        if len(here) >= self.bounds.from_address:
            self._evict(next(iter(here)))
        elif len(self._strangers) >= self.bounds.strangers:
            self._evict(next(iter(self._strangers)))
        self._from.setdefault(peer[0], {})[peer] = None
        self._strangers[peer] = own
        return own

    def knows(self, peer: Peer, node: str) -> bool:
        """Note that a key was shown on a connection: it is the node's from now on. False if no place is left for it."""
        if peer in self._known:
            return True
        if peer not in self._strangers:
            return False
        mine = self._of.setdefault(node, {})
        if len(mine) >= self.bounds.of_node:
            self._evict(next(iter(mine)))
        elif len(self._known) >= self.bounds.connections - self.bounds.strangers:
            return False
        self._known[peer] = node, self._no_stranger(peer)
        self._of.setdefault(node, {})[peer] = None
        return True

    def left(self, peer: Peer) -> None:
        """Note that a connection was closed."""
        if peer in self._strangers:
            self._no_stranger(peer)
        elif peer in self._known:
            node, _ = self._known.pop(peer)
            _drop(self._of, node, peer)

    def ban(self, address: str) -> None:
        """Refuse an address for a while, and hang up on its strangers; known nodes there stay."""
        self._banned[address] = self._now() + self.bounds.banned
        for peer in list(self._from.get(address, {})):
            self._evict(peer)

    def sweep(self) -> None:
        """Hang up on strangers that have shown no key in time, and forget bans that are over. Call it about once a second."""
        late = self._now() - self.bounds.patience
        for peer in [peer for peer, own in self._strangers.items() if own.since < late]:
            self._evict(peer)
        self._banned = {address: until for address, until in self._banned.items() if until > self._now()}

    def _evict(self, peer: Peer) -> None:
        """Hangs up; the event loop closes the connection when it notices."""
        own = self._no_stranger(peer) if peer in self._strangers else self._known[peer][1]
        self.left(peer)
        self.evicted += 1
        with suppress(OSError):
            own.shutdown(socket.SHUT_RDWR)

    def _no_stranger(self, peer: Peer) -> CountedSocket:
        _drop(self._from, peer[0], peer)
        return self._strangers.pop(peer)


class GuardedSocket(socket.socket):
    """A listening socket whose connections are counted by `guard`, made of one that listens already."""

    def __init__(self, listening: socket.socket, guard: Guard) -> None:
        super().__init__(listening.family, listening.type, listening.proto, fileno=listening.detach())
        self.guard = guard

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept the next connection. Raises ConnectionAbortedError, which event loops pass over, for one that is refused."""
        connection, address = super().accept()
        return self.guard.arrived(connection, (str(address[0]), int(address[1]))), address


class CountedSocket(socket.socket):
    """A connection that is taken off the count when it is closed, however that comes. since: when it was accepted."""

    def __init__(self, connection: socket.socket, guard: Guard, peer: Peer, since: float) -> None:
        super().__init__(connection.family, connection.type, connection.proto, fileno=connection.detach())
        self._guard, self._peer, self.since = guard, peer, since

    def close(self) -> None:
        """Close the connection, and give its place back."""
        super().close()
        self._guard.left(self._peer)


def _drop(held: dict[str, dict[Peer, None]], name: str, peer: Peer) -> None:
    held.get(name, {}).pop(peer, None)
    if not held.get(name, {}):
        held.pop(name, None)
