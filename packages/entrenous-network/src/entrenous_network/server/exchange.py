"""The exchange of a round with the nodes: who is there, who was asked when, who is to be asked
again, who has to be told of longer lists or newer addresses first, and whether enough have
answered.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Generator, Sequence, Set
from contextlib import suppress
from threading import Event
from typing import NamedTuple, TypeAlias, final

from entrenous.core.contract.update import Total
from entrenous.core.errors import EntrenousError

from ..agreement.catalogue import ITEMS
from ..agreement.notice import ADDRESSES
from ..frames.frames import (
    ADDRESS_NEWS,
    ITEMS_NEWS,
    KNOWN,
    MEMBERS_NEWS,
    Code,
    Frame,
    FrameParts,
    FrameRefused,
    opened,
    reason,
)
from ..frames.request import Requests, RoundWork
from ..links.admission import GONE
from ..links.port import ServerLink
from .server_folder import LogLine, ServerFolder

LONG = 3.0  # seconds between two words about who is waited for
LOOK = 0.5  # seconds between two looks at who is there
POLL = 0.2  # seconds that the server waits for answers before it looks around
# seconds after which a node that has not answered is asked again: either may be lost, an answer is
# the same twice
AGAIN = 30.0
WINDOW = 1 << 24  # bytes of requests under way, about
SMALL = 4096  # bytes of a refusal, or of the word that a list was taken, at most
TOLD = 3  # times that a node is told of one list by one process
# What a node lacks that refuses with a code.
LISTS = {
    Code.FEWER_MEMBERS.value: MEMBERS_NEWS,
    Code.WRONG_ITEMS.value: ITEMS_NEWS,
    Code.OLD_ADDRESSES.value: ADDRESS_NEWS,
}


class SentRequest(NamedTuple):
    """A request that has been sent."""

    when: float
    """Monotonic seconds."""
    size: int
    """Bytes."""


class ServerStopped(EntrenousError):
    """Raised when the server is told to stop. It can go on from its folder."""


def watch(
    missing: Callable[[], Collection[str]],
    look: Callable[[Collection[str]], None],
    seconds: float,
    stop: Event,
    waits: Callable[[list[str]], None],
) -> None:
    """Calls `look` with the names of the nodes that are missing until none are, or the time is up;
    now and then calls `waits` too. Raises ServerStopped when `stop` is set.
    """
    began = told = time.monotonic()
    while (left := missing()) and time.monotonic() - began < seconds:
        if stop.is_set():
            raise ServerStopped
        if time.monotonic() - told > LONG:
            told = time.monotonic()
            waits(sorted(left))
        look(left)


def rest(seconds: float, stop: Event, hear: Callable[[float], None]) -> None:
    """Lets some seconds pass, in which nobody is asked and `hear` is called for a moment again and
    again. Raises ServerStopped when `stop` is set.
    """
    began = time.monotonic()
    until = began + seconds
    while began < until:
        moment = min(POLL, until - began)
        hear(moment)
        heard = time.monotonic() - began
        if stop.wait(max(0.0, moment - heard)):
            raise ServerStopped
        began = time.monotonic()


def enough(
    folder: ServerFolder, work: RoundWork, answered: set[str], devices: int | None = None
) -> bool:
    """Returns whether the nodes that have answered serve enough of the asked users (the quorum);
    logs it if not. devices: the number of devices in their answers; None = all that they were asked
    for.
    """
    asked = {name: len(users) for name, users in work.asked.items()}
    heard = sum(asked[name] for name in answered) if devices is None else devices
    share = heard / max(1, sum(asked.values()))
    if answered == asked.keys() or (answered and share >= folder.terms.quorum):
        return True
    line = (
        f"round {work.round}: {share:.0%} of the users in {folder.terms.deadline:g} s, the quorum"
        f" is {folder.terms.quorum:.0%}; not counted, the model is unchanged, the others are"
        " asked again"
    )
    folder.log(LogLine(line, "quorum", level="warning", round=work.round))
    return False


@final
class News:
    """The nodes that know fewer members or items than there are, or an older notice of addresses.
    Such a node refuses what it is asked; it is given the longer list or the newest notice, says
    that it has taken it, and is asked again.

    identified: returns the node that signed a frame, or raises FrameRefused.
    """

    def __init__(
        self, folder: ServerFolder, requests: Requests, identified: Callable[[Frame], str]
    ) -> None:
        self._folder = folder
        self._requests = requests
        self._identified = identified
        # The kind of list that a node lacks, and the number up to which it knows it.
        self._behind: dict[str, tuple[str, int]] = {}
        self._told: Counter[tuple[str, str]] = Counter()
        # What was sent of each kind of list, by the number up to which nodes knew it: thousands may
        # lack the same, and lists are long. Whoever makes this has the lists of one moment.
        self._bodies: dict[tuple[str, int], bytes] = {}

    def request(self, node: str) -> FrameParts | None:
        """Returns the list that a node has to be told of before it is asked; None if there is
        none.
        """
        lacks = self._behind.get(node)
        if lacks is None:
            return None
        kind, known = lacks
        wanted = (kind, max(known, 0))
        if wanted not in self._bodies:
            self._bodies[wanted] = self._body(*wanted)
        return self._requests.seal(kind, self._bodies[wanted])

    def _body(self, kind: str, known: int) -> bytes:
        """Returns what a log of items has from the size `known` on; the head of a log of members
        that is longer; or the newest notice of addresses.
        """
        if kind == ADDRESS_NEWS:
            return (self._folder.path / ADDRESSES).read_bytes()
        if kind == MEMBERS_NEWS:
            return self._folder.members.since(known)
        return self._folder.items.since(self._folder.path / ITEMS, known)

    def heard(self, frames: Sequence[bytes]) -> tuple[list[bytes], set[str]]:
        """Returns the frames that are about something else, and the nodes to be asked again."""
        others = []
        again = set()
        for frame in frames:
            node = self._read(frame) if len(frame) <= SMALL else None
            if node is None:
                others.append(frame)
            else:
                again.add(node)
        return others, again

    def _read(self, frame: bytes) -> str | None:
        """Returns the node that lacks a list, or has taken one; None for any other frame."""
        with suppress(FrameRefused):
            answer = opened(frame, SMALL)
            kind = answer.head.kind
            if kind in LISTS.values():
                node = self._identified(answer)
                self._behind.pop(node, None)
                return node
            if kind != "refused":
                return None
            lacks = LISTS.get(reason(bytes(answer.body[:120])).split(",")[0])
            # Whoever takes the frame checks its signature, which thousands of refusals have.
            if lacks is None and answer.node not in self._behind:
                return None
            node = self._identified(answer)
            # One that does not take a list is treated as one that refuses.
            self._behind.pop(node, None)
            if lacks is not None and self._told[node, lacks] < TOLD:
                self._told[node, lacks] += 1
                self._behind[node] = (lacks, answer.head.about.get(KNOWN, 0))
                return node
        return None


@final
class Exchange:
    """The server's requests to its nodes and their answers, over a link.

    news: what nodes may not know yet, of which they are told before they are asked. waits: called
    now and then with the names of missing nodes. bytes_down, messages: sent so far.
    """

    def __init__(
        self,
        link: ServerLink,
        stop: Event,
        waits: Callable[[list[str]], None] = lambda missing: None,
        news: News | None = None,
    ) -> None:
        self._link = link
        self._stop = stop
        self._waits = waits
        self._news = news
        self.bytes_down = self.messages = 0

    @property
    def present(self) -> Collection[str]:
        """The names of the nodes that are connected."""
        return self._link.present()

    @property
    def left(self) -> Collection[str]:
        """The names of the nodes that have hung up and not come back in time."""
        return self._link.left()

    @property
    def knows_who_is_there(self) -> bool:
        """True once every node that is there must have said something."""
        return time.monotonic() - self._link.since > GONE

    def are_away(self, names: Set[str]) -> bool:
        """Returns whether none of some nodes is there; False while that is not known yet."""
        return self.knows_who_is_there and names.isdisjoint(self.present)

    def gather(
        self,
        missing: Callable[[], Collection[str]],
        request: Callable[[str], FrameParts],
        take: Callable[[Sequence[bytes]], None],
        seconds: float,
        sent: dict[str, SentRequest] | None = None,
    ) -> None:
        """Asks the nodes `missing()` until there are none or the time is up, and asks again those
        that do not answer. Raises ServerStopped.

        request: makes the frame for a node. take: handles the answers that came together. sent: the
        requests that were sent before, to go on with.
        """
        sent = {} if sent is None else sent

        def look(left: Collection[str]) -> None:
            self._ask(left, request, sent, seconds)
            frames = [frame for _, frame in self._link.receive(POLL)]
            if self._news is not None:
                frames, told = self._news.heard(frames)
                # They are asked again at once.
                for name in told:
                    sent.pop(name, None)
            take(frames)
            self._link.acknowledge()

        watch(missing, look, seconds, self._stop, self._waits)

    def announce_rest(self, seconds: float) -> None:
        """Tells the link that no round begins for some seconds."""
        self._link.rest(seconds)

    def rest(self, seconds: float, take: Callable[[Sequence[bytes]], None]) -> None:
        """Asks nobody for some seconds. Raises ServerStopped. take: handles what comes
        nevertheless, so that no node waits for a word.
        """

        def hear(moment: float) -> None:
            take([frame for _, frame in self._link.receive(moment)])
            self._link.acknowledge()

        rest(seconds, self._stop, hear)

    def pause(self, seconds: float) -> None:
        """Waits for some seconds. Raises ServerStopped if the server is told to stop meanwhile."""
        if self._stop.wait(seconds):
            raise ServerStopped

    def _ask(
        self,
        left: Collection[str],
        request: Callable[[str], FrameParts],
        sent: dict[str, SentRequest],
        seconds: float,
    ) -> None:
        """Asks those of `left` who wait for a request and have none under way, as far as the
        requests fit into WINDOW. Nodes that were never asked come first.
        """
        now = time.monotonic()
        # `left` may be far longer than what was sent.
        for name in list(sent):
            if name not in left:
                del sent[name]
        under_way = {name for name, request in sent.items() if now - request.when < AGAIN}
        room = WINDOW - sum(sent[name].size for name in under_way)
        ready = [name for name in self._link.ready() if name in left and name not in under_way]
        ready.sort(key=lambda name: sent[name].when if name in sent else -1.0)
        for name in ready:
            if room <= 0:
                break
            told = None if self._news is None else self._news.request(name)
            frame = told or request(name)
            self._link.send(name, frame, max(seconds, AGAIN))
            sent[name] = SentRequest(now, len(frame))
            room -= len(frame)
            self.bytes_down += len(frame)
            self.messages += 1


# ---- a row of questions --------------------------------------------------------------------------


class Question(NamedTuple):
    """A request to some nodes, which goes to each until all have answered or the time is up."""

    missing: Callable[[], Collection[str]]
    """The names of the nodes that have not answered yet."""
    request: Callable[[str], FrameParts]
    """Makes the frame for a node."""
    take: Callable[[Sequence[bytes]], None]
    """Handles answers that came together."""
    seconds: float
    """The time for it."""


Questions: TypeAlias = Generator[Question | float, None, Total]
"""The questions of a sum, one after the other, and pauses between them in seconds. Returns the
sum."""
