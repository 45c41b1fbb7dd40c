"""`random`: recommends at random, which any recommender must beat."""

from __future__ import annotations

from typing import ClassVar, NamedTuple, final

import numpy as np

from ...core.compiling import njit
from ...core.contract.protocols import Progress, silent
from ...core.contract.settings import Settings
from ...core.keys import draw, fold, uniform
from ...core.types import Array, Float32Array, Int64Array
from ...data.interactions import Interactions


class RandomModel(NamedTuple):
    """The state of random recommendation."""

    key: Array
    """uint64 [], the key of the draws."""


@final
class Random(Settings):
    """Random recommendation: an independent uniform score for every (user, item), drawn from the
    key (FPL, table 2, "Random").

    Reads only the shape of the data.
    """

    holds: ClassVar[type] = RandomModel

    def fit(self, data: Interactions, key: np.uint64, progress: Progress = silent) -> RandomModel:
        return RandomModel(np.asarray(key, np.uint64))

    def fold_in(self, model: RandomModel, data: Interactions) -> RandomModel:
        """Returns the model for users who were not in training: the same."""
        return model

    def score(self, model: RandomModel, data: Interactions, users: Int64Array) -> Float32Array:
        who = np.asarray(users, np.int64)
        return uniforms(np.uint64(model.key), who, len(data.items))


@njit(cache=True, nogil=True)
def uniforms(key: np.uint64, users: Int64Array, items: int) -> Float32Array:
    """Returns uniform numbers in [0, 1), float32 [len(users), items]: draw `item` of the user's
    key.
    """
    out = np.empty((len(users), items), np.float32)
    for r in range(len(users)):
        # A user's scores do not depend on who else is asked for.
        user_key = fold(key, users[r])
        for i in range(items):
            out[r, i] = np.float32(uniform(draw(user_key, i)))
    return out


ALGORITHMS = {"random": Random}
