"""`GuardedSocket`: a server's listening socket, before which silent connections wait.

A client of TLS or HTTP speaks first. So a connection waits outside, as a bare descriptor, until it
says something: a silent one never reaches the event loop, has no handshake prepared for it, and
costs a descriptor; the oldest gives way to the newest. A connection that speaks is passed on if the
`admission.Guard` lets it in.
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
from typing import Any, NamedTuple, final

from .admission import CountedSocket, Guard, Peer, forget_member

TURN = 64  # connections that are looked at before the event loop does something else


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
        self.guard = guard
        self._now = now
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
        if self._epoll is None:
            return super().fileno()
        return self._epoll.fileno()

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
        if counted is None:
            return None
        return (counted, silent.address)

    def _evict(self, number: int) -> None:
        self._forget(number)
        self.guard.evicted += 1
        os.close(number)

    def _forget(self, number: int) -> Silent:
        assert self._epoll is not None
        silent = self._silent.pop(number)
        forget_member(self._from, silent.peer[0], number)
        self._epoll.unregister(number)
        self.guard.silent = len(self._silent)
        return silent
