"""One gradient of FCF says which items its user consumed: the common direction of all rows is x_u,
and their lengths along it are a line with outliers.

A device sends f_i = c_i (p_i - x_u . y_i) x_u for every item (Ammad-ud-din et al.,
arXiv:1901.09888), so that all rows are multiples of x_u. With d = x_u / |x_u| and e_i = f_i . d, an
item that was not consumed (p_i = 0, c_i = w) has e_i = -w |x_u|^2 (d . y_i): one unknown for all of
them, the median of the ratios. Consumed items miss that line by c_i |x_u| (1 - ...), and their sign
tells d from -d. With w = 0, as FPL's comparison ran FCF, all other rows are 0. So they are where
devices send x_u x_u^T and rows of consumed items instead (`form=gram`): which rows there are, or
which of them are not noise alone, is the history. Source: ours; for gradients of matrix
factorisation see D. Chai, L. Wang, K. Chen, Q. Yang, "Secure federated matrix factorization",
arXiv:1906.05108. Under noise a residual beyond five standard deviations is claimed.
"""

from __future__ import annotations

import numpy as np

from entrenous.core.types import Array, Float64Array
from entrenous.federation.recorder import Seen

from ..claims import Attack, Claims
from ..transcript import Transcript
from ._directions import directions
from ._fcf_cost import of_implicit
from ._rows_seen import chances, claims_of, device_of_rows, empty_tally, odds_of

SURELY = 5.0  # standard deviations of the residual from which on an item is claimed
LEAST = 1e-3  # of a typical residual of a consumed item: anything below is rounding


def run(transcript: Transcript) -> Claims:
    """Claims the items whose rows miss the line of those that were not consumed."""
    tally = empty_tally(transcript)
    chance = chances(transcript)
    items = transcript.items
    worst = 0.0
    for place, seen in enumerate(transcript.rounds):
        f, unobserved = _gradients(transcript, seen)
        # d = x_u / |x_u|, and e_i = f_i . d.
        ptr = np.arange(len(f) + 1) * items
        unit, along, _ = directions(f.reshape(-1, f.shape[-1]), ptr)
        who = np.searchsorted(tally.users, seen.users)
        for user, d, e in zip(who, unit, along.reshape(-1, items), strict=True):
            left, sd = residuals(e, seen.received["y"] @ d, unobserved)
            longest = float(np.abs(left).max(initial=0))
            limit = max(SURELY * sd, LEAST * longest, 1e-12)
            tally.claim(user, np.flatnonzero(left > limit), place)
            tally.evidence[user] += odds_of(left, sd, chance)
            worst = max(worst, sd)
    note = f"residuals of items that were not consumed: a standard deviation of {worst:.2g} at most"
    return claims_of(transcript, tally, note)


def _gradients(transcript: Transcript, seen: Seen) -> tuple[Array, float]:
    """A row for every item of each device, float32 [m, items, F], and the weight w of items that
    were not consumed.
    """
    if "f" in seen.sent:
        return seen.sent["f"], float(transcript.setting("unobserved"))
    # `form=gram`: rows of consumed items alone.
    own = seen.sent["own"]
    shape = (len(seen.users), transcript.items, own.shape[1])
    rows = np.zeros(shape, np.float32)
    rows[device_of_rows(seen), seen.sent["item"]] = own
    return rows, 0.0


def residuals(
    e: Float64Array, along: Float64Array, unobserved: float
) -> tuple[Float64Array, float]:
    """The distance of each row of one gradient from the line of items that were not consumed,
    positive for consumed ones, float64 [items]; and its standard deviation for the others.

    e: rows along the direction of x_u; along: item factors along it. unobserved: w.
    """
    # The line: e_i = -w |x_u|^2 (d . y_i).
    slope = _squared_length(e, along, unobserved) * unobserved
    left = e + slope * along
    # Most items were not consumed, so the median deviation is theirs.
    # 1.4826 median deviations are a standard deviation of normal errors.
    deviation = np.abs(left - np.median(left))
    sd = 1.4826 * float(np.median(deviation))
    # The largest residual is of a consumed item.
    # The sign is the one under which the largest residual is positive.
    upward = left.max(initial=0) >= -left.min(initial=0)
    sign = 1.0 if upward else -1.0
    return sign * left, sd


def _squared_length(e: Float64Array, along: Float64Array, unobserved: float) -> float:
    """|x_u|^2: the median of -e / (w d . y), weighted by how much each item says."""
    if not unobserved or not along.any():
        return 0.0
    # Items across the direction say nothing: their ratio is of two small numbers.
    size = np.abs(along)
    some = size > 0.1 * size.max()
    ratio = -e[some] / (unobserved * along[some])
    weight = np.abs(along[some])
    order = np.argsort(ratio)
    reached = np.cumsum(weight[order])
    half = np.searchsorted(reached, weight.sum() / 2)
    middle = order[min(half, len(order) - 1)]
    return max(float(ratio[middle]), 0.0)


ATTACK = Attack("gradient", ("individual",), "ours", of_implicit, run)
