"""The server of a federation: rounds over a link. Every answer is on the server's disk before it
counts, so the server may die at any moment.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence, Set
from contextlib import closing
from functools import partial
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, final

import numpy as np

from entrenous.core.contract.declared import Contract
from entrenous.core.contract.protocols import FederatedAlgorithm, Progress, State, arrays_of, silent
from entrenous.core.contract.update import Total
from entrenous.core.errors import CheckFailed, EntrenousError
from entrenous.core.keys import key as key_of
from entrenous.core.keys import local_key, select_key
from entrenous.core.printed import counted
from entrenous.core.registry.discover import short
from entrenous.core.types import Float64Array
from entrenous.federation.shard import Ledger
from entrenous.privacy.lengths import usual_limits
from entrenous.privacy.protection import ProtectionInForce

from ..frames import agreed_model
from ..frames.contribution import RoundHalted, agreed_by, halted, moved
from ..frames.request import RoundWork, announced_of
from ..frames.row_tests import SummedTests
from ..links.port import ServerLink
from ..secure_sum.vector import size
from .accuracy import newest_rate, note_tests, noted_tests
from .collector import Collector
from .exchange import ServerStopped, enough
from .grouped_round import grouped_sum
from .handing_on import GivenModel, Handed, spread
from .server_folder import (
    HALTED,
    LogLine,
    RoundCount,
    ServerFolder,
    ServerStanding,
    kept,
    standing,
)
from .watch import WINDOW, length, made_up_length, too_long

if TYPE_CHECKING:
    from .pool import WorkerPool

T = TypeVar("T")
Collecting: TypeAlias = "Collector | WorkerPool[Any]"
"""The collector of a server's rounds, in this process or in others."""
FAREWELL = 30.0  # seconds for the nodes to take the trained model
LOOK = 1.0  # seconds between two looks at the lists, in a pause
# Seconds after a round under masks in which too few took part, twice as many after each further
# one: asked again at once, those who are there would be no more.
SOON = 0.25
LATER = 2.0  # at most, where as many are there as a lot draws a sum of on average
LATEST = 30.0  # at most, where fewer are there
NAMED = 20  # nodes that the status names, at most
IN_A_ROW = 100  # rounds of which nobody can be asked, after which another one would not help


class ListsChanged(EntrenousError):
    """Raised between two rounds where the operator has changed the members, the items or the
    addresses: the server begins anew from its folder, with the new lists.
    """


class RoundsLost(CheckFailed):
    """Raised when training ends without all its rounds. The model of the rounds that count is on
    the disk; no node was given it.
    """


def serve(
    link: ServerLink, folder: Path, stop: Event | None = None, progress: Progress = silent
) -> str | None:
    """Runs a federation from the state in its folder to its end. Returns the sha256 of the trained
    model; None if told to stop before.

    Raises InputError for a folder that is no server's, or that another server is using; RoundHalted
    for a round that would move the model further than the terms allow; RoundsLost if too many
    rounds are lost; ListsChanged.
    """
    with closing(ServerFolder(folder)) as held:
        return serve_opened(link, held, stop, progress)


def serve_opened(
    link: ServerLink, held: ServerFolder, stop: Event | None = None, progress: Progress = silent
) -> str | None:
    """`serve` for a folder that is open already."""
    stopping = stop or Event()
    server = FederationServer(held, stopping, progress)
    return server.served_by(Collector(held, server.contract, link, stopping, server.wait))


# ---- requests ------------------------------------------------------------------------------------


def round_work(
    folder: ServerFolder,
    algorithm: FederatedAlgorithm,
    contract: Contract,
    number: int,
    state: State,
    draw: np.uint64 | None,
) -> RoundWork:
    """Returns the request of round `number`: the users that the algorithm selects, by their nodes,
    and its download. draw: the key from which the users are drawn; None = everybody is asked who
    has not lied, and each device decides by itself.
    """
    if draw is None:
        users = np.arange(folder.terms.users)
    else:
        users = algorithm.select(state, folder.terms.catalogue, draw)
    download = algorithm.download(state)
    asked = folder.members.by_node(users)
    for liar in folder.liars():
        asked.pop(liar, None)
    return RoundWork(number, announced_of(contract, download), asked, download, state=state)


