"""A round in which the server learns the sum of its nodes and none of them: the stages of a secure
sum over frames, journalled.

What is signed, boxed and masked is privacy/secure_sum; here its messages are asked for, taken, and
survive a restart. Once masked inputs have been asked for, the round is counted or lost: it is never
tried again, for two sums of one round over different nodes would tell what a node sent."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import NamedTuple, Protocol, TypeVar, final

import numpy as np

from ...core.contract.update import ShownArrays, Total
from ...core.types import Int64Array
from ...privacy.secure_sum import messages as stages
from ...privacy.secure_sum.memory import PastSum, check_parties
from ...privacy.secure_sum.refusal import SumRefused
from ...privacy.secure_sum.server import SecureSumServer
from ...privacy.secure_sum.terms import Floors, SumTerms
from ...privacy.secure_sum.vector import unpack
from ..frames.contribution import check_sent, check_total, largest_body
from ..frames.frames import Code, Frame, FrameParts, FrameRefused, opened, reason
from ..frames.request import Requests, RoundWork
from ..frames.secure import COMPLAINT, KINDS, OPEN, OPENED, sum_terms, uploaded
from .exchange import Exchange, enough
from .intake import Open, RoundIntake
from .journal import FRAME, MARK, Journal
from .server_folder import SPAN, LogLine, ServerFolder, kept

T = TypeVar("T")
LONGEST = 30.0  # seconds between two attempts, at most


class SumMemory(Protocol):
    """The server's memory of all secure sums: the nodes that each had, and the liars."""

    def summed(self) -> tuple[PastSum, ...]:
        """The newest sums that nodes were asked to consent to."""
        ...

    def liars(self) -> Mapping[str, str]:
        """The lie of each node that has lied in a sum, by its name."""
        ...

    def remember_sum(self, summed: PastSum) -> None:
        """Store whose sum nodes are about to be asked to consent to. Raises OSError."""
        ...

    def remember_liar(self, name: str, lie: str) -> None:
        """Store who has lied, and how. Raises OSError."""
        ...


class Asks(Protocol):
    """The members of a `Collector` that a secure round uses."""

    folder: ServerFolder
    requests: Requests
    exchange: Exchange
    intake: RoundIntake
    bytes_up: int


class Stage(NamedTuple):
    """One stage of a secure sum. number: as in privacy/secure_sum; request: makes the frame for a
    node.
    """

    number: int
    request: Callable[[str], FrameParts]


