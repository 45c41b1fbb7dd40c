"""The whole item table of a device, shown with its name: untouched rows go where the server sent
them, and the others are the history and the negatives.

A device of GPFedRec (C. Zhang et al., KDD 2024) shows how each row of its table moved. A row that
was in no sample moves a share of the way to R_u, which the server made, and the share is the same
for all of them. What is left of the other rows are gradients: nearly multiples of one vector, for
consumed items one way and for drawn ones the other. The more popular side is the history. Source:
ours.
"""

from __future__ import annotations

import numpy as np

from entrenous.core.types import Array, Float32Array, Int64Array
from entrenous.federation.recorder import Seen

from ..claims import Attack, Claims
from ..transcript import Transcript
from ._directions import directions
from ._rows_seen import RowsSeen, claims_of, empty_tally, sends
from ._sides import claim_side, keep_constant, more_popular, no_visits

# Of the longest gradient of a device: anything below is rounding.
LEAST = 1e-4


def applies(transcript: Transcript) -> bool:
    """Checks whether devices show how their whole item tables moved."""
    return sends(transcript, "move")


def run(transcript: Transcript) -> Claims:
    """Claims the more popular side of the rows of each table that the server did not move."""
    tally = empty_tally(transcript)
    visits = no_visits(tally)
    for place, seen in enumerate(transcript.rounds):
        # A sum of devices that show their tables has one table for each sender.
        users = seen.sent.get("sender", seen.users)
        left = _left(seen, users)
        length = np.linalg.norm(left, axis=2)
        device, item = np.nonzero(length > LEAST * length.max(axis=1, keepdims=True))
        counts = np.bincount(device, minlength=len(left))
        ptr = np.append(0, np.cumsum(counts))
        seen = seen._replace(sent={**seen.sent, "ptr": ptr})
        who = np.searchsorted(tally.users, users)[device]
        rows = RowsSeen(place, seen, who, device, item.astype(np.int32))
        visits.add(rows)
        _, along, around = directions(left[device, item], ptr)
        along *= more_popular(transcript, rows, along)[device]
        claim_side(tally, rows, along, around, transcript)
    keep_constant(tally, visits)
    return claims_of(transcript, tally)


def _left(seen: Seen, users: Int64Array) -> Float32Array:
    """The moves of all rows less what R_u explains, float32 [m, items, F]."""
    move = np.asarray(seen.sent["move"], np.float32)
    toward = seen.received["near"][users] - seen.received["q"]
    share = [_share(one, way) for one, way in zip(move, toward, strict=True)]
    left: Float32Array = move - np.array(share, np.float32)[:, None, None] * toward
    return left


def _share(move: Array, toward: Array) -> float:
    """The share of the way that most rows of one device went; 0 where there is no way to go."""
    way = (toward * toward).sum(axis=1)
    some = way > 0
    if not some.any():
        return 0.0
    # Most rows were not trained on, so the median is the server's share alone.
    return float(np.median((move * toward).sum(axis=1)[some] / way[some]))


ATTACK = Attack("moved-table", ("individual", "sum"), "ours", applies, run)
