"""Real processes, more slowly: no word to anybody outside, what strangers do to the nodes' port, kills at any moment, memory."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from paths import PYTHONPATH

pytest.importorskip("flwr")

from entrenous.deploy.flower.superlink import Supervisor
from tests.deploy.flower.test_superlink import HERE, PATIENCE, node_of, nodes_at, plan_of, rounds_of, until

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def parts_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", PYTHONPATH)


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_nothing_but_this_machine_is_called(tmp_path: Path) -> None:
    """Every connect() of supervisor, SuperLink, server and nodes is to loopback; names are not even looked up."""
    plan_of(tmp_path, ["a", "b"])
    trace = tmp_path / "trace"
    command = ["strace", "-f", "-qq", "-e", "trace=connect,sendto", "-o", str(trace), sys.executable]
    command += [str(HERE / "flower_processes.py"), "federation", str(tmp_path)]
    assert subprocess.run(command, timeout=200).returncode == 0
    assert len(rounds_of(tmp_path)) == 3
    addresses = set(re.findall(r'sin6?_addr=inet_[a-z]+\((?:AF_INET6, )?"([^"]+)"', trace.read_text()))
    addresses |= set(re.findall(r'inet_addr\("([^"]+)"\)', trace.read_text()))
    assert addresses <= {"127.0.0.1", "::1"}
    assert "127.0.0.1" in addresses


def test_r1_twenty_kills_of_superlink_and_server_at_random_moments(tmp_path: Path) -> None:
    """SuperLink and server by turns, killed while rounds run; every round is played once, in order."""
    names, draw = ["a", "b"], random.Random(7)
    plan = plan_of(tmp_path, names, rounds=10_000, again=2.0, size=200_000)
    with Supervisor(plan, lambda _: None) as running, nodes_at(running.address, [node_of(tmp_path, name) for name in names]):
        for turn in range(20):
            running._deaths = {"superlink": [], "server": []}
            done = len(rounds_of(tmp_path))
            until(running, lambda done=done: len(rounds_of(tmp_path)) > done, 90)  # type: ignore[misc]
            end = time.monotonic() + draw.uniform(0, 1.5)
            until(running, lambda end=end: time.monotonic() > end, 5)  # type: ignore[misc]
            os.kill(running.pids[("superlink", "server")[turn % 2]], signal.SIGKILL)
        done = len(rounds_of(tmp_path))
        until(running, lambda: len(rounds_of(tmp_path)) >= done + 3, PATIENCE)
    assert [each["round"] for each in rounds_of(tmp_path)] == list(range(len(rounds_of(tmp_path))))


def test_b31_strangers_at_the_nodes_port(tmp_path: Path) -> None:
    """A3-like: heads that never end, handshakes that never begin, bodies of 2 GB, 200 connections; rounds go on, memory stays."""
    names = ["a", "b"]
    plan = plan_of(tmp_path, names, rounds=10_000, pause=0.2)
    with Supervisor(plan, lambda _: None) as running, nodes_at(running.address, [node_of(tmp_path, name) for name in names]):
        until(running, lambda: len(rounds_of(tmp_path)) >= 3, PATIENCE)
        memory, host, port = _memory(running.pids["superlink"]), *running.address.split(":")
        context = ssl.create_default_context(cafile=str(tmp_path / "keys" / "ca.crt"))

        def connected() -> ssl.SSLSocket:
            return context.wrap_socket(socket.create_connection((host, int(port)), 10), server_hostname=host)

        bare = [socket.create_connection((host, int(port)), 10) for _ in range(100)]
        heads = [connected() for _ in range(100)]
        for each in heads:
            each.sendall(b"POST /v1/fleet/pull-messages HTTP/1.1\r\nHost: x\r\nX-Slow: ")
        large = connected()
        large.sendall(b"POST /v1/fleet/push-object HTTP/1.1\r\nHost: x\r\nContent-Length: 2147483648\r\n\r\n")
        assert large.recv(100).startswith(b"HTTP/1.1 413")
        unsigned = connected()
        unsigned.sendall(b"POST /v1/fleet/push-object HTTP/1.1\r\nHost: x\r\nContent-Length: 3000000\r\n\r\n")
        assert unsigned.recv(100).startswith(b"HTTP/1.1 401")
        chunked = connected()
        chunked.sendall(b"POST /v1/fleet/push-object HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        assert chunked.recv(100).startswith(b"HTTP/1.1 411")
        endless = connected()
        endless.sendall(b"POST /v1/fleet/push-object HTTP/1.1\r\nHost: x\r\nX-Long: ")
        with pytest.raises(OSError):
            for _ in range(4096):  # 256 MB
                endless.sendall(b"x" * 65536)
        done = len(rounds_of(tmp_path))
        until(running, lambda: len(rounds_of(tmp_path)) >= done + 5, PATIENCE)
        for each in heads:  # hung up on
            each.settimeout(PATIENCE)
            assert each.recv(1) == b""
        until(running, lambda: _connections(running.pids["superlink"], int(port)) < 50, PATIENCE)
        assert _memory(running.pids["superlink"]) < memory + 100  # 200 TLS connections of 256 KB, and what Flower caches
        for each in [*bare, *heads, large, unsigned, chunked]:
            each.close()


def test_memory_and_database_stay_small(tmp_path: Path) -> None:
    """Two minutes of rounds with 1 MB frames: the SuperLink's memory and its database end where they were after a quarter of it."""
    names = ["a", "b"]
    plan = plan_of(tmp_path, names, rounds=10_000, size=1_000_000)
    with Supervisor(plan, lambda _: None) as running, nodes_at(running.address, [node_of(tmp_path, name) for name in names]):
        started, sizes = time.monotonic(), list[tuple[float, float]]()
        while time.monotonic() - started < 120:
            end = time.monotonic() + 5
            until(running, lambda end=end: time.monotonic() > end, 10)  # type: ignore[misc]
            disk = sum(file.stat().st_size for file in running.folder.glob("state.db*")) / 1e6
            sizes.append((_memory(running.pids["superlink"]), disk))
        quarter = sizes[len(sizes) // 4]
        assert len(rounds_of(tmp_path)) > 30
        assert sizes[-1][0] < quarter[0] + 30, sizes
        assert sizes[-1][1] < quarter[1] + 30, sizes


def _memory(pid: int) -> float:
    """Resident, MB."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def _connections(pid: int, port: int) -> int:
    """Established ones at `port` of this machine, as the kernel counts them (process `pid` holds the other end)."""
    lines = Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]
    return sum(line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "01" for line in lines)


def test_fifty_nodes_in_one_process(tmp_path: Path) -> None:
    names = [f"n{number:02}" for number in range(50)]
    plan = plan_of(tmp_path, names, rounds=3, again=60.0)
    with (
        Supervisor(plan, lambda _: None) as running,
        nodes_at(running.address, [node_of(tmp_path, name) for name in names]) as said,
    ):
        assert until(running, lambda: False, 200)
    assert [each["again"] for each in rounds_of(tmp_path)] == [0, 0, 0]
    assert said == []
    assert threading.active_count() < 20
