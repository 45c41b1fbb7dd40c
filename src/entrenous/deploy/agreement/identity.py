"""Who a node is: a name that files and commands may have, and an Ed25519 key that never leaves the
machine it was made on.

The same of nodes with a server, of peers, of a server, and of the operator of a federation of
peers.
"""

from __future__ import annotations

from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from ...core.errors import InputError
from ...core.files import others_may_read, write_private

IDENTITY = "identity.key"
NAME = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789-.")


def is_name(name: bytes) -> bool:
    """Whether a text is a valid node name: 1 to 64 of a-z, 0-9, - and . that begin with a letter or
    digit: it names files, and is said to commands."""
    return 0 < len(name) <= 64 and name[0] not in b"-." and NAME.issuperset(name)


def public_bytes(key: Ed25519PrivateKey) -> bytes:
    """The public half of a private key, 32 bytes."""
    return key.public_key().public_bytes_raw()


def is_signed(key: bytes, signature: bytes, said: bytes) -> bool:
    """Whether a signature of `said` is that of the owner of a public key, 32 bytes."""
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, said)
    except (InvalidSignature, ValueError):
        return False
    return True


def write_identity(path: Path, key: Ed25519PrivateKey) -> None:
    """Write a private key to a new file that its owner alone may read. Raises InputError instead of
    overwriting one.
    """
    try:
        write_private(path, f"{key.private_bytes_raw().hex()}\n".encode())
    except FileExistsError:
        fix = "choose another folder, or remove it if nobody needs it"
        raise InputError(str(path), "there is a key already", fix=fix) from None


def read_identity(path: Path) -> Ed25519PrivateKey:
    """Read a private key from a file of hexadecimal digits. Raises InputError, also where others
    than its owner may read it.
    """
    try:
        if others_may_read(path):
            fix = f"chmod 600 {path}; and if others could read it, make a new node"
            raise InputError(str(path), "others may read it", expected="mode 0600", fix=fix)
        return Ed25519PrivateKey.from_private_bytes(
            bytes.fromhex(path.read_text(encoding="ascii").strip())
        )
    except (OSError, ValueError) as bad:
        raise InputError(
            str(path),
            f"no key can be read ({type(bad).__name__})",
            expected="64 hexadecimal digits",
        ) from None
