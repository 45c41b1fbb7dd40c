"""`biased-mf`: matrix factorisation with biases, the central counterpart of FBALF.

Koren, Bell & Volinsky (2009), Matrix factorization techniques for recommender systems, Computer
42(8), eq. 4-5: r_ui = mu + b_u + b_i + p_u . q_i, by stochastic gradient descent as in
`_ratings.py`. Deviations: the step decays, and biases have their own regularisation.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple, final

import numpy as np

from ...core.compiling import njit
from ...core.contract.protocols import Progress, rated, silent
from ...core.lanes.simd import inner_product
from ...core.types import Float32Array, Int64Array
from ...data.interactions import Interactions
from ...kernels.sampling import shuffle
from ._ratings import (
    BiasedSettings,
    RatingRows,
    RatingStep,
    mean_rating,
    predictions,
    pull,
)
from ._shared import ItemVectors


class BiasedMfModel(NamedTuple):
    """A trained model; while it is trained, rows of P and Q are padded."""

    P: Float32Array
    """float32 [users, factors]."""
    Q: ItemVectors
    """float32 [items, factors]."""
    user: Float32Array
    """float32 [users], the biases of users."""
    item: Float32Array
    """float32 [items], the biases of items."""
    mean: Float32Array
    """float32 [1], mu."""


@final
class BiasedMf(BiasedSettings):
    """Biased matrix factorisation: mean rating plus user bias plus item bias plus p_u . q_i (Koren,
    Bell & Volinsky 2009).

    An epoch takes the training rows one by one, in an order drawn anew. A user or item without
    training rows has bias 0 and vector 0: the other terms make the prediction. Single-threaded
    and deterministic.
    """

    holds: ClassVar[type] = BiasedMfModel

    def fit(self, data: Interactions, key: np.uint64, progress: Progress = silent) -> BiasedMfModel:
        rated(data.rating_scale, "biased-mf")
        P = self.table(len(data.users), key, "P")
        Q = self.table(len(data.items), key, "Q")
        # Nothing is known of a user or an item without rows.
        P[data.counts == 0] = 0
        Q[data.popularity == 0] = 0
        user = np.zeros(len(P), np.float32)
        item = np.zeros(len(Q), np.float32)
        model = BiasedMfModel(P, Q, user, item, mean_rating(data))
        rows = RatingRows(data.user, data.item, data.value)
        for epoch_key, alpha in self.passes(key, progress):
            step = RatingStep(alpha, np.float32(self.reg), np.float32(self.reg_bias))
            learn(model, rows, step, epoch_key)
        # The padding was for registers: it is not stored.
        p = P[:, : self.factors].copy()
        q = Q[:, : self.factors].copy()
        return model._replace(P=p, Q=q)

    def score(self, model: BiasedMfModel, data: Interactions, users: Int64Array) -> Float32Array:
        user = model.mean[0] + model.user[users]
        return predictions(model.P[users], model.Q, user, model.item)


@njit(cache=True, nogil=True, error_model="numpy")
def learn(model: BiasedMfModel, rows: RatingRows, step: RatingStep, key: np.uint64) -> None:
    """Runs one epoch of stochastic gradient descent, in place."""
    P = model.P
    Q = model.Q
    b = model.user
    c = model.item
    mean = model.mean[0]
    user = rows.user
    item = rows.item
    value = rows.value
    width = P.shape[1]
    order = np.empty(len(item), np.int32)
    shuffle(order, 0, len(item), key)
    for n in range(len(item)):
        # The biases move first; the vectors take the same error.
        r = order[n]
        u = int(user[r])
        i = int(item[r])
        product = inner_product(P, u * width, Q, i * width, width)
        e = value[r] - (mean + b[u] + c[i] + product)
        slope = e - step.reg_bias * b[u]
        b[u] += step.alpha * slope
        slope = e - step.reg_bias * c[i]
        c[i] += step.alpha * slope
        pull(P, u * width, Q, i * width, width, e, step.alpha, step.reg)


ALGORITHMS = {"biased-mf": BiasedMf}
