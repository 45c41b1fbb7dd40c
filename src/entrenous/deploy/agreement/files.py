"""Files of a federation: JSON objects that carry the number of their format, which is checked here
and nowhere else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...core.errors import InputError
from ...core.files import write_atomically

FORMAT = 4  # of all files of a federation, of its stores and checkpoints
OLD = (
    "roll.json",
    "charter.json",
    "secret.json",
    "rows.csv",
    "flower.key",
)  # what only folders of format 1 have


def read_json(path: Path) -> dict[str, Any]:
    """Read a file with one JSON object, without the number of its format. Raises InputError that
    names the file, also for a file of another format, and for a folder that an older version
    made.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if any((path.parent / name).exists() for name in OLD):
            check_format(path.parent, 1)
        raise InputError(
            str(path),
            "no such file",
            fix="make a federation with `entrenous federation new FOLDER`",
        ) from None
    except (OSError, ValueError) as cause:
        raise InputError(
            str(path), f"cannot be read ({cause})", expected="one JSON object"
        ) from None
    if not isinstance(found, dict):
        raise InputError(str(path), "not a JSON object", expected="one JSON object")
    check_format(path, found.pop("format", None))
    return found


def write_json(path: Path, fields: Mapping[str, Any]) -> None:
    """Write a JSON object with the number of the format, whole or not at all."""
    write_text(path, json.dumps({"format": FORMAT, **fields}, indent=1))


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    write_atomically(path, (text + "\n").encode())


def check_format(path: Path, found: Any, written: str = "") -> None:
    """Raise InputError for a file of another format number, naming the version that wrote it where
    that is known.
    """
    if str(found) != str(FORMAT):
        problem = f"format {found}{f', written by entrenous {written}' if written else ''}"
        version = f"entrenous {written}" if written else "the version of entrenous that wrote it"
        fix = f"use {version}, or found the federation anew"
        raise InputError(str(path), problem, expected=f"format {FORMAT}", fix=fix)
