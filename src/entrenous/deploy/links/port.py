"""The port between a server and its nodes: frames go out, answers come in. Behind it is HTTPS in a
real federation, and memory in a test.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from concurrent.futures import TimeoutError as NotYet
from contextlib import suppress
from typing import Protocol, final

from ..frames.frames import FrameParts

Answer = Callable[[bytes], bytes]  # a node's side: the answer to a request


class ServerLink(Protocol):
    """The server's connection to its nodes, which it calls by their names: a node that is present
    has shown its key.
    """

    def present(self) -> Collection[str]:
        """Returns the names of the nodes that are connected now."""
        ...

    def ready(self) -> Collection[str]:
        """Returns the names of the connected nodes that can take a request at once."""
        ...

    def send(self, node: str, frame: FrameParts, seconds: float) -> None:
        """Sends a request that is valid for `seconds`. An answer, if any, comes from `receive`."""
        ...

    def receive(self, seconds: float) -> list[tuple[str, bytes]]:
        """Returns the answers that have arrived, with the names of their nodes; waits at most
        `seconds` for the first.
        """
        ...

    def acknowledge(self) -> None:
        """Tells the nodes whose answers were received so far that these have been dealt with: what
        counts is on the disk.
        """
        ...

    def close(self) -> None: ...


@final
class MemoryServerLink:
    """A `ServerLink` to nodes in this process, each in a thread: for tests, and to see what a real
    network adds.
    """

    def __init__(self, nodes: Mapping[str, Answer], workers: int = 2) -> None:
        self._nodes = dict(nodes)
        self._asked: list[tuple[str, Future[bytes]]] = []
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="nodes")

    def present(self) -> Collection[str]:
        return self._nodes.keys()

    def ready(self) -> Collection[str]:
        return self._nodes.keys()

    def send(self, node: str, frame: FrameParts, seconds: float) -> None:
        answer = self._pool.submit(self._nodes[node], bytes(frame))
        self._asked.append((node, answer))

    def receive(self, seconds: float) -> list[tuple[str, bytes]]:
        if self._asked:
            with suppress(NotYet):
                wait([future for _, future in self._asked], seconds, "FIRST_COMPLETED")
        answers = []
        asked, self._asked = self._asked, []
        for node, future in asked:
            # A node that raised an error has given no answer, as over a network.
            if not future.done():
                self._asked.append((node, future))
            elif future.exception() is None:
                answers.append((node, future.result()))
        return answers

    def acknowledge(self) -> None:
        """Does nothing: no node waits for it here."""

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)
