"""The touched rows of one update of a federated neural collaborative filter: consumed items move
one way, negatives the other.

In generalised matrix factorisation the gradient of item i is (y_ui - label) h * p_u (He et al., WWW
2017): all touched rows move along one vector, consumed items (label 1) against negatives (label 0),
and Adam keeps the signs. The more popular side is the history. Of NeuMF the part of the rows that
belongs to this factorisation is read, of an MLP all, where rows are multiples of one vector less
exactly. It holds for FedAvg, Ditto, Reptile, FedFast and Cali3F, whose rows are moves, times a
number or times their own size. Rows of FedRecon are exact multiples of p_u, of half of the samples
in each round, and their biases say which side is which. Source: ours.
"""

from __future__ import annotations

import numpy as np

from entrenous.core.types import Float64Array

from ..claims import Attack, Claims
from ..transcript import Transcript
from ._directions import directions
from ._rows_seen import RowsSeen, claims_of, empty_tally, rounds_of_rows, sends
from ._sides import claim_side, keep_constant, more_popular, no_visits


def applies(transcript: Transcript) -> bool:
    """Checks whether devices send moves of item embeddings, learnt from consumed items and others
    along one vector: of a neural collaborative filter, or of FedRecon.
    """
    one_vector = sends(transcript, "item", "network") or _halves(transcript)
    return sends(transcript, "item") and one_vector and "negatives" in transcript.settings


def _raised(rows: RowsSeen, along: Float64Array) -> Float64Array:
    """The sign that makes positive the side of each device whose biases rise, float64 [devices]:
    the biases of consumed items do.
    """
    raised = along * rows.array("bias")[:, 0]
    total = np.bincount(rows.device, raised, minlength=len(rows.seen.users))
    return np.where(total >= 0, 1.0, -1.0)


def _halves(transcript: Transcript) -> bool:
    """Checks whether items learn from half of the samples alone."""
    return "item_steps" in transcript.settings


def run(transcript: Transcript) -> Claims:
    """Claims the more popular side of each device's moves."""
    tally = empty_tally(transcript)
    factors = int(transcript.setting("factors"))
    visits = no_visits(tally)
    for rows in rounds_of_rows(transcript):
        visits.add(rows)
        moves = rows.array("item")
        if factors:
            moves = moves[:, :factors]  # of NeuMF the part of matrix factorisation
        _, along, around = directions(moves, rows.seen.sent["ptr"])
        biased = sends(transcript, "bias")
        side = _raised(rows, along) if biased else more_popular(transcript, rows, along)
        along *= side[rows.device]
        claim_side(tally, rows, along, around, transcript)
    if _halves(transcript):
        # An item without a row may be among the other half.
        tally.first[tally.evidence < 0] = -1
    else:
        keep_constant(tally, visits)
    return claims_of(transcript, tally)


ATTACK = Attack("touched-rows", ("individual",), "ours", applies, run)
