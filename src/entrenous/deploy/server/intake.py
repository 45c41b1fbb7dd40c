"""The server's intake: every answer passes here, is checked, is written to the journal, and only
then counts, once.

Whatever is wrong with it has a code of its own, one line in the log, a counter, and no effect on
the model; the same node may still send a good one."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple, final

from ...core.contract.declared import Contract
from ...core.contract.update import Total, Update
from ...core.types import Int64Array
from ..agreement.members import Members
from ..frames import contribution
from ..frames.contribution import Caps, largest_body
from ..frames.frames import Code, Frame, FrameRefused, opened, reason, signed_by
from .journal import FRAME, Journal
from .server_folder import LogLine

Log = Callable[[str], None]
UPDATE = "update"  # of one device
SUM = "sum"  # of all devices that were asked for
PART = "part"  # of some of these, by a relay
CONTRIBUTIONS = (UPDATE, SUM, PART)
REMEMBERED = 16  # closed rounds whose missing answers are known to be late when they come


class Open(NamedTuple):
    """The round that is open: its number, the sha256 of its model, and which users each node was
    asked for.
    """

    round: int
    model: bytes
    asked: Mapping[str, Int64Array]


class Receipt(NamedTuple):
    """What became of an answer. node: who signed it, None if nobody is known to have; text: what is
    wrong with it.
    """

    code: Code
    node: str | None
    text: str = ""


class ReadAnswer(NamedTuple):
    """An answer that passed all checks and is not yet counted. read: what it contributes; users:
    whose devices are in it.
    """

    frame: bytes
    node: str
    nonce: bytes
    read: Update | Total
    users: Int64Array


@final
class RoundIntake:
    """Takes the answers of one round after the other.

    members: who may send. caps: what a device may send. counts: how often each code was given, over
    all rounds of this process. lengths: of each node's answer of the open round, as `caps.norm`
    measures them.

    only: the one kind of answer that is taken, "" = any. `answers` then keeps each by its node
    until the next round: `update` for a defence, which looks at all of them together, and `part`
    for relays under masks, whose sums are held against each other. least: people of whom a part
    must be, at least."""

    def __init__(
        self,
        run: str,
        members: Members,
        contract: Contract,
        log: Log,
        caps: Caps | None = None,
        only: str = "",
        least: int = 1,
    ) -> None:
        self.only, self.least = only, least
        self.answers: dict[str, Update | Total] = {}
        self.run, self.members, self.contract, self.log = run, members, contract, log
        self.caps, self.lengths = caps or Caps.of(contract), dict[str, float]()
        self.counts: Counter[Code] = Counter()
        self.total: Total = contract.empty_total()
        self.taken: dict[str, bytes] = {}  # identity_of each node's answer
        self.heard: dict[str, Int64Array] = {}  # the users whose devices are in it
        self._left: dict[str, None] = {}  # who was asked and has not answered
        self._nonces: set[bytes] = set()
        self._missed: dict[
            int, frozenset[str]
        ] = {}  # by closed round, the nodes that it went on without
        self._largest = largest_body(contract, {})
        self._open: Open | None = None
        self._journal: Journal | None = None

    def begin(self, now: Open, journal: Journal | None, recorded: list[bytes]) -> None:
        """Opens a round. recorded: the frames of its journal, from before a restart; they are
        checked again, and counted once.
        """
        self._open, self._journal, self.total, self.taken = (
            now,
            None,
            self.contract.empty_total(),
            {},
        )
        self._nonces, self._largest, self.lengths = (
            set(),
            largest_body(self.contract, now.asked),
            {},
        )
        self._left, self.heard, self.answers = dict.fromkeys(now.asked), {}, {}
        self.receive_all(recorded)
        self._journal = journal

    def end(self) -> None:
        """Closes the round: what comes now is late."""
        if self._open is not None:
            self._missed[self._open.round] = frozenset(self.missing())
            self._missed = dict(list(self._missed.items())[-REMEMBERED:])
        self._open, self._journal, self._left = None, None, {}

    @property
    def asked(self) -> Mapping[str, Int64Array]:
        """Which users each node was asked for; nothing between rounds."""
        return {} if self._open is None else self._open.asked

    def missing(self) -> Collection[str]:
        """The nodes that were asked and have not answered, nor refused for good."""
        return self._left.keys()

    def receive(self, frame: bytes, largest: int | None = None) -> Receipt:
        """Check an answer, write it to the journal, add it up. An OSError (a full disk) leaves
        everything as it was.
        """
        return self.receive_all([frame], largest)[0]

    def receive_all(self, frames: Sequence[bytes], largest: int | None = None) -> list[Receipt]:
        """The same for answers that came together, which wait for the disk once."""
        judged: list[ReadAnswer | Receipt] = []
        try:
            judged += (self._read(frame, largest or self._largest) for frame in frames)
            good = [one for one in judged if isinstance(one, ReadAnswer)]
            if self._journal is not None and good:
                self._journal.append(FRAME, *(one.frame for one in good))
        except OSError:
            for one in judged:
                if isinstance(one, ReadAnswer):
                    self._forget(one)
            raise
        for one in good:
            self.total = contribution.add(self.total, one.read)
            if self.only:
                self.answers[one.node] = one.read
        return [
            self.said(*((Code.ACCEPTED, one.node, "") if isinstance(one, ReadAnswer) else one))
            for one in judged
        ]

    def _read(self, frame: bytes, largest: int) -> ReadAnswer | Receipt:
        """A frame that is good, and is marked as taken; or why it is not."""
        node: str | None = None
        try:
            found = opened(frame, largest)
            node = self.identified(found)
            digest = identity_of(found)
            read, users = self._checked(found, node, digest)
            self.lengths[node] = self.caps.check(read)
        except FrameRefused as why:
            return Receipt(why.code, node, why.text)
        self.taken[node], self.heard[node] = digest, users
        self._left.pop(node, None)
        self._nonces.add(found.head.nonce)
        return ReadAnswer(frame, node, found.head.nonce, read, users)

    def _forget(self, one: ReadAnswer) -> None:
        del self.taken[one.node], self.heard[one.node], self.lengths[one.node]
        self._left[one.node] = None
        self._nonces.discard(one.nonce)

    # ---- one check after the other ---------------------------------------------------------------

    def identified(self, frame: Frame) -> str:
        """The node that signed a frame. Raises FrameRefused."""
        name = frame.node
        if name not in self.members.nodes:
            raise FrameRefused(Code.UNKNOWN_NODE)
        if not signed_by(frame, self.members.nodes[name].key):
            raise FrameRefused(
                Code.BAD_SIGNATURE
            )  # whose it is instead is not looked for: a search among all members is dear
        return name

    def _checked(self, frame: Frame, node: str, digest: bytes) -> tuple[Update | Total, Int64Array]:
        """What a frame contributes, and whose devices are in it. Raises FrameRefused."""
        head = frame.head
        if head.kind == "refused":
            why = reason(bytes(frame.body[:120]))
            if self.only == PART:
                self._leave_out(frame, node, why)
            raise FrameRefused(Code.WITHHELD, why)
        if head.kind not in ((self.only,) if self.only else CONTRIBUTIONS):
            raise FrameRefused(Code.WRONG_KIND)
        now = self.belonging(frame, node, self._open)
        if node in self.taken:
            raise FrameRefused(Code.DUPLICATE if self.taken[node] == digest else Code.CONFLICT)
        if head.nonce in self._nonces or len(head.nonce) != 16:
            raise FrameRefused(Code.REPLAYED_NONCE)
        users = now.asked[node]
        alone = len(users) == 1
        if head.about.get("users") != len(users) or (
            head.kind != PART and (head.kind == UPDATE) != alone
        ):
            raise FrameRefused(Code.WRONG_COUNT, "of devices")
        if head.kind == PART:
            heard = head.about.get("heard", 0)
            # A sum of fewer people has less noise than the terms promise.
            if heard < self.least:
                text = f"of devices: {heard} people, at least {self.least}"
                raise FrameRefused(Code.WRONG_COUNT, text)
            return contribution.read_part(frame.body, self.contract, users, heard)
        if head.kind == UPDATE:
            return contribution.read_update(frame.body, self.contract, int(users[0])), users
        return contribution.read_total(frame.body, self.contract, users), users

    def _leave_out(self, frame: Frame, node: str, why: str) -> None:
        """Leaves a relay that has refused out of the open round: its group gives no sum in it.
        Raises FrameRefused for a refusal of another round or model.
        """
        self.belonging(frame, node, self._open)
        # A full disk or the end of a process may pass, so that relay is asked again.
        if not why.startswith(Code.FAILED.value):
            self._left.pop(node, None)

    def belonging(self, frame: Frame, node: str, now: Open | None) -> Open:
        """The open round `now`, if a frame of a node is for it: of this run, this round and this
        model, from one who was asked. Raises FrameRefused."""
        head = frame.head
        if head.run != self.run:
            raise FrameRefused(Code.WRONG_RUN)
        if now is None or (head.round < now.round and node in self._missed.get(head.round, ())):
            raise FrameRefused(Code.LATE)
        if head.round != now.round:
            raise FrameRefused(Code.PAST_ROUND if head.round < now.round else Code.FUTURE_ROUND)
        if head.model != now.model:
            raise FrameRefused(Code.WRONG_MODEL)
        if head.items != self.contract.sizes["items"]:
            raise FrameRefused(Code.WRONG_ITEMS)
        if node not in now.asked:
            raise FrameRefused(Code.NOT_ASKED)
        return now

    def said(self, code: Code, node: str | None, text: str) -> Receipt:
        """Counts a code, and logs it unless all is well."""
        self.counts[code] += 1
        if code is not Code.ACCEPTED:
            who = "a node that is not known" if node is None else node
            number = None if self._open is None else self._open.round
            line = f"refused {code.value} from {who}{': ' if text else ''}{text}"
            self.log(
                LogLine(line, "refused", level="warning", round=number, node=node, code=code.value)
            )
        return Receipt(code, node, text)


def identity_of(frame: Frame) -> bytes:
    """The sha256 that tells a frame from every other one: its head and signature are bound to its
    body.
    """
    return hashlib.sha256(frame.said + frame.signature).digest()
