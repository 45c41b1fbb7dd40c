"""The order in which rows were made tells positives from negatives, without a look at the numbers.

Where rows leave in the order of training (`rows=as sent`), a device of FPL puts down a triple's
negative and then, with probability pi and if it is the first of that item, its positive: the first
row is always a negative, at pi = 1 the second always a positive, and after a positive a negative
follows. Rows are the states of a hidden Markov chain of two kinds, whose items are popular ones or
others; the forward-backward algorithm (L. R. Rabiner, Proceedings of the IEEE 77(2), 1989) gives
the odds of each. Sorted rows say nothing. Source: ours.
"""

from __future__ import annotations

import numpy as np

from ...core.compiling import njit
from ...core.types import Array, Float64Array, Int64Array
from ..claims import Attack, Claims
from ..transcript import Transcript
from ._pairwise import pairwise
from ._rows_seen import RowsSeen, claims_of, empty_tally, prior, rounds_of_rows

SURE_ODDS = 7.0  # log odds from which on a row is claimed: one in a thousand is wrong
NEVER = -30.0  # log odds of a row that is no positive


def applies(transcript: Transcript) -> bool:
    """Checks whether rows of positives are among those of negatives."""
    pi = transcript.settings.get("pi")
    return pairwise(transcript) and isinstance(pi, int | float) and pi > 0


def run(transcript: Transcript) -> Claims:
    """Claims the rows that are positives by their place among the others."""
    tally = empty_tally(transcript)
    pi = float(transcript.setting("pi"))
    history = transcript.about["interactions"] / max(1, transcript.users)
    popular = _emissions(transcript)
    known = prior(transcript)
    note = "rows are sorted: their order says nothing"
    for rows in rounds_of_rows(transcript):
        if _sorted(rows):
            continue
        note = ""
        ptr = rows.seen.sent["ptr"]
        odds = _odds(ptr, popular[rows.item], pi, history)
        odds = np.clip(odds, NEVER, -NEVER)
        # The first row of a device is a negative.
        first = ptr[:-1][np.diff(ptr) > 0]
        odds[first] = NEVER
        tally.claim_rows(rows, odds > SURE_ODDS)
        # The popularity is in the odds already.
        tally.add(rows.who, rows.item, odds - known[rows.item])
    return claims_of(transcript, tally, note)


def _sorted(rows: RowsSeen) -> bool:
    """Checks whether the rows of every device are in the order of their items."""
    falls = np.diff(rows.item) < 0
    same_device = np.diff(rows.device) == 0
    return not (falls & same_device).any()


def _emissions(transcript: Transcript) -> Float64Array:
    """Log odds that an item came as a positive, float64 [items]: its share of all interactions
    against its share of all pairs that are no interactions.
    """
    consumers = transcript.popularity.astype(np.float64) + 0.5
    others = np.maximum(transcript.users - consumers, 0.5)
    positive = np.log(consumers / consumers.sum())
    negative = np.log(others / others.sum())
    return positive - negative  # type: ignore[no-any-return]


@njit(cache=True, nogil=True)
def _odds(ptr: Int64Array, popular: Array, pi: float, history: float) -> Float64Array:
    """Log odds of a positive for each row, by forward and backward passes over the rows of each
    device.
    """
    out = np.zeros(len(popular))
    longest = np.max(np.append(np.diff(ptr), 1))
    ahead = np.zeros((longest, 2))
    for d in range(len(ptr) - 1):
        low = ptr[d]
        n = ptr[d + 1] - ptr[d]
        if n == 0:
            continue
        # Forward: the chances of both kinds, given the rows up to here.
        negative = 1.0
        positive = 1e-12
        for r in range(n):
            if r:
                # The chance that a positive follows that was not drawn before.
                new = pi * np.exp(-r / (1 + pi) / history)
                to_negative = negative * (1 - new) + positive * 0.99
                positive = negative * new + positive * 0.01
                negative = to_negative
            # The row's item, and the two chances back on a sum of 1.
            positive *= np.exp(popular[low + r])
            total = negative + positive
            negative = negative / total
            positive = positive / total
            ahead[r, 0] = negative
            ahead[r, 1] = positive
        # Backward: the chances of the rows from here on, given the kind.
        back_negative = 1.0
        back_positive = 1.0
        for r in range(n - 1, -1, -1):
            # Both passes together give the odds of this row.
            is_positive = np.log(ahead[r, 1] * back_positive + 1e-300)
            is_negative = np.log(ahead[r, 0] * back_negative + 1e-300)
            out[low + r] = is_positive - is_negative
            # One row back, by the same chances as forward.
            new = pi * np.exp(-r / (1 + pi) / history)
            to_negative = back_negative
            to_positive = back_positive * np.exp(popular[low + r])
            back_negative = (1 - new) * to_negative + new * to_positive
            back_positive = 0.99 * to_negative + 0.01 * to_positive
            total = back_negative + back_positive
            back_negative = back_negative / total
            back_positive = back_positive / total
    return out


ATTACK = Attack("order", ("individual",), "ours", applies, run)
