"""MetaMF, meta matrix factorisation for federated rating predictions, in its on-device form.

Y. Lin, P. Ren, Z. Chen, Z. Ren, D. Yu, J. Ma, M. de Rijke, X. Cheng, "Meta matrix factorization for federated rating predictions",
SIGIR 2020. The server holds a meta network (kernels/meta_network.py) that makes, from the embedding of a user, an item table A_u B_u and a
predictor of that user's own; the device predicts

    r^_ui = middle of the scale + w2 . relu(W1^T (A_u[i] B_u) + b1) + b2

and returns the gradient of (r_ui - r^_ui)^2 by A_u[i], B_u and the predictor for a batch of its ratings; the server goes on from there with
back-propagation through the meta network (algorithm 1) and takes one Adam step, with weight decay and a bound on the gradient's norm.

The published program (TempSDU/MetaMF) runs none of this on devices: it is trained centrally, by batches of 64 ratings of anybody.
Deviations from it: a round is `cohort` devices with up to `batch` ratings each, the gradient being the mean over these ratings; hidden
layers are 128 wide, not 512; the learning rate is higher for fewer steps; the table travels as its two factors, a quarter of its size
(nothing between the factors and the predictor's first layer is nonlinear, so the device never needs their product); predictions start
from the middle of the scale; a layer's weights and biases are generated from the same hidden layer; what the generated models share does
not start at 0, where the product A_u B_u has a saddle that weight decay makes hard to leave. The published
figures (ML-1M: MAE .687, RMSE .872) are not reached.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, NamedTuple, Self, final

import numpy as np
from numba import njit
from pydantic import Field

from ..core.adam import AdamStep, adam_step, direction, moment
from ..core.contract import SentArray, Traits, axes, shown
from ..core.keys import below, draw, folds
from ..core.protocols import Catalogue, Histories
from ..core.ratings import rated
from ..core.sampling import cohort
from ..core.settings import Settings
from ..core.types import Float32Array, Int32Array, Int64Array, UInt64Array
from ..core.update import Total, Update, gathered
from ..kernels import meta_network
from ..kernels.meta_network import MetaSizes

NONE = np.float32(-1)  # where a device has fewer ratings than a batch


class MetaMFServer(NamedTuple):
    """The state of the server. theta: all parameters of the meta network, float32 [n]; m, s: Adam's moments of them. users, items: int64
    [1]. scale: float32 [2], lowest and highest rating. step: int64 [1], Adam's steps so far."""

    theta: Float32Array
    m: Float32Array
    s: Float32Array
    users: Int64Array
    items: Int64Array
    scale: Float32Array
    step: Int64Array


class MetaMFDownload(NamedTuple):
    """The models that the server makes for m devices. low: A_u, float32 [m, items, L]; rise: B_u, [m, L, D]; first: [m, (D + 1) P],
    weights [D, P] and biases; second: [m, P + 1], weights and a bias. middle: float32 [1], of the scale."""

    low: Annotated[Float32Array, axes("devices", "items", "low")]
    rise: Annotated[Float32Array, axes("devices", "low", "factors")]
    first: Annotated[Float32Array, axes("devices", "first")]
    second: Annotated[Float32Array, axes("devices", "second")]
    middle: Annotated[Float32Array, axes(1)]


class MetaMFDevices(NamedTuple):
    """No private state: the server makes a device's model anew in each round; a device keeps only its ratings."""


