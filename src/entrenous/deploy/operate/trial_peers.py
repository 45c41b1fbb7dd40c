"""A trial without a server, `make gossip`: peers as processes of this machine. Some are killed,
some come back, both bootstraps are killed, and the rest goes on.

At the end the recordings of all peers are replayed in one process: the models must be equal byte
for byte, those of killed peers too."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, final

from ...core.errors import EntrenousError
from ...core.keywords import at_least
from ...data.load import load
from ..agreement.invitation import BOOTSTRAPS
from ..peers.running import check, status
from .device import recommend
from .founding import found, must_be_new
from .plans import FoundingPlan, TrialPlan
from .processes import LOG, Processes

LEAST = 10  # peers: five are killed, then both bootstraps, and some must be left
KILLED = 5
RESTARTED = 3
FIRST = 4  # peers that are started first
PERIOD = 0.5  # seconds
BEGIN = 120.0  # seconds in which all must have pushed once
# Further seconds, at most, in which a peer whose neighbours were killed must find others: records
# of the dead live for 15.
PATIENCE = 30.0


def show(out: Path | None, trial: TrialPlan, say: Callable[[str], None]) -> bool:
    """Runs a federation of peers on this machine, kills and restarts some, and checks the result by
    replay, with a line of output for each step. out: None = a folder that is removed at the end.
    Returns whether all was right."""
    trial = trial.complete()
    at_least("--nodes", trial.nodes, LEAST)
    with tempfile.TemporaryDirectory(prefix="entrenous-") as temporary:
        folder = out or Path(temporary) / "peers"
        must_be_new(folder)  # before any data is fetched
        plan = FoundingPlan(
            peers=True,
            algorithm=trial.algorithm,
            settings=trial.settings,
            period=PERIOD,
            profile=trial.profile,
        )
        made = found(folder, load(trial.data), plan, nodes=trial.nodes)
        say(made.terms.limits())
        paths = list(made.nodes.values())
        say(
            f"{trial.nodes} peers, users of {trial.data}, each a process with its own key, rows and"
            f" model; no server; a push each {PERIOD:g} s"
        )
        with Processes() as processes:
            good = _Story(paths, processes, trial.seconds, say).tell()
            say("all peers are told to end")
            good &= not processes.stop()
        return good & _replayed(paths, say) & _recommended(paths[BOOTSTRAPS], say)


@final
class _Story:
    """The events of a trial, at parts of `seconds`."""

    def __init__(
        self, paths: list[Path], processes: Processes, seconds: float, say: Callable[[str], None]
    ) -> None:
        self.paths = paths
        self.processes = processes
        self.seconds = seconds
        self.say = say
        self.good = True

    def tell(self) -> bool:
        """Runs the trial. Returns whether all was right."""
        # The first peers compile what all need, if nobody has yet.
        for paths in (self.paths[:FIRST], self.paths[FIRST:]):
            for path in paths:
                self.processes.start(path)
            self._begun(paths)
        self.since = time.monotonic()
        self.say(
            "  time  alive  pushed  taken   busy  failed  errors  HR@20 of own weighting rows"
            " (mean, worst)"
        )
        self._watch(0.15)
        victims = self.paths[-KILLED:]
        bootstraps = self.paths[:BOOTSTRAPS]
        self._kill(victims, "kill -9")
        self._watch(0.3)
        self.say(f"restarted: {_names(victims[:RESTARTED])}, with the state they had")
        for path in victims[:RESTARTED]:
            self.processes.start(path)
        self._watch(0.4)
        self._kill(bootstraps, "kill -9 of both bootstraps")
        time.sleep(4 * PERIOD)  # pushes to them that were under way end
        before = self._pushed()
        self._watch(1.0)
        until = time.monotonic() + PATIENCE
        while not self._gained(before) and time.monotonic() < until:
            time.sleep(PERIOD)
        gained = self._gained(before)
        self._must(gained, "every peer that was left alone went on pushing, and was answered")
        self._must(not self.processes.ended(), "no process ended by itself")
        return self.good

    def _begun(self, paths: list[Path]) -> None:
        """Waits until each peer has pushed a model. Raises EntrenousError, with the peer's own
        words, for a peer that ends or does not begin.
        """
        until = time.monotonic() + BEGIN
        told = 0
        while True:
            begun = sum(status(path).get("pushes", 0) > 0 for path in paths)
            if begun == len(paths):
                return
            for path in self.processes.ended():
                said = (path / LOG).read_text().strip()[-300:]
                raise EntrenousError(f"{path}: ended; it said: {said}")
            if time.monotonic() > until:
                logs = f"{self.paths[0].parent}/*/{LOG}"
                raise EntrenousError(f"not all peers had pushed after {BEGIN:g} s; see {logs}")
            # A line for every four peers.
            if begun // 4 > told // 4:
                self.say(
                    f"{begun} of {len(paths)} peers have found another and pushed a model to it"
                )
                told = begun
            time.sleep(0.5)

    def _watch(self, part: float) -> None:
        """Says a line every few seconds, until a part of the time is over."""
        until = self.since + part * self.seconds
        while time.monotonic() < until:
            time.sleep(min(3.0, max(0.0, until - time.monotonic())))
            self._line([status(path) for path in self.paths])

    def _line(self, peers: list[dict[str, Any]]) -> None:
        """Prints a row of the table of the trial, from the status of all peers."""
        seconds = time.monotonic() - self.since
        alive = sum(peer.get("running", 0) for peer in peers)
        errors = sum(peer.get("errors", 0) for peer in peers)
        pushed = _sum(peers, "pushed.ok")
        merged = _sum(peers, "merged")
        busy = _sum(peers, "pushed.busy")
        failed = _sum(peers, "pushed.failed")
        # A peer with few rows has no weighting set, and so no hit rate.
        rates = [peer["hr@20"] for peer in peers if peer.get("hr@20") is not None]
        ranked = "-"
        if rates:
            mean = sum(rates) / len(rates)
            ranked = f"{mean:.3f}, {min(rates):.3f}"
        counts = f"{alive:6} {pushed:7} {merged:6} {busy:6} {failed:7} {errors:7}"
        self.say(f"{seconds:5.0f}s {counts}  {ranked}")

    def _kill(self, paths: list[Path], how: str) -> None:
        """Kills peers by SIGKILL."""
        pids = ", ".join(str(self.processes.of[path].pid) for path in paths)
        for path in paths:
            self.processes.kill(path)
        self.say(f"{how}: {_names(paths)} (processes {pids})")

    def _pushed(self) -> dict[Path, int]:
        """Returns the number of pushes that were accepted of each running peer."""
        return {path: status(path)["tally"].get("pushed.ok", 0) for path in self.processes.of}

    def _gained(self, before: dict[Path, int]) -> bool:
        """Returns whether every peer has had pushes accepted since `before`."""
        now = self._pushed()
        return all(count > before[path] for path, count in now.items())

    def _must(self, holds: bool, claim: str) -> None:
        """Says whether a claim of the trial holds; the trial fails if it does not."""
        self.good &= holds
        self.say(f"{'yes' if holds else 'NO '}: {claim}")


def _names(paths: list[Path]) -> str:
    return ", ".join(path.name for path in paths)


def _sum(peers: list[dict[str, Any]], name: str) -> int:
    return sum(peer.get("tally", {}).get(name, 0) for peer in peers)


def _replayed(paths: list[Path], say: Callable[[str], None]) -> bool:
    """Replays all recordings. Returns whether all models come out the same."""
    verdicts = check(paths)
    # A killed peer went on from the state before its last push, and its recording says so.
    same = sum(verdict.kept == verdict.replayed for verdict in verdicts)
    events = sum(verdict.events for verdict in verdicts)
    say(
        f"replay of {events} recorded events in one process: {same} of {len(verdicts)} peers end"
        " with the same bytes"
    )
    return same == len(verdicts)


def _recommended(path: Path, say: Callable[[str], None]) -> bool:
    """Recommends to one user, whose process lived through all of it. Returns whether there are
    items."""
    user, _, items = recommend(path, None, 5)
    # Not every data set has titles.
    names = ", ".join(item["title"] or item["item"] for item in items)
    say(f"for user {user} of {path.name}: {names}")
    return bool(items)
