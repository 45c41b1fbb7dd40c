"""Similar items: those whose vectors in a trained model point in nearly the same direction."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.contract.declared import fields_of
from ..core.errors import InputError
from ..core.types import Array, Float64Array
from ..data.interactions import Interactions


def similarities(recommender: Any, train: Interactions, item: int, name: str) -> Float64Array:
    """The cosine of an item's vector with the vector of every item, float64 [items]. name: the
    algorithm's. Raises InputError for an algorithm without vectors of items, and for an item of
    which nothing was learnt.
    """
    vectors = _vectors(recommender, len(train.items), name)
    if not train.popularity[item]:
        raise InputError(
            "item",
            f"nothing was learnt of '{train.items[item]}'",
            expected="an item with a training row",
        )
    # A vector may be 0.
    lengths = np.maximum(np.linalg.norm(vectors, axis=1), np.finfo(np.float64).tiny)
    directions = vectors / lengths[:, None]
    cosines: Float64Array = directions @ directions[item]
    return cosines


def _vectors(recommender: Any, items: int, name: str) -> Array:
    """The vectors of all items, float64 [items, width]: the first array of the model, or of what
    all devices receive, that is declared to have some numbers for each item.
    """
    model = getattr(recommender, "model", getattr(recommender, "download", None))
    if model is not None:
        for field in fields_of(model.__class__, name, bare=True):
            sizes = field.axes.sizes
            if sizes[:1] == ("items",) and len(sizes) > 1:
                vectors: Array = getattr(model, field.name)
                return vectors.reshape(items, -1).astype(np.float64)
    raise InputError(
        "similar_items",
        f"{name} has no vectors of items that all users share",
        expected="an algorithm that learns them, such as ials or fcf",
    )
