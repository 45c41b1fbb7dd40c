"""The server of a federation: rounds over a link. What it has taken is on its disk before it
counts, so it may die at any moment.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from threading import Event
from typing import TypeVar, final

import numpy as np

from ...core.contract.protocols import Progress, State, silent
from ...core.contract.update import Total, Update
from ...core.errors import CheckFailed
from ...core.keys import key as key_of
from ...core.keys import local_key
from ...federation.defences import defence_of
from ...federation.shard import Ledger
from ...federation.visible import defended_sum
from ...privacy.in_force import ProtectionInForce
from ...privacy.secure_sum.vector import size
from ..frames import agreed_model
from ..frames.contribution import RoundHalted, agreed, halted, moved
from ..frames.request import RoundWork, announced_of
from ..links.port import ServerLink
from .collector import Collecting, Collector
from .exchange import ServerStopped
from .grouped_round import grouped_sum
from .log_line import LogLine
from .rounds import enough, model_work, moved_on, round_work, standing
from .server_folder import HALTED, RoundCount, ServerFolder, ServerStanding, kept
from .watch import WINDOW, length, made_up_length, too_long

T = TypeVar("T")
FAREWELL = 30.0  # seconds for the nodes to take the trained model
NAMED = 20  # nodes that the status names, at most
IN_A_ROW = 100  # rounds of which nobody can be asked, after which another one would not help


class RoundsLost(CheckFailed):
    """Raised where training ends without all its rounds. The model of those that count is on the
    disk; no node was given it.
    """


def serve(
    link: ServerLink, folder: Path, stop: Event | None = None, progress: Progress = silent
) -> str | None:
    """Run a federation from the state in its folder to its end. Returns the sha256 of the trained
    model, None if told to stop before.

    Raises InputError for a folder that is no server's, or that another server is using, and
    RoundHalted for a round that would do more to the model than the terms allow.
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


