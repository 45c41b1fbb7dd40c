"""`Peer`: one node at a link, under supervision. It has three loops; one that fails is started
again, and one that keeps failing ends the peer.

    welcome  accepts connections (serving.py)
    learn    pushes when the period is over, else merges a received model; whatever changes the
             node happens here, one after the other, in a thread
    shuffle  keeps the address book fresh (sending.py)

A prototype lost peers in silence: a KeyError ended one task, and gossip with it. Here every task is
supervised.
"""

from __future__ import annotations

import asyncio
import os
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from threading import Lock
from typing import Any, NamedTuple, final

from entrenous.core.contract.gossip import ACCEPTED, TOO_AHEAD
from entrenous.core.errors import EntrenousError, StartAgain, one_line

from ..agreement.invitation import Contact
from ..agreement.terms import FederationTerms
from ..agreement.tickets import RevocationList
from .address_book import AddressBook, contact_of
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

# Failures of one loop in so many seconds that end the peer.
CRASHES = 5
WITHIN = 60.0
BAN = 60.0  # seconds
# Connections that are kept in addition to those of a view: for exchanges of records, and for the
# last view.
OTHERS = 5
RENEWALS = 5  # records that a peer makes in the time for which one is valid
# The name under which a received model is counted, by the node's answer.
COUNTED = {ACCEPTED: "merged", TOO_OLD: "refused.old", TOO_AHEAD: "refused.ahead"}


class PeerTimes(NamedTuple):
    """Time limits of a peer, in seconds."""

    period: float
    """The time between two pushes."""
    life: float
    """The time for which a record is valid."""
    interval: float
    """The least time between two offers of one peer."""
    ban: float = BAN
    """The time for which a peer is banned."""


def pace(period: float) -> PeerTimes:
    """Returns the time limits that follow from the seconds between two pushes: records live for
    five periods, and an offer may come half a period early."""
    return PeerTimes(period, max(15.0, 5 * period), period / 2)


class Membership(NamedTuple):
    """The place of a peer in its federation, as its folder has it."""

    terms: FederationTerms
    """The terms of the federation."""
    me: PeerIdentity
    """The key and the ticket of this peer."""
    bootstraps: Sequence[Contact] = ()
    """The first contacts."""
    revoked: RevocationList | None = None
    """The newest known list of revoked keys."""
    keep: Callable[[RevocationList], None] = lambda newer: None
    """Writes a newer list of revoked keys to the disk."""


class _Stop(Exception):
    """The peer was asked to end."""


