"""`Channel`: messages between a server's process and one of its workers, over a socket of their
own.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Mapping
from queue import Empty, SimpleQueue
from select import select
from typing import Any, NamedTuple, Protocol, final

import msgspec

from ..wire.completed import completed

HEAD = 8  # bytes of the length before each message


@completed
class Order(NamedTuple):
    """A message between a server's process and a worker."""

    word: str
    """The kind of the message."""
    about: Mapping[str, Any]
    """Values by name."""
    body: bytes = b""


class OrderChannel(Protocol):
    """A worker's end of its connection to the server's process. Any thread may send."""

    def send(self, word: str, about: Mapping[str, Any], body: bytes = b"") -> None:
        """Sends a message. Raises OSError when the server is gone."""
        ...

    def receive(self, seconds: float | None = None) -> Order | None:
        """Returns the next order; None if none has come in `seconds`. Raises EOFError when the
        server is gone.
        """
        ...


def next_order(orders: SimpleQueue[Order | None], seconds: float | None) -> Order | None:
    """Returns the next order of a queue; None if none has come in `seconds`. Raises EOFError when
    the server is gone, for which None is in the queue.
    """
    try:
        order = orders.get(timeout=seconds)
    except Empty:
        return None
    if order is None:
        raise EOFError
    return order


@final
class Channel:
    """One end of the socket. A message is read whole, by one thread; any thread may send."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._sending = threading.Lock()

    def fileno(self) -> int:
        """The descriptor, to wait for messages of many at once."""
        return self._line.fileno()

    def send(self, word: str, about: Mapping[str, Any], body: bytes = b"") -> None:
        """Sends a message. Raises OSError when the other end is gone."""
        message = msgspec.msgpack.encode(Order(word, about, body))
        with self._sending:
            self._line.sendall(len(message).to_bytes(HEAD, "little") + message)

    def receive(self, seconds: float | None = None) -> Order | None:
        """Returns the next message; None if none has come in `seconds`. Raises EOFError when the
        other end is gone.
        """
        if seconds is not None and not select([self._line], [], [], seconds)[0]:
            return None
        length = int.from_bytes(self._exactly(HEAD), "little")
        return msgspec.msgpack.decode(self._exactly(length), type=Order)

    def close(self) -> None:
        self._line.close()

    def _exactly(self, size: int) -> bytes:
        parts = []
        left = size
        while left:
            try:
                part = self._line.recv(min(left, 1 << 20))
            except OSError:
                part = b""
            if not part:
                raise EOFError
            parts.append(part)
            left -= len(part)
        return b"".join(parts)
