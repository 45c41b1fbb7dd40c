"""The negative's row names the hidden positive: one division gives p_u and the positive's score,
and one item has that score.

A device that trains on (u, i, j) sends db_j = -s and dq_j = -s p_u - lambda_n q_j with s = 1 / (1 +
e^x_uij) (FPL eq. 5), whatever pi is. So s = -db_j, p_u = -(dq_j + lambda_n q_j) / s, and x_ui =
x_uj + ln(1/s - 1); i is the item with that score by p_u. Rows of two triples lead to a score that
no item has; where rows are not exact (noise, coarse grids) none does. Source: ours; we found no
paper that states it for FPL, whose own section on privacy treats the sign of the update alone.
"""

from __future__ import annotations

import numpy as np

from ..claims import Attack, Claims
from ..transcript import Transcript
from ._pairwise import matched, pairwise, pairwise_rates, precision_of
from ._rows_seen import claims_of, declined, empty_tally, rounds_of_rows


def run(transcript: Transcript) -> Claims:
    """Claims the item whose score fits, of each row of a negative."""
    tolerance, sd = precision_of(transcript)
    # Where most rows lead to a score that no item has, the few that do are chance.
    if not tolerance:
        return declined(transcript, f"rows are off by {sd:.3g}, and no score can be told")
    tally = empty_tally(transcript)
    rates = pairwise_rates(transcript)
    for rows in rounds_of_rows(transcript):
        negatives = np.flatnonzero(rows.bias < 0)
        match = matched(rows, rates, negatives, tolerance)
        who = rows.who[negatives]
        tally.claim(who[match.sure], match.item[match.sure], rows.place)
        # An item that came as a negative is not consumed.
        tally.deny(who, rows.item[negatives])
    return claims_of(transcript, tally, "rows are exact")


ATTACK = Attack("match", ("individual",), "ours", pairwise, run)
