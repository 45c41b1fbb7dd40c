"""The command over Ray: its output is that of one process, whoever is killed, and no process is
left. On real processes.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import write_shop
from process_tree import PATIENCE, command_of, descendants, there, until

from entrenous import run
from entrenous.runs.store import read_manifest

ray = pytest.importorskip("ray")

ROUNDS = 500
PROGRESS = re.compile(r"(round|evaluated user) \d+/\d+")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_shop(tmp_path_factory.mktemp("shop") / "shop.csv", users=80, rows=15)


@pytest.fixture(scope="module")
def expected(data: Path) -> str:
    return str(
        run("fbalf-bayes", str(data), protocol="random-80-20", rounds=ROUNDS, threads=1).manifest[
            "model_sha256"
        ]
    )


def begun(data: Path, out: Path, *options: str) -> subprocess.Popen[str]:
    """`entrenous run` in a process of its own, whose rounds are seen on stderr."""
    command = [
        sys.executable,
        "-m",
        "entrenous",
        "run",
        "fbalf-bayes",
        "--data",
        str(data),
        "--protocol",
        "random-80-20",
    ]
    command += [
        "--rounds",
        str(ROUNDS),
        "--checkpoint-every",
        "20",
        "--json",
        "--out",
        str(out),
        *options,
    ]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def resumed(out: Path, *options: str) -> dict[str, Any]:
    """What `entrenous run --resume` prints."""
    (folder,) = out.iterdir()
    command = [
        sys.executable,
        "-m",
        "entrenous",
        "run",
        "--resume",
        folder.name,
        "--out",
        str(out),
        "--json",
        *options,
    ]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def checkpointed(out: Path) -> bool:
    """Whether a run has rounds behind it."""
    return bool(list(out.glob("*/checkpoint-*.safetensors")))


def workers(processes: list[int]) -> list[int]:
    """Those that have users."""
    return [one for one in processes if b"ray::ShardHand" in command_of(one)]


def test_a_worker_is_killed_and_the_output_is_one_json_with_the_same_model(
    data: Path, expected: str, tmp_path: Path
) -> None:
    process = begun(data, tmp_path, "--workers", "2", "--threads", "1")
    until(lambda: checkpointed(tmp_path))
    processes = descendants(process.pid)
    hands = workers(processes)
    assert len(hands) == 2
    os.kill(hands[0], signal.SIGKILL)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    assert out.count("\n") == 1 and json.loads(out)["model_sha256"] == expected
    said = [line for line in err.splitlines() if not PROGRESS.fullmatch(line)]
    said = [line for line in said if not line.startswith(("evaluated ", "profile paper: "))]
    assert (
        len(said) == 1
        and said[0].startswith("warning: worker ")
        and f"(process {hands[0]} on " in said[0]
    ), said
    assert len(processes) > 4 and not [one for one in processes if there(one)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("end", "code", "again"),
    [(signal.SIGKILL, -9, ["--workers", "3"]), (signal.SIGTERM, 143, []), (signal.SIGINT, 130, [])],
)
def test_a_run_that_is_ended_leaves_no_process_and_goes_on(
    end: int, code: int, again: list[str], data: Path, expected: str, tmp_path: Path
) -> None:
    process = begun(data, tmp_path, "--workers", "2", "--threads", "1")
    until(lambda: checkpointed(tmp_path))
    processes = descendants(process.pid)
    os.kill(process.pid, end)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == code and "Traceback" not in err
    until(
        lambda: not [one for one in processes if there(one)]
    )  # after SIGKILL two of Ray's agents take a minute
    assert resumed(tmp_path, *again)["model_sha256"] == expected


@pytest.mark.slow
def test_what_began_in_one_process_goes_on_in_workers(
    data: Path, expected: str, tmp_path: Path
) -> None:
    process = begun(data, tmp_path, "--threads", "1")
    until(lambda: checkpointed(tmp_path))
    process.kill()
    process.communicate(timeout=PATIENCE)
    (folder,) = tmp_path.iterdir()
    assert read_manifest(folder)["status"] == "running"
    assert resumed(tmp_path, "--workers", "2")["model_sha256"] == expected


# ---- a cluster of two nodes ----------------------------------------------------------------------

CLUSTER = """
import sys, time
from ray.cluster_utils import Cluster
cluster = Cluster(initialize_head=True, connect=False, head_node_args={"num_cpus": 2, "include_dashboard": False})
other = cluster.add_node(num_cpus=2)
cluster.wait_for_nodes(60)
print(cluster.address, flush=True)
for line in sys.stdin:
    cluster.remove_node(other, allow_graceful=False)
    print("removed", flush=True)
cluster.shutdown()
"""


@pytest.fixture
def cluster() -> Iterator[subprocess.Popen[str]]:
    """A Ray cluster of two nodes behind a token. A line to it takes one of them away."""
    secret = {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": "0123456789abcdef" * 4,
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    process = subprocess.Popen(
        [sys.executable, "-c", CLUSTER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **secret},
    )
    processes: list[int] = []
    try:
        yield process
        processes = descendants(process.pid)
    finally:
        process.communicate(timeout=PATIENCE)
        until(lambda: not [one for one in processes if there(one)])


@pytest.mark.slow
def test_two_nodes_of_which_one_is_lost(
    cluster: subprocess.Popen[str],
    data: Path,
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert cluster.stdin is not None and cluster.stdout is not None
    address = cluster.stdout.readline().strip()
    refused = begun(data, tmp_path, "--ray", address)
    _, err = refused.communicate(timeout=PATIENCE)
    assert (
        refused.returncode == 2
        and f"error: --ray {address}: cannot be joined" in err
        and "Traceback" not in err
    )
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN", "0123456789abcdef" * 4)
    process = begun(data, tmp_path, "--ray", address, "--workers", "2")
    until(lambda: checkpointed(tmp_path))
    cluster.stdin.write("\n")
    cluster.stdin.flush()
    assert cluster.stdout.readline() == "removed\n"
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    assert json.loads(out)["model_sha256"] == expected
    said = [line for line in err.splitlines() if not PROGRESS.fullmatch(line)]
    assert said and all(
        re.match(r"warning: worker \d of 2 \(process \d+ on .*\) died", line) for line in said
    ), said
