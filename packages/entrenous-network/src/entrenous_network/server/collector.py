"""`Collector`: one round of a server in this process: the nodes that were asked, the answers that
came, and their sum. What has come is on the disk.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import suppress
from threading import Event
from typing import TypeVar, final

from entrenous.core.contract.declared import Contract
from entrenous.core.contract.update import Total

from ..frames.contribution import Caps
from ..frames.frames import Code, FrameRefused, opened
from ..frames.request import Requests, RoundWork
from ..links.port import ServerLink
from ..secure_sum.doubts import Doubts
from .exchange import Exchange, News, SentRequest
from .grouped_round import GroupSum, GroupWork, SumsAtOnce
from .handing_on import Handed, HandingOn
from .intake import CONTRIBUTIONS, Open, RoundIntake
from .journal import Journal
from .secure_server import SecureRound
from .server_folder import LogLine, ServerFolder, kept

T = TypeVar("T")


@final
class Collector:
    """The rounds of a server in one process. part, of: the number of this process, and the number
    of processes that share the round's journals.
    """

    def __init__(
        self,
        folder: ServerFolder,
        contract: Contract,
        link: ServerLink,
        stop: Event,
        waits: Callable[[list[str]], None] = lambda missing: None,
        part: int = 0,
        of: int = 1,
    ) -> None:
        terms = folder.terms
        self.folder = folder
        self._part = part
        self._of = of
        size = folder.members.head.size
        self.requests = Requests(folder.key, terms, contract, folder.start, folder.moved, size)
        self.intake = RoundIntake(
            terms,
            folder.members,
            contract,
            folder.log,
            Caps.of(contract, terms.most_norm, terms.most_weight),
        )
        news = News(folder, self.requests, self.intake.identified)
        self.exchange = Exchange(link, stop, waits, news)
        self.doubts = Doubts()
        self.bytes_up = 0
        self._work: RoundWork | None = None
        self._sent: dict[str, SentRequest] = {}  # in this round
        self._journal: Journal | None = None
        self._handing: HandingOn | None = None

    @property
    def counts(self) -> dict[Code, int]:
        """The number of answers by what became of them."""
        return self.intake.counts

    @property
    def lengths(self) -> dict[str, float]:
        """The length of each node's answer of the open round."""
        return self.intake.lengths

    @property
    def bytes_down(self) -> int:
        """Bytes of the requests so far."""
        return self.exchange.bytes_down

    @property
    def messages(self) -> int:
        """The number of requests so far."""
        return self.exchange.messages

    @property
    def present(self) -> int:
        """The number of nodes that are connected."""
        return len(self.exchange.present)

    @property
    def devices(self) -> int:
        """The number of devices in the answers that were taken."""
        return self.intake.total.devices

    @property
    def taken(self) -> Collection[str]:
        """The names of the nodes whose answers count."""
        return self.intake.taken.keys()

    @property
    def work(self) -> RoundWork:
        """The work that was begun last."""
        assert self._work is not None
        return self._work

    def begin(self, work: RoundWork, without: Collection[str] = ()) -> None:
        """Opens a round, with the answers that its journals hold. without: nodes whose answers
        another process has taken.
        """
        self._work = work
        self._sent = {}
        self._journal = self.kept("journal", lambda: self.folder.journal(work.round, self._part))
        records = self.folder.recorded_of(work.round, self._part, self._of)
        recorded = [frame for frame in records if opened(frame).node not in without]
        self.intake.begin(Open(work.round, work.model, work.asked), self._journal, recorded)
        if recorded:
            line = f"round {work.round}: {len(self.intake.taken)} answers from the journal"
            self.folder.log(LogLine(line, "recovered", round=work.round))

    def gather(self, seconds: float) -> None:
        """Asks and hears nodes until all have answered or the time is up. Raises ServerStopped."""
        work = self.work
        request = lambda name: self.requests.work(work, work.asked[name])  # noqa: E731
        self.exchange.gather(self.intake.missing, request, self.take, seconds, self._sent)

    def take(self, frames: Sequence[bytes]) -> None:
        """Takes answers that came together."""
        receipts = self.kept("journal", lambda: self.intake.receive_all(frames))
        for frame, receipt in zip(frames, receipts, strict=True):
            if receipt.code is Code.ACCEPTED:
                self.bytes_up += len(frame)

    def end(self) -> Total:
        """Closes the round. Returns the sum of the answers that were taken."""
        total = self.intake.total
        self.intake.end()
        if self._journal is not None:
            self._journal.close()
        self._journal = None
        return total

    def sums(self, works: Mapping[int, GroupWork]) -> Generator[GroupSum, None, None]:
        """Makes secure sums of some groups of nodes, by their numbers; see `grouped_round.Sums`. No
        group waits for another. Raises ServerStopped.
        """
        rounds = {
            number: SecureRound(self, work, number, of_group)
            for number, (work, of_group) in works.items()
        }
        asked = {}
        for number, one in rounds.items():
            asked[number] = (one.questions(), one.asked)
        for number, total in SumsAtOnce(asked, self.exchange).totals():
            one = rounds[number]
            yield GroupSum(number, total, one.begun, one.names, one.liars)

    def announce_rest(self, seconds: float) -> None:
        """Lets nodes know that no round begins for some seconds."""
        self.exchange.announce_rest(seconds)

    def rest(self, seconds: float) -> None:
        """Asks nobody for some seconds. Raises ServerStopped."""
        self.exchange.rest(seconds, self._at_rest)

    def _at_rest(self, frames: Sequence[bytes]) -> None:
        """Takes frames of nodes that nobody waits for."""
        if self._handing is not None:
            self._handing.take(frames)
            return
        for frame in frames:
            self._late(frame)

    def _late(self, frame: bytes) -> None:
        """Counts an answer that comes late as such."""
        with suppress(FrameRefused):
            if opened(frame).head.kind in CONTRIBUTIONS:
                self.intake.receive(frame)

    def hand_on(
        self, work: RoundWork, words: bytes, have: Collection[str], seconds: float
    ) -> Handed:
        """Hands a model to nodes that lack it as they come, for some seconds; 0 = only to those
        that are there and were not asked yet. Raises ServerStopped.

        words: of the nodes that took it, as in `GivenModel`; b"" while they are not there, and
        without masks. have: names of nodes that have it.
        """
        handing = self._handing
        if handing is None or handing.work.round != work.round:
            handing = HandingOn(work, self.requests, self.intake.identified, self._late)
            self._handing = handing
        handing.words = words
        # Other processes may have handed it on too.
        handing.kept.update(have)
        if seconds:
            handing.go_on(self.exchange, seconds)
        else:
            handing.at_once(self.exchange)
        return handing.handed(self.exchange)

    def kept(self, what: str, act: Callable[[], T]) -> T:
        """Writes something to the disk, however long that takes."""
        number = 0 if self._work is None else self._work.round
        return kept(self.folder, f"round {number}: the {what}", act, self.exchange.pause)
