"""FCF, Federated Collaborative Filtering.

M. Ammad-ud-din, E. Ivannikova, S. A. Khan, W. Oyomno, Q. Fu, K. E. Tan, A. Flanagan, "Federated collaborative filtering for
privacy-preserving personalized recommendation system", arXiv:1901.09888 (2019). The cost is that of Hu, Koren and Volinsky (2008):

    J = sum_ui c_ui (p_ui - x_u . y_i)^2 + lambda (sum_u |x_u|^2 + sum_i |y_i|^2),   p_ui = 1 if consumed,   c_ui = 1 + alpha r_ui

`fcf` is the method as published. `fcf-huawei` is what FPL's tables compared with (sciueferrara/fcf-huawei): weight 0 instead of 1 for
what was not consumed, no alpha, and plain gradient descent on the server. It is a weaker method.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, ClassVar, Literal, NamedTuple, Self, final

import numpy as np
from numba import njit
from pydantic import Field

from ..core.adam import EPSILON, direction, moment
from ..core.contract import SentArray, Traits, axes, dense
from ..core.keys import folds, normals
from ..core.protocols import Catalogue, Histories
from ..core.sampling import cohort
from ..core.settings import Settings
from ..core.types import Float32Array, Float64Array, Int32Array, Int64Array
from ..core.update import Total, Update, real
from ..kernels import bpr_mf


class FCFServer(NamedTuple):
    """The state of the server. y: item factors float32 [items, F]. m, v: Adam's moments, float32 like y. step: int64 [1], Adam's steps
    so far."""

    y: Float32Array
    m: Float32Array
    v: Float32Array
    step: Int64Array


class FCFDownload(NamedTuple):
    """The model as a device receives it. y: item factors, float32 [items, F]. gram: Y^T Y, float64 [F, F], which every device would
    compute alike."""

    y: Annotated[Float32Array, axes("items", "factors")]
    gram: Annotated[Float64Array, axes("factors", "factors")]


class FCFDevices(NamedTuple):
    """Private state of m devices. x: user factors float32 [m, F]. They never leave."""

    x: Annotated[Float32Array, axes("factors")]


@final
class FCF(Settings):
    """Federated collaborative filtering: each device solves for its x_u exactly and sends the gradient of every item's factors."""

    factors: int = Field(32, ge=1, le=1024, description="F, the length of x_u and y_i")
    alpha: float = Field(1.0, ge=0, description="c_ui = 1 + alpha r_ui: confidence of consumed items")
    reg: float = Field(10.0, ge=0, description="lambda on x_u and y_i")
    learning_rate: float = Field(0.05, gt=0, description="of the server's optimiser")
    optimiser: Literal["adam", "sgd"] = Field(
        "adam", description="the server's step: adam as published, sgd as FPL's comparison ran it"
    )
    beta1: float = Field(0.9, ge=0, lt=1, description="Adam's decay of the mean")
    beta2: float = Field(0.99, ge=0, lt=1, description="Adam's decay of the variance")
    unobserved: float = Field(
        1.0, ge=0, description="confidence of items not consumed: 1 as published, 0 as FPL's comparison ran it"
    )
    ratings: bool = Field(False, description="r_ui is the rating (True) or 1 (False)")
    cohort: int = Field(0, ge=0, description="devices in a round; 0 = all")
    rounds: int = Field(100, ge=1, description="training length")
    init_std: float = Field(0.1, ge=0, description="standard deviation of the first y")

    holds: ClassVar[type] = FCFServer
    receives: ClassVar[type] = FCFDownload
    keeps: ClassVar[type] = FCFDevices
    sends: ClassVar[tuple[SentArray, ...]] = (
        dense(
            "f",
            "items",
            "factors",
            when="each round, a row for every item",
            reveals="the rows are multiples of x_u, larger for consumed items: seen singly, x_u's direction and the whole history can be "
            "read off. In sums it stays hidden only while nobody can take them apart: sums of the same parties over some rounds give "
            "single histories, and two sums that differ by one party give that party's",
        ),
    )
    traits: ClassVar[Traits] = Traits(
        draws_negatives=False, private={"noise": 0.3}
    )  # every unobserved item counts, with confidence `unobserved`

    def configured(self, catalogue: Catalogue) -> Self:
        """A copy of the settings in which the cohort is a number of devices of this federation."""
        return self.model_copy(update={"cohort": min(self.cohort, catalogue.users) or catalogue.users})

    def default_rounds(self, catalogue: Catalogue) -> int:
        """Training rounds if none are asked for: the setting `rounds`, of any data set."""
        return self.rounds

    def init_server(self, catalogue: Catalogue, key: np.uint64) -> FCFServer:
        """The initial item factors y ~ N(0, init_std^2), and Adam's moments at 0."""
        y = normals(folds(key, np.arange(catalogue.items)), self.factors, self.init_std)
        return FCFServer(y, np.zeros_like(y), np.zeros_like(y), np.zeros(1, np.int64))

    def init_devices(self, users: Int64Array, key: np.uint64) -> FCFDevices:
        """The initial user factors x_u = 0; each is solved for as soon as y arrives."""
        return FCFDevices(np.zeros((len(users), self.factors), np.float32))

    def select(self, server: FCFServer, catalogue: Catalogue, key: np.uint64) -> Int64Array:
        """The devices that report before the server steps, drawn at random."""
        return cohort(key, self.configured(catalogue).cohort, catalogue.users)

    def download(self, server: FCFServer) -> FCFDownload:
        """The item factors Y, and the product Y^T Y, which every device needs."""
        return FCFDownload(server.y, _gram(server.y))

    def local(
        self, download: FCFDownload, devices: FCFDevices, histories: Histories, users: Int64Array, key: np.uint64
    ) -> tuple[FCFDevices, Update]:
        """Solves x_u = (Y^T C_u Y + lambda I)^-1 Y^T C_u p_u on each device, and sends f(u, i) = c_ui (p_ui - x_u . y_i) x_u for every
        item i."""
        x = self._solve(download, histories)
        f = np.empty((len(users), *download.y.shape), np.float32)
        _gradients(download.y, x, histories, self._confidence(histories), self.unobserved, f)
        nothing = np.zeros(len(users) + 1, np.int64)
        return FCFDevices(x), Update(nothing, np.empty(0, np.int32), {}, {"f": f}, np.ones(len(users), np.float32))

    def aggregate(self, server: FCFServer, total: Total) -> FCFServer:
        """The server's step along dJ/dy_i = -2 sum_u f(u, i) + 2 lambda y_i, by Adam or plain gradient descent."""
        y = server.y.astype(np.float64)
        gradient = -2 * real(total.dense["f"][0]) + 2 * self.reg * y
        if self.optimiser == "sgd":
            return server._replace(y=(y - self.learning_rate * gradient).astype(np.float32), step=server.step + 1)
        step = int(server.step[0]) + 1
        m = moment(server.m, gradient, self.beta1, 1 - self.beta1)
        v = moment(server.v, gradient * gradient, self.beta2, 1 - self.beta2)
        mean, square = m / (1 - self.beta1**step), v / (1 - self.beta2**step)
        move = direction(mean, square, self.learning_rate, 1.0, EPSILON)
        return FCFServer((y - move).astype(np.float32), m.astype(np.float32), v.astype(np.float32), server.step + 1)

    def score(self, download: FCFDownload, devices: FCFDevices, histories: Histories) -> Float32Array:
        """Scores of every item, x_u . y_i with x_u solved against the y just received: float32 [m, items]."""
        none = np.zeros(len(download.y), np.float32)
        return bpr_mf.scores(self._solve(download, histories), download.y, none)

    def _solve(self, download: FCFDownload, histories: Histories) -> Float32Array:
        x = np.empty((len(histories.ptr) - 1, self.factors), np.float32)
        _solve(download.y, download.gram, histories, self._confidence(histories), self.unobserved, self.reg, x)
        return x

    def _confidence(self, histories: Histories) -> Float32Array:
        """c_ui of every consumed item, float32 like histories.item."""
        if self.ratings:
            return (self.unobserved + self.alpha * histories.value).astype(np.float32)
        return np.full(len(histories.item), 1 + self.alpha if self.unobserved else 1, np.float32)


