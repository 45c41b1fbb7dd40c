"""Actors of Ray that take the answers of one server: the same model as of one process, whichever of
them is killed, in the clear and under masks.
"""

from __future__ import annotations

import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from unittest.mock import MagicMock

import httpx
import pytest
from entrenous_network.agreement.certificates import make_keys
from entrenous_network.agreement.members import MEMBERS
from entrenous_network.links.https import HttpsPlan
from entrenous_network.node.node import FederatedNode
from entrenous_network.node.secure_node import inputs
from entrenous_network.operate.device import Device
from entrenous_network.operate.founding import FoundedFederation
from entrenous_network.operate.joining import join_by_link
from entrenous_network.operate.newcomers import make_link
from entrenous_network.operate.running import RayPlan
from entrenous_network.server.pool import WorkerPool
from entrenous_network.server.server import serve
from entrenous_network.server.server_folder import ServerFolder
from entrenous_ray import actors
from entrenous_ray.actors import LOCAL, HiredActor, RayWorkers, WorkerActor, serve_by_actors
from entrenous_ray.engine import EngineOptions, engine
from federation_links import (
    PATIENCE,
    by_lot,
    copied,
    federation,
    linked,
    logged,
    nodes_at,
    nodes_of,
    ratings,
    server_sha256,
    simulated,
    until,
)
from paths import HELPERS
from patient_ray import patiently
from running_by_lot import DATA, OWNER, PEOPLE, Running
from two_machines import HEAD, OTHER, NotHere, cluster, environment, two_machines

from entrenous.core.errors import InputError

pytestmark = pytest.mark.timeout(600)
Each = Callable[[WorkerPool[HiredActor], str, bytes], None]


@pytest.fixture(scope="module")
def ray() -> Iterator[None]:
    """Starts Ray once for the servers of several tests: a server uses one that runs already."""
    with patiently(lambda: engine(EngineOptions(workers=2, ray=None, threads=1))):
        yield


def served(
    made: FoundedFederation,
    each: Each = lambda pool, name, frame: None,
    stop: threading.Event | None = None,
) -> str | None:
    """The sha256 of the model after all rounds, by two actors of this machine."""
    make_keys(made.server / "keys")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    https = HttpsPlan(port=port, keys=made.server / "keys")
    over, at_work = threading.Event(), list[threading.Thread]()

    def begin(pool: WorkerPool[HiredActor]) -> None:
        def live() -> None:
            with nodes_at(made, pool.address, lambda name, frame: each(pool, name, frame)):
                over.wait(PATIENCE)

        at_work.append(threading.Thread(target=live, daemon=True))
        at_work[0].start()

    plan = RayPlan(LOCAL, made.server.parent / "actors")
    stop = stop or threading.Event()
    with closing(ServerFolder(made.server)) as held:
        try:
            return serve_by_actors(held, https, 2, stop, begin, plan=plan)
        finally:
            over.set()
            for thread in at_work:
                thread.join(PATIENCE)


def killing(at: tuple[int, ...]) -> tuple[Each, list[int]]:
    """Kills an actor at some of the answers, one after the other; and the list of who was."""
    lock, count, killed = threading.Lock(), [0], list[int]()

    def kill(pool: WorkerPool[HiredActor], name: str, frame: bytes) -> None:
        with lock:
            count[0] += 1
            if count[0] in at:
                victim = pool.standing[len(killed)].process
                killed.append(victim)
                os.kill(victim, signal.SIGKILL)

    return kill, killed


def masked(folder: Path) -> FoundedFederation:
    return by_lot(folder, rounds=2, data=ratings(60), people=8, groups=2, cohort=34, deadline=240.0)


@pytest.mark.usefixtures("ray")
def test_an_actor_that_is_killed_in_a_masked_sum_changes_nothing(tmp_path: Path) -> None:
    made = masked(tmp_path / "f")
    alone, actors = copied(made, tmp_path / "alone"), copied(made, tmp_path / "actors")
    link = linked(nodes_of(alone))
    whole = serve(link, alone.server)
    kill, killed = killing((80, 200))
    assert served(actors, kill) == whole
    assert len(killed) == 2
    for name, node in nodes_of(alone).items():
        with closing(node), closing(FederatedNode(actors.nodes[name])) as own:
            assert inputs(own.store) == inputs(node.store)
            assert own.recommender()[0] == 2


