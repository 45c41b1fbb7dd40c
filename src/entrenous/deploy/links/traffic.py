"""`Traffic`: requests that wait for their nodes, and answers that wait for the server, between an
event loop and the server's thread.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from queue import Empty, SimpleQueue
from typing import NamedTuple, final

from ..frames.frames import FrameParts

HELD = 20.0  # seconds that a question for work is held, at most
GONE = HELD + 10.0  # seconds without a word, after which a node is not there
WAITING = 2048  # questions that are held at once
# seconds that a request is kept for a node to fetch it again, at most: after that a server asks it
# anew
KEPT = 30.0
LATER = 5  # seconds after which a node whose question is not held asks again


class Parked(NamedTuple):
    """A request that its node has not answered. until: monotonic seconds for which it is valid."""

    frame: FrameParts
    until: float


class Arrived(NamedTuple):
    """An answer, and what resolves when the server has dealt with it."""

    node: str
    frame: bytes
    done: asyncio.Future[None]


@final
class Traffic:
    """What is under way. Methods of the event loop are coroutines or say so; all others are the
    server's thread's. `begin` comes first.
    """

    def __init__(self) -> None:
        self._parked: dict[str, Parked] = {}
        self._asking: dict[str, asyncio.Future[FrameParts | None]] = {}
        self._heard: dict[str, float] = {}  # when each node last said something
        self._arrived: SimpleQueue[Arrived | None] = SimpleQueue()  # None: another node is ready
        self._told = False  # whether that was said since `ready` was last called
        self._unanswered: list[Arrived] = []  # received, not yet acknowledged
        self.loop: asyncio.AbstractEventLoop | None = None

    def begin(self) -> None:
        """In the event loop, before anything else: this is the loop."""
        self.loop = asyncio.get_running_loop()

    # ---- for the server's thread -----------------------------------------------------------------

    def present(self) -> Collection[str]:
        """The names of the nodes that have said something of late."""
        late = time.monotonic() - GONE
        heard = (
            self._heard.copy()
        )  # at once; in the midst of a list of pairs the event loop may have its turn
        return {name for name, when in heard.items() if when > late}

    def ready(self) -> Collection[str]:
        """The names of the nodes whose questions are held now."""
        self._told = False
        return list(self._asking)

    def send(self, node: str, frame: FrameParts, seconds: float) -> None:
        """Have a request fetched by its node, now if it is asking."""
        assert self.loop is not None
        self.loop.call_soon_threadsafe(
            self._park, node, Parked(frame, time.monotonic() + min(seconds, KEPT))
        )

    def receive(self, seconds: float) -> list[tuple[str, bytes]]:
        """All answers that have come; waits for the first of them, or until another node is
        ready.
        """
        found: list[Arrived] = []
        try:
            one = self._arrived.get(timeout=seconds)
            while True:
                found += [] if one is None else [one]
                one = self._arrived.get_nowait()
        except Empty:
            pass
        self._unanswered += found
        return [(one.node, one.frame) for one in found]

    def acknowledge(self) -> None:
        """All that was received so far has been dealt with."""
        done, self._unanswered = self._unanswered, []
        if done and self.loop is not None:
            self.loop.call_soon_threadsafe(_resolve, done)

    # ---- for the event loop ----------------------------------------------------------------------

    def heard(self, node: str) -> None:
        """Note that a node is there."""
        self._heard[node] = time.monotonic()

    def gone(self, node: str) -> None:
        """Note that a node has hung up."""
        self._heard.pop(node, None)

    def parked(self, node: str) -> FrameParts | None:
        """The request that waits for a node."""
        found = self._parked.get(node)
        if found is not None and found.until < time.monotonic():
            self._parked.pop(node, None)
            return None
        return None if found is None else found.frame

    def sweep(self) -> None:
        """Drop the requests of nodes that have gone: each holds a model. Call it about once a
        second.
        """
        now = time.monotonic()
        self._parked = {node: one for node, one in self._parked.items() if one.until > now}

    def asks(self, node: str) -> asyncio.Future[FrameParts | None] | None:
        """What resolves to the next request for a node, or to None where it has asked once more
        elsewhere; None if too many ask.
        """
        before = self._asking.pop(node, None)
        if before is not None and not before.done():
            before.set_result(None)
        if len(self._asking) >= WAITING:
            return None
        self._asking[node] = asyncio.get_running_loop().create_future()
        if not self._told:
            self._told = True
            self._arrived.put(None)
        return self._asking[node]

    def asked(self, node: str, question: asyncio.Future[FrameParts | None]) -> None:
        """A question is over, however it ended."""
        if self._asking.get(node) is question:
            del self._asking[node]
        question.cancel()

    def waits_for(self, node: str) -> bool:
        """Whether a node has a request that it has not answered."""
        return node in self._parked

    def arrived(self, node: str, frame: bytes) -> asyncio.Future[None]:
        """Hand an answer to the server; what is returned resolves when it has been dealt with."""
        self._parked.pop(node, None)
        if node in self._heard:  # one that only delivers has asked for no work
            self.heard(node)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._arrived.put(Arrived(node, frame, done))
        return done

    def _park(self, node: str, request: Parked) -> None:
        question = self._asking.pop(node, None)
        if question is not None and not question.done():
            question.set_result(request.frame)
        self._parked[node] = request


def _resolve(done: list[Arrived]) -> None:
    for one in done:
        if not one.done.done():
            one.done.set_result(None)
