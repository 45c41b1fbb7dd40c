"""The connections of a server: which may come, and which have to go, decided before any handshake.

A client of TLS or HTTP speaks first. So a connection waits outside, as a bare descriptor, until it
says something (`GuardedSocket`): a silent one never reaches the event loop, has no handshake
prepared for it, and costs a descriptor; the oldest gives way to the newest. A connection that
speaks is passed on if the `Guard` lets it, and is a stranger's until a key was shown on it. Each
address may bring so many strangers a second; whoever shows a key has cost nothing. Strangers have
few places, of which the oldest gives way to the newest. The other places are kept for known keys.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import sys
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias, TypeVar, final

from .admission import Rates

T = TypeVar("T")
Peer: TypeAlias = tuple[str, int]  # address and port of the other end

TURN = 64  # connections that are looked at before the event loop does something else


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

    proxy: the address of a proxy in front, which is not limited. refused, evicted: counts since the
    start. silent: connections that wait outside.
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
            _drop(self._of, node, peer)
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
        _drop(self._from, peer[0], peer)
        return self._strangers.pop(peer)


class CountedSocket(socket.socket):
    """A connection that is taken off the count when it is closed, however that comes about. since:
    when it was accepted.
    """

    def __init__(self, connection: socket.socket, guard: Guard, peer: Peer, since: float) -> None:
        super().__init__(
            connection.family, connection.type, connection.proto, fileno=connection.detach()
        )
        self._guard, self._peer, self.since = guard, peer, since

    def close(self) -> None:
        """Closes the connection, and gives its place back."""
        super().close()
        self._guard.left(self._peer)


def _drop(groups: dict[str, dict[T, None]], name: str, member: T) -> None:
    """Takes a member away from the group of a name, and the group with its last member."""
    group = groups.get(name, {})
    group.pop(member, None)
    if not group:
        groups.pop(name, None)


def _peer(address: Any) -> Peer:
    """Returns the address and port of the other end, of what `accept` returns with IPv4 or IPv6."""
    return str(address[0]), int(address[1])


class Silent(NamedTuple):
    """A connection that has said nothing yet."""

    peer: Peer
    address: Any
    since: float
    """When the connection was accepted."""


@final
class GuardedSocket(socket.socket):
    """A listening socket whose connections are let in by `guard`, made of one that listens already.

    Its descriptor is that of an epoll, which is readable when a connection is to be accepted that
    may be worth it. Where there is no epoll, the guard is asked as soon as a connection is
    there."""

    def __init__(
        self, listening: socket.socket, guard: Guard, now: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(
            listening.family, listening.type, listening.proto, fileno=listening.detach()
        )
        self.guard, self._now = guard, now
        self._silent: dict[int, Silent] = {}  # by descriptor, the oldest first
        self._from: dict[str, dict[int, None]] = {}  # of each address, the oldest first
        self._turn: deque[tuple[int, int]] | None = None
        self._own = super().fileno()
        self._epoll = select.epoll() if sys.platform == "linux" else None
        if self._epoll is not None:
            self.setblocking(False)
            self._epoll.register(self._own, select.EPOLLIN)

    def fileno(self) -> int:
        """Returns the descriptor to wait for."""
        return super().fileno() if self._epoll is None else self._epoll.fileno()

    def accept(self) -> tuple[socket.socket, Any]:
        """Accepts the next connection that has spoken. Raises BlockingIOError when there is none,
        and now and then when there is, so that an event loop gets its turn."""
        if self._epoll is None:
            return self._at_once()
        # The event loop calls this again and again until it raises BlockingIOError.
        if self._turn is None:
            self._turn = deque(self._epoll.poll(0, TURN))
        while self._turn:
            number, events = self._turn.popleft()
            if number == self._own:
                self._newcomers()
                continue
            accepted = self._spoken(number, events)
            if accepted is not None:
                return accepted
        self._turn = None
        raise BlockingIOError

    def sweep(self) -> None:
        """Hangs up on connections that have been silent for too long. Call it about once a
        second."""
        late = self._now() - self.guard.bounds.patience
        for number, silent in list(self._silent.items()):
            if silent.since < late:
                self._evict(number)
        self.guard.sweep()

    def close(self) -> None:
        """Closes this socket and every connection that has not been passed on."""
        for number in list(self._silent):
            self._forget(number)
            os.close(number)
        if self._epoll is not None:
            self._epoll.close()
        super().close()

    def _at_once(self) -> tuple[socket.socket, Any]:
        """Accepts a connection without waiting for its first byte. Raises ConnectionAbortedError,
        which event loops pass over, for a connection that is refused."""
        connection, address = super().accept()
        counted = self.guard.arrived(connection, _peer(address))
        if counted is None:
            raise ConnectionAbortedError
        return counted, address

    def _newcomers(self) -> None:
        """Accepts connections that are new, to wait for their first byte."""
        try:
            for _ in range(TURN):
                connection, address = super().accept()
                if self.guard.welcome(str(address[0])):
                    self._wait(connection.detach(), address)
                else:
                    connection.close()
        except BlockingIOError:
            pass
        except OSError as error:
            # Without a free descriptor nobody could come in: the oldest silent one gives way. If
            # there is none, the event loop waits for a second.
            if error.errno not in (errno.EMFILE, errno.ENFILE) or not self._silent:
                raise
            self._evict(next(iter(self._silent)))

    def _wait(self, number: int, address: Any) -> None:
        """Lets a new connection wait until it says something."""
        assert self._epoll is not None
        bounds = self.guard.bounds
        peer = _peer(address)
        host, _ = peer
        # An address that brings too many pays with its own; else the oldest of all gives way.
        here = self._from.get(host, {})
        if len(here) >= bounds.silent_from and not self.guard.trusts(host):
            self._evict(next(iter(here)))
        elif len(self._silent) >= bounds.silent:
            self._evict(next(iter(self._silent)))
        self._silent[number] = Silent(peer, address, self._now())
        self._from.setdefault(host, {})[number] = None
        self._epoll.register(number, select.EPOLLIN | select.EPOLLRDHUP)
        self.guard.silent = len(self._silent)

    def _spoken(self, number: int, events: int) -> tuple[CountedSocket, Any] | None:
        """Returns a connection that has spoken, with its address; None if it is refused or over."""
        # It may have given way in this very turn.
        if number not in self._silent:
            return None
        silent = self._forget(number)
        connection = socket.socket(fileno=number)
        # Hung up without a word: there is nobody to shake hands with.
        if events & (select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR):
            connection.close()
            return None
        counted = self.guard.arrived(connection, silent.peer)
        return None if counted is None else (counted, silent.address)

    def _evict(self, number: int) -> None:
        self._forget(number)
        self.guard.evicted += 1
        os.close(number)

    def _forget(self, number: int) -> Silent:
        assert self._epoll is not None
        silent = self._silent.pop(number)
        _drop(self._from, silent.peer[0], number)
        self._epoll.unregister(number)
        self.guard.silent = len(self._silent)
        return silent