@final
class MetaMF(Settings):
    """Meta matrix factorisation: the server generates a rating predictor for each user, and learns from the gradients devices return."""

    user: int = Field(32, ge=1, le=1024, description="length of a user's embedding, which the server holds")
    taste: int = Field(128, ge=16, le=4096, multiple_of=16, description="length of the collaborative vector made from it")
    hidden: int = Field(
        128, ge=16, le=4096, multiple_of=16, description="width of each generator's hidden layer; 512 as published"
    )
    low: int = Field(8, ge=1, le=1024, description="L: the item table is generated as [items, L] times [L, D]")
    factors: int = Field(32, ge=1, le=1024, description="D, the length of a generated item embedding")
    predictor: int = Field(8, ge=1, le=1024, description="P, the width of the generated predictor's hidden layer")
    batch: int = Field(128, ge=1, le=100000, description="B_u, ratings that a device draws in a round; all if it has fewer")
    cohort: int = Field(512, ge=0, description="S, devices in a round; 0 = all")
    rounds: int = Field(200, ge=1, description="training length")
    learning_rate: float = Field(0.004, gt=0, le=10, description="of Adam; 0.0001 as published")
    reg: float = Field(
        0.003, ge=0, le=100, description="weight decay; 0.001 as published. Large data wants less: 0.0005 on ML-1M"
    )
    decay: Literal["gradient", "apart"] = Field(
        "gradient",
        description="weight decay is added to the gradient, as published, or shrinks parameters apart from Adam's step (AdamW)",
    )
    init_std: float = Field(
        0.3,
        ge=0,
        description="standard deviation of the first biases of output layers, which all users' models share; 0 as published",
    )
    clip: float = Field(5.0, gt=0, le=1e9, description="largest norm of the gradient of a round")

    holds: ClassVar[type] = MetaMFServer
    receives: ClassVar[type] = MetaMFDownload
    keeps: ClassVar[type] = MetaMFDevices
    sends: ClassVar[tuple[SentArray, ...]] = (
        shown(
            "item",
            "batch",
            when="each round a device takes part in, by name",
            reveals="which items were rated, plainly: no item but a rated one is listed, and in some rounds all are",
            below="items",
            least=-1,
        ),
        shown(
            "low",
            "batch",
            "low",
            when="with every item, by name",
            reveals="the rating: the gradient of A_u[i] is the error times numbers that the server made itself, so it can divide",
        ),
        shown("rise", "low", "factors", when="each round a device takes part in, by name", reveals="a summary of its batch"),
        shown("first", "first", when="each round a device takes part in, by name", reveals="a summary of its batch"),
        shown(
            "second",
            "second",
            when="each round a device takes part in, by name",
            reveals="a summary of its batch; the last number is the sum of its errors. Nothing that a device sends can be hidden in a sum "
            "over devices: the server goes on through the network it made for this user, whose embedding it also holds",
        ),
    )
    traits: ClassVar[Traits] = Traits(predicts_ratings=True, draws_negatives=False)

    def configured(self, catalogue: Catalogue) -> Self:
        """A copy of the settings in which the cohort is a number of devices of this federation. Raises InputError for data without
        ratings."""
        rated(catalogue.scale, "metamf")
        return self.model_copy(update={"cohort": min(self.cohort, catalogue.users) or catalogue.users})

    def default_rounds(self, catalogue: Catalogue) -> int:
        """Training rounds if none are asked for: the setting `rounds`, of any data set."""
        return self.rounds

    def sizes(self, catalogue: Catalogue) -> dict[str, int]:
        """Sizes of the declared arrays. first, second: numbers in the layers of a generated predictor."""
        return {"first": self.meta_sizes(1, 1).first, "second": self.predictor + 1}

    def meta_sizes(self, users: int, items: int) -> MetaSizes:
        """Sizes of the meta network's layers."""
        return MetaSizes(users, items, self.user, self.taste, self.hidden, self.low, self.factors, self.predictor)

    def _sizes(self, server: MetaMFServer) -> MetaSizes:
        return self.meta_sizes(int(server.users[0]), int(server.items[0]))

    # ---- on the server: algorithm 1, generation -----------------------------------------------------------------------------------

    def init_server(self, catalogue: Catalogue, key: np.uint64) -> MetaMFServer:
        """The initial meta network: Xavier-normal weights; biases 0, but for what all generated models share."""
        theta = meta_network.first_parameters(self.meta_sizes(catalogue.users, catalogue.items), key, self.init_std)
        users, items = np.array([catalogue.users]), np.array([catalogue.items])
        scale = np.array(catalogue.scale, np.float32)
        return MetaMFServer(theta, np.zeros_like(theta), np.zeros_like(theta), users, items, scale, np.zeros(1, np.int64))

    def init_devices(self, users: Int64Array, key: np.uint64) -> MetaMFDevices:
        """Private state without arrays: a device keeps its ratings alone."""
        return MetaMFDevices()

    def select(self, server: MetaMFServer, catalogue: Catalogue, key: np.uint64) -> Int64Array:
        """The round's devices S, drawn uniformly at random."""
        return cohort(key, self.configured(catalogue).cohort, catalogue.users)

    def download(self, server: MetaMFServer) -> MetaMFServer:
        """The whole server state, from which `deliver` makes each user's model."""
        return server

    def deliver(self, download: MetaMFServer, users: Int64Array) -> MetaMFDownload:
        """The models that the meta network makes for `users`: the factored item table and the predictor of each."""
        sizes = self._sizes(download)
        made = meta_network.generate(meta_network.views(download.theta, sizes), sizes, users)
        return MetaMFDownload(*made, download.scale.mean(keepdims=True))

    # ---- on the device -----------------------------------------------------------------------------------------------------------

    def local(
        self, download: MetaMFDownload, devices: MetaMFDevices, histories: Histories, users: Int64Array, key: np.uint64
    ) -> tuple[MetaMFDevices, Update]:
        """The gradient of the squared errors by all received parameters, added over a batch of each device's ratings."""
        m, shapes = len(users), ((self.batch,), (self.batch, self.low), *(array.shape[1:] for array in download[1:4]))
        shown = dict(
            zip(("item", "low", "rise", "first", "second"), (np.zeros((m, *shape), np.float32) for shape in shapes), strict=True)
        )
        shown["item"][:] = NONE
        _local(download, histories.ptr, histories.item, histories.value, folds(key, users), *shown.values())
        nothing, weight = np.zeros(m + 1, np.int64), np.ones(m, np.float32)
        return devices, Update(nothing, np.empty(0, np.int32), {}, {}, weight, shown=shown, sender=users)

    def score(self, download: MetaMFDownload, devices: MetaMFDevices, histories: Histories) -> Float32Array:
        """Predicted ratings r^_ui of every item, float32 [m, items]."""
        out = np.empty(download.low.shape[:2], np.float32)
        _score(download, out)
        return out

    # ---- on the server: algorithm 1, back-propagation ------------------------------------------------------------------------------

    def aggregate(self, server: MetaMFServer, total: Total) -> MetaMFServer:
        """The server's step (algorithm 1): back-propagation of the mean over the round's ratings, device by device in the order of
        users, and a step of Adam."""
        sender, shown = gathered(total)
        sizes, slope = self._sizes(server), np.zeros_like(server.theta)
        scale = np.float32(1 / max(1, int((shown["item"] >= 0).sum())))
        parts = shown["item"], shown["low"], shown["rise"].reshape(len(sender), -1), shown["first"], shown["second"]
        meta_network.back(meta_network.views(server.theta, sizes), sender, *parts, scale, meta_network.views(slope, sizes))
        theta, m, s = server.theta.copy(), server.m.copy(), server.s.copy()
        regs = (self.reg, 0.0) if self.decay == "gradient" else (0.0, self.learning_rate * self.reg)
        _descend(theta, m, s, slope, self.clip, *regs, adam_step(self.learning_rate, int(server.step[0]) + 1))
        return server._replace(theta=theta, m=m, s=s, step=server.step + 1)


