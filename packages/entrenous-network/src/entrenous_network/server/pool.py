"""`WorkerPool`: a round collected by several workers. Each has a journal and an int64 sum, and sums
have no order.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import suppress
from threading import Event
from typing import Any, Generic, Protocol, TypeAlias, TypeVar, final

import msgspec
import numpy as np
from safetensors.numpy import save

from entrenous.core.contract.declared import Contract
from entrenous.core.contract.update import Total
from entrenous.core.errors import StartAgain
from entrenous.core.types import Int64Array

from ..agreement.members import Member
from ..frames.contribution import add, read_sum
from ..frames.frames import Code
from ..frames.request import RoundWork
from ..links.admission import Joins
from ..links.metrics import LinkTally
from .channel import Order
from .exchange import POLL, ServerStopped, rest, watch
from .grouped_round import GroupSum, GroupWork
from .handing_on import Handed
from .knocks import KNOCK, answered
from .server_folder import LogLine, ServerFolder, server_arrays
from .worker import has_homes, homes

READY = 120.0  # seconds for a worker to come up, and to answer
# So many deaths of workers within so many seconds have a cause that a restart does not mend.
DEATHS = 10
PERIOD = 60.0


class Hired(Protocol):
    """One worker, as the server's process has it."""

    def send(self, order: Order) -> None:
        """Sends an order. Raises OSError when the worker has died."""
        ...

    def receive(self, seconds: float) -> Order | None:
        """Returns the next message; None if none has come in time. Raises EOFError when the worker
        has died.
        """
        ...

    def end(self) -> None:
        """Ends the worker, also one that has died."""
        ...


H = TypeVar("H", bound=Hired)
Welcome: TypeAlias = Callable[[Member], None]


class Workers(Protocol[H]):
    """The source of workers: processes of this machine, or actors of Ray."""

    @property
    def address(self) -> str:
        """HOST:PORT at which nodes reach the workers, once one was hired."""
        ...

    def hire(self, part: int) -> H:
        """Starts worker number `part`."""
        ...

    def ready(self, workers: Sequence[H], seconds: float) -> Sequence[H]:
        """Returns the workers that have sent a message or have died. Waits at most `seconds` for
        the first.
        """
        ...

    def lists(self) -> Mapping[str, bytes]:
        """Returns the files of the server's folder that have changed, by name, where workers have
        not got them."""
        ...

    def close(self) -> None: ...


class WorkerStanding:
    """The reports of one worker, and its order."""

    def __init__(self) -> None:
        self.process = 0
        """The number of its process, on its own machine."""
        self.address = ""
        """HOST:PORT for the other workers, "" where they need none."""
        self.order: Order | None = None
        """The order that it works on, which its successor would be given."""
        self.summing: set[int] = set()
        """The groups whose sums it is making, where that is its order."""
        self.done: set[str] = set()
        """The nodes that it has heard, or that have the model."""
        self.present = 0
        """The nodes that are connected to it."""
        self.devices = 0
        """The devices in the answers that it has taken."""


