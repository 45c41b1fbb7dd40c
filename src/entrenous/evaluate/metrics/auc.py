"""AUC: how often a relevant item stands before an item that is not relevant (Rendle et al. 2009,
section 4.1). It has no cutoff.

place      1  2  3  4  5        three others; the first relevant item precedes 2 of 3, the second 1
of 3: 1/2 * (2/3 + 1/3) relevant      x     x"""

from __future__ import annotations

import numpy as np

from ...core.types import Float64Array
from ..metric_kinds import QueryMetric, Ranking


def auc(ranking: Ranking, n: int = 0) -> Float64Array:
    """The share of (relevant, other) pairs in the right order, per query; 1/2 where there is no
    other item to compare with. A relevant item that never competes stands behind all others.

    >>> from entrenous.evaluate.metric_kinds import ranking_of
    >>> auc(ranking_of([[2, 4], [1]], candidates=5))
    array([0.5, 1. ])
    """
    missed = ranking.missed()
    others = ranking.candidates - ranking.total(~missed).astype(np.int64)
    before = np.where(missed, np.repeat(others, ranking.relevant), ranking.rank - ranking.position)
    wrong = ranking.total(before) / (np.maximum(others, 1) * ranking.relevant)
    return np.where(others > 0, 1 - wrong, 0.5)


METRICS = {"auc": QueryMetric(auc, cutoff=False)}
