"""The user's data folder, and writing into it: a file is either whole or not there."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ..core.errors import InputError
from ..core.files import write_atomically

VARIABLE = "ENTRENOUS_DATA"
# In order of preference.
ENDINGS = ("parquet", "csv", "tsv", "csv.gz", "tsv.gz")


def data_home() -> Path:
    """Returns the folder of downloaded data: `$ENTRENOUS_DATA`, or `entrenous` in the system's
    place for user data, which is `$XDG_DATA_HOME` or ~/.local/share (Linux), ~/Library/Application
    Support (macOS), %LOCALAPPDATA% (Windows). It need not exist.
    """
    chosen = os.environ.get(VARIABLE)
    if chosen:
        return Path(chosen).expanduser()
    return _user_data() / "entrenous"


def _user_data() -> Path:
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA")
        default = "AppData/Local"
    elif sys.platform == "darwin":
        base = None
        default = "Library/Application Support"
    else:
        base = os.environ.get("XDG_DATA_HOME")
        default = ".local/share"
    # The XDG rules say to ignore a relative path.
    if base and os.path.isabs(base):
        return Path(base)
    try:
        return Path.home() / default
    except RuntimeError:
        raise InputError(
            VARIABLE, "there is no home folder", expected="a folder for data", fix=f"set {VARIABLE}"
        ) from None


def find(folder: Path, *names: str) -> Path | None:
    """Returns the first file of a folder that has one of the names; None if there is none. A name
    without a dot stands for itself with any of ENDINGS.
    """
    for name in names:
        files = [name] if "." in name else [f"{name}.{ending}" for ending in ENDINGS]
        for file in files:
            path = folder / file
            if path.is_file():
                return path
    return None


def write_atomic(path: Path, raw: bytes) -> None:
    """Writes a file of the data folder, whole or not at all. Raises InputError if the folder cannot
    be written to.
    """
    try:
        write_atomically(path, raw)
    except OSError as wrong:
        fix = f"set {VARIABLE} to a folder you may write to"
        raise InputError(
            str(path), f"cannot be written: {(wrong.strerror or str(wrong)).lower()}", fix=fix
        ) from None
