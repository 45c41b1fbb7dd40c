"""What a row of a federated rating model says by arithmetic, for FBALF and its Bayesian relative,
whose rows come with a bias.

A device sends, for what it rated and for decoys, g_i = lambda q_i - e_i p_u and h_i = lambda_b b_i
- e_i (FBALF eq. 10; the Bayesian one without the lambdas), e_i the error of its prediction. So h
gives e_i, the rows give p_u, and z_i = q_i . p_u + b_i + e_i is the rating less the user's own
constant: whole steps apart for real ratings, one and the same for decoys rated by the mean.
"""

from __future__ import annotations

import numpy as np

from ...core.types import Array, BoolArray, Float64Array
from ..transcript import Transcript
from ._directions import directions
from ._rows_seen import RowsSeen, Tally

WHOLE = 3e-4  # how far from a whole number of steps a rating may be


def with_bias(transcript: Transcript) -> bool:
    """Whether devices send rows of ratings and decoys with a bias beside the factors."""
    return {"q", "b"} <= {
        sent["name"] for sent in transcript.about["sends"]
    } and "rho" in transcript.about["settings"]


def up_to_a_constant(transcript: Transcript, rows: RowsSeen) -> Float64Array:
    """The ratings of the rows of one round less a constant of their user, float64 [n], where rows
    are multiples of one vector a device; of an ensemble, by its first member."""
    q, b = rows.seen.received["q"], rows.seen.received["b"]
    ensemble, factors = q.ndim == 3, q.shape[-1]
    q, b = (q[:, 0], b[:, 0]) if ensemble else (q, b)
    reg = 0.0 if ensemble else float(transcript.setting("reg"))
    own = transcript.about["settings"].get("reg_bias")
    reg_b = 0.0 if ensemble else reg if own is None else float(own)
    e = reg_b * b[rows.item].astype(np.float64) - rows.array("b")[:, 0]
    push = (np.float32(reg) * q[rows.item] - rows.array("q")[:, :factors]).astype(np.float32)
    unit, along, _ = directions(push, rows.seen.sent["ptr"])
    of_device = lambda values: np.bincount(rows.device, values, minlength=len(unit))  # noqa: E731
    p = unit * (of_device(along * e) / np.maximum(of_device(e * e), 1e-12))[:, None]
    return np.einsum("nf,nf->n", q[rows.item], p[rows.device]) + b[rows.item] + e  # type: ignore[no-any-return]


def step_of(transcript: Transcript) -> float:
    """The step between ratings: 1, or 1/2 where the scale has halves."""
    return 0.5 if float(transcript.about["scale"][0]) % 1 else 1.0


def whole_steps_apart(z: Float64Array, step: float, rated: int) -> tuple[BoolArray, BoolArray]:
    """The numbers that lie whole steps apart, the largest such group at more than one level, bool
    [n]; and those of them that are surely ratings: all, but if there are more than `rated`, without
    the largest level, which decoys then share.
    """
    share = z / step % 1.0
    order = np.sort(np.concatenate([share - 1, share, share + 1]))
    width = WHOLE / step
    counts = np.searchsorted(order, share + width, "right") - np.searchsorted(
        order, share - width, "left"
    )
    best, places = np.zeros(len(z), bool), np.unique(np.rint(share / width), return_index=True)[1]
    for place in places[np.argsort(-counts[places], kind="stable")]:
        if best.sum() >= counts[place]:
            break
        near = np.abs((share - share[place] + 0.5) % 1.0 - 0.5) < width
        if np.ptp(z[near]) > step / 2:
            best = near
    return best, _without_mixed_level(z, best, step, rated)


def _without_mixed_level(z: Float64Array, whole: BoolArray, step: float, rated: int) -> BoolArray:
    """The group without the level that is too large, if there are more than should be."""
    if whole.sum() <= rated + 1 or not whole.any():
        return whole
    levels = np.rint((z - z[whole].min()) / step)
    at, count = np.unique(levels[whole], return_counts=True)
    return whole & (levels != at[count.argmax()])


def untouched_denied(tally: Tally, rows: RowsSeen, items: int) -> None:
    """Rules out what has no row of a user, whose rated items come in every round, unless every item
    has a row.
    """
    for who, part in zip(*_by_user(rows), strict=True):
        if len(part) < items:
            missing = np.setdiff1d(np.arange(items), part)
            tally.deny(np.full(len(missing), who), missing)


def _by_user(rows: RowsSeen) -> tuple[Array, list[Array]]:
    starts = np.flatnonzero(np.diff(rows.who, prepend=-1))
    return rows.who[starts], np.split(rows.item, starts[1:])
