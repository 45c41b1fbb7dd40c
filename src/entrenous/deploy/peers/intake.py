"""`PeerIntake`: what a receiver decides about offers and bodies, and the models that wait for the
node. No socket, no clock.

A body is never read before all of the offer is right, and never believed before its digest, layout
and numbers are.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from typing import final

import numpy as np

from ...core.contract.gossip import ACCEPTED, NOBODY, Headers
from ...core.types import Float32Array
from ...kernels.merging import wrong
from ..agreement.terms import FederationTerms
from ..wire.pushed import digest, unpack
from ..wire.tensors import Malformed
from .address_book import AddressBook
from .messages import Offer, ProtocolError
from .node import ReceivedModel
from .rate_limits import RateLimits

WAITING = 4  # models that wait for the node, or are on their way, at most
BODIES = 3  # that are read at once
REMEMBERED = 32  # models of one sender, of which a copy is not taken again
FLOOR, RATE = 3.0, 100e3  # seconds for any body, and bytes a second beyond that
REFUSED = {1: "not-finite", 2: "too-large", 3: "size"}  # core.gossip's codes


@final
class PeerIntake:
    """The receiving side of one peer: which offered models it accepts, and the accepted ones that
    wait for the node. tally: counts of what happened, by name."""

    def __init__(
        self, terms: FederationTerms, book: AddressBook, limits: RateLimits, tally: Counter[str]
    ) -> None:
        self.terms, self.book, self.limits, self.tally = terms, book, limits, tally
        self.size, self.largest, self.width = (
            terms.body_bytes,
            terms.gossip.largest,
            terms.gossip.width,
        )
        self.waiting: OrderedDict[int, ReceivedModel] = OrderedDict()
        self.reading: dict[int, bytes] = {}  # sender -> digest, of bodies under way
        self._seen: dict[int, OrderedDict[tuple[int, bytes], None]] = {}
        self._refusal(np.zeros(self.width, np.float32))  # is compiled before anybody waits for it

    def remember(self, sender: int, push: int, sha: bytes) -> None:
        """Note that a model was accepted, so that a second copy is refused."""
        own = self._seen.setdefault(sender, OrderedDict())
        own[push, sha] = None
        if len(own) > REMEMBERED:
            own.popitem(last=False)

    def offered(self, peer: bytes, offer: Offer, now: float, wall: float) -> str:
        """The answer to an offer: "go", after which space is reserved until `arrived` or `dropped`,
        or a reason not to send the body ("busy", "seen", "schema"). Raises ProtocolError for an
        offer that breaks the protocol.
        """
        if offer.schema != self.terms.run_bytes:
            return "schema"
        sender = self._sender(peer, offer, wall)
        if offer.size != self.size:
            raise ProtocolError("size")
        if any(number >= self.terms.users for number in offer.peers):
            raise ProtocolError("peers")
        if (offer.push, offer.digest) in self._seen.get(sender, ()):
            return "seen"
        if sender in self.reading or len(self.reading) >= BODIES:
            return "busy"
        if len(
            self.waiting.keys() | self.reading.keys() | {sender}
        ) > WAITING or not self.limits.may_offer(peer, now):
            return "busy"
        self.reading[sender] = offer.digest
        return "go"

    def _sender(self, peer: bytes, offer: Offer, wall: float) -> int:
        """The number of who offers: that of its own record, which goes with every offer."""
        if offer.record.id != peer:
            raise ProtocolError("record")
        self.book.put(offer.record, wall)
        return offer.record.number

    def dropped(self, offer: Offer) -> None:
        """Free the space that was reserved for a body that did not come."""
        self.reading.pop(offer.record.number, None)

    def judged(self, offer: Offer, body: bytearray) -> ReceivedModel:
        """The model in a received body, checked. Raises ProtocolError if it is not the offered one,
        malformed, not finite or too large. Takes long for a large body; run it in a thread."""
        if digest(body) != offer.digest:
            raise ProtocolError("digest")
        try:
            model = unpack(body, self.width)
        except Malformed as bad:
            raise ProtocolError(f"body-{bad.code}") from None
        if (refused := self._refusal(model)) != ACCEPTED:
            raise ProtocolError(REFUSED[refused])
        return ReceivedModel(
            offer.record.number, offer.push, headers_of(offer, self.width), model, offer.digest
        )

    def _refusal(self, model: Float32Array) -> int:
        """As the algorithm itself would say: what is refused there must not become an event."""
        return int(wrong(model, np.float32(self.largest)))

    def arrived(self, one: ReceivedModel) -> None:
        """Queue a model for the node. It replaces an older one of the same sender."""
        self.reading.pop(one.sender, None)
        self.remember(one.sender, one.push, one.digest)
        if self.waiting.pop(one.sender, None) is not None:
            self.tally["received.replaced"] += 1
        self.waiting[one.sender] = one

    def next(self) -> ReceivedModel | None:
        """Take the model that has waited longest; None if none waits."""
        return self.waiting.popitem(last=False)[1] if self.waiting else None


def headers_of(offer: Offer, width: int) -> Headers:
    """The header of an offered model (sender, age, samples, known peers, length) as arrays of one
    model, for the algorithm.
    """
    peers = np.array([offer.peers or (NOBODY,)], np.int32)
    sender, age, samples, length = (
        np.array([n], np.int64) for n in (offer.record.number, offer.age, offer.samples, width)
    )
    return Headers(sender, age, samples, peers, length)


def deadline(size: int) -> float:
    """The seconds within which a body of `size` bytes must have arrived: 3 s, and 1 s for each 100
    kB.
    """
    return FLOOR + size / RATE
