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

from ...core.types import BoolArray, Float32Array, Int32Array, Int64Array
from ...federation.recorder import Seen
from ..claims import Attack, Claims
from ..transcript import Transcript
from ._pairwise import GRID, nearest, pairwise, pairwise_rates, solved
from ._rows_seen import SURE, prior
from ._sums_seen import as_single_rows

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
    """Devices without names, by place; the first len(items) are in use."""

    p: Float32Array
    """[most, F], the vector last seen."""
    possible: BoolArray
    """[most, users], the users who may be meant."""
    items: list[dict[int, int]]
    """The items that each consumed, with the round."""
    against: list[set[int]]
    """The items that each drew as negatives."""


def run(transcript: Transcript) -> Claims:
    """Claims the items of lone rows for the pseudonyms that their vectors make."""
    users = transcript.users
    most = MOST * users
    factors = transcript.rounds[0].received["q"].shape[1] if transcript.rounds else 1
    unseen = np.full((most, factors), np.inf, np.float32)
    found = Pseudonyms(unseen, np.ones((most, users), bool), [], [])
    lone, rows = 0, 0
    for place, seen in enumerate(transcript.rounds):
        here = _lone(transcript, place, seen)
        lone += len(here.p)
        rows += int((_senders(seen) > 0).sum())
        took_part = np.zeros(users, bool)
        took_part[seen.users] = True
        for p, consumed, other in zip(*here, strict=True):
            at = _find(found, p, took_part)
            found.p[at] = p
            found.possible[at] &= took_part
            found.items[at].setdefault(int(consumed), place)
            found.against[at].add(int(other))
    return _claims(transcript, found, f"{lone} lone rows of {rows}")


def _lone(transcript: Transcript, place: int, seen: Seen) -> LoneRows:
    """The lone rows of a round whose score fits an item: negatives first, then positives."""
    item = np.flatnonzero(_senders(seen) == 1)
    rows = as_single_rows(place, seen, item)
    up = rows.seen.sent["b"] > 0
    parts = []
    for positive in (False, True):
        some = np.flatnonzero(up == positive)
        solution = solved(rows, pairwise_rates(transcript), some, positive=positive)
        partner, gap = nearest(solution, rows, some)
        fits = solution.fit & (gap[:, 0] < GRID)
        triple = [partner[fits, 0], rows.item[some[fits]]]
        if positive:
            triple.reverse()
        parts.append((solution.p[fits], *triple))
    return LoneRows(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def _senders(seen: Seen) -> Int64Array:
    """The number of devices that added to each row; 0 where that stays inside the sum."""
    return seen.sent.get("senders", np.zeros(len(seen.received["b"]), np.int64))


def _find(found: Pseudonyms, p: Float32Array, took_part: BoolArray) -> int:
    """The pseudonym whose vector is nearest, near enough, and who may have taken part; a new one
    otherwise, while there is room.
    """
    used = len(found.items)
    near = NEAR * float(np.linalg.norm(p))
    away = np.linalg.norm(found.p[:used] - p, axis=1)
    order = np.argsort(away)[:TRIED].tolist()
    for at in order:
        if away[at] < near and (found.possible[at] & took_part).any():
            return at
    if used == len(found.p):
        return order[0]
    found.items.append({})
    found.against.append(set())
    return used


def _claims(transcript: Transcript, found: Pseudonyms, said: str) -> Claims:
    """Claims about users where most pseudonyms have one possible name, about those alone; about
    pseudonyms otherwise.
    """
    used = len(found.items)
    score = np.tile(prior(transcript), (used, 1))
    first = np.full((used, transcript.items), -1, np.int32)
    for at, (items, against) in enumerate(zip(found.items, found.against, strict=True)):
        score[at, list(against)] -= SURE
        score[at, list(items)] += 2 * SURE
        first[at, list(items)] = list(items.values())
    possible = found.possible[:used]
    one_name = possible.sum(axis=1) == 1
    named = int(one_name.sum())
    note = f"{said}; {used} pseudonyms, {named} of them with one possible name"
    if named <= used / 2:
        return Claims(np.arange(used), score, first >= 0, first, named=False, note=note)
    # Of several pseudonyms of one user the first is kept.
    users, places = np.unique(possible[one_name].argmax(axis=1), return_index=True)
    score, first = score[one_name][places], first[one_name][places]
    return Claims(users, score, first >= 0, first, note=note)


ATTACK = Attack("lone-rows", ("sum",), "ours", pairwise, run)
