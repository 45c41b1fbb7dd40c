"""`biased-mf`: matrix factorisation with biases, the central counterpart of FBALF.

Koren, Bell & Volinsky (2009), Matrix factorization techniques for recommender systems, Computer
42(8), eq. 4-5: r_ui = mu + b_u + b_i + p_u . q_i, by stochastic gradient descent as in
`_ratings.py`. Deviations: the step decays, and biases have a regularisation of their own.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple, final

import numpy as np
from numba import njit
from pydantic import Field

from ...core.contract.protocols import Progress, rated, silent
from ...core.types import Float32Array, Int32Array, Int64Array
from ...data.interactions import Interactions
from ._ratings import RatingSettings, dot, mean_rating, predictions, pull, shuffled


class BiasedMfModel(NamedTuple):
    """A trained model. P: float32 [users, factors]. Q: float32 [items, factors]. user, item:
    float32 [users], [items], the biases. mean: float32 [1]."""

    P: Float32Array
    Q: Float32Array
    user: Float32Array
    item: Float32Array
    mean: Float32Array


@final
class BiasedMf(RatingSettings):
    """Biased matrix factorisation: mean rating plus user bias plus item bias plus p_u . q_i (Koren,
    Bell & Volinsky 2009).

    An epoch takes the training rows one by one, in an order drawn anew. A user or item without
    training rows has bias 0 and vector 0, so that the others speak. Single-threaded and
    deterministic.
    """

    reg_bias: float = Field(0.002, ge=0, description="regularisation of the biases, at each rating")

    holds: ClassVar[type] = BiasedMfModel

    def fit(self, data: Interactions, key: np.uint64, progress: Progress = silent) -> BiasedMfModel:
        rated(data.rating_scale, "biased-mf")
        P, Q = self.table(len(data.users), key, "P"), self.table(len(data.items), key, "Q")
        P[data.counts == 0], Q[data.popularity == 0] = 0, 0
        user, item, mean = (
            np.zeros(len(P), np.float32),
            np.zeros(len(Q), np.float32),
            mean_rating(data),
        )
        regs = np.float32(self.reg), np.float32(self.reg_bias)
        rows = data.user
        for own, alpha in self.passes(key, progress):
            learn(P, Q, user, item, mean[0], rows, data.item, data.value, own, alpha, *regs)
        return BiasedMfModel(
            P[:, : self.factors].copy(), Q[:, : self.factors].copy(), user, item, mean
        )

    def score(self, model: BiasedMfModel, data: Interactions, users: Int64Array) -> Float32Array:
        return predictions(model.P[users], model.Q, model.mean[0] + model.user[users], model.item)

    def biases(
        self, model: BiasedMfModel, data: Interactions, users: Int64Array
    ) -> tuple[Float32Array, Float32Array]:
        """The parts of a prediction that no taste explains: mu + b_u of each user, so that what is
        left is the product alone, and b_i of each item."""
        return model.mean[0] + model.user[users], model.item


@njit(cache=True, nogil=True, error_model="numpy")
def learn(
    P: Float32Array,
    Q: Float32Array,
    b: Float32Array,
    c: Float32Array,
    mean: np.float32,
    user: Int32Array,
    item: Int32Array,
    value: Float32Array,
    key: np.uint64,
    alpha: np.float32,
    reg: np.float32,
    reg_bias: np.float32,
) -> None:
    """Runs one epoch of stochastic gradient descent, in place. b, c: the biases of users and of
    items. user, item, value: [n], the rows.
    """
    width, order = P.shape[1], np.empty(len(item), np.int32)
    shuffled(order, 0, len(item), key)
    for n in range(len(item)):
        r = order[n]
        u, i = int(user[r]), int(item[r])
        e = value[r] - (mean + b[u] + c[i] + dot(P, u * width, Q, i * width, width))
        b[u] += alpha * (e - reg_bias * b[u])
        c[i] += alpha * (e - reg_bias * c[i])
        pull(P, u * width, Q, i * width, width, e, alpha, reg)


ALGORITHMS = {"biased-mf": BiasedMf}
