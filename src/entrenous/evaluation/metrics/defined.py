"""The metrics of the package, with their definitions and examples: accuracy of rankings, spread of
lists, errors of predicted ratings, and fairness between users.

Metrics of accuracy say how near the top of a ranking the relevant items stand, one value per query.
All but AUC look at the first n places and equal trec_eval's measures of that cutoff. The figure of
their examples, a query with relevant items in places 2 and 4:

    place      1  2  3  4  5
    relevant      x     x

Metrics of lists look at all users' lists together: how recommendations spread over the items and
categories. The catalogue is every item that can be recommended, mostly those with a training row.

Errors are those of predicted ratings, in units of the rating scale (FBALF, section 5.1.2).

    predicted  3.5  4.0  2.0        errors -0.5, 1.0, 0.0
    true       4.0  3.0  2.0        MAE (0.5 + 1.0 + 0.0) / 3, RMSE sqrt((0.25 + 1.0 + 0.0) / 3)

Fairness is the unevenness with which a system serves its users (Cali3F, definition 1), compared
with chance.

Definition 1 is the standard deviation over devices of NDCG@10; less is fairer. With one held-out
item per user a user's NDCG is 0 or 1 / log2(rank + 1), so the number is dominated by hit or miss:
it follows from the hit rate h and from the ranks of the hits, and says nothing about *who* is hit.
It must therefore be compared with the value that chance gives at the same hit rate.

Chance: nobody is favoured. Each held-out item comes into the top n with the same probability p,
whoever it belongs to, alone of all others, and those of one query that do lie at places drawn from
1..n. p is the one number at which the expected HR@n is the observed one. With one item per query p
= h, and with g = 1 / log2(place + 1) and G1, G2 the means of g and g^2 over the n places

    E NDCG = h G1,    E NDCG^2 = h G2,    variance of a user = h G2 - h^2 G1^2        (n = 10: G1 =
    0.4544, G2 = 0.2495)

times 1 - 1/m for the spread of m users around their own mean. (At h = 0.1 that is a std of 0.151,
at h = 0.6 of 0.275: a better model looks less fair, up to h = 0.60.) Where a query has r > 1
held-out items (full ranking), k = min(n, Binomial(r, p)) of them are in the top n, HR is
1 - (1 - p)^r, and the sum of k values of g without replacement has mean k G1 and variance
k (G2 - G1^2) (n - k) / (n - 1). Only HR is matched, not mean NDCG: where r differs much between
users and a system hits those with many, p is high, and the std may lie below that of chance. A
random order of the items has the std of chance, whatever r.

Places are uniform on purpose: drawn from the observed ranks of hits, chance would have the observed
std exactly whenever users have one item, and the comparison could not say anything. With one item
per user an observed std above chance means that hits stand nearer the top than evenly over 1..n;
whose they are does not change it. With several it can also mean that some users are served better
than others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ...core.types import Array, Float64Array, Int64Array
from ..metric_kinds import ListMetric, Lists, QueryMetric, Ranking, RatingMetric

# Halvings of the interval that holds p, down to less than the last digit of a float64.
HALVINGS = 60


# ---- accuracy of rankings ------------------------------------------------------------------------


def hr(ranking: Ranking, n: int) -> Float64Array:
    """HR@n, the hit rate: 1 if at least one relevant item stands in the first n places, else 0
    (trec_eval `success_n`).

    With one relevant item per query, as in leave-one-out, it equals recall@n. Some papers call
    recall "hit rate" for users with several test items (PEPPER: the share of a user's ten test
    items). That number is HR of a sampled protocol here, where each held-out item is a query of its
    own and a user's value is the mean over their queries.

    >>> from entrenous.evaluation.metric_kinds import ranking_of
    >>> hr(ranking_of([[2, 4], [9]], candidates=10), 5)
    array([1., 0.])
    """
    hits = ranking.total(ranking.within(n))
    return (hits > 0).astype(np.float64)


def precision(ranking: Ranking, n: int) -> Float64Array:
    """Precision@n: the share of the n places that hold a relevant item, hits / n (trec_eval `P_n`).
    A shorter list is still divided by n.

    >>> from entrenous.evaluation.metric_kinds import ranking_of
    >>> precision(ranking_of([[2, 4], [9]], candidates=10), 5)      # 2/5, 0/5
    array([0.4, 0. ])
    """
    return ranking.total(ranking.within(n)) / n


def recall(ranking: Ranking, n: int) -> Float64Array:
    """Recall@n: the share of a query's relevant items that stand in the first n places,
    hits / relevant items (trec_eval `recall_n`). Relevant items that can never be listed count as
    missed.

    >>> from entrenous.evaluation.metric_kinds import ranking_of
    >>> recall(ranking_of([[2, 4, 7], [9]], candidates=10), 5).round(4)      # 2/3, 0/1
    array([0.6667, 0.    ])
    """
    return ranking.total(ranking.within(n)) / ranking.relevant


def f1(ranking: Ranking, n: int) -> Float64Array:
    """F1@n: the harmonic mean of precision@n and recall@n of each query (FPL, figure 2). Averaged
    over queries, it differs from the harmonic mean of the two averages.

    2 P R / (P + R) = 2 hits / (n + relevant items), and 0 without a hit.

    >>> from entrenous.evaluation.metric_kinds import ranking_of
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

    >>> from entrenous.evaluation.metric_kinds import ranking_of
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

    >>> from entrenous.evaluation.metric_kinds import ranking_of
    >>> average_precision(ranking_of([[2, 4, 7], [9]], candidates=10), 5).round(4)
    array([0.3333, 0.    ])

    By hand: the precision at the hits is 1/2 and 2/4, of three relevant items: (1/2 + 2/4) / 3.
    """
    precision_at_hits = ranking.within(n) * ranking.position / ranking.rank
    return ranking.total(precision_at_hits) / ranking.relevant


def mrr(ranking: Ranking, n: int) -> Float64Array:
    """MRR@n: the reciprocal rank of the first relevant item, 0 if it stands below place n
    (trec_eval `recip_rank` of lists cut at n).

    >>> from entrenous.evaluation.metric_kinds import ranking_of
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

    >>> from entrenous.evaluation.metric_kinds import ranking_of
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


