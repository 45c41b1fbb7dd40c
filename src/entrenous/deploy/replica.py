"""`Replica`: one of many processes that take the answers of a server's rounds, on whichever
machine.

The engine that carries it lets requests in by `Replica.app`; what is to be done comes from a
`Coordinator`, which is asked again and again.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from typing import Any, TypeAlias, final

from .. import __version__
from ..core.contract.protocols import State
from ..core.errors import InputError
from ..runs.recommenders import restore_state
from .coordinator import CoordinatorReply, Dealt, Instruction, ReplicaPlan, ReplicaReport
from .frames.contribution import agreed, of_part
from .frames.frames import FrameParts
from .frames.secure import largest_answer
from .links.admission import Admission
from .links.application import Front, Traffic, application
from .replica_folder import ReplicaFolder
from .server.collector import Collector
from .server.exchange import ServerStopped
from .server.rounds import model_work, round_work

LOOK = 0.05  # seconds between two reports
Report = Callable[[str, ReplicaReport], CoordinatorReply]
App: TypeAlias = Callable[[Any, Any, Any], Awaitable[None]]


@final
class ReplicaLink:
    """A `ServerLink` to the nodes that happen to ask this replica: the next question may come to
    another one.

    A node that has answered another replica may ask here before the word of it has come. So an
    answer is acknowledged when the coordinator has been told, and only who was asking before the
    last report counts as ready: what that report brought back says who has answered.
    """

    def __init__(self, traffic: Traffic) -> None:
        self.traffic, self._known = traffic, set[str]()

    def present(self) -> Collection[str]:
        return self.traffic.present()

    def ready(self) -> Collection[str]:
        return self._known.intersection(self.traffic.ready())

    def look(self) -> None:
        """Before a report: note who is asking."""
        self._known = set(self.traffic.ready())

    def reported(self) -> None:
        """After it: tell the nodes whose answers were received that these have been dealt with."""
        self.traffic.acknowledge()

    def send(self, node: str, frame: FrameParts, seconds: float) -> None:
        self.traffic.send(node, frame, seconds)

    def receive(self, seconds: float) -> list[tuple[str, bytes]]:
        return self.traffic.receive(min(seconds, LOOK))

    def acknowledge(self) -> None:
        """Not yet: see `reported`."""

    def close(self) -> None:
        self.reported()


@final
class Replica:
    """A collector, and what it is told to do. name: of this process alone; report: tells the
    coordinator, and returns what that says.
    """

    def __init__(self, plan: ReplicaPlan, name: str, report: Report) -> None:
        if plan.version != __version__:
            raise InputError(
                "--ray",
                f"a machine has entrenous {__version__}",
                expected=plan.version,
                fix="install the same",
            )
        self.folder, self._name, self._report = ReplicaFolder(plan), name, report
        terms, members = self.folder.terms, self.folder.members
        self._algorithm = terms.make(place=plan.algorithm)
        self._contract = agreed(self._algorithm, terms.catalogue, terms.protection)
        self._link, self.stopping = ReplicaLink(Traffic(once=True)), threading.Event()
        self._collector = Collector(self.folder, self._contract, self._link, self.stopping)
        largest = largest_answer(terms, members, plan.algorithm)
        admission, trouble = Admission(terms.run, members.nodes), self.folder.disk.trouble
        self._app = application(
            Front(admission, self._link.traffic, None, largest, Counter(), trouble)
        )
        self._now, self._open, self._total = Instruction(), 0, b""
        self._told, self._whole, self._read = set[str](), True, 0

    @property
    def app(self) -> App:
        """The ASGI application, for one event loop."""

        async def entered(scope: Any, receive: Any, send: Any) -> None:
            if self._link.traffic.loop is None:
                self._link.traffic.begin()
            await self._app(scope, receive, send)

        return entered

    def run(self) -> None:
        """Work until `stopping` is set. Raises what `report` raises, such as that there is no
        coordinator any more.
        """
        try:
            with suppress(ServerStopped):
                while not self.stopping.is_set():
                    self.step()
        finally:
            self.folder.close()

    def step(self) -> None:
        """Ask and hear nodes for a moment, report, and begin what is new."""
        self._collect()
        self._link.look()
        reply = self._report(self._name, self._said())
        self._link.reported()
        self._whole = reply.whole
        if reply.instruction is not None:
            self._obey(reply.instruction)
        if reply.work == self._now.work:
            self._hear(reply)

    def _collect(self) -> None:
        own, word = self._collector, self._now.word
        if word == "round" and own.missing():
            own.gather(LOOK)
        elif word == "model" and own.without - own.elsewhere:
            own.give(LOOK)
        else:  # who answers now has been heard elsewhere, or is late; told so, it asks again
            frames = [frame for _, frame in self._link.receive(LOOK)]
            (own.thank if word == "model" else own.take)(frames)

    def _said(self) -> ReplicaReport:
        own = self._collector
        done = self._done()
        new = done if self._whole else done - self._told
        self._told = done
        counts = {code.value: count for code, count in own.counts.items()}
        dealt = {
            name: Dealt(own.lengths.get(name, 0.0), len(own.intake.heard.get(name, ())))
            for name in new
        }
        sent = own.bytes_up, own.bytes_down, own.messages
        now = self._now
        return ReplicaReport(
            now.serial,
            now.work,
            dealt,
            self._whole,
            self._read,
            counts,
            sent,
            own.present,
            self._total,
        )

    def _done(self) -> set[str]:
        """The nodes that this replica has dealt with, of what is to be done now."""
        if self._now.word == "model":
            return set(self.folder.members.nodes) - self._collector.without
        return set(self._collector.taken) if self._now.word else set()

    def _hear(self, reply: CoordinatorReply) -> None:
        """What others have done."""
        for node, dealt in reply.events:
            (self._collector.elsewhere.discard if dealt is None else self._collector.elsewhere.add)(
                node
            )
        self._read += len(reply.events)

    def _obey(self, new: Instruction) -> None:
        if new.work != self._now.work:
            self._read, self._told, self._open = 0, set(), 0
            self._collector.elsewhere = set()
        self._now, self._total, self._whole = new, b"", True
        if new.word == "model":
            self._offer(new)
        elif new.word:
            self._begin(new)

    def _offer(self, new: Instruction) -> None:
        self.folder.clear()
        self._collector.offer(
            model_work(self.folder, self._algorithm, new.number, self._state(new))
        )

    def _state(self, new: Instruction) -> State:
        return restore_state(self._algorithm, "holds", "server", new.state)

    def _begin(self, new: Instruction) -> None:
        """Opens the round, unless it is open; closes it where its total is asked for. Who is left
        out is still in the journal.
        """
        own, without = self._collector, new.without.get(self._name, frozenset())
        if self._open != new.work or without:
            work = round_work(
                self.folder, self._algorithm, self._contract, new.number, self._state(new)
            )
            assert work.model == new.model
            own.begin(work, without)
            self._open = new.work
        if new.word == "total":
            total, self._open = own.end(), 0
            self._total = of_part(total, own.heard) if own.taken else b""
