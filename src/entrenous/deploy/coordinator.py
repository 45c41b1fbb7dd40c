"""`Coordinator`: what many replicas of a server's application are to do, and what they have done;
their totals are merged here.

Replicas cannot be called one by one: each reports every few hundredths of a second, and hears what
the order of the hour is, and which nodes others have dealt with. One that is silent is taken for
dead: what it took no longer counts until its successor, who has its journal, reports it, or nodes
have answered others.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, final

import numpy as np

from ..core.types import Array, Int64Array
from .agreement.members import Members
from .agreement.terms import FederationTerms
from .frames.contribution import add, agreed, of_part, read_sum
from .server.log_line import LogFormat

SILENT = 5.0  # seconds without a report, after which a replica is taken for dead


class ReplicaPlan(NamedTuple):
    """What a replica is told at its start: terms and membership list as JSON, the server's key (it
    signs the requests) and start, the place of an algorithm of one's own ("" = one of this
    package), the folder for journals on the machine where the replica runs, the server's version of
    this package, and the form of its log.
    """

    terms: str
    members: str
    key: bytes
    start: int
    algorithm: str
    journal: str
    version: str
    log_format: LogFormat = "text"

    def agreement(self) -> tuple[FederationTerms, Members]:
        """Terms and membership list. Raises InputError."""
        terms = FederationTerms.parse(json.loads(self.terms), "terms")
        return terms, Members.parse(json.loads(self.members), "members", terms.users)


class Instruction(NamedTuple):
    """What replicas are to do. serial: grows with each instruction, work with each thing to
    collect. word: `round`, `model`, `total` or "" for nothing; number, model: of the round; state:
    the server's arrays; without: whom each replica leaves out of its total.
    """

    serial: int = 0
    work: int = 0
    word: str = ""
    number: int = 0
    model: bytes = b""
    state: Mapping[str, Array] = {}
    without: Mapping[str, frozenset[str]] = {}


class Dealt(NamedTuple):
    """What became of a node. length: of its answer, as `Caps.norm` measures it; devices: how many
    are in it.
    """

    length: float = 0.0
    devices: int = 0


class ReplicaReport(NamedTuple):
    """What a replica says. on: the serial that it has obeyed; work: what `done` is of; done: nodes
    that it has dealt with since its last report, or all of them if `whole`; read: how many of the
    events it has; total: its sum, as the body of a `part`.
    """

    on: int
    work: int
    done: Mapping[str, Dealt]
    whole: bool
    read: int
    counts: Mapping[str, int]
    sent: tuple[int, int, int]
    present: int
    total: bytes = b""


class Event(NamedTuple):
    """A node has been dealt with by some replica, or (None) by none of those that are left."""

    node: str
    dealt: Dealt | None


class CoordinatorReply(NamedTuple):
    """instruction: None where the replica has it; whole: say everything again; events: those that
    the replica has not read, of `work`.
    """

    instruction: Instruction | None
    whole: bool
    work: int
    events: list[Event]


class ReplicasSummary(NamedTuple):
    """Where all replicas stand. live: how many there are; ready: how many have obeyed the last
    instruction; sent: bytes up, down, and messages, of all replicas that there ever were; present:
    nodes that were there of late, one that two have heard twice.
    """

    live: int
    ready: int
    events: list[Event]
    counts: Mapping[str, int]
    sent: tuple[int, int, int]
    present: int


class MergedTotal(NamedTuple):
    """The sum of all replicas. names: the nodes whose answers are in it; devices: how many; body:
    that of a `part`, b"" for nobody's.
    """

    names: frozenset[str]
    devices: int
    body: bytes


@dataclass
class Standing:
    """What a replica has reported. heard: when last."""

    heard: float
    on: int = 0
    done: dict[str, Dealt] = field(default_factory=dict)
    present: int = 0
    total: bytes = b""


@final
class Coordinator:
    """One for all replicas of a server; in a process of its own, in which calls come one after the
    other. now: seconds.
    """

    def __init__(
        self, plan: ReplicaPlan, now: Callable[[], float] = time.monotonic, silent: float = SILENT
    ) -> None:
        terms, _ = plan.agreement()
        self._contract = agreed(terms.make(place=plan.algorithm), terms.catalogue, terms.protection)
        self._now, self._silent = now, silent
        self._instruction = Instruction()
        self._live: dict[str, Standing] = {}
        self._events: list[Event] = []
        self._by: Counter[str] = Counter()  # by how many replicas each node was dealt with
        self._counts: dict[str, Mapping[str, int]] = {}  # of all replicas that there ever were
        self._sent: dict[str, tuple[int, int, int]] = {}

    # ---- for the server --------------------------------------------------------------------------

    def begin(self, word: str, number: int, model: bytes, state: Mapping[str, Array]) -> None:
        """Have something new collected."""
        now = self._instruction
        self._instruction = Instruction(now.serial + 1, now.work + 1, word, number, model, state)
        self._events, self._by = [], Counter()
        for standing in self._live.values():
            standing.done, standing.total = {}, b""

    def again(self, word: str, without: Mapping[str, frozenset[str]] | None = None) -> None:
        """Another word about the same."""
        now = self._instruction
        self._instruction = now._replace(serial=now.serial + 1, word=word, without=without or {})

    def summary(self, read: int) -> ReplicasSummary:
        """Where everybody stands; the events after the first `read`."""
        self._bury()
        live = self._live.values()
        ready = sum(one.on == self._instruction.serial for one in live)
        counts: Counter[str] = Counter()
        for each in self._counts.values():
            counts.update(each)
        sent = np.sum([*self._sent.values(), (0, 0, 0)], axis=0).tolist()
        return ReplicasSummary(
            len(live),
            ready,
            self._events[read:],
            counts,
            tuple(sent),
            sum(one.present for one in live),
        )

    def total(self, asked: Mapping[str, Int64Array]) -> MergedTotal | None:
        """The sum of all totals, once all replicas have said theirs; None where a node is in two:
        then those are to be said again, and the later one leaves it out."""
        twice, seen = self._twice(), set[str]()
        if any(twice.values()):
            self.again("total", twice)
            return None
        merged, heard = self._contract.empty_total(), [np.empty(0, np.int64)]
        for standing in self._ready():
            seen |= standing.done.keys()
            devices = sum(dealt.devices for dealt in standing.done.values())
            total, theirs = read_sum(standing.total, self._contract, asked, standing.done, devices)
            merged = add(merged, total)
            heard.append(theirs)
        return MergedTotal(
            frozenset(seen),
            merged.devices,
            of_part(merged, np.sort(np.concatenate(heard))) if seen else b"",
        )

    # ---- for replicas ----------------------------------------------------------------------------

    def report(self, replica: str, said: ReplicaReport) -> CoordinatorReply:
        """What a replica has done; what it is to do."""
        now, known = self._instruction, self._live.get(replica)
        self._counts[replica], self._sent[replica] = said.counts, said.sent
        if known is None and not said.whole:
            return CoordinatorReply(None, True, now.work, [])
        standing = self._live.setdefault(replica, Standing(0.0))
        standing.heard, standing.on, standing.present = self._now(), said.on, said.present
        if said.work == now.work:
            self._done(standing, said)
        new = None if said.on == now.serial else now
        return CoordinatorReply(
            new, False, now.work, self._events[said.read if said.work == now.work else 0 :]
        )

    # ---- small parts -----------------------------------------------------------------------------

    def _done(self, standing: Standing, said: ReplicaReport) -> None:
        if said.whole:
            self._undo(standing.done.keys() - said.done.keys())
        for name in said.done.keys() - standing.done.keys():
            self._by[name] += 1
            if self._by[name] == 1:
                self._events.append(Event(name, said.done[name]))
        standing.done = dict(said.done) if said.whole else {**standing.done, **said.done}
        standing.total = said.total

    def _undo(self, names: Iterable[str]) -> None:
        for name in names:
            self._by[name] -= 1
            if not self._by[name]:
                self._events.append(Event(name, None))

    def _bury(self) -> None:
        """Forgets replicas that have said nothing for long."""
        late = self._now() - self._silent
        for replica in [replica for replica, one in self._live.items() if one.heard < late]:
            self._undo(self._live.pop(replica).done)

    def _ready(self) -> list[Standing]:
        """The replicas whose totals are of the last instruction and hold something."""
        return [
            one for one in self._live.values() if one.on == self._instruction.serial and one.done
        ]

    def _twice(self) -> dict[str, frozenset[str]]:
        """Whom each replica is to leave out, because one before it has them too, beside whom it was
        told to leave out before.
        """
        seen, found = set[str](), dict[str, frozenset[str]]()
        for replica, standing in self._live.items():
            found[replica] = frozenset(standing.done.keys() & seen)
            seen |= standing.done.keys()
        before = self._instruction.without
        return (
            {name: found[name] | before.get(name, frozenset()) for name in found}
            if any(found.values())
            else {}
        )
