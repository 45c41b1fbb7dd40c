"""Items that have a row in every round: decoys or negatives that are drawn anew come and go, what
was consumed always comes.

Devices of FBALF and FedRec send rows for all they rated and for decoys; with `redraw`, as FedRec's
authors run it, the decoys are others in each round. Federated collaborative filters draw new
negatives in each pass over the history. Source: G. Lin, F. Liang, W. Pan, Z. Ming, "FedRec", IEEE
Intelligent Systems 36(5), 2021, for the decoys; the intersection is ours. It is claimed once it is
no more than a tenth larger than the history; decoys that stay the same never get there.
"""

from __future__ import annotations

import numpy as np

from ..claims import Attack, Claims
from ..transcript import Transcript
from ._rows_seen import claims_of, empty_tally, rounds_of_rows, rows_sent
from ._sides import keep_constant, no_visits
from .sizes import history_sizes

MOST = 1.1


def applies(transcript: Transcript) -> bool:
    """Whether devices send rows for a whole history and for decoys or negatives."""
    return rows_sent(transcript) and bool({"rho", "negatives"} & set(transcript.about["settings"]))


def run(transcript: Transcript) -> Claims:
    """Claims what had a row in all rounds of a user, once it is hardly more than the history."""
    tally, sizes, whole = empty_tally(transcript), history_sizes(transcript)[0], 0
    visits = no_visits(tally)
    known = "rho" in transcript.about["settings"] or len(np.unique(sizes)) > 1
    for rows in rounds_of_rows(transcript, tally.users):
        whole = max(whole, int(np.bincount(rows.who).max(initial=0)))
        visits.add(rows)
        always = (visits.touched == visits.rounds) & (visits.rounds > 0)
        enough = always.sum(axis=1) <= MOST * sizes
        if known and whole < transcript.items:
            tally.first[(always & enough[:, None]) & (tally.first < 0)] = rows.place
    keep_constant(tally, visits)
    left = (
        np.median((visits.touched == visits.rounds).sum(axis=1) / np.maximum(sizes, 1))
        if len(sizes)
        else np.nan
    )
    return claims_of(
        transcript, tally, f"what always came is {left:.2f} times the history (median)"
    )


ATTACK = Attack("intersection", ("individual",), "ours", applies, run)
