"""The memory of a server and of a node that go on for many rounds."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from entrenous.core.contract.protocols import Progress
from entrenous.core.errors import EntrenousError
from entrenous.data.synthetic import synthetic

from .living import connected, fcf_by_lot, founded, until

if TYPE_CHECKING:
    from entrenous_network.operate.plans import FoundingPlan

PEOPLE = 48
DRAWN = 16  # of them, by lot
ITEMS, FACTORS = 2000, 32
WARM, ROUNDS = 50, 720  # a month of one round an hour
ROWS_EVERY = 10  # rounds, after which a row comes to the watched device
AIM = 1.1
PATIENCE = 3600.0  # seconds


def endurance(
    threads: int, progress: Progress, *, warm: int = WARM, rounds: int = ROUNDS
) -> dict[str, Any]:
    """Memory of the processes of a server and of a node after 720 rounds, in units of that after 50
    rounds: FCF under masks, by lot, over TLS, with tests of new rows. A new row comes to the node
    every ten rounds. `ratio` is the larger of the two.
    """
    from entrenous_network.operate.plans import JoinPlan

    data = synthetic(users=PEOPLE, items=ITEMS, interactions=20 * PEOPLE, seed=0)
    owner = JoinPlan(people=3)
    with tempfile.TemporaryDirectory() as place:
        made = founded(Path(place), data, PEOPLE, _plan(), owner)
        watched, *others = made.devices
        with (
            _process("server", made.server) as server,
            _process("node", watched) as node,
            connected(others),
        ):
            _pass(made.server, watched, warm, progress, rounds)
            before = _memory(server), _memory(node)
            _pass(made.server, watched, rounds, progress, rounds)
            after = _memory(server), _memory(node)
    grown = [late / early for early, late in zip(before, after, strict=True)]
    return {
        "server_mb": [round(before[0] / 1e6, 1), round(after[0] / 1e6, 1)],
        "node_mb": [round(before[1] / 1e6, 1), round(after[1] / 1e6, 1)],
        "server_grown": round(grown[0], 3),
        "node_grown": round(grown[1], 3),
        "rounds": [warm, rounds],
        "people": PEOPLE,
        "aim": AIM,
        "ratio": round(max(grown), 3),
        "against": f"the memory after {warm} rounds (1 is no growth)",
    }


def _plan() -> FoundingPlan:
    return fcf_by_lot(PEOPLE, DRAWN, FACTORS, people=7, deadline=30.0, accuracy=3.0)


@contextmanager
def _process(kind: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Runs `entrenous server` or `entrenous node` until the end of `with`."""
    command = [sys.executable, "-m", "entrenous", kind, str(folder)]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, stdout=quiet, stderr=quiet) as process:
        try:
            yield process
        finally:
            process.terminate()


def _memory(process: subprocess.Popen[bytes]) -> int:
    """Returns the bytes of a process that are in memory. Raises EntrenousError if it has ended."""
    if process.poll() is not None:
        raise EntrenousError(f"a process ended with {process.returncode} in the middle")
    status = Path(f"/proc/{process.pid}/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("VmRSS:")]
    return 1024 * int(line.split()[1])


def _pass(server: Path, device: Path, number: int, progress: Progress, last: int) -> None:
    """Waits until a server has made so many rounds, while rows come to a device."""
    from entrenous_network.operate.device import Device

    done = _made(server)
    while done < number:
        due = min(done - done % ROWS_EVERY + ROWS_EVERY, number)
        until(partial(_has_made, server, due), f"round {due}", PATIENCE)
        done = _made(server)
        progress(min(done, last), last, "round")
        with Device(device) as opened:
            opened.consumed(str(done % ITEMS))


def _made(server: Path) -> int:
    """Returns how many rounds a server has made."""
    from entrenous_network.operate.running import status

    return int(status(server).get("number", 0))


def _has_made(server: Path, number: int) -> bool:
    return _made(server) >= number


BENCHES = {"endurance": endurance}
