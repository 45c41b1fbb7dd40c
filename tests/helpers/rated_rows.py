"""Ratings that a model of biases and tastes can learn."""

from __future__ import annotations

from typing import Any

import numpy as np

from entrenous.data.interactions import Interactions, Vocabulary, build

# Settings with which FBALF-Bayes learns such ratings in a moment.
SMALL_BAYES: dict[str, Any] = {
    "factors": 3,
    "members": 2,
    "rounds": 12,
    "local_iterations": 5,
    "rho": 1.0,
    "threshold": 4,
    "redraw": False,
    "start": "middle",
    "user_bias": True,
    "item_bias": True,
    "noise": 0.5,
    "reg_user": 0.7,
    "reg_item": 5.0,
    "reg_user_bias": 1.5,
    "reg_item_bias": 1.0,
    "learning_rate": 0.5,
    "momentum": 0.5,
    "early_rate": 0.2,
    "damping": 3.0,
    "cohort": 0,
    "init_std": 0.1,
}


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
