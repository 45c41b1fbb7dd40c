"""What the process of a node takes from its start until it asks its server for work."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from entrenous.core.contract.protocols import Progress
from entrenous.data.synthetic import synthetic

from .serving import cpu_seconds, largest_memory

TIMES = 5
WAITING = 2.0  # seconds after its last word, in which it would connect
PATIENCE = 60.0  # seconds for that word
AIM = 2.0  # processor seconds
MOST = 200  # MiB of memory, the limit


def starting(threads: int, progress: Progress) -> dict[str, Any]:
    """Processor seconds and memory of `entrenous node` on a device of one person who has 100 of
    10,000 items, for FCF under masks. Its server is away, so that nothing but the start is counted.
    """
    from entrenous.deploy.operate.founding import found
    from entrenous.deploy.operate.plans import FoundingPlan
    from entrenous.privacy.secure_sum.terms import Floors

    data = synthetic(users=20, items=10_000, interactions=2_000, seed=0)
    plan = FoundingPlan(
        algorithm="fcf", rounds=1, settings={"factors": 32}, protect={"people": 5, "parties": 3}
    )
    costs = []
    peaks = []
    with tempfile.TemporaryDirectory() as place:
        made = found(Path(place) / "f", data, plan, nodes=20, floors=Floors(people=5, parties=3))
        # The first one compiles what is not in the cache.
        for turn in range(TIMES + 1):
            progress(turn, TIMES + 1, "starts")
            cpu, peak = _started(made.nodes["node-01"])
            costs.append(cpu)
            peaks.append(peak)
    progress(TIMES + 1, TIMES + 1, "measured")
    seconds = statistics.median(costs[1:])
    return {
        "cpu_seconds": round(seconds, 2),
        "each": [round(cpu, 2) for cpu in costs[1:]],
        "peak_mib": round(max(peaks) / 2**20),
        "of_mib": MOST,
        "ratio": seconds / AIM,
        "against": f"the limit of {AIM:g} processor seconds (below 1 is better)",
    }


def _started(folder: Path) -> tuple[float, int]:
    """Starts a node. Returns processor seconds and the largest memory, in bytes."""
    command = [sys.executable, "-m", "entrenous", "node", str(folder), "--threads", "1"]
    log = folder / "bench.log"
    with open(log, "wb") as said, subprocess.Popen(command, stdout=said, stderr=said) as node:
        try:
            until = time.monotonic() + PATIENCE
            while b"profile" not in log.read_bytes() and time.monotonic() < until:
                time.sleep(0.05)
            time.sleep(WAITING)
            if node.poll() is not None:
                raise RuntimeError(log.read_text())
            return cpu_seconds(node.pid), largest_memory(node.pid)
        finally:
            node.terminate()
            node.wait(PATIENCE)


BENCHES = {"node-start": starting}
