"""The parts of a federation as processes of this machine, for trials. Each process has a log in its
folder, and ends when its parent does.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Self, final

# The environment variable with the id of the process that started this one for a trial.
PARENT = "ENTRENOUS_PARENT"
LOG = "process.log"


@final
class Processes:
    """The processes of servers, nodes and peers, by folder. Only these are ever signalled, each by
    its process id; leaving `with` stops those that are left."""

    def __init__(self) -> None:
        self.of: dict[Path, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self, folder: Path, command: str = "node") -> None:
        """Starts `entrenous COMMAND FOLDER`."""
        # Appended: the log of a process that was killed tells what it did before.
        with open(folder / LOG, "ab") as log:
            environment = {**os.environ, PARENT: str(os.getpid())}
            words = [sys.executable, "-m", "entrenous", command, str(folder)]
            self.of[folder] = subprocess.Popen(
                words, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment
            )

    def kill(self, folder: Path) -> None:
        """Kills a process with SIGKILL, so that it saves nothing and tells nobody."""
        process = self.of.pop(folder)
        process.kill()
        process.wait()

    def stop(self, folders: Iterable[Path] | None = None, seconds: float = 20.0) -> list[Path]:
        """Stops processes by SIGTERM, and by SIGKILL if they do not end in time. Returns the
        folders whose process had another exit code than 0.
        """
        folders = list(self.of if folders is None else folders)
        ending = {folder: self.of.pop(folder) for folder in folders}
        # All are told before any is waited for, so that they end side by side.
        for process in ending.values():
            process.terminate()
        until = time.monotonic() + seconds
        failed = []
        for folder, process in ending.items():
            if _ended(process, until - time.monotonic()):
                failed.append(folder)
        return failed

    def ended(self) -> list[Path]:
        """Returns the folders whose process has ended without having been stopped."""
        return [folder for folder, process in self.of.items() if process.poll() is not None]


def _ended(process: subprocess.Popen[bytes], seconds: float) -> int:
    """Waits for a process, and kills it after some seconds. Returns its exit code."""
    try:
        return process.wait(max(0.1, seconds))
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def orphaned(stop: threading.Event) -> None:
    """Sets `stop` when the parent process that started this one for a trial has ended, since no
    other program would end this one."""
    parent = os.environ.get(PARENT)

    def watch() -> None:
        while not stop.wait(1.0):
            # A process whose parent has ended gets another parent.
            if os.getppid() != int(parent or 0):
                stop.set()

    if parent:
        threading.Thread(target=watch, daemon=True, name="parent").start()
