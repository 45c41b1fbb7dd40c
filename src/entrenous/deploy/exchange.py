"""Asking nodes and hearing them: who is where on the link, who was asked when, and what is to be asked again."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from threading import Event
from typing import NamedTuple, final

from ..core.errors import EntrenousError
from .codes import FrameRefused
from .frames import opened, signed_by
from .link import ServerLink
from .members import Members

LONG = 3.0  # seconds between two words about who is waited for
POLL = 0.2  # seconds that the server waits for answers before it looks around
AGAIN = 30.0  # seconds after which a node that has not answered is asked again: either may be lost, an answer is the same twice
WINDOW = 1 << 26  # bytes of requests under way, about


class SentRequest(NamedTuple):
    """A request that has been sent: to which address, when (monotonic seconds), of how many bytes."""

    address: str
    when: float
    size: int


class Greeted(NamedTuple):
    """A request for a node's name that has been sent: when, and with which nonce."""

    when: float
    nonce: bytes


class ServerStopped(EntrenousError):
    """Raised when the server is told to stop. It can go on from its folder."""


@final
class Exchange:
    """The server's requests to its nodes and their answers, over a link. hello: makes a frame that asks a node for its name;
    waits: is called now and then with the names of missing nodes. bytes_down, messages: sent so far."""

    def __init__(
        self,
        link: ServerLink,
        run: str,
        members: Members,
        hello: Callable[[], bytes],
        stop: Event,
        waits: Callable[[list[str]], None],
    ) -> None:
        self._link, self._run, self._members, self._hello, self._stop, self._waits = link, run, members, hello, stop, waits
        self._addresses: dict[str, str] = {}  # of nodes, by name
        self._greeted: dict[str, Greeted] = {}  # addresses that were asked for their names
        self.bytes_down = self.messages = 0

    @property
    def present(self) -> Collection[str]:
        """The names of the nodes that are connected."""
        return self._addresses.keys()

    def gather(
        self,
        missing: Callable[[], Collection[str]],
        request: Callable[[str], bytes],
        take: Callable[[bytes], None],
        seconds: float,
    ) -> None:
        """Ask the nodes `missing()` until there are none or the time is up, and again if they do not answer. request: makes
        the frame for a node; take: handles an answer. Raises ServerStopped."""
        sent: dict[str, SentRequest] = {}
        began = told = time.monotonic()
        while (left := missing()) and time.monotonic() - began < seconds:
            self._look_around()
            if time.monotonic() - told > LONG:
                told = time.monotonic()
                self._waits(sorted(left))
            self._ask(left, request, sent, seconds)
            for address, frame in self._link.receive(POLL):
                if not self._is_hello(address, frame):
                    take(frame)

    def pause(self, seconds: float) -> None:
        """Wait for some seconds. Raises ServerStopped when the server is told to stop meanwhile."""
        if self._stop.wait(seconds):
            raise ServerStopped

    def _ask(self, left: Collection[str], request: Callable[[str], bytes], sent: dict[str, SentRequest], seconds: float) -> None:
        """Asks those of `left` who are there and have no request under way, as far as these fit into WINDOW; who was never asked first."""
        now = time.monotonic()
        here = [name for name in left if name in self._addresses]
        under_way = {name for name in here if name in sent and self._is_under_way(sent[name], self._addresses[name], now)}
        room = WINDOW - sum(sent[name].size for name in under_way)
        for name in sorted(
            (name for name in here if name not in under_way), key=lambda name: sent[name].when if name in sent else -1.0
        ):
            if room <= 0:
                break
            address, frame = self._addresses[name], request(name)
            self._link.send(address, frame, seconds)
            sent[name], room = SentRequest(address, now, len(frame)), room - len(frame)
            self.bytes_down, self.messages = self.bytes_down + len(frame), self.messages + 1

    def _is_under_way(self, sent: SentRequest, address: str, now: float) -> bool:
        return sent.address == address and now - sent.when < AGAIN

    def _look_around(self) -> None:
        """Who is there? Addresses that have not said so are asked."""
        if self._stop.is_set():
            raise ServerStopped
        present, now = dict.fromkeys(self._link.present()), time.monotonic()
        self._addresses = {name: address for name, address in self._addresses.items() if address in present}
        self._greeted = {address: when for address, when in self._greeted.items() if address in present}
        known = set(self._addresses.values())
        for address in present:
            if address not in known and (address not in self._greeted or now - self._greeted[address].when >= AGAIN):
                frame = self._hello()
                self._greeted[address] = Greeted(now, opened(frame).head.nonce)
                self._link.send(address, frame, AGAIN)

    def _is_hello(self, address: str, frame: bytes) -> bool:
        """Takes the name of a node, if this is one's. It repeats the number it was asked with, so that no old one leads elsewhere."""
        try:
            found = opened(frame, 0)
        except FrameRefused:
            return False
        member = self._members.nodes.get(found.node)
        if found.head.kind != "hello" or found.head.run != self._run or member is None or not signed_by(found, member.key):
            return False
        if address not in self._greeted or found.head.model != self._greeted[address].nonce:
            return True
        self._addresses[found.node] = address
        return True
