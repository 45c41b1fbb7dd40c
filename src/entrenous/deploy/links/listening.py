"""`Guard`: who may connect to a server, and who has to go, decided before any handshake.

A connection waits outside until it says something (see `lobby`), and is a stranger's until a key
was shown on it. Each address may bring so many strangers a second; who shows a key has cost
nothing. Strangers have few places, of which the oldest gives way to the newest. The other places
are kept for known keys."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, TypeAlias, TypeVar

from .rates import Rates

T = TypeVar("T")
Peer: TypeAlias = tuple[str, int]  # address and port of the other end


class Bounds(NamedTuple):
    """How many connections a server has at once: in all; of these, of strangers; of strangers from
    one address; of one node. patience: seconds within which a stranger must have shown a key;
    banned: seconds for which an address that floods is refused; silent, silent_from: connections
    that have not said a byte, in all and from one address; greeted, greeted_at_once: handshakes
    with strangers of one address, a second and at once; renewed, renewed_at_once: connections on
    which one node shows its key, a second and at once.
    """

    connections: int = 1024
    strangers: int = 256
    from_address: int = 64
    of_node: int = 4
    patience: float = 10.0
    banned: float = 10.0
    silent: int = 1024
    silent_from: int = 512
    greeted: float = 20.0
    greeted_at_once: float = 200.0
    renewed: float = 1.0
    renewed_at_once: float = 20.0


STANDARD = Bounds()


class Guard:
    """The connections of one listening socket, by who they are. Used by one event loop alone.
    proxy: the address of a proxy in front, which is not limited; refused, evicted: counts since the
    start; silent: connections that wait outside.
    """

    def __init__(
        self, bounds: Bounds = STANDARD, now: Callable[[], float] = time.monotonic, proxy: str = ""
    ) -> None:
        self.bounds, self._now, self._proxy = bounds, now, proxy
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
        """How many connections there are."""
        return self.silent + len(self._strangers) + len(self._known) + len(self._proxied)

    def trusts(self, address: str) -> bool:
        """Whether an address is the proxy's, which limits connections itself and speaks for
        many.
        """
        return bool(self._proxy) and address == self._proxy

    def welcome(self, address: str) -> bool:
        """Whether an address may connect at all; counts it if not."""
        if self._banned.get(address, 0.0) > self._now():
            self.refused += 1
            return False
        return True

    def arrived(self, connection: socket.socket, peer: Peer) -> CountedSocket | None:
        """Count a new connection, for which an older stranger may have to go. None, and it is
        closed, if its address is banned or has brought too many."""
        own = CountedSocket(connection, self, peer, self._now())
        if self.trusts(peer[0]):
            self._proxied[peer] = None
            return own
        if not self.welcome(peer[0]) or not self._may_greet(peer[0]):
            own.close()
            return None
        here = self._from.setdefault(peer[0], {})
        if len(here) >= self.bounds.from_address:
            self._evict(next(iter(here)))
        elif len(self._strangers) >= self.bounds.strangers:
            self._evict(next(iter(self._strangers)))
        self._from.setdefault(peer[0], {})[peer] = None
        self._strangers[peer] = own
        return own

    def knows(self, peer: Peer, node: str) -> bool:
        """Note that a key was shown on a connection: it is the node's from now on. False if no
        place is left for it.
        """
        if peer in self._known or peer in self._proxied:
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
        if self._renewed.allow(
            node
        ):  # one that connects again and again uses up what its address has
            self._greeted.give(peer[0])
        return True

    def left(self, peer: Peer) -> None:
        """Note that a connection was closed."""
        if peer in self._strangers:
            self._no_stranger(peer)
        elif peer in self._known:
            node, _ = self._known.pop(peer)
            drop(self._of, node, peer)
        else:
            self._proxied.pop(peer, None)

    def ban(self, address: str) -> None:
        """Refuse an address for a while, and hang up on its strangers; known nodes there stay, and
        so does the proxy.
        """
        if self.trusts(address):
            return
        self._banned[address] = self._now() + self.bounds.banned
        for peer in list(self._from.get(address, {})):
            self._evict(peer)

    def sweep(self) -> None:
        """Hang up on strangers that have shown no key in time, and forget bans that are over. Call
        it about once a second.
        """
        late = self._now() - self.bounds.patience
        for peer in [peer for peer, own in self._strangers.items() if own.since < late]:
            self._evict(peer)
        self._banned = {
            address: until for address, until in self._banned.items() if until > self._now()
        }

    def _evict(self, peer: Peer) -> None:
        """Hangs up; the event loop closes the connection when it notices."""
        own = self._no_stranger(peer) if peer in self._strangers else self._known[peer][1]
        self.left(peer)
        self.evicted += 1
        with suppress(OSError):
            own.shutdown(socket.SHUT_RDWR)

    def _may_greet(self, address: str) -> bool:
        if self._greeted.allow(address):
            return True
        self.refused += 1
        return False

    def _no_stranger(self, peer: Peer) -> CountedSocket:
        drop(self._from, peer[0], peer)
        return self._strangers.pop(peer)


class CountedSocket(socket.socket):
    """A connection that is taken off the count when it is closed, however that comes. since: when
    it was accepted.
    """

    def __init__(self, connection: socket.socket, guard: Guard, peer: Peer, since: float) -> None:
        super().__init__(
            connection.family, connection.type, connection.proto, fileno=connection.detach()
        )
        self._guard, self._peer, self.since = guard, peer, since

    def close(self) -> None:
        """Close the connection, and give its place back."""
        super().close()
        self._guard.left(self._peer)


def drop(held: dict[str, dict[T, None]], name: str, one: T) -> None:
    """Take one of those that are held under a name away, and the name with the last of them."""
    held.get(name, {}).pop(one, None)
    if not held.get(name, {}):
        held.pop(name, None)
