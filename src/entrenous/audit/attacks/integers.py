"""Real ratings are whole steps apart and made-up ones are not; rows of decoys are exact multiples
where those of rated items are not.

FBALF and FedRec hide what a user rated among decoys with made-up ratings (hybrid filling). From a
single update the errors, p_u and the ratings up to one constant come by division; real ratings
share one fraction of a step at several levels, decoys rated by the mean all sit at one value, and
those rated by prediction anywhere. Rows of the Bayesian ensemble with `noise` > 0 are multiples of
(p_u, 1) for decoys alone, since the spread of p_u is added for rated items. Source: ours; FedRec:
G. Lin, F. Liang, W. Pan, Z. Ming, IEEE Intelligent Systems 36(5), 2021; FBALF: J. Gao, Y. Ran, J.
Chen, arXiv:2504.15090.
"""

from __future__ import annotations

import numpy as np

from ...core.types import Array, Float64Array
from ..claims import Attack, Claims
from ..transcript import Transcript
from ._rating_rows import step_of, untouched_denied, up_to_a_constant, whole_steps_apart, with_bias
from ._rows_seen import RowsSeen, claims_of, empty_tally, rounds_of_rows

SAME = 1e-4  # how far the ratios of rows that are multiples may be apart, beside their size


def run(transcript: Transcript) -> Claims:
    """Claims the items whose ratings are whole steps apart, or whose rows are no multiples."""
    tally, step, ratings = empty_tally(transcript), step_of(transcript), 0
    made_up = np.zeros(tally.first.shape, bool)
    for rows in rounds_of_rows(transcript, tally.users):
        untouched_denied(tally, rows, transcript.items)
        found, ptr = up_to_a_constant(transcript, rows), rows.seen.sent["ptr"]
        ratio = _ratios(rows)
        for low, high in zip(ptr[:-1].tolist(), ptr[1:].tolist(), strict=True):
            here, rated = (
                slice(low, high),
                int(np.ceil((high - low) / (1 + float(transcript.setting("rho"))))),
            )
            real = likely = ~_multiples(ratio[here])
            if not 0 < real.sum() < high - low:
                likely, real = whole_steps_apart(found[here], step, rated)
            if real.sum() < max(2, rated / 2):
                continue  # nothing that stands out: noise
            ratings += int(real.sum())
            tally.claim(rows.who[here][real], rows.item[here][real], rows.place)
            made_up[rows.who[here][~likely], rows.item[here][~likely]] = True
    tally.deny(*np.nonzero(made_up))
    return claims_of(
        transcript,
        tally,
        f"{ratings} ratings, each up to a constant of its user"
        if ratings
        else "no whole steps: noise",
    )


def _ratios(rows: RowsSeen) -> Float64Array:
    """A row's first factor by its bias's number."""
    bias = rows.array("b")[:, 0].astype(np.float64)
    return rows.array("q")[:, 0] / np.where(np.abs(bias) > 1e-6, bias, np.inf)


def _multiples(ratio: Array) -> Array:
    """The largest group of rows with one ratio."""
    order = np.argsort(ratio, kind="stable")
    close = np.diff(ratio[order]) < SAME * max(float(np.median(np.abs(ratio))), 1e-9)
    group = np.concatenate([[0], np.cumsum(~close)])
    size = np.bincount(group)
    out = np.zeros(len(ratio), bool)
    out[order] = group == size.argmax() if size.max(initial=0) > max(2, len(ratio) // 10) else False
    return out


ATTACK = Attack("integers", ("individual",), "ours", with_bias, run)
