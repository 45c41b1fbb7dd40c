"""Replicas of Ray Serve that take the answers of one server: the same model, whichever of them is
killed.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import threading
from collections.abc import Callable
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

import pytest
from federation_links import PATIENCE, federation, nodes_at, server_sha256, simulated

from entrenous.core.errors import InputError
from entrenous.deploy.agreement.certificates import make_keys
from entrenous.deploy.frames.frames import opened
from entrenous.deploy.links.https import HttpsPlan
from entrenous.deploy.operate import running
from entrenous.deploy.operate.founding import FoundedFederation
from entrenous.deploy.ray_serve import LOCAL, RayPlan, ReplicaPool, serve_by_ray
from entrenous.deploy.server.server_folder import ServerFolder
from entrenous.privacy.secure_sum.terms import Floors

installed = pytest.mark.skipif(find_spec("grpc_reflection") is None, reason="needs ray[serve]")
pytestmark = pytest.mark.timeout(600)
Each = Callable[[ReplicaPool, str, bytes], None]


def served(
    made: FoundedFederation,
    each: Each = lambda pool, name, frame: None,
    tls: bool = False,
    replicas: int = 2,
    stop: threading.Event | None = None,
) -> str | None:
    """The sha256 of the model after all rounds."""
    if tls:
        make_keys(made.server / "keys")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    https, over, at_work = (
        HttpsPlan(port=port, keys=made.server / "keys" if tls else None),
        threading.Event(),
        [],
    )

    def begin(pool: ReplicaPool) -> None:
        def live() -> None:
            with nodes_at(made, pool.address, lambda name, frame: each(pool, name, frame), tls):
                over.wait(PATIENCE)

        at_work.append(threading.Thread(target=live, daemon=True))
        at_work[0].start()

    with closing(ServerFolder(made.server)) as held:
        try:
            return serve_by_ray(
                held,
                https,
                RayPlan(LOCAL, replicas, made.server.parent / "journals"),
                stop or threading.Event(),
                begin,
            )
        finally:
            over.set()
            for thread in at_work:
                thread.join(PATIENCE)


def holders(made: FoundedFederation) -> dict[Path, int]:
    """The folders of the replicas' journals, each with the process id in its lock."""
    locks = sorted((made.server.parent / "journals").glob("*/*/lock"))
    return {lock.parent: int(lock.read_text()) for lock in locks}


@installed
@pytest.mark.parametrize("tls", [False, True])
def test_two_replicas_end_with_the_model_of_one_process(tmp_path: Path, tls: bool) -> None:
    made = federation(tmp_path / "f", nodes=10, rounds=3)
    assert served(made, tls=tls) == server_sha256(simulated(made))
    assert not list((tmp_path / "f" / "journals").rglob("*.journal"))
    assert running.status(made.server)["answers"]["accepted"] == 30


@installed
@pytest.mark.parametrize("disk", ["kept", "lost"])
def test_a_replica_that_is_killed_in_a_round_changes_nothing(tmp_path: Path, disk: str) -> None:
    """One is killed at the fifth of thirty answers, another at the seventeenth. Its successor reads
    its journal; where that is lost too, as with the whole machine, nodes are asked again and answer
    with the same bytes.
    """
    made, count, killed, lock = (
        federation(tmp_path / "f", nodes=10, rounds=3),
        [0],
        list[int](),
        threading.Lock(),
    )
    said: dict[tuple[str, str, int], set[bytes]] = {}

    def kill(pool: ReplicaPool, name: str, frame: bytes) -> None:
        with lock:
            head = opened(frame).head
            said.setdefault((head.kind, name, head.round), set()).add(frame)
            count[0] += 1
            if count[0] in (5, 17):
                folder, pid = next(
                    (folder, pid) for folder, pid in holders(made).items() if pid not in killed
                )
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)
                if disk == "lost":
                    shutil.rmtree(folder)

    assert served(made, kill) == server_sha256(simulated(made))
    assert len(killed) == 2
    assert (
        running.status(made.server)["answers"]["accepted"] == 30
    )  # what a successor read in a journal counts once
    assert all(len(frames) == 1 for (kind, *_), frames in said.items() if kind in ("update", "sum"))


@installed
def test_a_server_that_is_stopped_in_a_round_goes_on(tmp_path: Path) -> None:
    made, stop, count = federation(tmp_path / "f", nodes=10, rounds=2), threading.Event(), [0]

    def halt(pool: ReplicaPool, name: str, frame: bytes) -> None:
        count[0] += 1
        if count[0] == 15:
            stop.set()

    assert served(made, halt, stop=stop) is None
    assert served(made) == server_sha256(simulated(made))


def test_replicas_are_refused_with_masks_and_below_one(tmp_path: Path) -> None:
    masked = federation(tmp_path / "m", nodes=4, rounds=1, secure="masks", floors=Floors(2, 2))
    with pytest.raises(InputError, match="--ray"):
        served(masked)
    with pytest.raises(InputError, match="--replicas"):
        served(federation(tmp_path / "f", rounds=1), replicas=0)
