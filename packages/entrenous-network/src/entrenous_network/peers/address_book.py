"""`AddressBook`: the peers that a peer can reach. Algorithms name peers by numbers; a signed record
says which key and addresses belong to a number."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import final

from ..agreement.invitation import Contact
from ..agreement.tickets import RevocationList
from .messages import CARRIED, AddressRecord, ProtocolError
from .records import GENTLE, Verifier

LARGEST = 64  # records
# Failed attempts in a row after which a record is dropped until its owner issues a newer one.
FAILURES = 2
LONGEST_WAIT = 64.0  # seconds between two attempts to reach a peer without a record


@dataclass
class Entry:
    """A record, and the attempts to reach its peer."""

    record: AddressRecord
    failures: int = 0
    """The attempts in a row that failed."""
    not_before: float = 0.0
    """The time (Host.now) before which the peer is not tried again."""


@final
class AddressBook:
    """The address book of a peer: verified, unexpired records, one for each number, at most
    `largest`. A new record replaces the one that was issued first.

    own: the number of the peer itself, of which no record is kept. bootstraps: contacts from the
    invitation, which never expire.
    """

    def __init__(
        self,
        own: int,
        verifier: Verifier,
        bootstraps: Sequence[Contact] = (),
        largest: int = LARGEST,
    ) -> None:
        self.own = own
        self.verifier = verifier
        self.largest = largest
        self.bootstraps = [contact for contact in bootstraps if contact.number != own]
        self.entries: dict[int, Entry] = {}  # by number
        # Contacts of former records, by number, the newest last. They are tried when no record is
        # left, since the bootstraps may be gone for ever.
        self.past: dict[int, Contact] = {}
        # Failures of contacts without a record, and the time before which none is tried again.
        self._retry: dict[int, tuple[int, float]] = {}
        # The issue time of the last record by which a peer could not be reached, by number.
        self._gone: dict[int, int] = {}
        self.forget_revoked()

    def take(self, records: Iterable[AddressRecord], wall: float) -> int:
        """Verifies records and stores the new ones. Returns how many had expired or were revoked.
        Raises ProtocolError for a forged record.
        """
        stale = 0
        for record in records:
            try:
                self.put(record, wall)
            except ProtocolError as bad:
                if bad.code not in GENTLE:
                    raise
                stale += 1
        return stale

    def put(self, record: AddressRecord, wall: float) -> None:
        """Verifies a record and stores it unless a newer one is stored. Raises ProtocolError for a
        forged, expired or revoked record, and for a number that belongs to another key.
        """
        number = record.number
        entry = self.entries.get(number)
        held = None if entry is None else entry.record
        is_same = held is not None and held.id == record.id and held.ticket == record.ticket
        is_old = held is not None and record.issued <= held.issued
        # Most records are no news; for these no signature is verified.
        if is_same and is_old and self.verifier.is_fresh(record, wall):
            return
        self.verifier.check(record, wall, ticket=not is_same)
        self.expire(wall)
        if held is not None and number in self.entries and held.id != record.id:
            raise ProtocolError("number")
        # Others hand on records of a dead peer for as long as these are fresh: one that has led
        # nowhere is not taken again.
        if number == self.own or record.issued <= self._gone.get(number, -1):
            return
        if held is None or record.issued > held.issued:
            fresh = Entry(record)
            # A renewed record with the same addresses is no reason to dial them sooner.
            if entry is not None and entry.record.addresses == record.addresses:
                fresh = Entry(record, entry.failures, entry.not_before)
            self.entries[number] = fresh
            self._gone.pop(number, None)
            self._remember(record)
        while len(self.entries) > self.largest:
            issued = {other: entry.record.issued for other, entry in self.entries.items()}
            del self.entries[min(issued, key=issued.__getitem__)]

    def expire(self, wall: float) -> None:
        """Drops the records that have expired at wall-clock time `wall`."""
        is_fresh = self.verifier.is_fresh
        for number, entry in list(self.entries.items()):
            if not is_fresh(entry.record, wall):
                del self.entries[number]

    def take_revoked(self, revoked: RevocationList) -> None:
        """Takes a newer list of revoked keys, and forgets the peers that it names. Raises
        ProtocolError for a list that the operator has not signed.
        """
        if self.verifier.take_revoked(revoked):
            self.forget_revoked()

    def forget_revoked(self) -> None:
        """Forgets the records and addresses of revoked keys."""
        is_revoked = self.verifier.is_revoked
        for number, entry in list(self.entries.items()):
            if is_revoked(entry.record.id):
                del self.entries[number]
        for number, contact in list(self.past.items()):
            if is_revoked(contact.key):
                del self.past[number]
        self.bootstraps = [contact for contact in self.bootstraps if not is_revoked(contact.key)]

    def contact(self, number: int) -> Contact | None:
        """Returns the contact of the peer with this number; None without a record."""
        entry = self.entries.get(number)
        if entry is None:
            return None
        return contact_of(entry.record)

    def last_resorts(self, now: float) -> list[Contact]:
        """Returns contacts to try when no record leads anywhere: bootstraps and past contacts that
        need not wait for their next attempt."""
        contacts = dict(self.past)
        # A bootstrap's address of the invitation goes before an address that it had meanwhile.
        contacts.update((contact.number, contact) for contact in self.bootstraps)
        return [contact for contact in contacts.values() if not self.waits(contact.number, now)]

    def waits(self, number: int, now: float) -> bool:
        """Returns whether a peer failed recently and must not be dialled yet."""
        entry = self.entries.get(number)
        if entry is not None:
            return now < entry.not_before
        _, not_before = self._retry.get(number, (0, 0.0))
        return now < not_before

    def failed(self, number: int, now: float) -> None:
        """Counts a failed attempt to reach a peer. The next one may follow after 2, 4, .. seconds;
        after FAILURES in a row the record is dropped."""
        entry = self.entries.get(number)
        if entry is None:
            before, _ = self._retry.get(number, (0, 0.0))
            failures = before + 1
            wait = min(2.0**failures, LONGEST_WAIT)
            self._retry[number] = failures, now + wait
            return
        entry.failures += 1
        entry.not_before = now + 2.0**entry.failures
        if entry.failures >= FAILURES:
            # Only a later record counts again; a peer that is alive renews its own often.
            self._gone[number] = entry.record.issued
            del self.entries[number]

    def reached(self, number: int) -> None:
        """Resets the count of failed attempts of a peer that has answered."""
        self._retry.pop(number, None)
        entry = self.entries.get(number)
        if entry is not None:
            entry.failures = 0
            entry.not_before = 0.0

    def some(
        self, wanted: Sequence[int], below: Callable[[int], int], besides: int, most: int = CARRIED
    ) -> list[AddressRecord]:
        """Returns records to send to another peer, at most `most`: those it asked for, then others
        at random, never that of the receiver (`besides`). below: draws a number below another."""
        # A peer that could not be reached last time is not recommended to others.
        held = {n: entry.record for n, entry in self.entries.items() if not entry.failures}
        held.pop(besides, None)
        records = [held.pop(number) for number in dict.fromkeys(wanted) if number in held]
        # Sorted, so that one draw means the same record in every run.
        rest = [held[number] for number in sorted(held)]
        while rest and len(records) < most:
            drawn = below(len(rest))
            records.append(rest.pop(drawn))
        return records[:most]

    def unknown(self, numbers: Iterable[int]) -> list[int]:
        """Returns the numbers among `numbers` for which there is no record, without repeats."""
        known = self.entries.keys() | {self.own}
        return [n for n in dict.fromkeys(numbers) if n >= 0 and n not in known]

    def _remember(self, record: AddressRecord) -> None:
        """Keeps the contact of a record for the time when no record is left."""
        # Removed first, so that it comes last: the first is the one that was renewed longest ago.
        self.past.pop(record.number, None)
        self.past[record.number] = contact_of(record)
        if len(self.past) > self.largest:
            oldest = next(iter(self.past))
            del self.past[oldest]


def contact_of(record: AddressRecord) -> Contact:
    """Returns the number, key and addresses of a record."""
    return Contact(record.number, record.id, record.addresses)
