"""A server and a node that live for long: 1,000 rounds of the private default, and no more memory
at the end than when they had settled.
"""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import pytest
from entrenous_network.operate.running import status_of_server
from entrenous_network.secure_sum.terms import Floors
from federation_links import COHORT, FPL, ratings
from service_processes import at_a_port, process

ROUNDS, SETTLED, AROUND = 1000, 50, 10  # memory is the median of what is read within so many rounds
ITEMS = 2000  # a sum is 96 kB: one that is kept a round would be half of a node's memory at the end
GROWTH = 1.10
LONGEST = 1700.0


def resident(pid: int) -> int:
    """The bytes of memory that a process has."""
    pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_after_1000_rounds_server_and_node_have_the_memory_of_round_50(
    tmp_path: Path, record_property
) -> None:
    made, _ = at_a_port(
        tmp_path / "f",
        nodes=40,
        rounds=ROUNDS,
        data=ratings(40, items=ITEMS),
        draws="secret",
        secure="masks",
        settings={**FPL, "cohort": COHORT},
        floors=Floors(people=8, parties=3),
        protect={"sampling": "poisson", "answers": ROUNDS, "noise": 0.2, "rows": "all"},
    )
    read: dict[str, list[tuple[int, int]]] = {"server": [], "node": []}
    with ExitStack() as running, open(tmp_path / "said", "ab") as log:
        to = {"stdout": log, "stderr": log}
        server = running.enter_context(process("server", made.server, **to))
        # A shop, whose process has a device for each of the forty.
        shop = running.enter_context(process("node", tmp_path / "f" / "nodes", **to))
        pids, end = {"server": server.pid, "node": shop.pid}, time.monotonic() + LONGEST
        while server.poll() is None:
            assert time.monotonic() < end, (
                f"round {status_of_server(made.server)['round']} of {ROUNDS}"
            )
            done = int(status_of_server(made.server)["round"])
            for name, pid in pids.items():
                if server.poll() is None:
                    read[name].append((done, resident(pid)))
            time.sleep(0.1)
        assert server.returncode == 0
    said, grown = [], []
    for name, found in read.items():
        settled = median([size for done, size in found if abs(done - SETTLED) <= AROUND])
        last = median([size for done, size in found if done >= ROUNDS - 2 * AROUND])
        said.append(
            f"{name} {settled / 1e6:.0f} MB at round {SETTLED}, {last / 1e6:.0f} MB at round"
            f" {ROUNDS}"
        )
        grown += [name] if last > GROWTH * settled else []
    record_property("measured", "; ".join(said))
    print("; ".join(said))
    assert grown == [], said
