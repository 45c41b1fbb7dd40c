"""The order in which rows were made tells positives from negatives, without a look at the numbers.

Where rows leave in the order of training (`rows=as sent`), a device of FPL puts down a triple's
negative and then, with probability pi and if it is the first of that item, its positive: the first
row is always a negative, at pi = 1 the second always a positive, and after a positive a negative
follows. Rows are the states of a hidden Markov chain of two kinds, whose items are popular ones or
others; the forward-backward algorithm (L. R. Rabiner, Proceedings of the IEEE 77(2), 1989) gives
the odds of each. Sorted rows say nothing. Source: ours."""

from __future__ import annotations

import numpy as np
from numba import njit

from ...core.types import Array, Float64Array, Int64Array
from ..claims import Attack, Claims
from ..transcript import Transcript
from ._pairwise import pairwise
from ._rows_seen import claims_of, empty_tally, prior, rounds_of_rows

SURE_ODDS = 7.0  # log odds from which on a row is claimed: one in a thousand is wrong


def applies(transcript: Transcript) -> bool:
    """Whether rows of positives are among those of negatives."""
    pi = transcript.about["settings"].get("pi")
    return pairwise(transcript) and isinstance(pi, int | float) and pi > 0


def run(transcript: Transcript) -> Claims:
    """Claims the rows that are positives by their place among the others."""
    tally, pi = empty_tally(transcript), float(transcript.setting("pi"))
    history, popular, ordered = (
        transcript.about["interactions"] / max(1, transcript.users),
        _emissions(transcript),
        False,
    )
    known = prior(transcript)
    for rows in rounds_of_rows(transcript, tally.users):
        ptr = rows.seen.sent["ptr"]
        falls = np.diff(rows.item) < 0
        falls[ptr[1:-1][(ptr[1:-1] > 0) & (ptr[1:-1] < len(rows.item))] - 1] = False
        if not falls.any():
            continue  # by item
        ordered = True
        odds = np.clip(_odds(ptr, popular[rows.item], pi, history), -30, 30)
        odds[ptr[:-1][np.diff(ptr) > 0]] = -30  # the first row is a negative
        sure = odds > SURE_ODDS
        tally.claim(rows.who[sure], rows.item[sure], rows.place)
        tally.add(rows.who, rows.item, odds - known[rows.item])
    return claims_of(
        transcript, tally, "" if ordered else "rows are sorted: their order says nothing"
    )


def _emissions(transcript: Transcript) -> Float64Array:
    """Log odds that an item came as a positive: its share of the interactions against that of what
    was not consumed.
    """
    many = transcript.popularity.astype(np.float64) + 0.5
    rest = np.maximum(transcript.users - many, 0.5)
    return np.log(many / many.sum()) - np.log(rest / rest.sum())  # type: ignore[no-any-return]


@njit(cache=True, nogil=True)
def _odds(ptr: Int64Array, popular: Array, pi: float, history: float) -> Float64Array:
    """Log odds of a positive for each row, by forward and backward passes over the rows of each
    device.
    """
    out, ahead = np.zeros(len(popular)), np.zeros((np.max(np.append(np.diff(ptr), 1)), 2))
    for d in range(len(ptr) - 1):
        low, n = ptr[d], ptr[d + 1] - ptr[d]
        if n == 0:
            continue
        negative, positive = 1.0, 1e-12
        for r in range(n):
            if r:
                new = pi * np.exp(-r / (1 + pi) / history)  # a positive that was not drawn before
                negative, positive = (
                    negative * (1 - new) + positive * 0.99,
                    negative * new + positive * 0.01,
                )
            positive *= np.exp(popular[low + r])
            total = negative + positive
            negative, positive = negative / total, positive / total
            ahead[r, 0], ahead[r, 1] = negative, positive
        back_negative, back_positive = 1.0, 1.0
        for r in range(n - 1, -1, -1):
            out[low + r] = np.log(ahead[r, 1] * back_positive + 1e-300) - np.log(
                ahead[r, 0] * back_negative + 1e-300
            )
            new, weight = pi * np.exp(-r / (1 + pi) / history), np.exp(popular[low + r])
            to_negative = back_negative
            to_positive = back_positive * weight
            back_negative = (1 - new) * to_negative + new * to_positive
            back_positive = 0.99 * to_negative + 0.01 * to_positive
            total = back_negative + back_positive
            back_negative, back_positive = back_negative / total, back_positive / total
    return out


ATTACK = Attack("order", ("individual",), "ours", applies, run)
