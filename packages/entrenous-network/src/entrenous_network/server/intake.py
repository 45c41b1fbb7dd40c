"""The server's intake: every answer is checked here, is written to the journal, and only then
counts, once.

Each kind of fault has a code, and each refused answer a line in the log and a place in a counter.
A refused answer has no effect on the model, and its node may still send a good one.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple, final

from entrenous.core.contract.declared import Contract
from entrenous.core.contract.update import Total, Update
from entrenous.core.types import Int64Array

from ..agreement.members import Members
from ..agreement.terms import FederationTerms
from ..frames import contribution
from ..frames.contribution import Caps, largest_body
from ..frames.frames import Code, Frame, FrameRefused, opened, reason, signed_by
from .journal import Journal
from .server_folder import LogLine

Log = Callable[[LogLine], None]
UPDATE = "update"  # of one device
SUM = "sum"  # of all devices that were asked for
CONTRIBUTIONS = (UPDATE, SUM)
REMEMBERED = 16  # closed rounds whose missing answers are known to be late when they come


class Open(NamedTuple):
    """The round that is open."""

    round: int
    """The number of the round."""
    model: bytes
    """The sha256 of its model."""
    asked: Mapping[str, Int64Array]
    """The users that each node was asked for."""


class Receipt(NamedTuple):
    """The result for one answer."""

    code: Code
    node: str | None
    """The node that signed the answer; None if no signature was verified."""
    text: str = ""
    """The fault of the answer."""


class ReadAnswer(NamedTuple):
    """An answer that passed all checks and is not yet counted."""

    frame: bytes
    node: str
    read: Update | Total
    """The contribution of the answer."""


@final
class RoundIntake:
    """Takes the answers of one round after the other.

    members: the nodes that may send. caps: the limits of what a device may send. counts: how often
    each code was given, over all rounds of this process. lengths: the length of each node's answer
    of the open round, as `caps.norm` measures it.
    """

    def __init__(
        self,
        terms: FederationTerms,
        members: Members,
        contract: Contract,
        log: Log,
        caps: Caps | None = None,
    ) -> None:
        self.terms = terms
        self.members = members
        self.contract = contract
        self.log = log
        self.caps = caps or Caps.of(contract)
        self.counts: Counter[Code] = Counter()
        # By closed round, the nodes without which it went on.
        self._missed: dict[int, frozenset[str]] = {}
        self._open: Open | None = None
        self._empty({})

    def _empty(self, asked: Mapping[str, Int64Array]) -> None:
        """Forgets the answers of the round before."""
        self.total: Total = self.contract.empty_total()
        self.taken: dict[str, bytes] = {}  # identity_of each node's answer
        self.lengths: dict[str, float] = {}
        self._left = dict.fromkeys(asked)  # who was asked and has not answered
        most = max(map(len, asked.values()), default=0)
        self._largest = largest_body(self.contract, most)
        self._journal: Journal | None = None

    def begin(self, now: Open, journal: Journal | None, recorded: list[bytes]) -> None:
        """Opens a round. recorded: the frames of its journal, from before a restart; they are
        checked again, and counted once.
        """
        self._open = now
        self._empty(now.asked)
        self.receive_all(recorded)
        # What was recorded is in the journal already.
        self._journal = journal

    def end(self) -> None:
        """Closes the round: what comes now is late."""
        if self._open is not None:
            self._missed[self._open.round] = frozenset(self.missing())
            newest = list(self._missed.items())[-REMEMBERED:]
            self._missed = dict(newest)
        self._open = None
        self._journal = None
        self._left = {}

    @property
    def asked(self) -> Mapping[str, Int64Array]:
        """The users that each node was asked for; nobody between rounds."""
        if self._open is None:
            return {}
        return self._open.asked

    def missing(self) -> Collection[str]:
        """Returns the nodes that were asked and have neither answered nor refused for good."""
        return self._left.keys()

    def receive(self, frame: bytes) -> Receipt:
        """Checks an answer, writes it to the journal, and adds it up. An OSError, such as that of a
        full disk, leaves everything as it was.
        """
        return self.receive_all([frame])[0]

    def receive_all(self, frames: Sequence[bytes]) -> list[Receipt]:
        """Does the same for answers that came together, which wait for the disk once."""
        judged = [self._read(frame) for frame in frames]
        good = [answer for answer in judged if isinstance(answer, ReadAnswer)]
        try:
            if self._journal is not None and good:
                self._journal.append(*(answer.frame for answer in good))
        except OSError:
            for answer in good:
                self._forget(answer)
            raise
        receipts = []
        for result in judged:
            if isinstance(result, Receipt):
                receipts.append(self.said(*result))
                continue
            self.total = contribution.add(self.total, result.read)
            receipts.append(self.said(Code.ACCEPTED, result.node, ""))
        return receipts

    def _read(self, frame: bytes) -> ReadAnswer | Receipt:
        """Returns a good answer, which is marked as taken; or a receipt that says why it is not."""
        node: str | None = None
        try:
            answer = opened(frame, self._largest)
            node = self.identified(answer)
            digest = identity_of(answer)
            read = self._checked(answer, node, digest)
            self.lengths[node] = self.caps.check(read)
        except FrameRefused as why:
            return Receipt(why.code, node, why.text)
        # Marked at once, so that a second one that came with it is refused.
        self.taken[node] = digest
        self._left.pop(node, None)
        return ReadAnswer(frame, node, read)

    def _forget(self, answer: ReadAnswer) -> None:
        del self.taken[answer.node], self.lengths[answer.node]
        self._left[answer.node] = None

    # ---- one check after the other ---------------------------------------------------------------

    def identified(self, frame: Frame) -> str:
        """Returns the node that signed a frame. Raises FrameRefused."""
        name = frame.node
        if name not in self.members.nodes:
            raise FrameRefused(Code.UNKNOWN_NODE)
        # Whose signature it is instead is not looked for: a search among all members is dear.
        if not signed_by(frame, self.members.nodes[name].key):
            raise FrameRefused(Code.BAD_SIGNATURE)
        return name

    def _checked(self, frame: Frame, node: str, digest: bytes) -> Update | Total:
        """Returns the contribution of a frame. Raises FrameRefused."""
        head = frame.head
        if head.kind == "refused":
            raise FrameRefused(Code.WITHHELD, reason(bytes(frame.body[:120])))
        if head.kind not in CONTRIBUTIONS:
            raise FrameRefused(Code.WRONG_KIND)
        now = self.belonging(frame, node, self._open)
        if head.model != now.model:
            raise FrameRefused(Code.WRONG_MODEL)
        if head.items != self.terms.listed:
            raise FrameRefused(Code.WRONG_ITEMS)
        if node in self.taken:
            is_same = self.taken[node] == digest
            raise FrameRefused(Code.DUPLICATE if is_same else Code.CONFLICT)
        users = now.asked[node]
        if head.about.get("users") != len(users):
            raise FrameRefused(Code.WRONG_COUNT, "of devices")
        # One device sends its update, several send their sum.
        if (head.kind == UPDATE) != (len(users) == 1):
            raise FrameRefused(Code.WRONG_COUNT, "of devices")
        if head.kind == UPDATE:
            return contribution.read_update(frame.body, self.contract, int(users[0]))
        return contribution.read_total(frame.body, self.contract, users)

    def belonging(self, frame: Frame, node: str, now: Open | None) -> Open:
        """Returns the open round `now` if a frame of a node is for it: of this run and round, from
        a node that was asked. Raises FrameRefused.
        """
        head = frame.head
        if head.run != self.terms.run:
            raise FrameRefused(Code.WRONG_RUN)
        if now is None or (head.round < now.round and node in self._missed.get(head.round, ())):
            raise FrameRefused(Code.LATE)
        if head.round != now.round:
            raise FrameRefused(Code.PAST_ROUND if head.round < now.round else Code.FUTURE_ROUND)
        if node not in now.asked:
            raise FrameRefused(Code.NOT_ASKED)
        return now

    def said(self, code: Code, node: str | None, text: str) -> Receipt:
        """Counts a code, and logs it unless all is well. Whom a lot does not draw is not counted:
        nothing more was asked of it.
        """
        if code is Code.NOT_DRAWN:
            return Receipt(code, node, text)
        self.counts[code] += 1
        if code is not Code.ACCEPTED:
            number = None if self._open is None else self._open.round
            line = f"refused {code.value} from {node or 'a node that is not known'}"
            if text:
                line += f": {text}"
            facts = LogLine(
                line, "refused", level="warning", round=number, node=node, code=code.value
            )
            self.log(facts)
        return Receipt(code, node, text)


def identity_of(frame: Frame) -> bytes:
    """Returns the sha256 that tells a frame from every other frame: the head and signature are
    bound to the body.
    """
    return hashlib.sha256(frame.said + frame.signature).digest()
