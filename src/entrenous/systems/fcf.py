"""FCF, Federated Collaborative Filtering.

M. Ammad-ud-din, E. Ivannikova, S. A. Khan, W. Oyomno, Q. Fu, K. E. Tan, A. Flanagan, "Federated
collaborative filtering for privacy-preserving personalized recommendation system", arXiv:1901.09888
(2019). The cost is that of Hu, Koren and Volinsky (2008):

    J = sum_ui c_ui (p_ui - x_u . y_i)^2 + lambda (sum_u |x_u|^2 + sum_i |y_i|^2)

with p_ui = 1 if u consumed i, else 0, and c_ui = 1 + alpha r_ui.

A device sends one of two forms, of which the server makes the same sum: `form=printed`, the
gradient f(u, i) of every item, or `form=gram`, x_u x_u^T with a row for each consumed item, from
which all f(u, i) follow (`local`). The second form is ours; it splits the sum as Hu, Koren and
Volinsky do theirs.

`fcf` is the method as published. `fcf-huawei` is the method in FPL's tables
(sciueferrara/fcf-huawei): weight 0 instead of 1 for items not consumed, no alpha, and plain
gradient descent on the server. It is a weaker method. `fcf-newton` is ours: the second form, steps
over the curvature and lambda by frequency (`reg_by`, after S. Rendle, W. Krichene, L. Zhang, Y.
Koren, "Revisiting the performance of iALS on item recommendation benchmarks", RecSys 2022), which
needs a tenth of the rounds.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, ClassVar, Literal, NamedTuple, Self, final

import numpy as np
from pydantic import Field, model_validator

from ..core.contract.declarations import SentArray, Traits, axes, dense, rows
from ..core.contract.protocols import Catalogue, Histories
from ..core.contract.update import Total, Update, real
from ..core.errors import InputError
from ..core.keys import folds, normals
from ..core.lanes.memory import owners_of
from ..core.types import Float32Array, Float64Array, Int64Array
from ..core.values import FEW_PEOPLE, MANY_PEOPLE, SettingValue
from ..kernels import bpr_mf
from ..kernels import fcf as kernels
from ..kernels.adam import EPSILON, direction, moment
from ._cohort import InCohorts


class FCFServer(NamedTuple):
    """The state of the server."""

    y: Float32Array
    """float32 [items, F], item factors."""
    m: Float32Array
    """Adam's first moment of `y`."""
    v: Float32Array
    """Adam's second moment of `y`."""
    step: Int64Array
    """int64 [1], Adam's steps so far."""


class FCFDownload(NamedTuple):
    """The model as a device receives it."""

    y: Annotated[Float32Array, axes("items", "factors")]
    """float32 [items, F], item factors."""


class FCFModel(NamedTuple):
    """The model as a device computes with it."""

    y: Float32Array
    """float32 [items, F], item factors as they were received."""
    gram: Float64Array
    """float64 [F, F], the lower triangle of Y^T Y. Each device makes it from `y`: a server that
    sent another matrix could choose who answers with anything but 0, and read them one by one.
    """


class FCFDevices(NamedTuple):
    """Private state of m devices."""

    x: Annotated[Float32Array, axes("factors")]
    """float32 [m, F], user factors. They never leave."""


