"""What the process of a node takes from its start until it asks its server for work."""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from importlib.metadata import distribution, packages_distributions
from pathlib import Path
from typing import Any, NamedTuple

import entrenous
from entrenous.core.contract.protocols import Progress
from entrenous.data.synthetic import synthetic

from .serving import cpu_seconds, largest_memory

TIMES = 5
WAITING = 2.0  # seconds after its last word, in which it would connect
PATIENCE = 60.0  # seconds for that word
AIM = 2.0  # processor seconds
MOST = 200  # MiB of memory, the limit
PACKAGE = "entrenous"
INSTALLED = 150  # MiB of installed packages, the limit
# NUMBA_DISABLE_JIT of a node that has numba, and of one that loads no more than one without it.
KINDS = {"compiled": "0", "uncompiled": "1"}
# Trains a node's device for one round; prints processor seconds, and the largest memory in bytes.
ROUND = """
import os, sys, time
from pathlib import Path
from entrenous_lab.benches.serving import largest_memory
from entrenous.core.keys import key
from entrenous_network.node.node import FederatedNode
node = FederatedNode(Path(sys.argv[1]))
server = node.algorithm.init_server(node.terms.catalogue, key(0))
download = node.algorithm.download(server)
began = time.process_time()
node.shard.work(download, node.shard.init_devices(key(1)), node.shard.users, key(2))
print(time.process_time() - began, largest_memory(os.getpid()))
"""


class Start(NamedTuple):
    """What one start of a node took."""

    cpu: float
    """Processor seconds."""
    peak: int
    """Bytes of memory."""
    loaded: set[str]
    """The names of the packages that it imported, without dots."""


def starting(threads: int, progress: Progress) -> dict[str, Any]:
    """Processor seconds and memory of `entrenous node` on a device of one person who has 100 of
    10,000 items, for FCF under masks, with numba and without; and the size of the packages that the
    one without imports. Its server is away, so that nothing but the start is counted; a round is
    trained apart.
    """
    from entrenous_network.operate.founding import found
    from entrenous_network.operate.plans import FoundingPlan

    data = synthetic(users=20, items=10_000, interactions=2_000, seed=0)
    plan = FoundingPlan(
        algorithm="fcf", rounds=1, settings={"factors": 32}, protect={"people": 5, "parties": 3}
    )
    starts: dict[str, list[Start]] = {kind: [] for kind in KINDS}
    with tempfile.TemporaryDirectory() as place:
        made = found(Path(place) / "f", data, plan, nodes=20)
        folder = made.nodes["node-01"]
        # The first ones are not counted: one says what it imports, one compiles what no cache has.
        sizes = _sizes(_started(folder, "uncompiled", listing=True).loaded)
        _started(folder, "compiled")
        for turn in range(TIMES):
            progress(turn, TIMES, "starts")
            # By turns, so that other work on the machine burdens both alike.
            for kind, of_kind in starts.items():
                of_kind.append(_started(folder, kind))
        rounds = {kind: _round(folder, kind) for kind in KINDS}
    progress(TIMES, TIMES, "measured")
    costs = {kind: {**_cost(of_kind), **rounds[kind]} for kind, of_kind in starts.items()}
    return {
        **costs,
        "of_mib": MOST,
        "packages_mib": sizes,
        "installed_mib": round(sum(sizes.values())),
        "of_installed_mib": INSTALLED,
        "ratio": costs["uncompiled"]["cpu_seconds"] / AIM,
        "against": f"the limit of {AIM:g} processor seconds (below 1 is better)",
    }


def _cost(starts: list[Start]) -> dict[str, Any]:
    """The figures of some starts."""
    each = [start.cpu for start in starts]
    return {
        "cpu_seconds": round(statistics.median(each), 2),
        "each": [round(cpu, 2) for cpu in each],
        "peak_mib": round(max(start.peak for start in starts) / 2**20),
    }


def _round(folder: Path, kind: str) -> dict[str, Any]:
    """The figures of a node's first round, in which its device trains twice."""
    own = {**os.environ, "NUMBA_DISABLE_JIT": KINDS[kind], "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-c", ROUND, str(folder)]
    ran = subprocess.run(command, env=own, capture_output=True, text=True, check=True)
    seconds, peak = map(float, ran.stdout.split())
    return {"round_cpu_seconds": round(seconds, 2), "round_peak_mib": round(peak / 2**20)}


def _sizes(loaded: set[str]) -> dict[str, float]:
    """MiB of the files of each distribution that has a package of these, the largest first."""
    homes = packages_distributions()
    names = {name for package in loaded for name in homes.get(package, ())}
    # A clone's own package is in no list of installed files.
    own = Path(entrenous.__file__).parent
    sizes = {PACKAGE: _mib(own.rglob("*.py"))}
    for name in names - {PACKAGE}:
        sizes[name] = _mib(Path(str(file.locate())) for file in distribution(name).files or ())
    return dict(sorted(sizes.items(), key=lambda size: -size[1]))


def _mib(files: Iterable[Path]) -> float:
    """MiB of the files that are there."""
    nbytes = sum(file.stat().st_size for file in files if file.is_file())
    return round(nbytes / 2**20, 1)


def _started(folder: Path, kind: str, *, listing: bool = False) -> Start:
    """Starts a node. listing: lists what it imports, which takes time."""
    options = ["-X", "importtime"] if listing else []
    command = [sys.executable, *options, "-m", "entrenous", "node", str(folder), "--threads", "1"]
    own = {**os.environ, "NUMBA_DISABLE_JIT": KINDS[kind]}
    log = folder / "bench.log"
    with (
        open(log, "wb") as said,
        subprocess.Popen(command, stdout=said, stderr=said, env=own) as node,
    ):
        try:
            until = time.monotonic() + PATIENCE
            while b"profile private" not in log.read_bytes() and time.monotonic() < until:
                time.sleep(0.05)
            time.sleep(WAITING)
            text = log.read_text()
            if node.poll() is not None:
                raise RuntimeError(text)
            loaded = set(re.findall(r"^import time:.*\| +(\w+)$", text, re.MULTILINE))
            return Start(cpu_seconds(node.pid), largest_memory(node.pid), loaded)
        finally:
            node.terminate()
            node.wait(PATIENCE)


BENCHES = {"node-start": starting}
