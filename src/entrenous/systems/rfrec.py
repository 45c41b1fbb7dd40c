"""RFRec and RFRecF, robust and fast federated recommendation by regularised matrix factorisation.

L. Liu, W. Wang, X. Zhao, Z. Zhang, C. Zhang, S. Lin, Y. Wang, L. Zou, Z. Liu, X. Wei, H. Yin, Q.
Li, "Efficient and robust regularized federated recommendation", CIKM 2024, arXiv:2411.01540
(program: Applied-Machine-Learning-Lab/RFRec; settings as in its notebook). Every client c keeps its
own item table V_c, held near the mean Vbar of all:

    L = sum_(u,i) (r_ui - sigmoid(u_u . v_ci))^2 + reg sum_u |u_u|^2
        + consensus sum_c |V_c - Vbar|^2

with ratings scaled to [0, 1]. RFRec: in each round every client takes one Adam step on U and V_c,
and Vbar becomes the mean of the V_c. RFRecF: a round is, by the toss of a coin, either such a step
on the first two terms or the step on the third, V_c <- V_c + eta (Vbar - V_c). Predictions use
Vbar.

The clients of the published runs hold about 30 users each. A client here is therefore a *gateway*
that serves several devices: a device keeps u_u and its ratings, and sends the gradient of its rated
rows of V_c; the gateway adds them up and steps. Gateways, their tables and Adam's moments are part
of `RFRecServer`. Deviations: nobody is dropped (the notebook leaves out the last 40 users of ML-1M,
so that 200 divides them); users are dealt to gateways in order and as evenly as possible; all V_c
start alike; RFRecF's steps on the data leave out the third term.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, ClassVar, Literal, NamedTuple, Self, final

import numpy as np
from pydantic import Field

from ..core.compiling import njit
from ..core.contract.declarations import SentArray, Traits, UpTo, axes, dense
from ..core.contract.protocols import Catalogue, Histories, rated
from ..core.contract.settings import Settings
from ..core.contract.update import STEP, Total, Update, add_devices, add_rows
from ..core.errors import NonFiniteError
from ..core.keys import draw, fold_name, folds, normals, uniform
from ..core.types import BoolArray, Float32Array, Int32Array, Int64Array, UInt64Array
from ..kernels import bpr_mf
from ..kernels.adam import AdamStep, adam_step, direction, moment
from ..kernels.logistic import logistic

# Devices send gradients times this factor, which keeps small ones above the grid of 2^-16.
EACH = np.float32(2.0**8)


class RFRecServer(NamedTuple):
    """The state of the server and of the gateways."""

    v: Float32Array
    """float32 [clients, items, F], V_c of all gateways."""
    m: Float32Array
    """Adam's first moment of `v`."""
    s: Float32Array
    """Adam's second moment of `v`."""
    mean: Float32Array
    """float32 [items, F], Vbar."""
    gateway: Int32Array
    """int32 [users], the gateway of each device."""
    scale: Float32Array
    """float32 [2], lowest and highest rating."""
    key: UInt64Array
    """uint64 [1], names the coins."""
    round: Int64Array
    """int64 [1], rounds done."""
    step: Int64Array
    """int64 [1], how many of them were steps on the data."""


class RFRecDownload(NamedTuple):
    """The item tables and constants that m devices receive."""

    v: Annotated[Float32Array, axes(UpTo("among", "devices"), "items", "factors")]
    """float32 [gateways among them, items, F], their V_c."""
    at: Annotated[Int32Array, axes("devices", below="among")]
    """int32 [m], the table in `v` of each device's gateway."""
    group: Annotated[Int32Array, axes("devices", below="clients")]
    """int32 [m], the gateway of each device."""
    mean: Annotated[Float32Array, axes("items", "factors")]
    """float32 [items, F], Vbar, by which a device scores."""
    scale: Annotated[Float32Array, axes(2)]
    """float32 [2], lowest and highest rating."""
    learn: Annotated[BoolArray, axes(1)]
    """bool [1], True if this round is a step on the data."""
    step: Annotated[Int64Array, axes(1, least=0)]
    """int64 [1], steps on the data that were done."""
    clients: Annotated[Int64Array, axes(1, least=1)]
    """int64 [1], the number of gateways."""


