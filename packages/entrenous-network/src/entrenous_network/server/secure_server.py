"""A round in which the server learns the sum of its nodes' updates and no single update: the stages
of a secure sum over frames, journalled.

privacy/secure_sum signs, boxes and masks. Here its messages are asked for, taken, and survive a
restart. Once masked inputs have been asked for, the round is counted or lost. It is never tried
again: two sums of one round over different nodes would tell what a node sent.

A sum is a row of questions to its nodes (`Question`), so that several groups can be asked at once.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from functools import partial
from typing import NamedTuple, Protocol, TypeVar, final

from entrenous.core.contract.update import Total

from ..frames.contribution import check_sent, check_total, largest_body
from ..frames.frames import Code, Frame, FrameParts, FrameRefused, opened, reason
from ..frames.request import Requests, RoundWork
from ..frames.secure import sum_terms
from ..links.admission import GONE
from ..secure_sum import messages as stages
from ..secure_sum.doubts import Doubts
from ..secure_sum.refusal import SumRefused
from ..secure_sum.server import SecureSumServer
from ..secure_sum.terms import SumTerms
from ..secure_sum.vector import unpack
from .exchange import LOOK, Exchange, Question, Questions
from .intake import Open, RoundIntake
from .journal import Journal
from .server_folder import SPAN, LogLine, ServerFolder, kept

T = TypeVar("T")
LONGEST = 30.0  # seconds between two attempts, at most
COMING = 3.0  # seconds without an answer, after which nobody else is on the way with an offer


class Asks(Protocol):
    """The members of a `Collector` that a secure round uses."""

    folder: ServerFolder
    requests: Requests
    exchange: Exchange
    intake: RoundIntake
    doubts: Doubts
    bytes_up: int


class Stage(NamedTuple):
    """One stage of a secure sum."""

    number: int
    """The number of the stage, as in privacy/secure_sum."""
    request: Callable[[str], FrameParts]
    """Makes the frame for a node."""


@final
class SecureRound:
    """One round of a server by a secure sum: the server learns the sum of the updates and no single
    one.

    group: the number of the group whose sum this is, from 0. of_group: the members of the group, as
    in `GroupWork`; empty where there is one group. The attempts of each group are numbered apart.

    begun: True once nodes are asked: without a sum the round is lost then, and otherwise passed
    over. It is False again where too few take part. names: the nodes whose sum it is, once the sum
    is there. liars: the nodes that have lied in it, each with its lie in words.
    """

    def __init__(
        self,
        collector: Asks,
        work: RoundWork,
        group: int = 0,
        of_group: Collection[str] = (),
    ) -> None:
        self._collector = collector
        self._folder = collector.folder
        self._contract = collector.intake.contract
        self._first = group * SPAN
        self._what = f"round {work.round}"
        self._unsummed = "the model is unchanged"
        if of_group:
            self._what += f", group {group + 1}"
            self._unsummed = "the group is left out"
        self._work = work
        self._now = Open(work.round, work.model, work.asked)
        self._least = self._folder.terms.fewest
        self._empty = self._contract.empty_total()  # the sum of nobody
        # Nodes that have refused a stage of this attempt, or were not heard in time.
        self._gone: set[str] = set()
        # The reason of each that has refused, as `reason` returns it.
        self._reasons: dict[str, str] = {}
        # Nodes that have not answered the open stage. Kept from answer to answer, since a hundred
        # thousand may be asked.
        self._missing: set[str] = set()
        # The monotonic seconds in which the server last looked who is there, and in which
        # somebody answered or was there to be waited for; and whether nobody else is waited for.
        self._looked = 0.0
        self._in_touch = 0.0
        self._stage_ends = False
        # None: a damaged journal does not tell what was asked for.
        self._sum: SecureSumServer | None = None
        self._attempt_number = 0
        self._records: list[bytes] = []  # of the sum, not on the disk yet
        self.begun = False
        self.names = frozenset[str]()
        self.liars: dict[str, str] = {}

    @property
    def asked(self) -> Collection[str]:
        """The names of the nodes that are asked."""
        return self._now.asked.keys()

    def questions(self) -> Questions:
        """Yields the questions of the sum, of several attempts if need be. Returns the sum, which
        has no devices if the round is lost.
        """
        never = self._hopeless()
        if never:
            self._log(f"{self._what}: {never}; {self._unsummed}", "lost")
            return self._empty
        self.begun = True
        attempt = self._folder.newest_attempt(self._now.round, self._first)
        while True:
            total = yield from self._tried(attempt)
            if total is not None:
                return total
            yield min(LONGEST, 1.0 + attempt - self._first)
            attempt += 1

    def _hopeless(self) -> str:
        """Returns why nobody needs to be asked, since no sum of the asked nodes could be made;
        empty where one can.
        """
        people = len(self._now.asked)
        if people < self._least:
            return f"{people} people are asked, and a sum is of at least {self._least}"
        return ""

    def _tried(self, attempt: int) -> Generator[Question, None, Total | None]:
        """Yields the questions of an attempt. Returns its sum, which has no devices if the round is
        lost; None if another attempt may follow.
        """
        number = self._now.round
        journal = self._kept("journal", lambda: self._folder.journal(number, attempt))
        self._folder.drop_attempts(number, attempt, self._first)
        try:
            return (yield from self._attempt(attempt, journal))
        except SumRefused as why:
            line = (
                f"{self._what}, attempt {attempt - self._first}: {why.text}; nothing was"
                f" revealed, {self._unsummed}"
            )
            self._log(line, "lost")
            # Masked inputs may have been asked for: two sums over different nodes tell more.
            if self._sum is None or self._sum.stage >= stages.MASKED:
                return self._empty
            # A further attempt would ask those whom the same lot draws.
            if why.code == "threshold":
                self.begun = False
                return self._empty
            return None
        finally:
            journal.close()
            # A million names that nobody waits for any more.
            self._missing = set()
            self._name_liars()

    def _log(self, line: str, event: str) -> None:
        self._folder.log(LogLine(line, event, level="warning", round=self._now.round))

    def _attempt(self, attempt: int, journal: Journal) -> Generator[Question, None, Total]:
        """Yields the questions of all stages. Returns the sum; raises SumRefused if there is
        none.
        """
        self._gone = set()
        self._reasons = {}
        self._sum = None
        self._records = []
        self._attempt_number = attempt
        now = self._now
        terms = sum_terms(self._folder.terms, self._contract, now.round, attempt, now.model)
        # A plain answer too is read, to be refused by its kind; each party is one person's.
        plain = largest_body(self._contract, 1)
        self._largest = stages.largest_message(terms.nbytes) + plain
        self._journal = journal
        # What it does not tell any more may be that masked inputs were asked for.
        if journal.damaged:
            raise SumRefused("stage", "its journal is damaged")
        self._sum = own = self._restored(terms, attempt)
        if own.heard(stages.ADVERT) - self._now.asked.keys():
            raise SumRefused("roster", "nodes were in it that are asked no more, since a restart")
        for stage in self._stages(attempt, own):
            # The stages before were closed before a restart.
            if own.stage <= stage.number:
                yield from self._hear(stage, own)
        return self._total(own)

    def _stages(self, attempt: int, own: SecureSumServer) -> list[Stage]:
        """Returns the stages. Each asks the nodes that were heard at the one before."""

        def work(name: str) -> FrameParts:
            return self._collector.requests.work(
                self._work, self._now.asked[name], "mask", attempt=attempt, inbox=own.inbox(name)
            )

        asks: tuple[Callable[[str], FrameParts], ...] = (
            lambda name: self._seal("advert", b"", name),
            lambda name: self._seal("share", own.roster(), name),
            work,
            lambda name: self._seal("consent", own.survivors(), name),
            lambda name: self._seal("unmask", own.consents(), name),
        )
        return [Stage(number, ask) for number, ask in enumerate(asks)]

    def _seal(self, kind: str, body: bytes, name: str) -> FrameParts:
        """Returns a request to a node, of a kind that carries no arrays."""
        return self._collector.requests.seal(
            kind,
            body,
            round=self._now.round,
            attempt=self._attempt_number,
            model=self._now.model,
            items=self._folder.terms.listed,
            about={"users": len(self._now.asked[name])},
        )

    def _hear(self, stage: Stage, own: SecureSumServer) -> Iterator[Question]:
        """Asks for the messages of a stage until all have come, or enough of them when the time is
        up. Closes the stage before. Raises SumRefused if too few nodes are there to go on.
        """
        number = stage.number
        before = set(self._now.asked) if number == 0 else set(own.heard(number - 1))
        self._missing = before - own.heard(number) - self._gone
        # Before anybody is asked, since it may find that too few were heard.
        if number > stages.ADVERT:
            own.close(number - 1)
            self._flush()
        self._stage_ends = False
        self._in_touch = time.monotonic()
        waited = partial(self._awaited, own, number)
        yield Question(waited, stage.request, self.take, self._deadline)
        if number <= stages.MASKED and not self._enough(own.heard(number)):
            # Nobody is waited for, and the next round draws others.
            why = "too few take part"
            if not self._missing:
                why = f"too many nodes withhold theirs{self._most_say()}"
            raise SumRefused("threshold", f"{stages.STAGES[number]}: {why}")
        self._gone |= self._missing

    def _most_say(self) -> str:
        """Returns the commonest reason of nodes that have refused, as the end of a line; empty
        where none has told one.
        """
        told = Counter(filter(None, self._reasons.values()))
        if not told:
            return ""
        [(why, _)] = told.most_common(1)
        return f"; most often: {why}"

    def _awaited(self, own: SecureSumServer, number: int) -> Collection[str]:
        """Returns the nodes that are waited for at a stage: all that have not answered, until they
        are not there.
        """
        now = time.monotonic()
        # Who is there is asked for now and then, since there may be many thousands.
        if self._looked + LOOK < now:
            self._looked = now
            self._stage_ends = self._ends(own, number, now)
        return () if self._stage_ends else self._missing

    def _ends(self, own: SecureSumServer, number: int, now: float) -> bool:
        """Returns whether nobody is there, at the second `now`, who has not answered a stage."""
        exchange = self._collector.exchange
        # Most members may be away when it comes to offers. Later a node is gone that has hung up.
        if number == stages.ADVERT:
            are_gone = exchange.are_away(self._missing)
            patience = COMING
        else:
            are_gone = self._missing.issubset(exchange.left)
            patience = GONE
        if not are_gone:
            self._in_touch = now
            return False
        needed = max(self._least, own.least)
        if len(own.heard(number)) >= needed:
            return True
        # A sum could be of those who have answered, but the lot drew too few, or one is gone whom
        # the sum needs. Others may be on their way, and that one may start again.
        there = len(self._now.asked) - len(self._missing)
        return there >= needed and now - self._in_touch > patience

    @property
    def _deadline(self) -> float:
        """The seconds that a stage waits for all of its nodes."""
        return self._folder.terms.deadline

    def _name_liars(self) -> None:
        """Notes and logs who has lied in an attempt."""
        own = self._sum
        number = self._now.round
        if own is None:
            return
        # Whoever cannot be told from its victim by this sum may be by all so far.
        members = self._folder.members
        named = {**self._collector.doubts.after(own.wrong, members.head.size), **own.liars}
        for name, lie in sorted(named.items()):
            line = f"round {number}: {name} lied: {lie}"
            self._folder.log(LogLine(line, "liar", level="error", round=number, node=name))
            self.liars[name] = line

    def _enough(self, heard: Collection[str]) -> bool:
        """Returns whether these nodes are enough for their sum to count; logs it if not."""
        if len(heard) < self._least:
            self._log(f"{self._what}: {len(heard)} people, at least {self._least}", "few")
        return len(heard) >= self._least

    def _kept(self, what: str, act: Callable[[], T]) -> T:
        """Writes something to the disk, however long that takes. Raises ServerStopped."""
        pause = self._collector.exchange.pause
        return kept(self._folder, f"round {self._now.round}: the {what}", act, pause)

    # ---- what nodes answer -----------------------------------------------------------------------

    def take(self, frames: Sequence[bytes]) -> None:
        """Takes answers that came together, which wait for the disk once."""
        if frames:
            self._in_touch = time.monotonic()
        for frame in frames:
            self._take_one(frame)
        self._flush()

    def _take_one(self, frame: bytes) -> None:
        """Takes one answer, which is not on the disk yet. If it does not count, its node is not
        asked again in this attempt: one with a fault would hold up all others.
        """
        intake = self._collector.intake
        node = None
        is_old = True
        code = Code.ACCEPTED
        text = ""
        try:
            answer = opened(frame, self._largest)
            node = intake.identified(answer)
            head = answer.head
            is_old = (head.round, head.attempt) < (self._now.round, self._attempt_number)
            self._check(answer)
            self._read(answer)
            self._collector.bytes_up += len(frame)
        except FrameRefused as why:
            code = why.code
            text = why.text
        except SumRefused as why:
            code = Code.NOT_SUMMED
            text = f"{why.code}: {why.text}"
        intake.said(code, node, text)
        if node is None:
            return
        # What answers an earlier question says nothing of this one.
        refused = code is not Code.ACCEPTED and not is_old and node in self._missing
        if refused or code is Code.WITHHELD:
            self._gone.add(node)
            self._reasons[node] = text
        if self._is_done(node):
            self._missing.discard(node)

    def _is_done(self, node: str) -> bool:
        """Returns True if nothing more is to come from a node at the open stage."""
        own = self._sum
        return node in self._gone or (own is not None and own.has_heard(own.stage, node))

    def _check(self, answer: Frame) -> None:
        """Raises FrameRefused for a refusal, and for a frame that is no message of this sum."""
        head = answer.head
        # Of a list, which belongs to no round: the node has a longer one, or none of this server's.
        is_of_list = head.kind == "refused" and not head.model
        if not is_of_list:
            self._collector.intake.belonging(answer, answer.node, self._now)
        if is_of_list or (head.kind == "refused" and head.attempt == self._attempt_number):
            why = reason(bytes(answer.body[:120]))
            if why.startswith(Code.NOT_DRAWN.value):
                raise FrameRefused(Code.NOT_DRAWN)
            raise FrameRefused(Code.WITHHELD, why)
        if head.kind not in stages.STAGES:
            raise FrameRefused(Code.WRONG_KIND)

    def _read(self, answer: Frame) -> None:
        """Hands a message to the sum."""
        secure_sum = self._sum
        # There is one while frames are taken.
        assert secure_sum is not None
        stage = stages.STAGES.index(answer.head.kind)
        body = bytes(answer.body)
        secure_sum.add(stages.Signed(stage, answer.node, answer.said, answer.signature, body))

    def _record(self, record: bytes) -> None:
        self._records.append(record)

    def _flush(self) -> None:
        """Journals what the sum has accepted and decided, together, before anybody hears of it."""
        records = self._records
        self._records = []
        self._kept("journal", lambda: self._journal.append(*records))

    def _restored(self, terms: SumTerms, attempt: int) -> SecureSumServer:
        """Returns the sum as the journal has it."""
        records = self._folder.recorded(self._now.round, attempt)
        return SecureSumServer.rebuilt(terms, self._folder.members, records, self._record)

    # ---- the end ---------------------------------------------------------------------------------

    def _total(self, own: SecureSumServer) -> Total:
        """Returns the sum of the survivors. Raises SumRefused for a sum that their devices cannot
        have sent.
        """
        names = sorted(own.heard(stages.MASKED))
        total = unpack(own.total(), self._empty)
        devices = len(names)
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
        return total
