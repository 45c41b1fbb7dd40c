"""Asking nodes and hearing them: who is there, who was asked when, and what is to be asked
again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from threading import Event
from typing import NamedTuple, final

from ...core.errors import EntrenousError
from ..frames.frames import FrameParts
from ..links.port import ServerLink

LONG = 3.0  # seconds between two words about who is waited for
POLL = 0.2  # seconds that the server waits for answers before it looks around
# seconds after which a node that has not answered is asked again: either may be lost, an answer is
# the same twice
AGAIN = 30.0
WINDOW = 1 << 24  # bytes of requests under way, about


class SentRequest(NamedTuple):
    """A request that has been sent: when (monotonic seconds), and of how many bytes."""

    when: float
    size: int


class ServerStopped(EntrenousError):
    """Raised when the server is told to stop. It can go on from its folder."""


def watch(
    missing: Callable[[], Collection[str]],
    look: Callable[[Collection[str]], None],
    seconds: float,
    stop: Event,
    waits: Callable[[list[str]], None],
) -> None:
    """Call `look` with the names of the nodes that are missing until none are, or the time is up;
    now and then `waits` too. Raises ServerStopped when `stop` is set."""
    began = told = time.monotonic()
    while (left := missing()) and time.monotonic() - began < seconds:
        if stop.is_set():
            raise ServerStopped
        if time.monotonic() - told > LONG:
            told = time.monotonic()
            waits(sorted(left))
        look(left)


def rest(seconds: float, stop: Event, hear: Callable[[float], None]) -> None:
    """Let some seconds pass, in which nobody is asked and `hear` is called for a moment again and
    again. Raises ServerStopped when `stop` is set."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        moment, began = min(POLL, left), time.monotonic()
        hear(moment)
        heard = time.monotonic() - began
        if stop.wait(max(0.0, moment - heard)):
            raise ServerStopped


@final
class Exchange:
    """The server's requests to its nodes and their answers, over a link. waits: is called now and
    then with the names of missing nodes. bytes_down, messages: sent so far."""

    def __init__(
        self,
        link: ServerLink,
        stop: Event,
        waits: Callable[[list[str]], None] = lambda missing: None,
    ) -> None:
        self._link, self._stop, self._waits = link, stop, waits
        self.bytes_down = self.messages = 0

    @property
    def present(self) -> Collection[str]:
        """The names of the nodes that are connected."""
        return self._link.present()

    def gather(
        self,
        missing: Callable[[], Collection[str]],
        request: Callable[[str], FrameParts],
        take: Callable[[Sequence[bytes]], None],
        seconds: float,
        sent: dict[str, SentRequest] | None = None,
    ) -> None:
        """Ask the nodes `missing()` until there are none or the time is up, and again if they do
        not answer. request: makes the frame for a node; take: handles the answers that came
        together; sent: what was asked before, to go on with. Raises ServerStopped."""
        sent = {} if sent is None else sent

        def look(left: Collection[str]) -> None:
            self._ask(left, request, sent, seconds)
            answers = self._link.receive(POLL)
            take([frame for _, frame in answers])
            self._link.acknowledge()

        watch(missing, look, seconds, self._stop, self._waits)

    def rest(self, seconds: float, take: Callable[[Sequence[bytes]], None]) -> None:
        """Ask nobody for some seconds; take: handles what comes nevertheless, so that no node waits
        for a word. Raises ServerStopped.
        """

        def hear(moment: float) -> None:
            take([frame for _, frame in self._link.receive(moment)])
            self._link.acknowledge()

        rest(seconds, self._stop, hear)

    def pause(self, seconds: float) -> None:
        """Wait for some seconds. Raises ServerStopped when the server is told to stop meanwhile."""
        if self._stop.wait(seconds):
            raise ServerStopped

    def _ask(
        self,
        left: Collection[str],
        request: Callable[[str], FrameParts],
        sent: dict[str, SentRequest],
        seconds: float,
    ) -> None:
        """Asks those of `left` who wait for a request and have none under way, as far as these fit
        into WINDOW; who was never asked first."""
        now = time.monotonic()
        for name in [name for name in sent if name not in left]:
            del sent[name]
        room = WINDOW - sum(one.size for one in sent.values() if now - one.when < AGAIN)
        ready = [
            name
            for name in self._link.ready()
            if name in left and (name not in sent or now - sent[name].when >= AGAIN)
        ]
        for name in sorted(ready, key=lambda name: sent[name].when if name in sent else -1.0):
            if room <= 0:
                break
            frame = request(name)
            self._link.send(name, frame, max(seconds, AGAIN))
            sent[name], room = SentRequest(now, len(frame)), room - len(frame)
            self.bytes_down, self.messages = self.bytes_down + len(frame), self.messages + 1
