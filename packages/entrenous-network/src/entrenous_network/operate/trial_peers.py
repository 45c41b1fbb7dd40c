"""A trial without a server: peers as processes of this machine. Some are killed, some come back,
both bootstraps are killed, and the rest goes on.

At the end the recordings of all peers are replayed in one process: the models must be equal byte
for byte, those of killed peers too.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable
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
            _live(paths, processes, say)
            failed = processes.stop()
        verdicts = check(paths)
        same = sum(verdict.kept == verdict.replayed for verdict in verdicts)
        say(f"{same} of {len(paths)} recordings replay to the same bytes")
        return not failed and same == len(paths)


def _live(paths: list[Path], processes: Processes, say: Say) -> None:
    """Starts peers and kills some. Raises EntrenousError if the others do not go on."""
    # The first peers compile what all need, if nobody has yet.
    for some in (paths[:FIRST], paths[FIRST:]):
        for path in some:
            processes.start(path)
        _push(some, processes)
    victims = paths[-KILLED:]
    _kill(victims, processes, say)
    for path in victims[:RESTARTED]:
        processes.start(path)
    say(f"{RESTARTED} of them are started again, with the state they had")
    _push(victims[:RESTARTED], processes)
    _kill(paths[:BOOTSTRAPS], processes, say)
    time.sleep(4 * PERIOD)  # pushes that were under way to the killed end
    _push(processes.of, processes)
    say("every peer that was left alone went on pushing, and was answered")


def _kill(peers: Iterable[Path], processes: Processes, say: Say) -> None:
    """Kills some peers."""
    for path in peers:
        processes.kill(path)
        say(f"kill -9: {path.name}")


def _push(peers: Iterable[Path], processes: Processes) -> None:
    """Waits until others have accepted a further push of each of some peers. Raises EntrenousError
    if that takes too long, or a process ends.
    """
    before = {path: _pushed(path) for path in peers}
    until = time.monotonic() + PATIENCE
    while any(_pushed(path) <= count for path, count in before.items()):
        if time.monotonic() > until or processes.ended():
            raise EntrenousError(f"not all peers have pushed in {PATIENCE:g} s; see */{LOG}")
        time.sleep(PERIOD)


def _pushed(path: Path) -> int:
    """Returns the number of pushes of a peer that others have accepted."""
    return int(status(path).get("tally", {}).get("pushed.ok", 0))