# ---- lists of all users --------------------------------------------------------------------------


def item_coverage(lists: Lists, n: int) -> float:
    """Item coverage@n: the number of distinct items in the first n of all lists, a count and not a
    share (FPL, section 5.4; Adomavicius & Kwon 2012).

    >>> from entrenous.evaluation.metric_kinds import lists_of
    >>> item_coverage(lists_of([[0, 1], [0, 2]], popularity=[5, 4, 2, 1]), 2)      # items 0, 1, 2
    3.0
    """
    return float(np.count_nonzero(lists.counts(n)))


def gini(lists: Lists, n: int) -> float:
    """Gini@n in FPL's sense: 1 - the Gini index of how recommendations spread over items, so higher
    is more equal (section 5.4; Castells et al. 2015).

    1 means that all items of the catalogue are recommended equally often, 0 that one item is
    recommended to everybody. Items that are never recommended count as zero. With the m items
    i_1 .. i_m by increasing share p of all recommendations it is

        1 - sum_j (2 j - m - 1) p(i_j) / (m - 1)

    >>> from entrenous.evaluation.metric_kinds import lists_of
    >>> gini(lists_of([[0], [1], [1]], popularity=[9, 9, 9, 0]), 1)
    0.33333333333333337

    By hand: shares 0, 1/3, 2/3 over m = 3 items: 1 - ((6 - 4) * 2/3 + (4 - 4) * 1/3) / 2 = 1 - 2/3.
    """
    # Items without training rows cannot be recommended, so they are no part of the inequality.
    counts = np.sort(lists.counts(n)[lists.known])
    recommended = int(counts.sum())
    m = lists.items
    if m < 2 or recommended == 0:
        return 1.0 if m == 1 else 0.0
    weight = 2 * np.arange(1, m + 1) - m - 1
    # A sum of whole numbers is exact, however many threads add it up.
    spread = int((weight * counts).sum())
    return 1 - spread / (recommended * (m - 1))


def bias_disparity(lists: Lists, n: int) -> dict[str, float] | None:
    """Bias disparity@n by item category: how far lists move away from the categories that people
    chose (FPL, eq. 10; Mansoury et al. 2019). None if the data has no categories.

    B(C) = (share of interactions with items of C) / (share of catalogue items in C), above 1 if
    people prefer the category. B_T is taken over training rows, B_R over recommendations, and
    BD(C) = (B_R - B_T) / B_T: 0 if the lists keep the bias, -1 if C is never recommended. An item
    may be in several categories. A category without a training row is left out, since B_T is 0.

    >>> from entrenous.evaluation.metric_kinds import lists_of
    >>> lists = lists_of([[0, 1], [0, 2]], popularity=[3, 2, 1, 2], category={"bar": [0, 1],
    ...     "park": [2, 3]})
    >>> source_bias(lists)                                # bar: (5/8) / (2/4), park: (3/8) / (2/4)
    {'bar': 1.25, 'park': 0.75}
    >>> {name: round(bd, 4) for name, bd in bias_disparity(lists, 2).items()}      # B_R 1.5 and 0.5
    {'bar': 0.2, 'park': -0.3333}
    """
    source = source_bias(lists)
    obtained = _bias(lists, lists.counts(n))
    if source is None or obtained is None:
        return None
    return {name: (obtained[name] - before) / before for name, before in source.items() if before}


