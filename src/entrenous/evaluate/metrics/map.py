"""MAP@n: average precision of the list cut at n (trec_eval `map_cut_n`): divided by all relevant
items, also those beyond n.

place      1  2  3  4  5        precision at the hits: 1/2 and 2/4; three relevant items: 1/3 * (1/2
+ 2/4) = 1/3 relevant      x     x   (and one more, not listed)"""

from __future__ import annotations

from ...core.types import Float64Array
from ..metric_kinds import QueryMetric, Ranking


def average_precision(ranking: Ranking, n: int) -> Float64Array:
    """The sum of precision@rank over the hits in the first n / relevant items, per query.

    >>> from entrenous.evaluate.metric_kinds import ranking_of
    >>> average_precision(ranking_of([[2, 4, 7], [9]], candidates=10), 5).round(4)
    array([0.3333, 0.    ])
    """
    return ranking.total(ranking.within(n) * ranking.position / ranking.rank) / ranking.relevant


METRICS = {"map": QueryMetric(average_precision)}
