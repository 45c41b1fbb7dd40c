"""The negative's row names the hidden positive: one division gives p_u and the positive's score,
and one item has that score.

A device that trains on (u, i, j) sends db_j = -s and dq_j = -s p_u - lambda_n q_j with s = 1 / (1 +
e^x_uij) (FPL eq. 5), whatever pi is. So s = -db_j, p_u = -(dq_j + lambda_n q_j) / s, and x_ui =
x_uj + ln(1/s - 1); i is the item with that score by p_u. Rows of two triples lead to a score that
no item has. Where rows are not exact (noise, coarse grids) each row gives every item a likelihood
instead, by how near its score is, which is added to the popularity. Source: ours; we found no paper
that states it for FPL, whose own section on privacy treats the sign of the update alone.
"""

from __future__ import annotations

import numpy as np

from entrenous.core.compiling import njit
from entrenous.core.types import Array, Float32Array, Float64Array, Int64Array

from ..claims import Attack, Claims
from ..transcript import Transcript
from ._pairwise import (
    CHUNK,
    SURELY,
    PairwiseRates,
    matched,
    pairwise,
    pairwise_rates,
    precision_of,
    taste,
)
from ._rows_seen import RowsSeen, Tally, claims_of, empty_tally, rounds_of_rows


def run(transcript: Transcript) -> Claims:
    """Claims the item whose score fits, of each row of a negative."""
    tally = empty_tally(transcript)
    rates = pairwise_rates(transcript)
    tolerance, sd = precision_of(transcript)
    interactions = max(transcript.popularity.sum(), 1)
    chance = (transcript.popularity / interactions).astype(np.float32)
    for rows in rounds_of_rows(transcript):
        negatives = np.flatnonzero(rows.bias < -SURELY * sd)
        if tolerance:
            _exact(tally, rows, negatives, rates, tolerance)
        else:
            _likely(tally, rows, negatives, rates, sd, chance)
    note = "rows are exact"
    if not tolerance:
        note = f"rows are off by {sd:.3g}: a likelihood, no claims"
    return claims_of(transcript, tally, note)


def _exact(
    tally: Tally, rows: RowsSeen, negatives: Array, rates: PairwiseRates, tolerance: float
) -> None:
    """Claims the partners of exact rows; an item that came as a negative is not consumed."""
    match = matched(rows, rates, negatives, tolerance)
    who = rows.who[negatives]
    tally.claim(who[match.sure], match.item[match.sure], rows.place)
    tally.deny(who, rows.item[negatives])


def _likely(
    tally: Tally,
    rows: RowsSeen,
    negatives: Array,
    rates: PairwiseRates,
    sd: float,
    chance: Float32Array,
) -> None:
    """Adds the odds of all items that each row gives, by the mean p_u of the device in the round.
    chance: the share of each item in all interactions.

    If an item is one of n consumed, the partner is that item in one of n cases and otherwise any
    consumed one: the odds of the item are 1 + (L / L_mean - 1) / n, where L is the likelihood of
    the item's score, and L_mean its mean over the partners that are likely by popularity.
    """
    q = rows.seen.received["q"]
    b = rows.seen.received["b"]
    p = taste(rows, rates)
    s = np.clip(-rows.bias[negatives], 0.02, 0.98)
    # The error of a score that is solved from a row, of s itself and of the numbers over s.
    squared_length = (q**2).sum(axis=1).mean()
    error = np.sqrt(1 / (1 - s) ** 2 + 2 * squared_length)
    width = error * np.float32(max(sd, 1e-6)) / s
    # n, as many items as would be alike in popularity.
    many = np.float32(1 / (chance**2).sum())
    for low in range(0, len(negatives), CHUNK):
        part = slice(low, low + CHUNK)
        here = negatives[part]
        scores = p[rows.device[here]] @ q.T + b
        # The score of the partner: that of the row's own item, and ln(1/s - 1) above it.
        row = np.arange(len(here))
        own = scores[row, rows.item[here]]
        wanted = own + np.log(1 / s[part] - 1)
        users, who = np.unique(rows.who[here], return_inverse=True)
        product = np.ones((len(users), len(b)))
        _multiply(scores, wanted, 1 / width[part], chance, many, who, product)
        tally.evidence[users] += np.log(product)
    against = np.full(len(negatives), -3.0)
    tally.add(rows.who[negatives], rows.item[negatives], against)


@njit(cache=True, nogil=True, error_model="numpy")
def _multiply(
    scores: Float32Array,
    wanted: Float32Array,
    sharp: Float32Array,
    chance: Float32Array,
    many: np.float32,
    who: Int64Array,
    product: Float64Array,
) -> None:
    """Multiplies each user's odds of all items by those of its rows. L = 1 / (1 + z^2)^2, which
    forgives large errors. scores: are overwritten by L.
    """
    one = np.float32(1)
    for r in range(len(wanted)):
        row = scores[r]
        out = product[who[r]]
        # L of each item, and L_mean.
        mean = np.float32(1e-9)
        for k in range(len(row)):
            z = (row[k] - wanted[r]) * sharp[r]
            spread = one + z * z
            row[k] = one / (spread * spread)
            mean += row[k] * chance[k]
        # The odds of each item.
        for k in range(len(row)):
            excess = row[k] / mean - one
            out[k] *= one + excess / many


ATTACK = Attack("match", ("individual",), "ours", pairwise, run)
