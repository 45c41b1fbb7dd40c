"""Real processes: a SuperLink behind its gate, our server's process, nodes as threads and as processes; kills, refusals, the end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("flwr")

from paths import HELPERS, PYTHONPATH

from entrenous.core.errors import EntrenousError, InputError
from entrenous.deploy.flower.keys import Keys, load_node_keys, make_keys
from entrenous.deploy.flower.node import FlowerNode, serve, serve_many
from entrenous.deploy.flower.superlink import SuperlinkPlan, Supervisor, supervise

HERE = HELPERS
PATIENCE = 240.0  # seconds for what takes one on an idle machine: nothing is measured by it


@pytest.fixture(autouse=True)
def parts_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", PYTHONPATH)


def echo(frame: bytes) -> bytes:
    return frame


def plan_of(state: Path, names: list[str], *, target: str = "rounds", **rounds: float) -> SuperlinkPlan:
    make_keys(state / "keys", names)
    (state / "plan.json").write_text(
        json.dumps({"nodes": len(names), "rounds": 3, "size": 100, "again": 5.0, "pause": 0.0, **rounds})
    )
    return SuperlinkPlan(state=state, port=0, keys=state / "keys", target=f"flower_processes:{target}")


def node_of(state: Path, name: str) -> FlowerNode:
    return FlowerNode(load_node_keys(state / "keys" / "ca.crt", state / "keys" / "nodes" / f"{name}.key"), echo)


@contextmanager
def nodes_at(address: str, nodes: list[FlowerNode]) -> Iterator[list[str]]:
    stop, said = threading.Event(), list[str]()
    thread = threading.Thread(target=serve_many, args=(address, nodes, stop), kwargs={"say": said.append})
    thread.start()
    try:
        yield said
    finally:
        stop.set()
        thread.join(PATIENCE)
        assert not thread.is_alive()


def until(running: Supervisor, there: Callable[[], bool], seconds: float) -> bool:
    """Steps the supervisor until `there()`; whether the server is done."""
    end = time.monotonic() + seconds
    while not there():
        assert time.monotonic() < end, f"not within {seconds} s: {(running.folder / 'server.log').read_text()[-2000:]}"
        if running.step():
            return True
        time.sleep(0.05)
    return False


def rounds_of(state: Path) -> list[dict[str, float]]:
    log = state / "rounds.jsonl"
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def never() -> bool:
    return False


def test_frames_go_and_come_over_tls_and_the_server_returns(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, ["a", "b"], rounds=3, size=2_400_000)
    with (
        Supervisor(plan, lambda _: None) as running,
        nodes_at(running.address, [node_of(tmp_path, name) for name in "ab"]) as said,
    ):
        assert until(running, never, PATIENCE)
    assert [each["round"] for each in rounds_of(tmp_path)] == [0, 1, 2]
    assert said == []
    assert sum(file.stat().st_size for file in running.folder.glob("*.log")) < 20_000


def test_a10_who_is_refused_and_how(tmp_path: Path) -> None:
    """A10: one line each, at the first connection."""
    plan = plan_of(tmp_path, ["a"], target="forever")
    make_keys(tmp_path / "other", ["a", "stranger"])
    good, stranger = node_of(tmp_path, "a").keys, load_node_keys(None, tmp_path / "other" / "nodes" / "stranger.key")
    other_ca = (tmp_path / "other" / "ca.crt").read_bytes()
    wrong = {
        "not registered": Keys(good.ca, stranger.private),
        "no key was given": Keys(good.ca, None),
        "not to be trusted": Keys(other_ca, good.private),
        "hangs up on plain text": Keys(None, good.private),
    }
    said_by: list[str] = []
    with Supervisor(plan, said_by.append) as running:
        for line, keys in wrong.items():
            with pytest.raises(InputError, match=line) as refusal:
                serve(running.address, keys, echo, threading.Event())
            assert "\n" not in str(refusal.value)
        until(running, (tmp_path / "serving").exists, PATIENCE)
        (tmp_path / "keys" / "nodes" / "broken.pub").write_text("no key at all")
        (tmp_path / "other" / "nodes" / "stranger.pub").rename(tmp_path / "keys" / "nodes" / "stranger.pub")
        running._looked = 0.0
        running.step()  # its key is let in while the server runs
        with nodes_at(running.address, [FlowerNode(wrong["not registered"], echo)]) as said:
            time.sleep(1.0)
        assert said == []
        (tmp_path / "keys" / "nodes" / "broken.pub").unlink()
        (tmp_path / "keys" / "nodes" / "stranger.pub").rename(tmp_path / "stranger.pub")
        running._looked = 1.0
        running.step()  # its file is gone, and so is its right
        with pytest.raises(InputError, match="not registered"):
            serve(running.address, wrong["not registered"], echo, threading.Event())
        (tmp_path / "stranger.pub").rename(tmp_path / "keys" / "nodes" / "stranger.pub")
        running._looked = 1.0
        running.step()
        assert said_by[-1] == "stranger was shut out before and may not connect; it needs a new key"
        _the_operators_calls_are_not_for_everybody(running, good.ca)


def _the_operators_calls_are_not_for_everybody(running: Supervisor, ca: bytes | None) -> None:
    import httpx

    from entrenous.deploy.flower.control import operator, start_run

    private, _, secret = running._operator()
    for address, shown, status in ((running.address, secret, 404), (private, "guessed", 401)):
        with operator(address, ca, shown) as client, pytest.raises(httpx.HTTPStatusError) as refused:
            start_run(client, {})
        assert refused.value.response.status_code == status


def test_killed_superlink_server_and_node_are_survived(tmp_path: Path) -> None:
    names = ["a", "b", "c"]
    plan = plan_of(tmp_path, names, rounds=9, again=3.0, pause=0.1)
    said: list[str] = []
    with Supervisor(plan, said.append) as running:
        nodes = {name: _node_process(running.address, tmp_path, name) for name in names}
        try:
            until(running, lambda: len(rounds_of(tmp_path)) >= 2, PATIENCE)
            os.kill(running.pids["superlink"], signal.SIGKILL)
            until(running, lambda: len(rounds_of(tmp_path)) >= 4, PATIENCE)
            os.kill(int((tmp_path / "server.pid").read_text()), signal.SIGKILL)
            until(running, lambda: len(rounds_of(tmp_path)) >= 6, PATIENCE)
            nodes["a"].kill()
            nodes["a"].wait()
            nodes["a"] = _node_process(running.address, tmp_path, "a")
            assert until(running, never, PATIENCE)
        finally:
            for node in nodes.values():
                node.kill()
                node.wait()
    assert [each["round"] for each in rounds_of(tmp_path)] == list(range(9))
    assert len({each["pid"] for each in rounds_of(tmp_path)}) == 2
    assert [line for line in said if "died" in line] == [
        "the superlink has died (SIGKILL); starting it again",
        "the server has died (SIGKILL); starting it again",
    ]


def _node_process(address: str, state: Path, name: str) -> subprocess.Popen[bytes]:
    keys = state / "keys"
    arguments = ["node", address, str(keys / "ca.crt"), str(keys / "nodes" / f"{name}.key")]
    return subprocess.Popen([sys.executable, str(HERE / "flower_processes.py"), *arguments])


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGKILL, marks=pytest.mark.slow)])
def test_the_end_of_the_supervisor_is_the_end_of_all(tmp_path: Path, number: signal.Signals) -> None:
    command = [sys.executable, str(HERE / "flower_processes.py"), "supervisor", str(tmp_path), str(_free_port()), "forever"]
    supervisor = subprocess.Popen(command)
    try:
        _wait(lambda: (tmp_path / "serving").exists())
        children = _children(supervisor.pid)
        assert len(children) == 2
        supervisor.send_signal(number)
        assert supervisor.wait(PATIENCE) == (0 if number == signal.SIGTERM else -signal.SIGKILL)
        _wait(lambda: not any(map(_alive, children)))
    finally:
        supervisor.kill()
        supervisor.wait()


def test_a_server_that_refuses_says_why(tmp_path: Path) -> None:
    plan = SuperlinkPlan(state=tmp_path, port=0, target="flower_processes:refuses")
    with pytest.raises(EntrenousError, match="plan: asks for the impossible"):
        supervise(plan, threading.Event(), lambda _: None)


def test_a10_plain_text_is_for_loopback(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"plain text to 0\.0\.0\.0"):
        Supervisor(SuperlinkPlan(state=tmp_path, host="0.0.0.0"))
    with pytest.raises(InputError, match=r"plain text to 192\.0\.2\.1"):
        serve("192.0.2.1:8443", Keys(), echo, threading.Event())
    Supervisor(SuperlinkPlan(state=tmp_path, host="0.0.0.0", insecure=True))


def _free_port() -> int:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def _children(parent: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def _wait(there: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not there():
        assert time.monotonic() < end
        time.sleep(0.05)
