"""`pmf`: probabilistic matrix factorisation, the central counterpart of FedMF and of FedRec's PMF.

Salakhutdinov & Mnih (2008), Probabilistic matrix factorization, NIPS 20, eq. 1-4: r_ui = p_u . q_i
with Gaussian priors on both, maximum a posteriori by stochastic gradient descent as in
`_ratings.py`. Deviations: the linear form that the paper starts from and FedRec uses, without the
logistic function of section 2; row by row rather than in batches with momentum. The paper's own
program subtracts the mean rating, its formula does not: `centred` chooses."""

from __future__ import annotations

from typing import ClassVar, NamedTuple, final

import numpy as np
from pydantic import Field

from ...core.compiling import njit
from ...core.contract.protocols import Progress, rated, silent
from ...core.lanes.simd import inner_product
from ...core.types import BoolArray, Float32Array, Int64Array
from ...data.interactions import Interactions
from ...kernels.sampling import shuffle
from ._ratings import RatingRows, RatingSettings, mean_rating, predictions, pull
from ._shared import ItemVectors


class PmfModel(NamedTuple):
    """A trained model; while it is trained, rows of P and Q are padded."""

    P: Float32Array
    """float32 [users, factors]."""
    Q: ItemVectors
    """float32 [items, factors]."""
    mean: Float32Array
    """float32 [1], is added to every product; 0 unless centred."""


@final
class Pmf(RatingSettings):
    """Probabilistic matrix factorisation: a rating is p_u . q_i and nothing else (Salakhutdinov &
    Mnih 2008).

    An epoch takes the training rows one by one, in an order drawn anew. Without biases, a user or
    item without training rows is predicted with the mean vector of those that have some.
    Single-threaded and deterministic.
    """

    epochs: int = Field(95, ge=1, description="passes over the training rows")
    learning_rate: float = Field(
        0.01, gt=0, description="step of the gradient descent in the first epoch (alpha)"
    )
    reg: float = Field(0.05, ge=0, description="regularisation of the vectors, at each rating")
    init_std: float = Field(
        0.01, ge=0, description="standard deviation of the vectors before training"
    )
    centred: bool = Field(
        False,
        description="p_u . q_i is a rating less the mean of the training ratings",
    )

    holds: ClassVar[type] = PmfModel

    def fit(self, data: Interactions, key: np.uint64, progress: Progress = silent) -> PmfModel:
        rated(data.rating_scale, "pmf")
        P = self.table(len(data.users), key, "P")
        Q = self.table(len(data.items), key, "Q")
        nothing = np.zeros(1, np.float32)
        mean = mean_rating(data) if self.centred else nothing
        model = PmfModel(P, Q, mean)
        rows = RatingRows(data.user, data.item, data.value)
        for epoch_key, alpha in self.passes(key, progress):
            learn(model, rows, alpha, np.float32(self.reg), epoch_key)
        # Without biases the vector 0 would predict 0, or the mean if centred.
        fill(P, data.counts > 0)
        fill(Q, data.popularity > 0)
        # The padding was for registers: it is not stored.
        p = P[:, : self.factors].copy()
        q = Q[:, : self.factors].copy()
        return PmfModel(p, q, mean)

    def score(self, model: PmfModel, data: Interactions, users: Int64Array) -> Float32Array:
        user = np.full(len(users), model.mean[0], np.float32)
        item = np.zeros(len(model.Q), np.float32)
        return predictions(model.P[users], model.Q, user, item)


def fill(table: Float32Array, known: BoolArray) -> None:
    """Gives the rows (users or items) without ratings the mean vector of the others."""
    if known.any():
        table[~known] = table[known].mean(axis=0, dtype=np.float64)


@njit(cache=True, nogil=True, error_model="numpy")
def learn(
    model: PmfModel, rows: RatingRows, alpha: np.float32, reg: np.float32, key: np.uint64
) -> None:
    """Runs one epoch of stochastic gradient descent, in place."""
    P = model.P
    Q = model.Q
    mean = model.mean[0]
    user = rows.user
    item = rows.item
    value = rows.value
    width = P.shape[1]
    # The rows in a drawn order: in their own, the last users would always come last.
    order = np.empty(len(item), np.int32)
    shuffle(order, 0, len(item), key)
    for n in range(len(item)):
        r = order[n]
        u = int(user[r])
        i = int(item[r])
        product = inner_product(P, u * width, Q, i * width, width)
        # Both vectors take the error before either has moved.
        e = value[r] - (mean + product)
        pull(P, u * width, Q, i * width, width, e, alpha, reg)


ALGORITHMS = {"pmf": Pmf}
