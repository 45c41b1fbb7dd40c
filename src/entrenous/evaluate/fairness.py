"""Fairness: the unevenness with which a system serves its users (Cali3F, definition 1), compared
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
from typing import NamedTuple

import numpy as np

from ..core.types import Float64Array
from .metric_kinds import Ranking
from .protocol import PerUser

# Halvings of the interval that holds p, down to less than the last digit of a float64.
HALVINGS = 60


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


def fairness(per_user: PerUser, ranking: Ranking, n: int = 10) -> Fairness:
    """The `Fairness` of one evaluation. ranking: the one that `per_user` was computed from."""
    hr = per_user[f"hr@{n}"]
    ndcg = per_user[f"ndcg@{n}"]
    return Fairness(
        n,
        std_ndcg=float(ndcg.std()),
        std_by_chance=std_by_chance(ranking, float(hr.mean()), n),
        worst_hr=worst_tenth(hr),
        worst_ndcg=worst_tenth(ndcg),
        worst_auc=worst_tenth(per_user["auc"]),
        std_hr=float(hr.std()),
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

    >>> from entrenous.evaluate.metric_kinds import ranking_of
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
