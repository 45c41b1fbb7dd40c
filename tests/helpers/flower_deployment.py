"""A SuperLink, SuperNodes and `flwr run` as processes on this machine, with all they write in one
folder. Nothing leaves the machine.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from federation_links import PATIENCE
from paths import ROOT, SOURCE

APP = ROOT / "docs" / "examples" / "flower"
PROGRAMS = Path(sys.executable).parent
QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "NO_PROXY": "*",
}


class Deployment(NamedTuple):
    """A SuperLink that is up. port: its own; home: FLWR_HOME, with the logs of all processes."""

    port: int
    home: Path
    started: list[subprocess.Popen[bytes]]

    def supernode(self, folder: Path) -> subprocess.Popen[bytes]:
        """A SuperNode whose configuration names a node's folder."""
        config = f'folder="{folder}"'
        command = [
            "flower-supernode",
            "--insecure",
            "--superlink",
            f"127.0.0.1:{self.port}",
            "--port",
            str(free_port()),
        ]
        return self._start(f"{folder.name}.log", *command, "--node-config", config)

    def run(self, folder: Path) -> None:
        """Submit a run of the app, for a server's folder."""
        config = f'[superlink.here]\naddress = "127.0.0.1:{self.port}"\ninsecure = true\n'
        (self.home / "config.toml").write_text(config)
        app = shutil.copytree(
            APP, self.home / "app", dirs_exist_ok=True
        )  # Flower may write beside it
        command = ["flwr", "run", str(app), "here", "--run-config", f'folder="{folder}"']
        assert self._start("run.log", *command).wait(PATIENCE) == 0, self.said("run.log")

    def said(self, name: str) -> str:
        """The end of a process's log."""
        return (self.home / name).read_text(errors="replace")[-4000:]

    def _start(self, log: str, *command: str) -> subprocess.Popen[bytes]:
        path = os.pathsep.join([str(PROGRAMS), os.environ.get("PATH", "")])
        code = os.pathsep.join([str(SOURCE.parent), os.environ.get("PYTHONPATH", "")]).rstrip(
            os.pathsep
        )
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("FLWR_") and "proxy" not in name.lower()
        }
        place = {**kept, **QUIET, "FLWR_HOME": str(self.home), "PATH": path, "PYTHONPATH": code}
        with open(self.home / log, "ab") as file:
            self.started.append(
                subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=place
                )
            )
        return self.started[-1]


@contextmanager
def deployment(home: Path) -> Iterator[Deployment]:
    """A SuperLink; it and all that was started with it is ended afterwards, by process id."""
    home.mkdir(parents=True)
    made = Deployment(free_port(), home, [])
    try:
        made._start(
            "superlink.log",
            "flower-superlink",
            "--insecure",
            "--port",
            str(made.port),
            "--disable-runtime-dependency-installation",
        )
        until(lambda: listens(made.port), lambda: made.said("superlink.log"))
        yield made
    finally:
        end(made.started)


def end(processes: Iterable[subprocess.Popen[bytes]], gently: bool = True) -> None:
    """End processes and what they have started, the youngest first. gently: they may say that they
    go.
    """
    for process in reversed(list(processes)):
        family = [*descendants(process.pid), process.pid]
        for each in family:
            with_id(each, signal.SIGTERM if gently else signal.SIGKILL)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            for each in family:
                with_id(each, signal.SIGKILL)
            process.wait(15)


def with_id(process: int, number: int) -> None:
    """Send a signal to a process that may have ended."""
    with suppress(ProcessLookupError):
        os.kill(process, number)


def descendants(process: int) -> list[int]:
    """The ids of what a process has started, and of what those have."""
    children = Path(f"/proc/{process}/task/{process}/children")
    direct = [int(each) for each in children.read_text().split()] if children.exists() else []
    return [found for each in direct for found in (*descendants(each), each)]


def until(true: Callable[[], bool], said: Callable[[], str], seconds: float = PATIENCE) -> None:
    """Wait for something to happen."""
    last = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < last, said()
        time.sleep(0.1)


def listens(port: int) -> bool:
    with socket.socket() as line:
        return line.connect_ex(("127.0.0.1", port)) == 0


def free_port() -> int:
    with socket.socket() as line:
        line.bind(("127.0.0.1", 0))
        return int(line.getsockname()[1])
