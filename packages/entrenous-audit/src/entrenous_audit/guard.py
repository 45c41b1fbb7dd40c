"""Walls around the process in which attacks run: it can read the transcript and the programs, write
its results, and nothing else.

Python's audit hook (PEP 578) refuses to open other files, sockets and processes. This guards
against attacks that look where they should not, so that a verdict cannot come from the data itself;
it is no sandbox for hostile code, and what a compiled library opens by itself it does not see.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import entrenous

# Events of Python's audit hook, by how they begin: the network, other processes, databases.
FORBIDDEN = (
    "socket.",
    "subprocess.",
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.fork",
    "os.spawn",
    "os.startfile",
    "pty.",
    "os.kill",
    "signal.pthread_kill",
    "urllib.",
    "http.",
    "ftplib.",
    "smtplib.",
    "sqlite3.",
    "webbrowser.",
)
# Events whose first argument is a path that is looked into.
READS = ("os.listdir", "os.scandir", "os.listxattr", "os.getxattr", "glob.glob")
# Events that change what their first path names, some of them a second one too.
WRITES = (
    "os.mkdir",
    "os.rmdir",
    "os.remove",
    "os.rename",
    "os.link",
    "os.symlink",
    "os.truncate",
    "os.chmod",
    "os.chown",
    "os.utime",
)
# Flags of `open` that change a file.
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def guard(reads: Iterable[Path], writes: Iterable[Path]) -> None:
    """Walls this process in, for good.

    reads, writes: files and folders that the process may use, in addition to its programs and their
        compiled code.
    """
    readable = [str(path.resolve()) for path in reads]
    readable += map(str, _programs())
    writable = [str(path.resolve()) for path in writes]
    writable += map(str, _compiled())

    def check(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            allowed = writable if _writes(arguments) else [*readable, *writable]
            _check_path(arguments[0], allowed)
        elif event.startswith(FORBIDDEN):
            raise PermissionError(f"an attack may not do this: {event}")
        elif event in READS:
            _check_path(arguments[0], [*readable, *writable])
        elif event in WRITES:
            paths = 2 if event in ("os.rename", "os.link") else 1
            for path in arguments[:paths]:
                _check_path(path, writable)

    sys.addaudithook(check)


def _writes(arguments: tuple[Any, ...]) -> bool:
    """Checks whether the event `open` with these arguments is for writing."""
    mode = arguments[1]
    flags = arguments[2]
    by_mode = isinstance(mode, str) and any(letter in mode for letter in "wax+")
    return by_mode or bool(flags & WRITING)


def _check_path(path: Any, allowed: Iterable[str]) -> None:
    """Refuses a path outside the allowed files and folders, and the number of a file that is open
    already.
    """
    # Links are followed first, or one inside the walls could lead out of them.
    if isinstance(path, str | bytes | os.PathLike):
        real = os.path.realpath(os.fsdecode(path))
        if any(real == wall or real.startswith(wall + os.sep) for wall in allowed):
            return
    raise PermissionError(f"an attack may not open this: {path!r}")


def _programs() -> list[Path]:
    """The folders of Python, of its packages and of ours."""
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    return [*ours(), *(Path(sysconfig.get_path(name)).resolve() for name in names)]


def ours() -> list[Path]:
    """The folders of the two packages that attacks are made of: Entrenous and this one."""
    return [Path(file).resolve().parent for file in (str(entrenous.__file__), __file__)]


def _compiled() -> list[Path]:
    """The folders of compiled code: next to the source, and where numba is told to keep it. Makes
    those that are missing, since behind the walls nobody could.
    """
    folders = set()
    for own in ours():
        folders |= {file.parent / "__pycache__" for file in own.rglob("*.py")}
    for folder in folders:
        if os.access(folder.parent, os.W_OK):
            folder.mkdir(exist_ok=True)
    numba = os.environ.get("NUMBA_CACHE_DIR", "")
    if numba:
        folders.add(Path(numba).resolve())
    return list(folders)
