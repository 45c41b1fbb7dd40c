"""How many interactions a user has, from how many rows a device sends.

Where devices say how much they weigh, it is said outright. Of FPL the number of rows has a mean
that grows with the history: of T drawn negatives (1 - (1 - 1/m)^T) m are different with m = items -
n, and at probability pi so are those of the n positives; the mean over rounds is turned round.
Devices with decoys send int((1 + rho) n) rows. A size alone ranks no items. Source: ours."""

from __future__ import annotations

import numpy as np

from ...core.types import Array, Float64Array, Int64Array
from ..claims import Attack, Claims
from ..transcript import Transcript
from ._pairwise import pairwise
from ._rows_seen import Tally, claims_of, empty_tally, rounds_of_rows, rows_sent, users_seen


def applies(transcript: Transcript) -> bool:
    """Whether devices send rows, or say how much they weigh."""
    return rows_sent(transcript)


def history_sizes(transcript: Transcript) -> tuple[Float64Array, Float64Array]:
    """Estimated lengths of the histories of the users seen, and their standard error as a share of
    them, float64 [m] each.
    """
    users = users_seen(transcript)
    counts, rounds = np.zeros(len(users)), np.zeros(len(users))
    for seen in rounds_of_rows(transcript, users):
        counts += np.bincount(seen.who, minlength=len(users))
        rounds[np.searchsorted(users, seen.seen.users)] += 1
    mean = counts / np.maximum(rounds, 1)
    if (said := _said(transcript, users)) is not None:
        return said, np.zeros(len(users))
    if not pairwise(transcript):
        return mean / (1 + float(transcript.about["settings"].get("rho", 0.0))), np.zeros(
            len(users)
        )
    return _turned_round(transcript, mean, np.maximum(rounds, 1))


def _said(transcript: Transcript, users: Int64Array) -> Float64Array | None:
    """Weights that are counts: whole numbers, not all alike."""
    out = np.zeros(len(users))
    for seen in transcript.rounds:
        if "weight" in seen.sent and len(seen.sent["weight"]) == len(seen.users):
            out[np.searchsorted(users, seen.users)] = seen.sent["weight"]
    return out if len(np.unique(out[out > 0])) > 1 and bool((out % 1 == 0).all()) else None


def _turned_round(
    transcript: Transcript, mean: Array, rounds: Array
) -> tuple[Float64Array, Float64Array]:
    """The length at which FPL's devices send `mean` rows, and what the chance of so many rounds
    makes of it.
    """
    pi, triples, items = (
        transcript.setting("pi"),
        int(transcript.setting("triples")),
        transcript.items,
    )
    n = np.arange(1, items, dtype=np.float64)
    positives = triples * (float(pi) if isinstance(pi, int | float) else 1.0)
    rows, spread = (
        distinct(items - n, triples) + distinct(n, positives) for distinct in (_distinct, _variance)
    )
    rises = rows[1:2] > rows[:1]  # with pi = 0 rows only get fewer
    order = slice(0, int(rows.argmax()) + 1) if rises.all() else slice(None, None, -1)
    rows, spread, n = rows[order], spread[order], n[order]
    if np.ptp(rows) < 0.5:  # so few triples that no length would show
        return np.full(
            len(mean), transcript.about["interactions"] / max(1, transcript.users)
        ), np.full(len(mean), 9.99)
    error = np.sqrt(np.interp(mean, rows, spread) / rounds)
    found, low, high = (np.interp(mean + by * error, rows, n) for by in (0, -1, 1))
    return found, np.minimum(np.abs(high - low) / 2 / np.maximum(found, 1), 9.99)


def _distinct(m: Array, drawn: float) -> Array:
    """How many different ones of m are among `drawn`, on average."""
    return m * (1 - (1 - 1 / m) ** drawn)


def _variance(m: Array, drawn: float) -> Array:
    """The variance of that number."""
    once, both = (1 - 1 / m) ** drawn, np.maximum(1 - 2 / m, 0) ** drawn
    return np.maximum(m * once + m * (m - 1) * both - (m * once) ** 2, 0)


def run(transcript: Transcript) -> Claims:
    """Claims no items; the note says how long histories are."""
    sizes, error = history_sizes(transcript)
    tally: Tally = empty_tally(transcript)
    if not len(sizes):
        return claims_of(transcript, tally, "nobody was seen")
    said = (
        f"histories of {np.median(sizes):.0f} interactions (median; {sizes.min():.0f} to"
        f" {sizes.max():.0f})"
    )
    return claims_of(
        transcript,
        tally,
        f"{said}, each to within {100 * np.median(error):.1f} % (one standard error)",
    )


ATTACK = Attack("sizes", ("individual",), "ours", applies, run)
