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
CREATE, ADD, RESTRICT = (
    444,
    445,
    446,
)  # Landlock's system calls, the same on every architecture that numbers them in common
READ_BITS, ALL_BITS = (
    0b1101,
    (1 << 15) - 1,
)  # execute, read a file, read a folder; all that the third version of Landlock knows
NO_NEW_PRIVILEGES = 38


def guard(reads: Iterable[Path], writes: Iterable[Path]) -> bool:
    """Walls this process in, for good. reads, writes: files and folders that it may use beside its
    programs and their compiled code.

    To be called before any thread begins: the kernel's wall holds for this thread and those that it
    begins. Returns whether the kernel keeps it too."""
    readable = [str(path) for path in (*(path.resolve() for path in reads), *_programs())]
    writable = [str(path) for path in (*(path.resolve() for path in writes), *_compiled())]
    kernel = _by_kernel(readable, writable)

    def check(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            _check_path(arguments[0], writable if _writes(arguments) else (*readable, *writable))
        elif event.startswith(FORBIDDEN):
            raise PermissionError(f"an attack may not do this: {event}")
        elif event in READS or event in WRITES:
            allowed = (*readable, *writable) if event in READS else writable
            for path in arguments[: 2 if event in ("os.rename", "os.link") else 1]:
                _check_path(path, allowed)

    sys.addaudithook(check)
    return kernel


def _writes(arguments: tuple[Any, ...]) -> bool:
    mode, flags = arguments[1], arguments[2]
    return bool(flags & WRITING) or (
        isinstance(mode, str) and any(letter in mode for letter in "wax+")
    )


def _check_path(path: Any, allowed: Iterable[str]) -> None:
    """Refuses a path outside the allowed files and folders, wherever its links lead; and a file
    that is already open, by its number.
    """
    if isinstance(path, str | bytes | os.PathLike):
        real = os.path.realpath(os.fsdecode(path))
        if any(real == one or real.startswith(one + os.sep) for one in allowed):
            return
    raise PermissionError(f"an attack may not open this: {path!r}")


def _programs() -> list[Path]:
    """Where Python, its packages and this one are."""
    own = Path(__file__).resolve().parent.parent
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    return [own, *(Path(sysconfig.get_path(name)).resolve() for name in names)]


def _compiled() -> list[Path]:
    """Where compiled code is kept: beside the source, and where numba is told to. Made if it is not
    there: behind the walls it could not be."""
    own = Path(__file__).resolve().parent.parent
    told = os.environ.get("NUMBA_CACHE_DIR", "")
    beside = {file.parent / "__pycache__" for file in own.rglob("*.py")}
    if os.access(own, os.W_OK):
        for folder in beside:
            folder.mkdir(exist_ok=True)
    return [*beside, *([Path(told).resolve()] if told else [])]


# ---- the kernel's wall ---------------------------------------------------------------------------


class _Rules(ctypes.Structure):
    """What a set of Landlock's rules covers: access to files, to TCP, to processes outside."""

    _fields_ = (
        ("files", ctypes.c_uint64),
        ("network", ctypes.c_uint64),
        ("scoped", ctypes.c_uint64),
    )


class _Beneath(ctypes.Structure):
    """A rule: what is allowed beneath a folder, or to a file, that is open."""

    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def _by_kernel(readable: Iterable[str], writable: Iterable[str]) -> bool:
    """Landlock around this thread and those that it begins. Returns False where there is none."""
    if not sys.platform.startswith("linux"):
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    if version < 3:
        return False
    rules = _Rules(ALL_BITS, 3 if version >= 4 else 0, 3 if version >= 6 else 0)
    known = (
        24 if version >= 6 else 16 if version >= 4 else 8
    )  # bytes of the structure that this kernel knows
    ruleset = libc.syscall(CREATE, ctypes.byref(rules), ctypes.c_size_t(known), ctypes.c_uint32(0))
    for paths, bits in (((*readable, *SYSTEM), READ_BITS), (writable, ALL_BITS)):
        for path in paths:
            _allow(libc, ruleset, path, bits)
    libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    held = libc.syscall(RESTRICT, ruleset, ctypes.c_uint32(0)) == 0
    os.close(ruleset)
    return bool(held)


def _allow(libc: Any, ruleset: int, path: str, bits: int) -> None:
    if not os.path.exists(path):
        return
    opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    files_only = 0b100000000000111  # of a file: execute, write, read, truncate
    rule = _Beneath(bits if os.path.isdir(path) else bits & files_only, opened)
    libc.syscall(ADD, ruleset, ctypes.c_int(1), ctypes.byref(rule), ctypes.c_uint32(0))
    os.close(opened)
