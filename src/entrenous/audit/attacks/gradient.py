"""One gradient of FCF says which items its user consumed: what all rows have in common is x_u, and what is left is a line with outliers.

A device sends f_i = c_i (p_i - x_u . y_i) x_u for every item (Ammad-ud-din et al., arXiv:1901.09888), so that all rows are multiples of x_u.
With d = x_u / |x_u| and e_i = f_i . d, an item that was not consumed (p_i = 0, c_i = w) has e_i = -w |x_u|^2 (d . y_i): one unknown for all of
them, the median of the ratios. Consumed items miss that line by c_i |x_u| (1 - ...), and their sign tells d from -d. With w = 0, as FPL's
comparison ran FCF, all other rows are 0. Source: ours; for gradients of matrix factorisation see D. Chai, L. Wang, K. Chen, Q. Yang,
"Secure federated matrix factorization", arXiv:1906.05108. Noise makes claims of residuals beyond five standard deviations.
"""

from __future__ import annotations

import numpy as np

from ...core.types import Array, Float64Array
from ..claims import Attack, Claims
from ..transcript import Transcript
from ._rows_seen import claims_of, empty_tally, sends

SURELY = 5.0  # standard deviations of the residual from which on an item is claimed
LEAST = 1e-3  # of a typical residual of a consumed item: below is rounding


def applies(transcript: Transcript) -> bool:
    """Whether devices send a gradient of all item factors of an implicit factorisation."""
    return sends(transcript, "f") and "unobserved" in transcript.about["settings"]


def run(transcript: Transcript) -> Claims:
    """Claims the items whose rows miss the line of those that were not consumed."""
    tally, worst = empty_tally(transcript), 0.0
    total, weight = np.zeros(tally.evidence.shape), np.zeros(len(tally.users))
    for place, seen in enumerate(transcript.rounds):
        who = np.searchsorted(tally.users, seen.users)
        for device in range(len(who)):
            left, sd = residuals(seen.sent["f"][device], seen.received["y"], float(transcript.setting("unobserved")))
            limit = max(SURELY * sd, LEAST * float(np.abs(left).max(initial=0)))
            sure = np.flatnonzero(left > limit)
            tally.claim(np.full(len(sure), who[device]), sure, place)
            scale = max(limit / SURELY, 1e-12)
            total[who[device]] += np.clip(left / scale, -9, 9)
            weight[who[device]] += 1
            worst = max(worst, sd)
    tally.evidence[:] += (total / np.sqrt(np.maximum(weight, 1))[:, None]).astype(np.float32)
    return claims_of(transcript, tally, f"residuals of items that were not consumed: at most {worst:.2g}")


def residuals(f: Array, y: Array, unobserved: float) -> tuple[Float64Array, float]:
    """How far each row of one gradient is from what it would be of an item that was not consumed, along x_u and positive for consumed
    ones, float64 [items]; and the standard deviation of that for the others."""
    rows, table = f.astype(np.float64), y.astype(np.float64)
    _, vectors = np.linalg.eigh(rows.T @ rows)
    direction = vectors[:, -1]
    e, along = rows @ direction, table @ direction
    left = e + (_squared_length(e, along, unobserved) * unobserved) * along
    spread = 1.4826 * float(np.median(np.abs(left - np.median(left))))
    sign = 1.0 if np.abs(left[left > 0]).max(initial=0) >= np.abs(left[left < 0]).max(initial=0) else -1.0
    return sign * left, spread


def _squared_length(e: Float64Array, along: Float64Array, unobserved: float) -> float:
    """|x_u|^2: the median of -e / (w d . y), weighted by how much each item says."""
    if not unobserved or not along.any():
        return 0.0
    there = np.abs(along) > 0.1 * np.abs(along).max()
    ratio, weight = -e[there] / (unobserved * along[there]), np.abs(along[there])
    order = np.argsort(ratio)
    half = np.searchsorted(np.cumsum(weight[order]), weight.sum() / 2)
    return max(float(ratio[order][min(half, len(order) - 1)]), 0.0)


ATTACK = Attack("gradient", ("individual",), "ours", applies, run)
