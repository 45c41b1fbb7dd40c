"""Precision@n: the share of the n places that hold a relevant item (trec_eval `P_n`); a shorter
list is still divided by n.

place      1  2  3  4  5        two hits in the first five places: 2/5
relevant      x     x
"""

from __future__ import annotations

from ...core.types import Float64Array
from ..metric_kinds import QueryMetric, Ranking


def precision(ranking: Ranking, n: int) -> Float64Array:
    """hits in the first n / n, per query.

    >>> from entrenous.evaluate.metric_kinds import ranking_of
    >>> precision(ranking_of([[2, 4], [9]], candidates=10), 5)      # 2/5, 0/5
    array([0.4, 0. ])
    """
    return ranking.total(ranking.within(n)) / n


METRICS = {"precision": QueryMetric(precision)}
