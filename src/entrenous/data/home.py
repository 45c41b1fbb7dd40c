"""The user's data folder, and writing into it so that a file is either whole or not there."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ..core.errors import InputError
from ..core.files import write_atomically

VARIABLE = "ENTRENOUS_DATA"
ENDINGS = ("parquet", "csv", "tsv", "csv.gz", "tsv.gz")


def data_home() -> Path:
    """The folder of downloaded data: `$ENTRENOUS_DATA`, or `entrenous` in the system's place for
    user data, which is `$XDG_DATA_HOME` or ~/.local/share (Linux), ~/Library/Application Support
    (macOS), %LOCALAPPDATA% (Windows). It need not exist."""
    if chosen := os.environ.get(VARIABLE):
        return Path(chosen).expanduser()
    return _user_data() / "entrenous"


def _user_data() -> Path:
    if sys.platform == "win32":
        base, default = os.environ.get("LOCALAPPDATA"), "AppData/Local"
    elif sys.platform == "darwin":
        base, default = None, "Library/Application Support"
    else:
        base, default = os.environ.get("XDG_DATA_HOME"), ".local/share"
    if base and os.path.isabs(base):  # the XDG rules say to ignore a relative one
        return Path(base)
    try:
        return Path.home() / default
    except RuntimeError:
        raise InputError(
            VARIABLE, "there is no home folder", expected="a folder for data", fix=f"set {VARIABLE}"
        ) from None


def find(folder: Path, *names: str) -> Path | None:
    """The first file of a folder that has one of the names; a name without a dot stands for itself
    with any of ENDINGS.
    """
    wanted = (
        file
        for name in names
        for file in ([name] if "." in name else [f"{name}.{ending}" for ending in ENDINGS])
    )
    return next((folder / file for file in wanted if (folder / file).is_file()), None)


def write_atomic(path: Path, raw: bytes) -> None:
    """Write a file of the data folder, whole or not at all. Raises InputError if the folder cannot
    be written to.
    """
    try:
        write_atomically(path, raw)
    except OSError as wrong:
        fix = f"set {VARIABLE} to a folder you may write to"
        raise InputError(
            str(path), f"cannot be written: {(wrong.strerror or str(wrong)).lower()}", fix=fix
        ) from None
