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
from ._rows_seen import SURE, RowsSeen, prior

MOST = 2  # pseudonyms for each user
NEAR = 0.35  # of the length of a vector: how far it may have moved since it was last seen


class LoneRows(NamedTuple):
    """What lone rows of a round say. p: float32 [n, F]; consumed, other: int32 [n], the items of
    the triple.
    """

    p: Float32Array
    consumed: Int32Array
    other: Int32Array


class Pseudonyms(NamedTuple):
    """Devices without names, by place, of which the first len(items) are in use. p: float32 [most,
    F], the vector last seen; possible: bool [most, users], who may be meant; items: what each
    consumed, with the round; against: what it drew as negatives.
    """

    p: Float32Array
    possible: BoolArray
    items: list[dict[int, int]]
    against: list[set[int]]


def run(transcript: Transcript) -> Claims:
    """Claims the items of lone rows for the pseudonyms that their vectors make."""
    users, lone, rows = transcript.users, 0, 0
    factors = transcript.rounds[0].received["q"].shape[1] if transcript.rounds else 1
    found = Pseudonyms(
        np.full((MOST * users, factors), np.inf, np.float32),
        np.ones((MOST * users, users), bool),
        [],
        [],
    )
    for place, seen in enumerate(transcript.rounds):
        here = _lone(transcript, place, seen)
        lone, rows = lone + len(here.p), rows + int((_senders(seen) > 0).sum())
        took_part = np.zeros(transcript.users, bool)
        took_part[seen.users] = True
        for n in range(len(here.p)):
            at = _find(found, here.p[n], took_part)
            found.p[at] = here.p[n]
            found.possible[at] &= took_part
            found.items[at].setdefault(int(here.consumed[n]), place)
            found.against[at].add(int(here.other[n]))
    return _claims(transcript, found, f"{lone} lone rows of {rows}")


def _lone(transcript: Transcript, place: int, seen: Seen) -> LoneRows:
    """The lone rows of a round whose score fits an item."""
    item = np.flatnonzero(_senders(seen) == 1).astype(np.int32)
    sent = {name: seen.sent[name][item].astype(np.float32) for name in ("q", "b")}
    none = np.zeros(len(item), np.int64)
    rows, rates = (
        RowsSeen(place, seen._replace(sent=sent), none, none, item),
        pairwise_rates(transcript),
    )
    parts = []
    for positive in (False, True):
        some = np.flatnonzero((sent["b"] > 0) == positive)
        answer = solved(rows, rates, some, positive=positive)
        partner, gap = nearest(answer, rows, some)
        fits = answer.fit & (gap[:, 0] < GRID)
        own, other = item[some[fits]], partner[fits, 0]
        parts.append((answer.p[fits], own if positive else other, other if positive else own))
    return LoneRows(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def _senders(seen: Seen) -> Int64Array:
    """How many devices added to each row; of none where that stays inside the sum."""
    return seen.sent.get("senders", np.zeros(len(seen.received["b"]), np.int64))


def _find(found: Pseudonyms, p: Float32Array, took_part: BoolArray) -> int:
    """The pseudonym whose vector is nearest, near enough, and who may have taken part; a new one
    otherwise, while there is room.
    """
    used, near = len(found.items), NEAR * float(np.linalg.norm(p))
    away = np.linalg.norm(found.p[:used] - p, axis=1)
    order = np.argsort(away)[:3].tolist()
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
    score, first = (
        np.tile(prior(transcript), (used, 1)),
        np.full((used, transcript.items), -1, np.int32),
    )
    for at, (items, against) in enumerate(zip(found.items, found.against, strict=True)):
        score[at, list(against)] -= SURE
        score[at, list(items)] += 2 * SURE
        first[at, list(items)] = list(items.values())
    one = found.possible[:used].sum(axis=1) == 1
    note = f"{said}; {used} pseudonyms, {int(one.sum())} of them with one possible name"
    if one.sum() <= used / 2:
        return Claims(np.arange(used), score, first >= 0, first, False, note)
    names, places = np.unique(found.possible[:used][one].argmax(axis=1), return_index=True)
    return Claims(
        names, score[one][places], first[one][places] >= 0, first[one][places], True, note
    )


ATTACK = Attack("lone-rows", ("sum",), "ours", pairwise, run)
