"""nDCG@n with binary relevance, trec_eval's `ndcg_cut_n`.

DCG@n adds 1 / log2(rank + 1) over the relevant items in the first n places; the ideal DCG puts
min(n, relevant) items first. (Other libraries divide by the ideal of n places, or do not cut the
ideal at n: different numbers for the same list.) With one relevant item it is 1 / log2(rank + 1),
which is NCF's and PEPPER's log 2 / log(p + 2) with p = rank - 1.

    place      1  2  3  4  5        DCG = 1/log2(3) + 1/log2(5) = 0.6309 + 0.4307
    relevant      x     x           ideal = 1/log2(2) + 1/log2(3) = 1 + 0.6309;  nDCG = 0.6509
"""

from __future__ import annotations

import numpy as np

from ...core.types import Float64Array
from ..metric_kinds import QueryMetric, Ranking


def ndcg(ranking: Ranking, n: int) -> Float64Array:
    """DCG@n / ideal DCG@n, per query.

    >>> from entrenous.evaluate.metric_kinds import ranking_of
    >>> ndcg(ranking_of([[2, 4], [9]], candidates=10), 5).round(4)
    array([0.6509, 0.    ])
    """
    gain = ranking.within(n) / np.log2(ranking.rank + 1)
    ideal = np.concatenate([[0], np.cumsum(1 / np.log2(np.arange(2, n + 2)))])
    return ranking.total(gain) / ideal[np.minimum(ranking.relevant, n)]


METRICS = {"ndcg": QueryMetric(ndcg)}
