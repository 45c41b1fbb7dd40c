"""Items that never come as a negative are the history.

Devices of FPL draw negatives from what their user has not consumed, so that after enough rounds all
other items have come; at pi = 0 the item table learns from exactly this. Items are ranked by
popularity among those that never came; they are claimed once those of them that are not consumed
are expected to be fewer than a tenth of the history. Source: ours; the negatives' distribution is
FPL's (section 4.2).
"""

from __future__ import annotations

import numpy as np

from ..claims import Attack, Claims
from ..transcript import Transcript
from ._pairwise import SURELY, drawn_share, pairwise, precision_of
from ._rows_seen import claims_of, empty_tally, rounds_of_rows
from .sizes import history_sizes

FEW = 0.1


def run(transcript: Transcript) -> Claims:
    """Claims what never came as a negative, once that says enough."""
    tally, precision = empty_tally(transcript), precision_of(transcript)
    sd, sizes = (0.0 if precision.tolerance else precision.sd), history_sizes(transcript)[0]
    unseen, came = np.ones(len(tally.users)), np.zeros_like(tally.first, dtype=bool)
    share = drawn_share(transcript, sizes)
    for rows in rounds_of_rows(transcript, tally.users):
        down = rows.array("b")[:, 0] < -SURELY * sd
        came[rows.who[down], rows.item[down]] = True
        unseen[np.unique(rows.who)] *= 1 - share[np.unique(rows.who)]
        enough = (transcript.items - sizes) * unseen < FEW * sizes
        tally.first[enough] = np.where(tally.first[enough] < 0, rows.place, tally.first[enough])
    who, item = np.nonzero(came)
    tally.deny(who, item)
    said = (
        f"of what is not consumed {100 * np.median(unseen):.2g} % has not come yet"
        if len(unseen)
        else "nobody was seen"
    )
    return claims_of(transcript, tally, said)


ATTACK = Attack("complement", ("individual",), "ours", pairwise, run)
