"""The vector p_u of one row leads to the p_u of the next one by a step that only the right item
explains: F equations, not one.

With `user_step=triple`, p_u moves after each triple (u, i, j) by a known function of the numbers in
its row (FPL eq. 5 and 6),

    p' = (1 - alpha lambda_u) p + alpha s (q_i - q_j),

so an item i that fits the row's score (the attack `match`) is right if p' is the vector of another
row of that device, of the same round or of the first rows of its next: wrong items miss by a whole
step in F coordinates. Rows need no order, which is why sorting them does not help, and neither the
device's name nor pi matters. A row is left out where the next triple's rows are of several triples.
Source: ours.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...core.compiling import njit
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

HEADS = 4  # rows of the next round that are tried
CANDIDATES = 3  # items of a row that are tried
NEAR = np.float32(5e-4)  # how far the score of a candidate may be off
CLOSE = np.float32(0.02)  # how far p' may be off, as a share of the step


class Steps(NamedTuple):
    """Solved rows of negatives, and the items that may be their partners."""

    solution: Solved
    item: Int32Array
    """[n], the row's own item."""
    row: Int64Array
    """[n], the place of the row in its round."""
    low: Int64Array
    """[n], the first row of its device."""
    high: Int64Array
    """[n], behind the last row of its device."""
    candidate: Int32Array
    """[n, CANDIDATES], nearest first."""
    gap: Float32Array
    """[n, CANDIDATES], how far the candidates' scores are off."""


def applies(transcript: Transcript) -> bool:
    """Checks whether p_u moves after each triple."""
    return pairwise(transcript) and transcript.setting("user_step") == "triple"


def run(transcript: Transcript) -> Claims:
    """Claims the items of rows from which a step leads to another row."""
    tally = empty_tally(transcript)
    if not precision_of(transcript).tolerance:
        said = "rows are not exact: no step can be recognised"
        return claims_of(transcript, tally, said)
    rates = pairwise_rates(transcript)
    factors = transcript.rounds[0].received["q"].shape[1]
    # The first p_u of each user in its next round; rounds are read backwards.
    shape = (len(tally.users), HEADS, factors)
    ahead = np.full(shape, np.inf, np.float32)
    for rows in reversed(list(rounds_of_rows(transcript))):
        negatives = np.flatnonzero(rows.bias < 0)
        everything = _every(rows, rates)
        who = rows.who[negatives]
        item, known = verified(rows, negatives, everything.p, ahead[who], rates)
        tally.claim(who[known], item[known], rows.place)
        _keep_heads(ahead, rows.who, everything.p)
    return claims_of(transcript, tally, f"{factors} equations a row")


def _every(rows: RowsSeen, rates: PairwiseRates) -> Solved:
    """All rows of a round, each solved by its sign."""
    positive = rows.bias > 0
    down = np.flatnonzero(~positive)
    up = np.flatnonzero(positive)
    parts = solved(rows, rates, down), solved(rows, rates, up, positive=True)
    order = np.argsort(np.concatenate([down, up]))
    columns = zip(*parts, strict=True)
    return Solved(*(np.concatenate(pair)[order] for pair in columns))


def verified(
    rows: RowsSeen,
    negatives: Array,
    others: Float32Array,
    ahead: Float32Array,
    rates: PairwiseRates,
) -> tuple[Int32Array, BoolArray]:
    """The partner's item of each row of a negative, and whether its step leads to another row.

    negatives: places of the rows. others: float32 [rows, F], the vectors of all rows of the round.
    ahead: float32 [n, HEADS, F], the first vectors of the next round.
    """
    solution = solved(rows, rates, negatives)
    candidate, gap = nearest(solution, rows, negatives, CANDIDATES)
    ptr = rows.seen.sent["ptr"]
    device = rows.device[negatives]
    own = rows.item[negatives]
    steps = Steps(solution, own, negatives, ptr[device], ptr[device + 1], candidate, gap)
    keep = np.float32(1 - rates.alpha * rates.user)
    alpha = np.float32(rates.alpha)
    best = np.full(len(negatives), -1, np.int32)
    _verify(steps, others, ahead, rows.seen.received["q"], keep, alpha, best)
    return best, solution.fit & (best >= 0)


@njit(cache=True, nogil=True)
def _verify(
    steps: Steps,
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
    for r in range(len(best)):
        low = steps.low[r]
        high = steps.high[r]
        for c in range(steps.candidate.shape[1]):
            if steps.gap[r, c] > NEAR or best[r] >= 0:
                break
            # p' if the candidate is the partner.
            item = steps.candidate[r, c]
            size = np.float32(0)
            for f in range(factors):
                apart = q[item, f] - q[steps.item[r], f]
                step = alpha * steps.solution.s[r] * apart
                after[f] = keep * steps.solution.p[r, f] + step
                size += step * step
            limit = CLOSE * CLOSE * size
            # Is it the vector of another row of this device in this round?
            for k in range(high - low):
                other = steps.row[r] + k
                if other >= high:
                    other += low - high
                if other != steps.row[r] and _away(after, others[other], limit) < limit:
                    best[r] = item
                    break
            # Or of one of the first rows of its next round?
            for h in range(ahead.shape[1]):
                if best[r] < 0 and _away(after, ahead[r, h], limit) < limit:
                    best[r] = item


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
    for head in range(HEADS):
        some = starts[counts > head]
        ahead[who[some], head] = p[some + head]


ATTACK = Attack("step", ("individual",), "ours", applies, run)
