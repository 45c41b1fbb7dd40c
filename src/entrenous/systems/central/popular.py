"""`popular`: recommends the same list to everybody, most consumed first."""

from __future__ import annotations

from typing import ClassVar, NamedTuple, final

import numpy as np

from ...core.contract.protocols import Progress, silent
from ...core.contract.settings import Settings
from ...core.types import Float32Array, Int64Array
from ...data.interactions import Interactions


class PopularModel(NamedTuple):
    """A trained list of items by popularity."""

    popularity: Int64Array
    """int64 [items], how many users consumed the item."""


@final
class Popular(Settings):
    """Most popular: an item's score is the number of users who consumed it (FPL, table 2,
    "Top-Pop").

    Every row counts as consumed.
    """

    holds: ClassVar[type] = PopularModel

    def fit(self, data: Interactions, key: np.uint64, progress: Progress = silent) -> PopularModel:
        return PopularModel(data.popularity)

    def fold_in(self, model: PopularModel, data: Interactions) -> PopularModel:
        """Returns the model for users who were not in training: the same."""
        return model

    def score(self, model: PopularModel, data: Interactions, users: Int64Array) -> Float32Array:
        return np.tile(model.popularity.astype(np.float32), (len(users), 1))


ALGORITHMS = {"popular": Popular}
