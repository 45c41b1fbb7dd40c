"""`PeerIntake`: the decisions of a receiver about offers and bodies, and the models that wait for
the node. It has no socket and no clock.

A body is never read before its whole offer has been checked, and never used before its digest,
layout and numbers have been.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from typing import final

import numpy as np

from entrenous.core.contract.gossip import ACCEPTED, NOBODY, Headers
from entrenous.core.types import Float32Array
from entrenous.kernels.merging import wrong

from ..agreement.terms import FederationTerms
from ..wire.pushed import digest, unpack
from ..wire.tensors import Malformed
from .address_book import AddressBook
from .messages import Offer, ProtocolError
from .node import ReceivedModel
from .rate_limits import RateLimits

WAITING = 4  # models that wait for the node, or are on their way, at most
BODIES = 3  # bodies that are read at once
REMEMBERED = 32  # newest models of one sender of which a copy is refused
# Seconds for any body, and bytes a second beyond that.
FLOOR = 3.0
RATE = 100e3
REFUSED = {1: "not-finite", 2: "too-large", 3: "size"}  # core.gossip's codes


@final
class PeerIntake:
    """The receiving side of one peer: which offered models it accepts, and the accepted ones that
    wait for the node. tally: counts of what happened, by name."""

    def __init__(
        self, terms: FederationTerms, book: AddressBook, limits: RateLimits, tally: Counter[str]
    ) -> None:
        self.terms = terms
        self.book = book
        self.limits = limits
        self.tally = tally
        self.size = terms.body_bytes
        self.largest = terms.gossip.largest
        self.width = terms.gossip.width
        self.waiting: OrderedDict[int, ReceivedModel] = OrderedDict()  # by sender, oldest first
        self.reading: dict[int, bytes] = {}  # the digest of each body under way, by sender
        # Push and digest of the newest accepted models, by sender.
        self._seen: dict[int, OrderedDict[tuple[int, bytes], None]] = {}
        # Compiles the check before anybody waits for it.
        self._refusal(np.zeros(self.width, np.float32))

    def remember(self, sender: int, push: int, sha: bytes) -> None:
        """Notes that a model was accepted, so that a second copy is refused."""
        seen = self._seen.setdefault(sender, OrderedDict())
        seen[push, sha] = None
        if len(seen) > REMEMBERED:
            seen.popitem(last=False)

    def offered(self, peer: bytes, offer: Offer, now: float, wall: float) -> str:
        """Returns the answer to an offer: "go", after which space is reserved until `arrived` or
        `dropped`, or a reason not to send the body ("busy", "seen", "schema"). Raises ProtocolError
        for an offer that breaks the protocol.

        peer: the key that the transport has verified. now: as of `Host.now`. wall: seconds since
        1970.
        """
        if offer.schema != self.terms.run_bytes:
            return "schema"
        # A peer offers in its own name alone; the record shows its ticket.
        if offer.record.id != peer:
            raise ProtocolError("record")
        self.book.put(offer.record, wall)
        sender = offer.record.number
        if offer.size != self.size:
            raise ProtocolError("size")
        # The algorithm takes these numbers for peers of the federation.
        if any(number >= self.terms.users for number in offer.peers):
            raise ProtocolError("peers")
        if (offer.push, offer.digest) in self._seen.get(sender, ()):
            return "seen"
        if sender in self.reading or len(self.reading) >= BODIES:
            return "busy"
        # A newer model of a sender replaces its older one, so a sender takes one place.
        senders = self.waiting.keys() | self.reading.keys() | {sender}
        if len(senders) > WAITING:
            return "busy"
        # Asked last, since it begins the sender's next interval.
        if not self.limits.may("offer", peer, now):
            return "busy"
        self.reading[sender] = offer.digest
        return "go"

    def dropped(self, offer: Offer) -> None:
        """Frees the space that was reserved for a body that did not come."""
        self.reading.pop(offer.record.number, None)

    def judged(self, offer: Offer, body: bytearray) -> ReceivedModel:
        """Checks a received body and returns its model. Raises ProtocolError if the body is not the
        offered one, or the model is malformed, not finite or too large. Takes long for a large
        body; run it in a thread."""
        if digest(body) != offer.digest:
            raise ProtocolError("digest")
        try:
            model = unpack(body, self.width)
        except Malformed as bad:
            raise ProtocolError(f"body-{bad.code}") from None
        refused = self._refusal(model)
        if refused != ACCEPTED:
            raise ProtocolError(REFUSED[refused])
        headers = headers_of(offer, self.width)
        return ReceivedModel(offer.record.number, offer.push, headers, model, offer.digest)

    def _refusal(self, model: Float32Array) -> int:
        """Returns the verdict of the algorithm's own check, one of the codes of core.gossip: a
        model that the algorithm refuses must not become an event."""
        return int(wrong(model, np.float32(self.largest)))

    def arrived(self, received: ReceivedModel) -> None:
        """Queues a model for the node. It replaces an older one of the same sender."""
        self.reading.pop(received.sender, None)
        self.remember(received.sender, received.push, received.digest)
        if self.waiting.pop(received.sender, None) is not None:
            self.tally["received.replaced"] += 1
        self.waiting[received.sender] = received

    def next(self) -> ReceivedModel | None:
        """Takes the model that has waited longest from the queue; None if none waits."""
        if not self.waiting:
            return None
        _, received = self.waiting.popitem(last=False)
        return received


def headers_of(offer: Offer, width: int) -> Headers:
    """Returns the header of an offered model (sender, age, samples, known peers, length) as arrays
    of one model, for the algorithm.
    """
    return Headers(
        np.array([offer.record.number], np.int64),
        np.array([offer.age], np.int64),
        np.array([offer.samples], np.int64),
        np.array([offer.peers or (NOBODY,)], np.int32),
        np.array([width], np.int64),
    )


def deadline(size: int) -> float:
    """Returns the seconds within which a body of `size` bytes must have arrived: 3 s, and 1 s for
    each 100 kB.
    """
    return FLOOR + size / RATE
