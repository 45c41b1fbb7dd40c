"""`user-knn`: recommends the items that the most similar users consumed."""

from __future__ import annotations

from typing import ClassVar, final

import numpy as np
from pydantic import Field

from ...core.compiling import njit
from ...core.contract.protocols import Progress, silent
from ...core.contract.settings import Settings
from ...core.types import Float32Array, Int32Array, Int64Array
from ...data.interactions import Interactions
from ._neighbours import Neighbours, NeighbourTable, nearest


@final
class UserKnn(Settings):
    """User-kNN for implicit feedback with cosine similarity (Resnick et al. 1994; FPL, table 2,
    "User-kNN").

    The score of item i for user u is the sum of the similarities of those of u's k nearest users
    who consumed i. MyMediaLite and Elliot divide it by the sum of all k similarities, which is one
    number per user and changes no ranking. Every row counts as consumed, whatever its value.
    """

    k: int = Field(30, ge=1, description="nearest users who vote")

    def search_space(self) -> dict[str, str]:
        """Returns the ranges that a search of settings draws from by default."""
        return {"k": "5..300:log"}

    holds: ClassVar[type] = Neighbours

    def fit(self, data: Interactions, key: np.uint64, progress: Progress = silent) -> Neighbours:
        return nearest(NeighbourTable(data.ptr, data.item), len(data.items), self.k, progress)

    def score(self, model: Neighbours, data: Interactions, users: Int64Array) -> Float32Array:
        who = np.asarray(users, np.int64)
        return votes(model, data.ptr, data.item, who, len(data.items))


@njit(cache=True, nogil=True)
def votes(
    near: Neighbours, ptr: Int64Array, item: Int32Array, users: Int64Array, items: int
) -> Float32Array:
    """Returns out[u, i] = sum of similarity(u, v) over the neighbours v who consumed i, float32
    [len(users), items].
    """
    near_ptr = near.ptr
    neighbour = near.other
    similarity = near.similarity
    out = np.zeros((len(users), items), np.float32)
    for r in range(len(users)):
        for at in range(near_ptr[users[r]], near_ptr[users[r] + 1]):
            # what this neighbour consumed
            v = neighbour[at]
            for i in item[ptr[v] : ptr[v + 1]]:
                out[r, i] += similarity[at]
    return out


ALGORITHMS = {"user-knn": UserKnn}
