"""`svd++`: biased matrix factorisation in which what a user rated speaks too, the central
counterpart of FedRec's SVD++.

Koren (2008), Factorization meets the neighborhood, KDD, eq. 15: r_ui = mu + b_u + b_i + q_i . (p_u
+ |I_u|^-1/2 sum_{j in I_u} y_j). Steps of section 4, with e the error and g = |I_u|^-1/2, at every
rating of user u:

    b_u += alpha (e - reg_bias b_u)            q_i += alpha (e (p_u + g sum y_j) - reg q_i)
    b_i += alpha (e - reg_bias b_i)            p_u += alpha (e q_i - reg p_u)
                                               y_j += alpha (e g q_i - reg y_j) for all j in I_u

An epoch goes user by user, which lets the last line cost as little as the others. While the rows of
u are taken, all y_j of I_u take the same step but for their own shrinking, so that after n rows y_j
= (1 - alpha reg)^n y_j(before) + a, with a <- (1 - alpha reg) a + alpha e g q_i; and as g^2 |I_u| =
1, s = g sum y_j moves by s += alpha (e q_i - reg s). These are Koren's steps, not an approximation.
Deviations: users in a drawn order, a decaying step.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple, final

import numpy as np
from numba import njit
from pydantic import Field

from ...core.contract.protocols import Progress, rated, silent
from ...core.keys import fold
from ...core.lanes.simd import LANES, Lanes, every, inside, load, store, sum_of, zeros
from ...core.types import Float32Array, Int32Array, Int64Array
from ...data.interactions import Interactions
from ._ratings import RatingSettings, implicit, mean_rating, predictions, shuffled


class SvdPpModel(NamedTuple):
    """A trained model. P: float32 [users, factors]. Q, Y: float32 [items, factors], what an item is
    and what having rated it says. user, item: float32 [users], [items], the biases. mean: float32
    [1].
    """

    P: Float32Array
    Q: Float32Array
    Y: Float32Array
    user: Float32Array
    item: Float32Array
    mean: Float32Array


@final
class SvdPp(RatingSettings):
    """SVD++: biased matrix factorisation in which the set of items that a user rated adds to the
    user's vector (Koren 2008).

    An epoch takes the users one by one in an order drawn anew, and all ratings of a user in an
    order drawn anew. A user or item without training rows has bias 0 and vector 0, so that the
    others speak. Single-threaded and deterministic.
    """

    epochs: int = Field(65, ge=1, description="passes over the training rows")
    learning_rate: float = Field(
        0.012, gt=0, description="step of the gradient descent in the first epoch (alpha)"
    )
    reg: float = Field(0.04, ge=0, description="regularisation of the vectors, at each rating")
    reg_bias: float = Field(0.002, ge=0, description="regularisation of the biases, at each rating")

    holds: ClassVar[type] = SvdPpModel

    def fit(self, data: Interactions, key: np.uint64, progress: Progress = silent) -> SvdPpModel:
        rated(data.rating_scale, "svd++")
        P, Q, Y = (
            self.table(len(data.users), key, "P"),
            self.table(len(data.items), key, "Q"),
            self.table(len(data.items), key, "Y"),
        )
        P[data.counts == 0], Q[data.popularity == 0], Y[data.popularity == 0] = 0, 0, 0
        user, item, mean = (
            np.zeros(len(P), np.float32),
            np.zeros(len(Q), np.float32),
            mean_rating(data),
        )
        regs = np.float32(self.reg), np.float32(self.reg_bias)
        room = zeros(4, P.shape[1])
        for own, alpha in self.passes(key, progress):
            learn(
                P,
                Q,
                Y,
                user,
                item,
                mean[0],
                data.ptr,
                data.item,
                data.value,
                own,
                alpha,
                *regs,
                room,
            )
        p, q, y = (table[:, : self.factors].copy() for table in (P, Q, Y))
        return SvdPpModel(p, q, y, user, item, mean)

    def score(self, model: SvdPpModel, data: Interactions, users: Int64Array) -> Float32Array:
        p = implicit(model.P, model.Y, data.ptr, data.item, users)
        return predictions(p, model.Q, model.mean[0] + model.user[users], model.item)

    def biases(
        self, model: SvdPpModel, data: Interactions, users: Int64Array
    ) -> tuple[Float32Array, Float32Array]:
        """The parts of a prediction that no taste explains: mu + b_u of each user, so that what is
        left is the product alone, and b_i of each item."""
        return model.mean[0] + model.user[users], model.item


@njit(cache=True, nogil=True, error_model="numpy")
def learn(
    P: Float32Array,
    Q: Float32Array,
    Y: Float32Array,
    b: Float32Array,
    c: Float32Array,
    mean: np.float32,
    ptr: Int64Array,
    item: Int32Array,
    value: Float32Array,
    key: np.uint64,
    alpha: np.float32,
    reg: np.float32,
    reg_bias: np.float32,
    room: Float32Array,
) -> None:
    """Runs one epoch in place. ptr: int64 [users + 1]; item, value: [n], the rows. b, c: the biases
    of users and of items. room: float32 [4, padded factors], of no meaning before and after."""
    users, width, order = len(b), P.shape[1], np.empty(max(len(item), len(b)), np.int32)
    visit = np.empty(users, np.int32)
    shuffled(visit, 0, users, key)
    for n in range(users):
        u = int(visit[n])
        start, stop = ptr[u], ptr[u + 1]
        if stop > start:
            shuffled(order, start, stop, fold(key, u))
            g = np.float32(1 / np.sqrt(np.float64(stop - start)))
            _gather(Y, item, start, stop, g, room, width)
            for t in range(start, stop):
                r = order[t]
                i = int(item[r])
                e = value[r] - (
                    mean + b[u] + c[i] + _product(P, u * width, Q, i * width, room, width)
                )
                b[u] += alpha * (e - reg_bias * b[u])
                c[i] += alpha * (e - reg_bias * c[i])
                _pull(P, u * width, Q, i * width, room, width, e, g, alpha, reg)
            _scatter(Y, item, start, stop, alpha, reg, room, width)


# ---- room: s at 0, a at width, both by flat position ---------------------------------------------


@inside
def _gather(
    Y: Float32Array,
    item: Int32Array,
    start: int,
    stop: int,
    g: np.float32,
    room: Float32Array,
    width: int,
) -> None:
    """s = g sum y_j and a = 0."""
    for f in range(0, width, LANES):
        total = every(np.float32(0))
        store(room, width + f, total)
        for r in range(start, stop):
            total = total + load(Y, int(item[r]) * width + f)
        store(room, f, every(g) * total)


@inside
def _product(
    P: Float32Array, at: int, Q: Float32Array, to: int, room: Float32Array, width: int
) -> np.float32:
    """q . (p + s)."""
    out: Lanes = every(np.float32(0))
    for f in range(0, width, LANES):
        out = out + (load(P, at + f) + load(room, f)) * load(Q, to + f)
    return sum_of(out)


@inside
def _pull(
    P: Float32Array,
    at: int,
    Q: Float32Array,
    to: int,
    room: Float32Array,
    width: int,
    error: np.float32,
    g: np.float32,
    alpha: np.float32,
    reg: np.float32,
) -> None:
    """The steps of p, q, s and a, from their values before."""
    gain, share, keep = (
        every(alpha * error),
        every(alpha * error * g),
        every(np.float32(1) - alpha * reg),
    )
    for f in range(0, width, LANES):
        p, q, s = load(P, at + f), load(Q, to + f), load(room, f)
        store(Q, to + f, keep * q + gain * (p + s))
        store(P, at + f, keep * p + gain * q)
        store(room, f, keep * s + gain * q)
        store(room, width + f, keep * load(room, width + f) + share * q)


@inside
def _scatter(
    Y: Float32Array,
    item: Int32Array,
    start: int,
    stop: int,
    alpha: np.float32,
    reg: np.float32,
    room: Float32Array,
    width: int,
) -> None:
    """y_j = (1 - alpha reg)^n y_j + a for all j, n the number of rows."""
    keep = np.float32(1)
    for _ in range(start, stop):
        keep *= np.float32(1) - alpha * reg
    for r in range(start, stop):
        at = int(item[r]) * width
        for f in range(0, width, LANES):
            store(Y, at + f, every(keep) * load(Y, at + f) + load(room, width + f))


ALGORITHMS = {"svd++": SvdPp}