def source_bias(lists: Lists) -> dict[str, float] | None:
    """B_T of every category (FPL, table 5); None if the data has no categories."""
    return _bias(lists, lists.popularity)


def _bias(lists: Lists, counts: Array) -> dict[str, float] | None:
    """B of every category by the interactions with each item, int64 [all items]."""
    if lists.category is None:
        return None
    items_of_category = lists.category[lists.known].sum(axis=0)
    catalogue = items_of_category / lists.items
    interactions = max(int(counts.sum()), 1)
    share = counts @ lists.category / interactions
    bias = {}
    for column, name in enumerate(lists.names):
        if catalogue[column] > 0:
            bias[name] = float(share[column] / catalogue[column])
    return bias


# ---- errors of predicted ratings -----------------------------------------------------------------


def mae(error: Float64Array, group: Int64Array) -> Float64Array:
    """MAE: the mean absolute error of each group (a user, or everybody), float64 [groups].

    group: int64 [n], the group of each error; no group is without one.

    >>> mae(np.array([-0.5, 1.0, 0.0]), np.array([0, 0, 1]))
    array([0.75, 0.  ])
    """
    total = np.bincount(group, np.abs(error))
    return total / np.bincount(group)


def rmse(error: Float64Array, group: Int64Array) -> Float64Array:
    """RMSE: the root of the mean squared error of each group (a user, or everybody), float64
    [groups]. Large errors weigh more than in MAE.

    group: int64 [n], the group of each error; no group is without one.

    >>> rmse(np.array([3.0, -4.0, 1.0]), np.array([0, 0, 1]))          # sqrt(1/2 * (9 + 16)), 1
    array([3.53553391, 1.        ])
    """
    total = np.bincount(group, error**2)
    return np.sqrt(total / np.bincount(group))


# ---- fairness between users ----------------------------------------------------------------------


class Fairness(NamedTuple):
    """The unevenness with which a system serves the evaluated users."""

    n: int
    """The length of the lists."""
    std_ndcg: float
    """The population standard deviation of NDCG@n over evaluated users; users without held-out rows
    do not count.
    """
    std_by_chance: float
    """The root of the expected variance at the same HR@n if nobody were favoured."""
    worst_hr: float
    """The mean over the worst tenth of the users (rounded up) by HR@n. With one held-out item per
    user it is 0 unless more than nine in ten are hit, and so is `worst_ndcg`.
    """
    worst_ndcg: float
    worst_auc: float
    """As `worst_hr` by AUC, which is continuous and tells systems apart."""
    std_hr: float
    """The population standard deviation of HR@n over users: with one held-out item per user
    sqrt(h (1 - h)) of the hit rate h.
    """

    def named(self) -> dict[str, float]:
        """The values by the names they have in a manifest: {"std_ndcg@10": ..., "std_by_chance":
        ..., "worst_decile_hr@10": ..., ...}.
        """
        return {
            f"std_ndcg@{self.n}": self.std_ndcg,
            "std_by_chance": self.std_by_chance,
            f"worst_decile_hr@{self.n}": self.worst_hr,
            f"worst_decile_ndcg@{self.n}": self.worst_ndcg,
            "worst_decile_auc": self.worst_auc,
            f"std_hr@{self.n}": self.std_hr,
        }


def fairness(per_user: Mapping[str, Float64Array], ranking: Ranking, n: int = 10) -> Fairness:
    """The `Fairness` of one evaluation. per_user: the metrics of each user, float64 [users] by
    name. ranking: the one that `per_user` was computed from.
    """
    of_hits = per_user[f"hr@{n}"]
    of_gains = per_user[f"ndcg@{n}"]
    return Fairness(
        n,
        std_ndcg=float(of_gains.std()),
        std_by_chance=std_by_chance(ranking, float(of_hits.mean()), n),
        worst_hr=worst_tenth(of_hits),
        worst_ndcg=worst_tenth(of_gains),
        worst_auc=worst_tenth(per_user["auc"]),
        std_hr=float(of_hits.std()),
    )


def worst_tenth(values: Float64Array) -> float:
    """The mean of the lowest tenth of float64 [m], ceil(m / 10) of them; which of equal users are
    taken does not matter.

    >>> # two of eleven: (1/4 + 1/2) / 2
    >>> worst_tenth(np.array([1.0, 0.5, 0.25, 1, 1, 1, 1, 1, 1, 1, 1]))
    0.375
    """
    users = math.ceil(len(values) / 10)
    worst = np.sort(values)[:users]
    return float(worst.mean())


