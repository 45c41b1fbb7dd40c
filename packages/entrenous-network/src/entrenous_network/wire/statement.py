"""The head of a frame, which its sender signs, and a head that all others can build anew."""

from __future__ import annotations

import hashlib

import msgspec

from .completed import completed

# So a signature is good for nothing else. The head has the digest of the body: all is signed.
DOMAIN = b"entrenous frame 1\n"


@completed
class Head(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, kw_only=True):
    """The head of a frame: all of these fields, in this order."""

    kind: str
    run: str
    node: bytes
    """The name of the sender."""
    round: int = 0
    attempt: int = 0
    view: bytes = b""
    """Of a message whose signature is passed on: the hash of all that its sender has seen."""
    model: bytes = b""
    """The sha256 of the download of the round."""
    items: int = 0
    """The size of the sender's log of items."""
    about: dict[str, int] = {}
    """Small numbers by name."""
    size: int
    """The bytes of the body."""
    digest: bytes
    """The sha256 of the body."""


def shared_head(
    kind: str, run: str, number: int, attempt: int, sender: str, view: bytes, body: bytes = b""
) -> bytes:
    """The head of a frame whose signature is passed on to others, without the frame.

    number: of the round; view: hash of all that the sender has seen.
    """
    head = Head(
        kind=kind,
        run=run,
        node=sender.encode(),
        round=number,
        attempt=attempt,
        view=view,
        size=len(body),
        digest=hashlib.sha256(body).digest(),
    )
    return msgspec.msgpack.encode(head)
