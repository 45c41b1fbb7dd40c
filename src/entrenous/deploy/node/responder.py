"""`Responder`: the steps that a node and a relay have in common. It checks who asks, reads the
request, and seals the answer.
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
    """Answers one server for one node.

    users: the users that the node serves, int64 ascending. least: users of whom one answer must be.
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
        self.name, self.key, self.terms = name, key, terms
        self.contract, self.users, self._least = contract, users, least

    def answer(self, request: bytes, handlers: Handlers) -> bytes:
        """Returns the answer to a request, by the handler of its kind, or a refusal that says why.
        Nothing that a server sends gets beyond this.
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
            # Whoever is on the way could ask a node to train on a model of theirs.
            if not signed_by(frame, self.terms.operator_key):
                raise FrameRefused(Code.BAD_SIGNATURE, "not the server of this federation")
            # The operator may have signed this for another federation with the same key.
            if head.run != self.terms.run:
                raise FrameRefused(Code.WRONG_RUN, "other terms than this node has")
            if head.kind not in handlers:
                raise FrameRefused(Code.WRONG_KIND)
            if head.round > self.terms.last_number:
                raise FrameRefused(Code.FUTURE_ROUND, f"the terms say {self.terms.rounds} rounds")
            return handlers[head.kind](frame)
        except FrameRefused as why:
            text = f"{why.code.value}\n{why.text}"
            return self.seal("refused", text.encode(), **about)
        except Exception as why:
            # A number that is not finite, a full disk, a fault in an algorithm: by class alone,
            # since the text may name rows.
            text = f"{Code.FAILED.value}\n{type(why).__name__}"
            return self.seal("refused", text.encode(), **about)

    def hello(self, frame: Frame) -> bytes:
        """Returns the node's name, with the number that the question brought."""
        about = {"users": len(self.users)}
        return self.seal("hello", model=frame.head.nonce, items=self.terms.items, about=about)

    def read_request(
        self, frame: Frame, further: dict[str, TensorField] | None = None
    ) -> tuple[NodeRequest, dict[str, Array]]:
        """Reads what a request asks for, and `further` arrays besides. Raises FrameRefused for
        users that are not the node's, and for another model than was announced."""
        m, head = self.asked_for(frame), frame.head
        if head.round == self.terms.last_number:
            raise FrameRefused(Code.FUTURE_ROUND, "that was the last one")
        schema = {"users": TensorField("i8", (m,)), **(further or {})}
        download, arrays = self.read_download(frame, schema, m)
        users = arrays.pop("users")
        # A user named twice would train twice, one of another node has no rows here.
        if (
            len(np.unique(users)) != m
            or np.any(np.diff(users) < 0)
            or not np.isin(users, self.users).all()
        ):
            raise FrameRefused(Code.NOT_ASKED, "users that this node does not serve")
        # All nodes train from one model: one made for this node alone would tell more of it.
        if announced(self.contract, download) != head.model:
            raise FrameRefused(Code.WRONG_MODEL, "the download is not the model that was announced")
        # The attempt is left out: an answer that was lost is asked for again.
        text = b"%d %s" % (head.round, head.model) + users.tobytes()
        asked = hashlib.sha256(text).digest()
        return NodeRequest(head.round, users, download, asked), arrays

    def asked_for(self, frame: Frame) -> int:
        """Returns how many users a request is about. Raises FrameRefused for none, or more than the
        node has.
        """
        m = self.enough(frame)
        if not 1 <= m <= len(self.users):
            raise FrameRefused(Code.WRONG_COUNT, f"asked for {m} users")
        return m

    def enough(self, frame: Frame) -> int:
        """Returns how many users a request is about. Raises FrameRefused for fewer than the node's
        owner lets it answer for at once.
        """
        m, least = frame.head.about.get("users", 0), self._least
        # An answer for fewer users tells the server more of each.
        if 0 < m < least:
            raise FrameRefused(Code.TOO_FEW_USERS, f"asked for {m} users; at least {least}")
        return m

    def read_download(
        self, frame: Frame, further: dict[str, TensorField], devices: int
    ) -> tuple[State, dict[str, Array]]:
        """Returns the download of a request for as many devices, held against the declaration, and
        further arrays. Raises FrameRefused.
        """
        try:
            return read_download(frame.body, self.contract, devices, further)
        except Malformed as bad:
            raise FrameRefused(Code.MALFORMED, bad.code) from None
        except ContractError as bad:
            raise FrameRefused(Code.MALFORMED, str(bad)) from None

    def seal_for(self, frame: Frame, kind: str, body: bytes, **about: int) -> bytes:
        """Signs an answer to a request of a round, as a frame. about: further small numbers."""
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
        """Signs a message, as a frame."""
        return seal(self.key, kind, body, run=self.terms.run, node=self.name, **fields)
