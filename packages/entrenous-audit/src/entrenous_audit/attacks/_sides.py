"""Devices that push consumed items one way along a vector and negatives the other: the more popular
of the two sides is the history.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from entrenous.core.types import Array, Float64Array, Int32Array, Int64Array

from ..transcript import Transcript
from ._rows_seen import SURE, RowsSeen, Tally, chances, odds_of, prior

# Standard deviations of a row's length along the vector from which on its side is believed.
SURELY = 5.0
LEAST = 1e-6  # of the longest row: anything below is rounding


def claim_side(
    tally: Tally,
    rows: RowsSeen,
    along: Float64Array,
    around: Float64Array,
    transcript: Transcript,
) -> None:
    """Claims the items of the side of each device that is longer than chance.

    The vector itself moves while a device trains, so that rows lie around it without any noise:
    signs are believed as they are, unless every item has a row.

    along: float64 [n], the length of each row along its device's vector, positive for consumed
    items. around: float64 [devices], standard deviation of the rows around that vector.
    """
    chance = chances(transcript)
    for device, part in enumerate(rows.each_device()):
        lengths = along[part]
        who = rows.who[part]
        item = rows.item[part]
        sd = float(around[device])
        limit = LEAST * float(np.abs(lengths).max(initial=0))
        # A row for every item means noise, or that most rows are of neither side.
        if len(item) >= transcript.items:
            limit = max(SURELY * sd, limit)
        sure = lengths > limit
        tally.claim(who[sure], item[sure], rows.place)
        odds = odds_of(lengths, max(sd, 1e-9), chance[item])
        tally.add(who, item, odds)
        against = lengths < -limit
        never = np.full(int(against.sum()), -SURE)
        tally.add(who[against], item[against], never)


class VisitCounts(NamedTuple):
    """Counts of the rounds of users, and of the rows of each item among theirs."""

    rounds: Int64Array
    """[m, 1]."""
    touched: Int32Array
    """[m, items]."""

    def add(self, rows: RowsSeen) -> None:
        """Counts the rows of one more round."""
        self.rounds[np.unique(rows.who)] += 1
        self.touched[rows.who, rows.item] += 1


def no_visits(tally: Tally) -> VisitCounts:
    """Counts of visits before the first round."""
    rounds = np.zeros((len(tally.users), 1), np.int64)
    return VisitCounts(rounds, np.zeros(tally.first.shape, np.int32))


def keep_constant(tally: Tally, visits: VisitCounts) -> None:
    """Rules out items without a row in some round of their user, where devices go over their whole
    history in every round; and takes back claims that other rounds outvote.
    """
    tally.deny(*np.nonzero(visits.touched < visits.rounds))
    tally.first[tally.evidence < 0] = -1


def more_popular(transcript: Transcript, rows: RowsSeen, along: Float64Array) -> Array:
    """The sign that makes the more popular side of each device positive, float64 [devices]. A
    device with rows on one side alone is taken to push negatives.
    """
    up = _mean_prior(transcript, rows, along > 0)
    down = _mean_prior(transcript, rows, along < 0)
    return np.where(up >= down, 1.0, -1.0)


def _mean_prior(transcript: Transcript, rows: RowsSeen, side: Array) -> Float64Array:
    """The mean popularity of the items on one side of each device, float64 [devices]; infinite for
    an empty side, which is then that of consumed items.
    """
    devices = len(rows.seen.users)
    device = rows.device[side]
    known = prior(transcript)[rows.item[side]]
    count = np.bincount(device, minlength=devices)
    total = np.bincount(device, known, minlength=devices)
    mean = total / np.maximum(count, 1)
    mean[count == 0] = np.inf
    return mean
