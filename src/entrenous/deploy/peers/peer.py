"""`Peer`: one node at a link, under supervision. Three loops: one that fails is begun again, one
that keeps failing ends the peer.

    welcome  takes connections             (serving.py) learn    pushes when the period is over,
    else merges what arrived; all that changes the node, one after the other, in a thread shuffle
    keeps the address book fresh          (sending.py)

A prototype lost peers in silence: a KeyError ended one task, and gossip with it. Here no task is on
its own.
"""

from __future__ import annotations

import asyncio
import os
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from threading import Lock
from typing import Any, NamedTuple, final

from ...core.contract.gossip import ACCEPTED, TOO_AHEAD
from ...core.errors import EntrenousError, StartAgain, one_line
from ..agreement.invitation import Contact
from ..agreement.terms import FederationTerms
from ..agreement.tickets import RevocationList
from .address_book import AddressBook
from .connections import KEPT, Connections
from .intake import PeerIntake
from .messages import AddressRecord, ProtocolError
from .node import TOO_OLD, PeerNode, Pushed, ReceivedModel
from .port import Host, PeerLink
from .rate_limits import RateLimits
from .records import PeerIdentity, Verifier
from .sending import Sender
from .serving import CONNECTIONS, PeerServer
from .state import StateStore

CRASHES, WITHIN = 5, 60.0  # failures of one loop in so many seconds that end the peer
BAN = 60.0  # seconds
# connections that are kept beside those of a view: for exchanges of records, and for the view
# before
OTHERS = 5
RENEWALS = 5  # of its record, by a peer, in the time that one is good for
# names of counts, by what became of a model
COUNTED = {ACCEPTED: "merged", TOO_OLD: "refused.old", TOO_AHEAD: "refused.ahead"}


class PeerTimes(NamedTuple):
    """Time limits of a peer, in seconds. period: between two pushes; life: of a record; interval:
    between two offers of one peer; ban: how long a peer is banned."""

    period: float
    life: float
    interval: float
    ban: float = BAN


def pace(period: float) -> PeerTimes:
    """The time limits that follow from the seconds between two pushes: records live for five
    periods, and an offer may come half a period early."""
    return PeerTimes(period, max(15.0, 5 * period), period / 2)


class _Stop(Exception):
    """The peer was asked to end."""


