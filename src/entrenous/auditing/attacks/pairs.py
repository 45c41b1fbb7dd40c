"""Two rows of one message whose biases are exact negatives are the positive and the negative of one
triple.

A device of FPL sends db_i = s for the consumed item of a triple and db_j = -s for the drawn one,
with the same s, since biases are not regularised (eq. 5). Rows that one triple made can so be
paired by their bits, whatever has been done to all of them alike: a message that was clipped as a
whole keeps its pairs. Of a pair the row with the positive bias is of a consumed item. The pair also
tells which negative it was drawn with, from which `step` and `match` could go on. Noise, quantising
at random and clipped rows leave no pairs. Source: ours.
"""

from __future__ import annotations

import numpy as np

from ...core.types import BoolArray, Float32Array, Int64Array
from ..claims import Attack, Claims
from ..transcript import Transcript
from ._pairwise import pairwise
from ._rows_seen import claims_of, empty_tally, rounds_of_rows

# Rows with the very same bias as another, which only chance makes, for each row that is paired;
# with more of them pairs are chance, too.
MOST = 0.5


def run(transcript: Transcript) -> Claims:
    """Claims the positives of pairs."""
    tally = empty_tally(transcript)
    pairs = 0
    many = 0
    for rows in rounds_of_rows(transcript):
        many += len(rows.bias)
        opposite = paired(rows.device, rows.bias, opposite=True)
        # As many equal biases as opposite ones would come from chance, or from a coarse grid.
        same = paired(rows.device, rows.bias, opposite=False)
        if same.sum() > MOST * opposite.sum():
            continue
        positive = opposite & (rows.bias > 0)
        pairs += int(positive.sum())
        tally.claim_rows(rows, positive)
    return claims_of(transcript, tally, f"{pairs} pairs among {many} rows")


def paired(device: Int64Array, bias: Float32Array, *, opposite: bool) -> BoolArray:
    """The rows that have a partner on their device, bool [n]: another row with the negative of
    their bias, or with `opposite` False with the very same bias.
    """
    sign = np.sign(bias)
    size = np.abs(bias)
    # Partners are neighbours once the rows of a device are sorted by the size of their biases.
    order = np.lexsort((sign, size, device))
    size_then = size[order]
    same_device = np.diff(device[order]) == 0
    unchanged = np.diff(size_then) == 0
    same_size = unchanged & (size_then[1:] > 0)
    other_sign = np.diff(sign[order]) != 0
    pair = same_device & same_size & (other_sign == opposite)
    has_partner = np.zeros(len(bias), np.bool_)
    has_partner[order[1:][pair]] = True
    has_partner[order[:-1][pair]] = True
    return has_partner


def applies(transcript: Transcript) -> bool:
    """Checks whether devices of FPL send rows of positives, too."""
    return pairwise(transcript) and transcript.settings.get("pi") != 0


ATTACK = Attack("pairs", ("individual",), "ours", applies, run)