# ---- on one device, in plain loops ---------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _gram(y: Float32Array) -> Float64Array:
    """Y^T Y, float64 [F, F], item by item: the same bits on any machine with this arithmetic, which BLAS does not promise."""
    factors = y.shape[1]
    out = np.zeros((factors, factors))
    for i in range(len(y)):
        for f in range(factors):
            weight, row = np.float64(y[i, f]), out[f]
            for g in range(f + 1):
                row[g] += weight * y[i, g]
    return out


@njit(cache=True, nogil=True)
def _solve(
    y: Float32Array, gram: Float64Array, histories: Histories, c: Float32Array, unobserved: float, reg: float, x: Float32Array
) -> None:
    """x_u of every device. Y^T C_u Y = w Y^T Y + Y^T (C_u - w I) Y with w the weight of what was not consumed."""
    factors = y.shape[1]
    for u in range(len(x)):
        a, rhs = unobserved * gram, np.zeros(factors)
        for f in range(factors):
            a[f, f] += reg
        for r in range(histories.ptr[u], histories.ptr[u + 1]):
            row, confidence = y[histories.item[r]], np.float64(c[r])
            for f in range(factors):
                weight = (confidence - unobserved) * row[f]
                rhs[f] += confidence * row[f]
                for g in range(f + 1):
                    a[f, g] += weight * row[g]
        _cholesky_solve(a, rhs)
        x[u] = rhs.astype(np.float32)


