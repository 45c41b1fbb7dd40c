"""F1@n: the harmonic mean of precision@n and recall@n of each query, averaged over queries (FPL,
figure 2).

It is not the harmonic mean of the two averages, which is a different number.
"""

from __future__ import annotations

from ...core.types import Float64Array
from ..metric_kinds import QueryMetric, Ranking


def f1(ranking: Ranking, n: int) -> Float64Array:
    """2 P R / (P + R) = 2 hits / (n + relevant items), per query; 0 without a hit.

    >>> from entrenous.evaluate.metric_kinds import ranking_of
    >>> f1(ranking_of([[2, 4, 7], [9]], candidates=10), 5)      # P 2/5, R 2/3: 2 * 2 / (5 + 3)
    array([0.5, 0. ])
    """
    return 2 * ranking.total(ranking.within(n)) / (n + ranking.relevant)


METRICS = {"f1": QueryMetric(f1)}
