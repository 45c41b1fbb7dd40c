"""Shared parts of the baselines that predict ratings: settings, and a step of stochastic gradient
descent.

A model predicts r_ui = mu + b_u + b_i + p_u . q_i or a part of it, unclipped. Training lessens,
over the training rows,

    sum (r_ui - predicted)^2 + reg (|p_u|^2 + |q_i|^2) + reg_bias (b_u^2 + b_i^2)

row by row: with e = r_ui - predicted, theta += alpha (e d predicted / d theta - reg theta), where
alpha = learning_rate decay^epoch (epochs from 0). Vectors of users and items with many ratings are
therefore regularised often. Rows of a table are padded with zeros, which stay zero, to whole
registers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple

import numpy as np
from pydantic import Field

from ...core.compiling import njit
from ...core.contract.declarations import Traits
from ...core.contract.protocols import Progress
from ...core.contract.settings import Settings
from ...core.keys import fold_name, folds, normals
from ...core.lanes.memory import padded, zeros
from ...core.lanes.simd import LANES, every, inside, load, store
from ...core.types import Float32Array, Int32Array, Int64Array
from ...data.interactions import Interactions
from ...kernels.bpr_mf import scores


class RatingSettings(Settings):
    """Settings that all baselines by stochastic gradient descent share. Each baseline has its own
    default values.
    """

    factors: int = Field(128, ge=1, description="length of a user's and an item's vector")
    epochs: int = Field(75, ge=1, description="passes over the training rows")
    learning_rate: float = Field(
        0.013, gt=0, description="step of the gradient descent in the first epoch (alpha)"
    )
    decay: float = Field(
        0.97, gt=0, le=1, description="what the step is multiplied by after each epoch"
    )
    reg: float = Field(0.045, ge=0, description="regularisation of the vectors, at each rating")
    init_std: float = Field(
        0.002, ge=0, description="standard deviation of the vectors before training"
    )

    def search_space(self) -> dict[str, str]:
        """Returns the ranges that a search of settings draws from by default."""
        return {
            "factors": "8..256:log",
            "learning_rate": "0.002..0.05:log",
            "reg": "0.01..0.3:log",
            "epochs": "20..150:log",
        }

    traits: ClassVar[Traits] = Traits(predicts_ratings=True)

    def table(self, rows: int, key: np.uint64, name: str) -> Float32Array:
        """Returns initial factors, float32 [rows, padded factors], drawn from N(0, init_std^2) by
        the key, the table's name and the number of the row."""
        # A row's numbers depend on its own key alone, not on how many rows there are.
        keys = folds(fold_name(key, name), np.arange(rows))
        table = zeros(rows, padded(self.factors))
        table[:, : self.factors] = normals(keys, self.factors, self.init_std)
        return table

    def passes(self, key: np.uint64, progress: Progress) -> Iterator[tuple[np.uint64, np.float32]]:
        """Yields the key and the step size alpha of each epoch; reports progress."""
        for epoch in range(self.epochs):
            alpha = np.float32(self.learning_rate * self.decay**epoch)
            yield fold_name(key, "epoch", epoch), alpha
            progress(epoch + 1, self.epochs, "epochs")


class BiasedSettings(RatingSettings):
    """The settings of a baseline whose model has biases."""

    reg_bias: float = Field(0.002, ge=0, description="regularisation of the biases, at each rating")

    def biases(
        self, model: Any, data: Interactions, users: Int64Array
    ) -> tuple[Float32Array, Float32Array]:
        """Returns the parts of a prediction that no taste explains: mu + b_u of each user, and b_i
        of each item. The rest of a prediction is the product alone."""
        return model.mean[0] + model.user[users], model.item


class RatingRows(NamedTuple):
    """The training rows, each of them in all three arrays."""

    user: Int32Array
    item: Int32Array
    value: Float32Array


class RatingStep(NamedTuple):
    """Constants of the steps of an epoch, for a model with biases."""

    alpha: np.float32
    """The step size."""
    reg: np.float32
    """Regularisation of the vectors."""
    reg_bias: np.float32
    """Regularisation of the biases."""


def mean_rating(data: Interactions) -> Float32Array:
    """Returns the mean rating mu of the training rows, float32 [1]."""
    return np.array([data.value.mean(dtype=np.float64)], np.float32)


def predictions(
    p: Float32Array, q: Float32Array, user: Float32Array, item: Float32Array
) -> Float32Array:
    """Returns the predicted ratings of every item, user + item + p . q, float32 [m, items]. p: [m,
    F], q: [items, F], user: [m], item: [items].
    """
    out = scores(p, q, item)
    out += user[:, None]
    return out


# ---- inside the loops ----------------------------------------------------------------------------


@inside
def pull(
    P: Float32Array,
    at: int,
    Q: Float32Array,
    to: int,
    width: int,
    error: np.float32,
    alpha: np.float32,
    reg: np.float32,
) -> None:
    """Takes one gradient step of both vectors of a rating: p += alpha (e q - reg p) and q += alpha
    (e p - reg q), both from their values before, in place."""
    # theta += alpha (e ... - reg theta) as a share that is kept and a gain
    gain = every(alpha * error)
    keep = every(np.float32(1) - alpha * reg)
    for f in range(0, width, LANES):
        p = load(P, at + f)
        q = load(Q, to + f)
        store(P, at + f, keep * p + gain * q)
        store(Q, to + f, keep * q + gain * p)


@njit(cache=True, nogil=True)
def implicit(
    P: Float32Array, Y: Float32Array, ptr: Int64Array, item: Int32Array, users: Int64Array
) -> Float32Array:
    """Returns the user vectors of SVD++, p_u + |I_u|^-1/2 sum_{j in I_u} y_j, of some users,
    float32 [m, F]. I_u is item[ptr[u]:ptr[u + 1]].
    """
    out = P[users]
    for d in range(len(users)):
        start = ptr[users[d]]
        stop = ptr[users[d] + 1]
        for f in range(P.shape[1]):
            total = np.float32(0)
            for r in range(start, stop):
                total += Y[item[r], f]
            if stop > start:
                length = np.float64(stop - start)
                out[d, f] += total / np.float32(np.sqrt(length))
    return out
