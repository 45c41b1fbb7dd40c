"""Real ratings are whole steps apart and made-up ones are not; rows of decoys are exact multiples
where those of rated items are not.

FBALF and FedRec hide the rated items among decoys with made-up ratings (hybrid filling). From a
single update the errors, p_u and the ratings up to one constant come by division; real ratings
share one fraction of a step at several levels, decoys rated by the mean all sit at one value, and
those rated by prediction anywhere. Rows of the Bayesian ensemble with `noise` > 0 are multiples of
(p_u, 1) for decoys alone, since the spread of p_u is added for rated items. Source: ours; FedRec:
G. Lin, F. Liang, W. Pan, Z. Ming, IEEE Intelligent Systems 36(5), 2021; FBALF: J. Gao, Y. Ran, J.
Chen, arXiv:2504.15090.
"""

from __future__ import annotations

import numpy as np

from entrenous.core.types import Array, Float64Array

from ..claims import Attack, Claims
from ..transcript import Transcript
from ._rating_rows import step_of, untouched_denied, up_to_a_constant, whole_steps_apart, with_bias
from ._rows_seen import RowsSeen, claims_of, empty_tally, rounds_of_rows

SAME = 1e-4  # how far apart the ratios of rows that are multiples may be, as a share of their size


def run(transcript: Transcript) -> Claims:
    """Claims the items whose ratings are whole steps apart, or whose rows are no multiples."""
    tally = empty_tally(transcript)
    step = step_of(transcript)
    rho = float(transcript.setting("rho"))
    made_up = np.zeros(tally.first.shape, bool)
    ratings = 0
    for rows in rounds_of_rows(transcript):
        untouched_denied(tally, rows, transcript.items)
        z = up_to_a_constant(transcript, rows)
        ratio = _ratios(rows)
        for part in rows.each_device():
            who = rows.who[part]
            item = rows.item[part]
            rated = int(np.ceil(len(item) / (1 + rho)))
            real = likely = ~_multiples(ratio[part])
            # Where multiples tell nothing apart, whole steps may.
            if not 0 < real.sum() < len(item):
                likely, real = whole_steps_apart(z[part], step, rated)
            if real.sum() < max(2, rated / 2):
                continue  # nothing stands out: noise
            ratings += int(real.sum())
            tally.claim(who[real], item[real], rows.place)
            made_up[who[~likely], item[~likely]] = True
    tally.deny(*np.nonzero(made_up))
    note = "no whole steps: noise"
    if ratings:
        note = f"{ratings} ratings, each up to a constant of its user"
    return claims_of(transcript, tally, note)


def _ratios(rows: RowsSeen) -> Float64Array:
    """The first factor of each row, divided by the row's bias: float64 [n]."""
    bias = rows.bias.astype(np.float64)
    divisor = np.where(np.abs(bias) > 1e-6, bias, np.inf)
    return rows.array("q")[:, 0] / divisor


def _multiples(ratio: Array) -> Array:
    """The largest group of rows with one ratio, bool [n]; none if it is no larger than chance."""
    order = np.argsort(ratio, kind="stable")
    typical = max(float(np.median(np.abs(ratio))), 1e-9)
    close = np.diff(ratio[order]) < SAME * typical
    # A group ends where the next ratio is not close.
    group = np.concatenate([[0], np.cumsum(~close)])
    size = np.bincount(group)
    multiples = np.zeros(len(ratio), bool)
    if size.max(initial=0) > max(2, len(ratio) // 10):
        multiples[order] = group == size.argmax()
    return multiples


ATTACK = Attack("integers", ("individual",), "ours", with_bias, run)
