"""One process at work on a folder: a lock that ends with its holder, however that one ends."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import NotYet

try:
    import fcntl
except ImportError:
    # Windows: nothing is locked there.
    fcntl = None  # type: ignore[assignment]

# Seconds that a lock is waited for: a process that only looks whether it is held has it for a
# moment.
LOOK = 1.0


def locked(path: Path) -> int:
    """Takes the lock `path` and writes this process's id into it. Returns a descriptor; closing it
    releases the lock.

    Raises NotYet that names the process which holds it, and OSError if the file cannot be made.
    """
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    if not _taken_soon(lock):
        pid = os.read(lock, 20).decode(errors="replace").strip()
        os.close(lock)
        raise NotYet(
            str(path.parent),
            f"process {pid} is at work on it",
            expected="one process a folder",
            fix=f"stop {pid} first",
        )
    os.ftruncate(lock, 0)
    os.write(lock, f"{os.getpid()}\n".encode())
    return lock


@contextmanager
def holding(path: Path) -> Iterator[None]:
    """Holds the lock on a file inside `with`. Raises NotYet if another process has it."""
    lock = locked(path)
    try:
        yield
    finally:
        os.close(lock)


@contextmanager
def changing(folder: Path) -> Iterator[None]:
    """Holds a folder inside `with`, by no file in it, for a change that takes a moment. Raises
    NotYet if another process, or thread, holds it for longer than that.
    """
    held = os.open(folder, os.O_RDONLY)
    try:
        if not _taken_soon(held):
            raise NotYet(str(folder), "is being changed", fix="try again in a moment")
        yield
    finally:
        os.close(held)


def is_held(path: Path) -> bool:
    """Tells whether some process holds the lock on a file."""
    if not path.exists():
        return False
    lock = os.open(path, os.O_RDONLY)
    try:
        return not _taken(lock, "LOCK_SH")
    finally:
        os.close(lock)


def _taken_soon(lock: int) -> bool:
    """Waits for a lock for a moment, and tells whether it was taken."""
    until = time.monotonic() + LOOK
    while not _taken(lock, "LOCK_EX"):
        if time.monotonic() > until:
            return False
        time.sleep(LOOK / 20)
    return True


def _taken(lock: int, how: str) -> bool:
    """Tries to take a lock, and tells whether that succeeded."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(lock, getattr(fcntl, how) | fcntl.LOCK_NB)
        return True
    except OSError:
        return False
