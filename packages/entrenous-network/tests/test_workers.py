"""Several processes that take the answers of one server: the same model, whichever of them is
killed, and however often a node answers.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from entrenous_network.agreement.certificates import make_keys
from entrenous_network.links.https import HttpsPlan
from entrenous_network.operate import running
from entrenous_network.operate.founding import FoundedFederation
from entrenous_network.server.channel import Order
from entrenous_network.server.local_workers import LocalWorkers, WorkerProcess
from entrenous_network.server.pool import WorkerPool
from entrenous_network.server.server_folder import ServerFolder
from federation_links import (
    by_lot,
    federation,
    logged,
    nodes_at,
    ratings,
    server_sha256,
    simulated,
)

PATIENCE = 240.0
pytestmark = pytest.mark.usefixtures("forked_children")


def served(
    made: FoundedFederation,
    workers: int,
    each: Callable[[WorkerPool[WorkerProcess], str, bytes], None] = lambda pool, name, frame: None,
) -> str | None:
    """The sha256 of the model after all rounds."""
    make_keys(made.server / "keys")
    plan, pools, over = (
        HttpsPlan(port=0, keys=made.server / "keys"),
        list[WorkerPool[WorkerProcess]](),
        threading.Event(),
    )

    def begin(pool: WorkerPool[WorkerProcess]) -> None:
        pools.append(pool)

        def live() -> None:
            with nodes_at(made, pool.address, lambda name, frame: each(pool, name, frame)):
                over.wait(PATIENCE)

        threading.Thread(target=live, daemon=True).start()

    with closing(ServerFolder(made.server)) as held:
        try:
            return running.serve_by_workers(held, plan, workers, threading.Event(), begin)
        finally:
            over.set()


def test_two_workers_end_with_the_model_of_one_process(tmp_path: Path) -> None:
    settings = {"factors": 4, "clusters": 3, "cohort": 9}
    made = federation(tmp_path / "f", 10, 3, "cali3f-gmf", settings=settings)
    assert served(made, 2) == server_sha256(simulated(made))
    assert not list(made.server.glob("*.journal"))


def test_who_answers_two_workers_counts_once(tmp_path: Path) -> None:
    """Answers that are in two journals, as of a node that did not hear the first worker's word: the
    sums come out as if it had sent one.
    """
    from entrenous_network.server.journal import Journal

    made, copied = federation(tmp_path / "f", nodes=6, rounds=1), list[str]()

    def copy(pool: WorkerPool[WorkerProcess], name: str, frame: bytes) -> None:
        if not copied:
            copied.append(name)
            for part in range(2):
                with closing(
                    Journal(made.server / f"round-{0:09d}-{part + 2:03d}.journal")
                ) as extra:
                    extra.append(frame)
            for worker in pool.workers:  # read again with what lies there now
                os.kill(worker.process.pid, signal.SIGKILL)

    assert served(made, 2, copy) == server_sha256(simulated(made))
    assert copied
    said = running.status(made.server)
    assert said["answers"]["accepted"] == 6


# ---- groups by lot -------------------------------------------------------------------------------


CROWD = ratings(60)


def dealt_anew(folder: Path) -> FoundedFederation:
    """Three groups by lot, of which one worker makes two. A device answers twice at most: in the
    third round too few offer in two of the groups.
    """
    groups = {"people": 8, "groups": 3, "cohort": 48}
    return by_lot(folder, rounds=3, answers=2, data=CROWD, deadline=PATIENCE, **groups)


def test_groups_by_lot_are_made_by_all_workers_with_the_bytes_of_the_simulation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = dealt_anew(tmp_path / "f")
    training = simulated(made, CROWD)
    orders: list[tuple[int, Order]] = []
    send = WorkerProcess.send

    def sent(worker: WorkerProcess, order: Order) -> None:
        orders.append((worker.process.pid, order))
        send(worker, order)

    monkeypatch.setattr(WorkerProcess, "send", sent)
    assert served(made, 2) == server_sha256(training)
    said = running.status(made.server)
    assert said["lost"] == 0
    assert any(" of 3 groups; without group " in line for line in logged(made.server))
    with closing(ServerFolder(made.server)) as held:
        standing = held.newest(made.terms.make())
    assert standing is not None
    assert standing.ledger.device_rounds == training.ledger.device_rounds
    # Two orders a round, one for each worker, which ask everybody together.
    asked = [
        (process, order.about["asked"].keys()) for process, order in orders if order.word == "sum"
    ]
    first, second = (process for process, _ in asked[:2])
    for number in range(3):
        of_round = dict(asked[2 * number : 2 * number + 2])
        assert of_round.keys() == {first, second}
        assert of_round[first] | of_round[second] == made.nodes.keys()
        assert of_round[first].isdisjoint(of_round[second])
    # Those who were at the other worker in the round before, and are there still.
    came = [
        (process, order.about["moved"].keys()) for process, order in orders if order.word == "there"
    ]
    for number in (1, 2):
        before = dict(asked[2 * number - 2 : 2 * number])
        now = dict(asked[2 * number : 2 * number + 2])
        of_round = dict(came[2 * number : 2 * number + 2])
        assert of_round[first] == now[first] & before[second]
        assert of_round[second] == now[second] & before[first]


def test_a_worker_that_is_killed_while_it_sums_groups_by_lot_loses_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is killed once: while nodes say whether their lots draw them, and in a later stage. The
    other one is told at once, since it would take those for gone whose lines the dead one had.
    """
    made = dealt_anew(tmp_path / "f")
    told: list[int] = []  # the processes that were told of the others
    before: list[list[int]] = []  # the same, before each hiring
    send, hire = WorkerProcess.send, LocalWorkers.hire

    def sends(worker: WorkerProcess, order: Order) -> None:
        if order.word == "siblings":
            told.append(worker.process.pid)
        send(worker, order)

    def hires(hiring: LocalWorkers, part: int) -> WorkerProcess:
        before.append(list(told))
        return hire(hiring, part)

    monkeypatch.setattr(WorkerProcess, "send", sends)
    monkeypatch.setattr(LocalWorkers, "hire", hires)
    count = 0
    killed: list[int] = []
    lock = threading.Lock()

    def kill(pool: WorkerPool[WorkerProcess], name: str, frame: bytes) -> None:
        nonlocal count
        with lock:
            count += 1
            if count in (25, 120):
                victim = pool.workers[len(killed)].process
                killed.append(victim.pid)
                os.kill(victim.pid, signal.SIGKILL)

    assert served(made, 2, kill) == server_sha256(simulated(made, CROWD))
    assert len(killed) == 2 and sum("has ended" in line for line in logged(made.server)) == 2
    assert running.status(made.server)["lost"] == 0
    # Once when it came up, or when the other one did, and once for the death.
    first_dead, second_dead = killed
    assert before[2].count(second_dead) == 2
    (third,) = set(before[3]) - {first_dead, second_dead}
    assert before[3].count(third) == 2