@final
class WorkerPool(Generic[H]):
    """A `Collector` of several workers. A worker that dies is started again, and has lost nothing
    that it acknowledged.

    Under masks each node is served by one worker, which makes the sums of its group. waits: called
    now and then with the names of missing nodes.
    """

    def __init__(
        self,
        folder: ServerFolder,
        contract: Contract,
        hiring: Workers[H],
        count: int,
        stop: Event,
        waits: Callable[[list[str]], None],
        desk: Callable[[Welcome], Joins],
    ) -> None:
        self._folder = folder
        self._contract = contract
        self._stop = stop
        self._waits = waits
        self._hiring = hiring
        self._joins = desk(self._welcome)
        self._round = 0  # whose groups say who serves which nodes
        self._home = homes(folder.terms, folder.members, count, 0)
        self.lengths: dict[str, float] = {}
        self._accepted = 0  # answers in the totals of all rounds
        # The sums of what workers have reported, those that have died too.
        self._counts = Counter[str]()
        self._sent: Int64Array = np.zeros(3, np.int64)  # bytes up, bytes down and messages
        self._link = LinkTally()
        self._deaths: list[float] = []
        self._work: RoundWork | None = None
        self._works: Mapping[int, GroupWork] = {}  # of the secure sums of this round
        self._summed: list[Order] = []  # sums that have come
        self._given: RoundWork | None = None  # that is handed on, and the words for it
        self._words = b""
        self._have = set[str]()  # the nodes that have it
        self._new = set[str]()  # those that one worker knows of
        self._took: dict[str, bytes] = {}  # as `Handed.words`
        self._over = False
        self.workers = [hiring.hire(part) for part in range(count)]
        self.address = hiring.address
        self.standing = [WorkerStanding() for _ in self.workers]
        for at in range(count):
            self._await_ready(at)
        self._introduce()

    def close(self) -> None:
        """Ends all workers and gives the port back."""
        for worker in self.workers:
            worker.end()
        self._hiring.close()

    def change(self, contract: Contract, waits: Callable[[list[str]], None]) -> None:
        """Goes on with the lists of the folder, which have changed between two rounds. Nobody has
        to connect anew.
        """
        self._contract = contract
        self._waits = waits
        self._given = None
        self._deal(self._round, Order("lists", {"files": self._hiring.lists()}), "listed")

    # ---- rounds: as of `Collector` ---------------------------------------------------------------

    @property
    def present(self) -> int:
        return sum(standing.present for standing in self.standing)

    @property
    def devices(self) -> int:
        """The number of devices in the answers that the workers have taken. A device that two of
        them have counts twice until the end.
        """
        return sum(standing.devices for standing in self.standing)

    @property
    def taken(self) -> frozenset[str]:
        return frozenset().union(*(standing.done for standing in self.standing))

    @property
    def counts(self) -> Mapping[Code, int]:
        """The number of answers by what became of them."""
        by_code = {Code(name): count for name, count in self._counts.items()}
        # A worker that is started again takes the answers of its journal again.
        if not self._folder.terms.masked:
            by_code[Code.ACCEPTED] = self._accepted + len(self.taken)
        return by_code

    @property
    def bytes_up(self) -> int:
        return int(self._sent[0])

    @property
    def bytes_down(self) -> int:
        return int(self._sent[1])

    @property
    def messages(self) -> int:
        return int(self._sent[2])

    def tally(self) -> LinkTally:
        """Returns the counts of all workers' ports so far."""
        return self._link

    def begin(self, work: RoundWork) -> None:
        self._work = work
        self.lengths = {}
        common = _said_of_work(work)
        for at, standing in enumerate(self.standing):
            standing.done = set()
            self._order(at, Order("round", {**common, "asked": self._asked_of(at, work)}))

    def gather(self, seconds: float) -> None:
        assert self._work is not None  # from `begin` on
        asked = self._work.asked.keys()
        missing = lambda: asked - self.taken  # noqa: E731
        watch(missing, lambda left: self._listen(), seconds, self._stop, self._waits)

    def announce_rest(self, seconds: float) -> None:
        for at in range(self._count):
            self._tell(at, Order("rest", {"seconds": seconds}))

    def rest(self, seconds: float) -> None:
        rest(seconds, self._stop, self._listen)

    def end(self) -> Total:
        """Closes the round. Returns the sum of all workers' sums. A node that two of them have
        taken counts with the first: the others leave it out.
        """
        work = self._work
        assert work is not None  # from `begin` on
        counted: set[str] = set()
        total = self._contract.empty_total()
        for at in range(self._count):
            order = Order("total", {"counted": sorted(counted)})
            self._tell(at, order)
            _, about, body = self._answer(at, "total", order)
            if about["names"]:
                counted |= set(about["names"])
                total = add(total, self._read(work, about, body))
        self._close()
        self._accepted += len(counted)
        return total

    def sums(self, works: Mapping[int, GroupWork]) -> Generator[GroupSum, None, None]:
        """Yields the secure sums of some groups. Each worker makes those of its groups together."""
        self._works = works
        self._summed = []
        number = next(iter(works.values())).work.round
        self._deal(number, Order("homes", {"round": number}), "moved")
        for at in range(self._count):
            of_worker = [number for number in sorted(works) if number % self._count == at]
            if of_worker:
                self._order_sums(at, of_worker)
        ended = 0
        try:
            while ended < len(works):
                for _, about, body in self._some_summed():
                    ended += 1
                    yield self._read_group(works[about["group"]].work, about, body)
        finally:
            self._close()

    def hand_on(
        self, work: RoundWork, words: bytes, have: Collection[str], seconds: float
    ) -> Handed:
        if self._given is not work or self._words != words:
            self._given = work
            self._words = words
            self._have = set(have)
            self._new = set()
            self._took = {}
            for at in range(self._count):
                self._tell_given(at)
        order = Order("hand", {"have": sorted(self._new), "seconds": seconds})
        self._new = set()
        self._over = True
        for at in range(self._count):
            self._order(at, order)
        while any(standing.order is not None for standing in self.standing):
            if self._stop.is_set():
                raise ServerStopped
            self._listen()
        return Handed(self._have, self._took, self._over)

    # ---- orders ----------------------------------------------------------------------------------

    def _deal(self, number: int, order: Order, answer: str) -> None:
        """Has all workers follow an order after which they serve the nodes of their groups of round
        `number`, and tells each of its nodes that were at another worker. answer: the word by
        which the order is answered.
        """
        self._round = number
        self._home = homes(self._folder.terms, self._folder.members, self._count, number)
        for at in range(self._count):
            self._tell(at, order)
        moved: dict[str, float] = {}
        for at in range(self._count):
            moved |= self._answer(at, answer, order).about["moved"]
        for at in range(self._count):
            come = {name: heard for name, heard in moved.items() if self._home.get(name) == at}
            self._tell(at, Order("there", {"moved": come}))

    @property
    def _count(self) -> int:
        return len(self.workers)

    def _asked_of(self, at: int, work: RoundWork) -> dict[str, bytes]:
        """Returns whom a worker asks: the nodes that it serves; without homes, all of them."""
        home = self._home
        asked = {name: users for name, users in work.asked.items() if home.get(name, at) == at}
        return _said_of_asked(asked)

    def _tell_given(self, at: int) -> None:
        """Tells a worker of the model that is handed on, if there is one. It hands it to those whom
        it serves then.
        """
        work = self._given
        if work is not None:
            about = {"asked": _said_of_asked(work.asked), "have": sorted(self._have)}
            self._tell(at, Order("given", {**_said_of_work(work), **about}, self._words))

    def _order_sums(self, at: int, numbers: Sequence[int]) -> None:
        """Has a worker make the sums of some groups."""
        groups = [self._works[number] for number in numbers]
        asked: dict[str, Int64Array] = {}
        for group in groups:
            asked |= group.work.asked
        about = {**_said_of_work(groups[0].work), "asked": _said_of_asked(asked)}
        self.standing[at].summing = set(numbers)
        self._order(at, Order("sum", about))

    def _order(self, at: int, order: Order) -> None:
        """Gives a worker something to do, which a successor of it would go on with."""
        self.standing[at].order = order
        self._tell(at, order)

    def _tell(self, at: int, order: Order) -> None:
        # One that has died is noticed when it is listened to.
        with suppress(OSError):
            self.workers[at].send(order)

    def _close(self) -> None:
        for standing in self.standing:
            standing.order = None
            standing.done = set()

    # ---- messages of workers ---------------------------------------------------------------------

    def _listen(self, seconds: float = POLL) -> None:
        """Takes messages for a moment."""
        ready = self._hiring.ready(self.workers, seconds)
        for at, worker in enumerate(self.workers):
            if worker in ready:
                try:
                    self._reported(at, worker.receive(0.0))
                except EOFError:
                    self._replace(at)

    def _some_summed(self) -> list[Order]:
        """Returns the sums that have come. Raises ServerStopped."""
        if self._stop.is_set():
            raise ServerStopped
        self._listen()
        summed = self._summed
        self._summed = []
        return summed

    def _answer(self, at: int, word: str, order: Order) -> Order:
        """Returns a worker's answer to an order. A worker that dies meanwhile is replaced, and its
        successor is given the order.
        """
        while True:
            try:
                return self._heard(at, word)
            except EOFError:
                self._replace(at)
                self._tell(at, order)

    def _heard(self, at: int, word: str) -> Order:
        """Takes reports until the message that is waited for comes, and returns that message.
        Raises EOFError when the worker has died, StartAgain when it does not answer.
        """
        until = time.monotonic() + READY
        worker = self.workers[at]
        while (order := worker.receive(max(0.0, until - time.monotonic()))) is not None:
            if order.word == word:
                return order
            self._reported(at, order)
        log = self._folder.path / "server.log"
        raise StartAgain(f"worker {at} does not answer; see {log}")

    def _reported(self, at: int, order: Order | None) -> None:
        if order is None:
            return
        about = order.about
        if order.word == "summed":
            standing = self.standing[at]
            standing.summing.discard(about["group"])
            if not standing.summing:
                standing.order = None
            self._summed.append(order)
        elif order.word == "handed":
            self.standing[at].order = None
            self._new |= set(about["kept"])
            self._have |= self._new
            self._took |= about["words"]
            self._over &= about["over"]
        elif order.word == KNOCK:
            self._tell(at, answered(self._joins, order))
        elif order.word == "report":
            standing = self.standing[at]
            standing.done |= set(about["done"])
            self._link = self._link.plus(LinkTally(*about["link"]))
            self._counts.update(about["counts"])
            self._sent += np.array(about["sent"])
            standing.present = about["present"]
            standing.devices = about["devices"]
            self.lengths |= about["lengths"]
            if about["waiting"]:
                self._waits(about["waiting"])

    def _welcome(self, member: Member) -> None:
        """Has all workers let a new member in, who is asked from the next round on."""
        order = Order("member", {}, msgspec.json.encode(member))
        for at in range(self._count):
            self._tell(at, order)

    def _read(self, work: RoundWork, about: Mapping[str, Any], body: bytes) -> Total:
        return read_sum(body, self._contract, work.asked, about["names"])

    def _read_group(self, work: RoundWork, about: Mapping[str, Any], body: bytes) -> GroupSum:
        total = self._contract.empty_total()
        if body:
            # Added, since what was read cannot be written to, and noise is added in place.
            total = add(total, self._read(work, about, body))
        names = frozenset(about["names"])
        return GroupSum(about["group"], total, about["begun"], names, about["liars"])

    # ---- workers that come and go ----------------------------------------------------------------

    def _await_ready(self, at: int) -> None:
        try:
            about = self._heard(at, "ready").about
        except EOFError as why:
            said = f": {why}" if str(why) else ""
            raise StartAgain(f"worker {at} ended when it was started{said}") from None
        self.standing[at].address = about["address"]
        self.standing[at].process = about["process"]

    def _introduce(self) -> None:
        """Tells all workers where the others are, if they pass requests on."""
        if has_homes(self._folder.terms, self._count):
            addresses = {at: standing.address for at, standing in enumerate(self.standing)}
            order = Order("siblings", {"addresses": addresses, "round": self._round})
            for at in range(self._count):
                self._tell(at, order)

    def _replace(self, at: int) -> None:
        """Puts another worker in the place of one that has died, with its journal. Raises
        StartAgain when too many have.
        """
        worker = self.workers[at]
        dead = self.standing[at]
        now = time.monotonic()
        worker.end()
        # Whoever was connected to the dead worker has to come back before the others know who is
        # there, and its successor may take long to come up.
        self._introduce()
        self._deaths = [*(when for when in self._deaths if now - when < PERIOD), now]
        line = f"worker {at} has ended (process {dead.process}); starting it again"
        self._folder.log(LogLine(line, "worker", level="error"))
        if len(self._deaths) >= DEATHS:
            log = self._folder.path / "server.log"
            raise StartAgain(f"workers died {DEATHS} times within {PERIOD:g} s; see {log}")
        self.workers[at] = self._hiring.hire(at)
        self.standing[at] = WorkerStanding()
        self._await_ready(at)
        self._introduce()
        self._tell_given(at)
        if dead.summing:
            self._order_sums(at, sorted(dead.summing))
        elif dead.order is not None:
            self._order(at, dead.order)


def _said_of_work(work: RoundWork) -> dict[str, Any]:
    """Returns the part of an order that says what a round is, without the asked users."""
    assert work.state is not None  # of a server's own work
    arrays = {name: np.ascontiguousarray(one) for name, one in server_arrays(work.state).items()}
    return {"round": work.round, "model": work.model, "state": save(arrays)}


def _said_of_asked(asked: Mapping[str, Any]) -> dict[str, bytes]:
    return {name: np.ascontiguousarray(users, np.int64).tobytes() for name, users in asked.items()}
