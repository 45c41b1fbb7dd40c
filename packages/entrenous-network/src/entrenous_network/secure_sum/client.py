"""`SecureSumClient`: one party of a secure sum. It trusts the server for nothing but to pass
messages on.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple, final

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from entrenous.core.types import Array, Int64Array

from ..wire.statement import DOMAIN
from . import messages as m
from . import primitives as p
from .merkle import Leaf, LogHead
from .party_list import PartyList, sums_of
from .quorum import least, quorum
from .refusal import Code, SumRefused, require
from .shamir import split
from .statements import Purpose, about_box, about_own, about_pair, commitment, committed_pair
from .terms import Floors, SumTerms
from .vector import SumRows

SharePair = tuple[bytes, bytes]
"""One holder's shares of the masks' key and of the seed of one party."""
LIST_LIMIT = 1536  # bytes of a list from the server for each party, at most


class Secrets(NamedTuple):
    """A client's secrets of one attempt, which never leave it."""

    boxes: X25519PrivateKey
    """Opens the boxes that others send it."""
    masks: X25519PrivateKey
    """Agrees on a mask with each other party."""
    seed: bytes
    """Of the mask that it alone adds."""


class Met(NamedTuple):
    """The parties of an attempt, known from their signed adverts."""

    leaves: list[Leaf]
    adverts: list[m.Advert]
    members: int
    """All who can be parties."""
    me: int
    """The client's own place."""
    view: bytes
    """The hash of the roster."""

    @property
    def quorum(self) -> int:
        """The signatures that make a list binding, and the shares that give a secret."""
        return quorum(len(self.leaves), self.members)

    def named(self, places: Iterable[int]) -> tuple[str, ...]:
        """The names of some parties."""
        return tuple(self.leaves[place].name for place in places)

    @property
    def shops(self) -> dict[str, bytes]:
        """The mark of each, b"" of who bears none, by name."""
        return {leaf.name: leaf.shop for leaf in self.leaves}

    def others(self, among: Iterable[int]) -> list[int]:
        """The places among `among` that are not this client's."""
        return [place for place in among if place != self.me]


