"""`item-knn`: recommends the items that are most similar to the user's own."""

from __future__ import annotations

from typing import ClassVar, final

import numpy as np
from pydantic import Field

from ...core.compiling import njit
from ...core.contract.protocols import Progress, silent
from ...core.contract.settings import Settings
from ...core.types import Float32Array, Int32Array, Int64Array
from ...data.interactions import Interactions
from ._neighbours import Neighbours, NeighbourTable, nearest, reverse, transpose


@final
class ItemKnn(Settings):
    """Item-kNN for implicit feedback with cosine similarity (Linden et al. 2003; FPL, table 2,
    "Item-kNN").

    The score of item i for user u is the sum of the similarities of those of i's k nearest items
    that u consumed; with `normalise` it is divided by the sum of all k similarities (MyMediaLite,
    Elliot), which favours items with weak neighbours. Every row counts as consumed, whatever its
    value.
    """

    k: int = Field(50, ge=1, description="nearest items that an item's score is made of")
    normalise: bool = Field(
        False, description="divide by the sum of the item's k similarities (MyMediaLite, Elliot)"
    )

    def search_space(self) -> dict[str, str]:
        """Returns the ranges that a search of settings draws from by default."""
        return {"k": "10..300:log"}

    holds: ClassVar[type] = Neighbours

    def fit(self, data: Interactions, key: np.uint64, progress: Progress = silent) -> Neighbours:
        """Returns the k nearest items of each item, as links from a consumed item to the items
        whose score it raises.
        """
        # Items as rows, whose ones are their users.
        by_item = transpose(NeighbourTable(data.ptr, data.item), len(data.items))
        near = nearest(by_item, len(data.users), self.k, progress)
        return reverse(normalised(near) if self.normalise else near)

    def fold_in(self, model: Neighbours, data: Interactions) -> Neighbours:
        """Returns the model for users who were not in training: the same."""
        return model

    def score(self, model: Neighbours, data: Interactions, users: Int64Array) -> Float32Array:
        return votes(model, data.ptr, data.item, np.asarray(users, np.int64))


def normalised(near: Neighbours) -> Neighbours:
    """Returns the links with similarities that sum to 1 in each row."""
    rows = len(near.ptr) - 1
    row = np.repeat(np.arange(rows), np.diff(near.ptr))
    total = np.bincount(row, weights=near.similarity, minlength=rows)
    share = near.similarity / total[row]
    return near._replace(similarity=share.astype(np.float32))


@njit(cache=True, nogil=True)
def votes(links: Neighbours, ptr: Int64Array, item: Int32Array, users: Int64Array) -> Float32Array:
    """Returns out[u, i] = sum of similarity(i, j) over the consumed j among i's neighbours, float32
    [len(users), items].
    """
    link_ptr = links.ptr
    target = links.other
    similarity = links.similarity
    out = np.zeros((len(users), len(link_ptr) - 1), np.float32)
    for r in range(len(users)):
        for j in item[ptr[users[r]] : ptr[users[r] + 1]]:
            for at in range(link_ptr[j], link_ptr[j + 1]):
                out[r, target[at]] += similarity[at]
    return out


ALGORITHMS = {"item-knn": ItemKnn}
