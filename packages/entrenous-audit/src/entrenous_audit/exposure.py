"""ER@K, the exposure of a promoted item: the share of users with the item among their top K, of
those who have not consumed it.
"""

from __future__ import annotations

import numpy as np

from entrenous.core.contract.protocols import Scorer
from entrenous.data.interactions import Interactions

from .measures import histories_of

BLOCK = 1024  # users scored at once


def exposure(recommender: Scorer, train: Interactions, target: int, k: int = 10) -> float:
    """ER@k of one item (FedRecAttack, section V-A): the share of users without it in `train` for
    whom fewer than k of the items that they do not have score higher. An item that nobody has does
    not compete, since it is never recommended.
    """
    without = np.ones(len(train.users), np.bool_)
    without[train.user[train.item == target]] = False
    users = np.flatnonzero(without)
    nobodys = train.popularity == 0
    hits = 0
    for low in range(0, len(users), BLOCK):
        some = users[low : low + BLOCK]
        scores = recommender.scores(some).astype(np.float64)
        scores[histories_of(train, some)] = -np.inf
        scores[:, nobodys] = -np.inf
        above = (scores > scores[:, [target]]).sum(axis=1)
        hits += int((above < k).sum())
    return hits / max(1, len(users))
