"""`AddressBook`: whom a peer can reach. Algorithms call peers by numbers; a signed record says
which key and addresses a number has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import final

from ..agreement.invitation import Contact
from ..agreement.tickets import RevocationList
from .messages import CARRIED, AddressRecord, ProtocolError
from .records import GENTLE, Verifier

LARGEST = 64  # records
FAILURES = 2  # after which a peer is forgotten, until somebody has a newer record of it
LONGEST_WAIT = 64.0  # seconds between two attempts to reach one


@dataclass
class Entry:
    """A record, how often in a row its peer could not be reached, and the time (Host.now) before
    which it is not tried again.
    """

    record: AddressRecord
    failures: int = 0
    not_before: float = 0.0


@final
class AddressBook:
    """The address book of a peer: verified, unexpired records, one for each number, at most
    LARGEST. The oldest is dropped for a new one.

    bootstraps: contacts from the invitation, which never expire. past: contacts that records once
    gave, tried when no record is left, since the bootstraps may be gone for ever.
    """

    def __init__(
        self,
        own: int,
        verifier: Verifier,
        bootstraps: Sequence[Contact] = (),
        largest: int = LARGEST,
    ) -> None:
        self.own, self.verifier, self.largest = own, verifier, largest
        self.bootstraps = [
            one for one in bootstraps if one.number != own and not verifier.is_revoked(one.key)
        ]
        self.entries: dict[int, Entry] = {}
        self.past: dict[int, Contact] = {}
        self._retry: dict[
            int, tuple[int, float]
        ] = {}  # of contacts without a record: failures, not before
        self._gone: dict[
            int, int
        ] = {}  # number -> issued, of the record by which it could not be reached

    def take(self, records: Iterable[AddressRecord], wall: float) -> int:
        """Verify records and store the new ones. Returns how many had expired or were revoked.
        Raises ProtocolError for a forged one.
        """
        stale = 0
        for one in records:
            try:
                self.put(one, wall)
            except ProtocolError as bad:
                if bad.code not in GENTLE:
                    raise
                stale += 1
        return stale

    def put(self, one: AddressRecord, wall: float) -> None:
        """Verify a record and store it unless a newer one is stored. Raises ProtocolError for a
        forged, expired or revoked record, and for a number that belongs to another key: to the one
        whose ticket ends last, since the operator gives a new key a later one.
        """
        held = self.entries.get(one.number)
        same = held is not None and held.record.id == one.id and held.record.ticket == one.ticket
        if (
            held is not None
            and same
            and one.issued <= held.record.issued
            and self.verifier.is_fresh(one, wall)
        ):
            return  # no news, of a number that is known to be this key's
        self.verifier.check(one, wall, ticket=not same)
        self.expire(wall)
        if held is not None and one.number in self.entries and held.record.id != one.id:
            if one.until <= held.record.until:
                raise ProtocolError("number" if one.until == held.record.until else "stale")
            held = None  # its owner has a new key
        if one.number == self.own or one.issued <= self._gone.get(one.number, -1):
            return
        if held is None or one.issued > held.record.issued:
            moved = held is None or held.record.addresses != one.addresses
            self.entries[one.number] = (
                Entry(one) if moved or held is None else Entry(one, held.failures, held.not_before)
            )
            self._gone.pop(one.number, None)
            self._remember(one)
        while len(self.entries) > self.largest:
            del self.entries[
                min(self.entries, key=lambda number: self.entries[number].record.issued)
            ]

    def expire(self, wall: float) -> None:
        """Drop the records that have expired at wall-clock time `wall`."""
        for number in [
            n for n, entry in self.entries.items() if not self.verifier.is_fresh(entry.record, wall)
        ]:
            del self.entries[number]

    def take_revoked(self, found: RevocationList) -> None:
        """Take a newer list of revoked keys, and forget whom it names. Raises ProtocolError for one
        that the operator has not signed.
        """
        if self.verifier.take_revoked(found):
            self.forget_revoked()

    def forget_revoked(self) -> None:
        """Forget the records and addresses of revoked keys."""
        gone = self.verifier.is_revoked
        self.entries = {n: entry for n, entry in self.entries.items() if not gone(entry.record.id)}
        self.past = {n: one for n, one in self.past.items() if not gone(one.key)}
        self.bootstraps = [one for one in self.bootstraps if not gone(one.key)]

    def contact(self, number: int) -> Contact | None:
        """The contact of the peer with this number; None without a record."""
        entry = self.entries.get(number)
        return None if entry is None else _contact(entry.record)

    def last_resorts(self, now: float) -> list[Contact]:
        """Contacts to try when no record leads anywhere: bootstraps and past contacts that need not
        wait for their next attempt."""
        known = {one.number: one for one in (*self.past.values(), *self.bootstraps)}
        return [one for one in known.values() if not self.waits(one.number, now)]

    def waits(self, number: int, now: float) -> bool:
        """Whether a peer failed recently and must not be dialled yet."""
        entry = self.entries.get(number)
        return now < (self._retry.get(number, (0, 0.0))[1] if entry is None else entry.not_before)

    def failed(self, number: int, now: float) -> None:
        """Count a failed attempt to reach a peer. The next may follow after 2, 4, .. seconds; after
        FAILURES in a row its record is dropped."""
        entry = self.entries.get(number)
        if entry is None:
            failures = self._retry.get(number, (0, 0.0))[0] + 1
            self._retry[number] = failures, now + min(2.0**failures, LONGEST_WAIT)
            return
        entry.failures += 1
        entry.not_before = now + 2.0**entry.failures
        if entry.failures >= FAILURES:
            self._gone[number] = entry.record.issued
            del self.entries[number]

    def reached(self, number: int) -> None:
        """Reset the count of failed attempts of a peer that has answered."""
        self._retry.pop(number, None)
        entry = self.entries.get(number)
        if entry is not None:
            entry.failures, entry.not_before = 0, 0.0

    def some(
        self, wanted: Sequence[int], below: Callable[[int], int], besides: int, most: int = CARRIED
    ) -> list[AddressRecord]:
        """Records to send to another peer, at most `most`: those it asked for, then others at
        random, never the one of the receiver (`besides`)."""
        held = {
            n: entry.record
            for n, entry in self.entries.items()
            if n != besides and not entry.failures
        }
        found = [held.pop(number) for number in dict.fromkeys(wanted) if number in held]
        rest = [held[number] for number in sorted(held)]
        while rest and len(found) < most:
            found.append(rest.pop(below(len(rest))))
        return found[:most]

    def unknown(self, numbers: Iterable[int]) -> list[int]:
        """The numbers among `numbers` for which there is no record, without repeats."""
        return [
            n
            for n in dict.fromkeys(numbers)
            if n >= 0 and n != self.own and self.contact(n) is None
        ]

    def _remember(self, one: AddressRecord) -> None:
        self.past.pop(one.number, None)
        self.past[one.number] = _contact(one)
        if len(self.past) > self.largest:
            del self.past[next(iter(self.past))]


def _contact(one: AddressRecord) -> Contact:
    return Contact(one.number, one.id, one.addresses)
