"""Bias disparity@n by item category (FPL, eq. 10; Mansoury et al. 2019): how far lists move away
from what people chose.

B(C) = (share of interactions with items of C) / (share of catalogue items in C): above 1 if people
prefer the category. B_T is taken over training rows, B_R over recommendations; BD(C) = (B_R - B_T)
/ B_T: 0 if the lists keep the bias, -1 if C is never recommended. The catalogue is every item that
competes, mostly those with a training row. An item may be in several categories; a category without
a training row is left out: B_T is 0.
"""

from __future__ import annotations

from ...core.types import Array
from ..metric_kinds import ListMetric, Lists


def bias_disparity(lists: Lists, n: int) -> dict[str, float] | None:
    """BD of every category; None if the data has no categories.

    >>> from entrenous.evaluate.metric_kinds import lists_of
    >>> lists = lists_of([[0, 1], [0, 2]], popularity=[3, 2, 1, 2], category={"bar": [0, 1],
    ...     "park": [2, 3]})
    >>> source_bias(lists)                                # bar: (5/8) / (2/4), park: (3/8) / (2/4)
    {'bar': 1.25, 'park': 0.75}
    >>> {name: round(bd, 4) for name, bd in bias_disparity(lists, 2).items()}      # B_R 1.5 and 0.5
    {'bar': 0.2, 'park': -0.3333}
    """
    source, obtained = source_bias(lists), _bias(lists, lists.counts(n))
    if source is None or obtained is None:
        return None
    return {name: (obtained[name] - before) / before for name, before in source.items() if before}


def source_bias(lists: Lists) -> dict[str, float] | None:
    """B_T of every category (FPL, table 5); None if the data has no categories."""
    return _bias(lists, lists.popularity)


def _bias(lists: Lists, counts: Array) -> dict[str, float] | None:
    if lists.category is None:
        return None
    catalogue = lists.category[lists.known].sum(axis=0) / lists.items
    share = counts @ lists.category / max(int(counts.sum()), 1)
    return {
        name: float(share[c] / catalogue[c])
        for c, name in enumerate(lists.names)
        if catalogue[c] > 0
    }


METRICS = {"bias_disparity": ListMetric(bias_disparity)}
