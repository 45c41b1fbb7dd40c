"""Writing a file so that it is whole or not there, whatever happens in between."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path


def write_atomically(path: Path, content: bytes | Sequence[bytes | memoryview]) -> None:
    """Write a file so that it has the whole new content or, after a crash, the whole old one: into a temporary file, flushed
    to the disk, then renamed. content: bytes, or parts to be joined."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(beside, "wb") as file:
            file.writelines([content] if isinstance(content, bytes) else content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError as cause:
        raise OSError(cause.errno, cause.strerror, str(path)) from None  # a full disk does not say which file it was
    finally:
        beside.unlink(missing_ok=True)
    sync_folder(path.parent)


def write_private(path: Path, content: bytes, *, new: bool = True) -> None:
    """Write a file that its owner alone may read, from its first byte on. new: raise FileExistsError instead of overwriting."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | (os.O_EXCL if new else os.O_TRUNC), 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)


def others_may_read(path: Path) -> bool:
    """Whether anybody but its owner may read or write a file, as far as the system says."""
    return os.name == "posix" and bool(path.stat().st_mode & 0o077)


def sync_folder(folder: Path) -> None:
    """Wait until the names of the files in a folder are on the disk."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
