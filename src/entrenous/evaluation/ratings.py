"""Predicted ratings compared with the true ones: MAE and RMSE over all held-out rows, and for each
user.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..core.contract.protocols import Scorer
from ..core.contract.protocols import rated as rated_on
from ..core.errors import InputError
from ..core.types import Float32Array, Float64Array, Int64Array
from ..data.interactions import Interactions
from .metric_kinds import RatingMetric, metrics
from .recommend import score_blocks

# The metrics of a system that predicts ratings, in the order of FBALF's tables.
ERRORS = ("mae", "rmse")


class Ratings(NamedTuple):
    """Predicted ratings of held-out rows, and their errors."""

    metrics: dict[str, float]
    """Metrics by name over all rows: each row counts once, as in FBALF's equations for MAE and
    RMSE.
    """
    per_user: dict[str, Float64Array]
    """The same metrics over the rows of each user, float64 [m]."""
    user: Int64Array
    """int64 [m]: the users with held-out rows, ascending."""
    predicted: Float32Array
    """float32 [rows], clipped to the scale."""


def rate(recommender: Scorer, rows: Interactions, *, label: str) -> Ratings:
    """Predicts the ratings of all held-out rows, also of items without a training row.

    label: the algorithm's name, for errors.

    Raises NonFiniteError for a prediction that is NaN or infinite; InputError if there is nothing
    to predict.
    """
    users = np.flatnonzero(rows.counts)
    predicted = np.empty(len(rows), np.float32)
    for part, scores in score_blocks(recommender, rows.users, len(rows.items), users, label=label):
        predict_block(predicted, users[part], scores, rows)
    return rated(rows, predicted)


def predict_block(
    predicted: Float32Array, users: Int64Array, scores: Float32Array, rows: Interactions
) -> None:
    """Fills in the predictions for the rows of some users.

    users: ascending, with every user in between who has held-out rows. scores: float32 [users,
    items].
    """
    part = slice(int(rows.ptr[users[0]]), int(rows.ptr[users[-1] + 1]))
    user_of_row = np.repeat(np.arange(len(users)), rows.counts[users])
    predicted[part] = scores[user_of_row, rows.item[part]]


def rated(rows: Interactions, scores: Float32Array) -> Ratings:
    """The errors of the scores of held-out rows, once they are clipped to the scale of the data.

    scores: float32 [rows].
    """
    low, high = scale_of(rows)
    # No rating lies outside the scale, so a prediction there can only gain.
    predicted = np.clip(scores, np.float32(low), np.float32(high))
    error = predicted.astype(np.float64) - rows.value
    # A metric has a value for each group: users are groups, or everybody is one.
    users, group_of_user = np.unique(rows.user, return_inverse=True)
    everybody = np.zeros_like(group_of_user)
    overall: dict[str, float] = {}
    per_user: dict[str, Float64Array] = {}
    for name, metric in rating_metrics().items():
        of_all_rows = metric.value(error, everybody)
        overall[name] = float(of_all_rows[0])
        per_user[name] = metric.value(error, group_of_user)
    return Ratings(overall, per_user, users.astype(np.int64), predicted)


def rating_metrics() -> dict[str, RatingMetric]:
    """The installed metrics of predicted ratings by name."""
    return {name: metric for name, metric in metrics().items() if isinstance(metric, RatingMetric)}


def scale_of(rows: Interactions) -> tuple[float, float]:
    """The scale that predictions are clipped to. Raises InputError for rows without ratings."""
    # A mean over nothing would be NaN, without a word.
    if not len(rows):
        raise InputError(
            rows.name, "there are no held-out rows to evaluate", fix="choose another protocol"
        )
    return rated_on(rows.rating_scale, rows.name)


def sentence(rows: Interactions, label: str) -> str:
    """The sentence of the protocol about predicted ratings."""
    low, high = scale_of(rows)
    return (
        f"ratings: mae and rmse over {len(rows)} held-out ratings, predictions of {label} clipped"
        f" to {low:g} .. {high:g}"
    )