@final
class FederationServer:
    """The server of one federation: selects users, has their updates collected, and stores each new
    model before it is used.
    """

    def __init__(self, folder: ServerFolder, stop: Event, progress: Progress = silent) -> None:
        self.folder, self.terms, self.members = folder, folder.terms, folder.members
        self.algorithm = self.terms.make(place=folder.algorithm)
        self._limits = self.terms.limits()
        self._stop, self._progress = stop, progress
        self._took: list[float] = []  # seconds, of each round of this process
        self.contract = agreed(self.algorithm, self.terms.catalogue, self.terms.protection)
        self._protected = ProtectionInForce(self.terms.protection, self.contract)
        self._defence = defence_of(
            self.terms.protection.defence,
            self.algorithm,
            self.contract,
            self.terms.catalogue,
            self.terms.seed,
        )
        self._collecting: Collecting | None = None
        self._counted = Ledger()  # of what the collector has counted, what is in the ledger already
        self._moved = self._longest = (
            0.0  # how far the last round moved the model, and the longest answer of this process
        )
        self.round, self.state, self.ledger, self.count, parties, self._lengths = standing(
            folder, self.algorithm
        )
        if self.terms.masked and parties != self.members.parties:
            self.state = moved_on(self.state, self.algorithm, self.contract)
        self._passed = 0  # rounds in a row of which nobody could be asked
        begun = f"going on after round {self.round}" if self.round else "from the start"
        begun += (
            f", {self.count.counted} of {self.terms.rounds} rounds counted"
            if self.count.counted != self.round
            else ""
        )
        folder.log(
            LogLine(
                f"run {self.terms.run}: {self.terms.algorithm}, {begun}", "start", round=self.round
            )
        )

    @property
    def collecting(self) -> Collecting:
        """The collector of the rounds."""
        assert self._collecting is not None  # from `served_by` on
        return self._collecting

    def served_by(self, collecting: Collecting) -> str | None:
        """Run the rounds that are left, send the trained model to the nodes, and return its sha256;
        None if told to stop before. Raises RoundHalted and RoundsLost."""
        self._collecting = collecting
        try:
            return self._run()
        except ServerStopped:
            self.folder.log(LogLine("stopped", "stop", round=self.round))
            return None
        except RoundHalted as why:
            self.folder.log(LogLine(f"halted: {why}", "halt", level="error", round=self.round))
            raise
        except RoundsLost as why:
            self.folder.log(LogLine(str(why), "untrained", level="error", round=self.round))
            self._tell("untrained", reason=str(why))
            raise

    def _run(self) -> str:
        self._tell("running")
        while self.count.counted < self.terms.rounds:
            self._check_losses()
            self._await_turn()
            began = time.monotonic()
            self._one_round()
            self._took.append(time.monotonic() - began)
            self._progress(self.count.counted, self.terms.rounds, "round")
            self._tell("running")
        digest = self.kept("trained model", lambda: self.folder.finish(self.state))
        self._give()
        self.folder.log(
            LogLine(
                f"finished: {self.count.counted} rounds, model {digest}", "finish", round=self.round
            )
        )
        self._tell("finished")
        return digest

    def _await_turn(self) -> None:
        """Wait until the pace lets the next round begin. Raises ServerStopped."""
        wall = time.time()
        seconds = min(self.folder.pace, self.folder.committed + self.folder.pace - wall)
        if seconds <= 0 or not self.round:
            return
        self._tell("pausing", next_round=round(wall + seconds, 3))
        self.collecting.rest(seconds)

    def _give(self) -> None:
        """The trained model to every node that is there, to recommend by."""
        work = model_work(self.folder, self.algorithm, self.round, self.state)
        self.collecting.offer(work)
        self.collecting.give(FAREWELL)
        if self.collecting.without:
            line = f"{len(self.collecting.without)} nodes were not there to take the trained model"
            self.folder.log(LogLine(line, "absent", level="warning", round=self.round))
        # The nodes of relays agree within their groups.
        if self.terms.masked and not self.terms.of_relays:
            self._agree(work)

    def _agree(self, work: RoundWork) -> None:
        """Has the nodes agree on the trained model: each keeps it if enough others have the
        same.
        """
        kept = self.collecting.agree(announced_of(self.contract, work.download), FAREWELL)
        least = agreed_model.enough(self.members)
        if len(kept) < least:
            line = (
                f"{len(kept)} of {len(self.members.nodes)} nodes keep the trained model, which "
                f"{least} must have before any does; the others recommend by an earlier one"
            )
            self.folder.log(LogLine(line, "absent", level="warning", round=self.round))

    def _one_round(self) -> None:
        """Run one round: select users, send the download, collect updates, aggregate, and store the
        new model.
        """
        drawn = self.count.drawn
        work = round_work(self.folder, self.algorithm, self.contract, self.round, self.state, drawn)
        users = sum(len(users) for users in work.asked.values())
        if self.terms.masked:
            self._one_masked(work, users)
        else:
            self._commit(self._plain(work), users)

    def _one_masked(self, work: RoundWork, users: int) -> None:
        """Run a round whose nodes are seen in their sum alone. A round whose masked inputs were
        asked for is over, with a sum or without: its number is never used again, since two sums of
        one round over different nodes would tell what a node sent. Without a sum it does not count,
        and a further round makes up for it.
        """
        total, begun = grouped_sum(self.folder, self.contract, work, self.collecting.sums)
        if total.devices and self._lies(total):
            self._passed = 0
        elif total.devices:
            self._passed = 0
            self._lengths = (*self._lengths, length(total))[-WINDOW:]
            self._commit(total, users)
        elif begun:
            self._passed = 0
            self._lose(f"0 of {users} devices")
        else:
            self._passed += 1
            self._pass_over(self.count._replace(drawn=self.count.drawn + 1))

    def _lies(self, total: Total) -> bool:
        """Tells whether a sum is too long to count; then the round is lost. Honest sums of some
        algorithms grow by as much from round to round: of those that are not meant for the profile
        private, for which that was measured, it is logged, and the round counts.
        """
        why = too_long(total, self._lengths, self._made_up)
        if why and self.contract.declaration.traits.private:
            self._lose(f"{why}: a member lies, and masks hide which")
            return True
        if why:
            line = (
                f"round {self.round}: {why}; counted, for honest sums of this algorithm may grow so"
            )
            self.folder.log(LogLine(line, "long", level="warning", round=self.round))
        return False

    def _made_up(self) -> float:
        """Returns how long a sum is, a device, that has noise and what made-up devices send.
        Infinite, and logged, for an algorithm whose devices cannot be made up: then rounds are
        watched from the first few on.
        """
        own, terms = self.terms.protection, self.terms
        try:
            sent = made_up_length(self.algorithm, terms.catalogue, terms.seed, self.state)
        except Exception as why:  # of any algorithm, on histories that are none
            line = (
                f"round {self.round}: the length of its sum is not looked at yet"
                f" ({type(why).__name__})"
            )
            self.folder.log(LogLine(line, "unwatched", level="warning", round=self.round))
            return float(np.inf)
        numbers = size(self.contract.empty_total())
        return sent + own.noise * float(np.sqrt(numbers * own.groups)) / self.contract.cohort

    def _lose(self, how: str) -> None:
        """Close a round without a sum, on the disk."""
        count = self.count._replace(lost=self.count.lost + 1, asked=self.count.asked + 1)
        line = (
            f"round {self.round}: {how}: lost, {count.lost} so far; {self.terms.spare} are made"
            " up for"
        )
        self.folder.log(LogLine(line, "lost", level="warning", round=self.round))
        self._pass_over(count)

    def _pass_over(self, count: RoundCount) -> None:
        """Go on to the next number with the same model."""
        now = ServerStanding(
            self.round + 1, self.state, self.ledger, count, self.members.parties, self._lengths
        )
        self.kept("checkpoint", lambda: self.folder.commit(now))
        self.round, self.count = now.round, count

    def _check_losses(self) -> None:
        """Raise RoundsLost where more rounds were lost than may be, or none of many can be asked
        for.
        """
        count, terms = self.count, self.terms
        if count.lost <= terms.spare and self._passed < IN_A_ROW:
            return
        why = f"{count.lost} rounds were lost, and {terms.spare} may be"
        if count.lost <= terms.spare:
            why = f"nobody could be asked in {self._passed} rounds in a row"
        trained = (
            f"trained in {count.counted} of {terms.rounds} rounds" if count.counted else "untrained"
        )
        raise RoundsLost(
            f"round {self.round}: {why}; the model is {trained}, and no node was given it as a"
            " trained one; server.log says why each was lost; `entrenous federation shut-out` who"
            f" spoils them, `rewind --rounds {count.counted}`, and start again"
        )

    def _plain(self, work: RoundWork) -> Total:
        """The sum of what the nodes answer, each answer seen by itself."""
        self.collecting.begin(work)
        try:
            while self.collecting.taken != work.asked.keys():
                self.collecting.gather(self.terms.deadline)
                if enough(self.folder, work, set(self.collecting.taken), self.collecting.devices):
                    break
        finally:
            total = self.collecting.end()
        if self._defence is None:
            return total
        assert isinstance(self.collecting, Collector)  # workers are refused with a defence
        intake = self.collecting.intake
        # Each node is one user's: its update has that user's place.
        in_order = sorted(intake.answers, key=lambda name: int(intake.heard[name][0]))
        answers = [intake.answers[name] for name in in_order]
        updates = [answer for answer in answers if isinstance(answer, Update)]
        return defended_sum(updates, self.contract, self._defence, work.download)

    # ---- the end of a round ----------------------------------------------------------------------

    def _commit(self, total: Total, users: int) -> None:
        """The next model, on the disk before anybody is asked with it."""
        state, sent, before = self._checked(total), self.collecting, self._counted
        self._counted = now = Ledger(
            bytes_down=sent.bytes_down, bytes_up=sent.bytes_up, messages=sent.messages
        )
        ledger = self.ledger._replace(
            device_rounds=self.ledger.device_rounds + total.devices,
            bytes_down=self.ledger.bytes_down + now.bytes_down - before.bytes_down,
            bytes_up=self.ledger.bytes_up + now.bytes_up - before.bytes_up,
            messages=self.ledger.messages + now.messages - before.messages,
        )
        done = self.count
        count = RoundCount(done.counted + 1, done.lost, done.asked + 1, done.drawn + 1)
        after = ServerStanding(
            self.round + 1, state, ledger, count, self.members.parties, self._lengths
        )
        self.kept("checkpoint", lambda: self.folder.commit(after))
        self.folder.log(
            LogLine(
                f"round {self.round}: {total.devices} of {users} devices", "round", round=self.round
            )
        )
        self.round, self.state, self.ledger, self.count, *_ = after

    def _checked(self, total: Total) -> State:
        """The next state. Raises RoundHalted for one that is not finite, or moves the model further
        than the terms allow.
        """
        if not total.devices:
            return self.state
        key = np.uint64(local_key(key_of(self.terms.seed, "rounds"), self.round))
        if self._protected.noisy:
            total = self._protected.on_sum(total, key)
        own = self.algorithm
        state = own.aggregate(self.state, total)
        far = (
            moved(own.download(self.state), own.download(state))
            if np.isfinite(moved(self.state, state))
            else np.inf
        )
        why = halted(self.round, far, self.terms.most_move, self.collecting.lengths)
        if why is not None:
            self._tell(HALTED, reason=str(why))
            if self.terms.masked:
                self._lose(f"moves the model by {far:.6g}")
            raise why
        self._moved = far
        self._longest = max((self._longest, *self.collecting.lengths.values()))
        return state

    def kept(self, what: str, act: Callable[[], T]) -> T:
        """Write something to the disk, however long that takes. Raises ServerStopped."""
        return kept(self.folder, f"round {self.round}: the {what}", act, self._pause)

    def _pause(self, seconds: float) -> None:
        if self._stop.wait(seconds):
            raise ServerStopped

    # ---- what it says of itself ------------------------------------------------------------------

    def wait(self, nodes: list[str]) -> None:
        """Say for whom a round waits."""
        self._tell("waiting", nodes)

    def _tell(self, status: str, nodes: Sequence[str] = (), **more: str | float) -> None:
        """The first round of a process waits for nodes to come, so the middle one says more than
        the mean. nodes: who is waited for.
        """
        done, took, count = self.ledger, self._took, self.count
        self.folder.status(
            {
                "status": status,
                "run": self.terms.run,
                "profile": self._limits,
                "round": count.counted,
                "rounds": self.terms.rounds,
                "lost": count.lost,
                "number": self.round,
                "seconds_a_round": round(float(np.median(took)), 3) if took else 0.0,
                "nodes": self.collecting.present,
                "of": len(self.members.nodes),
                "waiting_for": list(nodes[:NAMED]),
                "bytes_up": done.bytes_up,
                "bytes_down": done.bytes_down,
                "liars": self.folder.liars(),
                "moved": round(self._moved, 6),
                "longest_answer": round(self._longest, 6),
                **more,
                "answers": {code.value: n for code, n in sorted(self.collecting.counts.items())},
            }
        )
