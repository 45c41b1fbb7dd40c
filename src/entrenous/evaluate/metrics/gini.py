"""Gini@n in FPL's sense (section 5.4; Castells et al. 2015): 1 - the Gini index of how
recommendations spread over items.

1 means that all items of the catalogue are recommended equally often, 0 that one item is
recommended to everybody: **higher is more equal**. The catalogue is every item with a training row;
items that are never recommended count as zero.
"""

from __future__ import annotations

import numpy as np

from ..metric_kinds import ListMetric, Lists


def gini(lists: Lists, n: int) -> float:
    """1 - sum_j (2 j - m - 1) p(i_j) / (m - 1), items i_1 .. i_m by increasing share p of all
    recommendations.

    >>> from entrenous.evaluate.metric_kinds import lists_of
    >>> gini(lists_of([[0], [1], [1]], popularity=[9, 9, 9, 0]), 1)
    0.33333333333333337

    By hand: shares 0, 1/3, 2/3 over m = 3 items: 1 - ((6 - 4) * 2/3 + (4 - 4) * 1/3) / 2 = 1 - 2/3.
    """
    counts, m = np.sort(lists.counts(n)[lists.known]), lists.items
    if m < 2 or counts.sum() == 0:
        return 1.0 if m == 1 else 0.0
    weight = 2 * np.arange(1, m + 1) - m - 1
    spread = int((weight * counts).sum())  # of whole numbers: exact, however many threads sum it
    return 1 - spread / (int(counts.sum()) * (m - 1))


METRICS = {"gini": ListMetric(gini, better="higher")}
