"""What tests do in processes that die of it, or that may not do it."""

from __future__ import annotations

import codecs
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
from entrenous_lab.memory_link import MemoryServerLink
from entrenous_network.frames import contribution
from entrenous_network.frames.frames import opened
from entrenous_network.node.node import FederatedNode
from entrenous_network.server.intake import Open
from entrenous_network.server.server import serve
from entrenous_network.server.server_folder import ServerFolder
from federation_links import linked, server_of

from entrenous.core import files
from entrenous.core.errors import InputError


def died(*arguments: Any) -> Any:
    """The end of a process in the middle of whatever it does."""
    os.kill(os.getpid(), signal.SIGKILL)


def take_and_die(folder: str, frame: bytes) -> None:
    """Takes an answer, has it in the journal, and is killed before it counts or anybody hears of
    it.
    """
    held = ServerFolder(Path(folder))
    intake = server_of(held).collecting.intake
    found = opened(frame)
    asked = held.members.by_node(np.arange(held.terms.users))
    journal = held.journal(found.head.round)
    recorded = held.recorded(found.head.round)
    intake.begin(Open(found.head.round, found.head.model, asked), journal, recorded)
    contribution.add = died  # type: ignore[assignment]
    intake.receive(frame)


def commit_and_die(root: str, step: str) -> None:
    """A federation in a process that is killed at a step of writing its second checkpoint."""
    founded, commits = Path(root), 0
    commit = ServerFolder.commit

    class Dying:
        """What core/files.py knows as os, and dies when it gets to the step."""

        def __getattr__(self, name: str) -> Any:
            return getattr(os, name)

        def fsync(self, handle: int) -> None:
            died() if step == (
                "flush folder" if os.path.isdir(f"/proc/self/fd/{handle}") else "flush"
            ) else os.fsync(handle)

        def replace(self, *paths: Any) -> None:
            died() if step == "replace" else os.replace(*paths)

        def open(self, *arguments: Any) -> int:
            is_folder = os.path.isdir(arguments[0])
            return died() if step == "open folder" and is_folder else os.open(*arguments)

    class HalfWritten:
        def __init__(self, file: Any) -> None:
            self.file = file

        def __enter__(self) -> HalfWritten:
            return self

        def __exit__(self, *how: Any) -> None:
            pass

        def writelines(self, parts: Any) -> None:
            whole = b"".join(parts)
            self.file.write(whole[: len(whole) // 2])
            self.file.flush()
            died()

    def dying(*arguments: Any, **more: Any) -> None:
        nonlocal commits
        commits += 1
        if commits == 2:
            files.os = Dying()  # type: ignore[assignment]
            if step in ("open", "write"):
                files.open = lambda *a, **how: (  # type: ignore[attr-defined]
                    died() if step == "open" else HalfWritten(open(*a, **how))  # noqa: SIM115
                )
            if step.startswith("remove"):
                unlink = Path.unlink
                pattern = "checkpoint" if step == "remove old" else "round-"
                Path.unlink = lambda path, **how: (
                    died() if path.name.startswith(pattern) else unlink(path, **how)
                )  # type: ignore[method-assign]
        commit(*arguments, **more)

    ServerFolder.commit = dying  # type: ignore[method-assign]
    nodes = {path.name: FederatedNode(path) for path in sorted((founded / "nodes").iterdir())}
    serve(linked(nodes), founded / "server")


def serve_as_nobody(folder: str, said: str) -> None:
    """What a user without rights there is told."""
    codecs.lookup("ascii")  # who is nobody may not read Python's own files
    if os.geteuid() == 0:
        os.setgid(65534)
        os.setuid(65534)
    try:
        serve(MemoryServerLink({}), Path(folder))
    except InputError as error:
        os.write(os.open(said, os.O_WRONLY), str(error).encode())
