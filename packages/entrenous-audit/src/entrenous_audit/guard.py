"""Walls around the process in which attacks run: it can read the transcript and the programs, write
its results, and nothing else.

Python's audit hook (PEP 578) refuses to open other files, sockets and processes; on Linux, Landlock
(kernel 5.13 and later) refuses it to compiled libraries too, which the hook does not see. This
guards against attacks that look where they should not, so that a verdict cannot come from the data
itself; it is no sandbox for hostile code.
"""

from __future__ import annotations

import ctypes
import os
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import entrenous

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
READS = ("os.listdir", "os.scandir", "os.listxattr", "os.getxattr", "glob.glob")
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
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
SYSTEM = (
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/lib",
    "/etc/ld.so.cache",
    "/dev/null",
    "/dev/urandom",
)
# Landlock's system calls, the same on every architecture that numbers them in common.
CREATE = 444
ADD = 445
RESTRICT = 446
READ_BITS = 0b1101  # execute, read a file, read a folder
FILE_BITS = 0b100000000000111  # of a file: execute, write, read, truncate
ALL_BITS = (1 << 15) - 1  # all that the third version of Landlock knows
NO_NEW_PRIVILEGES = 38


def guard(reads: Iterable[Path], writes: Iterable[Path]) -> bool:
    """Walls this process in, for good. Returns True if the kernel keeps the wall too.

    Call this before any thread begins: the kernel's wall holds for this thread and those that it
    begins.

    reads, writes: files and folders that the process may use, in addition to its programs and their
        compiled code.
    """
    readable = [str(path.resolve()) for path in reads] + [str(path) for path in _programs()]
    writable = [str(path.resolve()) for path in writes] + [str(path) for path in _compiled()]
    kernel = _by_kernel(readable, writable)

    def check(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            _check_path(arguments[0], writable if _writes(arguments) else [*readable, *writable])
        elif event.startswith(FORBIDDEN):
            raise PermissionError(f"an attack may not do this: {event}")
        elif event in READS:
            _check_path(arguments[0], [*readable, *writable])
        elif event in WRITES:
            paths = 2 if event in ("os.rename", "os.link") else 1
            for path in arguments[:paths]:
                _check_path(path, writable)

    sys.addaudithook(check)
    return kernel


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


# ---- the kernel's wall ---------------------------------------------------------------------------


class _Rules(ctypes.Structure):
    """The scope of a set of Landlock's rules: access to files, to TCP, to processes outside."""

    _fields_ = (
        ("files", ctypes.c_uint64),
        ("network", ctypes.c_uint64),
        ("scoped", ctypes.c_uint64),
    )


class _Beneath(ctypes.Structure):
    """A rule: the access that is allowed beneath an open folder, or to an open file."""

    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def _by_kernel(readable: Iterable[str], writable: Iterable[str]) -> bool:
    """Puts Landlock around this thread and those that it begins. Returns False where the kernel has
    none.
    """
    if not sys.platform.startswith("linux"):
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    if version < 3:
        return False
    # Later versions know a field more: TCP from 4 on, signals and sockets outside from 6 on.
    rules = _Rules(ALL_BITS, 0, 0)
    known = 8
    if version >= 4:
        rules.network = 3
        known = 16
    if version >= 6:
        rules.scoped = 3
        known = 24
    ruleset = libc.syscall(CREATE, ctypes.byref(rules), ctypes.c_size_t(known), ctypes.c_uint32(0))
    for path in (*readable, *SYSTEM):
        _allow(libc, ruleset, path, READ_BITS)
    for path in writable:
        _allow(libc, ruleset, path, ALL_BITS)
    # Without this an ordinary process may not restrict itself.
    libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    held = libc.syscall(RESTRICT, ruleset, ctypes.c_uint32(0)) == 0
    os.close(ruleset)
    return bool(held)


def _allow(libc: Any, ruleset: int, path: str, bits: int) -> None:
    """Adds a rule that allows access to a path, and to all beneath it, if there is such a path."""
    if not os.path.exists(path):
        return
    opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    if not os.path.isdir(path):
        bits &= FILE_BITS
    rule = _Beneath(bits, opened)
    libc.syscall(ADD, ruleset, ctypes.c_int(1), ctypes.byref(rule), ctypes.c_uint32(0))
    os.close(opened)
