"""Files of a federation: JSON objects that carry the number of their format, which is checked here
and nowhere else; the Ed25519 key of a node, which never leaves the machine it was made on; and the
health of the disk.

The same holds for nodes with a server, peers, a server, and the operator of a federation of peers.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from ...core.errors import InputError
from ...core.files import others_may_read, write_atomically, write_private

FORMAT = 4  # of all files of a federation, of its stores and checkpoints
# Files that only folders of format 1 have.
OLD = ("roll.json", "charter.json", "secret.json", "rows.csv", "flower.key")
IDENTITY = "identity.key"
PROBE = b"\0" * 4096  # a block of most disks: a full disk has not even that
NAME = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789-.")


# ---- JSON ----------------------------------------------------------------------------------------


def read_json(path: Path) -> dict[str, Any]:
    """Reads a file with one JSON object, without the number of its format. Raises InputError that
    names the file, also for a file of another format, and for a folder that an older version
    made.
    """
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if any((path.parent / name).exists() for name in OLD):
            check_format(path.parent, 1)
        raise InputError(
            str(path),
            "no such file",
            fix="make a federation with `entrenous federation new FOLDER`",
        ) from None
    except (OSError, ValueError) as cause:
        problem = f"cannot be read ({cause})"
        raise InputError(str(path), problem, expected="one JSON object") from None
    if not isinstance(fields, dict):
        raise InputError(str(path), "not a JSON object", expected="one JSON object")
    check_format(path, fields.pop("format", None))
    return fields


def write_json(path: Path, fields: Mapping[str, Any]) -> None:
    """Writes a JSON object with the number of the format, whole or not at all."""
    write_text(path, json.dumps({"format": FORMAT, **fields}, indent=1))


def write_text(path: Path, text: str) -> None:
    """Writes a text file, whole or not at all."""
    write_atomically(path, (text + "\n").encode())


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
    raise InputError(str(path), problem, expected=f"format {FORMAT}", fix=fix)


# ---- identities ----------------------------------------------------------------------------------


def is_name(name: bytes) -> bool:
    """Returns whether a text is a valid node name: 1 to 64 of a-z, 0-9, - and . that begin with a
    letter or digit, since it names files, and is said to commands."""
    return 0 < len(name) <= 64 and name[0] not in b"-." and NAME.issuperset(name)


def public_bytes(key: Ed25519PrivateKey) -> bytes:
    """Returns the public half of a private key, 32 bytes."""
    return key.public_key().public_bytes_raw()


def is_signed(key: bytes, signature: bytes, text: bytes) -> bool:
    """Returns whether a signature of `text` is that of the owner of a public key, 32 bytes."""
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, text)
    except (InvalidSignature, ValueError):
        return False
    return True


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


# ---- health --------------------------------------------------------------------------------------


class Trouble(NamedTuple):
    """The reason why a part of a federation cannot do its work."""

    kind: str
    """One word, for anybody who asks."""
    text: str
    """One line for the operator, which may name nodes and files."""


def no_trouble() -> Trouble | None:
    """Returns None, for a caller that knows of no trouble."""
    return None


@final
class DiskHealth:
    """The disk under a folder, as its process finds it. errors: writes that failed since the
    process began.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.errors = 0
        # Why something could not be written when that was last tried, by what it is.
        self._failing: dict[str, str] = {}

    def failed(self, what: str, cause: OSError) -> None:
        """Notes that something could not be written."""
        self.errors += 1
        self._failing[what] = failed(cause)

    def wrote(self, what: str) -> None:
        """Notes that something was written."""
        self._failing.pop(what, None)

    def trouble(self) -> Trouble | None:
        """Returns why no write can be relied on now: the last write of something failed, or that of
        a block does. None where all is well. Waits for the disk."""
        for what, why in list(self._failing.items()):
            return Trouble("disk", f"{what} cannot be written ({why})")
        probe = self._folder / f".health-{os.getpid()}.tmp"
        try:
            try:
                probe.write_bytes(PROBE)
            finally:
                probe.unlink(missing_ok=True)
        except OSError as cause:
            return Trouble("disk", f"nothing can be written ({cause.strerror or cause})")
        return None


def failed(cause: OSError) -> str:
    """Returns the message of a disk error in one line."""
    return f"{cause.filename or 'disk'}: {cause.strerror or cause}"