@final
class Peer:
    """A running peer: one node, its timer, and its connections with other peers. say: writes a line
    to the log, which never names an item, a rating or a score.
    """

    def __init__(
        self,
        membership: Membership,
        node: PeerNode,
        link: PeerLink,
        host: Host,
        pace: PeerTimes,
        state: StateStore | None = None,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        terms, self.me, bootstraps, revoked, keep = membership
        self.node = node
        self.link = link
        self.host = host
        self.state = state
        self.pace = pace
        self.say = say
        self.tally: Counter[str] = Counter()
        verifier = Verifier(terms, pace.life, revoked, keep)
        self.book = AddressBook(self.me.number, verifier, bootstraps)
        self.limits = RateLimits(pace.interval, pace.ban)
        self.intake = PeerIntake(terms, self.book, self.limits, self.tally)
        # Others accept no more than CONNECTIONS, of which everybody should have a share.
        kept = min(terms.gossip.view + OTHERS, CONNECTIONS // 2)
        self.connections = Connections(link, max(KEPT, kept))
        self.sender = Sender(self.book, self.connections, host, self.tally, self.record)
        self._woken = asyncio.Event()
        self._stopping = asyncio.Event()
        self.server = PeerServer(self.intake, host, self.record, self._named, self._woken)
        self._own: AddressRecord | None = None
        self._tasks: asyncio.TaskGroup | None = None
        self._turn = Lock()

    # ---- life ------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Runs the peer until `stop` is called. Raises EntrenousError when one of its loops keeps
        failing.
        """
        failure: EntrenousError | None = None
        self._recall()
        await self.host.work(self._begin)
        try:
            async with asyncio.TaskGroup() as self._tasks:
                self._tasks.create_task(self._supervise("welcome", self._welcome))
                self._tasks.create_task(self._supervise("learn", self._learn))
                self._tasks.create_task(self._supervise("shuffle", self._shuffle))
                await self._stopping.wait()
                # A task group has no other way to cancel its tasks.
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
        """Makes `run` save the node's state and return."""
        self._stopping.set()

    def spawn(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Starts a task. An unexpected error in it is counted and logged, and harms no other
        task."""
        assert self._tasks is not None
        self._tasks.create_task(self._contained(name, work))

    async def _contained(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as bug:
            self._tell(name.split()[0], bug)

    async def _supervise(self, name: str, loop: Callable[[], Awaitable[None]]) -> None:
        """Runs a loop, and starts it again after a failure. Raises StartAgain if it has failed too
        often.
        """
        crashes: list[float] = []  # times of the failures
        while True:
            try:
                await loop()
            except Exception as bug:
                self._tell(name, bug)
                now = self.host.now()
                crashes = [*(then for then in crashes if now - then < WITHIN), now]
                if len(crashes) >= CRASHES:
                    raise StartAgain(
                        f"peer {self.me.number}: '{name}' failed {CRASHES} times in {WITHIN:.0f} s,"
                        f" the last time with {_named_bug(bug)}; the state is saved; start the peer"
                        " again"
                    ) from None
                await asyncio.sleep(min(1.0, self.pace.period))

    def _tell(self, name: str, bug: Exception) -> None:
        """Counts an unexpected error and writes it to the log, with its place in the source."""
        self.tally[f"crash.{name}"] += 1
        where = ""
        for frame in traceback.extract_tb(bug.__traceback__)[-1:]:
            where = f" ({os.path.basename(frame.filename)}:{frame.lineno})"
        self.say(f"a bug of entrenous in '{name}': {_named_bug(bug)}{where}; going on")

    # ---- the loops -------------------------------------------------------------------------------

    async def _welcome(self) -> None:
        while True:
            await self.server.welcome(await self.link.accept(), self.spawn)

    async def _shuffle(self) -> None:
        await self.sender.introduce()
        while True:
            # 0.75 to 1.25 periods, so that peers that started together do not ask together.
            jitter = 0.75 + self.host.below(500) / 1000
            await asyncio.sleep(self.pace.period * jitter)
            await self.sender.shuffle()

    async def _learn(self) -> None:
        # The first push comes at a random part of the period, for the same reason.
        due = self.host.now() + self.pace.period * self.host.below(1000) / 1000
        while True:
            if self.host.now() >= due:
                pushed = await self.host.work(self._push)
                self.sender.push(pushed, self.spawn)
                self.sender.wished = self.node.known()
                # A peer that is too slow pushes late, but never twice at once.
                due = max(due + self.pace.period, self.host.now())
                continue
            received = self.intake.next()
            if received is None:
                await self._sleep_until(due)
                continue
            refused = await self.host.work(self._receive, received)
            self.tally[COUNTED.get(refused, "refused")] += 1

    async def _sleep_until(self, due: float) -> None:
        """Waits until it is time to push, or a model waits."""
        self._woken.clear()
        if self.intake.waiting:
            return
        try:
            async with asyncio.timeout(max(0.0, due - self.host.now())):
                await self._woken.wait()
        except TimeoutError:
            pass

    def _named(self, sender: int, numbers: tuple[int, ...]) -> None:
        """Notes that a sender's header names numbers: it may know where these peers are."""
        told = self.sender.told
        for number in self.book.unknown(numbers):
            told[number] = sender
        # Senders name whatever they like, so only the newest numbers are kept.
        if len(told) > 4 * self.book.largest:
            newest = list(told.items())[-self.book.largest :]
            self.sender.told = dict(newest)

    # ---- numeric work and the disk: in a thread --------------------------------------------------

    # A thread goes on when its waiting task is cancelled, as all loops are when the peer ends: so
    # each of these takes its turn.

    def _begin(self) -> None:
        with self._turn:
            self.node.start()
            self._save()

    def _push(self) -> Pushed:
        """Returns the node's push, which leaves only after the state that sends it is on the
        disk."""
        with self._turn:
            pushed = self.node.push()
            self._save()
            return pushed

    def _receive(self, received: ReceivedModel) -> int:
        with self._turn:
            return self.node.receive(received)

    def _end(self) -> None:
        with self._turn:
            self._save()

    def _save(self) -> None:
        """Writes the node's state, its new events, and the peers that it knows to the disk."""
        if self.state is None:
            return
        node = self.node
        fresh = self.node.fresh
        # A copy of the entries: the event loop changes them while this thread runs.
        met = [entry.record for entry in list(self.book.entries.values())]
        first = node.events - len(fresh)
        self.state.save(node.arrays(), first, fresh, self.about(), met)
        node.fresh = []

    def _recall(self) -> None:
        """Recalls the peers that it had met, and the models that it had taken, before it was
        started again."""
        if self.state is None:
            return
        self.tally.update(self.state.about().get("tally", {}))
        for sender, push, sha in self.state.taken():
            self.intake.remember(sender, push, sha)
        for record in self.state.met():
            self.book.past[record.number] = contact_of(record)
            # A record that has expired meanwhile still leaves a past contact.
            with suppress(ProtocolError):
                self.book.put(record, self.host.wall())

    # ---- what others and people see --------------------------------------------------------------

    def record(self) -> AddressRecord:
        """Returns the current signed record of this peer (key, number, addresses), renewed when it
        gets old.
        """
        wall = self.host.wall()
        own = self._own
        if own is None or wall - own.issued > self.pace.life / RENEWALS:
            own = self.me.record(self.link.addresses(), wall)
            self._own = own
        return own

    def about(self) -> dict[str, Any]:
        """Returns a summary for people: counts, and the hit rate of the model on the node's
        weighting set. It names no item.
        """
        tally = dict(sorted(self.tally.items()))
        errors = 0
        for name, count in tally.items():
            if name.startswith(("error", "crash")):
                errors += count
        return {
            "number": self.me.number,
            "pid": os.getpid(),
            "time": self.host.wall(),
            "events": self.node.events,
            "pushes": self.node.pushes,
            "known": len(self.book.entries),
            "connections": self.server.open,
            "hr@20": self.node.hit_rate(),
            "errors": errors,
            "tally": tally,
        }


def _named_bug(bug: Exception) -> str:
    """Returns an error in one line of at most 200 characters."""
    return one_line(f"{type(bug).__name__}: {bug}", 200)