@final
class SecureRound:
    """One round of a server by a secure sum: the server learns the sum of the updates and no single
    one.

    group, of_group: where there are groups, the number of the one whose sum this is, from 0, and
    all nodes that are or were in it. Its attempts are numbered apart, and earlier sums of
    other groups do not count: no node is in both. memory: None = that of the collector's folder,
    which is the server's own. seconds: for all of it, since a relay's answer has to be in time;
    None = it waits for as many nodes as count.
    """

    def __init__(
        self,
        collector: Asks,
        work: RoundWork,
        group: int = 0,
        of_group: Collection[str] = (),
        memory: SumMemory | None = None,
        seconds: float | None = None,
    ) -> None:
        self._collector, self._folder = collector, collector.folder
        self._until = None if seconds is None else time.monotonic() + seconds
        self._late = False  # whether the time was too short for enough nodes
        self._contract = collector.intake.contract
        self._memory = memory or self._folder
        self._past, terms = self._memory.summed(), self._folder.terms
        self._first = group * SPAN
        self._what = f"round {work.round}"
        self._unsummed = "the model is unchanged"
        if of_group:
            self._past = tuple(
                before for before in self._past if not before.parties.keys().isdisjoint(of_group)
            )
            self._what += f", group {group + 1}"
            self._unsummed = "the group is left out"
        self._floors = Floors(terms.protection.people, terms.protection.parties, apart=terms.apart)
        # as nodes have it
        self._least = sum_terms(terms, self._contract, work.round, 0, work.model).people
        self._work = work._replace(asked=self._of_before(work))
        self._now = Open(work.round, work.model, self._work.asked)
        self._roll = self._folder.members.roll()
        self._empty = self._contract.empty_total()  # the sum of nobody
        self._gone: set[str] = (
            set()
        )  # who has refused a stage of this attempt, or was not heard in time
        self._shown: dict[str, tuple[ShownArrays, ...]] = {}
        self._sum: SecureSumServer | None = (
            None  # None: what was asked for is not known, as far as a damaged journal tells
        )
        self._attempt_number = 0
        self._taking: bytes | None = None  # the frame whose message is being taken
        # whether nodes are asked at all: if there is no sum then, the round is lost, else passed
        # over
        self.begun = False
        self.names = frozenset[str]()  # the nodes whose sum it is, once it is there

    def run(self) -> Total:
        """Run the stages of the sum, in several attempts if need be. Returns the sum, which has no
        devices if the round is lost."""
        number = self._now.round
        alone = (
            "all who were asked are of one node, whom a sum would not hide"
            if len(self._now.asked) < 2
            else ""
        )
        people = sum(len(users) for users in self._now.asked.values())
        few = (
            ""
            if people >= self._least
            else f"{people} people are asked, and a sum is of at least {self._least}"
        )
        if never := alone or few or self._too_near(self._now.asked):
            line = f"{self._what}: {never}; {self._unsummed}"
            self._folder.log(LogLine(line, "lost", level="warning", round=number))
            return self._empty
        self.begun = True
        attempt = self._folder.newest_attempt(number, self._first)
        while True:
            # used at once
            journal = self._kept("journal", lambda: self._folder.journal(number, attempt))  # noqa: B023
            self._folder.drop_attempts(number, attempt, self._first)
            try:
                return self._attempt(attempt, journal)
            except SumRefused as why:
                line = (
                    f"{self._what}, attempt {attempt - self._first}: {why.text}; nothing was"
                    f" revealed, {self._unsummed}"
                )
                self._folder.log(LogLine(line, "lost", level="warning", round=number))
                if self._late or self._sum is None or self._sum.stage >= stages.MASKED:
                    return self._empty
            finally:
                journal.close()
                self._name_liars()
            self._collector.exchange.pause(min(LONGEST, 1.0 + attempt - self._first))
            attempt += 1

    def _of_before(self, work: RoundWork) -> Mapping[str, Int64Array]:
        """Returns the nodes to ask: all of a round's nodes but those that have lied.

        Where these and those of an earlier sum differ by too few for nodes to consent, all of the
        round's nodes; or where they do not fit either, those of an earlier sum.
        """
        everybody = work.asked.keys()
        honest = everybody - self._memory.liars().keys()
        earlier = (before.parties.keys() for before in reversed(self._past))
        for some in (honest, everybody, *earlier):
            if len(some) > 1 and some <= everybody and not self._too_near(some, work):
                return {name: work.asked[name] for name in sorted(some)}
        return {name: work.asked[name] for name in sorted(everybody)}

    def _too_near(self, names: Collection[str], work: RoundWork | None = None) -> str:
        """Returns why nodes would not consent to this sum, given the earlier sums; empty if they
        would.
        """
        work = work or self._work
        try:
            check_parties(
                self._past,
                work.model,
                {name: len(work.asked[name]) for name in names},
                self._floors,
            )
        except SumRefused as why:
            return why.text
        return ""

    def _attempt(self, attempt: int, journal: Journal) -> Total:
        self._gone, self._shown, self._sum = set(), {}, None
        self._attempt_number = attempt
        now = self._now
        terms = sum_terms(self._folder.terms, self._contract, now.round, attempt, now.model)
        self._largest = max(stages.limit_of(stage, terms.nbytes) for stage in range(len(KINDS)))
        self._largest += largest_body(self._contract, self._now.asked)
        self._journal = journal
        self._sum = own = self._restored(terms, attempt)
        if own.heard(stages.ADVERT) - self._now.asked.keys():
            raise SumRefused("roster", "nodes were in it that are asked no more, since a restart")
        for stage in self._stages(attempt, own):
            if own.stage <= stage.number:  # those before were closed before a restart
                self._hear(stage, own)
        return self._total(own)

    def _stages(self, attempt: int, own: SecureSumServer) -> list[Stage]:
        """Yields the requests of each stage, for the nodes that answered at the stage before."""

        def work(name: str) -> FrameParts:
            return self._collector.requests.work(
                self._work, self._now.asked[name], "mask", attempt=attempt, inbox=own.inbox(name)
            )

        asks: tuple[Callable[[str], FrameParts], ...] = (
            lambda name: self._seal("advert", b"", name),
            lambda name: self._seal("share", own.roster(), name),
            work,
            lambda name: self._seal("consent", own.survivors(name), name),
            lambda name: self._seal("unmask", own.consents(), name),
        )
        return [Stage(number, ask) for number, ask in enumerate(asks)]

    def _seal(self, kind: str, body: bytes, name: str) -> FrameParts:
        """Returns a request to a node; its frame has no arrays."""
        return self._collector.requests.seal(
            kind,
            body,
            round=self._now.round,
            attempt=self._attempt_number,
            model=self._now.model,
            items=self._folder.terms.items,
            about={"users": len(self._now.asked[name])},
        )

    def _hear(self, stage: Stage, own: SecureSumServer) -> None:
        """Asks for the messages of a stage until all have come, or enough of them when the time is
        up. The first question of a stage closes the one before. Raises NotTaken if too few are
        there for it to be worth going on.
        """
        number = stage.number
        before = set(self._now.asked) if number == 0 else set(own.heard(number - 1))

        def missing() -> set[str]:
            return before - own.heard(number) - self._gone

        if number == stages.CONSENT:
            some = {name: len(self._now.asked[name]) for name in own.heard(stages.MASKED)}
            self._kept(
                "list of sums", lambda: self._memory.remember_sum(PastSum(self._work.model, some))
            )
        self._collector.exchange.gather(missing, stage.request, self._take, self._patience())
        if number == stages.MASKED:
            self._settle(own)
        while number <= stages.MASKED and not self._enough(set(own.heard(number))):
            if not missing():
                raise SumRefused(
                    "threshold", f"{stages.STAGES[number]}: too many nodes withhold theirs"
                )
            if self._until is not None:
                self._late = True
                raise SumRefused(
                    "threshold", f"{stages.STAGES[number]}: too few nodes have answered in time"
                )
            self._collector.exchange.gather(
                missing, stage.request, self._take, self._folder.terms.deadline
            )
        self._gone |= missing()

    def _patience(self) -> float:
        """Returns the seconds that a stage waits for all of its nodes."""
        deadline = self._folder.terms.deadline
        if self._until is None:
            return deadline
        # Nodes that miss one stage are not waited for at the next, which so takes far less; half of
        # the time is left for those whose nodes go away later.
        return min(deadline, max(0.0, self._until - time.monotonic()) / 2)

    def _settle(self, own: SecureSumServer) -> None:
        """Has boxes opened that somebody complained of, which tells which of the two lied."""

        def opening(name: str) -> FrameParts:
            return self._seal(OPEN, own.accused[name], name)

        if own.accused:
            seconds = min(LONGEST, self._patience())
            self._collector.exchange.gather(lambda: set(own.accused), opening, self._take, seconds)
        for name in own.accused:
            line = f"{self._what}: {name} does not open a box that was complained of"
            self._folder.log(LogLine(line, "unsettled", level="warning", node=name))

    def _name_liars(self) -> None:
        """Stores and logs who has lied in an attempt."""
        own, number = self._sum, self._now.round
        for name, lie in sorted({} if own is None else own.liars.items()):
            line = f"round {number}: {name} lied: {lie}"
            self._folder.log(LogLine(line, "liar", level="error", round=number, node=name))
            self._kept("liars", partial(self._memory.remember_liar, name, line))

    def _enough(self, heard: set[str]) -> bool:
        """Tells whether these are enough for their sum to count, and not nearly those of an earlier
        sum; if not, that is logged.
        """
        if not enough(self._folder, self._work, heard):
            return False
        people = sum(len(self._now.asked[name]) for name in heard)
        if people < self._least:
            line = f"{self._what}: {people} people, at least {self._least}"
            self._folder.log(LogLine(line, "few", level="warning", round=self._now.round))
            return False
        if why := self._too_near(heard):
            self._folder.log(
                LogLine(f"{self._what}: {why}", "apart", level="warning", round=self._now.round)
            )
        return not why

    def _kept(self, what: str, act: Callable[[], T]) -> T:
        """Writes something to the disk, however long that takes. Raises ServerStopped."""
        pause = self._collector.exchange.pause
        return kept(self._folder, f"round {self._now.round}: the {what}", act, pause)

    # ---- what nodes answer -----------------------------------------------------------------------

    def _take(self, frames: Sequence[bytes]) -> None:
        for frame in frames:
            self._take_one(frame)

    def _take_one(self, frame: bytes) -> None:
        """One answer. A disk that refuses leaves all as it was."""
        node = None
        try:
            found = opened(frame, self._largest)
            node = self._collector.intake.identified(found)
            self._check(found)
            self._kept("journal", lambda: self._read(frame, found, node))
            self._collector.bytes_up += len(frame)
            self._collector.intake.said(Code.ACCEPTED, node, "")
        except FrameRefused as why:
            if why.code is Code.WITHHELD and node is not None:
                self._gone.add(node)
            self._collector.intake.said(why.code, node, why.text)
        except SumRefused as why:
            self._collector.intake.said(Code.NOT_SUMMED, node, f"{why.code}: {why.text}")

    def _check(self, found: Frame) -> None:
        head, attempt = found.head, self._attempt_number
        self._collector.intake.belonging(found, found.node, self._now)
        if head.kind == "refused" and head.attempt == attempt:
            raise FrameRefused(Code.WITHHELD, reason(bytes(found.body[:120])))
        if head.kind not in (*KINDS, COMPLAINT, OPENED):
            raise FrameRefused(Code.WRONG_KIND)

    def _read(self, frame: bytes, found: Frame, node: str) -> None:
        """Hands a message to the sum, which journals the frame before it counts."""
        if found.head.kind in (COMPLAINT, OPENED):
            self._read_aside(found, node)
            return
        own = self._sum
        assert own is not None  # while frames are taken
        message, shown = uploaded(found, self._contract, self._now.asked[node])
        self._taking = frame
        try:
            own.add(KINDS.index(found.head.kind), message)
        finally:
            self._taking = None
        if found.head.kind == "mask":
            self._shown[node] = shown

    def _read_aside(self, found: Frame, node: str) -> None:
        """A complaint about a box, whose author is missing from this sum; or the key of that
        box.
        """
        own = self._sum
        assert own is not None  # while frames are taken
        if found.head.kind == OPENED:
            own.add_opening(bytes(found.body))
            return
        self._gone.add(node)
        dealer = own.add_complaint(bytes(found.body))
        line = f"{self._what}: {node} complains of the box of {dealer}"
        self._folder.log(LogLine(line, "complaint", level="warning", node=node))

    def _record(self, record: bytes) -> None:
        """Journals an event of the sum: the frame of the message that is being taken, or that a
        stage is closed.
        """
        if self._taking is None:
            self._kept("journal", lambda: self._journal.append(MARK, record))
        else:
            self._journal.append(FRAME, self._taking)

    def _restored(self, terms: SumTerms, attempt: int) -> SecureSumServer:
        """The sum as the journal has it."""
        records = []
        for record in self._folder.recorded(self._now.round, attempt):
            if record.kind == FRAME:
                found = opened(record.content)
                users = self._now.asked.get(found.node, np.empty(0, np.int64))
                message, shown = uploaded(found, self._contract, users)
                records.append(message)
                if found.head.kind == "mask":
                    self._shown[found.node] = shown
            else:
                records.append(record.content)
        return SecureSumServer.rebuilt(terms, self._roll, records, self._record)

    # ---- the end ---------------------------------------------------------------------------------

    def _total(self, own: SecureSumServer) -> Total:
        """The sum of the survivors, held against what their devices can have sent. Raises
        NotTaken.
        """
        names = sorted(own.heard(stages.MASKED))
        total = unpack(own.total(), self._empty)
        devices = sum(len(self._now.asked[name]) for name in names)
        try:
            if total.devices != devices:
                raise FrameRefused(Code.WRONG_COUNT, "of devices")
            check_total(total, self._contract, devices)
            check_sent(total)
            self._collector.intake.caps.check(total)
        except FrameRefused as bad:
            problem = (
                "the sum is none that these devices can have: a node lied, and the sum does not say"
                " which"
            )
            raise SumRefused("vector", f"{problem} ({bad.code.value})") from None
        self.names = frozenset(names)
        shown = tuple(part for name in names for part in self._shown.get(name, ()))
        return total._replace(shown=shown)
