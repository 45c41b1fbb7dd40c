"""`SecureSumClient`: one party of a secure sum. It trusts the server for nothing but to pass
messages on.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import NamedTuple, final

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from ...core.errors import InputError
from ...core.types import Int64Array
from . import messages as m
from . import primitives as p
from .graph import Graph, graph
from .memory import PastSum, check_own, check_parties, sums_of
from .refusal import Code, SumRefused, require
from .shamir import split
from .statements import (
    EMPTY,
    about_own,
    about_pair,
    box_digest,
    commitment,
    committed_pair,
    read_advert,
    said_by,
    sealed,
    unsealed,
)
from .terms import Floors, Roll, SumTerms, checked
from .vector import SumRows

Used = frozenset[tuple[str, int]]  # (run, round) of every masked input that has left
LIST_LIMIT = 512  # bytes of a list from the server for each party, at most


class Secrets(NamedTuple):
    """A client's secrets of one attempt, which never leave it. boxes, masks: x25519 keys; seed: of
    its own mask.
    """

    boxes: X25519PrivateKey
    masks: X25519PrivateKey
    seed: bytes


class Met(NamedTuple):
    """The parties of an attempt, known from their signed adverts. me: the client's own place; view:
    hash of the roster.
    """

    names: list[str]
    adverts: list[m.Advert]
    graph: Graph
    me: int
    view: bytes

    @property
    def around(self) -> list[int]:
        """The places of all parties that hold shares of this client's secrets, itself included."""
        return self.graph.around(self.me)

    def with_people(self, places: Iterable[int]) -> dict[str, int]:
        """Some parties, by name, with the people that each says its vector is the sum of."""
        return {self.names[place]: self.adverts[place].people for place in places}

    def near(self, among: list[int]) -> list[int]:
        """The places among `among` that are neighbours of this client, ascending."""
        some = set(among)
        return [place for place in self.graph.neighbours(self.me) if place in some]


class Opened(NamedTuple):
    """What an inbox held. said: the message; sharers: places of who shared; held: of each
    neighbour among them, its share of the masks' key and of the seed."""

    said: m.Inbox
    sharers: list[int]
    held: dict[int, tuple[bytes, bytes]]


