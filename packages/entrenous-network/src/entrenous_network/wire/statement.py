"""The bytes that a sender signs: those before the head of every frame, and a head that all others
can build anew.
"""

from __future__ import annotations

import hashlib

import msgspec

# So a signature is good for nothing else. The head has the digest of the body: all is signed.
DOMAIN = b"entrenous frame 1\n"


def shared_head(
    kind: str, run: str, number: int, attempt: int, sender: str, view: bytes, body: bytes = b""
) -> bytes:
    """The head of a frame whose signature is passed on to others, without the frame.

    number: of the round; view: hash of all that the sender has seen.
    """
    fields = {
        "kind": kind,
        "run": run,
        "round": number,
        "attempt": attempt,
        "node": sender.encode(),
        "view": view,
        "size": len(body),
        "digest": hashlib.sha256(body).digest(),
    }
    return msgspec.msgpack.encode(fields)
