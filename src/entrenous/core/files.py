"""Files that are whole or not there, whatever happens in between."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path


def write_atomically(path: Path, content: bytes | Sequence[bytes | memoryview]) -> None:
    """Writes a file so that it has the whole new content or, after a crash, the whole old one: into
    a temporary file, flushed to the disk, then renamed. content: bytes, or parts to be joined.
    """
    make_folder(path.parent)
    temporary = _temporary(path)
    try:
        _fill(temporary, content)
        os.replace(temporary, path)
    except OSError as cause:
        # A full disk does not say which file it was.
        raise OSError(cause.errno, cause.strerror, str(path)) from None
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path.parent)


def write_all(folder: Path, contents: Mapping[str, bytes]) -> list[Path]:
    """Writes some files of a folder, which is made if it is not there. A disk that is full, or
    another error, leaves the folder as it was. Returns the paths. contents: bytes by name of file.
    """
    make_folder(folder)
    written = {folder / name: _temporary(folder / name) for name in contents}
    try:
        for (path, temporary), content in zip(written.items(), contents.values(), strict=True):
            # Refused here, before anything is replaced.
            if path.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
            _fill(temporary, content)
        for path, temporary in written.items():
            os.replace(temporary, path)
    finally:
        for temporary in written.values():
            temporary.unlink(missing_ok=True)
    sync_folder(folder)
    return list(written)


def _fill(path: Path, content: bytes | Sequence[bytes | memoryview], mode: int = 0o666) -> None:
    """Writes a file and flushes it to the disk. mode: of a file that is not there yet."""
    with open(path, "wb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
        file.writelines([content] if isinstance(content, bytes) else content)
        file.flush()
        os.fsync(file.fileno())


def write_text(path: Path, text: str) -> None:
    """Writes a text file and a newline, whole or not at all."""
    write_atomically(path, (text + "\n").encode())


def write_private(path: Path, content: bytes, *, new: bool = True) -> None:
    """Writes a file that its owner alone may read, from its first byte on. When this returns, it is
    whole and on the disk with its name; after a crash it is as it was before, or whole. new: raise
    FileExistsError instead of overwriting.
    """
    make_folder(path.parent)
    temporary = _temporary(path)
    try:
        _fill(temporary, content, 0o600)
        if new:
            _name_new(temporary, path)
        else:
            os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path.parent)


def _temporary(path: Path) -> Path:
    """Returns a name in the folder of a file that no other process uses."""
    return path.with_name(f".{path.name}.{os.getpid()}.tmp")


def _name_new(temporary: Path, path: Path) -> None:
    """Gives a file a second name that no file has. Raises FileExistsError."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError:
        # A file system without second names: there it can only be looked at and then renamed.
        if path.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None
        os.replace(temporary, path)


def copy_file(source: Path, to: Path) -> None:
    """Copies the content of a file, whole or not at all; it is on the disk when this returns."""
    write_atomically(to, source.read_bytes())


def rename_file(path: Path, to: Path) -> None:
    """Gives a file another name in its folder, in place of the file that has it, and waits until
    that is on the disk.
    """
    os.replace(path, to)
    sync_folder(to.parent)


def make_folder(path: Path, mode: int = 0o777) -> None:
    """Makes a folder and those above it that do not exist, and waits until their names are on the
    disk. mode: of `path` alone.
    """
    if path.is_dir():
        return
    # Each new name must be on the disk, those of the folders above included.
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True, mode=mode)
    for folder in reversed(missing):
        # This user may enter a folder above and not read it.
        with suppress(PermissionError):
            sync_folder(folder.parent)


def others_may_read(path: Path) -> bool:
    """Tells whether anybody but its owner may read or write a file, as far as the system says."""
    return os.name == "posix" and bool(path.stat().st_mode & 0o077)


def sync_folder(folder: Path) -> None:
    """Waits until the names of the files in a folder are on the disk."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
