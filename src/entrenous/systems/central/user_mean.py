"""`user-mean`: predicts every rating of a user with the mean of the user's own ratings.

It learns nothing of taste. A rating predictor that is not clearly better has learnt little more
than who rates generously.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple, final

import numpy as np

from ...core.contract.declarations import Traits
from ...core.contract.protocols import Progress, rated, silent
from ...core.contract.settings import Settings
from ...core.types import Float32Array, Int64Array
from ...data.interactions import Interactions


class UserMeanModel(NamedTuple):
    """The mean rating of every user."""

    means: Float32Array
    """float32 [users]; the mean of all ratings for a user without any."""


@final
class UserMean(Settings):
    """User's mean: the same prediction for all items, the mean of the user's training ratings."""

    holds: ClassVar[type] = UserMeanModel
    traits: ClassVar[Traits] = Traits(predicts_ratings=True)

    def fit(self, data: Interactions, key: np.uint64, progress: Progress = silent) -> UserMeanModel:
        rated(data.rating_scale, "user-mean")
        ratings = data.value.astype(np.float64)
        total = np.bincount(data.user, ratings, minlength=len(data.users))
        counts = data.counts
        means = np.full(len(data.users), ratings.mean())
        known = counts > 0
        means[known] = total[known] / counts[known]
        return UserMeanModel(means.astype(np.float32))

    def score(self, model: UserMeanModel, data: Interactions, users: Int64Array) -> Float32Array:
        means = model.means[users][:, None]
        return np.repeat(means, len(data.items), axis=1)


ALGORITHMS = {"user-mean": UserMean}
