"""The bytes that the sender of a frame signs."""

from __future__ import annotations

# Stands before what is signed, so that a signature is good for nothing else.
DOMAIN = b"entrenous frame 1\n"


def statement(head: bytes) -> bytes:
    """Returns the bytes that are signed of a frame with this head. It has the digest of the body,
    and so the signature covers all.
    """
    return DOMAIN + head
