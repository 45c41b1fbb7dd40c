"""The interfaces by which a peer uses a transport and its machine. Tests run peers in memory by
other implementations; everything else in this room is the same.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar, final

T = TypeVar("T")


class LinkError(Exception):
    """Raised when a connection could not be made, or broke. `str(error)` is the message of the
    transport, in one line.
    """


class Stream(Protocol):
    """An ordered stream of bytes in both directions, inside a connection. Every method raises
    LinkError when the other end is gone."""

    async def read(self, size: int) -> bytearray: ...  # exactly so many
    async def write(self, data: bytes) -> None: ...
    async def finish(self) -> None: ...  # nothing more will be written
    async def abort(self) -> None: ...  # neither read nor written; never raises


class Connection(Protocol):
    """An open connection with one other peer."""

    peer: bytes
    """The public key of the other peer, which the transport has verified."""

    async def open(self) -> Stream: ...
    async def accept(self) -> Stream: ...
    def close(self) -> None: ...


class Arriving(Protocol):
    """An incoming connection before the handshake, to be taken or refused at no cost."""

    origin: str
    """The machine or network that it comes from, as far as this can be known without a handshake;
    "" = this machine, or unknown."""

    async def take(self) -> Connection: ...
    async def refuse(self) -> None: ...


class PeerLink(Protocol):
    """The access of one peer to the network: it dials other peers and accepts their connections."""

    key: bytes
    """The peer's own public key, 32 bytes, which is part of its address."""

    def addresses(self) -> list[str]: ...
    async def dial(self, key: bytes, addresses: Sequence[str]) -> Connection: ...
    async def accept(self) -> Arriving: ...
    async def close(self) -> None: ...


class Host(Protocol):
    """The machine a peer runs on: clocks, random numbers, and a way to run numeric work."""

    def now(self) -> float: ...  # seconds, never runs back
    def wall(self) -> float: ...  # seconds since 1970
    # 0 .. n - 1 at random: whom to ask and when to begin; never what a model becomes.
    def below(self, n: int) -> int: ...
    async def work(self, function: Callable[..., T], *arguments: Any) -> T: ...


@final
class Machine:
    """The real machine. Numeric work runs in threads, so that the network is served meanwhile."""

    def now(self) -> float:
        """Returns the seconds of the event loop's clock, which never runs back."""
        return asyncio.get_running_loop().time()

    def wall(self) -> float:
        """Returns the seconds since 1970 by the system clock."""
        return time.time()

    def below(self, n: int) -> int:
        """Returns a random number from 0 to n - 1, from the operating system."""
        return secrets.randbelow(n)

    async def work(self, function: Callable[..., T], *arguments: Any) -> T:
        """Runs a function in a thread and returns its result."""
        return await asyncio.to_thread(function, *arguments)
