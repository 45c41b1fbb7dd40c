"""`Sender`: pushes to others, and exchanges of records with them."""

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

# of so many periods one also asks a bootstrap, or somebody from the past: what heals a network that
# was cut in two
AGAIN = 50
Spawn = Callable[[str, Coroutine[Any, Any, None]], None]


@final
class Sender:
    """The sending side of one peer. record: makes its own current record. A push is skipped while
    the previous push to that peer is in flight."""

    def __init__(
        self,
        book: AddressBook,
        connections: Connections,
        host: Host,
        tally: Counter[str],
        record: Callable[[], AddressRecord],
    ) -> None:
        self.book, self.connections, self.host, self.tally, self.record = (
            book,
            connections,
            host,
            tally,
            record,
        )
        self.under_way: set[int] = set()
        self.told: dict[int, int] = {}  # number that has no record -> who named it
        self.wished: list[int] = []

    # ---- models ----------------------------------------------------------------------------------

    def push(self, pushed: Pushed, spawn: Spawn) -> None:
        """Start sending a model to those of its receivers that can be reached, and return at once.
        spawn: starts a task.
        """
        for to in pushed.to:
            contact = self.book.contact(to)
            if contact is None or self.book.waits(to, self.host.now()):
                self.tally["pushed.unknown" if contact is None else "pushed.waits"] += 1
            elif to in self.under_way:
                self.tally["pushed.skipped"] += 1
            else:
                self.under_way.add(to)
                spawn(f"push to {to}", self._push(contact, pushed))

    async def _push(self, to: Contact, pushed: Pushed) -> None:
        try:
            reply = await self.connections.ask(
                to, self._offer(pushed), pushed.body, deadline(len(pushed.body))
            )
            self.book.reached(to.number)
            self.tally[f"pushed.{reply.answer}"] += 1
        except FAILED:
            self.book.failed(to.number, self.host.now())
            self.tally["pushed.failed"] += 1
        finally:
            self.under_way.discard(to.number)

    def _offer(self, one: Pushed) -> Offer:
        headers, schema = one.headers, self.book.verifier.schema
        peers = tuple(int(peer) for peer in headers.peers[0])
        age, samples = int(headers.age[0]), int(headers.samples[0])
        return Offer(
            schema, self.record(), one.number, len(one.body), one.digest, age, samples, peers
        )

    # ---- records ---------------------------------------------------------------------------------

    async def shuffle(self) -> None:
        """Exchange a few records with one other peer. It is preferably one that named a number
        without a record; now and then, and when no peer can be reached, it is a bootstrap or a past
        contact.
        """
        to = self._partner()
        if to is None:
            return
        wanted = tuple(self.book.unknown(self.wished)[:CARRIED])
        records = (
            self.record(),
            *self.book.some((), self.host.below, besides=to.number, most=CARRIED - 1),
        )
        try:
            reply = await self.connections.ask(to, self._shuffle(records, wanted))
            self.tally["shuffles" if reply.answer == "records" else f"shuffles.{reply.answer}"] += 1
            self._take(reply)
            self.book.reached(to.number)
        except FAILED as bad:
            self.tally[
                f"error.{bad.code}" if isinstance(bad, ProtocolError) else "shuffles.failed"
            ] += 1
            self.book.failed(to.number, self.host.now())

    def _shuffle(self, records: tuple[AddressRecord, ...], wanted: tuple[int, ...] = ()) -> Shuffle:
        verifier = self.book.verifier
        return Shuffle(verifier.schema, records, wanted, verifier.serial)

    def _take(self, reply: Reply) -> None:
        """The records of an answer, after whom it says to be revoked. Raises ProtocolError."""
        if reply.revoked is not None:
            self.book.take_revoked(reply.revoked)
        self.tally["records.stale"] += self.book.take(reply.records, self.host.wall())

    def _partner(self) -> Contact | None:
        now = self.host.now()
        self.book.expire(self.host.wall())
        reachable = [n for n in self.book.entries if not self.book.waits(n, now)]
        if not reachable or self.host.below(AGAIN) == 0:
            resorts = self.book.last_resorts(now)
            if resorts:
                return resorts[self.host.below(len(resorts))]
        named = [
            self.told[n] for n in self.book.unknown(self.wished) if self.told.get(n) in reachable
        ]
        choice = named if named and self.host.below(2) else reachable
        return self.book.contact(choice[self.host.below(len(choice))]) if choice else None

    async def introduce(self) -> None:
        """Send the own record to every bootstrap once and store the records they answer with: how a
        peer joins.
        """
        for one in self.book.bootstraps:
            try:
                self._take(await self.connections.ask(one, self._shuffle((self.record(),))))
            except FAILED:
                self.book.failed(one.number, self.host.now())
                await asyncio.sleep(0)
