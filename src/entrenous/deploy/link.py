"""The port between a server and its nodes: frames go out, answers come in. Flower is behind it in a real federation, memory in a test."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from concurrent.futures import TimeoutError as NotYet
from contextlib import suppress
from typing import Protocol, final

Answer = Callable[[bytes], bytes]  # a node's side: the answer to a request


class ServerLink(Protocol):
    """The server's connection to the nodes. An address says where a node is; its signed frames say which node it is."""

    def present(self) -> list[str]:
        """The addresses of the nodes that are connected now."""
        ...

    def send(self, address: str, frame: bytes, seconds: float) -> None:
        """Send a request that is valid for `seconds`. An answer, if any, comes from `receive`."""
        ...

    def receive(self, seconds: float) -> list[tuple[str, bytes]]:
        """The answers that have arrived, with their addresses; waits at most `seconds` for the first."""
        ...

    def close(self) -> None: ...


@final
class MemoryServerLink:
    """A `ServerLink` to nodes in this process, each in a thread: for tests, and to see what a real network adds."""

    def __init__(self, nodes: Mapping[str, Answer], workers: int = 2) -> None:
        self._nodes, self._asked = dict(nodes), list[tuple[str, Future[bytes]]]()
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="nodes")

    def present(self) -> list[str]:
        return list(self._nodes)

    def send(self, address: str, frame: bytes, seconds: float) -> None:
        self._asked.append((address, self._pool.submit(self._nodes[address], frame)))

    def receive(self, seconds: float) -> list[tuple[str, bytes]]:
        if self._asked:
            with suppress(NotYet):
                wait([future for _, future in self._asked], seconds, "FIRST_COMPLETED")
        done = [(address, future) for address, future in self._asked if future.done()]
        self._asked = [(address, future) for address, future in self._asked if not future.done()]
        return [(address, future.result()) for address, future in done if future.exception() is None]

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)
