"""Common parts of attacks on single updates: the rows of a round with their users, the popularity
prior, and claims from tallies.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise, starmap
from typing import NamedTuple

import numpy as np

from entrenous.core.lanes.memory import owners_of, starts_of
from entrenous.core.types import Array, BoolArray, Float32Array, Int32Array, Int64Array
from entrenous.federation.recorder import TAKEN, Seen

from ..claims import Claims
from ..transcript import Transcript

SURE = np.float32(1000)  # log odds of what arithmetic proves


class RowsSeen(NamedTuple):
    """The rows of one round, device by device."""

    place: int
    """The place of the round in `transcript.rounds`."""
    seen: Seen
    """The round."""
    who: Int64Array
    """[n], the place of each row's user among the users of the claims."""
    device: Int64Array
    """[n], the place of each row's device in the round."""
    item: Int32Array
    """[n], the item of each row."""

    def array(self, name: str) -> Float32Array:
        """The rows of an array that was sent, float32 [n, numbers]."""
        rows = self.seen.sent[place_of(name)]
        numbers = int(np.prod(rows.shape[1:]))
        return rows.reshape(len(rows), numbers)

    @property
    def bias(self) -> Float32Array:
        """The rows of the array `b`, which has one number for each item: float32 [n]."""
        return self.array("b")[:, 0]

    def each_device(self) -> Iterator[slice]:
        """Yields the rows of one device after the other."""
        return starmap(slice, pairwise(self.seen.sent["ptr"].tolist()))


class Tally(NamedTuple):
    """The findings of an attack so far. Methods take one user's place or an array of places."""

    users: Int64Array
    """[m], ascending."""
    evidence: Float32Array
    """[m, items], log odds on top of the popularity."""
    first: Int32Array
    """[m, items], the place of the round at which an item was first claimed; -1 = not."""

    def claim(self, who: Int64Array | int, item: Array, place: int) -> None:
        """Claims items of users from the round at `place` on, or from the earlier round from which
        they were claimed before.
        """
        before = self.first[who, item]
        earliest = np.minimum(before, place)
        self.first[who, item] = np.where(before < 0, place, earliest)
        self.evidence[who, item] += SURE

    def claim_rows(self, rows: RowsSeen, some: BoolArray) -> None:
        """Claims the items of some rows of a round. some: bool [n]."""
        self.claim(rows.who[some], rows.item[some], rows.place)

    def deny(self, who: Int64Array | int, item: Array) -> None:
        """Records that users did not consume items, and takes back claims of these items."""
        against = np.minimum(self.evidence[who, item], 0)
        self.evidence[who, item] = against - 2 * SURE
        self.first[who, item] = -1

    def add(self, who: Int64Array, item: Array, odds: Array) -> None:
        """Adds log odds. The same user and item may be in the arrays more than once."""
        np.add.at(self.evidence, (who, item), odds.astype(np.float32))


# ---- the rows of rounds --------------------------------------------------------------------------


def sends(transcript: Transcript, *names: str) -> bool:
    """Checks whether devices were declared to send all of these arrays."""
    declared = {sent["name"] for sent in transcript.about["sends"]}
    return declared.issuperset(names)


def rows_sent(transcript: Transcript) -> bool:
    """Checks whether devices send rows of items."""
    return any(sent["way"] == "rows" for sent in transcript.about["sends"])


def place_of(name: str) -> str:
    """The name under which a declared array was recorded."""
    if name in TAKEN:
        return f"{name}_"
    return name


def device_of_rows(seen: Seen) -> Int64Array:
    """The place of each row's device in a round of single updates, int64 [n]."""
    return owners_of(seen.sent["ptr"])


def users_seen(transcript: Transcript) -> Int64Array:
    """The users who took part in some round, ascending."""
    users = [seen.users for seen in transcript.rounds]
    # Without any round there would be nothing to concatenate.
    parts = [np.empty(0, np.int64), *users]
    return np.unique(np.concatenate(parts))


