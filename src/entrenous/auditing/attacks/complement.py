"""Items that never come as a negative are the history.

Devices of FPL draw negatives from the items that their user has not consumed, so that after enough
rounds all other items have come; at pi = 0 the item table learns from exactly this. Items are
ranked by popularity among those that never came; they are claimed once those of them that are not
consumed are expected to be fewer than a tenth of the history. Source: ours; the negatives'
distribution is FPL's (section 4.2).
"""

from __future__ import annotations

import numpy as np

from ..claims import Attack, Claims
from ..transcript import Transcript
from ._pairwise import SURELY, drawn_share, pairwise, precision_of
from ._rows_seen import claims_of, empty_tally, rounds_of_rows
from .sizes import history_sizes

FEW = 0.1  # of the length of a history


def run(transcript: Transcript) -> Claims:
    """Claims items that never came as a negative, once that says enough."""
    tally = empty_tally(transcript)
    sd = precision_of(transcript).sd
    sizes = history_sizes(transcript)[0]
    share = drawn_share(transcript, sizes)
    came = np.zeros(tally.first.shape, bool)
    unseen = np.ones(len(tally.users))  # the chance that an item has not been drawn yet
    for rows in rounds_of_rows(transcript):
        down = rows.bias < -SURELY * sd
        came[rows.who[down], rows.item[down]] = True
        who = np.unique(rows.who)
        unseen[who] *= 1 - share[who]
        # Few enough items are expected to be left that are not consumed.
        left = (transcript.items - sizes) * unseen
        enough = left < FEW * sizes
        first = tally.first[enough]
        tally.first[enough] = np.where(first < 0, rows.place, first)
    tally.deny(*np.nonzero(came))
    note = "nobody was seen"
    if len(unseen):
        note = f"of what is not consumed {100 * np.median(unseen):.2g} % has not come yet"
    return claims_of(transcript, tally, note)


ATTACK = Attack("complement", ("individual",), "ours", pairwise, run)
