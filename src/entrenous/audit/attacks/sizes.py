"""The number of interactions of a user, from the number of rows that a device sends.

Where devices say how much they weigh, it is said outright. Of FPL the number of rows has a mean
that grows with the history: of T drawn negatives (1 - (1 - 1/m)^T) m are different with m = items -
n, and at probability pi so are those of the n positives; the mean over rounds is turned round.
Devices with decoys send int((1 + rho) n) rows. A size alone ranks no items. Source: ours.
"""

from __future__ import annotations

import numpy as np

from ...core.types import Array, Float64Array, Int64Array
from ..claims import Attack, Claims
from ..transcript import Transcript
from ._pairwise import pairwise
from ._rows_seen import claims_of, empty_tally, rounds_of_rows, rows_sent, users_seen

UNKNOWN = 9.99  # a standard error, as a share of a length, that says nothing


def applies(transcript: Transcript) -> bool:
    """Checks whether devices send rows, or say how much they weigh."""
    return rows_sent(transcript)


def history_sizes(transcript: Transcript) -> tuple[Float64Array, Float64Array]:
    """Estimated lengths of the histories of the users seen, and their standard error as a share of
    them, float64 [m] each.
    """
    users = users_seen(transcript)
    exact = np.zeros(len(users))
    weights = _weights(transcript, users)
    if weights is not None:
        return weights, exact
    counts, rounds = np.zeros(len(users)), np.zeros(len(users))
    for rows in rounds_of_rows(transcript):
        counts += np.bincount(rows.who, minlength=len(users))
        rounds[np.searchsorted(users, rows.seen.users)] += 1
    rounds = np.maximum(rounds, 1)
    mean = counts / rounds
    if pairwise(transcript):
        return _turned_round(transcript, mean, rounds)
    return mean / (1 + float(transcript.settings.get("rho", 0.0))), exact


def _weights(transcript: Transcript, users: Int64Array) -> Float64Array | None:
    """Weights that are counts: whole numbers, not all alike."""
    weights = np.zeros(len(users))
    for seen in transcript.rounds:
        if "weight" in seen.sent and len(seen.sent["weight"]) == len(seen.users):
            weights[np.searchsorted(users, seen.users)] = seen.sent["weight"]
    different = len(np.unique(weights[weights > 0])) > 1
    return weights if different and bool((weights % 1 == 0).all()) else None


def _turned_round(
    transcript: Transcript, mean: Array, rounds: Array
) -> tuple[Float64Array, Float64Array]:
    """The length at which FPL's devices send `mean` rows, and the effect of chance in so many
    rounds.
    """
    pi, triples = transcript.setting("pi"), int(transcript.setting("triples"))
    items = transcript.items
    n = np.arange(1, items, dtype=np.float64)
    positives = triples * (float(pi) if isinstance(pi, int | float) else 1.0)
    rows = _distinct(items - n, triples) + _distinct(n, positives)
    spread = _variance(items - n, triples) + _variance(n, positives)
    # The part in which rows only grow with the length; with pi = 0 they only get fewer.
    if (rows[1:2] > rows[:1]).all():
        order = slice(0, int(rows.argmax()) + 1)
    else:
        order = slice(None, None, -1)
    rows, spread, n = rows[order], spread[order], n[order]
    if np.ptp(rows) < 0.5:  # so few triples that no length would show
        usual = transcript.about["interactions"] / max(1, transcript.users)
        return np.full(len(mean), usual), np.full(len(mean), UNKNOWN)
    error = np.sqrt(np.interp(mean, rows, spread) / rounds)
    length = np.interp(mean, rows, n)
    low, high = np.interp(mean - error, rows, n), np.interp(mean + error, rows, n)
    return length, np.minimum(np.abs(high - low) / 2 / np.maximum(length, 1), UNKNOWN)


def _distinct(m: Array, drawn: float) -> Array:
    """The number of different ones of m among `drawn`, on average."""
    return m * (1 - (1 - 1 / m) ** drawn)


def _variance(m: Array, drawn: float) -> Array:
    """The variance of that number."""
    once = (1 - 1 / m) ** drawn
    both = np.maximum(1 - 2 / m, 0) ** drawn
    return np.maximum(m * once + m * (m - 1) * both - (m * once) ** 2, 0)


def run(transcript: Transcript) -> Claims:
    """Claims no items; the note says how long histories are."""
    sizes, error = history_sizes(transcript)
    tally = empty_tally(transcript)
    if not len(sizes):
        return claims_of(transcript, tally, "nobody was seen")
    span = f"{np.median(sizes):.0f} interactions (median; {sizes.min():.0f} to {sizes.max():.0f})"
    within = f"each to within {100 * np.median(error):.1f} % (one standard error)"
    return claims_of(transcript, tally, f"histories of {span}, {within}")


ATTACK = Attack("sizes", ("individual",), "ours", applies, run)