class RFRecDevices(NamedTuple):
    """Private state of m devices. Nothing of it leaves."""

    u: Annotated[Float32Array, axes("factors")]
    """float32 [m, F], user factors."""
    m: Annotated[Float32Array, axes("factors")]
    """Adam's first moment of `u`."""
    s: Annotated[Float32Array, axes("factors")]
    """Adam's second moment of `u`."""


@final
class RFRec(Settings):
    """Federated matrix factorisation in which groups of devices keep their own item tables, held
    near the mean of all.
    """

    # The model and its cost L.
    factors: int = Field(20, ge=1, le=1024, description="F, the length of u_u and v_i")
    clients: int = Field(
        200,
        ge=1,
        le=100000,
        description="gateways with an item table of their own; at most one a user",
    )
    reg: float = Field(0.1, ge=0, le=1000, description="weight of |u_u|^2")
    consensus: float = Field(
        10.0, ge=0, le=100000, description="weight of |V_c - Vbar|^2; has no part in style fast"
    )
    # Steps; those of RFRecF.
    learning_rate: float = Field(
        0.1, gt=0, le=10, description="of Adam, on the device and at the gateway"
    )
    style: Literal["robust", "fast"] = Field("robust", description="robust: RFRec; fast: RFRecF")
    local_chance: float = Field(
        0.2, gt=0, le=1, description="style fast: how probably a round is a step on the data"
    )
    eta: float = Field(
        1.0, gt=0, le=1, description="style fast: how far V_c goes towards Vbar in the other rounds"
    )
    rounds: int = Field(100, ge=1, description="training length")
    init_std: float = Field(0.01, ge=0, description="standard deviation of the first u and v")

    holds: ClassVar[type] = RFRecServer
    receives: ClassVar[type] = RFRecDownload
    keeps: ClassVar[type] = RFRecDevices
    sends: ClassVar[tuple[SentArray, ...]] = (
        dense(
            "v",
            "items",
            "factors",
            when=(
                "each round with a step on the data: the gradient of V_c, zero but for rated items"
            ),
            reveals=(
                "to the gateway: which items were rated, and by arithmetic over rounds u_u and the"
                " ratings (every row is a multiple of u_u, by an error that a rating on a scale of"
                " five leaves five values for). To the server: only its gateway's table, which some"
                " 30 devices made. A sum over them that nobody opens would give both alike"
            ),
        ),
    )
    traits: ClassVar[Traits] = Traits(
        predicts_ratings=True, draws_negatives=False, groups="clients"
    )

    def configured(self, catalogue: Catalogue) -> Self:
        """Returns a copy of the settings with no more gateways than users. Raises InputError for
        data without ratings.
        """
        rated(catalogue.scale, "rfrec")
        return self.model_copy(update={"clients": min(self.clients, catalogue.users)})

    def default_rounds(self, catalogue: Catalogue) -> int:
        """Returns the number of training rounds if none is asked for: the setting `rounds`."""
        return self.rounds

    def init_server(self, catalogue: Catalogue, key: np.uint64) -> RFRecServer:
        """Returns the initial item tables, all alike: V_c = Vbar ~ N(0, init_std^2)."""
        mean = normals(folds(key, np.arange(catalogue.items)), self.factors, self.init_std)
        # Users are dealt to gateways in order.
        clients = min(self.clients, catalogue.users)
        v = np.repeat(mean[None], clients, axis=0)
        none = np.zeros(1, np.int64)
        return RFRecServer(
            v=v,
            m=np.zeros_like(v),
            s=np.zeros_like(v),
            mean=mean,
            gateway=(np.arange(catalogue.users) * clients // catalogue.users).astype(np.int32),
            scale=np.array(catalogue.scale, np.float32),
            key=np.array([key], np.uint64),
            round=none,
            step=none,
        )

    def init_devices(self, users: Int64Array, catalogue: Catalogue, key: np.uint64) -> RFRecDevices:
        """Returns the initial user factors u_u ~ N(0, init_std^2) of the devices of `users`, and
        Adam's moments at 0.
        """
        u = normals(folds(key, users), self.factors, self.init_std)
        return RFRecDevices(u, np.zeros_like(u), np.zeros_like(u))

    def select(self, server: RFRecServer, catalogue: Catalogue, key: np.uint64) -> Int64Array:
        """Returns the devices of a round: everybody."""
        return np.arange(catalogue.users)

    def download(self, server: RFRecServer) -> RFRecServer:
        """Returns the whole server state, of which `deliver` sends each device its part."""
        return server

    def deliver(self, download: RFRecServer, users: Int64Array) -> RFRecDownload:
        """Returns what the devices of `users` receive: V_c of each device's gateway, Vbar, and the
        kind of the round.
        """
        group = download.gateway[users]
        among, at = np.unique(group, return_inverse=True)
        # A view where the gateways are neighbours: their tables are large.
        if len(among) > 0 and among[-1] - among[0] + 1 == len(among):
            v = download.v[among[0] : among[-1] + 1]
        else:
            v = download.v[among]
        return RFRecDownload(
            v=v,
            at=at.astype(np.int32),
            group=group,
            mean=download.mean,
            scale=download.scale,
            learn=np.array([self._learns(download)]),
            step=download.step,
            clients=np.array([len(download.v)]),
        )

    def _learns(self, server: RFRecServer) -> bool:
        """Tosses the coin of this round."""
        # The same on the server and in all processes: from a key and the number of the round.
        chance = self.local_chance if self.style == "fast" else 1.0
        key = fold_name(server.key[0], int(server.round[0]))
        return bool(uniform(np.uint64(draw(key, 0))) < chance)

    # ---- on the device ---------------------------------------------------------------------------

    def local(
        self,
        download: RFRecDownload,
        devices: RFRecDevices,
        histories: Histories,
        users: Int64Array,
        key: np.uint64,
    ) -> tuple[RFRecDevices, Update]:
        """Trains the devices: one Adam step on u_u, and the gradient of V_c at the same place."""
        after = RFRecDevices(*(array.copy() for array in devices))
        v = np.zeros((len(users), *download.mean.shape), np.float32)
        if download.learn[0]:
            ratings = _ratings(download, histories)
            _local(download.v, download.at, after, ratings, self._numbers(download), v)
        return after, _update(download, {"v": v})

    def local_sum(
        self,
        download: RFRecDownload,
        devices: RFRecDevices,
        histories: Histories,
        users: Int64Array,
        key: np.uint64,
        total: Total,
    ) -> tuple[RFRecDevices, Total, int, int]:
        """Trains as `local` does, and adds the rated rows to `total` one device at a time: the same
        bits. Returns how many rows and bytes were sent, too."""
        after = RFRecDevices(*(array.copy() for array in devices))
        sent = 0
        if download.learn[0]:
            ratings = _ratings(download, histories)
            numbers = self._numbers(download)
            sums = total.dense["v"]
            if not _local_sum(
                download.v, download.at, after, ratings, numbers, download.group, sums
            ):
                raise NonFiniteError(
                    "update: a value is not finite or beyond +-32768; the model is unchanged"
                )
            sent = len(histories.item)
        total = add_devices(total, _update(download, {}))
        return after, total, sent, sent * 4 * (1 + self.factors)

    def _numbers(self, state: RFRecDownload | RFRecServer) -> RFRecNumbers:
        step = adam_step(self.learning_rate, int(state.step[0]) + 1)
        return RFRecNumbers(step, np.float32(self.reg))

    def score(
        self, download: RFRecDownload, devices: RFRecDevices, histories: Histories
    ) -> Float32Array:
        """Returns the predicted ratings of every item, float32 [m, items]: sigmoid(u_u . vbar_i),
        back on the scale of the ratings.
        """
        out = bpr_mf.scores(devices.u, download.mean, np.zeros(len(download.mean), np.float32))
        _rescale(out, *download.scale)
        return out

    # ---- at the gateways, and on the server ------------------------------------------------------

    def aggregate(self, server: RFRecServer, total: Total) -> RFRecServer:
        """Returns the new state: one Adam step on each V_c, or one towards Vbar; then Vbar, the
        mean.
        """
        learns = self._learns(server)
        v = np.empty_like(server.v)
        m = server.m
        s = server.s
        if learns:
            m = np.empty_like(v)
            s = np.empty_like(v)
            # The third term of L; RFRecF's steps on the data leave it out.
            pull = np.float32(2 * self.consensus if self.style == "robust" else 0)
            _gateways(server, total.dense["v"], pull, self._numbers(server).step, v, m, s)
        else:
            _towards(server.v, server.mean, np.float32(self.eta), v)
        return server._replace(
            v=v, m=m, s=s, mean=_mean(v), round=server.round + 1, step=server.step + int(learns)
        )


class RFRecRatings(NamedTuple):
    """The ratings of m devices on [0, 1]."""

    ptr: Int64Array
    """int64 [m + 1], as in Histories."""
    item: Int32Array
    value: Float32Array


class RFRecNumbers(NamedTuple):
    """Constants of a round."""

    step: AdamStep
    reg: np.float32


def _ratings(download: RFRecDownload, histories: Histories) -> RFRecRatings:
    low, high = download.scale
    return RFRecRatings(histories.ptr, histories.item, (histories.value - low) / (high - low))


def _update(download: RFRecDownload, dense: dict[str, Float32Array]) -> Update:
    """Returns an update without rows, of each device to its gateway."""
    devices = len(download.at)
    return Update(
        ptr=np.zeros(devices + 1, np.int64),
        item=np.empty(0, np.int32),
        rows={},
        dense=dense,
        weight=np.ones(devices, np.float32),
        group=download.group,
        groups=int(download.clients[0]),
    )


# ---- in plain loops ------------------------------------------------------------------------------


class RFRecRoom(NamedTuple):
    """Working memory of a device."""

    slope: Float32Array
    """float32 [F], the gradient by u_u."""
    rows: Float32Array
    """float32 [longest history, F], EACH times the gradients by v_ci."""


@njit(cache=True, nogil=True)
def _room(ptr: Int64Array, factors: int) -> RFRecRoom:
    longest = 0
    for d in range(len(ptr) - 1):
        longest = max(longest, ptr[d + 1] - ptr[d])
    return RFRecRoom(np.empty(factors, np.float32), np.empty((longest, factors), np.float32))


@njit(cache=True, nogil=True)
def _device(
    v: Float32Array,
    d: int,
    own: RFRecDevices,
    ratings: RFRecRatings,
    numbers: RFRecNumbers,
    room: RFRecRoom,
) -> None:
    """Writes EACH times dL/dv_i of the rated items of device d to room.rows, and takes one Adam
    step on its u. v: float32 [items, F], its gateway's table.
    """
    u = own.u
    m = own.m
    s = own.s
    item = ratings.item
    value = ratings.value
    slope = room.slope
    rows = room.rows
    step = numbers.step
    start = ratings.ptr[d]
    stop = ratings.ptr[d + 1]
    factors = v.shape[1]
    two = np.float32(2)
    one = np.float32(1)
    # the gradient of reg |u_u|^2
    for f in range(factors):
        slope[f] = two * numbers.reg * u[d, f]
    for k in range(start, stop):
        # sigmoid(u_u . v_ci), and the slope of the squared error by z = u_u . v_ci
        i = item[k]
        z = np.float32(0)
        for f in range(factors):
            z += u[d, f] * v[i, f]
        guess = logistic(z)
        error = two * (guess - value[k]) * (guess * (one - guess))  # dL/dz
        for f in range(factors):
            rows[k - start, f] = EACH * (error * u[d, f])
            slope[f] += error * v[i, f]
    # Adam on u_u, whose gradient is complete now
    for f in range(factors):
        m[d, f] = moment(m[d, f], slope[f], step.beta1, step.rest1)
        s[d, f] = moment(s[d, f], slope[f] * slope[f], step.beta2, step.rest2)
        u[d, f] -= direction(m[d, f], s[d, f], step.first, step.second, step.epsilon)


@njit(cache=True, nogil=True)
def _local(
    v: Float32Array,
    at: Int32Array,
    own: RFRecDevices,
    ratings: RFRecRatings,
    numbers: RFRecNumbers,
    out: Float32Array,
) -> None:
    """Trains every device that has ratings. Writes the gradients to out, float32 [m, items, F]."""
    ptr = ratings.ptr
    item = ratings.item
    factors = v.shape[2]
    room = _room(ptr, factors)
    for d in range(len(at)):
        if ptr[d] < ptr[d + 1]:
            _device(v[at[d]], d, own, ratings, numbers, room)
        # The table that a device sends is zero but for these rows.
        for k in range(ptr[d], ptr[d + 1]):
            for f in range(factors):
                out[d, item[k], f] = room.rows[k - ptr[d], f]


@njit(cache=True, nogil=True)
def _local_sum(
    v: Float32Array,
    at: Int32Array,
    own: RFRecDevices,
    ratings: RFRecRatings,
    numbers: RFRecNumbers,
    group: Int32Array,
    total: Int64Array,
) -> bool:
    """Trains as `_local` does, and adds the gradients to the gateways' totals, int64 [clients,
    items, F]. Returns False if a value cannot be added.
    """
    ptr = ratings.ptr
    item = ratings.item
    # Only the rows of one device are in memory at a time, not its table.
    room = _room(ptr, v.shape[2])
    finite = True
    for d in range(len(at)):
        start = ptr[d]
        stop = ptr[d + 1]
        if start < stop:
            _device(v[at[d]], d, own, ratings, numbers, room)
            finite &= add_rows(item[start:stop], room.rows[: stop - start], total[group[d]])
    return finite


@njit(cache=True, nogil=True)
def _gateways(
    server: RFRecServer,
    total: Int64Array,
    pull: np.float32,
    step: AdamStep,
    v: Float32Array,
    m: Float32Array,
    s: Float32Array,
) -> None:
    """Takes an Adam step of every gateway along its devices' gradients and pull (V_c - Vbar).
    Writes the result to v, m and s.
    """
    old_v = server.v
    old_m = server.m
    old_s = server.s
    mean = server.mean
    # From the integers of the sum to the gradient.
    grid = np.float32(STEP) / EACH
    for c in range(len(v)):
        for i in range(v.shape[1]):
            for f in range(v.shape[2]):
                slope = grid * np.float32(total[c, i, f]) + pull * (old_v[c, i, f] - mean[i, f])
                first = moment(old_m[c, i, f], slope, step.beta1, step.rest1)
                second = moment(old_s[c, i, f], slope * slope, step.beta2, step.rest2)
                m[c, i, f] = first
                s[c, i, f] = second
                v[c, i, f] = old_v[c, i, f] - direction(
                    first, second, step.first, step.second, step.epsilon
                )


@njit(cache=True, nogil=True)
def _towards(old: Float32Array, mean: Float32Array, eta: np.float32, v: Float32Array) -> None:
    """Writes V_c + eta (Vbar - V_c) to v."""
    for c in range(len(v)):
        for i in range(v.shape[1]):
            for f in range(v.shape[2]):
                v[c, i, f] = old[c, i, f] + eta * (mean[i, f] - old[c, i, f])


@njit(cache=True, nogil=True)
def _mean(v: Float32Array) -> Float32Array:
    """Returns Vbar, float32 [items, F], added gateway by gateway."""
    out = np.zeros(v.shape[1:])
    share = 1.0 / len(v)
    for c in range(len(v)):
        for i in range(v.shape[1]):
            for f in range(v.shape[2]):
                out[i, f] += v[c, i, f]
    return (out * share).astype(np.float32)


@njit(cache=True, nogil=True)
def _rescale(out: Float32Array, low: np.float32, high: np.float32) -> None:
    """Replaces out by low + (high - low) sigmoid(out)."""
    for d in range(out.shape[0]):
        for i in range(out.shape[1]):
            out[d, i] = low + (high - low) * logistic(out[d, i])


ALGORITHMS = {"rfrec": RFRec, "rfrecf": partial(RFRec, style="fast", rounds=200)}
