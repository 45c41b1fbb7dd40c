"""Two sums of the same people and one model, between which one of them got a new row: which item?

The onlooker knows who it is, and all older rows. Where devices send FCF's gradient (M. Ammad-ud-din
et al., arXiv:1901.09888), each item that could be the new one gives the vector of the user, and
with it what would have changed in the rows of all items; the log odds of an item are those of the
observed change under noise of two sums. Elsewhere the row that changed most is taken for the new
one, upwards in the bias where there is one. The popularity is the prior. Source: ours.
"""

from __future__ import annotations

import numpy as np

from entrenous.core.types import Array, BoolArray, Float32Array
from entrenous.federation.recorder import Seen

from ..claims import Attack, Claims
from ..side_knowledge import known_items
from ..transcript import Transcript
from ._fcf_cost import Terms, gradients, terms_of, vectors
from ._pairwise import pairwise
from ._rows_seen import declined, empty_tally, ranks_alone, sends
from ._sums_seen import changes, summed_items


def run(transcript: Transcript) -> Claims:
    """Ranks the items by which a history may have grown; claims none."""
    pairs = changes(transcript)
    known = known_items(transcript)
    if not pairs or known is None:
        return declined(transcript, "no two sums of one model and of the same people")
    tally = empty_tally(transcript)
    for user, seen in zip(transcript.model["changed/user"].tolist(), pairs, strict=True):
        if gradients(transcript):
            odds = _by_cost(transcript, seen, known[user])
        else:
            odds = _by_size(transcript, seen)
        tally.evidence[np.searchsorted(tally.users, user)] += odds
    rows = np.searchsorted(tally.users, np.unique(transcript.model["changed/user"]))
    # Of others nothing changed, so nothing is said of them.
    few = tally._replace(
        users=tally.users[rows], evidence=tally.evidence[rows], first=tally.first[rows]
    )
    return ranks_alone(transcript, few, f"{len(pairs)} pairs of sums")


def _by_size(transcript: Transcript, seen: Seen) -> Float32Array:
    """The change of the row of each item, in standard deviations: float32 [items]."""
    if pairwise(transcript):
        size = seen.sent["b"].astype(np.float64)
    else:
        vectors_of_items = summed_items(transcript, seen)
        if vectors_of_items is None:
            return np.zeros(transcript.items, np.float32)
        size = np.linalg.norm(vectors_of_items, axis=1)
    # Most rows did not change: what they have is noise.
    away = size - np.median(size)
    return (away / max(float(away.std()), 1e-9)).astype(np.float32)


def _by_cost(transcript: Transcript, seen: Seen, before: BoolArray) -> Float32Array:
    """The log odds of the observed change if each item were the new one, float32 [items]."""
    terms = terms_of(transcript, sums=2)
    y = seen.received["y"].astype(np.float32)
    shared = sends(transcript, "f")
    change = seen.sent["f"].sum(axis=0) if shared else seen.sent["own"]
    # Row i is the history that has item i on top; the last one is that of before.
    grown = np.concatenate([np.eye(len(y), dtype=bool), np.zeros((1, len(y)), bool)]) | before
    x = vectors(y, grown.astype(np.float32), terms)
    times = _times(x, y, grown, terms, shared)
    old = times[-1]
    # |s_n x_n^T - s_0 x_0^T|^2, all items together, and its product with the observed change.
    square = np.square(x).sum(axis=1)
    size = square * np.square(times).sum(axis=1) + square[-1] * float(old @ old)
    size -= 2 * (x @ x[-1]) * (times @ old)
    along = (times * (x @ change.T.astype(np.float32))).sum(axis=1)
    odds = (along - along[-1] - size / 2) / terms.noise
    return np.nan_to_num(odds[:-1]).astype(np.float32)


def _times(
    x: Float32Array, y: Float32Array, history: BoolArray, terms: Terms, shared: bool
) -> Float32Array:
    """The numbers that multiply x_n in what a device sends for each item, float32 [n, items]."""
    scores = x @ y.T
    own = np.where(history, terms.c - (terms.c - terms.w) * scores, 0)
    times: Array = own - terms.w * scores if shared else own
    return times.astype(np.float32)


def applies(transcript: Transcript) -> bool:
    """Checks whether two sums are of the same people, one of whom has a new row."""
    return bool(transcript.about["new_row"])


ATTACK = Attack("new-row", ("difference",), "ours", applies, run)