@final
class SecureSumClient:
    """advertise, share, mask, consent, unmask: in this order, each once; the same question again
    gets the same answer.

    Every refusal is a `SumRefused`, after which the state is as before and nothing secret has left.

    Args: terms, members: the terms of the sum and the log of all who can be parties, as agreed
        beforehand and not as the server says. name, identity: the client's name in the log, and the
        raw private Ed25519 key that belongs to it (32 bytes). floors: the client's own demands. The
        caller stores the round before it sends the answer of `mask`, and makes no further client
        for it: the difference of two sums of one round over different parties is what a party sent.
        rule: raises SumRefused for parties in whose sum the client will not be, held against
        earlier ones; it is told the mark of each, too.
        past: the sums that this client has consented to. `consent` sets `client.consented`, which
        the caller stores before it sends the answer of `consent`, and gives to all later clients,
        also after a restart.
        verify: checks signatures; clients in one process may share a `VerifiedOnce`.
    """

    def __init__(
        self,
        terms: SumTerms,
        members: LogHead,
        name: str,
        identity: bytes,
        floors: Floors | None = None,
        *,
        past: tuple[PartyList, ...] = (),
        rule: Callable[[PartyList, Mapping[str, bytes]], None] | None = None,
        verify: p.Verify = p.verified,
    ) -> None:
        self.terms = terms
        self.members = members
        self.name = name
        own = floors or Floors()
        # The terms may ask for more people, and never for fewer.
        self.floors = replace(own, people=max(own.people, terms.people))
        self.past = past
        self._rule = rule
        self._verify = verify
        self.consented: PartyList | None = None
        self._identity = identity
        self._digest = terms.digest(members)
        # Fresh in every attempt: shares of an attempt that failed open nothing of the next one.
        self._secrets = Secrets(
            X25519PrivateKey.generate(), X25519PrivateKey.generate(), secrets.token_bytes(32)
        )
        # sha256 of the question, and the answer, of every stage so far.
        self._answers: list[tuple[bytes, m.Signed]] = []
        self._met: Met | None = None
        # This client's shares of its own secrets, and of those of each party that shared.
        self._held: dict[int, SharePair] = {}
        self._sharers: list[int] = []
        self._survivors: list[int] = []
        self._rows = SumRows(0, 0)
        # The hash of all that was seen by the end of each stage.
        self._views = [self._digest]

    def advertise(self) -> m.Signed:
        """Stage 1: the message with this client's public keys and the hash of its model."""
        return self._once(m.ADVERT, b"", self._advertise)

    def share(self, roster: bytes) -> m.Signed:
        """Stage 2: shares of both of this client's secrets, encrypted for each other party of the
        roster. Raises SumRefused.
        """
        return self._once(m.SHARES, roster, lambda: self._share(roster))

    def mask(self, inbox: bytes, vector: Int64Array, rows: SumRows) -> m.Signed:
        """Stage 3: the vector with all masks added. vector: int64 [terms.length]; rows: how full
        its item rows are (`vector.rows_of`). Raises SumRefused.
        """
        require(
            vector.dtype == np.int64 and vector.shape == (self.terms.length,),
            "vector",
            f"{vector.dtype} {vector.shape}; expected int64 ({self.terms.length},)",
        )
        question = hashlib.sha256(inbox + np.ascontiguousarray(vector).tobytes()).digest()
        return self._once(m.MASKED, question, lambda: self._mask(inbox, vector, rows))

    def consent(self, survivors: bytes) -> m.Signed:
        """Stage 4: the client's signature of the list of survivors. It will never sign another list
        in this attempt. Raises SumRefused.
        """
        return self._once(m.CONSENT, survivors, lambda: self._consent(survivors))

    def unmask(self, consents: bytes) -> m.Signed:
        """Stage 5: of each party that shared one share, of the seed of one that sent its vector, or
        of the mask key of one that did not. All secrets are then forgotten. Raises SumRefused.
        """
        return self._once(m.UNMASKING, consents, lambda: self._unmask(consents))

    # ---- stage 1 and 2: keys and shares ----------------------------------------------------------

    def _advertise(self) -> m.Signed:
        # The model's hash: a server that shows one party another model is seen by all others.
        # The seed's commitment: shares of another seed are known as such when they are revealed.
        advert = m.Advert(
            self.terms.model,
            self._secrets.boxes.public_key().public_bytes_raw(),
            self._secrets.masks.public_key().public_bytes_raw(),
            commitment(self._secrets.seed),
        )
        return self._signed(m.ADVERT, self._digest, m.encode(advert))

    def _share(self, roster: bytes) -> m.Signed:
        met = self._meet(m.decode(roster, m.Roster, self._limit(LIST_LIMIT)))
        # A share of both secrets for each party, this client itself too: a quorum of them gives the
        # secret, fewer say nothing.
        points = range(1, len(met.leaves) + 1)
        of_masks = split(self._secrets.masks.private_bytes_raw(), met.quorum, points)
        of_seed = split(self._secrets.seed, met.quorum, points)
        pairs = dict(enumerate(zip(of_masks, of_seed, strict=True)))
        # A hash of every share, signed with the boxes: by it the server knows a wrong share later.
        hashes = [committed_pair(met.view, met.me, place, pair) for place, pair in pairs.items()]
        own = pairs.pop(met.me)
        boxes = []
        for place, pair in pairs.items():
            # Between keys of signed adverts: nobody else makes a box in this client's name, and no
            # box has a key of its own that somebody could ask for.
            key = self._box_key(met, place, about_box(met.view, met.me, place))
            boxes.append(p.seal(key, b"".join(pair)))
        message = m.Shares(boxes, b"".join(hashes))
        answer = self._signed(m.SHARES, met.view, m.encode(message))
        # Nothing failed: from here on the state is that of the next stage.
        self._met = met
        self._held = {met.me: own}
        self._views.append(met.view)
        return answer

    def _meet(self, roster: list[m.SignedAdvert]) -> Met:
        """The other parties: every advert in order, of a member, signed for this attempt, with the
        same model.
        """
        leaves = [advert.entry.leaf for advert in roster]
        # In order of names, each once: so all clients number the parties alike.
        names = [leaf.name for leaf in leaves]
        require(all(a < b for a, b in pairwise(names)), "roster", "the names are not in order")
        require(self.name in names, "roster", "this client is not in it")
        # Signed by keys of a log that is known beforehand: a server that puts in keys of its own
        # would read every share.
        adverts = []
        for leaf, advert in zip(leaves, roster, strict=True):
            listed = self.members.has(advert.entry) and leaf.first == leaf.last
            # Whose place in the log the server shows wrongly has not lied.
            require(listed, "unknown", "the log does not have each party, with one user")
            self._check(m.ADVERT, leaf, advert.body, advert.signature)
            adverts.append(m.decode(advert.body, m.Advert, m.SLACK))
        me = names.index(self.name)
        require(
            roster[me].body == self._answers[m.ADVERT][1].body,
            "roster",
            "the entry of this client was changed",
        )
        # A model made for one party alone would mark that party's update in the sum.
        others = sum(advert.model != self.terms.model for advert in adverts)
        require(
            others == 0,
            "model",
            f"{others} of {len(names)} parties signed another model than this client: the"
            " server shows different models",
        )
        # The view is in every later signature: two groups with two rosters cannot take each other's
        # messages.
        view = m.roster_view(self._digest, roster)
        met = Met(leaves, adverts, self.members.size, me, view)
        self._check_people(met, tuple(names))
        return met

    # ---- stage 3: the masked vector --------------------------------------------------------------

    def _mask(self, inbox: bytes, vector: Int64Array, rows: SumRows) -> m.Signed:
        met = self._others()
        said = m.decode(inbox, m.Inbox, self._limit(m.BOX + 8))
        sharers = self._list(said.sharers, range(len(met.leaves)), "sharers")
        # Nothing leaves for a sum that could not come out, or that would not hide this client.
        self._enough(sharers, rows)
        held = self._opened(met.others(sharers), said.boxes)
        words = self._words(vector, len(sharers))
        # Of every pair the lower place adds the common mask, and the higher subtracts it. The own
        # mask hides the vector from a server that says the client was gone, and has the others
        # reveal the pairs' masks, while the vector was only late.
        keys = {place: self._pair_key(met, place) for place in held}
        own = p.derive(self._secrets.seed, *about_own(met.view, met.me))
        plus = [own, *(keys[place] for place in held if place > met.me)]
        minus = [keys[place] for place in held if place < met.me]
        p.add_masks(words, plus, minus)
        # The signature covers the list of sharers: with another list the masks would not cancel,
        # and the survivors would notice before anything is revealed.
        view = m.seen(met.view, said.sharers)
        answer = self._signed(m.MASKED, view, words.tobytes())
        self._sharers = sharers
        self._held |= held
        self._rows = rows
        self._views.append(view)
        return answer

    def _opened(self, senders: list[int], boxes: list[bytes]) -> dict[int, SharePair]:
        """The shares in the boxes of some parties, by the place of each. Raises SumRefused."""
        met = self._others()
        require(
            len(boxes) == len(senders),
            "box",
            f"{len(boxes)} boxes of {len(senders)} others that shared",
        )
        held = {}
        for place, box in zip(senders, boxes, strict=True):
            key = self._box_key(met, place, about_box(met.view, place, met.me))
            # Zeros are a wrong share of anything: a box that does not open costs its sender a
            # share, and nobody a round.
            shares = p.unseal(key, box) or bytes(2 * m.SHARE)
            held[place] = (shares[: m.SHARE], shares[m.SHARE :])
        return held

    def _box_key(self, met: Met, other: int, about: Purpose) -> bytes:
        """The key of a box that this client sends to another, or gets from it."""
        return p.derive(p.agree(self._secrets.boxes, met.adverts[other].boxes), *about)

    def _words(self, vector: Int64Array, people: int) -> Array:
        """The vector in words of the sum, in which a sum of so many people cannot overflow."""
        if self.terms.bits == 32 and len(vector):
            largest = max(int(vector.max()), -int(vector.min()))
            # If all have at most as much, the sum is below 2^31.
            require(
                largest * people < 1 << 31,
                "range",
                f"{largest} x {people} people does not fit 32-bit words",
            )
        return vector.astype(self.terms.dtype)

    def _pair_key(self, met: Met, place: int) -> bytes:
        """The key of the mask that this client shares with another."""
        common = p.agree(self._secrets.masks, met.adverts[place].masks)
        return p.derive(common, *about_pair(met.view, met.me, place))

    # ---- stage 4: consent ------------------------------------------------------------------------

    def _consent(self, survivors: bytes) -> m.Signed:
        met = self._others()
        # The sum that would come out is over these parties alone, so all floors are checked again.
        # Whether the server has their vectors is its own affair: without one, its sum says nothing.
        alive = self._list(survivors, self._sharers, "survivors")
        self._enough(alive, self._rows)
        view = m.seen(self._views[2], survivors)
        answer = self._signed(m.CONSENT, view, b"")
        self._survivors = alive
        self.consented = PartyList(self.terms.model, met.named(alive))
        self._views.append(view)
        return answer

    # ---- stage 5: shares -------------------------------------------------------------------------

    def _unmask(self, consents: bytes) -> m.Signed:
        met = self._others()
        said = m.decode(consents, m.Consents, self._limit(LIST_LIMIT))
        signers = m.from_bits(said.signers, len(met.leaves))
        if signers is None or not set(signers) <= set(self._survivors):
            raise SumRefused("quorum", "signers that are no survivors")
        require(
            len(said.signatures) == 64 * len(signers), "quorum", "not a signature for each signer"
        )
        # Two lists cannot both have a quorum, and so nobody gets both kinds of shares of a party:
        # with both the server would take all masks off that party's vector.
        require(
            len(signers) >= met.quorum,
            "quorum",
            f"{len(signers)} signed the list of survivors; at least {met.quorum}",
        )
        for k, place in enumerate(signers):
            signature = said.signatures[64 * k : 64 * k + 64]
            self._check(m.CONSENT, met.leaves[place], b"", signature)
        # Of a party that sent its vector the own mask comes off; of another the pairs' masks.
        alive = set(self._survivors)
        shares = []
        for place in self._sharers:
            of_masks, of_seed = self._held[place]
            shares.append(of_seed if place in alive else of_masks)
        answer = self._signed(m.UNMASKING, self._views[3], b"".join(shares))
        # Forgotten: a program that is taken over later has nothing left to reveal.
        del self._secrets, self._held
        return answer

    # ---- checks ----------------------------------------------------------------------------------

    def _once(self, stage: int, question: bytes, answer: Callable[[], m.Signed]) -> m.Signed:
        """The answer to the question of a stage. The same question gets the same answer, since a
        message may be lost; a second and different one is refused.
        """
        asked = hashlib.sha256(question).digest()
        done = len(self._answers)
        if stage < done:
            code: Code = "both" if stage >= m.CONSENT else "stage"
            asked_before, answered = self._answers[stage]
            require(
                asked_before == asked,
                code,
                f"a second and different question for {m.STAGES[stage]}",
            )
            return answered
        require(stage == done, "stage", f"{m.STAGES[stage]} comes after {m.STAGES[stage - 1]}")
        self._answers.append((asked, answer()))
        return self._answers[stage][1]

    def _check_people(self, met: Met, parties: tuple[str, ...]) -> None:
        """Refuses too few people, and a sum that the rule refuses."""
        self._hold(self.floors.unmet(len(parties)))
        if self._rule is not None:
            self._rule(PartyList(self.terms.model, parties), met.shops)

    def _list(self, bits: bytes, among: range | list[int], code: Code) -> list[int]:
        """The parties of a list. All are in `among`; this client is in it."""
        met = self._others()
        places = m.from_bits(bits, len(met.leaves))
        if places is None or not set(places) <= set(among):
            raise SumRefused(code, "a list of parties that cannot be")
        require(met.me in places, code, "this client is not on the list")
        return places

    def _enough(self, alive: list[int], rows: SumRows) -> None:
        """Refuses parties whose sum would not hide them, by itself or compared with earlier
        sums.
        """
        met = self._others()
        # With fewer than a quorum nobody could take masks off the sum, which then says nothing.
        fewest = least(self.floors.people, len(met.leaves), met.members)
        require(len(alive) >= fewest, "floor", f"{len(alive)} parties are left; at least {fewest}")
        parties = met.named(alive)
        self._check_people(met, parties)
        # A row that one device fills is that device's row.
        occupancy = rows.occupancy(len(alive), 1 + sums_of(self.past, parties))
        self._hold(self.floors.unmet(len(alive), occupancy))

    def _hold(self, unmet: tuple[Code, str] | None) -> None:
        """Refuses a sum that does not meet a floor."""
        if unmet is not None:
            raise SumRefused(*unmet)

    def _check(self, stage: int, leaf: Leaf, body: bytes, signature: bytes) -> None:
        """Refuses a message unless that party signed it, having seen the same as this client."""
        head = self.terms.head(stage, leaf.name, self._views[stage], body)
        require(
            self._verify(leaf.key, signature, DOMAIN + head),
            "signature",
            f"'{leaf.name[:40]}' did not sign this {m.STAGES[stage]}: forged, or of another list",
        )

    def _signed(self, stage: int, view: bytes, body: bytes) -> m.Signed:
        """A message of a stage, signed with the hash of all seen."""
        head = self.terms.head(stage, self.name, view, body)
        signature = p.sign(self._identity, DOMAIN + head)
        return m.Signed(stage, self.name, head, signature, body)

    def _others(self) -> Met:
        if self._met is None:
            raise SumRefused("stage", "no roster yet")
        return self._met

    def _limit(self, each: int) -> int:
        return m.SLACK + min(self.members.size, m.MAX_PARTIES) * each
