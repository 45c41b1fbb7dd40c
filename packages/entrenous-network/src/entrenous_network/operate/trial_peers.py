"""A trial without a server: peers as processes of this machine, which push to each other."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from entrenous.core.errors import EntrenousError
from entrenous.data.load import load, load_arguments

from ..peers.running import status
from .founding import found, must_be_new
from .plans import FoundingPlan, TrialPlan
from .processes import LOG, Processes

Say = Callable[[str], None]

PERIOD = 0.5  # seconds
PATIENCE = 600.0  # seconds in which all must have pushed


def show(folder: Path, trial: TrialPlan, say: Say) -> bool:
    """Runs a federation of peers on this machine until others have taken a push of each. Returns
    whether no peer failed. Raises InputError for a folder that is there, EntrenousError if it takes
    too long.
    """
    must_be_new(folder)  # before any data is fetched
    plan = FoundingPlan(
        peers=True, algorithm=trial.algorithm, settings=trial.settings, period=PERIOD
    )
    made = found(folder, load(trial.data, **load_arguments(trial.load)), plan, nodes=trial.nodes)
    say(made.terms.limits())
    say(f"{trial.nodes} peers, each a process with its own key; no server")
    with Processes() as processes:
        # `found` has compiled what they need, in the fixed test round of their pins.
        for path in made.nodes.values():
            processes.start(path)
        _await_pushes(processes)
        failed = processes.stop()
    say("others have taken a push of each peer")
    return not failed


def _await_pushes(processes: Processes) -> None:
    """Waits until others have taken a push of each peer. Raises EntrenousError if that takes too
    long, or a process ends.
    """
    until = time.monotonic() + PATIENCE
    while not all(map(_pushed, processes.of)):
        if time.monotonic() > until or processes.ended():
            raise EntrenousError(f"not all peers have pushed in {PATIENCE:g} s; see */{LOG}")
        time.sleep(PERIOD)


def _pushed(path: Path) -> int:
    """Returns the number of pushes of a peer that others have taken."""
    return int(status(path).get("tally", {}).get("pushed.ok", 0))
