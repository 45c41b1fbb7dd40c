"""`SecureSumServer`: it passes messages on and adds up. All that it knows follows from its journal,
from which a server that died is made again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Protocol, final

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from entrenous.core.types import Array, Int64Array

from . import messages as m
from . import primitives as p
from .doubts import Doubt
from .merkle import LogEntry, LogHead
from .party_list import within_shares
from .quorum import faults, quorum
from .refusal import SumRefused, require
from .statements import Secret, committed
from .terms import SumTerms
from .unmasking import Answers, WrongSecret, masks_left

GAVE_WRONG = "gave others shares that are not as it committed to them"
SENT_WRONG = "sent other shares than it had been given"


class MemberLog(Protocol):
    """The log of all who can be parties."""

    @property
    def head(self) -> LogHead: ...
    def __contains__(self, name: str) -> bool: ...
    def entry(self, name: str) -> LogEntry: ...


@final
class SecureSumServer:
    """Takes the messages of five stages by `add`, and after each of the first four gives out what
    clients need for the next one: `roster`, `inbox`, `survivors`, `consents`; at the end `total`.

    `add` takes a client's message, whose signature its caller has checked, and returns False for
    one that came before: an answer whose receipt was lost. The first `roster()`, `inbox()`,
    `survivors()` and `consents()` each close the stage before them; SumRefused `threshold` then
    says that too few have answered: the caller waits longer, or gives the attempt up. Every other
    refusal leaves the state as it was, too.

    Args: terms, members: as the clients have them. journal: gets every accepted message and every
        closing of a stage, before its effect can be seen from outside; `rebuilt` takes them.

    Attributes: liars: the parties that have lied in this attempt, by name, and how. A wrong share
        says that its owner or its holder lied, and not which: a party is named once it has to do
        with more of them than those in league could bring about. wrong: with whom each party had a
        wrong share, as its owner or as its holder.
    """

    def __init__(
        self, terms: SumTerms, members: MemberLog, journal: Callable[[bytes], None] | None = None
    ) -> None:
        self.terms = terms
        self.members = members
        self.stage = m.ADVERT  # the one that is open
        self._journal = journal or (lambda record: None)
        self._digest = terms.digest(members.head)
        # The signature of each client at each stage, which covers all that it said.
        self._said: list[dict[str, bytes]] = [{} for _ in m.STAGES]
        self._adverts: dict[str, m.SignedAdvert] = {}
        # The parties in the order of the roster, and the place of each.
        self._names: list[str] = []
        self._place: dict[str, int] = {}
        # The hash of all that an honest client has seen when it answers at each stage.
        self._views = [self._digest] * len(m.STAGES)
        # The places of the parties that were heard at each closed stage.
        self._lists: list[list[int]] = [[] for _ in m.STAGES]
        # sender -> receiver -> box
        self._boxes: dict[int, dict[int, bytes]] = {}
        # owner -> holder -> the hashes of the holder's share of each secret of the owner
        self._commitments: dict[int, dict[int, bytes]] = {}
        self.liars: dict[str, str] = {}
        # holder -> owner -> share, of those that are as their owner committed to them
        self._shares: dict[int, dict[int, bytes]] = {}
        self.wrong: dict[Doubt, set[str]] = {}
        # The messages of two stages, which all clients get alike, once their stage is closed.
        self._roster = self._consents = b""
        self._sum: Array = np.zeros(terms.length, terms.dtype)
        self._total: Int64Array | None = None

    @classmethod
    def rebuilt(
        cls,
        terms: SumTerms,
        members: MemberLog,
        records: Iterable[bytes],
        journal: Callable[[bytes], None] | None = None,
    ) -> SecureSumServer:
        """A server in the state that its journal records. Raises SumRefused for records of another
        sum.
        """
        server = cls(terms, members)
        for record in records:
            # msgspec reads unions of tagged structs
            entry = m.decode(record, m.Signed | m.Close, len(record))  # type: ignore[arg-type]
            if isinstance(entry, m.Close):
                require(entry.stage == server.stage, "stage", "the journal is not in order")
                server.close(entry.stage)
            else:
                server.add(entry)
        server._journal = journal or server._journal
        return server

    def heard(self, stage: int) -> frozenset[str]:
        """The names of the clients whose message of a stage was accepted (`messages.ADVERT` ...
        `UNMASKING`); of adverts, without those who would be too many of one shop.
        """
        heard: Collection[str] = self._said[stage]
        if stage == m.ADVERT:
            # A tenth of the smallest sum that this one may become: any party may vanish.
            said = self._adverts
            shops = {name: said[name].entry.leaf.shop for name in heard}
            heard = within_shares(heard, shops, self.terms.people, self._digest)
        return frozenset(heard)

    def has_heard(self, stage: int, name: str) -> bool:
        """Returns True if a client's message of a stage was accepted."""
        return name in self._said[stage]

    def close(self, stage: int) -> None:
        """Takes no more of a stage. Raises SumRefused `threshold` if too few were heard; nothing
        happens if it was closed before.
        """
        if stage < self.stage:
            return
        require(stage == self.stage, "stage", f"{m.STAGES[self.stage]} is still open")
        # With fewer than a quorum no list of this attempt could become binding.
        heard = self.heard(stage)
        require(
            len(heard) >= self.least,
            "threshold",
            f"{len(heard)} parties at {m.STAGES[stage]}; at least {self.least}: nothing is"
            " revealed",
        )
        self._journal(m.encode(m.Close(stage)))
        if stage == m.ADVERT:
            self._open_shares(heard)
        self._lists[stage] = sorted(self._place[name] for name in heard)
        if stage in (m.SHARES, m.MASKED):
            self._views[stage + 1] = m.seen(self._views[stage], self._bits(stage))
        if stage == m.CONSENT:
            self._views[m.UNMASKING] = self._views[m.CONSENT]
        self.stage = stage + 1

    @property
    def least(self) -> int:
        """The fewest parties of a stage, with which the sum can go on."""
        return quorum(len(self._names), self.members.head.size) if self._names else 2

    # ---- what clients send -----------------------------------------------------------------------

    def add(self, signed: m.Signed) -> bool:
        """Accepts a client's message of a stage: its public keys (`messages.ADVERT`), its encrypted
        shares for the others (SHARES), its masked vector (MASKED), its signature of the list of
        survivors (CONSENT), or the shares that remove masks (UNMASKING). The caller has checked
        that its head is signed by the sender.

        Returns False for a copy of a message that was accepted before. Raises SumRefused.
        """
        stage = signed.stage
        # A copy is welcome at any time: its sender has not got the receipt.
        earlier = self._said[stage].get(signed.sender)
        if earlier == signed.signature:
            return False
        untimely = "too late" if stage < self.stage else "too early"
        require(stage == self.stage, "stage", f"{m.STAGES[stage]}: {untimely}")
        take = self._read(signed)
        require(earlier is None, "duplicate", f"'{signed.sender[:40]}' said something else before")
        # The journal first: after a crash the message is either unknown, or has its effect.
        self._journal(m.encode(signed))
        self._said[stage][signed.sender] = signed.signature
        take()
        return True

    # ---- what clients are sent -------------------------------------------------------------------

    def roster(self) -> bytes:
        """The message to all clients after stage 1: the signed public keys of every client. Closes
        the stage.
        """
        self.close(m.ADVERT)
        # One for all: it is long, and goes to everybody.
        if not self._roster:
            self._roster = m.encode(self._entries())
        return self._roster

    def inbox(self, name: str) -> bytes:
        """The message to a client after stage 2: who sent shares, and those encrypted for it.
        Closes the stage.
        """
        self.close(m.SHARES)
        me = self._on(m.SHARES, name)
        boxes = [self._boxes[place][me] for place in self._lists[m.SHARES] if place != me]
        return m.encode(m.Inbox(self._bits(m.SHARES), boxes))

    def survivors(self) -> bytes:
        """The message to all clients after stage 3: who sent a masked vector. Closes the stage."""
        self.close(m.MASKED)
        return self._bits(m.MASKED)

    def consents(self) -> bytes:
        """The message to all survivors after stage 4: a quorum of signatures under the list of
        survivors. Closes the stage.
        """
        self.close(m.CONSENT)
        if self._consents:
            return self._consents
        signers = self._lists[m.CONSENT][: self.least]
        said = self._said[m.CONSENT]
        signatures = b"".join(said[self._names[place]] for place in signers)
        self._consents = m.encode(m.Consents(m.to_bits(signers, len(self._names)), signatures))
        return self._consents

    def total(self) -> Int64Array:
        """Returns the exact sum of the survivors' vectors, int64 [length].

        Raises SumRefused `threshold` while too few clients have sent right shares. Raises
        SumRefused `shares` if the shares of a party give another secret than it committed to: the
        attempt is lost, and `liars` names the party.
        """
        require(self.stage == m.UNMASKING, "stage", f"{m.STAGES[self.stage]} is still open")
        if self._total is None:
            adverts = [m.decode(one.body, m.Advert, m.SLACK) for one in self._entries()]
            sharers = self._lists[m.SHARES]
            survivors = self._lists[m.MASKED]
            view = self._views[m.SHARES]
            answers = Answers(view, self.least, adverts, sharers, survivors, self._shares)
            try:
                left = masks_left(answers)
            except WrongSecret as wrong:
                liar = self._names[wrong.owner]
                self.liars[liar] = "its shares do not give the secret it committed to"
                raise SumRefused("shares", f"'{liar[:40]}' shared another secret") from None
            for place in left.liars:
                self.liars[self._names[place]] = "gave somebody a share of another secret"
            # On a copy: the journal can rebuild this sum, and a total is asked for again.
            words = self._sum.copy()
            p.add_masks(words, left.plus, left.minus)
            # Words are two's complement, modulo their size.
            self._total = words.view(f"<i{words.itemsize}").astype(np.int64)
        return self._total.copy()

    # ---- stages ----------------------------------------------------------------------------------

    def _read(self, signed: m.Signed) -> Callable[[], None]:
        """Checks a message. Returns the effect of accepting it. Raises SumRefused."""
        stage = signed.stage
        sender = signed.sender
        require(sender in self.members, "unknown", f"'{sender[:40]}' is no member")
        # Only parties that were heard at the stage before, or uploaded a vector, are heard.
        if stage > m.ADVERT:
            self._on(min(stage - 1, m.MASKED), sender)
        # Other clients build this head, and no other. One with another view is of another
        # transcript: a vector masked for another list would spoil the sum.
        head = self.terms.head(stage, sender, self._views[stage], signed.body)
        require(
            signed.head == head,
            "signature",
            f"'{sender[:40]}' did not sign this {m.STAGES[stage]}, but one of another attempt, list"
            " or form",
        )
        if stage == m.ADVERT:
            return self._read_advert(signed)
        place = self._place[sender]
        if stage == m.SHARES:
            return self._read_shares(place, signed.body)
        if stage == m.MASKED:
            return self._read_masked(signed.body)
        if stage == m.CONSENT:
            return self._read_consent(signed.body)
        return self._read_unmasking(place, signed.body)

    def _read_advert(self, signed: m.Signed) -> Callable[[], None]:
        """Checks the keys and the model of an advert. Returns as `_read`."""
        advert = m.decode(signed.body, m.Advert, m.SLACK)
        # All other clients would refuse the roster for one party with another model, or with a key
        # that nobody can agree with.
        require(
            advert.model == self.terms.model, "model", f"'{signed.sender[:40]}' has another model"
        )
        for key in (advert.boxes, advert.masks):
            p.agree(X25519PrivateKey.generate(), key)

        # Nobody could read a roster of more.
        require(len(self._adverts) < m.MAX_PARTIES, "size", f"{m.MAX_PARTIES} parties are there")

        def take() -> None:
            sender = self.members.entry(signed.sender)
            entry = m.SignedAdvert(sender, signed.signature, signed.body)
            self._adverts[signed.sender] = entry

        return take

    def _read_shares(self, place: int, body: bytes) -> Callable[[], None]:
        """Checks that there are a box and hashes for everybody who should have some. Returns as
        `_read`.
        """
        said = m.decode(body, m.Shares, len(body))
        parties = range(len(self._names))
        others = [party for party in parties if party != place]
        require(
            len(said.boxes) == len(others),
            "box",
            f"{len(said.boxes)} boxes for {len(others)} others",
        )
        require(
            len(said.commitments) == m.COMMITTED * len(parties),
            "box",
            f"{len(said.commitments)} bytes of hashes for {len(parties)} holders of shares",
        )
        hashes = _parts(said.commitments, m.COMMITTED)

        def take() -> None:
            self._boxes[place] = dict(zip(others, said.boxes, strict=True))
            self._commitments[place] = dict(enumerate(hashes))

        return take

    def _read_masked(self, body: bytes) -> Callable[[], None]:
        """Checks the length of a masked vector. Returns as `_read`."""
        require(
            len(body) == self.terms.nbytes,
            "vector",
            f"{len(body)} bytes; expected {self.terms.nbytes}",
        )
        # Added at once, modulo the size of a word: no vector is kept.
        return partial(np.add, self._sum, np.frombuffer(body, self.terms.dtype), out=self._sum)

    def _read_consent(self, body: bytes) -> Callable[[], None]:
        require(not body, "size", f"{len(body)} bytes more than the signature")
        return lambda: None

    def _read_unmasking(self, place: int, body: bytes) -> Callable[[], None]:
        """Checks that there is a share of everybody whose shares the sender holds. Returns as
        `_read`.
        """
        owners = self._lists[m.SHARES]
        require(
            len(body) == m.SHARE * len(owners),
            "size",
            f"{len(body)} bytes for the shares of {len(owners)} parties",
        )
        # Each share is compared with the hash that its owner signed: wrong ones are left out.
        right = {
            owner: share
            for owner, share in zip(owners, _parts(body, m.SHARE), strict=True)
            if self._is_right(owner, place, share)
        }

        def take() -> None:
            self._shares[place] = right
            # Zeros in place of a box that did not open count too: its sender may have spoilt it, or
            # its receiver may say so.
            for owner in owners:
                if owner not in right:
                    self._suspect(owner, GAVE_WRONG, place)
                    self._suspect(place, SENT_WRONG, owner)

        return take

    def _suspect(self, place: int, lie: str, other: int) -> None:
        """Notes a wrong share of its owner or of its holder. Names a party that has more of them
        than parties in league could lay on an honest one.
        """
        name = self._names[place]
        others = self.wrong.setdefault((name, lie), set())
        others.add(self._names[other])
        if len(others) > faults(len(self._names), self.members.head.size):
            self.liars[name] = lie

    def _is_right(self, owner: int, holder: int, share: bytes) -> bool:
        """Checks whether a revealed share is the one that its owner committed to for this holder:
        of the seed if the owner sent its vector, of the masks' key if it did not.
        """
        secret: Secret = "masks"
        if owner in self._lists[m.MASKED]:
            secret = "seed"
        # The hash says of which secret the share is, so either of the two that were signed will do.
        hashed = committed(self._views[m.SHARES], owner, holder, secret, share)
        return hashed in _parts(self._commitments[owner][holder], m.COMMITTED // 2)

    def _open_shares(self, heard: Collection[str]) -> None:
        """Fixes the roster: the parties in the order of their names, as all clients check it."""
        self._names = sorted(heard)
        self._said[m.ADVERT] = {name: self._said[m.ADVERT][name] for name in self._names}
        self._place = {name: place for place, name in enumerate(self._names)}
        view = m.roster_view(self._digest, self._entries())
        self._views[m.SHARES] = view

    def _entries(self) -> list[m.SignedAdvert]:
        """The signed adverts in the order of the roster."""
        return [self._adverts[name] for name in self._names]

    def _on(self, stage: int, name: str) -> int:
        """The place of a party that was heard at a closed stage."""
        if name not in self._said[stage]:
            raise SumRefused("unknown", f"'{name[:40]}' was not heard at {m.STAGES[stage]}")
        return self._place[name]

    def _bits(self, stage: int) -> bytes:
        """The parties that were heard at a closed stage, one bit for each of the roster."""
        return m.to_bits(self._lists[stage], len(self._names))


def _parts(data: bytes, size: int) -> list[bytes]:
    """Bytes in parts of one size."""
    return [data[low : low + size] for low in range(0, len(data), size)]
