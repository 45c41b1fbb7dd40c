"""With public draws the numbers of items alone tell the history: each row gives the rank of its
item among those not consumed.

Where `draws` is public, whoever knows the seed knows for every triple of FPL in which place k among
the unseen items its negative lies (kernels/negatives.py). A negative j in place k has j - k
consumed items before it, so that two negatives say how many of the items between them are consumed:
where that is all or none, they are decided. Only lengths n of the history with which the places of
all rows fit are possible, and what these agree on is claimed. At pi = 0 it needs no numbers but
ids, the seed, and rows in any order; at other pi the sign of b tells which rows are negatives.
Source: ours.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ...core.keys import draw, folds, local_key
from ...core.keys import key as key_of
from ...core.types import Array, BoolArray, Float32Array, Int64Array, UInt64Array
from ..claims import Attack, Claims
from ..transcript import Transcript
from ._pairwise import pairwise
from ._rows_seen import claims_of, empty_tally, rounds_of_rows

LOW32, S32 = np.uint64(0xFFFFFFFF), np.uint64(32)
MOST = 64  # lengths that are tried out
MAYBE = np.float32(8)  # log odds at most of what is between all and none


def applies(transcript: Transcript) -> bool:
    """Whether the seed that devices draw from is public."""
    return (
        pairwise(transcript)
        and transcript.about.get("draws") == "public"
        and "seed" in transcript.about
    )


def run(transcript: Transcript) -> Claims:
    """Claims the items that the ranks of negatives decide."""
    tally, triples, items = (
        empty_tally(transcript),
        int(transcript.setting("triples")),
        transcript.items,
    )
    rounds, lengths = (
        key_of(int(transcript.about["seed"]), "rounds"),
        np.ones((len(tally.users), items), bool),
    )
    past: list[list[tuple[UInt64Array, Int64Array]]] = [[] for _ in tally.users]
    for rows in rounds_of_rows(transcript, tally.users):
        negative = rows.array("b")[:, 0] < 0
        keys = folds(np.uint64(local_key(rounds, rows.seen.round)), tally.users)
        for who in np.unique(rows.who).tolist():
            past[who].append(
                (
                    _drawn(keys[who], triples),
                    np.sort(rows.item[negative & (rows.who == who)]).astype(np.int64),
                )
            )
            drawn, ids = past[who][-1]
            _keep_possible(drawn, ids, lengths[who])
            tally.evidence[who], sure = _decided(past[who], lengths[who])
            tally.first[who, sure & (tally.first[who] < 0)] = rows.place
    left = lengths[:, 1:].sum(axis=1)
    return claims_of(
        transcript,
        tally,
        f"{np.median(left) if len(left) else 0:.0f} possible lengths of a history (median)",
    )


def _decided(
    past: list[tuple[UInt64Array, Int64Array]], lengths: BoolArray
) -> tuple[Float32Array, BoolArray]:
    """Log odds of all items after some rounds, and the items that every possible length says are
    consumed. past: of each round the draws and the negatives."""
    possible, items = np.flatnonzero(lengths)[:MOST], len(lengths)
    odds, sure = np.zeros(items, np.float32), np.ones(items, bool)
    for n in possible.tolist():
        rank = np.full(items, -1, np.int64)
        for drawn, ids in past:
            _note(drawn, ids, items - n, rank)
        share = np.clip(_between(rank, n), 1e-4, 1 - 1e-4)
        sure &= share > 1 - 1e-3
        odds += np.clip(np.log(share / (1 - share)), -MAYBE, MAYBE).astype(np.float32)
    return odds / np.float32(max(len(possible), 1)), sure & bool(0 < len(possible) < MOST)


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
def _keep_possible(drawn: UInt64Array, ids: Int64Array, lengths: BoolArray) -> None:
    """Rules out the lengths with which the places of the draws do not fit the items, in their
    order.
    """
    items = len(lengths)
    for n in range(items):
        if not lengths[n]:
            continue
        last, found, before, ok = np.int64(-1), 0, np.int64(0), n > 0
        for t in range(len(drawn)):
            k = np.int64((drawn[t] * np.uint64(items - n)) >> S32)
            if k == last:
                continue
            last = k
            if found >= len(ids) or not before <= ids[found] - k <= n:
                ok = False
                break
            before = ids[found] - k
            found += 1
        lengths[n] = ok and found == len(ids)


@njit(cache=True, nogil=True)
def _note(drawn: UInt64Array, ids: Int64Array, unseen: int, rank: Int64Array) -> None:
    """Writes beside each item what drew it."""
    last, found = np.int64(-1), 0
    for t in range(len(drawn)):
        k = np.int64((drawn[t] * np.uint64(unseen)) >> S32)
        if k != last and found < len(ids):
            rank[ids[found]] = np.int64(drawn[t])
            found += 1
        last = k


@njit(cache=True, nogil=True)
def _between(rank: Int64Array, n: int) -> Array:
    """The share of consumed items among those between two negatives, for every item; 0 for
    negatives.
    """
    items = len(rank)
    out = np.zeros(items)
    start, before = 0, np.int64(0)
    for j in range(items + 1):
        if j < items and rank[j] < 0:
            continue
        own = (
            np.int64(n)
            if j == items
            else j - np.int64((np.uint64(rank[j]) * np.uint64(items - n)) >> S32)
        )
        if j > start:
            out[start:j] = min(1.0, max(0.0, (own - before) / (j - start)))
        start, before = j + 1, own
    return out


ATTACK = Attack("public-draws", ("individual",), "ours", applies, run)
