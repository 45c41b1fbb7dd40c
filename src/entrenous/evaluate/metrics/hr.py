"""HR@n, the hit rate: whether at least one relevant item stands in the first n places (trec_eval
`success_n`).

With one relevant item per query, as in leave-one-out, it equals recall@n. Papers that call recall
"hit rate" for users with several test items (PEPPER: the share of a user's ten test items) get that
number here from a sampled protocol, where each held-out item is a query of its own and a user's
value is the mean of her queries.
"""

from __future__ import annotations

import numpy as np

from ...core.types import Float64Array
from ..metric_kinds import QueryMetric, Ranking


def hr(ranking: Ranking, n: int) -> Float64Array:
    """1 if the best relevant item has rank <= n, else 0, per query.

    >>> from entrenous.evaluate.metric_kinds import ranking_of
    >>> hr(ranking_of([[2, 4], [9]], candidates=10), 5)
    array([1., 0.])
    """
    return (ranking.total(ranking.within(n)) > 0).astype(np.float64)


METRICS = {"hr": QueryMetric(hr)}
