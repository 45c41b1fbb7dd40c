"""`BoundedSocket`: a listening socket that counts its connections from the moment they are accepted, before any handshake."""

from __future__ import annotations

import socket
from collections import Counter
from typing import Any


class BoundedSocket(socket.socket):
    """A listening socket that hangs up at once on connections beyond `most` in all, or `from_address` of one address. open: those there
    are, by address."""

    def __init__(self, *, fileno: int, most: int, from_address: int) -> None:
        super().__init__(fileno=fileno)
        self.most, self.from_address = most, from_address
        self.open: Counter[str] = Counter()

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept the next connection. Raises ConnectionAbortedError, which event loops pass over, for one too many."""
        connection, address = super().accept()
        who = str(address[0])
        if self.open.total() >= self.most or self.open[who] >= self.from_address:
            connection.close()
            raise ConnectionAbortedError
        return CountedSocket(connection, self.open, who), address


class CountedSocket(socket.socket):
    """A connection that is taken off the count when it is closed, however that comes."""

    def __init__(self, connection: socket.socket, count: Counter[str], who: str) -> None:
        super().__init__(connection.family, connection.type, connection.proto, fileno=connection.detach())
        self._count: Counter[str] | None = count
        self._who = who
        count[who] += 1

    def _real_close(self, *more: Any) -> None:
        super()._real_close(*more)  # type: ignore[misc]  # Python's own hook for what closes a socket
        count, self._count = self._count, None
        if count is not None:
            count[self._who] -= 1
            if not count[self._who]:
                del count[self._who]
