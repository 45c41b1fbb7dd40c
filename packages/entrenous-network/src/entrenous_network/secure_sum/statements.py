"""The statements that client and server form in the same way: commitments, and the purposes that
keys are derived for.
"""

from __future__ import annotations

import hashlib
from typing import Literal

from . import messages as m

Purpose = tuple[str, bytes, int, int]
"""Of a derived key: its use, the view of the roster, and two places."""
Secret = Literal["masks", "seed"]
"""masks: the private key of the pairs' masks. seed: the seed of the own mask."""


def commitment(seed: bytes) -> bytes:
    """The hash by which a client commits to the seed of the mask that it alone adds. A seed has 256
    random bits, so the hash hides it.
    """
    return hashlib.sha256(b"entrenous secure sum seed" + seed).digest()


def committed(view: bytes, owner: int, holder: int, secret: Secret, share: bytes) -> bytes:
    """The hash by which a share can be known again, 32 bytes.

    view: of the roster; owner: of the secret; holder: of the share. A share is a number of 256
    random bits, so its hash hides it.
    """
    # All that a share is about, so that no hash fits another share.
    about = ("entrenous secure sum share", view, owner, holder, secret, share)
    return hashlib.sha256(m.encode(about)).digest()


def committed_pair(view: bytes, owner: int, holder: int, pair: tuple[bytes, bytes]) -> bytes:
    """The hashes of one holder's shares of both secrets, 64 bytes."""
    of_masks = committed(view, owner, holder, "masks", pair[0])
    of_seed = committed(view, owner, holder, "seed", pair[1])
    return of_masks + of_seed


def about_pair(view: bytes, u: int, v: int) -> Purpose:
    """The purpose, for deriving a key, of the mask that clients u and v share."""
    return ("pair", view, *pair(u, v))


def about_box(view: bytes, sender: int, receiver: int) -> Purpose:
    """The purpose, for deriving a key, of the encryption of one client's shares for another. It is
    of this roster and this direction: nobody can pass a box on as another one.
    """
    return ("box", view, sender, receiver)


def about_own(view: bytes, u: int) -> Purpose:
    """The purpose, for deriving a key, of the mask that client u alone adds."""
    return ("own", view, u, u)


def pair(u: int, v: int) -> tuple[int, int]:
    """Two places in ascending order, so that both parties name their pair alike."""
    if u < v:
        return (u, v)
    return (v, u)
