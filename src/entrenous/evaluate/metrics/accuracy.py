"""Metrics of accuracy: how near the top of a ranking the relevant items stand, one value per query.

All but AUC look at the first n places and equal trec_eval's measures of that cutoff. The figure of
their examples, a query with relevant items in places 2 and 4:

    place      1  2  3  4  5
    relevant      x     x
"""

from __future__ import annotations

import numpy as np

from ...core.types import Float64Array
from ..metric_kinds import QueryMetric, Ranking


def hr(ranking: Ranking, n: int) -> Float64Array:
    """HR@n, the hit rate: 1 if at least one relevant item stands in the first n places, else 0
    (trec_eval `success_n`).

    With one relevant item per query, as in leave-one-out, it equals recall@n. Some papers call
    recall "hit rate" for users with several test items (PEPPER: the share of a user's ten test
    items). That number is HR of a sampled protocol here, where each held-out item is a query of its
    own and a user's value is the mean over their queries.

    >>> from entrenous.evaluate.metric_kinds import ranking_of
    >>> hr(ranking_of([[2, 4], [9]], candidates=10), 5)
    array([1., 0.])
    """
    hits = ranking.total(ranking.within(n))
    return (hits > 0).astype(np.float64)


def precision(ranking: Ranking, n: int) -> Float64Array:
    """Precision@n: the share of the n places that hold a relevant item, hits / n (trec_eval `P_n`).
    A shorter list is still divided by n.

    >>> from entrenous.evaluate.metric_kinds import ranking_of
    >>> precision(ranking_of([[2, 4], [9]], candidates=10), 5)      # 2/5, 0/5
    array([0.4, 0. ])
    """
    return ranking.total(ranking.within(n)) / n


def recall(ranking: Ranking, n: int) -> Float64Array:
    """Recall@n: the share of a query's relevant items that stand in the first n places,
    hits / relevant items (trec_eval `recall_n`). Relevant items that can never be listed count as
    missed.

    >>> from entrenous.evaluate.metric_kinds import ranking_of
    >>> recall(ranking_of([[2, 4, 7], [9]], candidates=10), 5).round(4)      # 2/3, 0/1
    array([0.6667, 0.    ])
    """
    return ranking.total(ranking.within(n)) / ranking.relevant


def f1(ranking: Ranking, n: int) -> Float64Array:
    """F1@n: the harmonic mean of precision@n and recall@n of each query (FPL, figure 2). Averaged
    over queries, it differs from the harmonic mean of the two averages.

    2 P R / (P + R) = 2 hits / (n + relevant items), and 0 without a hit.

    >>> from entrenous.evaluate.metric_kinds import ranking_of
    >>> f1(ranking_of([[2, 4, 7], [9]], candidates=10), 5)      # P 2/5, R 2/3: 2 * 2 / (5 + 3)
    array([0.5, 0. ])
    """
    hits = ranking.total(ranking.within(n))
    return 2 * hits / (n + ranking.relevant)


def ndcg(ranking: Ranking, n: int) -> Float64Array:
    """nDCG@n with binary relevance, DCG@n / ideal DCG@n (trec_eval `ndcg_cut_n`).

    DCG@n adds 1 / log2(rank + 1) over the relevant items in the first n places; the ideal DCG puts
    min(n, relevant) items first. Other libraries divide by the ideal of n places, or do not cut the
    ideal at n, which gives other numbers for the same list. With one relevant item it is
    1 / log2(rank + 1), which is NCF's and PEPPER's log 2 / log(p + 2) with p = rank - 1.

    >>> from entrenous.evaluate.metric_kinds import ranking_of
    >>> ndcg(ranking_of([[2, 4], [9]], candidates=10), 5).round(4)
    array([0.6509, 0.    ])

    By hand: DCG = 1/log2(3) + 1/log2(5) = 0.6309 + 0.4307, ideal = 1/log2(2) + 1/log2(3) = 1.6309.
    """
    gain = ranking.within(n) / np.log2(ranking.rank + 1)
    # The gain of a relevant item in place 1 .. n; the sum of the first r is the ideal for r items.
    gain_of_place = 1 / np.log2(np.arange(2, n + 2))
    ideal = np.concatenate([[0], np.cumsum(gain_of_place)])
    return ranking.total(gain) / ideal[np.minimum(ranking.relevant, n)]


def average_precision(ranking: Ranking, n: int) -> Float64Array:
    """MAP@n, average precision of the list cut at n: the sum of precision@rank over the hits in the
    first n places, divided by all relevant items, also those beyond n (trec_eval `map_cut_n`).

    >>> from entrenous.evaluate.metric_kinds import ranking_of
    >>> average_precision(ranking_of([[2, 4, 7], [9]], candidates=10), 5).round(4)
    array([0.3333, 0.    ])

    By hand: the precision at the hits is 1/2 and 2/4, of three relevant items: (1/2 + 2/4) / 3.
    """
    precision_at_hits = ranking.within(n) * ranking.position / ranking.rank
    return ranking.total(precision_at_hits) / ranking.relevant


def mrr(ranking: Ranking, n: int) -> Float64Array:
    """MRR@n: the reciprocal rank of the first relevant item, 0 if it stands below place n
    (trec_eval `recip_rank` of lists cut at n).

    >>> from entrenous.evaluate.metric_kinds import ranking_of
    >>> mrr(ranking_of([[2, 4], [9]], candidates=10), 5)
    array([0.5, 0. ])
    """
    # Ranks ascend within a query, so its first entry is the best one.
    first = ranking.ptr[:-1]
    return ranking.within(n)[first] / ranking.rank[first]


def auc(ranking: Ranking, n: int = 0) -> Float64Array:
    """AUC: the share of (relevant, other) pairs of items in the right order (Rendle et al. 2009,
    section 4.1). It has no cutoff.

    It is 1/2 where there is no other item to compare with. A relevant item that never competes
    stands behind all others.

    >>> from entrenous.evaluate.metric_kinds import ranking_of
    >>> auc(ranking_of([[2, 4], [1]], candidates=5))
    array([0.5, 1. ])

    By hand: of the three other items the relevant item in place 2 precedes two, that in place 4
    one: (2/3 + 1/3) / 2.
    """
    missed = ranking.missed()
    relevant_that_compete = ranking.total(~missed).astype(np.int64)
    others = ranking.candidates - relevant_that_compete
    # Of the rank - 1 items before a relevant one, position - 1 are relevant themselves.
    others_before = ranking.rank - ranking.position
    # A missed item stands behind all others.
    all_others = np.repeat(others, ranking.relevant)
    before = np.where(missed, all_others, others_before)
    pairs = np.maximum(others, 1) * ranking.relevant
    wrong = ranking.total(before) / pairs
    return np.where(others > 0, 1 - wrong, 0.5)


METRICS = {
    "auc": QueryMetric(auc, cutoff=False),
    "f1": QueryMetric(f1),
    "hr": QueryMetric(hr),
    "map": QueryMetric(average_precision),
    "mrr": QueryMetric(mrr),
    "ndcg": QueryMetric(ndcg),
    "precision": QueryMetric(precision),
    "recall": QueryMetric(recall),
}
