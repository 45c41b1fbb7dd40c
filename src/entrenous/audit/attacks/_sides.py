"""Devices that push consumed items one way along a vector and negatives the other: the more popular
of the two sides is the history.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...core.types import Array, Float64Array, Int32Array, Int64Array
from ..transcript import Transcript
from ._rows_seen import SURE, RowsSeen, Tally, chances, odds_of, prior

SURELY = (
    5.0  # standard deviations of a row's length along the vector from which on its side is believed
)
LEAST = 1e-6  # of the longest row: below is rounding


def claim_side(
    tally: Tally,
    rows: RowsSeen,
    along: Float64Array,
    around: Float64Array,
    transcript: Transcript,
    loose: bool,
) -> None:
    """Claims the items of the side of each device that is longer than chance.

    along: float64 [n], the length of each row along its device's vector, positive for consumed
    items. around: float64 [devices], standard deviation of the rows around that vector. loose: the
    vector itself moves while a device trains, so that rows lie around it without any noise; then
    signs are believed as they are, unless every item has a row."""
    chance, ptr = chances(transcript), rows.seen.sent["ptr"]
    for device, (low, high) in enumerate(zip(ptr[:-1].tolist(), ptr[1:].tolist(), strict=True)):
        one, here, sd = along[low:high], slice(low, high), float(around[device])
        noisy = high - low >= transcript.items or not loose
        limit = max(SURELY * sd if noisy else 0.0, LEAST * float(np.abs(one).max(initial=0)))
        sure = one > limit
        tally.claim(rows.who[here][sure], rows.item[here][sure], rows.place)
        tally.add(
            rows.who[here], rows.item[here], odds_of(one, max(sd, 1e-9), chance[rows.item[here]])
        )
        against = one < -limit
        tally.add(
            rows.who[here][against], rows.item[here][against], np.full(int(against.sum()), -SURE)
        )


class VisitCounts(NamedTuple):
    """How often users took part, int64 [m, 1], and how often each item had a row of theirs, int32
    [m, items].
    """

    rounds: Int64Array
    touched: Int32Array

    def add(self, rows: RowsSeen) -> None:
        """Counts the rows of one more round."""
        self.rounds[np.unique(rows.who)] += 1
        self.touched[rows.who, rows.item] += 1


def no_visits(tally: Tally) -> VisitCounts:
    """Counts of visits before the first round."""
    return VisitCounts(
        np.zeros((len(tally.users), 1), np.int64), np.zeros(tally.first.shape, np.int32)
    )


def keep_constant(tally: Tally, visits: VisitCounts) -> None:
    """Rules out what had no row in some round of its user, where devices go over their whole
    history in every round, and takes back claims that other rounds outvote."""
    tally.deny(*np.nonzero(visits.touched < visits.rounds))
    tally.first[tally.evidence < 0] = -1


def more_popular(transcript: Transcript, rows: RowsSeen, along: Float64Array) -> Array:
    """The sign that makes the more popular side of each device positive, float64 [devices]. Devices
    on one side alone push negatives.
    """
    devices, known = len(rows.seen.users), prior(transcript)
    up, down = along > 0, along < 0
    means = []
    for side in (up, down):
        count = np.bincount(rows.device[side], minlength=devices)
        means.append(
            np.bincount(rows.device[side], known[rows.item[side]], minlength=devices)
            / np.maximum(count, 1)
        )
        means[-1][count == 0] = np.inf  # an empty side is that of consumed items
    return np.where(means[0] >= means[1], 1.0, -1.0)
