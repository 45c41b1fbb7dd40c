"""Asking nodes and hearing them: who is where on the link, who was asked when, and what is to be asked again."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from threading import Event
from typing import final

from ..core.errors import EntrenousError
from .codes import Refused
from .frames import opened, signed_by
from .link import Link
from .terms import Roll

POLL = 0.2  # seconds that the server waits for answers before it looks around
AGAIN = (
    30.0  # seconds after which a node that has not answered is asked again: a request may be lost, an answer is the same twice
)


class Stopped(EntrenousError):
    """The server was told to stop; it goes on from its folder."""


@final
class Exchange:
    """One server's talk with its nodes. hello: a frame that asks a node for its name. bytes_down, messages: sent so far."""

    def __init__(self, link: Link, run: str, roll: Roll, hello: Callable[[], bytes], stop: Event) -> None:
        self._link, self._run, self._roll, self._hello, self._stop = link, run, roll, hello, stop
        self._addresses: dict[str, str] = {}  # of nodes, by name
        self._greeted: dict[str, float] = {}  # addresses that were asked for their names, and when
        self.bytes_down = self.messages = 0

    @property
    def present(self) -> Collection[str]:
        """The nodes that are there, by name."""
        return self._addresses.keys()

    def gather(
        self,
        missing: Callable[[], Collection[str]],
        request: Callable[[str], bytes],
        take: Callable[[bytes], None],
        seconds: float,
    ) -> None:
        """Asks `missing` nodes until there are none, or the time is up. take: does something with an answer. Raises Stopped."""
        sent: dict[str, tuple[str, float]] = {}
        began = time.monotonic()
        while missing() and time.monotonic() - began < seconds:
            self._look_around()
            for name in missing():
                self._ask(name, request, sent, seconds)
            for address, frame in self._link.receive(POLL):
                if not self._is_hello(address, frame):
                    take(frame)

    def pause(self, seconds: float) -> None:
        """Waits. Raises Stopped."""
        if self._stop.wait(seconds):
            raise Stopped

    def _ask(self, name: str, request: Callable[[str], bytes], sent: dict[str, tuple[str, float]], seconds: float) -> None:
        address, now = self._addresses.get(name), time.monotonic()
        if address is None or (name in sent and sent[name][0] == address and now - sent[name][1] < AGAIN):
            return
        frame = request(name)
        self._link.send(address, frame, seconds)
        sent[name] = (address, now)
        self.bytes_down, self.messages = self.bytes_down + len(frame), self.messages + 1

    def _look_around(self) -> None:
        """Who is there? Addresses that have not said so are asked."""
        if self._stop.is_set():
            raise Stopped
        present, now = dict.fromkeys(self._link.present()), time.monotonic()
        self._addresses = {name: address for name, address in self._addresses.items() if address in present}
        self._greeted = {address: when for address, when in self._greeted.items() if address in present}
        known = set(self._addresses.values())
        for address in present:
            if address not in known and now - self._greeted.get(address, -AGAIN) >= AGAIN:
                self._greeted[address] = now
                self._link.send(address, self._hello(), AGAIN)

    def _is_hello(self, address: str, frame: bytes) -> bool:
        """Takes the name of a node, if this is one's."""
        try:
            found = opened(frame, 0)
        except Refused:
            return False
        member = self._roll.members.get(found.node)
        if found.head.kind != "hello" or found.head.run != self._run or member is None or not signed_by(found, member.key):
            return False
        self._addresses[found.node] = address
        return True
