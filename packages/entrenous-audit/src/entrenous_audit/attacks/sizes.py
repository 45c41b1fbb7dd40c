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

UNKNOWN = 9.99  # a standard error, as a share of a length, that says nothing


def history_sizes(transcript: Transcript) -> tuple[Float64Array, Float64Array]:
    """Estimates the lengths of the histories of the users seen. Returns them, and their standard
    error as a share of them, float64 [m] each.
    """
    users = users_seen(transcript)
    exact = np.zeros(len(users))
    weights = _weights(transcript, users)
    if weights is not None:
        return weights, exact
    # The mean number of rows of each user in a round.
    counts = np.zeros(len(users))
    rounds = np.zeros(len(users))
    for rows in rounds_of_rows(transcript):
        counts += np.bincount(rows.who, minlength=len(users))
        rounds[np.searchsorted(users, rows.seen.users)] += 1
    rounds = np.maximum(rounds, 1)
    mean = counts / rounds
    if pairwise(transcript):
        return _lengths_for(transcript, mean, rounds)
    rho = float(transcript.settings.get("rho", 0.0))
    return mean / (1 + rho), exact


def _weights(transcript: Transcript, users: Int64Array) -> Float64Array | None:
    """The weights of users, if these are counts: whole numbers, not all alike."""
    weights = np.zeros(len(users))
    for seen in transcript.rounds:
        if "weight" in seen.sent and len(seen.sent["weight"]) == len(seen.users):
            weights[np.searchsorted(users, seen.users)] = seen.sent["weight"]
    different = len(np.unique(weights[weights > 0])) > 1
    whole = bool((weights % 1 == 0).all())
    return weights if different and whole else None


def _lengths_for(
    transcript: Transcript, mean: Array, rounds: Array
) -> tuple[Float64Array, Float64Array]:
    """The lengths at which FPL's devices send `mean` rows, and the standard error that chance
    leaves after so many rounds, as a share of the length.
    """
    pi = transcript.setting("pi")
    triples = int(transcript.setting("triples"))
    items = transcript.items
    # The expected number of rows, and its variance, at every length n.
    n = np.arange(1, items, dtype=np.float64)
    # Of a setting that is no number, one negative for each positive.
    known = 1.0
    if isinstance(pi, int | float):
        known = float(pi)
    positives = triples * known
    rows = _distinct(items - n, triples) + _distinct(n, positives)
    variance = _variance(items - n, triples) + _variance(n, positives)
    # Only where rows grow with the length does a number of rows have one length.
    if (rows[1:2] > rows[:1]).all():
        order = slice(0, int(rows.argmax()) + 1)
    else:
        # At pi = 0 rows get fewer with the length: read from the far end, they grow.
        order = slice(None, None, -1)
    rows = rows[order]
    variance = variance[order]
    n = n[order]
    # With so few triples no length would show.
    if np.ptp(rows) < 0.5:
        usual = transcript.about["interactions"] / max(1, transcript.users)
        return np.full(len(mean), usual), np.full(len(mean), UNKNOWN)
    length = np.interp(mean, rows, n)
    # The lengths one standard error below and above.
    error = np.sqrt(np.interp(mean, rows, variance) / rounds)
    low = np.interp(mean - error, rows, n)
    high = np.interp(mean + error, rows, n)
    half = np.abs(high - low) / 2
    relative = half / np.maximum(length, 1)
    return length, np.minimum(relative, UNKNOWN)


def _distinct(m: Array, drawn: float) -> Array:
    """The expected number of different ones of m among `drawn` draws."""
    return m * (1 - (1 - 1 / m) ** drawn)


def _variance(m: Array, drawn: float) -> Array:
    """The variance of the number of different ones of m among `drawn` draws."""
    # The chances that one of m, and that two of them, never come.
    one = (1 - 1 / m) ** drawn
    two = np.maximum(1 - 2 / m, 0) ** drawn
    both = m * (m - 1) * two
    mean = m * one
    return np.maximum(mean + both - mean**2, 0)


def run(transcript: Transcript) -> Claims:
    """Claims no items; the note says how long histories are."""
    sizes, error = history_sizes(transcript)
    tally = empty_tally(transcript)
    if not len(sizes):
        return claims_of(transcript, tally, "nobody was seen")
    middle = np.median(sizes)
    span = f"{middle:.0f} interactions (median; {sizes.min():.0f} to {sizes.max():.0f})"
    within = f"each to within {100 * np.median(error):.1f} % (one standard error)"
    return claims_of(transcript, tally, f"histories of {span}, {within}")


ATTACK = Attack("sizes", ("individual",), "ours", rows_sent, run)