def std_by_chance(ranking: Ranking, hit_rate: float, n: int = 10) -> float:
    """The root of the expected population variance of NDCG@n over users by chance at this HR@n (the
    mean over users).

    >>> from entrenous.evaluation.metric_kinds import ranking_of
    >>> alone = ranking_of([[1], [7]], candidates=9)
    >>> # a hit is 1, a miss 0: sqrt(1/4), of two users sqrt(1/2 * 1/4)
    >>> std_by_chance(alone, 0.5, n=1)
    0.3535533905932738
    """
    _, user, queries = np.unique(ranking.user, return_inverse=True, return_counts=True)
    users = len(queries)
    # Queries with equally many relevant items and places have the same moments.
    length = np.clip(ranking.candidates, 1, n)
    pairs = np.stack([ranking.relevant, length])
    kinds, kind = np.unique(pairs, axis=1, return_inverse=True)
    kind = kind.ravel()
    # Each user counts once, however many queries they have.
    share = np.bincount(kind, weights=1 / queries[user]) / users
    p = _probability(kinds[0], share, hit_rate)
    moments = np.array([_moments(int(relevant), int(places), n, p) for relevant, places in kinds.T])
    # A user's value is the mean over their queries, which are independent.
    mean = np.bincount(user, moments[kind, 0]) / queries
    variance = np.bincount(user, moments[kind, 1]) / queries**2
    # The population variance is the mean square less the square of the mean over users.
    mean_square = (variance + mean**2).mean()
    square_of_mean = mean.mean() ** 2 + variance.sum() / users**2
    # Rounding may leave a little less than nothing.
    expected = max(0.0, float(mean_square - square_of_mean))
    return math.sqrt(expected)


def _probability(relevant: Float64Array, share: Float64Array, hit_rate: float) -> float:
    """The p at which the sum of share (1 - (1 - p)^relevant) is the hit rate.

    The sum rises with p, so halving the interval finds it.
    """
    # Halving would only come near, and a std that is 0 would not be.
    if hit_rate in (0.0, 1.0):
        return hit_rate
    low = 0.0
    high = 1.0
    for _ in range(HALVINGS):
        p = (low + high) / 2
        hit = 1 - (1 - p) ** relevant
        if share @ hit < hit_rate:
            low = p
        else:
            high = p
    return (low + high) / 2


def _moments(relevant: int, places: int, n: int, p: float) -> tuple[float, float]:
    """The mean and the variance of the NDCG@n of a query whose relevant items are in the list with
    probability p, at any of `places`.
    """
    most = min(relevant, places)
    k = np.arange(most + 1)
    chance = binomial(relevant, p)
    # Where more come into the list than it has places, they fill it.
    chance[most] = chance[most:].sum()
    chance = chance[: most + 1]
    gain = _gains(places)
    # The sum of k gains drawn without replacement: its mean, and its variance.
    expected = k * gain.mean()
    spread = k * gain.var() * (places - k) / max(places - 1, 1)
    mean = float(chance @ expected)
    square = float(chance @ (expected**2 + spread))
    ideal = float(_gains(min(relevant, n)).sum())
    return mean / ideal, (square - mean**2) / ideal**2


def _gains(places: int) -> Float64Array:
    """The gain 1 / log2(place + 1) of a relevant item in each of the first places."""
    return 1 / np.log2(np.arange(2, places + 2))


def binomial(n: int, p: float) -> Float64Array:
    """The probabilities of 0, 1, .., n successes in n trials, float64 [n + 1].

    >>> binomial(2, 0.5).tolist()
    [0.25, 0.5, 0.25]
    """
    if p in (0.0, 1.0):
        certain = n if p else 0
        return np.eye(n + 1)[certain]
    # In logarithms, since the number of ways to choose k of n overflows.
    k = np.arange(1, n + 1)
    log_ratios = np.log((n + 1 - k) / k)
    log_ways = np.concatenate([[0.0], np.cumsum(log_ratios)])
    successes = np.arange(n + 1)
    return np.exp(log_ways + successes * math.log(p) + (n - successes) * math.log1p(-p))


METRICS = {
    "auc": QueryMetric(auc, cutoff=False),
    "f1": QueryMetric(f1, best=lambda relevant, n: 2 * min(relevant, n) / (relevant + n)),
    "hr": QueryMetric(hr),
    "map": QueryMetric(average_precision, best=lambda relevant, n: min(1, n / relevant)),
    "mrr": QueryMetric(mrr),
    "ndcg": QueryMetric(ndcg),
    "precision": QueryMetric(precision, best=lambda relevant, n: min(1, relevant / n)),
    "recall": QueryMetric(recall, best=lambda relevant, n: min(1, n / relevant)),
    "bias_disparity": ListMetric(bias_disparity),
    "gini": ListMetric(gini, better="higher"),
    "item_coverage": ListMetric(item_coverage, better="higher"),
    "mae": RatingMetric(mae),
    "rmse": RatingMetric(rmse),
}
