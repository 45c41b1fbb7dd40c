"""`GuardedSocket`: a listening socket whose connections wait before it, as bare descriptors, until
they say something.

A client of TLS or HTTP speaks first. What is silent therefore never reaches the event loop, has no
handshake prepared for it, and costs a descriptor; the oldest gives way to the newest. What speaks
is passed on if the guard lets it.
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

from .listening import CountedSocket, Guard, Peer, drop

TURN = 64  # connections that are looked at before the event loop does something else


class Silent(NamedTuple):
    """A connection that has said nothing yet. since: when it was accepted."""

    peer: Peer
    address: Any
    since: float


@final
class GuardedSocket(socket.socket):
    """A listening socket whose connections are let in by `guard`, made of one that listens already.
    Where there is no epoll, the guard is asked as soon as a connection is there.

    Its descriptor is that of an epoll: readable when somebody is to be accepted who may be worth
    it."""

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
        """What to wait for."""
        return super().fileno() if self._epoll is None else self._epoll.fileno()

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept the next connection that has spoken. Raises BlockingIOError when there is none,
        and now and then when there is, so that an event loop gets its turn."""
        if self._epoll is None:
            return self._at_once()
        if self._turn is None:
            self._turn = deque(self._epoll.poll(0, TURN))
        while self._turn:
            number, what = self._turn.popleft()
            if number == self._own:
                self._newcomers()
            elif found := self._spoken(number, what):
                return found
        self._turn = None
        raise BlockingIOError

    def sweep(self) -> None:
        """Hang up on who has been silent for too long. Call it about once a second."""
        late = self._now() - self.guard.bounds.patience
        for number in [number for number, one in self._silent.items() if one.since < late]:
            self._evict(number)
        self.guard.sweep()

    def close(self) -> None:
        """Close this and every connection that has not been passed on."""
        for number in list(self._silent):
            self._forget(number)
            os.close(number)
        if self._epoll is not None:
            self._epoll.close()
        super().close()

    def _at_once(self) -> tuple[socket.socket, Any]:
        """Raises ConnectionAbortedError, which event loops pass over, for one that is refused."""
        connection, address = super().accept()
        own = self.guard.arrived(connection, (str(address[0]), int(address[1])))
        if own is None:
            raise ConnectionAbortedError
        return own, address

    def _newcomers(self) -> None:
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
            if error.errno not in (errno.EMFILE, errno.ENFILE) or not self._silent:
                raise  # event loops wait for a second
            self._evict(next(iter(self._silent)))

    def _wait(self, number: int, address: Any) -> None:
        assert self._epoll is not None
        peer, bounds = (str(address[0]), int(address[1])), self.guard.bounds
        here = self._from.get(peer[0], {})
        if len(here) >= bounds.silent_from and not self.guard.trusts(peer[0]):
            self._evict(next(iter(here)))
        elif len(self._silent) >= bounds.silent:
            self._evict(next(iter(self._silent)))
        self._silent[number] = Silent(peer, address, self._now())
        self._from.setdefault(peer[0], {})[number] = None
        self._epoll.register(number, select.EPOLLIN | select.EPOLLRDHUP)
        self.guard.silent = len(self._silent)

    def _spoken(self, number: int, what: int) -> tuple[CountedSocket, Any] | None:
        if number not in self._silent:
            return None  # it has given way in this very turn
        one = self._forget(number)
        connection = socket.socket(fileno=number)
        if what & (select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR):
            connection.close()
            return None
        own = self.guard.arrived(connection, one.peer)
        return None if own is None else (own, one.address)

    def _evict(self, number: int) -> None:
        self._forget(number)
        self.guard.evicted += 1
        os.close(number)

    def _forget(self, number: int) -> Silent:
        assert self._epoll is not None
        one = self._silent.pop(number)
        drop(self._from, one.peer[0], number)
        self._epoll.unregister(number)
        self.guard.silent = len(self._silent)
        return one
