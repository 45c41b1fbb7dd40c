"""With public draws the numbers of items alone tell the history: each row gives the rank of its
item among those not consumed.

Where draws are public, whoever knows the seed knows for every triple of FPL in which place k among
the unseen items its negative lies (kernels/sampling.py). A negative j in place k has j - k
consumed items before it, so that two negatives say how many of the items between them are consumed:
where that is all or none, they are decided. Only lengths n of the history with which the places of
all rows fit are possible, and what these agree on is claimed. At pi = 0 it needs no numbers but
ids, the seed, and rows in any order; at other pi the sign of b tells which rows are negatives.
Source: ours.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from entrenous.core.compiling import njit
from entrenous.core.keys import draw, folds, local_key
from entrenous.core.keys import key as key_of
from entrenous.core.types import Array, BoolArray, Float32Array, Int64Array, UInt64Array

from ..claims import Attack, Claims
from ..transcript import Transcript
from ._pairwise import pairwise
from ._rows_seen import claims_of, empty_tally, rounds_of_rows

LOW32 = np.uint64(0xFFFFFFFF)
S32 = np.uint64(32)
MOST = 64  # lengths that are tried out
MAYBE = np.float32(8)  # log odds at most of items between all and none


class Drawing(NamedTuple):
    """The draws of one device in one round, and the negatives that they led to."""

    draws: UInt64Array
    """[triples], lower halves of the draws, ascending."""
    items: Int64Array
    """The different items that were drawn, ascending."""


def applies(transcript: Transcript) -> bool:
    """Checks whether the seed that devices draw from is public."""
    return pairwise(transcript) and transcript.about["seed"] is not None


def run(transcript: Transcript) -> Claims:
    """Claims the items that the ranks of negatives decide."""
    tally = empty_tally(transcript)
    triples = int(transcript.setting("triples"))
    rounds_key = key_of(int(transcript.about["seed"]), "rounds")
    # bool [m, items], the lengths of a history that are still possible.
    lengths = np.ones((len(tally.users), transcript.items), bool)
    past: list[list[Drawing]] = [[] for _ in tally.users]
    for rows in rounds_of_rows(transcript):
        negative = rows.bias < 0
        # The keys from which devices drew in this round, as anybody with the seed makes them.
        round_key = np.uint64(local_key(rounds_key, rows.seen.round))
        keys = folds(round_key, tally.users)
        for who in np.unique(rows.who).tolist():
            own = negative & (rows.who == who)
            items = np.sort(rows.item[own]).astype(np.int64)
            drawing = Drawing(_drawn(keys[who], triples), items)
            past[who].append(drawing)
            _keep_possible(drawing, lengths[who])
            tally.evidence[who], sure = _decided(past[who], lengths[who])
            new = sure & (tally.first[who] < 0)
            tally.first[who, new] = rows.place
    left = lengths[:, 1:].sum(axis=1)
    middle = np.median(left) if len(left) else 0
    return claims_of(transcript, tally, f"{middle:.0f} possible lengths of a history (median)")


def _decided(past: list[Drawing], lengths: BoolArray) -> tuple[Float32Array, BoolArray]:
    """Log odds of all items after some rounds, and the items that every possible length says are
    consumed.
    """
    possible = np.flatnonzero(lengths)[:MOST]
    items = len(lengths)
    odds = np.zeros(items, np.float32)
    sure = np.ones(items, bool)
    for n in possible.tolist():
        # The draw of each negative, if the history has this length.
        rank = np.full(items, -1, np.int64)
        for drawing in past:
            _note(drawing, items - n, rank)
        share = np.clip(_between(rank, n), 1e-4, 1 - 1e-4)
        sure &= share > 1 - 1e-3
        ratio = np.log(share / (1 - share))
        log_odds = np.clip(ratio, -MAYBE, MAYBE)
        odds += log_odds.astype(np.float32)
    # With more lengths than were tried nothing is sure.
    decided = bool(0 < len(possible) < MOST)
    sharers = np.float32(max(len(possible), 1))
    return odds / sharers, sure & decided


@njit(cache=True, nogil=True)
def _drawn(key: np.uint64, triples: int) -> UInt64Array:
    """The lower halves of the draws of a device's triples, ascending: places in any range keep this
    order.
    """
    out = np.empty(triples, np.uint64)
    for t in range(triples):
        out[t] = draw(key, 2 * t) & LOW32
    return np.sort(out)


@njit(cache=True, nogil=True)
def _place(drawn: np.uint64, unseen: int) -> np.int64:
    """The place among `unseen` items that a draw stands for."""
    return np.int64((drawn * np.uint64(unseen)) >> S32)


@njit(cache=True, nogil=True)
def _keep_possible(drawing: Drawing, lengths: BoolArray) -> None:
    """Rules out the lengths with which the places of the draws do not fit the items, in their
    order.
    """
    items = len(lengths)
    for n in range(items):
        if not lengths[n]:
            continue
        last = np.int64(-1)
        before = np.int64(0)  # consumed items before the last negative
        found = 0
        fits = n > 0
        for t in range(len(drawing.draws)):
            place = _place(drawing.draws[t], items - n)
            if place == last:
                continue  # the same negative again
            last = place
            if found >= len(drawing.items):
                fits = False
                break
            # An item less its place among the unseen ones: the consumed items before it.
            here = drawing.items[found] - place
            if not before <= here <= n:
                fits = False
                break
            before = here
            found += 1
        lengths[n] = fits and found == len(drawing.items)


@njit(cache=True, nogil=True)
def _note(drawing: Drawing, unseen: int, rank: Int64Array) -> None:
    """Writes the draw of each negative to its item."""
    last = np.int64(-1)
    found = 0
    for t in range(len(drawing.draws)):
        place = _place(drawing.draws[t], unseen)
        if place != last and found < len(drawing.items):
            rank[drawing.items[found]] = np.int64(drawing.draws[t])
            found += 1
        last = place


@njit(cache=True, nogil=True)
def _between(rank: Int64Array, n: int) -> Array:
    """The share of consumed items among those between two negatives, for every item; 0 for
    negatives.
    """
    items = len(rank)
    out = np.zeros(items)
    start = 0
    before = np.int64(0)
    for j in range(items + 1):
        if j < items and rank[j] < 0:
            continue
        # Consumed items before j: all of them at the end, else j less its place among the others.
        here = np.int64(n)
        if j < items:
            rank_place = _place(np.uint64(rank[j]), items - n)
            here = j - rank_place
        if j > start:
            share = (here - before) / (j - start)
            out[start:j] = min(1.0, max(0.0, share))
        start = j + 1
        before = here
    return out


ATTACK = Attack("public-draws", ("individual",), "ours", applies, run)
