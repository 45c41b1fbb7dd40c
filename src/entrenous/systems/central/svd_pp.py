"""`svd++`: biased matrix factorisation in which the set of rated items counts too, the central
counterpart of FedRec's SVD++.

Koren (2008), Factorization meets the neighborhood, KDD, eq. 15: r_ui = mu + b_u + b_i + q_i . (p_u
+ |I_u|^-1/2 sum_{j in I_u} y_j). Steps of section 4, with e the error and g = |I_u|^-1/2, at every
rating of user u:

    b_u += alpha (e - reg_bias b_u)            q_i += alpha (e (p_u + g sum y_j) - reg q_i)
    b_i += alpha (e - reg_bias b_i)            p_u += alpha (e q_i - reg p_u)
                                               y_j += alpha (e g q_i - reg y_j) for all j in I_u

An epoch goes user by user, so that the last line costs as little as the others. While the rows of u
are taken, all y_j of I_u take the same step except for their own shrinking, so that after n rows
y_j = (1 - alpha reg)^n y_j(before) + a, with a <- (1 - alpha reg) a + alpha e g q_i. Because g^2
|I_u| = 1, s = g sum y_j moves by s += alpha (e q_i - reg s). These are Koren's steps, not an
approximation.
Deviations: users in a drawn order, a decaying step.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple, final

import numpy as np
from pydantic import Field

from ...core.compiling import njit
from ...core.contract.protocols import Progress, rated, silent
from ...core.keys import fold
from ...core.lanes.memory import zeros
from ...core.lanes.simd import LANES, Lanes, every, inside, load, store, sum_of
from ...core.types import Float32Array, Int32Array, Int64Array
from ...data.interactions import Interactions
from ...kernels.sampling import shuffle
from ._ratings import (
    BiasedSettings,
    RatingStep,
    implicit,
    mean_rating,
    predictions,
)
from ._shared import ItemVectors


class SvdPpModel(NamedTuple):
    """A trained model; while it is trained, rows of P, Q and Y are padded."""

    P: Float32Array
    """float32 [users, factors]."""
    Q: ItemVectors
    """float32 [items, factors]."""
    Y: Float32Array
    """float32 [items, factors], what an item adds to the vector of a user who rated it."""
    user: Float32Array
    """float32 [users], the biases of users."""
    item: Float32Array
    """float32 [items], the biases of items."""
    mean: Float32Array
    """float32 [1], mu."""


class SvdPpRows(NamedTuple):
    """The training rows of SVD++, those of each user side by side."""

    ptr: Int64Array
    """int64 [users + 1]; user u has the rows ptr[u]:ptr[u + 1]."""
    item: Int32Array
    value: Float32Array


class SvdPpRoom(NamedTuple):
    """Working memory for the rows of one user, by flat position from 0."""

    s: Float32Array
    """float32 [1, padded factors], g sum y_j."""
    a: Float32Array
    """float32 [1, padded factors], what is added to every y_j."""


@final
class SvdPp(BiasedSettings):
    """SVD++: biased matrix factorisation in which the set of items that a user rated adds to the
    user's vector (Koren 2008).

    An epoch takes the users one by one in an order drawn anew, and all ratings of a user in an
    order drawn anew. A user or item without training rows has bias 0 and vector 0: the other
    terms make the prediction. Single-threaded and deterministic.
    """

    epochs: int = Field(65, ge=1, description="passes over the training rows")
    learning_rate: float = Field(
        0.012, gt=0, description="step of the gradient descent in the first epoch (alpha)"
    )
    reg: float = Field(0.04, ge=0, description="regularisation of the vectors, at each rating")

    holds: ClassVar[type] = SvdPpModel

    def fit(self, data: Interactions, key: np.uint64, progress: Progress = silent) -> SvdPpModel:
        rated(data.rating_scale, "svd++")
        P = self.table(len(data.users), key, "P")
        Q = self.table(len(data.items), key, "Q")
        Y = self.table(len(data.items), key, "Y")
        # Nothing moves the vectors of users and items without rows.
        P[data.counts == 0] = 0
        Q[data.popularity == 0] = 0
        Y[data.popularity == 0] = 0
        user = np.zeros(len(P), np.float32)
        item = np.zeros(len(Q), np.float32)
        model = SvdPpModel(P, Q, Y, user, item, mean_rating(data))
        rows = SvdPpRows(data.ptr, data.item, data.value)
        room = room_for(P.shape[1])
        for epoch_key, alpha in self.passes(key, progress):
            step = RatingStep(alpha, np.float32(self.reg), np.float32(self.reg_bias))
            learn(model, rows, step, epoch_key, room)
        # The padding was for registers: it is not stored.
        p, q, y = (table[:, : self.factors].copy() for table in (P, Q, Y))
        return model._replace(P=p, Q=q, Y=y)

    def score(self, model: SvdPpModel, data: Interactions, users: Int64Array) -> Float32Array:
        p = implicit(model.P, model.Y, data.ptr, data.item, users)
        base = model.mean[0] + model.user[users]
        return predictions(p, model.Q, base, model.item)


def room_for(width: int) -> SvdPpRoom:
    """Returns working memory for rows of `width` numbers, a multiple of LANES."""
    return SvdPpRoom(zeros(1, width), zeros(1, width))


@njit(cache=True, nogil=True, error_model="numpy")
def learn(
    model: SvdPpModel, rows: SvdPpRows, step: RatingStep, key: np.uint64, room: SvdPpRoom
) -> None:
    """Runs one epoch in place. room: of no meaning before and after."""
    P = model.P
    Q = model.Q
    Y = model.Y
    b = model.user
    c = model.item
    mean = model.mean[0]
    ptr = rows.ptr
    item = rows.item
    value = rows.value
    s = room.s
    a = room.a
    users, width = P.shape
    # Users in a drawn order, and the rows of each in another.
    order = np.empty(max(len(item), users), np.int32)
    visit = np.empty(users, np.int32)
    shuffle(visit, 0, users, key)
    for n in range(users):
        u = int(visit[n])
        start = ptr[u]
        stop = ptr[u + 1]
        if stop > start:
            shuffle(order, start, stop, fold(key, u))
            # s and a stand for the y_j of I_u while the rows of u are taken.
            g = np.float32(1 / np.sqrt(np.float64(stop - start)))
            _gather(Y, item, start, stop, g, s, a)
            for t in range(start, stop):
                r = order[t]
                i = int(item[r])
                product = _product(P, u * width, Q, i * width, s)
                e = value[r] - (mean + b[u] + c[i] + product)
                # The steps of the module's docstring, all at the error before them.
                slope = e - step.reg_bias * b[u]
                b[u] += step.alpha * slope
                slope = e - step.reg_bias * c[i]
                c[i] += step.alpha * slope
                _pull(P, u * width, Q, i * width, s, a, SvdPpSteps(e, g, step.alpha, step.reg))
            _scatter(Y, item, start, stop, step.alpha, step.reg, a)


@inside
def _gather(
    Y: Float32Array,
    item: Int32Array,
    start: int,
    stop: int,
    g: np.float32,
    s: Float32Array,
    a: Float32Array,
) -> None:
    """Sets s = g sum y_j and a = 0."""
    width = s.shape[1]
    for f in range(0, width, LANES):
        total = every(np.float32(0))
        store(a, f, total)
        for r in range(start, stop):
            # s is the sum of the y_j over the root of their number.
            total = total + load(Y, int(item[r]) * width + f)
        store(s, f, every(g) * total)


@inside
def _product(P: Float32Array, at: int, Q: Float32Array, to: int, s: Float32Array) -> np.float32:
    """Returns q . (p + s)."""
    out: Lanes = every(np.float32(0))
    for f in range(0, s.shape[1], LANES):
        user = load(P, at + f) + load(s, f)
        out = out + user * load(Q, to + f)
    return sum_of(out)


class SvdPpSteps(NamedTuple):
    """The numbers of the steps at one rating."""

    error: np.float32
    g: np.float32
    alpha: np.float32
    reg: np.float32


@inside
def _pull(
    P: Float32Array,
    at: int,
    Q: Float32Array,
    to: int,
    s: Float32Array,
    a: Float32Array,
    steps: SvdPpSteps,
) -> None:
    """Takes the steps of p, q, s and a, from their values before."""
    # A step theta += alpha (e x - reg theta) is keep theta + gain x.
    gain = every(steps.alpha * steps.error)
    share = every(steps.alpha * steps.error * steps.g)
    keep = every(np.float32(1) - steps.alpha * steps.reg)
    for f in range(0, s.shape[1], LANES):
        p = load(P, at + f)
        q = load(Q, to + f)
        s_f = load(s, f)
        store(Q, to + f, keep * q + gain * (p + s_f))
        store(P, at + f, keep * p + gain * q)
        store(s, f, keep * s_f + gain * q)
        # What the y_j of I_u would have gained: it is added to all of them at the end.
        store(a, f, keep * load(a, f) + share * q)


@inside
def _scatter(
    Y: Float32Array,
    item: Int32Array,
    start: int,
    stop: int,
    alpha: np.float32,
    reg: np.float32,
    a: Float32Array,
) -> None:
    """Sets y_j = (1 - alpha reg)^n y_j + a for all j, n the number of rows."""
    width = a.shape[1]
    # A product of n factors, not a power: the same bits on every machine.
    keep = np.float32(1)
    for _ in range(start, stop):
        keep *= np.float32(1) - alpha * reg
    for r in range(start, stop):
        at = int(item[r]) * width
        for f in range(0, width, LANES):
            kept = every(keep) * load(Y, at + f)
            store(Y, at + f, kept + load(a, f))


ALGORITHMS = {"svd++": SvdPp}
