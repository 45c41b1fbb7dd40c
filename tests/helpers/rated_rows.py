"""Ratings that a model of biases and tastes can learn."""

from __future__ import annotations

import numpy as np

from entrenous.data.interactions import Interactions, Vocabulary, build


def rated(users: int = 60, items: int = 40, share: float | np.ndarray = 0.3) -> Interactions:
    """Ratings 1 to 5 with generous and strict users, good and bad items, and two tastes."""
    rng = np.random.default_rng(3)
    taste = np.outer(rng.choice([-1, 1], users), rng.choice([-1, 1], items))
    mean = 3.1 + rng.normal(0, 0.5, users)[:, None] + rng.normal(0, 0.5, items) + 0.8 * taste
    value = np.clip(np.rint(mean + rng.normal(0, 0.3, (users, items))), 1, 5)
    user, item = np.nonzero(rng.random((users, items)) < share)
    ids = {
        "users": Vocabulary(size=users, kind="user"),
        "items": Vocabulary(size=items, kind="item"),
    }
    return build(user, item, value=value[user, item], scale=(1, 5), **ids)
