"""R1: a server that is SIGKILLed at any moment ends with the model of the run that nobody
interrupted.
"""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path
from threading import Event

import numpy as np
from federation_links import (
    PATIENCE,
    Hub,
    answers_of,
    federation,
    finished,
    logged,
    nodes_of,
    ratings,
    server_sha256,
    serving,
    simulated,
)


def killed(
    tmp_path: Path, founded, kills: int, rng: random.Random, answers: int
) -> tuple[str, int]:
    """Runs a federation whose server is SIGKILLed `kills` times, each time up to 20 ms after an
    answer drawn by `rng`. Returns the model's hash and how many servers were alive when killed.

    answers: three fewer than the answers of a whole run, at most. The hub holds back the third
    answer after each part's last, so that no server ends before its kill, however fast it is.
    """
    nodes, alive = nodes_of(founded), 0
    hub = Hub(tmp_path / "hub", answers_of(nodes))
    for part in range(kills):
        first = max(hub.answered, answers * part // kills) + 1
        last = max(first, answers * (part + 1) // kills)
        reached = Event()
        dead = Event()
        hub.at[rng.randint(first, last)] = reached.set
        hub.at[last + 3] = lambda dead=dead: dead.wait(PATIENCE)
        server = serving(founded.server, hub.addresses)
        assert reached.wait(PATIENCE), "the server asked for too few answers"
        time.sleep(rng.random() * 0.02)
        server.kill()
        server.join()
        dead.set()
        hub.at.pop(last + 3, None)
        alive += server.exitcode == -signal.SIGKILL
    digest = finished(serving(founded.server, hub.addresses), founded.server)
    private = simulated(founded, DATA).devices
    for node in nodes.values():
        for name, array in node.store.newest_state()[1].items():
            assert np.array_equal(array, getattr(private, name)[node.shard.users])
        node.close()
    return digest, alive


DATA = ratings(users=50)


def test_r1_four_kills_in_one_run(tmp_path, record_property):
    founded = federation(tmp_path / "f", nodes=10, rounds=6, data=DATA)
    digest, alive = killed(tmp_path, founded, 4, random.Random(1), 56)
    assert digest == server_sha256(simulated(founded, DATA)) and alive == 4
    log = logged(founded.server)
    assert sum(line.startswith("run ") for line in log) == 5
    record_property(
        "measured",
        f"1 run of 6 rounds, 4 kills, {sum('from the journal' in line for line in log)} in the"
        " middle of a round",
    )
