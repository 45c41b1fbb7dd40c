"""The arithmetic of a row of a federated rating model, for FBALF and its Bayesian relative, whose
rows come with a bias.

A device sends, for rated items and for decoys, g_i = lambda q_i - e_i p_u and h_i = lambda_b b_i -
e_i (FBALF eq. 10; the Bayesian one without the lambdas), e_i the error of its prediction. So h
gives e_i, the rows give p_u, and z_i = q_i . p_u + b_i + e_i is the rating less the user's own
constant: whole steps apart for real ratings, one and the same for decoys rated by the mean.
"""

from __future__ import annotations

import numpy as np

from entrenous.core.types import Array, BoolArray, Float64Array

from ..transcript import Transcript
from ._directions import directions
from ._rows_seen import RowsSeen, Tally, sends

WHOLE = 3e-4  # how far from a whole number of steps a rating may be


def with_bias(transcript: Transcript) -> bool:
    """Checks whether devices send rows of ratings and decoys with a bias next to the factors."""
    return sends(transcript, "q", "b") and "rho" in transcript.settings


def up_to_a_constant(transcript: Transcript, rows: RowsSeen) -> Float64Array:
    """The ratings of the rows of one round less a constant of their user, float64 [n], where rows
    are multiples of one vector for each device. An ensemble is read by its first member.
    """
    q = rows.seen.received["q"]
    b = rows.seen.received["b"]
    factors = q.shape[-1]
    reg = 0.0
    reg_bias = 0.0
    if q.ndim == 3:
        # An ensemble, which has no lambdas.
        q = q[:, 0]
        b = b[:, 0]
    else:
        reg = float(transcript.setting("reg"))
        given = transcript.settings.get("reg_bias")
        reg_bias = reg if given is None else float(given)
    own_q = q[rows.item]
    own_b = b[rows.item]
    # e, from the row of the bias.
    e = reg_bias * own_b.astype(np.float64) - rows.bias
    # e p_u, from the row of the factors.
    push = np.float32(reg) * own_q - rows.array("q")[:, :factors]
    unit, along, _ = directions(push.astype(np.float32), rows.seen.sent["ptr"])
    # |p_u| by least squares over the rows of each device: along = e |p_u|.
    devices = len(unit)
    products = np.bincount(rows.device, along * e, minlength=devices)
    squares = np.bincount(rows.device, e * e, minlength=devices)
    size = products / np.maximum(squares, 1e-12)
    p = unit * size[:, None]
    score = np.einsum("nf,nf->n", own_q, p[rows.device])
    return score + own_b + e  # type: ignore[no-any-return]


def step_of(transcript: Transcript) -> float:
    """The step between ratings: 1, or 1/2 where the scale has halves."""
    lowest = float(transcript.about["scale"][0])
    return 0.5 if lowest % 1 else 1.0


def whole_steps_apart(z: Float64Array, step: float, rated: int) -> tuple[BoolArray, BoolArray]:
    """The largest group of numbers at more than one level that lie whole steps apart, bool [n]; and
    those of the group that are surely ratings. These are all of it, but where it has more than
    `rated` numbers its largest level is left out, which decoys then share.
    """
    fraction = z / step % 1.0
    width = WHOLE / step
    # How many numbers have nearly the same fraction, round the circle of fractions.
    # The fractions lie on a circle: 0.99 is near 0.01.
    turns = [fraction - 1, fraction, fraction + 1]
    circle = np.sort(np.concatenate(turns))
    below = np.searchsorted(circle, fraction - width, "left")
    counts = np.searchsorted(circle, fraction + width, "right") - below
    # One number of each fraction, those with the most companions first.
    _, places = np.unique(np.rint(fraction / width), return_index=True)
    by_count = np.argsort(-counts[places], kind="stable")
    best = np.zeros(len(z), bool)
    for place in places[by_count]:
        if best.sum() >= counts[place]:
            break
        offset = (fraction - fraction[place] + 0.5) % 1.0
        away = np.abs(offset - 0.5)
        near = away < width
        # A single level is not enough: decoys rated by the mean have one.
        if np.ptp(z[near]) > step / 2:
            best = near
    return best, _without_mixed_level(z, best, step, rated)


def _without_mixed_level(z: Float64Array, whole: BoolArray, step: float, rated: int) -> BoolArray:
    """The group without its largest level, if it has more numbers than there are ratings."""
    if whole.sum() <= rated + 1 or not whole.any():
        return whole
    levels = np.rint((z - z[whole].min()) / step)
    level, count = np.unique(levels[whole], return_counts=True)
    return whole & (levels != level[count.argmax()])


def untouched_denied(tally: Tally, rows: RowsSeen, items: int) -> None:
    """Rules out items without a row of a user, whose rated items come in every round, unless every
    item has a row.
    """
    starts = np.flatnonzero(np.diff(rows.who, prepend=-1))
    parts: list[Array] = np.split(rows.item, starts[1:])
    for who, part in zip(rows.who[starts], parts, strict=True):
        if len(part) < items:
            tally.deny(who, np.setdiff1d(np.arange(items), part))
