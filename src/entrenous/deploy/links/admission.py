"""`Admission`: who speaks. A node signs a short frame with its key and the time, and sends it in
the head of every request, so that nothing of a stranger's is read beyond a head.

    authorization: Entrenous BASE64URL(frame of kind "here", about: {"time": seconds since 1970})
"""

from __future__ import annotations

import hashlib
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ..agreement.members import Member
from ..frames.codes import FrameRefused
from ..frames.frames import opened, seal, signed_by

SCHEME, KIND = "Entrenous ", "here"
STALE = 300.0  # seconds that a signed time may be from the server's
LONGEST = 2048  # characters of the header
CACHED = 16384  # headers whose signature was checked


class Denied(Exception):
    """Raised for a request that is not answered: the status of HTTP, and a word that says why."""

    def __init__(self, status: int, code: str) -> None:
        self.status, self.code = status, code
        super().__init__(code)


def here(key: Ed25519PrivateKey, run: str, node: str) -> str:
    """The header by which a node shows its key, good for five minutes."""
    return (
        SCHEME
        + urlsafe_b64encode(
            seal(key, KIND, run=run, node=node, about={"time": int(time.time())})
        ).decode()
    )


@final
class Admission:
    """Tells by a request's header which node sends it. clock: seconds since 1970."""

    def __init__(
        self, run: str, members: Mapping[str, Member], clock: Callable[[], float] = time.time
    ) -> None:
        self.run, self.members, self._clock = run, members, clock
        self._checked: OrderedDict[bytes, tuple[str, int]] = (
            OrderedDict()
        )  # sha256 of a header -> node, signed time

    def node(self, header: str) -> str:
        """The name of the member that signed a header. Raises Denied."""
        if not header.startswith(SCHEME) or len(header) > LONGEST:
            raise Denied(401, "no-key")
        digest = hashlib.sha256(header.encode()).digest()
        name, signed = self._checked.get(digest) or self._signed(header, digest)
        if abs(self._clock() - signed) > STALE:
            raise Denied(401, "clock")
        return name

    def _signed(self, header: str, digest: bytes) -> tuple[str, int]:
        try:
            frame = opened(urlsafe_b64decode(header[len(SCHEME) :]), 0)
        except (FrameRefused, ValueError):
            raise Denied(401, "no-key") from None
        head, member = frame.head, self.members.get(frame.node)
        if head.kind != KIND or head.run != self.run:
            raise Denied(401, "wrong-run")
        if member is None:
            raise Denied(401, "unknown-node")
        if not signed_by(frame, member.key):
            raise Denied(401, "bad-signature")
        self._checked[digest] = frame.node, head.about.get("time", 0)
        if len(self._checked) > CACHED:
            self._checked.popitem(last=False)
        return self._checked[digest]
