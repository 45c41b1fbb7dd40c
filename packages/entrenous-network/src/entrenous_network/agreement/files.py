"""Files of a federation: JSON objects that carry the number of their format, which is checked here
and nowhere else; and the Ed25519 key of a node, which never leaves the machine it was made on.

The same holds for nodes with a server, peers, a server, and the operator of a federation of peers.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec import Meta

from entrenous.core.errors import InputError
from entrenous.core.files import others_may_read, write_private, write_text

FORMAT = 9  # of all files of a federation, of its stores and checkpoints
# Formats whose list of items is a JSON file: a new federation can begin with their models.
OLD_FORMATS = (4, 5, 6, 7)
IDENTITY = "identity.key"
# Of 32 and of 64 bytes: public keys and signatures.
Hex32: TypeAlias = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
Hex64: TypeAlias = Annotated[str, Meta(pattern=r"^[0-9a-f]{128}\Z")]
# The public key of the shop whose device it is; "" of a person's own.
Mark: TypeAlias = Annotated[str, Meta(pattern=r"^([0-9a-f]{64})?\Z")]
# A node's name. It names files and is said to commands, so it begins with a letter or digit.
NAME = "[a-z0-9][a-z0-9.-]{0,63}"
NODE_NAME = re.compile(NAME.encode())
NodeName: TypeAlias = Annotated[str, Meta(pattern=rf"^{NAME}\Z")]


# ---- JSON ----------------------------------------------------------------------------------------


def read_json(path: Path) -> dict[str, Any]:
    """Reads a file with one JSON object, without the number of its format. Raises InputError that
    names the file, also for a file of another format.
    """
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise missing(path) from None
    except (OSError, ValueError) as cause:
        problem = f"cannot be read ({cause})"
        raise InputError(str(path), problem, expected="one JSON object") from None
    if not isinstance(fields, dict):
        raise InputError(str(path), "not a JSON object", expected="one JSON object")
    check_format(path, fields.pop("format", None))
    return fields


def missing(path: Path) -> InputError:
    """Returns the error for a folder that lacks a file: it names a folder below that has it, as
    that of a federation or of a shop does.
    """
    fix = (
        "`entrenous federation new` makes the folder of a server, `entrenous federation join` that"
        " of a node"
    )
    below = sorted(path.parent.glob(f"*/{path.name}"))
    if below:
        fix = f"name {below[0].parent}, which has it"
    return InputError(str(path), "no such file", fix=fix)


def write_json(path: Path, fields: Mapping[str, Any]) -> None:
    """Writes a JSON object with the number of the format, whole or not at all."""
    write_text(path, json_text(fields))


def json_text(fields: Mapping[str, Any]) -> str:
    """Returns a JSON object with the number of the format, as it stands in a file."""
    # `json.dumps` indents in Python, ten times as slowly.
    return msgspec.json.format(json.dumps({"format": FORMAT, **fields}), indent=1)


def check_format(path: Path, number: Any, written: str = "") -> None:
    """Raises InputError for a file of another format number. written: the version that wrote it,
    where that is known.
    """
    if str(number) == str(FORMAT):
        return
    problem = f"format {number}"
    version = "the version of entrenous that wrote it"
    if written:
        problem += f", written by entrenous {written}"
        version = f"entrenous {written}"
    fix = f"use {version}, or found the federation anew"
    if str(number) in map(str, OLD_FORMATS):
        fix += "; `federation new --from-model FOLDER` takes the model of its server's folder"
    raise InputError(str(path), problem, expected=f"format {FORMAT}", fix=fix)


# ---- files that lines are appended to ------------------------------------------------------------


def new_lines(path: Path, start: int, end: int | None = None) -> bytes:
    """Returns the lines of a file from byte `start` on, up to byte `end`, each with its line feed;
    without a last one that is being written, or whose writer was killed. Raises InputError.
    """
    if not path.exists():
        raise missing(path)
    with path.open("rb") as file:
        file.seek(start)
        text = file.read(-1 if end is None else max(0, end - start))
    return text[: text.rfind(b"\n") + 1]


def write_lines(path: Path, length: int, lines: bytes) -> None:
    """Appends lines to a file, in place of what is beyond `length` bytes: a line that was cut
    short. They are on the disk when this returns.
    """
    with path.open("ab") as file:
        file.truncate(length)
        file.write(lines)
        file.flush()
        os.fsync(file.fileno())


# ---- identities ----------------------------------------------------------------------------------


def public_bytes(key: Ed25519PrivateKey) -> bytes:
    """Returns the public half of a private key, 32 bytes."""
    return key.public_key().public_bytes_raw()


def write_identity(path: Path, key: Ed25519PrivateKey) -> None:
    """Writes a private key to a new file that its owner alone may read. Raises InputError instead
    of overwriting a key.
    """
    try:
        write_private(path, f"{key.private_bytes_raw().hex()}\n".encode())
    except FileExistsError:
        fix = "choose another folder, or remove it if nobody needs it"
        raise InputError(str(path), "there is a key already", fix=fix) from None


def read_identity(path: Path) -> Ed25519PrivateKey:
    """Reads a private key from a file of hexadecimal digits. Raises InputError, also where others
    than its owner may read it.
    """
    try:
        if others_may_read(path):
            fix = f"chmod 600 {path}; and if others could read it, make a new node"
            raise InputError(str(path), "others may read it", expected="mode 0600", fix=fix)
        digits = path.read_text(encoding="ascii").strip()
        return Ed25519PrivateKey.from_private_bytes(bytes.fromhex(digits))
    except (OSError, ValueError) as bad:
        problem = f"no key can be read ({type(bad).__name__})"
        raise InputError(str(path), problem, expected="64 hexadecimal digits") from None