@njit(cache=True, nogil=True)
def _cholesky_solve(a: Float64Array, rhs: Float64Array) -> None:
    """rhs <- a^-1 rhs for a symmetric positive definite matrix given by its lower triangle, which is overwritten by its factor."""
    n = len(rhs)
    for f in range(n):
        for g in range(f + 1):
            left = a[f, g]
            for h in range(g):
                left -= a[f, h] * a[g, h]
            a[f, g] = np.sqrt(max(left, 1e-12)) if f == g else left / a[g, g]
        for g in range(f):
            rhs[f] -= a[f, g] * rhs[g]
        rhs[f] /= a[f, f]
    for f in range(n - 1, -1, -1):
        for g in range(f + 1, n):
            rhs[f] -= a[g, f] * rhs[g]
        rhs[f] /= a[f, f]


@njit(cache=True, nogil=True)
def _gradients(
    y: Float32Array, x: Float32Array, histories: Histories, c: Float32Array, unobserved: float, out: Float32Array
) -> None:
    """f(u, i) = c_ui (p_ui - x_u . y_i) x_u for every device and item, out: [m, items, F]."""
    factors = y.shape[1]
    error = np.empty(len(y), np.float32)
    for u in range(len(x)):
        _errors(
            y,
            x[u],
            histories.item[histories.ptr[u] : histories.ptr[u + 1]],
            c[histories.ptr[u] : histories.ptr[u + 1]],
            unobserved,
            error,
        )
        for i in range(len(y)):
            for f in range(factors):
                out[u, i, f] = error[i] * x[u, f]


@njit(cache=True, nogil=True)
def _errors(
    y: Float32Array, x: Float32Array, consumed: Int32Array, c: Float32Array, unobserved: float, error: Float32Array
) -> None:
    """c_ui (p_ui - x_u . y_i) of every item."""
    for i in range(len(y)):
        score = np.float32(0)
        for f in range(len(x)):
            score += x[f] * y[i, f]
        error[i] = -np.float32(unobserved) * score
    for r in range(len(consumed)):
        i = consumed[r]
        score = np.float32(0)
        for f in range(len(x)):
            score += x[f] * y[i, f]
        error[i] = c[r] * (np.float32(1) - score)


ALGORITHMS = {
    "fcf": FCF,
    "fcf-huawei": partial(FCF, unobserved=0.0, alpha=0.0, optimiser="sgd", learning_rate=0.005, reg=1.0),
}
