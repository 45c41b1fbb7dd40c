"""A node's side of a secure round. It trusts the server for nothing but to pass messages on, and
insists on its own floors.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol, final

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from entrenous.core.contract.declared import Contract
from entrenous.core.contract.protocols import State
from entrenous.core.contract.update import Total
from entrenous.federation.shard import Shard
from entrenous.privacy.noise import share_of

from ..agreement.terms import FederationTerms
from ..frames.frames import KNOWN, MEMBERS, Code, Frame, FrameRefused
from ..frames.request import NodeRequest, Responder, announced
from ..frames.row_tests import RowTests, with_tests
from ..frames.secure import MESSAGE, frame_of, sum_terms
from ..secure_sum.client import SecureSumClient
from ..secure_sum.merkle import LogHead
from ..secure_sum.messages import STAGES, Signed
from ..secure_sum.party_list import AnswerBudget, Demands, PartyList, refusal
from ..secure_sum.primitives import Verify, verified
from ..secure_sum.refusal import SumRefused, require
from ..secure_sum.terms import Floors
from ..secure_sum.vector import pack, rows_of, size, unpack
from ..wire.tensors import TensorField
from .node_store import MaskedVector, NodeStore

# Facts of the store.
MASKED = "masked"  # the newest round of which this node's masked input has left
INPUTS = "inputs"  # the number of rounds of which it has left
WHEN = "input times"  # of each, as a JSON list, where they do not count for ever


class TrainingNode(Protocol):
    """The members of a node that a secure round uses: its identity and store, and the steps of a
    plain round.
    """

    name: str
    key: Ed25519PrivateKey
    terms: FederationTerms
    store: NodeStore
    shard: Shard
    responder: Responder
    contract: Contract

    def offers(self, number: int) -> bool: ...
    def before(self, request: NodeRequest) -> tuple[State, np.uint64]: ...
    def train_sum(self, request: NodeRequest) -> tuple[State, Total]: ...
    def tests(self) -> RowTests | None: ...
    def test_key(self, number: int) -> np.uint64: ...
    def keep(
        self,
        request: NodeRequest,
        answer: bytes,
        devices: State,
        facts: Mapping[str, str] | None = None,
        masked: MaskedVector | None = None,
    ) -> None: ...


class MaskedWork(NamedTuple):
    """The work of a node that goes under masks."""

    devices: State
    """The private state afterwards."""
    total: Total
    """What the devices send."""
    masked: MaskedVector
    """The same as a vector, with tests of new rows."""
    trained: bool
    """True if the devices were trained now: then the sum is the shard's, and is to be given
    back."""


@final
class SecureSide:
    """A node's part in secure sums, one attempt at a time. Its secrets are in memory alone: a node
    that restarts during an attempt has dropped out of it, as any node may. The sums that it has
    consented to are on its disk.

    members: the log of members. verify: checks signatures; the nodes of one process may share a
    `VerifiedOnce`. clock: seconds since 1970, of this machine and of nobody else.
    """

    def __init__(
        self,
        node: TrainingNode,
        members: LogHead,
        floors: Floors,
        verify: Verify = verified,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._node = node
        self._clock = clock
        self._verify = verify
        self._floors = floors
        self._members = members
        own = node.terms.protection
        self._demands = Demands(max(own.people, floors.people), own.answers)
        self._past = node.store.past_sums()
        self._length = size(node.contract.empty_total())
        self._remembered: PartyList | None = None  # the newest of `_past`, as its client has it
        self._client: SecureSumClient | None = None
        self._answers: dict[bytes, bytes] = {}  # of this attempt, by the sha256 of the question

    def answer(self, frame: Frame) -> bytes:
        """Returns the node's message for a stage of a secure sum. The same request gets the same
        answer. Raises FrameRefused.
        """
        # Each party of a sum is one person's device.
        self._node.responder.asked_for(frame)
        question = frame.head.kind.encode() + frame.head.digest
        asked = hashlib.sha256(question).digest()
        client = self._of_attempt(frame)
        if asked in self._answers:
            return self._answers[asked]
        try:
            answer = self._said(client, frame)
        except SumRefused as why:
            raise FrameRefused(Code.WITHHELD, f"{why.code}: {why.text}") from None
        self._answers[asked] = answer
        return answer

    def _of_attempt(self, frame: Frame) -> SecureSumClient:
        """Returns the client of this attempt: a new one for the first stage of a new attempt."""
        head = frame.head
        store = self._node.store
        asked = (head.round, head.attempt)
        current = None
        if self._client is not None:
            current = (self._client.terms.round, self._client.terms.attempt)
            if current == asked:
                self._as_agreed(self._client, frame)
                return self._client
        # Whoever comes in later has not signed what the others have.
        if head.kind != STAGES[0]:
            text = "this node does not take part in this attempt: it was not there when it began"
            raise FrameRefused(Code.NOT_ASKED, text)
        if current is not None and current > asked:
            raise FrameRefused(Code.PAST_ROUND)
        # Who joined after this node has to be known to it before it signs anything with them.
        check_members(frame, self._members)
        # Two sums of one round over different nodes would tell what this node sent.
        if int(store.fact(MASKED) or -1) >= head.round:
            text = "this node's masked input of this round has left before"
            raise FrameRefused(Code.PAST_ROUND, text)
        # Each further sum tells a little more, and costs a share of what an epsilon promises.
        if budget_of(store, self._node.terms).free_at() > self._clock():
            raise FrameRefused(Code.NOT_DRAWN, "spent: this device has no answers left")
        if not self._node.offers(head.round):
            raise FrameRefused(Code.NOT_DRAWN, "lot: it does not take part in this round")
        self._client = SecureSumClient(
            sum_terms(self._node.terms, self._node.contract, *asked, head.model),
            self._members,
            self._node.name,
            self._node.key.private_bytes_raw(),
            self._floors,
            past=self._past,
            rule=self._rule,
            verify=self._verify,
        )
        self._answers = {}
        return self._client

    def _rule(self, listed: PartyList, shops: Mapping[str, bytes]) -> None:
        """Holds the people of a sum against the participation contract. Raises SumRefused."""
        # Of the log that is agreed on, so that no server can claim more members.
        members = self._members.size
        budget = budget_of(self._node.store, self._node.terms)
        old = budget.given - budget.recent(self._clock())
        why = refusal(listed, members, self._past, self._demands, old, shops)
        require(why is None, "contract", f"{why}: {len(listed.people)} people of {members}")

    def _as_agreed(self, client: SecureSumClient, frame: Frame) -> None:
        """Raises FrameRefused unless a stage is about the model that this node has signed."""
        # All parties signed the same transcript. A server that asks this node about another model
        # asks about something that the others do not know of.
        if frame.head.model != client.terms.model:
            text = "another model than this node and the others have signed for this attempt"
            raise FrameRefused(Code.WRONG_MODEL, text)

    def _said(self, client: SecureSumClient, frame: Frame) -> bytes:
        """Returns the node's whole answer to a stage. Raises SumRefused, FrameRefused."""
        kind = frame.head.kind
        body = bytes(frame.body)
        if kind == "mask":
            return self._masked(client, frame)
        if kind == "advert":
            answer = client.advertise()
        elif kind == "share":
            answer = client.share(body)
        elif kind == "consent":
            answer = self._consent(client, body)
        else:
            answer = client.unmask(body)
        return frame_of(answer)

    def _masked(self, client: SecureSumClient, frame: Frame) -> bytes:
        """Trains, masks, and writes both to the disk before anything leaves. Returns the whole
        answer."""
        node = self._node
        schema = {"inbox": TensorField("u1", ((0, MESSAGE),))}
        request, arrays = node.responder.read_request(frame, schema)
        inbox = arrays["inbox"].tobytes()
        # The download counts, not what a head says of it: with a model made for this node alone,
        # the sum would tell what this node sends.
        if announced(node.shard.contract, request.download) != client.terms.model:
            text = "the download is not the model that all have signed for this attempt"
            raise FrameRefused(Code.WRONG_MODEL, text)
        work = self._vector(request, client.terms.model)
        total = work.total
        try:
            same_rows = node.shard.contract.declaration.traits.same_rows
            rows = rows_of(total, same_rows)
            message = client.mask(inbox, work.masked.vector, rows)
        finally:
            if work.trained:
                node.shard.release(total)
        answer = frame_of(message)
        budget = budget_of(node.store, node.terms)
        facts = {MASKED: str(request.round), INPUTS: str(budget.given + 1)}
        if budget.days:
            # With the answer in one transaction: a kill leaves both, or neither.
            facts[WHEN] = json.dumps(budget.times_with(self._clock()))
        node.keep(request, answer, work.devices, facts, work.masked)
        return answer

    def _vector(self, request: NodeRequest, model: bytes) -> MaskedWork:
        """Trains the devices, and returns what they send.

        For the model that was masked last it is the same numbers again, noise and all.
        """
        node = self._node
        contract = node.contract
        kept = node.store.masked()
        # New numbers would tell more each time that a server has a model summed.
        if kept is not None and kept.model == model and len(kept.vector) == self._length:
            devices, _ = node.before(request)
            total = unpack(kept.vector, contract.empty_total())
            return MaskedWork(devices, total, kept, False)
        devices, total = node.train_sum(request)
        sent = total
        tests = node.tests()
        if tests is not None:
            sent = self._with_tests(total, tests, request.round)
        vector = pack(sent)
        return MaskedWork(devices, total, MaskedVector(model, vector, tests), True)

    def _with_tests(self, total: Total, tests: RowTests, number: int) -> Total:
        """Returns a message with the device's tests, with its share of noise."""
        node = self._node
        # As of the model's numbers: in a sum of the fewest people there is as much as was promised.
        sigma = share_of(node.terms.accuracy, node.terms.fewest)
        secret = node.terms.protection.noise_from == "system"
        return with_tests(total, tests, sigma, node.test_key(number), secret=secret)

    def _consent(self, client: SecureSumClient, body: bytes) -> Signed:
        """Signs the list of survivors, once the sum that this allows is on the disk."""
        answer = client.consent(body)
        consented = client.consented
        assert consented is not None  # by `consent`
        if self._remembered is not consented:
            self._node.store.remember_sum(client.terms.round, consented)
            self._past = (*self._past, consented)
            self._remembered = consented
        return answer


def check_members(frame: Frame, known: LogHead) -> None:
    """Raises FrameRefused for a request about another log of members than the node knows."""
    named = frame.head.about.get(MEMBERS, known.size)
    if named != known.size:
        text = f"{known.size} members are known here, and {named} are named"
        raise FrameRefused(Code.FEWER_MEMBERS, text, {KNOWN: known.size})


def budget_of(store: NodeStore, terms: FederationTerms) -> AnswerBudget:
    """Returns the budget of a node's masked inputs, and what it has spent of it."""
    times = json.loads(store.fact(WHEN) or "[]")
    own = terms.protection
    return AnswerBudget(own.answers, own.days, inputs(store), tuple(times))


def inputs(store: NodeStore) -> int:
    """Returns how many masked inputs have left a node."""
    return store.count(INPUTS)
