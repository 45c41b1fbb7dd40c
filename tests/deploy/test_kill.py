"""R1: a server that is SIGKILLed at any moment ends with the model of the run that nobody
interrupted.
"""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from federation_links import (
    Hub,
    copied,
    federation,
    finished,
    logged,
    nodes_of,
    ratings,
    server_sha256,
    serving,
    simulated,
    until,
)


def killed(
    tmp_path: Path, founded, kills: int, rng: random.Random, answers: int
) -> tuple[str, int]:
    """The model after a run whose server is SIGKILLed `kills` times, at some answer and up to 20 ms
    later; how often it was alive then.
    """
    nodes, alive = nodes_of(founded), 0
    hub = Hub(tmp_path / "hub", {name: node.answer for name, node in nodes.items()})
    for part in range(kills):
        server = serving(founded.server, hub.addresses)
        at = max(hub.answered, answers * part // kills) + rng.randint(1, answers // kills)
        until(lambda at=at, server=server: hub.answered >= at or server.exitcode is not None)
        time.sleep(rng.random() * 0.02)
        server.kill()
        server.join()
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


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_r1_twenty_runs_of_fifty_nodes(tmp_path, record_property):
    """10 rounds of 50 devices on 50 nodes, killed at one of 480 answers each, and up to 20 ms
    later: 20 of 20.
    """
    whole, rng, same, middle = (
        federation(tmp_path / "whole" / "f", nodes=50, rounds=10, data=DATA),
        random.Random(20),
        0,
        0,
    )
    expected = server_sha256(simulated(whole, DATA))
    for run in range(20):
        folder = tmp_path / str(run)
        folder.mkdir()
        founded = copied(whole, folder / "f")
        digest, alive = killed(folder, founded, 1, rng, 480)
        assert alive == 1
        same += digest == expected
        middle += any("from the journal" in line for line in logged(founded.server))
    record_property("measured", f"{same}/20 the same, {middle} killed in the middle of a round")
    assert same == 20
