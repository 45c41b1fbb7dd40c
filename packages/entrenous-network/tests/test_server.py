"""A server: what happens to a round when it is killed, stopped, or out of disk, when nodes are away
or late, and what it writes into its log (R2, R3, R6-R11, C1-C3, C6, A9 of research/privacy.md,
5.4).
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import tempfile
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dying_processes import commit_and_die, serve_as_nobody, take_and_die
from entrenous_lab.memory_link import MemoryServerLink
from entrenous_network.frames.frames import opened
from entrenous_network.node.node import FederatedNode
from entrenous_network.server import exchange
from entrenous_network.server import server as server_module
from entrenous_network.server.intake import Open
from entrenous_network.server.server import serve
from entrenous_network.server.server_folder import ServerFolder
from federation_links import (
    PATIENCE,
    FaultyLink,
    Hub,
    answers_of,
    federation,
    finished,
    logged,
    nodes_of,
    process,
    server_of,
    server_sha256,
    serving,
    simulated,
    until,
    virtual_time,
)

from entrenous.core.errors import InputError
from entrenous.runs import store

KILLED = -signal.SIGKILL
NOBODY = 65534


def linked(founded, **how: Any) -> FaultyLink:
    """All nodes of a federation, on a link."""
    return FaultyLink(answers_of(nodes_of(founded)), **how)


# ---- R2, R3: killed between two steps ------------------------------------------------------------


def test_r2_killed_between_journal_and_acknowledgement(tmp_path, record_property):
    """It is in the journal once, the node sends it again, and it counts once."""
    times = 5
    founded = federation(tmp_path / "f", nodes=times, rounds=1)
    answers: list[bytes] = []

    def heard(node: FederatedNode, frame: bytes) -> bytes:
        answers.append(node.answer(frame))
        return answers[-1]

    link = FaultyLink({name: partial(heard, node) for name, node in nodes_of(founded).items()})
    assert serve(link, founded.server) == server_sha256(simulated(founded))
    answers = [frame for frame in answers if opened(frame).head.kind in ("update", "sum")]
    once = 0
    for frame in answers:
        number, folder = opened(frame).head.round, tmp_path / str(opened(frame).head.round)
        if not folder.exists():
            shutil.copytree(
                founded.server,
                folder,
                ignore=shutil.ignore_patterns("checkpoint-*", "*.journal", "model.*", "lock"),
            )
        child = process(take_and_die, str(folder), frame)
        child.join(PATIENCE)
        assert child.exitcode == KILLED
        held = ServerFolder(folder)
        recorded = held.recorded(number)
        intake, asked = (
            server_of(held).collecting.intake,
            held.members.by_node(np.arange(held.terms.users)),
        )
        intake.begin(Open(number, opened(frame).head.model, asked), held.journal(number), recorded)
        before = intake.total.devices
        assert intake.receive(frame).code.value == "duplicate"
        assert (
            intake.total.devices == before == sum(len(asked[opened(one).node]) for one in recorded)
        )
        once += recorded.count(frame) == 1
        held.close()
    record_property("measured", f"{once}/{times} counted once")
    assert once == times == len(answers)


STEPS = (
    "open",
    "write",
    "flush",
    "replace",
    "open folder",
    "flush folder",
    "remove old",
    "remove journal",
)


@pytest.fixture(scope="module")
def two_rounds_done(tmp_path_factory):
    """Two nodes, 4 rounds, of which 2 are done: the third checkpoint is the first that replaces
    one.
    """
    founded, stop = (
        federation(tmp_path_factory.mktemp("r3") / "f", nodes=2, rounds=4),
        threading.Event(),
    )
    assert (
        serve(
            linked(founded), founded.server, stop, lambda done, of, what: done == 2 and stop.set()
        )
        is None
    )
    return founded


@pytest.mark.parametrize("step", STEPS)
def test_r3_killed_while_a_checkpoint_is_written(step, two_rounds_done, tmp_path):
    """The process dies at each step of writing checkpoint 4; what loads then is checkpoint 3 or 4,
    and the run ends as it should.
    """
    root = tmp_path / "f"
    shutil.copytree(two_rounds_done.server.parent, root)
    child = process(commit_and_die, str(root), step)
    child.join(PATIENCE)
    assert child.exitcode == KILLED
    folder = ServerFolder(root / "server")
    number = folder.newest(two_rounds_done.terms.make())[0]
    folder.close()
    assert number == (3 if step in ("open", "write", "flush", "replace") else 4)
    assert not list((root / "server").glob(".*.tmp"))  # what was left half-written is gone
    nodes = {path.name: FederatedNode(path) for path in sorted((root / "nodes").iterdir())}
    digest = serve(FaultyLink(answers_of(nodes)), root / "server")
    assert digest == server_sha256(simulated(two_rounds_done))


# ---- R6, R7, R8: disks and folders ---------------------------------------------------------------


@pytest.mark.parametrize(
    "how", ["read-only", "read-only, but for the lock", "wrong owner", "journal of another"]
)
def test_r7_a_folder_that_cannot_be_used_is_refused_before_round_1(how, tmp_path):
    root = Path(tempfile.mkdtemp(prefix="entrenous-r7-", dir="/tmp"))
    try:
        root.chmod(0o755)
        founded = federation(root / "f", nodes=2)
        folder, said = founded.server, root / "said"
        said.touch(0o666)
        said.chmod(0o666)
        for path in (root / "f", folder):
            path.chmod(0o755)
        if how != "wrong owner" and os.geteuid() == 0:
            os.chown(folder / "identity.key", NOBODY, NOBODY)
        if "but for" in how:
            for name in ("lock", "server.log"):
                (folder / name).touch()
                (folder / name).chmod(0o666)
        if how == "journal of another":
            folder.chmod(0o777)
            (folder / "server.log").touch(0o600)
        if os.geteuid() != 0:
            if how in ("wrong owner", "journal of another"):
                pytest.skip("only root can make files of another owner")
            folder.chmod(0o555)
        child = process(serve_as_nobody, str(folder), str(said))
        child.join(PATIENCE)
        error = said.read_text()
        assert child.exitcode == 0 and str(folder) in error and "\n" not in error, error
        assert ("no key can be read" if how == "wrong owner" else "cannot be written") in error
        assert not list(folder.glob("round-*")) and not list(folder.glob("checkpoint-*"))
    finally:
        (root / "f" / "server").chmod(0o755)
        shutil.rmtree(root)


# ---- R9, R10, R11: told to stop, clocks, versions ------------------------------------------------


def test_r9_sigterm_ends_a_server_cleanly_and_it_goes_on_later(tmp_path, record_property):
    founded, rng, took = federation(tmp_path / "f", nodes=10, rounds=8), random.Random(9), []
    hub = Hub(tmp_path / "hub", answers_of(nodes_of(founded)))
    for part in range(3):
        server, at = serving(founded.server, hub.addresses), 25 * part + rng.randint(5, 25)
        until(lambda at=at: hub.answered >= at)
        began = time.monotonic()
        server.terminate()
        server.join(PATIENCE)
        took.append(time.monotonic() - began)
        assert server.exitcode == 0 and logged(founded.server)[-1] == "stopped"
    assert finished(serving(founded.server, hub.addresses), founded.server) == server_sha256(
        simulated(founded)
    )
    record_property("measured", f"3 times, at most {max(took):.2f} s")


def test_r10_clocks_that_jump(tmp_path, monkeypatch):
    """Wall clocks jump by an hour to and fro at every look, with every message lost, late or
    repeated at times: nothing is lost, nothing counts twice, and old answers stay refused."""
    monkeypatch.setattr(exchange, "AGAIN", 0.05)
    founded, rng = federation(tmp_path / "f", rounds=5), random.Random(10)
    whole, gmtime = time.time, time.gmtime
    monkeypatch.setattr(time, "time", lambda: whole() + 3600 * rng.choice((-1, 1)))
    monkeypatch.setattr(time, "gmtime", lambda *a: gmtime(whole() + 3600 * rng.choice((-1, 1))))
    link = linked(
        founded,
        fate=lambda stage, address: rng.choice(([], [0.0], [0.0], [0.0, 0.02], [0.01, 0.1])),
    )
    assert serve(link, founded.server) == server_sha256(simulated(founded))
    answers = json.loads((founded.server / "status.json").read_text())["answers"]
    assert answers["accepted"] == 20 and set(answers) <= {
        "accepted",
        "duplicate",
        "past-round",
        "late",
    }


@pytest.mark.parametrize("found", ["newer", "older"])
def test_r11_a_checkpoint_of_another_format_is_refused_by_version(found, two_rounds_done, tmp_path):
    root = tmp_path / "f"
    shutil.copytree(two_rounds_done.server.parent, root)
    folder = root / "server"
    arrays, _ = store.read_arrays(folder / "checkpoint-server-000000002.safetensors")
    about = {
        "run": two_rounds_done.terms.run,
        **({"format": "10", "version": "9.1"} if found == "newer" else {}),
    }
    store.write_checkpoint(folder, "server", 2, arrays, **about)
    expected = (
        "format 10, written by entrenous 9.1; expected format 9; use entrenous 9.1"
        if found == "newer"
        else "format None; expected format 9"
    )
    with pytest.raises(InputError, match=expected):
        serve(MemoryServerLink({}), folder)


# ---- C1-C3: nodes that are away or late ----------------------------------------------------------


def test_c2_below_the_quorum_a_round_is_not_counted(tmp_path, monkeypatch):
    founded, clock = federation(tmp_path / "f", quorum=0.6, deadline=0.4), virtual_time(monkeypatch)

    class Returning(FaultyLink):
        """Half of the nodes come after a second."""

        def present(self) -> list[str]:
            self.absent = {"node-2", "node-4"} if clock.now < 1.0 else set()
            if self.absent:
                assert not list(founded.server.glob("checkpoint-*"))
            return super().present()

    nodes = nodes_of(founded)
    digest = serve(Returning(answers_of(nodes)), founded.server)
    lines = [line for line in logged(founded.server) if "quorum" in line]
    assert 1 <= len(lines) <= 5
    assert (
        lines[0]
        == "round 0: 50% of the users in 0.4 s, the quorum is 60%; not counted, the model is"
        " unchanged, the others are asked again"
    )
    assert digest == server_sha256(simulated(founded))


def test_c2b_with_nobody_there_it_waits_and_stops_when_told(tmp_path):
    founded = federation(tmp_path / "f", quorum=0.5, deadline=0.5)
    server = serving(founded.server, {"node-1": str(tmp_path / "nobody")})
    until(
        lambda: (
            (founded.server / "server.log").exists()
            and sum("not counted" in line for line in logged(founded.server)) >= 2
        )
    )
    server.terminate()
    server.join(PATIENCE)
    assert server.exitcode == 0
    assert not list(founded.server.glob("checkpoint-*")) and logged(founded.server)[-1] == "stopped"


def test_c3_stragglers_are_late_and_change_nothing(tmp_path, record_property, monkeypatch):
    """One node of five answers ten times too late: rounds end at their deadline, what it sends then
    is refused as late.
    """
    monkeypatch.setattr(server_module, "FAREWELL", 1.0)
    clock, digests, took = virtual_time(monkeypatch), {}, []
    for how in ("late", "never"):
        founded = federation(
            tmp_path / how, nodes=5, rounds=4, quorum=0.7, deadline=0.5, nonce="the same"
        )

        def fate(stage: str, address: str, how: str = how) -> list[float]:
            slow = address == "node-5" and stage == "answer"
            return [0.0] if not slow else [0.75] if how == "late" else []

        times = [clock.now]
        digests[how] = serve(
            linked(founded, fate=fate),
            founded.server,
            None,
            lambda *_, times=times: times.append(clock.now),
        )
        took += np.diff(times).tolist()
        assert [line for line in logged(founded.server) if line.startswith("round")] == [
            f"round {n}: 16 of 20 devices" for n in range(4)
        ]
        if how == "late":
            answers = json.loads((founded.server / "status.json").read_text())["answers"]
            assert (
                answers["late"] >= 3
                and answers["accepted"] == 16
                and set(answers) == {"late", "accepted"}
            )
            assert (
                sum(line == "refused late from node-5" for line in logged(founded.server))
                == answers["late"]
            )
    assert digests["late"] == digests["never"]
    record_property(
        "measured", f"rounds of at most {max(took):.2f} s, of virtual time, at a deadline of 0.5 s"
    )
    assert 0.5 <= max(took) <= 0.5 + exchange.POLL
