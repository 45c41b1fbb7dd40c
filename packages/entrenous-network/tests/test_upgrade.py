"""A federation outlives an upgrade: another source that computes the same goes on with a warning,
bit for bit; one that computes otherwise is refused. Processes of two copies of the package, on real
sockets.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from entrenous_network.operate.founding import FoundedFederation, Place, free_ports
from entrenous_network.operate.processes import LOG, PARENT
from federation_links import federation, logged, server_sha256, simulated
from gathered_model import gathered
from network_namespace import quiet
from paths import SOURCE

from entrenous.core.contract.protocols import model_sha256
from entrenous.runs.store import read_arrays

pytest.importorskip("uvicorn")

PATIENCE = 240.0  # seconds for what takes a few on an idle machine
UNUSED = "core/contract/update.py", "STEP = ", "UNUSED_SINCE_THE_UPGRADE = 1\nSTEP = "
SAME_WARNING = "it declares and, in the fixed test round, computes the same, so this goes on"


def altered(folder: Path, change: tuple[str, str, str]) -> Path:
    """A copy of the package, compiled code too, with one change. Returns the folder that holds
    it.
    """
    name, before, after = change
    shutil.copytree(SOURCE, folder / "entrenous")
    path = folder / "entrenous" / name
    text = path.read_text()
    assert text.count(before) >= 1, name
    path.write_text(text.replace(before, after, 1))
    return folder


@pytest.fixture(scope="module")
def today() -> Path:
    return SOURCE.parent


@pytest.fixture(scope="module")
def unused(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A version that differs by one constant that nobody uses."""
    return altered(tmp_path_factory.mktemp("unused"), UNUSED)


Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts `entrenous COMMAND FOLDER` of the package in a folder; ends what is left of it."""
    running = list[subprocess.Popen[bytes]]()

    def begin(source: Path, command: str, folder: Path) -> subprocess.Popen[bytes]:
        here = {**os.environ, "PYTHONPATH": str(source), PARENT: str(os.getpid())}
        asked = [sys.executable, "-m", "entrenous", command, str(folder)]
        with open(folder / LOG, "ab") as log:
            running.append(
                subprocess.Popen(
                    asked, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=here, cwd="/"
                )
            )
        return running[-1]

    with quiet():
        yield begin
        for process in running:
            process.kill()
            process.wait()


def said(folder: Path) -> list[str]:
    return (folder / LOG).read_text().splitlines()


def finished(
    server: subprocess.Popen[bytes],
    folder: Path,
    nodes: Iterable[tuple[subprocess.Popen[bytes], Path]],
) -> None:
    """Waits until the server has done its rounds, while no node fails."""
    until = time.monotonic() + PATIENCE
    while server.poll() is None:
        assert time.monotonic() < until, said(folder)[-3:]
        for node, own in nodes:
            assert not node.poll(), said(own)[-3:]
        time.sleep(0.1)
    assert server.returncode == 0, said(folder)[-3:]


def asked(source: Path, *words: str) -> subprocess.CompletedProcess[str]:
    here = {**os.environ, "PYTHONPATH": str(source)}
    command = [sys.executable, "-m", "entrenous", *words]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE, env=here, cwd="/", check=False
    )


def founded(folder: Path, algorithm: str) -> FoundedFederation:
    return federation(
        folder, nodes=2, rounds=3, algorithm=algorithm, place=Place(port=free_ports()[0])
    )


@pytest.mark.parametrize(
    ("old", "new"), [("today", "unused"), ("unused", "today")], ids=["new node", "new server"]
)
def test_server_and_nodes_of_two_versions_end_with_the_same_bits(
    old: str, new: str, tmp_path: Path, start: Start, request: pytest.FixtureRequest
) -> None:
    """The server of one version, a node of the other one beside a node of its own."""
    serving, joining = request.getfixturevalue(old), request.getfixturevalue(new)
    made = founded(tmp_path / "f", "fpl")
    one, other = made.nodes.values()
    server = start(serving, "server", made.server)
    finished(
        server,
        made.server,
        [(start(serving, "node", one), one), (start(joining, "node", other), other)],
    )
    assert model_sha256(read_arrays(made.server / "model.safetensors")[0]) == server_sha256(
        simulated(made)
    )
    whole = gathered(tmp_path / "f")
    assert {name for name in whole.arrays if name.startswith("devices.")}
    versions = {made.server: serving, one: serving, other: joining}
    for folder, source in versions.items():
        warned = [line for line in said(folder) if SAME_WARNING in line]
        assert len(warned) == (source == request.getfixturevalue("unused")), folder
        assert all(line.startswith("warning: the source of fpl here (sha256 ") for line in warned)
    in_log = [line for line in logged(made.server) if SAME_WARNING in line]
    assert len(in_log) == (old == "unused")
