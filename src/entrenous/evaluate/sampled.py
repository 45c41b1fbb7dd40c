"""The sampled ranking: each held-out item against its own frozen candidates, as in the lineage of
NCF (He et al. 2017).

Sampled values are higher than full-ranking ones and need not order systems alike (Krichene & Rendle
2020), so both are reported.
"""

from __future__ import annotations

import numpy as np

from ..core.types import Float32Array, Int64Array
from ..data.split.types import Held
from ..kernels.arrays import ranks_among
from .full import CompetingItems
from .ranking import Ranking


def empty_sampled(held: Held) -> Ranking:
    """A Ranking with one query per held-out row, whose ranks are yet to be filled in."""
    m = len(held.rows)
    return Ranking(
        np.arange(m + 1),
        np.empty(m, np.int64),
        np.empty(m, np.int64),
        held.rows.user.astype(np.int64),
    )


def rank_block(
    ranking: Ranking, users: Int64Array, scores: Float32Array, field: CompetingItems, held: Held
) -> None:
    """Fill in the queries of `users` (ascending, every user with held-out rows in between
    included), whose scores are given.

    A candidate without a training row stands behind all others; a held-out item without one is
    missed.
    """
    assert held.candidates is not None
    counts = held.rows.counts[users]
    part = slice(int(held.rows.ptr[users[0]]), int(held.rows.ptr[users[-1] + 1]))
    row = np.repeat(np.arange(len(users)), counts)
    ranks_among(
        scores,
        row,
        held.rows.item[part],
        held.candidates[part],
        field.known,
        field.place,
        ranking.rank[part],
        ranking.candidates[part],
    )