# ---- in plain loops ------------------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _through(rise: Float32Array, first: Float32Array, through: Float32Array) -> None:
    """B_u W1, [L, P]: from a row of A_u straight to the predictor's hidden layer. first: [(D + 1) P]."""
    length, width = through.shape
    for k in range(length):
        for p in range(width):
            through[k, p] = np.float32(0)
        for f in range(rise.shape[1]):
            for p in range(width):
                through[k, p] += rise[k, f] * first[f * width + p]


@njit(cache=True, nogil=True)
def _predict(row: Float32Array, through: Float32Array, first: Float32Array, second: Float32Array, z: Float32Array) -> np.float32:
    """The predictor on a row of A_u, without the middle; z: its hidden layer before the rectifier."""
    length, width = through.shape
    for p in range(width):
        z[p] = first[len(first) - width + p]
    for k in range(length):
        for p in range(width):
            z[p] += row[k] * through[k, p]
    out = second[width]
    for p in range(width):
        if z[p] > np.float32(0):
            out += second[p] * z[p]
    return out  # type: ignore[return-value]  # a number


@njit(cache=True, nogil=True)
def _score(received: MetaMFDownload, out: Float32Array) -> None:
    """r^_ui of all devices and items."""
    width, middle = received.second.shape[1] - 1, received.middle[0]
    through, z = np.empty((received.rise.shape[1], width), np.float32), np.empty(width, np.float32)
    for d in range(len(out)):
        low, first, second = received.low[d], received.first[d], received.second[d]
        _through(received.rise[d], first, through)
        for i in range(out.shape[1]):
            out[d, i] = middle + _predict(low[i], through, first, second, z)


