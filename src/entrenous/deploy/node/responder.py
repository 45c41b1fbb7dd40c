"""`Responder`: what everybody does who is asked by a server: sees who asks, reads what is asked
for, seals what is answered.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, final

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ...core.contract.declared import Contract, ContractError
from ...core.contract.protocols import State
from ...core.types import Array, Int64Array
from ..agreement.terms import FederationTerms
from ..frames.frames import Code, Frame, FrameRefused, opened, seal, signed_by
from ..frames.request import NodeRequest, announced, read_download
from ..wire.tensors import Malformed, TensorField

Handlers = Mapping[str, Callable[[Frame], bytes]]


@final
class Responder:
    """Answers one server for one node. users: those that the node serves, int64 ascending; least:
    of how many one answer must be.
    """

    def __init__(
        self,
        name: str,
        key: Ed25519PrivateKey,
        terms: FederationTerms,
        contract: Contract,
        users: Int64Array,
        least: int = 1,
    ) -> None:
        self.name, self.key, self.terms, self.contract, self.users, self._least = (
            name,
            key,
            terms,
            contract,
            users,
            least,
        )

    def answer(self, request: bytes, handlers: Handlers) -> bytes:
        """The answer to a request, by what handles its kind, or why there is none. Nothing that a
        server sends gets beyond this.
        """
        about: dict[str, Any] = {}
        try:
            frame = opened(request)
            head = frame.head
            about = {
                "round": head.round,
                "attempt": head.attempt,
                "model": head.model,
                "items": self.terms.items,
            }
            if not signed_by(frame, self.terms.operator_key):
                raise FrameRefused(Code.BAD_SIGNATURE, "not the server of this federation")
            if head.run != self.terms.run:
                raise FrameRefused(Code.WRONG_RUN, "other terms than this node has")
            if head.kind not in handlers:
                raise FrameRefused(Code.WRONG_KIND)
            if head.round > self.terms.last_number:
                raise FrameRefused(Code.FUTURE_ROUND, f"the terms say {self.terms.rounds} rounds")
            return handlers[head.kind](frame)
        except FrameRefused as why:
            return self.seal("refused", f"{why.code.value}\n{why.text}".encode(), **about)
        except Exception as why:
            # not finite, a full disk, a fault in an algorithm: by class alone, the text may name
            # rows
            return self.seal(
                "refused", f"{Code.FAILED.value}\n{type(why).__name__}".encode(), **about
            )

    def hello(self, frame: Frame) -> bytes:
        """The node's name, with the number that the question brought."""
        return self.seal(
            "hello",
            model=frame.head.nonce,
            items=self.terms.items,
            about={"users": len(self.users)},
        )

    def read_request(
        self, frame: Frame, more: dict[str, TensorField] | None = None
    ) -> tuple[NodeRequest, dict[str, Array]]:
        """Read what a request asks for, and the arrays that are `more` than usual. Raises
        FrameRefused for users that are not the node's, and for another model than was announced."""
        m, head = self.asked_for(frame), frame.head
        if head.round == self.terms.last_number:
            raise FrameRefused(Code.FUTURE_ROUND, "that was the last one")
        download, arrays = self.read_download(
            frame, {"users": TensorField("i8", (m,)), **(more or {})}, m
        )
        users = arrays.pop("users")
        if (
            len(np.unique(users)) != m
            or np.any(np.diff(users) < 0)
            or not np.isin(users, self.users).all()
        ):
            raise FrameRefused(Code.NOT_ASKED, "users that this node does not serve")
        if announced(self.contract, download) != head.model:
            raise FrameRefused(Code.WRONG_MODEL, "the download is not the model that was announced")
        asked = hashlib.sha256(b"%d %s" % (head.round, head.model) + users.tobytes()).digest()
        return NodeRequest(head.round, users, download, asked), {
            name: arrays[name] for name in more or {}
        }

    def asked_for(self, frame: Frame) -> int:
        """How many users a stage of a secure sum is about. Raises FrameRefused for none, or more
        than the node has.
        """
        m = self.enough(frame)
        if not 1 <= m <= len(self.users):
            raise FrameRefused(Code.WRONG_COUNT, f"asked for {m} users")
        return m

    def enough(self, frame: Frame) -> int:
        """How many users a request is about. Raises FrameRefused for fewer than the node's owner
        lets it answer for at once.
        """
        m = frame.head.about.get("users", 0)
        if 0 < m < self._least:
            raise FrameRefused(Code.TOO_FEW_USERS, f"asked for {m} users; at least {self._least}")
        return m

    def read_download(
        self, frame: Frame, more: dict[str, TensorField], devices: int
    ) -> tuple[State, dict[str, Array]]:
        """The download of a request for as many devices, held against the declaration, and further
        arrays. Raises FrameRefused.
        """
        try:
            return read_download(frame.body, self.contract, devices, more)
        except Malformed as bad:
            raise FrameRefused(Code.MALFORMED, bad.code) from None
        except ContractError as bad:
            raise FrameRefused(Code.MALFORMED, str(bad)) from None

    def seal_for(self, frame: Frame, kind: str, body: bytes, **about: int) -> bytes:
        """Sign an answer to a request of a round, as a frame. about: further small numbers."""
        head = frame.head
        return self.seal(
            kind,
            body,
            round=head.round,
            attempt=head.attempt,
            model=head.model,
            items=self.terms.items,
            about={"users": head.about.get("users", 0), **about},
        )

    def seal(self, kind: str, body: bytes = b"", **fields: Any) -> bytes:
        """Sign a message, as a frame."""
        return seal(self.key, kind, body, run=self.terms.run, node=self.name, **fields)