@pytest.mark.slow
@pytest.mark.usefixtures("ray")
def test_a_server_that_is_stopped_in_a_round_goes_on(tmp_path: Path) -> None:
    made, stop, count = federation(tmp_path / "f", nodes=10, rounds=2), threading.Event(), [0]

    def halt(pool: WorkerPool[HiredActor], name: str, frame: bytes) -> None:
        count[0] += 1
        if count[0] == 15:
            stop.set()

    assert served(made, halt, stop) is None
    assert served(made) == server_sha256(simulated(made))


@pytest.mark.usefixtures("ray")
def test_who_joins_by_a_link_at_actors_is_handed_the_model(tmp_path: Path) -> None:
    """Actors have the lists in folders of their machines, and stay when somebody has joined."""
    late = tmp_path / "late"
    with closing(Running(tmp_path)) as own:
        plan = RayPlan(LOCAL, tmp_path / "actors")
        pool = own.start_workers(0.2, partial(serve_by_actors, plan=plan))
        processes = [standing.process for standing in pool.standing]
        link = make_link(own.folder, uses=1, days=1, an_hour=10)
        join_by_link(late, str(link), DATA.of_users([PEOPLE]), OWNER)
        own.run(late)
        with closing(Device(late)) as device:
            until(lambda: has_a_list(device))
        assert [standing.process for standing in pool.standing] == processes
        for part in range(2):
            lists = tmp_path / "actors" / own.made.terms.run / f"{part:03d}" / MEMBERS
            assert lists.read_bytes() == (own.made.server / MEMBERS).read_bytes()


def has_a_list(device: Device) -> bool:
    try:
        return bool(device.recommend().items)
    except InputError:
        return False


@pytest.mark.slow
@pytest.mark.parametrize("words", [[], ["kill"]], ids=["whole", "killed"])
def test_actors_on_two_machines_end_with_the_model_of_one_process(
    tmp_path: Path, words: list[str]
) -> None:
    """Masked sums in groups, by one actor in each of two network namespaces; half of the nodes
    connect to either machine, so that some of each group are passed on to the other. One actor is
    killed in the midst of a sum.
    """
    made = masked(tmp_path / "f")
    alone = copied(made, tmp_path / "alone")
    link = linked(nodes_of(alone))
    whole = serve(link, alone.server)
    for name in ("server.crt", "server.key"):
        (made.server / "keys" / name).unlink()
    make_keys(made.server / "keys", names=[HEAD, OTHER])
    try:
        with two_machines() as machines, cluster(machines):
            program = [
                sys.executable,
                str(HELPERS / "two_machines.py"),
                str(made.server),
                *words,
            ]
            command = ["ip", "netns", "exec", machines.first, *program]
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=300, env=environment()
            )
    except NotHere as why:
        pytest.skip(f"needs two network namespaces: {why}")
    assert done.stdout.split()[-1:] == [whole], done.stderr[-2000:]
    ends = sum("has ended" in line for line in logged(made.server))
    assert ends == (1 if words else 0)
    for node in nodes_of(made).values():
        with closing(node):
            assert inputs(node.store) == 2


def test_actors_let_the_same_pages_in_as_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An actor in this process, without Ray."""
    monkeypatch.setattr(actors, "_own_address", lambda: "127.0.0.1")
    made = federation(tmp_path / "f", nodes=2, rounds=1)
    make_keys(made.server / "keys")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    page = "https://app.example"
    https = HttpsPlan("0.0.0.0", port, made.server / "keys", origins=(page,))
    with closing(ServerFolder(made.server)) as held:
        own = RayPlan(LOCAL, tmp_path / "actors")
        plan = RayWorkers(MagicMock(), held, https, own, 1)._plan
    actor = WorkerActor()
    assert actor.begin(plan) == "127.0.0.1"
    base = f"https://127.0.0.1:{port}"
    asked = {"origin": page, "access-control-request-method": "POST"}
    trust = ssl.create_default_context(cafile=made.server / "keys" / "ca.crt")
    try:
        with httpx.Client(verify=trust, trust_env=False, timeout=60, base_url=base) as client:
            until(lambda: is_open(port))
            answer = client.options("/v1/answer", headers=asked)
    finally:
        actor.end()
    assert answer.headers["access-control-allow-origin"] == page


def is_open(port: int) -> bool:
    """Whether somebody listens on a port of this machine."""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 5):
        return True
    return False
