"""The vector p_u of one row leads to the p_u of the next one by a step that only the right item
explains: F equations, not one.

With `user_step=triple`, p_u moves after each triple (u, i, j) by a known function of what its row
shows (FPL eq. 5 and 6),

    p' = (1 - alpha lambda_u) p + alpha s (q_i - q_j),

so an item i that fits the row's score (the attack `match`) is right if p' is the vector of another
row of that device, of the same round or of the first rows of its next: wrong items miss by a whole
step in F coordinates. Rows need no order, which is why sorting them does not help, and neither the
device's name nor pi matters. A row is left out where the next triple's rows are of several triples.
Source: ours.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ...core.types import Array, BoolArray, Float32Array, Int32Array, Int64Array
from ..claims import Attack, Claims
from ..transcript import Transcript
from ._pairwise import (
    PairwiseRates,
    Solved,
    nearest,
    pairwise,
    pairwise_rates,
    precision_of,
    solved,
)
from ._rows_seen import RowsSeen, claims_of, empty_tally, rounds_of_rows

HEADS, CANDIDATES = 4, 3  # rows of the next round, and items of a row, that are tried
NEAR, CLOSE = (
    np.float32(5e-4),
    np.float32(0.02),
)  # of a candidate's score; of p', as a share of the step


def applies(transcript: Transcript) -> bool:
    """Whether p_u moves after each triple."""
    return pairwise(transcript) and transcript.setting("user_step") == "triple"


def run(transcript: Transcript) -> Claims:
    """Claims the items of rows from which a step leads to another row."""
    tally, rates, precision = (
        empty_tally(transcript),
        pairwise_rates(transcript),
        precision_of(transcript),
    )
    factors = transcript.rounds[0].received["q"].shape[1] if transcript.rounds else 1
    ahead = np.full(
        (len(tally.users), HEADS, factors), np.inf, np.float32
    )  # p_u of each user's next round
    for rows in reversed(
        list(rounds_of_rows(transcript, tally.users)) if precision.tolerance else []
    ):
        some = np.flatnonzero(rows.array("b")[:, 0] < 0)
        found, others = solved(rows, rates, some), _every(rows, rates)
        item, known = verified(rows, some, found, others, ahead[rows.who[some]], rates)
        tally.claim(rows.who[some[known]], item[known], rows.place)
        _keep_heads(ahead, rows.who, others.p)
    said = (
        f"{factors} equations a row"
        if precision.tolerance
        else "rows are not exact: no step can be recognised"
    )
    return claims_of(transcript, tally, said)


def _every(rows: RowsSeen, rates: PairwiseRates) -> Solved:
    """All rows of a round, each solved by its sign."""
    positive = rows.array("b")[:, 0] > 0
    parts = [
        solved(rows, rates, np.flatnonzero(positive == kind), positive=kind)
        for kind in (False, True)
    ]
    order = np.argsort(np.concatenate([np.flatnonzero(~positive), np.flatnonzero(positive)]))
    return Solved(*(np.concatenate(pair)[order] for pair in zip(*parts, strict=True)))


def verified(
    rows: RowsSeen,
    some: Array,
    found: Solved,
    others: Solved,
    ahead: Float32Array,
    rates: PairwiseRates,
) -> tuple[Int32Array, BoolArray]:
    """The item of each of some rows, and whether its step leads to another row. others: all rows of
    the round; ahead: [n, HEADS, F].
    """
    item, gap = nearest(found, rows, some, CANDIDATES)
    q, ptr, best = rows.seen.received["q"], rows.seen.sent["ptr"], np.full(len(some), -1, np.int32)
    numbers = np.float32(1 - rates.alpha * rates.user), np.float32(rates.alpha)
    own, device = rows.item[some], rows.device[some]
    _verify(
        found.p,
        found.s,
        own,
        some,
        ptr[device],
        ptr[device + 1],
        item,
        gap,
        others.p,
        ahead,
        q,
        *numbers,
        best,
    )
    known = found.fit & (best >= 0)
    return best, known


@njit(cache=True, nogil=True)
def _verify(
    p: Float32Array,
    s: Float32Array,
    own: Int32Array,
    at: Int64Array,
    low: Int64Array,
    high: Int64Array,
    item: Int32Array,
    gap: Float32Array,
    others: Float32Array,
    ahead: Float32Array,
    q: Float32Array,
    keep: np.float32,
    alpha: np.float32,
    best: Int32Array,
) -> None:
    """For each row the first candidate whose step leads to another row of its device, the following
    ones first; -1 = none does.
    """
    factors = q.shape[1]
    after = np.empty(factors, np.float32)
    for r in range(len(s)):
        for c in range(item.shape[1]):
            if gap[r, c] > NEAR or best[r] >= 0:
                break
            size = np.float32(0)
            for f in range(factors):
                step = alpha * s[r] * (q[item[r, c], f] - q[own[r], f])
                after[f] = keep * p[r, f] + step
                size += step * step
            limit = CLOSE * CLOSE * size
            for k in range(high[r] - low[r]):
                other = at[r] + k
                other = other if other < high[r] else other - high[r] + low[r]
                if other != at[r] and _away(after, others[other], limit) < limit:
                    best[r] = item[r, c]
                    break
            for h in range(ahead.shape[1]):
                if best[r] < 0 and _away(after, ahead[r, h], limit) < limit:
                    best[r] = item[r, c]


@njit(cache=True, nogil=True)
def _away(one: Float32Array, other: Float32Array, limit: np.float32) -> np.float32:
    """The squared distance, as far as it is below the limit."""
    total = np.float32(0)
    for f in range(len(one)):
        gap = one[f] - other[f]
        total += gap * gap
        if not total < limit:
            break
    return total


def _keep_heads(ahead: Float32Array, who: Int64Array, p: Float32Array) -> None:
    """Keeps the first rows of each device, for the round before."""
    starts = np.flatnonzero(np.diff(who, prepend=-1))
    counts = np.diff(np.append(starts, len(who)))
    ahead[who[starts]] = np.inf
    for h in range(HEADS):
        there = counts > h
        ahead[who[starts[there]], h] = p[starts[there] + h]


ATTACK = Attack("step", ("individual",), "ours", applies, run)