@final
class SecureSumClient:
    """advertise, share, mask, consent, unmask: in this order, each once; the same question again
    gets the same answer.

    Every refusal is a `SumRefused`, after which the state is as before and nothing secret has left.

    Args: terms, roll: what is summed, and the parties' identities: as agreed beforehand, not as the
        server says. name, identity: the own name in the roll, and the raw private Ed25519 key that
        belongs to it (32 bytes). floors: what this client insists on. used: rounds of which this
        client's masked input has left. `mask` adds to `client.used`; the caller stores that before
        it sends
            what `mask` returned, and gives it to the next client, also after a restart: a round is
            summed once, whatever became of it, since the difference of two sums of one round over
            different parties is what a party sent.
        people: of how many users the client's vector will be the sum. most: how many people each
        party can have at most, as agreed beforehand; nobody may say more. None: whatever they say.
        past: the sums that this client has consented to. `consent` sets `client.consented`, which
        the caller stores before it sends what
            `consent` returned, and gives to all later clients, also after a restart.
    """

    def __init__(
        self,
        terms: SumTerms,
        roll: Roll,
        name: str,
        identity: bytes,
        floors: Floors | None = None,
        used: Used = frozenset(),
        *,
        people: int = 1,
        most: Mapping[str, int] | None = None,
        past: tuple[PastSum, ...] = (),
    ) -> None:
        self.terms, self.roll, self.name, self.floors, self.used = (
            terms,
            checked(roll),
            name,
            floors or Floors(),
            used,
        )
        self.people, self.past, self._most = people, past, most
        self.consented: PastSum | None = None
        if self.roll.get(name) != p.identity_of(identity):
            raise InputError("secure sum", f"'{name}' is not in the roll with this identity")
        self._identity, self._digest = identity, terms.digest(self.roll)
        self._secrets = Secrets(
            X25519PrivateKey.generate(), X25519PrivateKey.generate(), secrets.token_bytes(32)
        )
        self._answers: list[
            tuple[bytes, bytes]
        ] = []  # sha256 of the question, and the answer, of every stage so far
        self._met: Met | None = None
        self._box_keys: dict[int, X25519PrivateKey] = {}  # of each box that this client sent
        self._sent: dict[int, bytes] = {}  # `box_digest` of what each neighbour was sent
        self._own: tuple[bytes, bytes] = (
            b"",
            b"",
        )  # the own shares of the own secrets: of the masks' key, of the seed
        self._held: dict[int, tuple[bytes, bytes]] = {}  # the same of each neighbour that shared
        self._looked: tuple[bytes, Opened] | None = None  # the newest inbox that was looked into
        self._sharers: list[int] = []
        self._survivors: list[int] = []
        self._rows, self._own_users = SumRows(0, 0), frozenset[int]()
        self._views = [b""]  # what was seen by the end of each stage

    def advertise(self) -> bytes:
        """Stage 1: the signed message with this client's public keys and the hash of its model."""
        return self._once(m.ADVERT, b"", self._advertise)

    def share(self, roster: bytes) -> bytes:
        """Stage 2: shares of both of this client's secrets, encrypted for each neighbour of the
        roster. Raises SumRefused.
        """
        return self._once(m.SHARES, roster, lambda: self._share(roster))

    def mask(
        self, inbox: bytes, vector: Int64Array, rows: SumRows, users: frozenset[int] = frozenset()
    ) -> bytes:
        """Stage 3: the vector with all masks added. vector: int64 [terms.length]; rows: how full
        its item rows are (`vector.rows_of`); users: whose updates it is the sum of, where one party
        has several. Raises SumRefused.
        """
        require(
            vector.dtype == np.int64 and vector.shape == (self.terms.length,),
            "vector",
            f"{vector.dtype} {vector.shape}; expected int64 ({self.terms.length},)",
        )
        asked = hashlib.sha256(inbox + np.ascontiguousarray(vector).tobytes()).digest()
        return self._once(m.MASKED, asked, lambda: self._mask(inbox, vector, rows, users))

    def consent(self, survivors: bytes) -> bytes:
        """Stage 4: the client's signature of the list of survivors. It will never sign another list
        in this attempt. Raises SumRefused."""
        return self._once(m.CONSENT, survivors, lambda: self._consent(survivors))

    def unmask(self, consents: bytes) -> bytes:
        """Stage 5: for each neighbour one share, of the seed of one that sent its vector, or of the
        mask key of one that did not. All secrets are then forgotten. Raises SumRefused."""
        return self._once(m.UNMASKING, consents, lambda: self._unmask(consents))

    def open_box(self, complaint: bytes) -> bytes:
        """Answers who complained about this client's box: the key of that box, which tells who
        lied.

        It gives away nothing that an honest party keeps: who complains of a box that is good has
        its shares already, and of a box that was changed on the way this client opens nothing.
        Raises SumRefused.
        """
        met = self._others()
        signed = m.decode(complaint, m.Signed, m.limit_of(m.COMPLAINT, 0))
        said_by(self.terms, self.roll, signed, m.COMPLAINT)
        require(signed.sender in met.names, "unknown", f"'{signed.sender[:40]}' takes no part")
        place = met.names.index(signed.sender)
        body = hashlib.sha256(signed.body).digest()
        self._check(m.COMPLAINT, place, met.view, body, signed.signature)
        about = m.decode(signed.body, m.Complaint, len(signed.body))
        require(about.dealer == met.me, "box", "the complaint is about the box of another")
        require(place in self._sent, "box", "no box was sent there, or all is forgotten by now")
        # whoever is honest and got exactly this has opened it; so only a liar has it opened here
        require(
            about.box == self._sent[place],
            "box",
            "the box that came, or the hashes of its shares, are not those that were sent",
        )
        opening = m.Opening(place, self._box_keys[place].private_bytes_raw())
        return self._signed(m.OPENING, met.view, m.encode(opening))

    # ---- stages ----------------------------------------------------------------------------------

    def _advertise(self) -> bytes:
        boxes, masks = (key.public_key().public_bytes_raw() for key in self._secrets[:2])
        body = m.encode(
            m.Advert(self.terms.model, boxes, masks, commitment(self._secrets.seed), self.people)
        )
        return self._signed(m.ADVERT, b"", body)

    def _share(self, roster: bytes) -> bytes:
        met = self._meet(m.decode(roster, m.Roster, self._limit(LIST_LIMIT)).adverts)
        points = [place + 1 for place in met.around]
        of_masks = split(self._secrets.masks.private_bytes_raw(), met.graph.threshold, points)
        of_seed = split(self._secrets.seed, met.graph.threshold, points)
        shares = dict(zip(met.around, zip(of_masks, of_seed, strict=True), strict=True))
        own = shares.pop(met.me)
        keys = {place: X25519PrivateKey.generate() for place in shares}
        boxes = {
            place: sealed(
                met.view, met.me, place, keys[place], met.adverts[place].boxes, b"".join(pair)
            )
            for place, pair in shares.items()
        }
        # a hash of every share, signed with the boxes: by it the server knows a wrong share
        hashes = {
            place: committed_pair(met.view, met.me, place, shares.get(place, own))
            for place in met.around
        }
        message = m.Shares(list(boxes.values()), b"".join(hashes.values()))
        answer = self._signed(m.SHARES, met.view, m.encode(message))
        self._met, self._own, self._box_keys = met, own, keys
        self._sent = {place: box_digest(box, hashes[place]) for place, box in boxes.items()}
        self._views.append(met.view)
        return answer

    def check_inbox(self, inbox: bytes) -> None:
        """Look into the boxes of an inbox before anything is trained for it: as `mask` does.
        Raises SumRefused, for a bad box with a complaint as evidence."""
        if len(self._answers) == m.MASKED:
            self._read_inbox(inbox)

    def _read_inbox(self, inbox: bytes) -> Opened:
        """What an inbox holds. Raises SumRefused."""
        if self._looked is not None and self._looked[0] == inbox:
            return self._looked[1]
        met = self._others()
        said = m.decode(inbox, m.Inbox, self._limit(m.BOX + m.COMMITTED + 8))
        sharers = self._list(said.sharers, range(len(met.names)), "sharers")
        near = met.near(sharers)
        require(
            len(said.boxes) == len(near),
            "box",
            f"{len(said.boxes)} boxes of {len(near)} neighbours that shared",
        )
        require(
            len(said.commitments) == m.COMMITTED * len(near),
            "box",
            f"{len(said.commitments)} bytes of hashes for {len(near)} neighbours that shared",
        )
        held = {}
        for k, (place, box) in enumerate(zip(near, said.boxes, strict=True)):
            hashes = said.commitments[m.COMMITTED * k : m.COMMITTED * (k + 1)]
            held[place] = self._opened(met, place, box, hashes)
        opened = Opened(said, sharers, held)
        self._looked = (inbox, opened)
        return opened

    def _mask(
        self, inbox: bytes, vector: Int64Array, rows: SumRows, users: frozenset[int]
    ) -> bytes:
        met = self._others()
        about = (self.terms.run, self.terms.round)
        require(
            about not in self.used,
            "used",
            f"round {about[1]} of run {about[0]}: this client's masked input has left before",
        )
        require(
            not users or len(users) == self.people,
            "floor",
            f"{len(users)} users; {self.people} were agreed on",
        )
        said, sharers, held = self._read_inbox(inbox)
        self._enough(sharers, rows, users)
        words = self._words(vector, len(sharers))
        keys = {place: self._pair_key(met, place) for place in held}
        own = p.derive(self._secrets.seed, *about_own(met.view, met.me))
        # of every pair the lower place adds the mask, and the higher subtracts it
        plus = [own, *(keys[place] for place in held if place > met.me)]
        minus = [keys[place] for place in held if place < met.me]
        p.add_masks(words, plus, minus)
        view = m.seen(met.view, said.sharers)
        answer = self._signed(m.MASKED, view, words.tobytes())
        self._sharers, self._held = sharers, {**held, met.me: self._own}
        self._rows, self._own_users = rows, users
        self._views.append(view)
        self.used = self.used | {about}
        return answer

    def _pair_key(self, met: Met, place: int) -> bytes:
        """The key of the mask that this client shares with another."""
        common = p.agree(self._secrets.masks, met.adverts[place].masks)
        return p.derive(common, *about_pair(met.view, met.me, place))

    def _consent(self, survivors: bytes) -> bytes:
        met, said = self._others(), m.decode(survivors, m.Survivors, self._limit(LIST_LIMIT))
        alive = self._list(said.survivors, self._sharers, "survivors")
        self._enough(alive, self._rows, self._own_users)
        require(
            met.graph.joined(alive),
            "survivors",
            "they fall apart into groups, each of which would have a sum of its own",
        )
        near = met.near(alive)
        require(
            len(near) == len(said.uploads),
            "survivors",
            f"{len(said.uploads)} uploads of {len(near)} surviving neighbours",
        )
        for place, upload in zip(near, said.uploads, strict=True):
            self._check(m.MASKED, place, self._views[2], upload.digest, upload.signature)
        view = m.seen(self._views[2], said.survivors)
        answer = self._signed(m.CONSENT, view, b"")
        self._survivors = alive
        self.consented = PastSum(self.terms.model, met.with_people(alive), self._own_users)
        self._views.append(view)
        return answer

    def _unmask(self, consents: bytes) -> bytes:
        met, said = self._others(), m.decode(consents, m.Consents, self._limit(LIST_LIMIT))
        signers = m.from_bits(said.signers, len(met.names))
        require(
            signers is not None and set(signers) <= set(self._survivors),
            "quorum",
            "signers that are no survivors",
        )
        signers = signers or []
        require(
            len(said.signatures) == 64 * len(signers), "quorum", "not a signature for each signer"
        )
        require(
            len(signers) >= met.graph.quorum,
            "quorum",
            f"{len(signers)} signed the list of survivors; at least {met.graph.quorum}",
        )
        for k, place in enumerate(signers):
            signature = said.signatures[64 * k : 64 * k + 64]
            self._check(m.CONSENT, place, self._views[3], EMPTY, signature)
        alive = set(self._survivors)
        body = b"".join(self._held[v][v in alive] for v in met.around if v in self._held)
        answer = self._signed(m.UNMASKING, self._views[3], body)
        self._looked = None
        del self._secrets, self._held, self._own
        self._box_keys, self._sent = {}, {}
        return answer

    # ---- checks ----------------------------------------------------------------------------------

    def _once(self, stage: int, question: bytes, answer: Callable[[], bytes]) -> bytes:
        asked, done = hashlib.sha256(question).digest(), len(self._answers)
        if stage < done:
            code: Code = "both" if stage >= m.CONSENT else "stage"
            require(
                self._answers[stage][0] == asked,
                code,
                f"a second and different question for {m.STAGES[stage]}",
            )
            return self._answers[stage][1]
        require(stage == done, "stage", f"{m.STAGES[stage]} comes after {m.STAGES[stage - 1]}")
        self._answers.append((asked, answer()))
        return self._answers[stage][1]

    def _meet(self, roster: list[m.Signed]) -> Met:
        """The others: every advert in order, of a known party, signed for this attempt, with the
        same model.
        """
        names = [advert.sender for advert in roster]
        require(all(a < b for a, b in pairwise(names)), "roster", "the names are not in order")
        require(self.name in names, "roster", "this client is not in it")
        least = max(2, self.floors.parties)
        require(len(names) >= least, "floor", f"{len(names)} parties; at least {least}")
        adverts = [read_advert(self.terms, self.roll, self._digest, advert) for advert in roster]
        me = names.index(self.name)
        require(
            m.encode(roster[me]) == self._answers[0][1],
            "roster",
            "the entry of this client was changed",
        )
        others = [
            name
            for name, advert in zip(names, adverts, strict=True)
            if advert.model != self.terms.model
        ]
        require(
            not others,
            "model",
            f"{len(others)} of {len(names)} parties signed another model than this client: the"
            " server shows different models",
        )
        self._check_people(dict(zip(names, (advert.people for advert in adverts), strict=True)))
        view = m.roster_view(self._digest, roster)
        about = (view, self.terms.dropout, self.terms.malicious, len(self.roll))
        return Met(names, adverts, graph(names, *about), me, view)

    def _check_people(self, parties: Mapping[str, int]) -> None:
        """Enough people, none said of parties that do not have them, and no sum that earlier ones
        would take apart.
        """
        more = [
            name
            for name, people in parties.items()
            if self._most is not None and people > self._most.get(name, 0)
        ]
        require(
            not more,
            "floor",
            f"'{(more or [''])[0][:40]}' says that it has more people than was agreed on",
        )
        people, least = sum(parties.values()), max(self.floors.people, self.terms.people)
        require(people >= least, "floor", f"{people} people; at least {least}")
        check_parties(self.past, self.terms.model, parties, self.floors)

    def _list(self, bits: bytes, among: range | list[int], code: Code) -> list[int]:
        """The parties of a list, `among` others, this client and enough of its neighbours with
        it.
        """
        met = self._others()
        found = m.from_bits(bits, len(met.names))
        if found is None or not set(found) <= set(among):
            raise SumRefused(code, "a list of parties that cannot be")
        require(met.me in found, code, "this client is not on the list")
        near = len(set(found) & set(met.around))
        require(
            near >= met.graph.threshold,
            "floor",
            f"{near} of those that hold shares of this client are left; at least"
            f" {met.graph.threshold}",
        )
        return found

    def _enough(self, alive: list[int], rows: SumRows, users: frozenset[int]) -> None:
        """Whether a sum of the parties in these places would hide them, by itself and beside
        earlier sums.
        """
        met, floors = self._others(), self.floors
        least = met.graph.least(floors.parties)
        require(len(alive) >= least, "floor", f"{len(alive)} parties are left; at least {least}")
        parties = met.with_people(alive)
        self._check_people(parties)
        people = sum(parties.values())
        check_own(self.past, self.terms.model, users, people, floors)
        occupancy = rows.occupancy(people, 1 + sums_of(self.past, parties))
        require(
            floors.noise or occupancy >= floors.occupancy,
            "occupancy",
            f"{occupancy:.2f} devices a row of {people} people; at least {floors.occupancy:g}, or"
            " noise on every row",
        )

    def _words(self, vector: Int64Array, parties: int) -> np.ndarray:
        if self.terms.bits == 32 and len(vector):
            largest = max(int(vector.max()), -int(vector.min()))
            require(
                largest * parties < 1 << 31,
                "range",
                f"{largest} x {parties} parties does not fit 32-bit words",
            )
        return vector.astype(self.terms.dtype)

    def _opened(self, met: Met, place: int, box: bytes, hashes: bytes) -> tuple[bytes, bytes]:
        """The shares in a neighbour's box. Raises SumRefused `box`, with a complaint as evidence,
        unless they are those that the neighbour committed to."""
        share = unsealed(met.view, place, met.me, self._secrets.boxes, box[: m.KEY], box)
        if share is not None and committed_pair(met.view, place, met.me, share) == hashes:
            return share
        about = m.Complaint(place, box_digest(box, hashes))
        complaint = self._signed(m.COMPLAINT, met.view, m.encode(about))
        name = met.names[place][:40]
        text = f"the box of '{name}' does not hold what it committed to, or the server changed it"
        raise SumRefused("box", text, complaint)

    def _check(self, stage: int, place: int, view: bytes, body: bytes, signature: bytes) -> None:
        """That a party said this, having seen the same as this client."""
        name = self._others().names[place]
        statement = m.statement(self._digest, stage, name, view, body)
        require(
            p.verified(self.roll[name], signature, statement),
            "signature",
            f"'{name[:40]}' did not sign this {m.SAID[stage]}: forged, or about another list",
        )

    def _signed(self, stage: int, view: bytes, body: bytes) -> bytes:
        statement = m.statement(self._digest, stage, self.name, view, hashlib.sha256(body).digest())
        signature = p.sign(self._identity, statement)
        return m.encode(
            m.Signed(stage, self.terms.round, self.terms.attempt, self.name, body, signature)
        )

    def _others(self) -> Met:
        if self._met is None:
            raise SumRefused("stage", "no roster yet")
        return self._met

    def _limit(self, each: int) -> int:
        return m.SLACK + len(self.roll) * each
