"""Predict: the ratings of one user for some items, and their parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from ..core.contract.declared import predicts_ratings
from ..core.errors import InputError
from ..core.types import Float32Array, Int64Array
from ..data.interactions import Interactions
from .recommend import scores_of_one, title_of


class RatingRecommender(Protocol):
    """A trained algorithm that may know the parts of a rating."""

    @property
    def algorithm(self) -> Any: ...
    def scores(self, users: Int64Array) -> Float32Array: ...
    def biases(self, users: Int64Array) -> tuple[Float32Array, Float32Array] | None: ...


def predictions(
    recommender: RatingRecommender,
    train: Interactions,
    user: str,
    items: Sequence[str],
    *,
    label: str,
) -> list[dict[str, Any]]:
    """Predicted ratings of a user for some items, by external ids, clipped to the scale of the
    data.

    Returns [{"item", "title", "prediction", "unclipped", "user_bias", "item_bias", "interaction",
    "rated"}]. `unclipped` is the sum of `user_bias`, `item_bias` and `interaction`, which are None
    where the algorithm does not tell them apart. `rated` is the rating in the training rows, or
    None. Raises InputError for an unknown id, with the nearest known one, and for an algorithm that
    does not predict ratings.
    """
    if not predicts_ratings(recommender.algorithm):
        fix = (
            "use entrenous recommend, or a run of an algorithm that predicts ratings, such as fbalf"
        )
        raise InputError(
            "entrenous predict", f"{label} ranks items, it does not predict ratings", fix=fix
        )
    u = train.users.index(user)
    # Unknown items are refused before anything is computed.
    indices = [train.items.index(item) for item in items]
    scores = scores_of_one(recommender, train, u, label)
    biases = recommender.biases(np.array([u]))
    low, high = train.rating_scale
    rows = slice(*train.ptr[u : u + 2])
    rated = dict(zip(train.item[rows].tolist(), train.value[rows].tolist(), strict=True))
    predicted = []
    for item in indices:
        score = float(scores[item])
        row: dict[str, Any] = {
            "item": train.items[item],
            "title": title_of(train, item),
            "prediction": min(max(score, low), high),
            "unclipped": score,
            "user_bias": None,
            "item_bias": None,
            "interaction": None,
            "rated": rated.get(item),
        }
        if biases is not None:
            of_users, of_items = biases
            row["user_bias"] = float(of_users[0])
            row["item_bias"] = float(of_items[item])
            row["interaction"] = score - row["user_bias"] - row["item_bias"]
        predicted.append(row)
    return predicted
