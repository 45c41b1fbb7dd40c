"""How long EASE takes where users are fewer than items."""

from __future__ import annotations

from typing import Any

import numpy as np

from entrenous.core.contract.protocols import Progress
from entrenous.core.keys import key
from entrenous.data.interactions import Interactions
from entrenous.data.synthetic import synthetic
from entrenous.systems.central.ease import Ease, EaseModel, _from_items

from .timing import cost, peak_rss_mb

USERS, ITEMS, ROWS = 2_000, 17_000, 200_000
LIMIT = 30.0  # seconds of one thread
SMALLER = 4  # the Gram matrix of all 17,000 items takes minutes: compared at a quarter of the shape


def ease_dual(threads: int, progress: Progress) -> dict[str, Any]:
    """EASE of 2,000 users x 17,000 items by the Gram matrix of users, against 30 s; and both forms
    at a quarter of the users and items, with the largest difference of a score (one thread).
    """
    ease = Ease()
    ease.fit(synthetic(users=30, items=60, interactions=300, seed=0), key(0))  # compiles
    data = synthetic(users=USERS, items=ITEMS, interactions=ROWS, seed=0)
    spent = cost(lambda: ease.fit(data, key(0), progress))
    few = synthetic(
        users=USERS // SMALLER, items=ITEMS // SMALLER, interactions=ROWS // SMALLER, seed=0
    )
    forms: list[EaseModel] = []
    dual = cost(lambda: forms.append(ease.fit(few, key(0))))
    primal = cost(lambda: forms.append(EaseModel(_from_items(few, ease.reg))))
    return {
        "users": USERS,
        "items": ITEMS,
        "seconds": spent.wall,
        "cpu_seconds": spent.cpu,
        "peak_rss_mb": peak_rss_mb(),
        "ratio": spent.cpu / LIMIT,
        "times_as_fast_as_primal": primal.cpu / dual.cpu,
        "largest_difference_of_scores": _difference(few, *forms),
        "against": f"the limit of {LIMIT:g} s (below 1 is better)",
    }


def _difference(data: Interactions, one: EaseModel, other: EaseModel) -> float:
    """The largest difference of a score between two models."""
    users = np.arange(len(data.users))
    scores = [Ease().score(model, data, users) for model in (one, other)]
    return float(np.abs(scores[0] - scores[1]).max())


BENCHES = {"ease": ease_dual}