@final
class FCF(InCohorts):
    """Federated collaborative filtering: each device solves for its x_u exactly and sends the
    gradient of every item's factors.
    """

    # The cost J.
    factors: int = Field(32, ge=1, le=1024, description="F, the length of x_u and y_i")
    alpha: float = Field(
        1.0, ge=0, description="c_ui = 1 + alpha r_ui: confidence of consumed items"
    )
    reg: float = Field(10.0, ge=0, description="lambda on x_u and y_i")
    reg_by: Literal["vector", "root", "confidence"] = Field(
        "vector",
        description=(
            "vector: lambda of every vector, as published; confidence, root: lambda times the sum"
            " of its c_ui, or the root of it. The sum of an item is of those who sent a row for it,"
            " which nobody does if form=printed: as if nobody had consumed it"
        ),
    )
    # The server's step.
    learning_rate: float = Field(0.05, gt=0, description="of the server's optimiser")
    optimiser: Literal["adam", "sgd", "newton"] = Field(
        "adam",
        description=(
            "the server's step: adam as published; sgd as FPL's comparison ran it; newton: each"
            " item's gradient over its curvature, for form=gram and a learning_rate near 1"
        ),
    )
    beta1: float = Field(0.9, ge=0, lt=1, description="Adam's decay of the mean")
    beta2: float = Field(0.99, ge=0, lt=1, description="Adam's decay of the variance")
    # Other readings of the cost, and the two forms of what is sent.
    unobserved: float = Field(
        1.0,
        ge=0,
        description=(
            "confidence of items not consumed: 1 as published, 0 as FPL's comparison ran it"
        ),
    )
    ratings: bool = Field(False, description="r_ui is the rating (True) or 1 (False)")
    form: Literal["printed", "gram"] = Field(
        "printed",
        description=(
            "printed: a gradient for every item leaves a device; gram: x_u x_u^T and a row for each"
            " consumed item, the same sum"
        ),
    )
    # The federation.
    cohort: int = Field(0, ge=0, description="devices in a round; 0 = all")
    rounds: int = Field(100, ge=1, description="training length")
    init_std: float = Field(0.1, ge=0, description="standard deviation of the first y")

    @model_validator(mode="after")
    def _newton_needs_gram(self) -> Self:
        if self.optimiser == "newton" and self.form != "gram":
            raise ValueError(
                "optimiser=newton needs form=gram, which tells the server the sum of the x_u x_u^T"
            )
        return self

    holds: ClassVar[type] = FCFServer
    receives: ClassVar[type] = FCFDownload
    keeps: ClassVar[type] = FCFDevices
    sends: ClassVar[tuple[SentArray, ...]] = (
        dense(
            "f",
            "items",
            "factors",
            when="each round if form=printed, a row for every item",
            reveals=(
                "the rows are multiples of x_u, larger for consumed items: seen singly, x_u's"
                " direction and the whole history can be read off. In sums it stays hidden only"
                " while nobody can take them apart: sums of the same parties over some rounds give"
                " single histories, and two sums that differ by one party give that party's"
            ),
            only_if="printed",
        ),
        rows(
            "own",
            "factors",
            when="each round if form=gram, a row for every consumed item",
            reveals=(
                "the rows that are there are the history, seen singly. A sum comes apart as one of"
                " f does, and says how many of its parties consumed each item, which over changing"
                " parties tells more than f (docs/algorithms.md). Under noise, or with `rows=all`,"
                " every device sends a row for every item, and nothing is counted"
            ),
            only_if="by_gram",
        ),
        dense(
            "outer",
            "triangle",
            when="each round if form=gram, x_u x_u^T without its upper half",
            reveals=(
                "x_u up to its sign, seen singly: with the item factors every score of the user. In"
                " a sum it is the second moment of its parties' x_u"
            ),
            only_if="by_gram",
        ),
    )
    # No negatives are drawn: every unobserved item counts, with confidence `unobserved`.
    traits: ClassVar[Traits] = Traits(draws_negatives=False, same_rows=True)

    def configured(self, catalogue: Catalogue) -> Self:
        """Returns a copy of the settings in which the cohort is a number of devices of this
        federation. Raises InputError for ratings that would make a confidence negative.
        """
        lowest = catalogue.scale[0]
        if self.ratings and self.unobserved + self.alpha * lowest < 0:
            raise InputError(
                "fcf",
                f"c_ui = {self.unobserved:g} + {self.alpha:g} r_ui is negative where r_ui is"
                f" {lowest:g}",
                expected="ratings of 0 or more under ratings=True",
                fix="load the data with likes=positive, or leave ratings=True out",
            )
        return super().configured(catalogue)

    def search_space(self) -> dict[str, str]:
        """Returns the ranges that a search of settings draws from by default."""
        if self.optimiser == "newton":
            reg = {"vector": "2..100:log", "root": "0.05..3:log", "confidence": "0.001..0.05:log"}
            return {"factors": "16..192:log", "alpha": "0.5..10:log", "reg": reg[self.reg_by]}
        return {
            "factors": "16..128:log",
            "alpha": "0.5..10:log",
            "reg": "0.5..100:log",
            "learning_rate": "0.005..0.2:log",
        }

    def private_set(self, users: int) -> dict[str, SettingValue]:
        """Returns the settings that were tested together under the profile `private`, for FCF as
        published and for `fcf-newton`.
        """
        if not self.unobserved:
            return {}
        if self.by_gram:
            # Noise in a large matrix leaves no step of Newton.
            return {"cohort": 0, "rounds": 4, "factors": 8, "alpha": 1.5}
        # Few rounds of everybody: a person's answers add up, and noise is least in large sums.
        # Vectors that are regularised more follow a model less, which matters most of few people.
        if users >= MANY_PEOPLE:
            return {"cohort": 0, "alpha": 3.0, "rounds": 12, "learning_rate": 0.08}
        quick: dict[str, SettingValue] = {"cohort": 0, "rounds": 7, "learning_rate": 0.1}
        if users >= FEW_PEOPLE:
            return {**quick, "alpha": 3.0, "factors": 16, "reg": 20.0}
        # A larger weight of what somebody has would say more of a planted model.
        return {**quick, "alpha": 1.5, "factors": 32, "reg": 20.0}

    @property
    def by_gram(self) -> bool:
        """True if devices send x_u x_u^T and rows of consumed items."""
        return self.form == "gram"

    @property
    def printed(self) -> bool:
        """True if devices send a gradient for every item."""
        return not self.by_gram

    def sizes(self, catalogue: Catalogue) -> dict[str, int]:
        """Returns the sizes of the declared arrays: numbers of x_u x_u^T, F (F + 1) / 2 (triangle),
        and items of a history, on average (usual_rows).
        """
        usual = catalogue.interactions // max(1, catalogue.users)
        return {
            "triangle": self.factors * (self.factors + 1) // 2,
            "usual_rows": max(1, min(catalogue.items, usual)),
        }

    def init_server(self, catalogue: Catalogue, key: np.uint64) -> FCFServer:
        """Returns the initial item factors y ~ N(0, init_std^2), and Adam's moments at 0."""
        y = normals(folds(key, np.arange(catalogue.items)), self.factors, self.init_std)
        return FCFServer(y, np.zeros_like(y), np.zeros_like(y), np.zeros(1, np.int64))

    def init_devices(self, users: Int64Array, catalogue: Catalogue, key: np.uint64) -> FCFDevices:
        """Returns the initial user factors x_u = 0; each is solved for as soon as y arrives."""
        return FCFDevices(np.zeros((len(users), self.factors), np.float32))

    def download(self, server: FCFServer) -> FCFDownload:
        """Returns the item factors Y."""
        return FCFDownload(server.y)

    def follow(self, download: FCFDownload) -> FCFModel:
        """Returns the item factors Y with Y^T Y, which is the same for all users."""
        return FCFModel(download.y, kernels.gram(download.y))

    def local(
        self,
        download: FCFModel,
        devices: FCFDevices,
        histories: Histories,
        users: Int64Array,
        key: np.uint64,
    ) -> tuple[FCFDevices, Update]:
        """Solves x_u = (Y^T C_u Y + lambda I)^-1 Y^T C_u p_u on each device. Sends f(u, i) = c_ui
        (p_ui - x_u . y_i) x_u for every item i; with form=gram x_u x_u^T, and for every consumed
        item f(u, i) + w x_u x_u^T y_i, where w = `unobserved`. Of all other items that is 0.
        """
        consumed = self._consumed(histories)
        x = self._solve(download, consumed)
        weight = np.ones(len(users), np.float32)
        if self.by_gram:
            rows = {"own": kernels.own_rows(download.y, x, consumed, self.unobserved)}
            dense = {"outer": kernels.outer_products(x)}
            update = Update(histories.ptr, histories.item, rows, dense, weight)
        else:
            f = kernels.gradients(download.y, x, consumed, self.unobserved)
            no_rows = np.zeros(len(users) + 1, np.int64), np.empty(0, np.int32)
            update = Update(*no_rows, {}, {"f": f}, weight)
        return FCFDevices(x), update

    def aggregate(self, server: FCFServer, total: Total) -> FCFServer:
        """Returns the new item factors, a step along dJ/dy_i = -2 sum_u f(u, i) + 2 lambda y_i by
        the server's optimiser.
        """
        y = server.y.astype(np.float64)
        # - dJ/dy / 2
        downhill = self._summed(server.y, total) - self._reg_of_items(total)[:, None] * y
        step = server.step + 1
        if self.optimiser == "sgd":
            after = y + 2 * self.learning_rate * downhill
            return server._replace(y=after.astype(np.float32), step=step)
        if self.optimiser == "newton":
            after = y + self.learning_rate * self._over_curvature(downhill, total)
            return server._replace(y=after.astype(np.float32), step=step)
        gradient = -2 * downhill
        # Adam, in float64 until the state is kept
        m = moment(server.m, gradient, self.beta1, 1 - self.beta1)
        v = moment(server.v, gradient * gradient, self.beta2, 1 - self.beta2)
        mean = m / (1 - self.beta1 ** int(step[0]))
        square = v / (1 - self.beta2 ** int(step[0]))
        after = y - direction(mean, square, self.learning_rate, 1.0, EPSILON)
        return FCFServer(after.astype(np.float32), m.astype(np.float32), v.astype(np.float32), step)

    def _summed(self, y: Float32Array, total: Total) -> Float64Array:
        """Returns sum_u f(u, i) of every item, float64 [items, F]."""
        if self.printed:
            return real(total.dense["f"][0])
        # f(u, i) = own_ui - w x_u x_u^T y_i, of all users together
        outer = real(total.dense["outer"][0])
        return real(total.rows["own"]) - self.unobserved * kernels.times_triangle(y, outer)

    def _over_curvature(self, downhill: Float64Array, total: Total) -> Float64Array:
        """Returns the step of `newton`: downhill_i solved against the curvature sum_u c_ui x_u
        x_u^T + lambda I of item i, in which those who consumed the item stand for n_i / m of the
        sum over all m devices. 10 of these rounds do the work of 100 of Adam's.
        """
        share = total.senders / max(1, total.devices)  # n_i / m
        weight = self.unobserved + self._extra * share
        outer = real(total.dense["outer"][0])
        return kernels.over_curvature(downhill, outer, weight, self._reg_of_items(total))

    @property
    def _extra(self) -> float:
        """c_ui - w of a consumed item whose r_ui is 1."""
        return self.alpha if self.unobserved else 1.0

    def _reg_of_items(self, total: Total) -> Float64Array:
        """Returns lambda on each y_i, float64 [items]."""
        # m devices weigh `unobserved`; those who consumed the item weigh more.
        confidence = self.unobserved * total.devices + self._extra * total.senders
        return self._reg_by(np.asarray(confidence, np.float64))

    def _reg_of_users(self, items: int, consumed: kernels.Consumed) -> Float64Array:
        """Returns lambda on the x_u of each device, float64 [m]."""
        devices = len(consumed.ptr) - 1
        # As published, lambda is one number: to add up all c_ui would take 5 % of a round.
        if self.reg_by == "vector":
            return np.full(devices, self.reg)
        # All items weigh `unobserved`; the consumed ones weigh more.
        user = owners_of(consumed.ptr)
        weights = consumed.c.astype(np.float64) - self.unobserved
        extra = np.bincount(user, weights=weights, minlength=devices)
        return self._reg_by(np.asarray(self.unobserved * items + extra, np.float64))

    def _reg_by(self, confidence: Float64Array) -> Float64Array:
        """Returns lambda of vectors whose c_ui add up to `confidence`."""
        if self.reg_by == "vector":
            return np.full(len(confidence), self.reg)
        return self.reg * (np.sqrt(confidence) if self.reg_by == "root" else confidence)

    def score(self, download: FCFModel, devices: FCFDevices, histories: Histories) -> Float32Array:
        """Returns the scores of every item, x_u . y_i with x_u solved against the y just received,
        float32 [m, items].
        """
        x = self._solve(download, self._consumed(histories))
        return bpr_mf.scores(x, download.y, np.zeros(len(download.y), np.float32))

    def _solve(self, download: FCFModel, consumed: kernels.Consumed) -> Float32Array:
        reg = self._reg_of_users(len(download.y), consumed)
        return kernels.solve(download.y, download.gram, consumed, self.unobserved, reg)

    def _consumed(self, histories: Histories) -> kernels.Consumed:
        """Returns the consumed items of the devices, with c_ui of each."""
        if self.ratings:
            c = (self.unobserved + self.alpha * histories.value).astype(np.float32)
        else:
            confidence = 1 + self.alpha if self.unobserved else 1
            c = np.full(len(histories.item), confidence, np.float32)
        return kernels.Consumed(histories.ptr, histories.item, c)


ALGORITHMS = {
    "fcf": FCF,
    "fcf-newton": partial(
        FCF,
        form="gram",
        optimiser="newton",
        learning_rate=1.0,
        reg_by="root",
        reg=0.5,
        alpha=3.0,
        factors=128,
        rounds=8,
    ),
    "fcf-huawei": partial(
        FCF, unobserved=0.0, alpha=0.0, optimiser="sgd", learning_rate=0.005, reg=1.0
    ),
}
