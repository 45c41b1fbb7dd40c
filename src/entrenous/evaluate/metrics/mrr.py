"""MRR@n: the reciprocal rank of the first relevant item, 0 if it is below place n (trec_eval
`recip_rank` of lists cut at n).
"""

from __future__ import annotations

from ...core.types import Float64Array
from ..metric_kinds import QueryMetric, Ranking


def mrr(ranking: Ranking, n: int) -> Float64Array:
    """1 / rank of the best relevant item if that is <= n, else 0, per query.

    >>> from entrenous.evaluate.metric_kinds import ranking_of
    >>> mrr(ranking_of([[2, 4], [9]], candidates=10), 5)
    array([0.5, 0. ])
    """
    first = ranking.ptr[:-1]
    return ranking.within(n)[first] / ranking.rank[first]


METRICS = {"mrr": QueryMetric(mrr)}
