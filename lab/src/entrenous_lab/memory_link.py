"""`MemoryServerLink`: a server and its nodes in one process, without a network between them."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from concurrent.futures import TimeoutError as NotYet
from contextlib import suppress
from typing import final

from entrenous_network.frames.frames import FrameParts
from entrenous_network.links.port import Answer


@final
class MemoryServerLink:
    """A `ServerLink` to nodes in this process, each in a thread: for tests, and to see what a real
    network adds.
    """

    def __init__(self, nodes: Mapping[str, Answer], workers: int = 2) -> None:
        self._nodes = dict(nodes)
        self.since = time.monotonic()
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

    def left(self) -> list[str]:
        """Returns nobody: nodes do not hang up here."""
        return []

    def rest(self, seconds: float) -> None:
        """Does nothing: no node asks here."""

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)
