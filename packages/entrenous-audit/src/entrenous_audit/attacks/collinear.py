"""Rows of a device are multiples of one vector, and their signs tell consumed items from negatives:
no bias is needed.

A device of FPL sends s p_u - lambda_p q_i for a consumed item and -s p_u - lambda_n q_j for a
negative (eq. 5). The vector of which its rows are nearly multiples is p_u or -p_u; the more popular
of the two sides is the history. This is the attack `sign` where the updates of biases stay on the
device. At pi = 0 there is one side alone. Source: the SAC 2021 paper on FPL argues about this sign;
the clustering is ours.
"""

from __future__ import annotations

import numpy as np

from ..claims import Attack, Claims
from ..transcript import Transcript
from ._directions import directions
from ._pairwise import pairwise_rates
from ._rows_seen import claims_of, empty_tally, rounds_of_rows, sends
from ._sides import claim_side, more_popular


def applies(transcript: Transcript) -> bool:
    """Checks whether devices send pairwise updates of item factors."""
    return sends(transcript, "q") and "pi" in transcript.settings


def run(transcript: Transcript) -> Claims:
    """Claims the rows that lie on the more popular side, whichever of the two lambdas they are read
    with.
    """
    tally = empty_tally(transcript)
    rates = pairwise_rates(transcript)
    for rows in rounds_of_rows(transcript):
        q = rows.seen.received["q"][rows.item]
        # Read as rows of negatives, without lambda_n q, all are multiples of p_u.
        push = rows.array("q") + rates.negative * q
        as_negatives = push.astype(np.float32)
        unit, along, around = directions(as_negatives, rows.seen.sent["ptr"])
        sign = more_popular(transcript, rows, along)[rows.device]
        # The same rows read as positives, which have another lambda.
        q_along = np.einsum("nf,nf->n", q, unit[rows.device])
        as_positive = along + (rates.positive - rates.negative) * q_along
        along = sign * along
        agree = (along > 0) == (sign * as_positive > 0)
        claim_side(tally, rows, np.where(agree, along, 0.0), around, transcript)
    return claims_of(transcript, tally)


ATTACK = Attack("collinear", ("individual",), "ours", applies, run)
