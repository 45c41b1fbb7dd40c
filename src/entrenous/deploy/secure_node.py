"""A node's side of a secure round. It trusts the server for nothing but to pass messages on, and insists on its own floors."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Protocol, final

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ..core.protocols import State
from ..core.update import Total
from ..federation.shard import Shard
from ..privacy.secure_sum.client import SecureSumClient
from ..privacy.secure_sum.memory import PastSum, sharing
from ..privacy.secure_sum.refusal import SumRefused
from ..privacy.secure_sum.terms import Floors
from ..privacy.secure_sum.vector import pack, rows_of, size, unpack
from ..wire.tensors import TensorField
from . import contribution
from .codes import Code, FrameRefused
from .frames import Frame
from .members import Members
from .node_store import MaskedVector, NodeStore
from .request import NodeRequest
from .responder import Responder
from .secure import KINDS, MESSAGE, sum_terms, upload
from .terms import FederationTerms

MASKED = "masked"  # the fact that names the newest round of which this node's masked input has left


class TrainingNode(Protocol):
    """The members of a node that a secure round uses: its identity and store, and the steps of a plain round."""

    name: str
    key: Ed25519PrivateKey
    terms: FederationTerms
    store: NodeStore
    shard: Shard
    responder: Responder

    def before(self, request: NodeRequest) -> tuple[State, np.uint64]: ...
    def train_sum(self, request: NodeRequest) -> tuple[State, Total]: ...
    def keep(
        self,
        request: NodeRequest,
        answer: bytes,
        devices: State,
        facts: Mapping[str, str] | None = None,
        masked: MaskedVector | None = None,
    ) -> None: ...


@final
class SecureSide:
    """A node's part in secure sums, one attempt at a time. Its secrets are in memory alone: a node that restarts during an
    attempt has dropped out of it, as any node may. What it has consented to is on its disk."""

    def __init__(self, node: TrainingNode, members: Members, floors: Floors) -> None:
        self._node, self._floors = node, floors
        self._roll = {name: member.key.public_bytes_raw() for name, member in members.nodes.items()}
        self._most = {name: len(member.users) for name, member in members.nodes.items()}
        self._past = node.store.past_sums()
        self._length = size(node.shard.contract.empty_total())
        self._remembered: PastSum | None = None  # the newest of `_past`, as its client has it
        self._client: SecureSumClient | None = None
        self._answers: dict[bytes, bytes] = {}  # of this attempt, by the sha256 of what was asked

    def answer(self, frame: Frame) -> bytes:
        """The node's message for a stage of a secure sum. The same request gets the same answer. Raises FrameRefused."""
        self._node.responder.enough(frame)
        asked = hashlib.sha256(frame.head.kind.encode() + frame.head.digest).digest()
        client = self._of_attempt(frame)
        if asked in self._answers:
            return self._answers[asked]
        try:
            body = self._said(client, frame)
        except SumRefused as why:
            raise FrameRefused(Code.WITHHELD, f"{why.code}: {why.text}") from None
        answer = self._node.responder.seal_for(frame, frame.head.kind, body) if frame.head.kind != "mask" else body
        self._answers[asked] = answer
        return answer

    def _of_attempt(self, frame: Frame) -> SecureSumClient:
        """The client of this attempt: a new one for the first stage of a new attempt."""
        head = frame.head
        current = None if self._client is None else (self._client.terms.round, self._client.terms.attempt)
        if self._client is not None and current == (head.round, head.attempt):
            return self._client
        if head.kind != KINDS[0]:
            raise FrameRefused(Code.NOT_ASKED, "this node does not take part in this attempt: it was not there when it began")
        if current is not None and current > (head.round, head.attempt):
            raise FrameRefused(Code.PAST_ROUND)
        if int(self._node.store.fact(MASKED) or -1) >= head.round:
            raise FrameRefused(Code.PAST_ROUND, "this node's masked input of this round has left before")
        terms = sum_terms(self._node.terms, head.round, head.attempt, head.model, self._length)
        identity = self._node.key.private_bytes_raw()
        self._client = SecureSumClient(
            terms, self._roll, self._node.name, identity, self._floors, people=self._node.responder.asked_for(frame),
            most=self._most, past=self._past,
        )  # fmt: skip
        self._answers = {}
        return self._client

    def _said(self, client: SecureSumClient, frame: Frame) -> bytes:
        body = bytes(frame.body)
        if frame.head.kind == "advert":
            return client.advertise()
        if frame.head.kind == "share":
            return client.share(body)
        if frame.head.kind == "mask":
            return self._masked(client, frame)
        return self._consent(client, body) if frame.head.kind == "consent" else client.unmask(body)

    def _masked(self, client: SecureSumClient, frame: Frame) -> bytes:
        """Trains, masks, and has the disk know it before anything leaves: the whole answer."""
        node = self._node
        request, arrays = node.responder.read_request(frame, {"inbox": TensorField("u1", ((0, MESSAGE),))})
        devices, total, masked, trained = self._vector(request, frame.head.model)
        try:
            users, same = frozenset(request.users.tolist()), node.shard.contract.declaration.traits.same_rows
            message = client.mask(arrays["inbox"].tobytes(), masked.vector, rows_of(total, same), users)
            body = upload(message, contribution.shown_of(total))
        finally:
            if trained:
                node.shard.release(total)
        answer = node.responder.seal_for(frame, "mask", body)
        node.keep(request, answer, devices, {MASKED: str(request.round)}, masked)
        return answer

    def _vector(self, request: NodeRequest, model: bytes) -> tuple[State, Total, MaskedVector, bool]:
        """What the devices send: for the model and users that were masked last the same numbers again, noise and all, since new ones
        would say more with each time that a server has a model summed. The last tells whether they were trained now: then the sum is
        the shard's, and is to be given back to it."""
        node, kept, length = self._node, self._node.store.masked(), self._length
        if kept is not None and kept.model == model and np.array_equal(kept.users, request.users) and len(kept.vector) == length:
            total = unpack(kept.vector, node.shard.contract.empty_total())
            if not node.shard.contract.way("shown"):
                return node.before(request)[0], total, kept, False
        devices, total = node.train_sum(request)
        return devices, total, MaskedVector(model, request.users, pack(total._replace(shown=()))), True

    def _consent(self, client: SecureSumClient, body: bytes) -> bytes:
        """Signs the list of survivors, once the disk knows whose sum that allows."""
        answer = client.consent(body)
        assert client.consented is not None  # by `consent`
        if self._remembered is not client.consented:
            self._node.store.remember_sum(client.terms.round, client.consented)
            self._past = (*self._past, sharing(reversed(self._past), client.consented))
            self._remembered = client.consented
        return answer
