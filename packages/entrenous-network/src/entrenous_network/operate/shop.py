"""A shop in a federation by lot: the devices of its customers on one machine, in one folder.

Where devices take part by lot, a sum names its people, and each device decides by itself. So a shop
is no node with many users: each customer has a device with a key, a lot and a budget of answers of
that customer alone, and one process runs all of them. Each bears the shop's mark, its public key,
on the membership list: other devices let few of one mark into their sums (`party_list`).
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from entrenous.core.errors import InputError
from entrenous.core.files import make_folder

from ..agreement.files import read_identity, write_identity
from ..node.node_store import NODE

KEY = "shop.key"


def devices_of(folder: Path) -> list[Path]:
    """Returns the folders of a shop's devices, in the order of their names; [] for a folder that is
    no shop's.
    """
    if (folder / NODE).exists() or not folder.is_dir():
        return []
    return sorted(path.parent for path in folder.glob(f"*/{NODE}"))


def device_of(folder: Path, user: str | None) -> Path:
    """Returns the folder of a customer's device, or a folder that is no shop's as it is. user: the
    customer's id; None = the first. Raises InputError for somebody who is no customer.
    """
    if user is not None:
        found = folder / name_of(user)
        # Without a look at all of them, who may be many.
        if (found / NODE).exists():
            return found
    devices = devices_of(folder)
    if not devices:
        return folder
    if user is None:
        return devices[0]
    problem = f"none of the {len(devices)} customers has that id"
    raise InputError("user", problem, expected="an id of the rows that the shop joined with")


def key_of(folder: Path) -> Ed25519PrivateKey:
    """Returns the key by which a shop signs that a device is its own, made if there is none. Raises
    InputError.
    """
    path = folder / KEY
    if not path.exists():
        make_folder(folder, mode=0o700)
        write_identity(path, Ed25519PrivateKey.generate())
    return read_identity(path)


def name_of(user: str) -> str:
    """Returns the name of a customer's folder: ids may have characters that no file can have."""
    # JSON can name half a character, which stands in no file.
    return hashlib.sha256(user.encode(errors="surrogatepass")).hexdigest()[:16]