@final
class Peer:
    """A running peer: one node, its timer, and its connections with other peers. revoked, keep: the
    newest known list of revoked keys, and what writes down a newer one. say: writes a line to the
    log, which never names an item, a rating or a score.
    """

    def __init__(
        self,
        terms: FederationTerms,
        me: PeerIdentity,
        node: PeerNode,
        link: PeerLink,
        host: Host,
        *,
        state: StateStore | None = None,
        revoked: RevocationList | None = None,
        keep: Callable[[RevocationList], None] = lambda newer: None,
        bootstraps: Sequence[Contact] = (),
        pace: PeerTimes,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.terms, self.me, self.node, self.link, self.host = terms, me, node, link, host
        self.state, self.pace, self.say = state, pace, say
        self.tally: Counter[str] = Counter()
        self.book = AddressBook(me.number, Verifier(terms, pace.life, revoked, keep), bootstraps)
        self.limits = RateLimits(pace.interval, pace.ban)
        self.intake = PeerIntake(terms, self.book, self.limits, self.tally)
        self.connections = Connections(
            link, max(KEPT, min(terms.gossip.view + OTHERS, CONNECTIONS // 2))
        )
        self.sender = Sender(self.book, self.connections, host, self.tally, self.record)
        self._woken, self._stopping = asyncio.Event(), asyncio.Event()
        self.server = PeerServer(
            self.intake,
            self.book,
            self.limits,
            host,
            self.tally,
            self.record,
            self._named,
            self._woken,
        )
        self._own: AddressRecord | None = None
        self._crashes: dict[str, list[float]] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._turn = Lock()

    # ---- life ------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run the peer until `stop` is called. Raises EntrenousError when one of its loops keeps
        failing.
        """
        failure: EntrenousError | None = None
        self._recall()
        await self.host.work(self._begin)
        try:
            async with asyncio.TaskGroup() as self._tasks:
                for name, loop in (
                    ("welcome", self._welcome),
                    ("learn", self._learn),
                    ("shuffle", self._shuffle),
                ):
                    self._tasks.create_task(self._supervise(name, loop))
                await self._stopping.wait()
                raise _Stop
        except* _Stop:
            pass
        except* EntrenousError as failed:
            failure = StartAgain(str(failed.exceptions[0]))
        finally:
            self.connections.close()
            await self.host.work(self._end)
        if failure is not None:
            raise failure

    def stop(self) -> None:
        """Make `run` save the node's state and return."""
        self._stopping.set()

    def spawn(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Start a task. An unexpected error in it is counted and logged, and harms nothing else."""
        assert self._tasks is not None
        self._tasks.create_task(self._contained(name, work))

    async def _contained(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as bug:
            self._tell(name.split()[0], bug)

    async def _supervise(self, name: str, loop: Callable[[], Awaitable[None]]) -> None:
        """A loop, begun again after a failure."""
        while True:
            try:
                await loop()
            except Exception as bug:
                self._tell(name, bug)
                recent = [
                    when for when in self._crashes.get(name, []) if self.host.now() - when < WITHIN
                ]
                self._crashes[name] = [*recent, self.host.now()]
                if len(self._crashes[name]) >= CRASHES:
                    raise StartAgain(
                        f"peer {self.me.number}: '{name}' failed {CRASHES} times in {WITHIN:.0f} s,"
                        f" the last time with {one_line(f'{type(bug).__name__}: {bug}', 200)}; the"
                        " state is saved; start the peer again"
                    ) from None
                await asyncio.sleep(min(1.0, self.pace.period))

    def _tell(self, name: str, bug: Exception) -> None:
        self.tally[f"crash.{name}"] += 1
        last = traceback.extract_tb(bug.__traceback__)[-1:]
        where = "".join(f" ({os.path.basename(frame.filename)}:{frame.lineno})" for frame in last)
        self.say(
            f"a bug of entrenous in '{name}':"
            f" {one_line(f'{type(bug).__name__}: {bug}', 200)}{where}; going on"
        )

    # ---- the loops -------------------------------------------------------------------------------

    async def _welcome(self) -> None:
        while True:
            await self.server.welcome(await self.link.accept(), self.spawn)

    async def _shuffle(self) -> None:
        await self.sender.introduce()
        while True:
            await asyncio.sleep(self.pace.period * (0.75 + self.host.below(500) / 1000))
            await self.sender.shuffle()

    async def _learn(self) -> None:
        due = self.host.now() + self.pace.period * self.host.below(1000) / 1000
        while True:
            if self.host.now() >= due:
                self.sender.push(await self.host.work(self._push), self.spawn)
                self.sender.wished = self.node.known()
                due = max(due + self.pace.period, self.host.now())
            elif (one := self.intake.next()) is not None:
                refused = await self.host.work(self._receive, one)
                self.tally[COUNTED.get(refused, "refused")] += 1
            else:
                await self._sleep_until(due)

    async def _sleep_until(self, due: float) -> None:
        """Until it is time to push, or a model waits."""
        self._woken.clear()
        if self.intake.waiting:
            return
        try:
            async with asyncio.timeout(max(0.0, due - self.host.now())):
                await self._woken.wait()
        except TimeoutError:
            pass

    def _named(self, sender: int, numbers: tuple[int, ...]) -> None:
        """A header names numbers: whoever sent it may know where they are."""
        for number in self.book.unknown(numbers):
            self.sender.told[number] = sender
        if len(self.sender.told) > 4 * self.book.largest:
            self.sender.told = {
                n: self.sender.told[n] for n in list(self.sender.told)[-self.book.largest :]
            }

    # ---- numeric work and the disk: in a thread --------------------------------------------------

    # A thread goes on when whoever waits for it is cancelled, as all loops are when the peer ends:
    # so each takes its turn.

    def _begin(self) -> None:
        with self._turn:
            self.node.start()
            self._save()

    def _push(self) -> Pushed:
        """The node's push, which leaves only after the state that sends it is on the disk."""
        with self._turn:
            pushed = self.node.push()
            self._save()
            return pushed

    def _receive(self, one: ReceivedModel) -> int:
        with self._turn:
            return self.node.receive(one)

    def _end(self) -> None:
        with self._turn:
            self._save()

    def _save(self) -> None:
        if self.state is None:
            return
        fresh, node = self.node.fresh, self.node
        met = [entry.record for entry in list(self.book.entries.values())]
        self.state.save(node.arrays(), node.events - len(fresh), fresh, self.about(), met)
        node.fresh = []

    def _recall(self) -> None:
        """Whom it had met, and what it had taken, before it was started again."""
        if self.state is None:
            return
        self.tally.update(self.state.about().get("tally", {}))
        for sender, push, sha in self.state.taken():
            self.intake.remember(sender, push, sha)
        for one in self.state.met():
            self.book.past[one.number] = Contact(one.number, one.id, one.addresses)
            try:
                self.book.put(one, self.host.wall())
            except ProtocolError:
                continue

    # ---- what others and people see --------------------------------------------------------------

    def record(self) -> AddressRecord:
        """The current signed record of this peer (key, number, addresses), renewed when it gets
        old.
        """
        wall = self.host.wall()
        if self._own is None or wall - self._own.issued > self.pace.life / RENEWALS:
            self._own = self.me.record(self.link.addresses(), wall)
        return self._own

    def about(self) -> dict[str, Any]:
        """A summary for people: counts, and the hit rate of the model on the node's weighting set.
        It names no item.
        """
        return {
            "number": self.me.number,
            "pid": os.getpid(),
            "time": self.host.wall(),
            "events": self.node.events,
            "pushes": self.node.pushes,
            "known": len(self.book.entries),
            "connections": self.server.open,
            "hr@20": self.node.hit_rate(),
            "errors": sum(
                count for name, count in self.tally.items() if name.startswith(("error", "crash"))
            ),
            "tally": dict(sorted(self.tally.items())),
        }
