"""Item coverage@n: how many different items stand in the lists of all users (FPL, section 5.4;
Adomavicius & Kwon 2012).

It is a count, not a share.
"""

from __future__ import annotations

import numpy as np

from ..metric_kinds import ListMetric, Lists


def item_coverage(lists: Lists, n: int) -> float:
    """The number of distinct items in the first n of all lists.

    >>> from entrenous.evaluate.metric_kinds import lists_of
    >>> item_coverage(lists_of([[0, 1], [0, 2]], popularity=[5, 4, 2, 1]), 2)      # items 0, 1, 2
    3.0
    """
    return float(np.count_nonzero(lists.counts(n)))


METRICS = {"item_coverage": ListMetric(item_coverage, better="higher")}