def moved_on(state: State, algorithm: FederatedAlgorithm, contract: Contract) -> State:
    """Returns the state with one number moved to the next that there is, so that nodes are asked
    from another model.

    From a model that was summed before, nodes answer with the same numbers as then, and for the
    same parties only: in two sums of other parties the noise would be the same, and cancel.
    """
    before = announced_of(contract, algorithm.download(state))
    arrays = arrays_of(state)
    for name, array in arrays.items():
        if array.dtype.kind != "f" or not array.size:
            continue
        moved_array = array.copy()
        moved_array.flat[0] = np.nextafter(array.flat[0], array.dtype.type(np.inf))
        moved_state = type(state)(**{**arrays, name: moved_array})
        # A download may leave an array out, or round it.
        if announced_of(contract, algorithm.download(moved_state)) != before:
            return moved_state
    return state


# ---- the server ----------------------------------------------------------------------------------


@final
class FederationServer:
    """The server of one federation: selects users, has their updates collected, and stores each new
    model before it is used.
    """

    def __init__(self, folder: ServerFolder, stop: Event, progress: Progress = silent) -> None:
        self.folder = folder
        self.terms = folder.terms
        self.members = folder.members
        terms = self.terms
        self.algorithm = terms.make(place=folder.algorithm)
        self.contract = agreed_by(terms, self.algorithm)
        self._limits = terms.limits()
        self._rounds_key = key_of(terms.seed, "rounds")
        self._stop = stop
        self._progress = progress
        self._protected = ProtectionInForce(terms.protection, self.contract)
        self._collecting: Collecting | None = None
        self._counted = Ledger()  # what the collector has counted and is in the ledger already
        self._took: list[float] = []  # seconds, of each round of this process
        self._moved = 0.0  # how far the last round moved the model
        self._longest = 0.0  # the longest answer of this process
        self._rate = newest_rate(noted_tests(folder.path))  # HR@10, where new rows are tested
        self._passed = 0  # rounds in a row that gave no sum
        self._few = 0  # rounds in a row, under masks, in which too few took part
        self._few_wait = LATEST  # seconds to the next one, at most
        now = standing(folder, self.algorithm)
        self.round, self.state, self.ledger, self.count, self._lengths = now
        self._given = self._given_before()
        self._handed: RoundWork | None = None  # the work that hands that model on
        self._ran = False  # True once this process has run a round
        begun = f"going on after round {self.round}" if self.round else "from the start"
        if self.count.counted != self.round:
            begun += f", {self.count.counted}{terms.of_rounds} rounds counted"
        line = f"run {terms.run}: {terms.algorithm}, {begun}"
        folder.log(LogLine(line, "start", round=self.round))

    def _given_before(self) -> GivenModel | None:
        """Returns the model that was given last, as the folder has it; None where it has fewer
        items than there are by now, or has more rounds than the model that the operator went back
        to, whose own number is a new one under masks.
        """
        given = GivenModel.read(self.folder.path, self.terms.run, self.algorithm)
        if given is None or given.items != self.terms.items:
            return None
        gone_back = given.round > self.round or given.counted > self.count.counted
        if gone_back:
            return None
        words = agreed_model.proven_anew(given.words, self.members, self.terms)
        # So many have joined that the words of more nodes are needed: it is given anew.
        if given.words and not words:
            return None
        return given._replace(words=words)

    @property
    def collecting(self) -> Collecting:
        """The collector of the rounds."""
        assert self._collecting is not None  # from `served_by` on
        return self._collecting

    def served_by(self, collecting: Collecting) -> str | None:
        """Runs the rounds that are left, sends the trained model to the nodes, and returns its
        sha256; None if told to stop before. Raises RoundHalted and RoundsLost.
        """
        self._collecting = collecting
        # It may have counted for a server before this one, whose ledger has that.
        self._sent_since(self.ledger)
        try:
            return self._run()
        except ServerStopped:
            self._log("stopped", "stop")
            return None
        except RoundHalted as why:
            self._log(f"halted: {why}", "halt", "error")
            raise
        except RoundsLost as why:
            self._log(str(why), "untrained", "error")
            self._tell("untrained", reason=str(why))
            raise

    def _run(self) -> str:
        # Where it goes on in a pause, `_await_turn` says so.
        if self._pause_left() <= 0:
            self._tell("running")
        given = 0 if self._given is None else self._given.counted
        gives = self.terms.masked or self.terms.endless
        # A lost round does not count, so that another one makes up for it.
        while self.count.counted < self.terms.rounds:
            self._check_losses()
            # Whom no lot has drawn so far recommends by it too. A young model changes fast. In a
            # pause most nodes do not listen, so a gift waits until they have been asked again.
            counted = self.count.counted
            due = counted >= given + min(max(given, 1), self.folder.part)
            # Nodes take a model of the last number, lost rounds or not, for the trained one.
            due &= self.round < self.terms.rounds
            listening = self._ran or self._pause_left() <= 0
            if gives and counted and due and listening:
                # Who is away is handed it on coming.
                self._give(min(FAREWELL, self.terms.deadline), only_there=True)
                # If nobody was there to keep it, it is due after the next round again.
                if self._given is not None and self._given.counted == counted:
                    given = counted
            self._await_turn()
            # Somebody joins: that ends the wait.
            while not self.members.nodes:
                self._check_lists()
                self.collecting.rest(LOOK)
            self._hand_on(0.0)
            # No round is begun that would be left open.
            if self._stop.is_set():
                raise ServerStopped
            self._check_lists()
            began = time.monotonic()
            self._one_round()
            self._ran = True
            self._took.append(time.monotonic() - began)
            self._tell("running")
            # Last, since whoever is told may wait as long as the next round is not to begin.
            self._progress(self.count.counted, self.terms.rounds, "round")
        digest = self.kept("trained model", lambda: self.folder.finish(self.state))
        self._give(FAREWELL)
        self._log(f"finished: {self.count.counted} rounds, model {digest}", "finish")
        self._tell("finished")
        return digest

    def _await_turn(self) -> None:
        """Waits until the pace lets the next round begin. Whoever comes meanwhile is given the
        newest model that was given. Raises ServerStopped and ListsChanged.
        """
        seconds = self._pause_left()
        if seconds <= 0:
            return
        self._tell("pausing", next_round=round(time.time() + seconds, 3))
        self.collecting.announce_rest(seconds)
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self._check_lists()
            self._hand_on(min(left, LOOK))

    def _pause_left(self) -> float:
        """Returns the seconds until the pace lets the next round begin, 0 or less if it may."""
        if not self.round:
            return 0.0
        pace = self.folder.pace
        if self._few:
            pace = max(pace, min(self._few_wait, SOON * 2.0 ** min(self._few - 1, 60)))
        # No longer than the pace itself, whatever a clock that was set back says.
        return min(pace, self.folder.committed + pace - time.time())

    def _check_lists(self) -> None:
        """Raises ListsChanged if the operator has changed members, items or addresses."""
        if self.folder.is_outdated():
            raise ListsChanged("members, items or addresses have changed")

    def _hand_on(self, seconds: float) -> None:
        """Hands the newest model that was given to whoever has come since, for some seconds; 0 = no
        longer than it takes those who are there.
        """
        given = self._given
        if given is None:
            if seconds:
                self.collecting.rest(seconds)
            return
        work = self._work_of(given)
        handed = self.collecting.hand_on(work, given.words, given.have, seconds)
        have = frozenset(handed.have)
        if have != given.have:
            self._keep_given(given._replace(have=have))

    def _work_of(self, given: GivenModel) -> RoundWork:
        """Returns the work that hands a model on."""
        if self._handed is None or self._handed.round != given.round:
            download = self.algorithm.download(given.state)
            model = announced_of(self.contract, download)
            everyone = self.members.everyone
            self._handed = RoundWork(given.round, model, everyone, download, state=given.state)
        return self._handed

    def _keep_given(self, given: GivenModel) -> None:
        """Remembers, on the disk too, which model was given and to whom."""
        self._given = given
        self.kept("given model", lambda: given.write(self.folder.path, self.terms.run))

    def _give(self, seconds: float, *, only_there: bool = False) -> None:
        """Gives the model to every node that comes for it in time, to recommend by. only_there:
        does not wait for those who are away.
        """
        given = GivenModel(
            self.round, self.count.counted, self.terms.items, self.state, b"", frozenset()
        )
        everyone = self.members.nodes.keys()
        handed = self._handed_to(everyone, given, seconds, only_there=only_there)
        absent = len(everyone - _heard(handed))
        if absent:
            line = f"{counted(absent, 'node')} did not take the model of round {self.round}"
            self._log(line, "absent", "warning")
        have = frozenset(handed.have)
        if self.terms.masked:
            given, have = self._agreed(given, handed, seconds)
        if have:
            self._keep_given(given._replace(have=have))

    def _agreed(
        self, given: GivenModel, handed: Handed, seconds: float
    ) -> tuple[GivenModel, frozenset[str]]:
        """Has the nodes agree on a model: each keeps it if enough others have the same. Returns it
        with their words, and the nodes that keep it.
        """
        have = frozenset[str]()
        words = agreed_model.written(handed.words, self.members, self.terms)
        if words:
            given = given._replace(words=words)
            took = handed.words.keys()
            have = frozenset(self._handed_to(took, given, seconds, only_there=True).have)
        least = agreed_model.enough(self.members.head, self.terms)
        if len(have) < least:
            line = (
                f"{len(have)} of {len(self.members.nodes)} nodes keep the model, which "
                f"{least} must have before any does; the others recommend by an earlier one"
            )
            self._log(line, "absent", "warning")
        return given, have

    def _handed_to(
        self, names: Set[str], given: GivenModel, seconds: float, *, only_there: bool
    ) -> Handed:
        """Hands a model on until some nodes have it or the time is up; only_there: until no node is
        there that lacks it.
        """
        work = self._work_of(given)

        def hand_on(moment: float) -> Handed:
            return self.collecting.hand_on(work, given.words, (), moment)

        def is_over(handed: Handed) -> bool:
            return (only_there and handed.over) or names <= _heard(handed)

        return spread(hand_on, is_over, seconds)

    # ---- a round ---------------------------------------------------------------------------------

    def _one_round(self) -> None:
        """Runs one round: selects users, sends the download, collects updates, aggregates, and
        stores the new model.
        """
        draw = None
        if not self.terms.masked:
            draw = np.uint64(select_key(self._rounds_key, self.round))
        work = round_work(self.folder, self.algorithm, self.contract, self.round, self.state, draw)
        users = sum(len(users) for users in work.asked.values())
        if self.terms.masked:
            self._one_masked(work, users)
        else:
            self._commit(self._plain(work), users)

    def _plain(self, work: RoundWork) -> Total:
        """Returns the sum of the nodes' answers, each of which the server sees by itself."""
        self.collecting.begin(work)
        try:
            while self.collecting.taken != work.asked.keys():
                self.collecting.gather(self.terms.deadline)
                if enough(self.folder, work, set(self.collecting.taken), self.collecting.devices):
                    break
        finally:
            total = self.collecting.end()
        return total

    def _one_masked(self, work: RoundWork, users: int) -> None:
        """Runs a round in which the server sees the sum of the nodes alone.

        Once masked inputs were asked for, the round is over, with a sum or without. Its number is
        never used again, since two sums of one round over different nodes would tell what a node
        sent. Without a sum the round does not count, and a further round makes up for it.
        """
        summed = grouped_sum(self.folder, self.contract, work, self.collecting.sums)
        for name, lie in summed.liars.items():
            self.kept("liars", partial(self.folder.remember_liar, name, lie))
        total = summed.total
        if total.devices:
            note = partial(self.folder.note_sum, self.round, summed.names)
            self.kept("list of a sum", note)
        if self.terms.accuracy and total.devices:
            self._hear_tests(summed.tests, total.devices)
        too_few = not summed.begun and not total.devices
        self._few = self._few + 1 if too_few else 0
        if too_few:
            self._few_wait = LATER if self._are_enough() else LATEST
            # Too few took part, and nothing left them: the round is over, and the model stays.
            self.ledger = self.ledger._replace(unopened=self.ledger.unopened + 1)
            self._commit(total, users)
            return
        if not total.devices:
            self._lose(f"0 of {users} devices")
        elif not self._lies(total):
            self._passed = 0
            self._lengths = (*self._lengths, length(total))[-WINDOW:]
            self._commit(total, users)

    def _are_enough(self) -> bool:
        """Tells whether a lot draws, of the people who are there, as many on average as a sum must
        have.
        """
        # Each node is one person's.
        drawn = self.collecting.present * self._protected.rate / self.terms.protection.groups
        return drawn >= self.terms.fewest

    def _hear_tests(self, numbers: Float64Array, devices: int) -> None:
        """Stores what a sum of so many devices says of tests of new rows."""
        # Each device adds the share that a sum of the fewest people needs.
        noise = self.terms.accuracy * float(np.sqrt(devices / self.terms.fewest))
        people, hits, ranks = numbers.tolist()
        tests = SummedTests(self.round, people, hits, ranks, noise, devices)
        if tests.believable:
            stored = self.kept("accuracy", lambda: note_tests(self.folder.path, tests))
            self._rate = newest_rate(stored)
        else:
            line = (
                f"round {self.round}: its tests of new rows are none that {devices} devices"
                " can have: one of them lies; they are left out of the accuracy, and the model's"
                " sum counts"
            )
            self._log(line, "tests", "warning")

    def _lies(self, total: Total) -> bool:
        """Returns whether a sum is too long to count; the round is lost then.

        Honest sums grow by less where devices clip what they send, and by algorithms whose messages
        were measured. Of others a long sum is logged, and the round counts.
        """
        why = too_long(total, self._lengths, self._made_up)
        measured = usual_limits(short(self.terms.algorithm), self.terms.users)
        if why and (measured or self.terms.protection.clip):
            self._lose(f"{why}: a member lies, and masks hide which")
            return True
        if why:
            line = (
                f"round {self.round}: {why}; counted, for honest sums of this algorithm may grow so"
            )
            self._log(line, "long", "warning")
        return False

    def _made_up(self) -> float:
        """Returns the length, a device, of a sum that has noise and what made-up devices send.
        Infinite, and logged, for an algorithm whose devices cannot be made up: rounds are watched
        from the first few on then.
        """
        terms = self.terms
        try:
            sent = made_up_length(self.algorithm, terms.catalogue, terms.seed, self.state)
        # Anything: an algorithm may raise any error on histories that are none.
        except Exception as why:
            line = (
                f"round {self.round}: the length of its sum is not looked at yet"
                f" ({type(why).__name__})"
            )
            self._log(line, "unwatched", "warning")
            return float(np.inf)
        numbers = size(self.contract.empty_total())
        noise = terms.protection.noise * float(np.sqrt(numbers * terms.protection.groups))
        return sent + noise / self.contract.cohort

    def _lose(self, how: str) -> None:
        """Closes a round without a sum, on the disk."""
        self._passed += 1
        count = self.count._replace(lost=self.count.lost + 1)
        line = f"round {self.round}: {how}: lost, {count.lost} so far"
        if not self.terms.endless:
            line += f"; {self.terms.spare} are made up for"
        self._log(line, "lost", "warning")
        # A node that consented answers this model again only for the same people, and the next lot
        # draws others.
        moved_state = moved_on(self.state, self.algorithm, self.contract)
        self._store(moved_state, self.ledger, count)

    def _check_losses(self) -> None:
        """Raises RoundsLost if more rounds were lost than may be, or nobody could be asked in many
        rounds in a row.
        """
        count = self.count
        terms = self.terms
        if count.lost > terms.spare and not terms.endless:
            why = f"{count.lost} rounds were lost, and {terms.spare} may be"
        elif self._passed >= IN_A_ROW:
            why = f"no sum came of {self._passed} rounds in a row"
        else:
            return
        trained = "untrained"
        if count.counted:
            trained = f"trained in {count.counted}{terms.of_rounds} rounds"
        raise RoundsLost(
            f"round {self.round}: {why}; the model is {trained}, and no node was given it as a"
            " trained one; server.log says why each was lost; `entrenous federation shut-out` who"
            f" spoils them, `rewind --rounds {count.counted}`, and start again"
        )

    # ---- the end of a round ----------------------------------------------------------------------

    def _commit(self, total: Total, users: int) -> None:
        """Stores the next model, before anybody is asked with it."""
        state = self._checked(total)
        ledger = self._sent_since(self.ledger)
        ledger = ledger._replace(device_rounds=ledger.device_rounds + total.devices)
        number = self.round
        self._store(state, ledger, self.count._replace(counted=self.count.counted + 1))
        line = f"round {number}: {total.devices} of {users} devices"
        self.folder.log(LogLine(line, "round", round=number))

    def _store(self, state: State, ledger: Ledger, count: RoundCount) -> None:
        """Ends the round with this state, on the disk and in memory."""
        now = ServerStanding(self.round + 1, state, ledger, count, self._lengths)
        self.kept("checkpoint", lambda: self.folder.commit(now))
        self.round = now.round
        self.state = state
        self.ledger = ledger
        self.count = count

    def _sent_since(self, ledger: Ledger) -> Ledger:
        """Returns a ledger with the traffic since the last call added."""
        sent = self.collecting
        before = self._counted
        self._counted = Ledger(
            bytes_down=sent.bytes_down, bytes_up=sent.bytes_up, messages=sent.messages
        )
        now = self._counted
        return ledger._replace(
            bytes_down=ledger.bytes_down + now.bytes_down - before.bytes_down,
            bytes_up=ledger.bytes_up + now.bytes_up - before.bytes_up,
            messages=ledger.messages + now.messages - before.messages,
        )

    def _checked(self, total: Total) -> State:
        """Returns the next state. Raises RoundHalted for a state that is not finite, or moves the
        model further than the terms allow.
        """
        if not total.devices:
            return self.state
        if self._protected.noisy:
            key = np.uint64(local_key(self._rounds_key, self.round))
            total = self._protected.on_sum(total, key)
        state = self.algorithm.aggregate(self.state, total)
        if self._protected.protection.step:
            state = self._protected.stepped(self.state, state)
        distance = float(np.inf)
        # A number that is not finite may be in the state and not in the download.
        if np.isfinite(moved(self.state, state)):
            before = self.algorithm.download(self.state)
            after = self.algorithm.download(state)
            distance = moved(before, after)
        lengths = self.collecting.lengths
        why = halted(self.round, distance, self.terms.most_move, lengths)
        if why is not None:
            self._tell(HALTED, reason=str(why))
            if self.terms.masked:
                self._lose(f"moves the model by {distance:.6g}")
            raise why
        self._moved = distance
        self._longest = max((self._longest, *lengths.values()))
        return state

    def kept(self, what: str, act: Callable[[], T]) -> T:
        """Writes something to the disk, however long that takes. Raises ServerStopped."""
        return kept(self.folder, f"round {self.round}: the {what}", act, self._pause)

    def _pause(self, seconds: float) -> None:
        if self._stop.wait(seconds):
            raise ServerStopped

    # ---- log and status --------------------------------------------------------------------------

    def _log(self, line: str, event: str, level: str = "info") -> None:
        """Logs a line about the round that is next or open."""
        self.folder.log(LogLine(line, event, level=level, round=self.round))

    def wait(self, nodes: list[str]) -> None:
        """Tells for whom a round waits."""
        self._tell("waiting", nodes)

    def _tell(self, status: str, nodes: Sequence[str] = (), **more: str | float) -> None:
        """Writes the status of the server. nodes: the nodes that a round waits for."""
        done = self.ledger
        count = self.count
        # The first round of a process waits for nodes to come, so the median says more than the
        # mean.
        seconds = 0.0
        if self._took:
            seconds = round(float(np.median(self._took)), 3)
        if self._rate is not None:
            more = {**more, "hit_rate": round(self._rate, 4)}
        answers = {code.value: n for code, n in sorted(self.collecting.counts.items())}
        self.folder.status(
            {
                "status": status,
                "run": self.terms.run,
                "profile": self._limits,
                "round": count.counted,
                "rounds": self.terms.rounds,
                "lost": count.lost,
                "number": self.round,
                "seconds_a_round": seconds,
                "nodes": self.collecting.present,
                "of": len(self.members.nodes),
                "waiting_for": list(nodes[:NAMED]),
                "bytes_up": done.bytes_up,
                "bytes_down": done.bytes_down,
                "liars": self.folder.liars(),
                "moved": round(self._moved, 6),
                "longest_answer": round(self._longest, 6),
                **more,
                "answers": answers,
            }
        )


def _heard(handed: Handed) -> Set[str]:
    """Returns the nodes that have a model, though it may be that they do not keep it yet."""
    return handed.words.keys() | set(handed.have)
