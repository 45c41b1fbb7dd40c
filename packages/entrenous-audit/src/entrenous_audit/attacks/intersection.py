"""Items that have a row in every round: decoys or negatives that are drawn anew come and go,
consumed items always come.

Devices of FBALF and FedRec send rows for all they rated and for decoys; with `redraw`, as FedRec's
authors run it, the decoys are others in each round. Federated collaborative filters draw new
negatives in each pass over the history. Source: G. Lin, F. Liang, W. Pan, Z. Ming, "FedRec", IEEE
Intelligent Systems 36(5), 2021, for the decoys; the intersection is ours. It is claimed once it is
no more than a tenth larger than the history; decoys that stay the same never get there.
"""

from __future__ import annotations

import numpy as np

from entrenous.core.types import Float64Array, Int64Array

from ..claims import Attack, Claims
from ..transcript import Transcript
from ._rows_seen import claims_of, empty_tally, rounds_of_rows, rows_sent
from ._sides import keep_constant, no_visits

MOST = 1.1  # items that always came, for each of the history


def applies(transcript: Transcript) -> bool:
    """Checks whether devices send rows for a whole history and for decoys or negatives."""
    with_others = {"rho", "negatives"} & set(transcript.settings)
    return rows_sent(transcript) and bool(with_others)


def run(transcript: Transcript) -> Claims:
    """Claims items with a row in all rounds of a user, once they are hardly more than the
    history.
    """
    tally = empty_tally(transcript)
    sizes = _history_sizes(transcript, tally.users)
    visits = no_visits(tally)
    # Sizes that are all alike are no measurement, unless decoys tell them.
    differ = len(np.unique(sizes)) > 1
    known = "rho" in transcript.settings or differ
    longest = 0
    for rows in rounds_of_rows(transcript):
        most = int(np.bincount(rows.who).max(initial=0))
        longest = max(longest, most)
        visits.add(rows)
        always = (visits.touched == visits.rounds) & (visits.rounds > 0)
        enough = always.sum(axis=1) <= MOST * sizes
        # A device with a row for every item hides them all.
        if known and longest < transcript.items:
            new = always & enough[:, None] & (tally.first < 0)
            tally.first[new] = rows.place
    keep_constant(tally, visits)
    always_came = (visits.touched == visits.rounds).sum(axis=1)
    share = always_came / np.maximum(sizes, 1)
    left = np.nan
    if len(sizes):
        left = np.median(share)
    note = f"what always came is {left:.2f} times the history (median)"
    return claims_of(transcript, tally, note)


def _history_sizes(transcript: Transcript, users: Int64Array) -> Float64Array:
    """The lengths of the histories of some users, float64 [m]: weights that are counts, whole
    numbers and not all alike, or the int((1 + rho) n) rows that devices with decoys send.
    """
    weights = np.zeros(len(users))
    for seen in transcript.rounds:
        if "weight" in seen.sent and len(seen.sent["weight"]) == len(seen.users):
            weights[np.searchsorted(users, seen.users)] = seen.sent["weight"]
    different = len(np.unique(weights[weights > 0])) > 1
    if different and bool((weights % 1 == 0).all()):
        return weights
    # The mean number of rows of each user in a round.
    counts = np.zeros(len(users))
    rounds = np.zeros(len(users))
    for rows in rounds_of_rows(transcript):
        counts += np.bincount(rows.who, minlength=len(users))
        rounds[np.searchsorted(users, rows.seen.users)] += 1
    rho = float(transcript.settings.get("rho", 0.0))
    return counts / np.maximum(rounds, 1) / (1 + rho)


ATTACK = Attack("intersection", ("individual",), "ours", applies, run)
