"""What attacks on single updates share: the rows of a round with whose they are, the popularity
prior, and claims from tallies.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ...core.types import Array, BoolArray, Float32Array, Int32Array, Int64Array
from ...federation.recorder import TAKEN, Seen
from ..claims import Claims
from ..transcript import Transcript

SURE = np.float32(1000)  # log odds of what arithmetic proves


class RowsSeen(NamedTuple):
    """The rows of one round, device by device.

    place: of the round in `transcript.rounds`. seen: that round. who: int64 [n], the place of each
    row's user among the users of the claims. device: int64 [n], the place of its device in the
    round. item: int32 [n]."""

    place: int
    seen: Seen
    who: Int64Array
    device: Int64Array
    item: Int32Array

    def array(self, name: str) -> Float32Array:
        """The rows of an array that was sent, float32 [n, numbers]."""
        rows = self.seen.sent[place_of(name)]
        return rows.reshape(len(rows), int(np.prod(rows.shape[1:])))


class Tally(NamedTuple):
    """What an attack has found so far. users: int64 [m], ascending. evidence: float32 [m, items],
    log odds beside the popularity. first: int32 [m, items], the place of the round at which an item
    was first claimed; -1 = not.
    """

    users: Int64Array
    evidence: Float32Array
    first: Int32Array

    def claim(self, who: Int64Array, item: Array, place: int) -> None:
        """Claims items of the users at places `who`, from the round at `place` on, or from an
        earlier one.
        """
        before = self.first[who, item]
        self.first[who, item] = np.where(before < 0, place, np.minimum(before, place))
        self.evidence[who, item] += SURE

    def deny(self, who: Int64Array, item: Array) -> None:
        """Says that users did not consume items, and takes claims of them back."""
        self.evidence[who, item] = np.minimum(self.evidence[who, item], 0) - 2 * SURE
        self.first[who, item] = -1

    def add(self, who: Int64Array, item: Array, odds: Array) -> None:
        """Adds log odds; the same user and item may come more than once."""
        np.add.at(self.evidence, (who, item), odds.astype(np.float32))


def sends(transcript: Transcript, *names: str) -> bool:
    """Whether all of these arrays were declared to leave devices."""
    return set(names) <= {sent["name"] for sent in transcript.about["sends"]}


def rows_sent(transcript: Transcript) -> bool:
    """Whether devices send rows of items."""
    return any(sent["way"] == "rows" for sent in transcript.about["sends"])


def users_seen(transcript: Transcript) -> Int64Array:
    """The users who took part in some round, ascending."""
    return np.unique(
        np.concatenate([np.empty(0, np.int64), *(seen.users for seen in transcript.rounds)])
    )


def empty_tally(transcript: Transcript) -> Tally:
    """A tally of all users seen, without evidence."""
    users = users_seen(transcript)
    shape = len(users), transcript.items
    return Tally(users, np.zeros(shape, np.float32), np.full(shape, -1, np.int32))


def rounds_of_rows(transcript: Transcript, users: Int64Array) -> Iterator[RowsSeen]:
    """The rounds in which devices sent rows, without rows of zeros, which are there to hide how
    many there are. users: those of the claims, ascending."""
    names = [place_of(sent["name"]) for sent in transcript.about["sends"] if sent["way"] == "rows"]
    for place, one in enumerate(transcript.rounds):
        seen = _with_numbers(one, names) if len(one.sent.get("item", ())) else one
        if len(seen.sent.get("item", ())):
            device = np.repeat(np.arange(len(seen.users)), np.diff(seen.sent["ptr"]))
            yield RowsSeen(
                place, seen, np.searchsorted(users, seen.users)[device], device, seen.sent["item"]
            )


def place_of(name: str) -> str:
    """The name under which a declared array is in what was seen."""
    return f"{name}_" if name in TAKEN else name


def _with_numbers(seen: Seen, names: list[str]) -> Seen:
    """A round without its rows of zeros."""
    some = np.zeros(len(seen.sent["item"]), bool)
    for name in names:
        some |= seen.sent[name].reshape(len(some), -1).any(axis=1)
    if some.all():
        return seen
    ptr = np.append(0, np.cumsum(some))[seen.sent["ptr"]]
    return seen._replace(
        sent={**seen.sent, "ptr": ptr, **{name: seen.sent[name][some] for name in ("item", *names)}}
    )


def prior(transcript: Transcript) -> Float32Array:
    """The log odds that somebody consumed each item by its popularity alone, float32 [items]."""
    many = transcript.popularity.astype(np.float64)
    return np.log((many + 0.5) / (np.maximum(transcript.users - many, 0) + 0.5)).astype(np.float32)


def odds_of(left: Array, sd: float, chance: Array) -> Float32Array:
    """The log odds that numbers add to the popularity: those of a normal distribution of deviation
    `sd` around 0 against one around what consumed items have on average, which is how much the
    numbers grow with the chance of an item, less the error of that.

    left: float [n], larger for consumed items; chance: float [n], the share of users who consumed
    each of these items.
    """
    centred = chance - chance.mean() if len(chance) else chance
    squares = max(float(centred @ centred), 1e-12)
    typical = max(float(left @ centred) / squares - sd / np.sqrt(squares), 0.0)
    return np.clip((left * typical - typical**2 / 2) / max(sd, 1e-9) ** 2, -9, 9).astype(np.float32)


def chances(transcript: Transcript) -> Array:
    """The share of users who consumed each item, float64 [items]."""
    return transcript.popularity / max(1, transcript.users)


def declined(transcript: Transcript, why: str) -> Claims:
    """What an attack says that has nothing to attack with. why: what is missing."""
    return claims_of(transcript, empty_tally(transcript), why)._replace(
        claimed=None, first=None, tried=False
    )


def claims_of(transcript: Transcript, tally: Tally, note: str = "") -> Claims:
    """The claims that follow from a tally: of what was claimed and not ruled out."""
    tally.first[tally.evidence < -SURE] = -1
    claimed: BoolArray = tally.first >= 0
    return Claims(tally.users, prior(transcript) + tally.evidence, claimed, tally.first, note=note)