def rounds_of_rows(transcript: Transcript) -> Iterator[RowsSeen]:
    """Yields the rounds in which devices sent rows, without rows of zeros: these are there to hide
    how many others there are. The users of the claims are those of `users_seen`.
    """
    users = users_seen(transcript)
    sends = transcript.about["sends"]
    names = [place_of(sent["name"]) for sent in sends if sent["way"] == "rows"]
    for place, whole in enumerate(transcript.rounds):
        if not len(whole.sent.get("item", ())):
            continue
        seen = _with_numbers(whole, names)
        item = seen.sent["item"]
        if len(item):
            device = device_of_rows(seen)
            who = np.searchsorted(users, seen.users)
            yield RowsSeen(place, seen, who[device], device, item)


def _with_numbers(seen: Seen, names: list[str]) -> Seen:
    """Returns a round without its rows of zeros. names: of the arrays with rows."""
    some = np.zeros(len(seen.sent["item"]), bool)
    for name in names:
        numbers = seen.sent[name].reshape(len(some), -1)
        some |= numbers.any(axis=1)
    if some.all():
        return seen
    sent = {name: seen.sent[name][some] for name in ("item", *names)}
    # Each device's rows begin behind as many kept rows as there were before it.
    kept_before = starts_of(some)
    sent["ptr"] = kept_before[seen.sent["ptr"]]
    return seen._replace(sent={**seen.sent, **sent})


# ---- odds ----------------------------------------------------------------------------------------


def prior(transcript: Transcript, known: BoolArray | None = None) -> Float32Array:
    """The log odds that somebody consumed each item by its popularity alone, float32 [items].
    known: of whom it is known already, bool [users, items].
    """
    consumers = transcript.popularity.astype(np.float64)
    others = np.maximum(transcript.users - consumers, 0)
    if known is not None:
        consumers = np.maximum(consumers - known.sum(axis=0), 0)
    # Half a user on each side keeps the odds of unknown items finite.
    odds = (consumers + 0.5) / (others + 0.5)
    return np.log(odds).astype(np.float32)


def chances(transcript: Transcript) -> Array:
    """The share of users who consumed each item, float64 [items]."""
    return transcript.popularity / max(1, transcript.users)


def odds_of(left: Array, sd: float, chance: Array) -> Float32Array:
    """The log odds that numbers add to the popularity: of a normal distribution around the typical
    number of consumed items against one around 0, both of deviation `sd`.

    left: float [n], larger for consumed items; chance: float [n], the share of users who consumed
    each of these items.
    """
    # The typical number is the slope of the numbers over the chance, less the slope's error.
    centred = chance
    if len(chance):
        centred = chance - chance.mean()
    squares = max(float(centred @ centred), 1e-12)
    slope = float(left @ centred) / squares
    typical = max(slope - sd / np.sqrt(squares), 0.0)
    # ln N(left; typical, sd) - ln N(left; 0, sd)
    scale = max(sd, 1e-9) ** 2
    odds = (left * typical - typical**2 / 2) / scale
    return np.clip(odds, -9, 9).astype(np.float32)


# ---- claims --------------------------------------------------------------------------------------


def empty_tally(transcript: Transcript) -> Tally:
    """A tally of all users seen, without evidence."""
    users = users_seen(transcript)
    shape = len(users), transcript.items
    evidence = np.zeros(shape, np.float32)
    never = np.full(shape, -1, np.int32)
    return Tally(users, evidence, never)


def claims_of(transcript: Transcript, tally: Tally, note: str = "") -> Claims:
    """The claims that follow from a tally: all items that were claimed and not ruled out."""
    # A denial may have come before the claim that it outweighs.
    tally.first[tally.evidence < -SURE] = -1
    score = prior(transcript) + tally.evidence
    return Claims(tally.users, score, tally.first >= 0, tally.first, note=note)


def ranks_alone(transcript: Transcript, tally: Tally, note: str = "") -> Claims:
    """A ranking by the evidence of a tally, which claims no item."""
    claims = claims_of(transcript, tally, note)
    return claims._replace(claimed=None, first=None)


def declined(transcript: Transcript, why: str) -> Claims:
    """The answer of an attack that has nothing to attack with. why: names what is missing."""
    by_popularity = ranks_alone(transcript, empty_tally(transcript), why)
    return by_popularity._replace(tried=False)
