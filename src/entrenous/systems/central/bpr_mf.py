"""`bpr-mf`: matrix factorisation by Bayesian personalised ranking, the central counterpart of
FPL.
"""

from __future__ import annotations

import math
from typing import ClassVar, Literal, NamedTuple, final

import numpy as np
from pydantic import Field

from ...core.compiling import njit
from ...core.contract.protocols import Progress, silent
from ...core.contract.settings import Settings
from ...core.keys import below, draw, fold_name, folds, normals
from ...core.types import Float32Array, Int32Array, Int64Array
from ...data.interactions import Interactions
from ...kernels.bpr_mf import scores
from ...kernels.sampling import negative
from ._shared import ItemVectors


class BprMfModel(NamedTuple):
    """A trained BPR-MF model: vectors of users and items, and a bias of each item."""

    P: Float32Array
    """float32 [users, factors]."""
    Q: ItemVectors
    """float32 [items, factors]."""
    b: Float32Array
    """float32 [items], the item biases."""


class BprDraws(NamedTuple):
    """The rows and users from which triples are drawn."""

    ptr: Int64Array
    """int64 [users + 1]; user u has the rows ptr[u]:ptr[u + 1]."""
    item: Int32Array
    """int32 [rows], the consumed items, ascending within a user."""
    pool: Int32Array
    """int32, the user of each row; or each user that has rows, once."""
    by_row: bool
    """The pool has an entry for each row."""


@final
class BprMf(Settings):
    """BPR-MF: matrix factorisation that learns to rank a consumed item above one that is not
    (Rendle et al. 2009, LearnBPR).

    x_ui = p_u . q_i + b_i is trained by stochastic gradient ascent on ln sigma(x_ui - x_uj) - reg/2
    |theta|^2, one triple (u, i, j) at a time. As in MyMediaLite and Elliot, and as FPL section 5.3
    sets it: factors start at N(0, 0.1^2), biases at 0; users, consumed items and the others each
    have their own regularisation; an epoch is X+ triples, drawn with replacement. Every row
    counts as consumed. Single-threaded and deterministic.
    """

    # The model and its training.
    factors: int = Field(20, ge=1, description="length of a user's and an item's vector")
    epochs: int = Field(200, ge=1, description="passes of X+ triples")
    learning_rate: float = Field(0.02, gt=0, description="step of the gradient ascent (alpha)")
    reg_user: float | None = Field(
        None, ge=0, description="regularisation of user vectors; not given: learning_rate / 20"
    )
    reg_positive: float | None = Field(
        None, ge=0, description="regularisation of consumed items; not given: learning_rate / 20"
    )
    reg_negative: float | None = Field(
        None, ge=0, description="regularisation of other items; not given: learning_rate / 200"
    )
    reg_bias: float = Field(0.0, ge=0, description="regularisation of item biases")
    # Where a triple starts.
    sample: Literal["interaction", "user"] = Field(
        "interaction",
        description=(
            "a triple starts at a random row (Rendle et al.) or a random user (MyMediaLite, Elliot,"
            " FPL)"
        ),
    )

    def search_space(self) -> dict[str, str]:
        """Returns the ranges that a search of settings draws from by default."""
        return {
            "factors": "10..128:log",
            "learning_rate": "0.005..0.1:log",
            "epochs": "20..300:log",
        }

    holds: ClassVar[type] = BprMfModel

    def fit(self, data: Interactions, key: np.uint64, progress: Progress = silent) -> BprMfModel:
        users = len(data.users)
        items = len(data.items)
        # A key for each row: a row's start does not depend on how many others there are.
        user_keys = folds(fold_name(key, "P"), np.arange(users))
        P = normals(user_keys, self.factors, 0.1)
        item_keys = folds(fold_name(key, "Q"), np.arange(items))
        Q = normals(item_keys, self.factors, 0.1)
        model = BprMfModel(P, Q, np.zeros(items, np.float32))
        draws = self._draws(data)
        rates = self._rates()
        for epoch in range(self.epochs):
            learn(model, draws, fold_name(key, "epoch", epoch), rates)
            progress(epoch + 1, self.epochs, "epochs")
        return model

    def score(self, model: BprMfModel, data: Interactions, users: Int64Array) -> Float32Array:
        return scores(model.P[users], model.Q, model.b)

    def _draws(self, train: Interactions) -> BprDraws:
        by_row = self.sample == "interaction"
        pool = train.user
        # By user, each user with rows is as likely as any other.
        if not by_row:
            pool = np.flatnonzero(train.counts).astype(np.int32)
        return BprDraws(train.ptr, train.item, pool, by_row)

    def _rates(self) -> Float32Array:
        """Returns learning_rate, reg_user, reg_positive, reg_negative and reg_bias, float32 [5]."""
        alpha = self.learning_rate
        reg_user = alpha / 20 if self.reg_user is None else self.reg_user
        reg_positive = alpha / 20 if self.reg_positive is None else self.reg_positive
        reg_negative = alpha / 200 if self.reg_negative is None else self.reg_negative
        return np.array([alpha, reg_user, reg_positive, reg_negative, self.reg_bias], np.float32)


@njit(cache=True, nogil=True)
def learn(model: BprMfModel, draws: BprDraws, key: np.uint64, rates: Float32Array) -> None:
    """Runs one epoch in place: X+ draws of (u, i, j). A user who consumed every item has no j, and
    the draw is skipped.
    """
    P = model.P
    Q = model.Q
    b = model.b
    ptr = draws.ptr
    item = draws.item
    pool = draws.pool
    for t in range(len(item)):
        # Three draws for each triple: u by a random row or user,
        row = below(draw(key, 3 * t), len(pool))
        u = pool[row]
        start = ptr[u]
        stop = ptr[u + 1]
        length = stop - start
        if length < len(b):
            # i of u's items: that of the row, or any,
            own = row if draws.by_row else start + below(draw(key, 3 * t + 1), length)
            i = item[own]
            # and j of the others.
            place = below(draw(key, 3 * t + 2), len(b) - length)
            j = negative(item[start:stop], place)
            step(P[u], Q, b, i, j, rates)


@njit(cache=True, nogil=True)
def step(
    p: Float32Array, Q: Float32Array, b: Float32Array, i: int, j: int, rates: Float32Array
) -> None:
    """Takes one step, theta += alpha (sigma(-x_uij) d x_uij / d theta - reg theta), in place
    (Rendle et al. 2009, figure 4).
    """
    alpha, reg_user, reg_positive, reg_negative, reg_bias = rates
    x = b[i] - b[j]
    for f in range(len(p)):
        x += p[f] * (Q[i, f] - Q[j, f])
    # sigma(-x_uij), by which all steps are weighed
    s = np.float32(loss_slope(np.float64(x)))
    for f in range(len(p)):
        p_f = p[f]
        i_f = Q[i, f]
        j_f = Q[j, f]
        slope = s * (i_f - j_f) - reg_user * p_f
        p[f] += alpha * slope
        slope = s * p_f - reg_positive * i_f
        Q[i, f] += alpha * slope
        slope = -s * p_f - reg_negative * j_f
        Q[j, f] += alpha * slope
    b[i] += alpha * (s - reg_bias * b[i])
    b[j] += alpha * (-s - reg_bias * b[j])


@njit(cache=True, nogil=True)
def loss_slope(x: float) -> float:
    """Returns the slope of ln sigma(x), sigma(-x) = d ln sigma(x) / d x, without overflow."""
    if x > 0:
        small = math.exp(-x)
        return small / (1.0 + small)
    return 1.0 / (1.0 + math.exp(x))


ALGORITHMS = {"bpr-mf": BprMf}
