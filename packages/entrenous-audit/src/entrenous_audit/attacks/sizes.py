"""The number of interactions of a user, from the number of rows that a device sends.

Where devices say how much they weigh, it is said outright. Of FPL the number of rows has a mean
that grows with the history: of T drawn negatives (1 - (1 - 1/m)^T) m are different with m = items -
n, and at probability pi so are those of the n positives; the mean over rounds is inverted. Devices
with decoys send int((1 + rho) n) rows. A size alone ranks no items. Source: ours.
"""

from __future__ import annotations

import numpy as np

from entrenous.core.types import Array, Float64Array, Int64Array

from ..claims import Attack, Claims
from ..transcript import Transcript
from ._pairwise import pairwise
from ._rows_seen import claims_of, empty_tally, rounds_of_rows, rows_sent, users_seen


def history_sizes(transcript: Transcript) -> Float64Array:
    """Estimates the lengths of the histories of the users seen, float64 [m]; NaN where messages say
    nothing of them.
    """
    users = users_seen(transcript)
    weights = _weights(transcript, users)
    if weights is not None:
        return weights
    # The mean number of rows of each user in a round.
    counts = np.zeros(len(users))
    rounds = np.zeros(len(users))
    for rows in rounds_of_rows(transcript):
        counts += np.bincount(rows.who, minlength=len(users))
        rounds[np.searchsorted(users, rows.seen.users)] += 1
    mean = counts / np.maximum(rounds, 1)
    if pairwise(transcript):
        return _lengths_for(transcript, mean)
    rho = float(transcript.settings.get("rho", 0.0))
    return mean / (1 + rho)


def _weights(transcript: Transcript, users: Int64Array) -> Float64Array | None:
    """The weights of users, if these are counts: whole numbers, not all alike."""
    weights = np.zeros(len(users))
    for seen in transcript.rounds:
        if "weight" in seen.sent and len(seen.sent["weight"]) == len(seen.users):
            weights[np.searchsorted(users, seen.users)] = seen.sent["weight"]
    different = len(np.unique(weights[weights > 0])) > 1
    whole = bool((weights % 1 == 0).all())
    return weights if different and whole else None


def _lengths_for(transcript: Transcript, mean: Float64Array) -> Float64Array:
    """The lengths at which FPL's devices send `mean` rows."""
    pi = transcript.setting("pi")
    triples = int(transcript.setting("triples"))
    items = transcript.items
    # The expected number of rows at every length n.
    n = np.arange(1, items, dtype=np.float64)
    # Of a setting that is no number, one negative for each positive.
    known = 1.0
    if isinstance(pi, int | float):
        known = float(pi)
    positives = triples * known
    rows = _distinct(items - n, triples) + _distinct(n, positives)
    # Rows must grow with the length, up to some length: at pi = 0, or of few triples, none shows.
    if rows[1] <= rows[0] or np.ptp(rows) < 0.5:
        return np.full(len(mean), np.nan)
    longest = int(rows.argmax()) + 1
    return np.interp(mean, rows[:longest], n[:longest])


def _distinct(m: Array, drawn: float) -> Array:
    """The expected number of different ones of m among `drawn` draws."""
    return m * (1 - (1 - 1 / m) ** drawn)


def run(transcript: Transcript) -> Claims:
    """Claims no items; the note says how long histories are."""
    sizes = history_sizes(transcript)
    # Without anybody, or where rows do not grow with the history, there is no median.
    note = "messages say nothing of lengths"
    if np.isfinite(sizes).any():
        middle = np.median(sizes)
        span = f"{middle:.0f} interactions (median; {sizes.min():.0f} to {sizes.max():.0f})"
        note = f"histories of {span}"
    return claims_of(transcript, empty_tally(transcript), note)


ATTACK = Attack("sizes", ("individual",), "ours", rows_sent, run)
