"""What is written is whole or as it was, whenever the process dies; keys are new or refused, and
nobody else may read them.
"""

from __future__ import annotations

import errno
import os
import signal
import stat
from pathlib import Path

import pytest

from entrenous.core import files
from entrenous.core.files import (
    copy_file,
    make_folder,
    rename_file,
    write_atomically,
    write_private,
)

STEPS = ("open", "write", "fsync file", "link", "unlink", "fsync folder")


class Order:
    """Takes down in which order files are flushed and named."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.steps = list[str]()
        fsync, link, replace = os.fsync, os.link, os.replace

        def flushed(handle: int) -> None:
            found = Path(os.readlink(f"/proc/self/fd/{handle}"))
            content = "folder" if found.is_dir() else found.read_bytes().decode()
            self.steps.append(f"fsync {content}")
            fsync(handle)

        patch.setattr(os, "fsync", flushed)
        patch.setattr(
            os,
            "link",
            lambda *paths: (self.steps.append(f"name {Path(paths[1]).name}"), link(*paths))[1],
        )
        patch.setattr(
            os,
            "replace",
            lambda *paths: (self.steps.append(f"name {Path(paths[1]).name}"), replace(*paths))[1],
        )


@pytest.mark.parametrize("new", [True, False])
def test_a_key_is_on_the_disk_before_it_has_its_name_and_the_name_before_it_counts(
    new: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = Order(monkeypatch)
    write_private(tmp_path / "identity.key", b"secret", new=new)
    assert order.steps == ["fsync secret", "name identity.key", "fsync folder"]
    assert [path.name for path in tmp_path.iterdir()] == ["identity.key"]
    assert stat.S_IMODE((tmp_path / "identity.key").stat().st_mode) == 0o600


def test_copies_names_and_folders_are_on_the_disk_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_bytes(b"said")
    order = Order(monkeypatch)
    copy_file(tmp_path / "a", tmp_path / "b")
    assert order.steps == ["fsync said", "name b", "fsync folder"]
    order.steps.clear()
    rename_file(tmp_path / "b", tmp_path / "c")
    assert order.steps == ["name c", "fsync folder"] and not (tmp_path / "b").exists()
    order.steps.clear()
    make_folder(tmp_path / "x" / "y" / "z", mode=0o700)
    assert order.steps == ["fsync folder"] * 3
    assert stat.S_IMODE((tmp_path / "x" / "y" / "z").stat().st_mode) == 0o700


def die_at(step: str) -> None:
    """Lets this process be killed when core/files.py gets to a step."""
    real = {name: getattr(os, name) for name in ("open", "fsync", "link", "unlink")}

    def died() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def fsync(handle: int) -> None:
        folder = os.path.isdir(f"/proc/self/fd/{handle}")
        if step == "write" and not folder:
            os.ftruncate(handle, 3)  # as if half of it had come to the disk
            died()
        if step == ("fsync folder" if folder else "fsync file"):
            died()
        real["fsync"](handle)

    os.fsync = fsync
    if step in ("open", "link", "unlink"):
        setattr(os, step, lambda *arguments, **more: died())


@pytest.mark.parametrize("step", STEPS)
def test_killed_at_any_step_a_key_is_whole_or_not_there(step: str, tmp_path: Path) -> None:
    path = tmp_path / "identity.key"
    child = os.fork()
    if child == 0:
        die_at(step)
        try:
            write_private(path, b"secret")
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert not path.exists() or path.read_bytes() == b"secret"
    assert all(stat.S_IMODE(left.stat().st_mode) == 0o600 for left in tmp_path.iterdir())
    if path.exists():
        assert step in ("unlink", "fsync folder")
        with pytest.raises(FileExistsError):
            write_private(path, b"another")
    else:
        write_private(path, b"another")
    assert path.read_bytes() in (b"secret", b"another")


def kept_key(folder: Path) -> Path:
    """A key that another one did not take the place of, alone in its folder."""
    path = folder / "identity.key"
    write_private(path, b"first")
    with pytest.raises(FileExistsError):
        write_private(path, b"second")
    assert path.read_bytes() == b"first" and list(folder.iterdir()) == [path]
    return path


def test_a_key_that_is_there_is_never_overwritten(tmp_path: Path) -> None:
    path = kept_key(tmp_path)
    write_private(path, b"third", new=False)
    assert path.read_bytes() == b"third"


def test_where_files_cannot_have_second_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*paths: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    kept_key(tmp_path)


def test_a_folder_above_that_cannot_be_read_is_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(folder: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(folder))

    monkeypatch.setattr(files, "sync_folder", refused)
    make_folder(tmp_path / "x" / "y")
    assert (tmp_path / "x" / "y").is_dir()


def test_a_full_disk_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    write_atomically(tmp_path / "terms.json", b"before")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(tmp_path / "terms.json", b"after")
    with pytest.raises(OSError, match="No space left"):
        write_private(tmp_path / "identity.key", b"secret")
    monkeypatch.undo()
    assert [one.name for one in tmp_path.iterdir()] == ["terms.json"] and (
        tmp_path / "terms.json"
    ).read_bytes() == b"before"
