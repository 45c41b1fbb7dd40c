"""The sign of a bias's update tells a consumed item from a negative.

A device of FPL sends db_i = s > 0 for a consumed item that pi let through and db_j = -s < 0 for a
negative (eq. 5). Source: V. W. Anelli, Y. Deldjoo, T. Di Noia, A. Ferrara, F. Narducci, "FedeRank:
user controlled feedback with federated recommender systems", ECIR 2021, and the SAC 2021 paper on
FPL, which names this attack; pi is its defence. Where rows are not exact, each adds log odds for
its sign instead.
"""

from __future__ import annotations

import numpy as np

from entrenous.core.types import Array

from ..claims import Attack, Claims
from ..transcript import Transcript
from ._pairwise import SURELY, pairwise, precision_of
from ._rows_seen import RowsSeen, claims_of, empty_tally, rounds_of_rows


def run(transcript: Transcript) -> Claims:
    """Claims the items whose bias a device wants raised."""
    tally = empty_tally(transcript)
    sd = precision_of(transcript).sd
    for rows in rounds_of_rows(transcript):
        tally.claim_rows(rows, rows.bias > SURELY * sd)
        down = rows.bias < -SURELY * sd
        tally.deny(rows.who[down], rows.item[down])
        if sd:
            tally.add(rows.who, rows.item, _odds(transcript, rows, sd))
    note = ""
    if sd:
        note = f"numbers are off by {sd:.3g}: claims from {SURELY} times that on"
    return claims_of(transcript, tally, note)


def _odds(transcript: Transcript, rows: RowsSeen, sd: float) -> Array:
    """The log odds of a positive that each noisy row adds, with s = 1/2."""
    items = transcript.items
    db = rows.bias.astype(np.float64)
    # The chances that a row of a consumed item is of a positive, and one of another of a negative.
    positive = 1.0
    negative = 1.0
    # Where every item has a row, most rows are of neither.
    if len(rows.item) >= 0.9 * items * len(rows.seen.users):
        triples = int(transcript.setting("triples"))
        history = transcript.about["interactions"] / max(1, transcript.users)
        positive = min(1.0, triples / history)
        negative = min(1.0, triples / max(items - history, 1))
    # Likelihood ratios of +1/2 and of -1/2 against 0, under normal noise.
    for_up = (db / 2 - 1 / 8) / sd**2
    up = np.exp(np.clip(for_up, -30, 30))
    for_down = (-db / 2 - 1 / 8) / sd**2
    down = np.exp(np.clip(for_down, -30, 30))
    # Of a consumed item against one that is not.
    consumed = np.log(1 - positive + positive * up)
    other = np.log(1 - negative + negative * down)
    return np.clip(consumed - other, -20, 20)  # type: ignore[no-any-return]


ATTACK = Attack("sign", ("individual",), "FPL, SAC 2021, section on privacy", pairwise, run)
