"""`Sender`: the sending side of a peer. It pushes models to others and exchanges records with
them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any, final

from ..agreement.invitation import Contact
from .address_book import AddressBook
from .connections import FAILED, Connections
from .intake import deadline
from .messages import CARRIED, AddressRecord, Offer, ProtocolError, Reply, Shuffle
from .node import Pushed
from .port import Host

# One period in so many also asks a bootstrap, or a past contact: that heals a network that was cut
# in two.
AGAIN = 50
Spawn = Callable[[str, Coroutine[Any, Any, None]], None]


@final
class Sender:
    """The sending side of one peer. record: makes its own current record."""

    def __init__(
        self,
        book: AddressBook,
        connections: Connections,
        host: Host,
        tally: Counter[str],
        record: Callable[[], AddressRecord],
    ) -> None:
        self.book = book
        self.connections = connections
        self.host = host
        self.tally = tally
        self.record = record
        self.under_way: set[int] = set()  # numbers of peers to which a push is in flight
        self.told: dict[int, int] = {}  # by number without a record: the peer that named it
        self.wished: list[int] = []  # numbers to which the algorithm may push next

    # ---- models ----------------------------------------------------------------------------------

    def push(self, pushed: Pushed, spawn: Spawn) -> None:
        """Starts sending a model to those of its receivers that can be reached, and returns at
        once. A receiver is skipped while the last push to it is in flight. spawn: starts a task.
        """
        for to in pushed.to:
            contact = self.book.contact(to)
            if contact is None:
                self.tally["pushed.unknown"] += 1
            elif self.book.waits(to, self.host.now()):
                self.tally["pushed.waits"] += 1
            elif to in self.under_way:
                self.tally["pushed.skipped"] += 1
            else:
                self.under_way.add(to)
                spawn(f"push to {to}", self._push(contact, pushed))

    async def _push(self, to: Contact, pushed: Pushed) -> None:
        try:
            seconds = deadline(len(pushed.body))
            reply = await self.connections.ask(to, self._offer(pushed), pushed.body, seconds)
            # Any answer proves that the peer is there, also one that does not want the model.
            self.book.reached(to.number)
            self.tally[f"pushed.{reply.answer}"] += 1
        except FAILED:
            self.book.failed(to.number, self.host.now())
            self.tally["pushed.failed"] += 1
        finally:
            self.under_way.discard(to.number)

    def _offer(self, pushed: Pushed) -> Offer:
        headers = pushed.headers
        return Offer(
            self.book.verifier.schema,
            self.record(),
            push=pushed.number,
            size=len(pushed.body),
            digest=pushed.digest,
            age=int(headers.age[0]),
            samples=int(headers.samples[0]),
            peers=tuple(int(peer) for peer in headers.peers[0]),
        )

    # ---- records ---------------------------------------------------------------------------------

    async def shuffle(self) -> None:
        """Exchanges a few records with one other peer: preferably one that named a number without a
        record; now and then, and when no peer can be reached, a bootstrap or a past contact.
        """
        to = self._partner()
        if to is None:
            return
        wanted = tuple(self.book.unknown(self.wished)[:CARRIED])
        others = self.book.some((), self.host.below, besides=to.number, most=CARRIED - 1)
        message = self._shuffle((self.record(), *others), wanted)
        try:
            reply = await self.connections.ask(to, message)
            answered = "shuffles"
            if reply.answer != "records":
                answered = f"shuffles.{reply.answer}"
            self.tally[answered] += 1
            self._take(reply)
            self.book.reached(to.number)
        except FAILED as bad:
            # A peer that breaks the protocol is counted apart from one that is away.
            name = "shuffles.failed"
            if isinstance(bad, ProtocolError):
                name = f"error.{bad.code}"
            self.tally[name] += 1
            self.book.failed(to.number, self.host.now())

    def _shuffle(self, records: tuple[AddressRecord, ...], wanted: tuple[int, ...] = ()) -> Shuffle:
        verifier = self.book.verifier
        return Shuffle(verifier.schema, records, wanted, verifier.serial)

    def _take(self, reply: Reply) -> None:
        """Takes the list of revoked keys of an answer, then its records. Raises ProtocolError for a
        list or a record that is forged.
        """
        # In this order: a record of a revoked key in the same answer is not stored.
        if reply.revoked is not None:
            self.book.take_revoked(reply.revoked)
        self.tally["records.stale"] += self.book.take(reply.records, self.host.wall())

    def _partner(self) -> Contact | None:
        """Returns the peer to exchange records with next; None if there is none to try now."""
        now = self.host.now()
        self.book.expire(self.host.wall())
        reachable = [number for number in self.book.entries if not self.book.waits(number, now)]
        if not reachable or self.host.below(AGAIN) == 0:
            resorts = self.book.last_resorts(now)
            if resorts:
                return resorts[self.host.below(len(resorts))]
        if not reachable:
            return None
        # A peer that named an unknown number may have its record.
        informed = []
        for number in self.book.unknown(self.wished):
            if self.told.get(number) in reachable:
                informed.append(self.told[number])
        # Every second time anybody is asked: those who name others could lie.
        choice = reachable
        if informed and self.host.below(2):
            choice = informed
        chosen = choice[self.host.below(len(choice))]
        return self.book.contact(chosen)

    async def introduce(self) -> None:
        """Joins: sends the own record to every bootstrap once, and takes the records that they
        answer with.
        """
        for bootstrap in self.book.bootstraps:
            message = self._shuffle((self.record(),))
            try:
                self._take(await self.connections.ask(bootstrap, message))
            except FAILED:
                self.book.failed(bootstrap.number, self.host.now())
                await asyncio.sleep(0)
