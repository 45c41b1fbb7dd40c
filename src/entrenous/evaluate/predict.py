"""Predict: the ratings of one user for some items, and what they are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from ..core.contract.declared import predicts_ratings
from ..core.errors import InputError
from ..core.types import Float32Array, Int64Array
from ..data.interactions import Interactions
from .recommend import score_blocks, title_of


class RatingRecommender(Protocol):
    """A trained algorithm that may tell the parts of a rating apart."""

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

    [{"item", "title", "prediction", "unclipped", "user_bias", "item_bias", "interaction",
    "rated"}]: `unclipped` is the sum of the three before the last, which are None where the
    algorithm does not tell them apart; `rated`: the rating in the training rows, or None. Raises
    InputError for an unknown id, with the nearest known one, and for an algorithm that does not
    predict ratings.
    """
    if not predicts_ratings(recommender.algorithm):
        fix = (
            "use entrenous recommend, or a run of an algorithm that predicts ratings, such as fbalf"
        )
        raise InputError(
            "entrenous predict", f"{label} ranks items, it does not predict ratings", fix=fix
        )
    who, which = train.users.index(user), [train.items.index(item) for item in items]
    one, (low, high) = np.array([who]), train.rating_scale
    _, (scores,) = next(score_blocks(recommender, train.users, len(train.items), one, label=label))
    parts = recommender.biases(one)
    own = slice(*train.ptr[who : who + 2])
    rated = dict(zip(train.item[own].tolist(), train.value[own].tolist(), strict=True))

    def told(item: int) -> dict[str, Any]:
        score = float(scores[item])
        user_bias, item_bias = (
            (None, None) if parts is None else (float(parts[0][0]), float(parts[1][item]))
        )
        rest = None if user_bias is None or item_bias is None else score - user_bias - item_bias
        return {
            "item": train.items[item],
            "title": title_of(train, item),
            "prediction": min(max(score, low), high),
            "unclipped": score,
            "user_bias": user_bias,
            "item_bias": item_bias,
            "interaction": rest,
            "rated": rated.get(item),
        }

    return [told(item) for item in which]
