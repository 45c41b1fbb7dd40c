"""Recall@n: the share of a query's relevant items that stand in the first n places (trec_eval
`recall_n`).

place      1  2  3  4  5  6  7     of three relevant items two are in the first five places: 2/3
relevant      x     x        x
"""

from __future__ import annotations

from ...core.types import Float64Array
from ..metric_kinds import QueryMetric, Ranking


def recall(ranking: Ranking, n: int) -> Float64Array:
    """hits in the first n / relevant items, per query. Relevant items that can never be listed
    count as missed.

    >>> from entrenous.evaluate.metric_kinds import ranking_of
    >>> recall(ranking_of([[2, 4, 7], [9]], candidates=10), 5).round(4)      # 2/3, 0/1
    array([0.6667, 0.    ])
    """
    return ranking.total(ranking.within(n)) / ranking.relevant


METRICS = {"recall": QueryMetric(recall)}
