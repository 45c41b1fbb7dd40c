"""A trial without a server: peers as processes of this machine. Some are killed, some come back,
both bootstraps are killed, and the rest goes on.

At the end the recordings of all peers are replayed in one process: the models must be equal byte
for byte, those of killed peers too.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from entrenous.core.errors import EntrenousError
from entrenous.core.keywords import at_least
from entrenous.data.load import load, load_arguments

from ..agreement.invitation import BOOTSTRAPS
from ..peers.running import check, status
from .founding import found, must_be_new
from .plans import FoundingPlan, TrialPlan
from .processes import LOG, Processes

Say = Callable[[str], None]

LEAST = 10  # peers: five are killed, then both bootstraps, and some must be left
KILLED = 5
RESTARTED = 3
FIRST = 4  # peers that are started first
PERIOD = 0.5  # seconds
PARTS = 3  # of the time, between which peers are killed
LOOK = 3.0  # seconds between two lines
# Seconds in which all must have pushed, and in which one whose neighbours were killed must find
# others.
PATIENCE = 600.0


def show(out: Path | None, trial: TrialPlan, say: Say) -> bool:
    """Runs a federation of peers on this machine, kills and restarts some, and checks the result by
    replay, with a line of output for each step. out: None = a folder that is removed at the end.
    Returns whether all was right.
    """
    at_least("--nodes", trial.nodes, LEAST)
    with tempfile.TemporaryDirectory(prefix="entrenous-") as temporary:
        folder = out or Path(temporary) / "peers"
        must_be_new(folder)  # before any data is fetched
        plan = FoundingPlan(
            peers=True, algorithm=trial.algorithm, settings=trial.settings, period=PERIOD
        )
        rows = load(trial.data, **load_arguments(trial.load))
        made = found(folder, rows, plan, nodes=trial.nodes)
        say(made.terms.limits())
        say(f"{trial.nodes} peers, each a process with its own key; no server")
        paths = list(made.nodes.values())
        with Processes() as processes:
            gained = _lived(paths, processes, trial.seconds, say)
            ended = processes.ended() + processes.stop()
        verdicts = check(paths)
        same = sum(verdict.kept == verdict.replayed for verdict in verdicts)
        for holds, claim in (
            (gained, "every peer that was left alone went on pushing, and was answered"),
            (not ended, "no process ended by itself"),
            (same == len(paths), f"{same} of {len(paths)} recordings replay to the same bytes"),
        ):
            say(f"{'yes' if holds else 'NO '}: {claim}")
        return gained and not ended and same == len(paths)


def _lived(paths: list[Path], processes: Processes, seconds: float, say: Say) -> bool:
    """Starts peers, and kills some. Returns whether those that are left had pushes accepted since
    the last were killed.
    """
    # The first peers compile what all need, if nobody has yet.
    for some in (paths[:FIRST], paths[FIRST:]):
        for path in some:
            processes.start(path)
        begun = dict.fromkeys(some, 0)
        if not _gained(begun, processes, PATIENCE):
            raise EntrenousError(f"not all peers have pushed in {PATIENCE:g} s; see */{LOG}")
    victims = paths[-KILLED:]
    for killed in (victims, paths[:BOOTSTRAPS]):
        _watch(paths, seconds / PARTS, say)
        for path in killed:
            processes.kill(path)
        say(f"kill -9: {', '.join(path.name for path in killed)}")
        if killed == victims:
            for path in victims[:RESTARTED]:
                processes.start(path)
            say(f"{RESTARTED} of them are started again, with the state they had")
    time.sleep(4 * PERIOD)  # pushes to them that were under way end
    before = {path: _pushed(path) for path in processes.of}
    _watch(paths, seconds / PARTS, say)
    return _gained(before, processes, PATIENCE)


def _pushed(path: Path) -> int:
    """Returns the number of pushes of a peer that others have accepted."""
    return int(status(path).get("tally", {}).get("pushed.ok", 0))


def _gained(before: dict[Path, int], processes: Processes, seconds: float) -> bool:
    """Waits until each of some peers has more pushes accepted. Returns False if that takes too
    long, and if a process ends.
    """
    until = time.monotonic() + seconds
    while any(_pushed(path) <= count for path, count in before.items()):
        if time.monotonic() > until or processes.ended():
            return False
        time.sleep(PERIOD)
    return True


def _watch(paths: list[Path], seconds: float, say: Say) -> None:
    """Says a line every few seconds, for some time."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(min(LOOK, max(0.0, until - time.monotonic())))
        alive = sum(status(path)["running"] for path in paths)
        say(f"{alive} peers run; {sum(map(_pushed, paths))} pushes were accepted")