@njit(cache=True, nogil=True)
def _local(
    received: MetaMFDownload, ptr: Int64Array, item: Int32Array, value: Float32Array, keys: UInt64Array,
    items: Float32Array, d_low: Float32Array, d_rise: Float32Array, d_first: Float32Array, d_second: Float32Array,
) -> None:  # fmt: skip
    """All devices' batches and the gradients of their squared errors."""
    length, width, batch = received.rise.shape[1], received.second.shape[1] - 1, items.shape[1]
    through, d_through = np.empty((length, width), np.float32), np.empty((length, width), np.float32)
    z, zero, two, place = np.empty(width, np.float32), np.float32(0), np.float32(2), np.empty(batch, np.int64)
    for d in range(len(keys)):
        low, rise, first, second = received.low[d], received.rise[d], received.first[d], received.second[d]
        _through(rise, first, through)
        d_through[:, :] = zero
        biases = len(first) - width
        for n in range(_draw_batch(keys[d], ptr[d + 1] - ptr[d], place)):
            at = ptr[d] + place[n]
            i = item[at]
            guess = received.middle[0] + _predict(low[i], through, first, second, z)
            error = two * (guess - value[at])
            items[d, n] = np.float32(i)
            d_second[d, width] += error
            for p in range(width):
                if z[p] > zero:
                    d_second[d, p] += error * z[p]
                    slope = error * second[p]
                    d_first[d, biases + p] += slope
                    for k in range(length):
                        d_low[d, n, k] += slope * through[k, p]
                        d_through[k, p] += slope * low[i, k]
        for k in range(length):
            for f in range(rise.shape[1]):
                for p in range(width):  # through = B W1
                    d_rise[d, k, f] += d_through[k, p] * first[f * width + p]
                    d_first[d, f * width + p] += rise[k, f] * d_through[k, p]


@njit(cache=True, nogil=True)
def _draw_batch(key: np.uint64, count: int, place: Int64Array) -> int:
    """Distinct places below `count`, ascending, as many as there is room for; returns how many. Each draw keeps its share of what is left:
    place n is taken with probability (still wanted) / (still there)."""
    wanted, n = min(len(place), count), 0
    for k in range(count):
        if n < wanted and (count <= len(place) or below(draw(key, k), count - k) < wanted - n):
            place[n] = k
            n += 1
    return n


@njit(cache=True, nogil=True)
def _norm(slope: Float32Array) -> float:
    """The length of a vector, added in float64 from first to last."""
    total = 0.0
    for k in range(len(slope)):
        total += np.float64(slope[k]) * np.float64(slope[k])
    return np.sqrt(total)  # type: ignore[no-any-return]


@njit(cache=True, nogil=True)
def _descend(
    theta: Float32Array, m: Float32Array, s: Float32Array, slope: Float32Array, clip: float, reg: float, shrink: float, step: AdamStep
) -> None:  # fmt: skip
    """In place: the slope cut to length `clip`, plus reg theta, then a step of Adam; theta also shrinks by a share of itself."""
    shorter = np.float32(min(1.0, clip / (_norm(slope) + 1e-6)))
    decay, kept = np.float32(reg), np.float32(1 - shrink)
    for k in range(len(theta)):
        g = shorter * slope[k] + decay * theta[k]
        m[k] = moment(m[k], g, step.beta1, step.rest1)
        s[k] = moment(s[k], g * g, step.beta2, step.rest2)
        theta[k] = kept * theta[k] - direction(m[k], s[k], step.first, step.second, step.epsilon)


ALGORITHMS = {"metamf": MetaMF}
