"""Metrics of all users' lists together: how recommendations spread over the items and categories.

The catalogue is every item that can be recommended, mostly those with a training row.
"""

from __future__ import annotations

import numpy as np

from ...core.types import Array
from ..metric_kinds import ListMetric, Lists


def item_coverage(lists: Lists, n: int) -> float:
    """Item coverage@n: the number of distinct items in the first n of all lists, a count and not a
    share (FPL, section 5.4; Adomavicius & Kwon 2012).

    >>> from entrenous.evaluate.metric_kinds import lists_of
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

    >>> from entrenous.evaluate.metric_kinds import lists_of
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

    >>> from entrenous.evaluate.metric_kinds import lists_of
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


METRICS = {
    "bias_disparity": ListMetric(bias_disparity),
    "gini": ListMetric(gini, better="higher"),
    "item_coverage": ListMetric(item_coverage, better="higher"),
}
