"""A row of a sum to which one device alone added is that device's row, and its vector links it to
others of the same device.

With few triples a round most rows of a sum have one sender (`senders` is 1): such a row of FPL
gives p_u and the triple's other item as a single update does (the attack `match`). Vectors that are
close, in rounds whose cohorts have a user in common, are taken for one device's; these pseudonyms
carry the items, and a name once their cohorts have one user in common. Source: ours; linking is as
in M. Lam, G. Wei, D. Brooks, V. J. Reddi, M. Mitzenmacher, "Gradient disaggregation", ICML 2021, in
that who took part is known.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from entrenous.core.types import BoolArray, Float32Array, Int32Array
from entrenous.federation.recorder import Seen

from ..claims import Attack, Claims
from ..transcript import Transcript
from ._pairwise import GRID, matched, pairwise, pairwise_rates
from ._rows_seen import SURE, declined, prior
from ._sums_seen import as_single_rows, senders_of

MOST = 2  # pseudonyms for each user
NEAR = 0.35  # of the length of a vector: how far it may have moved since it was last seen
TRIED = 3  # nearest pseudonyms of a vector


class LoneRows(NamedTuple):
    """The lone rows of a round, solved."""

    p: Float32Array
    """[n, F]."""
    consumed: Int32Array
    """[n], the positive of the triple."""
    other: Int32Array
    """[n], its negative."""


class Pseudonyms(NamedTuple):
    """Devices without names, by place; the first `used` are in use."""

    p: Float32Array
    """[most, F], the vector last seen."""
    possible: BoolArray
    """[most, users], the users who may be meant."""
    items: list[dict[int, int]]
    """The items that each consumed, with the round."""
    against: list[set[int]]
    """The items that each drew as negatives."""

    @property
    def used(self) -> int:
        """The number of pseudonyms so far."""
        return len(self.items)


def run(transcript: Transcript) -> Claims:
    """Claims the items of lone rows for the pseudonyms that their vectors make."""
    users = transcript.users
    most = MOST * users
    # Without a round there is nothing to read, and any width will do.
    rounds = transcript.rounds
    factors = 1
    if rounds:
        factors = rounds[0].received["q"].shape[1]
    unseen = np.full((most, factors), np.inf, np.float32)
    anybody = np.ones((most, users), bool)
    pseudonyms = Pseudonyms(unseen, anybody, [], [])
    lone = 0
    rows = 0
    for place, seen in enumerate(transcript.rounds):
        solved = _lone(transcript, place, seen)
        lone += len(solved.p)
        rows += int((senders_of(seen) > 0).sum())
        took_part = np.zeros(users, bool)
        took_part[seen.users] = True
        for p, consumed, other in zip(*solved, strict=True):
            at = _find(pseudonyms, p, took_part)
            # The vector has moved, and whoever was away is not this device's user.
            pseudonyms.p[at] = p
            pseudonyms.possible[at] &= took_part
            pseudonyms.items[at].setdefault(int(consumed), place)
            pseudonyms.against[at].add(int(other))
    if not lone:
        return declined(transcript, f"no lone row among {rows}")
    return _claims(transcript, pseudonyms, f"{lone} lone rows of {rows}")


def _lone(transcript: Transcript, place: int, seen: Seen) -> LoneRows:
    """The lone rows of a round whose score fits an item: negatives first, then positives."""
    item = np.flatnonzero(senders_of(seen) == 1)
    rows = as_single_rows(place, seen, item)
    rates = pairwise_rates(transcript)
    up = rows.bias > 0
    parts = []
    for positive in (False, True):
        some = np.flatnonzero(up == positive)
        match = matched(rows, rates, some, GRID, positive=positive)
        partner = match.item[match.sure]
        own = rows.item[some[match.sure]]
        consumed, other = (own, partner) if positive else (partner, own)
        parts.append((match.p[match.sure], consumed, other))
    columns = zip(*parts, strict=True)
    return LoneRows(*(np.concatenate(arrays) for arrays in columns))


def _find(pseudonyms: Pseudonyms, p: Float32Array, took_part: BoolArray) -> int:
    """The place of the pseudonym whose vector is nearest, near enough, and whose user may have
    taken part; otherwise of a new one, while there is room, or of the nearest.
    """
    used = pseudonyms.used
    near = NEAR * float(np.linalg.norm(p))
    away = np.linalg.norm(pseudonyms.p[:used] - p, axis=1)
    order = np.argsort(away)[:TRIED].tolist()
    for at in order:
        if away[at] < near and (pseudonyms.possible[at] & took_part).any():
            return at
    if used == len(pseudonyms.p):
        return order[0]
    pseudonyms.items.append({})
    pseudonyms.against.append(set())
    return used


def _claims(transcript: Transcript, pseudonyms: Pseudonyms, lone: str) -> Claims:
    """Claims about the users of pseudonyms with one possible name, if these are most pseudonyms;
    about all pseudonyms otherwise. lone: the note on lone rows.
    """
    used = pseudonyms.used
    score = np.tile(prior(transcript), (used, 1))
    first = np.full((used, transcript.items), -1, np.int32)
    for at, items in enumerate(pseudonyms.items):
        consumed = list(items)
        score[at, list(pseudonyms.against[at])] -= SURE
        score[at, consumed] += 2 * SURE
        first[at, consumed] = list(items.values())
    possible = pseudonyms.possible[:used]
    one_name = possible.sum(axis=1) == 1
    named = int(one_name.sum())
    note = f"{lone}; {used} pseudonyms, {named} of them with one possible name"
    if named <= used / 2:
        return Claims(np.arange(used), score, first >= 0, first, named=False, note=note)
    # Of several pseudonyms of one user the first is kept.
    users, places = np.unique(possible[one_name].argmax(axis=1), return_index=True)
    score = score[one_name][places]
    first = first[one_name][places]
    return Claims(users, score, first >= 0, first, note=note)


ATTACK = Attack("lone-rows", ("sum",), "ours", pairwise, run)
