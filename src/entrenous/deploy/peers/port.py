"""What a peer needs from a transport, and from the machine that it runs on. Everything else in this package is the same in memory."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar, final

T = TypeVar("T")


class LinkError(Exception):
    """A connection that could not be made, or broke. Whatever the transport says about it is `str(error)`, one line."""


class Stream(Protocol):
    """Bytes both ways, in order, inside a connection. Every method raises LinkError when the other end is gone."""

    async def read(self, size: int) -> bytearray: ...  # exactly so many
    async def write(self, data: bytes) -> None: ...
    async def finish(self) -> None: ...  # nothing more will be written
    async def abort(self) -> None: ...  # neither read nor written; never raises


class Connection(Protocol):
    """With one other peer, whose key the transport has checked."""

    peer: bytes

    async def open(self) -> Stream: ...
    async def accept(self) -> Stream: ...
    def close(self) -> None: ...


class Arriving(Protocol):
    """Somebody who would like to connect; nothing has been spent on them yet."""

    async def take(self) -> Connection: ...
    async def refuse(self) -> None: ...


class Link(Protocol):
    """One peer's place in the network. Its key, 32 bytes, is its address as much as a host and a port are."""

    key: bytes

    def addresses(self) -> list[str]: ...
    async def dial(self, key: bytes, addresses: Sequence[str]) -> Connection: ...
    async def accept(self) -> Arriving: ...
    async def close(self) -> None: ...


class Host(Protocol):
    """Clocks, chance, and hands for numeric work."""

    def now(self) -> float: ...  # seconds, never runs back
    def wall(self) -> float: ...  # seconds since 1970
    def below(self, n: int) -> int: ...  # 0 .. n - 1 at random: whom to ask, when to begin; never what a model becomes
    async def work(self, function: Callable[..., T], *arguments: Any) -> T: ...


@final
class Machine:
    """This one. Numeric work happens in threads, so that the network is served meanwhile."""

    def now(self) -> float:
        """Of the event loop."""
        return asyncio.get_running_loop().time()

    def wall(self) -> float:
        """As the machine's clock says."""
        return time.time()

    def below(self, n: int) -> int:
        """From the system."""
        return secrets.randbelow(n)

    async def work(self, function: Callable[..., T], *arguments: Any) -> T:
        """In a thread."""
        return await asyncio.to_thread(function, *arguments)
