"""RFRec and RFRecF, robust and fast federated recommendation by regularised matrix factorisation.

L. Liu, W. Wang, X. Zhao, Z. Zhang, C. Zhang, S. Lin, Y. Wang, L. Zou, Z. Liu, X. Wei, H. Yin, Q.
Li, "Efficient and robust regularized federated recommendation", CIKM 2024, arXiv:2411.01540
(program: Applied-Machine-Learning-Lab/RFRec; settings as in its notebook). Every client c keeps its
own item table V_c beside the mean Vbar:

    L = sum_(u,i) (r_ui - sigmoid(u_u . v_ci))^2 + reg sum_u |u_u|^2 + consensus sum_c |V_c -
    Vbar|^2,   ratings scaled to [0, 1]

RFRec: in each round every client takes one Adam step on U and V_c, and Vbar becomes the mean of the
V_c. RFRecF: a round is, by the draw of a coin, either such a step on the first two terms or the
step on the third, V_c <- V_c + eta (Vbar - V_c). Predictions use Vbar.

The clients of the published runs hold about 30 users each, so a client here is a *gateway* that
serves several devices: a device keeps u_u and its ratings, and sends the gradient of its rated rows
of V_c; the gateway adds them up and steps. Gateways, their tables and Adam's moments are part of
`RFRecServer`. Deviations: nobody is dropped (the notebook leaves out the last 40 users of ML-1M, so
that 200 divides them); users are dealt to gateways in order, as evenly as it goes; all V_c start
alike; RFRecF's steps on the data leave out the third term.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, ClassVar, Literal, NamedTuple, Self, final

import numpy as np
from numba import njit
from pydantic import Field

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

EACH = np.float32(
    2.0**8
)  # devices send gradients times this: keeps small ones above the grid of 2^-16


class RFRecServer(NamedTuple):
    """The state of the server and of the gateways. v: V_c of all gateways, float32 [clients, items,
    F]; m, s: Adam's moments of it. mean: Vbar, float32 [items, F].

    gateway: int32 [users], who serves whom. scale: float32 [2], lowest and highest rating. key:
    uint64 [1], names the coins. round, step: int64 [1], rounds done, and how many of them were
    steps on the data."""

    v: Float32Array
    m: Float32Array
    s: Float32Array
    mean: Float32Array
    gateway: Int32Array
    scale: Float32Array
    key: UInt64Array
    round: Int64Array
    step: Int64Array


class RFRecDownload(NamedTuple):
    """The item tables and constants that m devices receive. v: float32 [gateways among them, items,
    F], at: int32 [m], whose of these is a device's; group: int32 [m], its gateway. mean: Vbar, by
    which it scores. scale: float32 [2]. learn: bool [1], whether this round is a step on the data;
    step: int64 [1]. clients: int64 [1].
    """

    v: Annotated[Float32Array, axes(UpTo("among", "devices"), "items", "factors")]
    at: Annotated[Int32Array, axes("devices", below="among")]
    group: Annotated[Int32Array, axes("devices", below="clients")]
    mean: Annotated[Float32Array, axes("items", "factors")]
    scale: Annotated[Float32Array, axes(2)]
    learn: Annotated[BoolArray, axes(1)]
    step: Annotated[Int64Array, axes(1, least=0)]
    clients: Annotated[Int64Array, axes(1, least=1)]


class RFRecDevices(NamedTuple):
    """Private state of m devices. u: user factors, float32 [m, F]; m, s: Adam's moments of them.
    They never leave.
    """

    u: Annotated[Float32Array, axes("factors")]
    m: Annotated[Float32Array, axes("factors")]
    s: Annotated[Float32Array, axes("factors")]


@final
class RFRec(Settings):
    """Federated matrix factorisation in which groups of devices keep their own item tables, held
    near the mean of all.
    """

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
        """A copy of the settings with no more gateways than users. Raises InputError for data
        without ratings.
        """
        rated(catalogue.scale, "rfrec")
        return self.model_copy(update={"clients": min(self.clients, catalogue.users)})

    def default_rounds(self, catalogue: Catalogue) -> int:
        """Training rounds if none are asked for: the setting `rounds`, of any data set."""
        return self.rounds

    def init_server(self, catalogue: Catalogue, key: np.uint64) -> RFRecServer:
        """The initial item tables, all alike: V_c = Vbar ~ N(0, init_std^2)."""
        mean = normals(folds(key, np.arange(catalogue.items)), self.factors, self.init_std)
        clients = min(self.clients, catalogue.users)
        v = np.repeat(mean[None], clients, axis=0)
        gateway = (np.arange(catalogue.users) * clients // catalogue.users).astype(np.int32)
        scale, none = np.array(catalogue.scale, np.float32), np.zeros(1, np.int64)
        return RFRecServer(
            v,
            np.zeros_like(v),
            np.zeros_like(v),
            mean,
            gateway,
            scale,
            np.array([key], np.uint64),
            none,
            none,
        )

    def init_devices(self, users: Int64Array, key: np.uint64) -> RFRecDevices:
        """The initial user factors u_u ~ N(0, init_std^2) of the devices of `users`, and Adam's
        moments at 0.
        """
        u = normals(folds(key, users), self.factors, self.init_std)
        return RFRecDevices(u, np.zeros_like(u), np.zeros_like(u))

    def select(self, server: RFRecServer, catalogue: Catalogue, key: np.uint64) -> Int64Array:
        """The round's devices: everybody."""
        return np.arange(catalogue.users)

    def download(self, server: RFRecServer) -> RFRecServer:
        """The whole server state, of which `deliver` sends each device its part."""
        return server

    def deliver(self, download: RFRecServer, users: Int64Array) -> RFRecDownload:
        """The download for the devices of `users`: V_c of each device's gateway, Vbar, and what
        kind of round it is.
        """
        group = download.gateway[users]
        among, at = np.unique(group, return_inverse=True)
        together = len(among) > 0 and among[-1] - among[0] + 1 == len(among)
        v = (
            download.v[among[0] : among[-1] + 1] if together else download.v[among]
        )  # a view where it can be one
        learn, clients = np.array([self._learns(download)]), np.array([len(download.v)])
        return RFRecDownload(
            v,
            at.astype(np.int32),
            group,
            download.mean,
            download.scale,
            learn,
            download.step,
            clients,
        )

    def _learns(self, server: RFRecServer) -> bool:
        """The coin of this round."""
        chance = self.local_chance if self.style == "fast" else 1.0
        return bool(
            uniform(np.uint64(draw(fold_name(server.key[0], int(server.round[0])), 0))) < chance
        )

    # ---- on the device ---------------------------------------------------------------------------

    def local(
        self,
        download: RFRecDownload,
        devices: RFRecDevices,
        histories: Histories,
        users: Int64Array,
        key: np.uint64,
    ) -> tuple[RFRecDevices, Update]:
        """Local training: one Adam step on u_u, and the gradient of V_c at the same place."""
        own, v = (
            RFRecDevices(*(array.copy() for array in devices)),
            np.zeros((len(users), *download.mean.shape), np.float32),
        )
        if download.learn[0]:
            _local(
                download.v,
                download.at,
                own,
                _scaled(download, histories),
                histories.ptr,
                histories.item,
                *self._step(download),
                v,
            )
        return own, self._update(download, {"v": v})

    def local_sum(
        self,
        download: RFRecDownload,
        devices: RFRecDevices,
        histories: Histories,
        users: Int64Array,
        key: np.uint64,
        total: Total,
    ) -> tuple[RFRecDevices, Total, int, int]:
        """Local training as `local`, with the rated rows added to `total` one device at a time: the
        same bits. Also returns how many rows and bytes were sent."""
        own, rows, group = RFRecDevices(*(array.copy() for array in devices)), 0, download.group
        if download.learn[0]:
            args = (
                _scaled(download, histories),
                histories.ptr,
                histories.item,
                *self._step(download),
                group,
                total.dense["v"],
            )
            if not _local_sum(download.v, download.at, own, *args):
                raise NonFiniteError(
                    "update: a value is not finite or beyond +-32768; the model is unchanged"
                )
            rows = len(histories.item)
        return (
            own,
            add_devices(total, self._update(download, {})),
            rows,
            rows * 4 * (1 + self.factors),
        )

    def _update(self, download: RFRecDownload, dense: dict[str, Float32Array]) -> Update:
        """An update without rows, to each device's gateway."""
        devices = len(download.at)
        nothing, weight = np.zeros(devices + 1, np.int64), np.ones(devices, np.float32)
        return Update(
            nothing,
            np.empty(0, np.int32),
            {},
            dense,
            weight,
            download.group,
            int(download.clients[0]),
        )

    def _step(self, state: RFRecDownload | RFRecServer) -> tuple[AdamStep, np.float32]:
        """Of this round, and reg."""
        return adam_step(self.learning_rate, int(state.step[0]) + 1), np.float32(self.reg)

    def score(
        self, download: RFRecDownload, devices: RFRecDevices, histories: Histories
    ) -> Float32Array:
        """Predicted ratings of every item, float32 [m, items]: sigmoid(u_u . vbar_i), back on the
        scale of the ratings.
        """
        out = bpr_mf.scores(devices.u, download.mean, np.zeros(len(download.mean), np.float32))
        _rated(out, *download.scale)
        return out

    # ---- at the gateways, and on the server ------------------------------------------------------

    def aggregate(self, server: RFRecServer, total: Total) -> RFRecServer:
        """The server's step: one Adam step on each V_c, or one towards Vbar; then Vbar, the
        mean.
        """
        v, m, s, learn = np.empty_like(server.v), server.m, server.s, self._learns(server)
        if learn:
            m, s = np.empty_like(v), np.empty_like(v)
            pull = np.float32(2 * self.consensus if self.style == "robust" else 0)
            _gateways(server, total.dense["v"], pull, self._step(server)[0], v, m, s)
        else:
            _towards(server.v, server.mean, np.float32(self.eta), v)
        return server._replace(
            v=v, m=m, s=s, mean=_mean(v), round=server.round + 1, step=server.step + int(learn)
        )


def _scaled(download: RFRecDownload, histories: Histories) -> Float32Array:
    """Ratings on [0, 1]."""
    low, high = download.scale
    return (histories.value - low) / (high - low)


# ---- in plain loops ------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _device(
    v: Float32Array,
    d: int,
    own: RFRecDevices,
    r: Float32Array,
    item: Int32Array,
    start: int,
    stop: int,
    step: AdamStep,
    reg: np.float32,
    slope: Float32Array,
    rows: Float32Array,
) -> None:
    """EACH times dL/dv_i of the device's rated items into `rows`, and one Adam step on its u. v:
    its gateway's table.
    """
    u, m, s, two, one, factors = own.u, own.m, own.s, np.float32(2), np.float32(1), v.shape[1]
    for f in range(factors):
        slope[f] = two * reg * u[d, f]
    for k in range(start, stop):
        i, z = item[k], np.float32(0)
        for f in range(factors):
            z += u[d, f] * v[i, f]
        guess = logistic(z)
        error = two * (guess - r[k]) * (guess * (one - guess))  # dL/dz
        for f in range(factors):
            rows[k - start, f] = EACH * (error * u[d, f])
            slope[f] += error * v[i, f]
    for f in range(factors):
        m[d, f] = moment(m[d, f], slope[f], step.beta1, step.rest1)
        s[d, f] = moment(s[d, f], slope[f] * slope[f], step.beta2, step.rest2)
        u[d, f] -= direction(m[d, f], s[d, f], step.first, step.second, step.epsilon)


@njit(cache=True, nogil=True)
def _local(
    v: Float32Array,
    at: Int32Array,
    own: RFRecDevices,
    r: Float32Array,
    ptr: Int64Array,
    item: Int32Array,
    step: AdamStep,
    reg: np.float32,
    out: Float32Array,
) -> None:
    """`_device` on every device that has ratings; gradients into out: [m, items, F]."""
    slope, rows = (
        np.empty(v.shape[2], np.float32),
        np.empty((_longest(ptr), v.shape[2]), np.float32),
    )
    for d in range(len(at)):
        if ptr[d] < ptr[d + 1]:
            _device(v[at[d]], d, own, r, item, ptr[d], ptr[d + 1], step, reg, slope, rows)
        for k in range(ptr[d], ptr[d + 1]):
            for f in range(v.shape[2]):
                out[d, item[k], f] = rows[k - ptr[d], f]


@njit(cache=True, nogil=True)
def _local_sum(
    v: Float32Array,
    at: Int32Array,
    own: RFRecDevices,
    r: Float32Array,
    ptr: Int64Array,
    item: Int32Array,
    step: AdamStep,
    reg: np.float32,
    group: Int32Array,
    total: Int64Array,
) -> bool:
    """The same, added to the gateways' totals, int64 [clients, items, F]; False if a value cannot
    be added.
    """
    ok, slope, rows = (
        True,
        np.empty(v.shape[2], np.float32),
        np.empty((_longest(ptr), v.shape[2]), np.float32),
    )
    for d in range(len(at)):
        start, stop = ptr[d], ptr[d + 1]
        if start < stop:
            _device(v[at[d]], d, own, r, item, start, stop, step, reg, slope, rows)
            ok &= add_rows(item[start:stop], rows[: stop - start], total[group[d]])
    return ok


@njit(cache=True, nogil=True)
def _longest(ptr: Int64Array) -> int:
    longest = 0
    for d in range(len(ptr) - 1):
        longest = max(longest, ptr[d + 1] - ptr[d])
    return longest


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
    """An Adam step of every gateway along its devices' gradients and pull (V_c - Vbar), into v, m,
    s.
    """
    grid = np.float32(STEP) / EACH
    old_v, old_m, old_s, mean = server.v, server.m, server.s, server.mean
    for c in range(len(v)):
        for i in range(v.shape[1]):
            for f in range(v.shape[2]):
                slope = grid * np.float32(total[c, i, f]) + pull * (old_v[c, i, f] - mean[i, f])
                first = moment(old_m[c, i, f], slope, step.beta1, step.rest1)
                second = moment(old_s[c, i, f], slope * slope, step.beta2, step.rest2)
                m[c, i, f], s[c, i, f] = first, second
                v[c, i, f] = old_v[c, i, f] - direction(
                    first, second, step.first, step.second, step.epsilon
                )


@njit(cache=True, nogil=True)
def _towards(old: Float32Array, mean: Float32Array, eta: np.float32, v: Float32Array) -> None:
    """V_c + eta (Vbar - V_c)."""
    for c in range(len(v)):
        for i in range(v.shape[1]):
            for f in range(v.shape[2]):
                v[c, i, f] = old[c, i, f] + eta * (mean[i, f] - old[c, i, f])


@njit(cache=True, nogil=True)
def _mean(v: Float32Array) -> Float32Array:
    """Vbar, float32 [items, F], added gateway by gateway."""
    out, share = np.zeros(v.shape[1:]), 1.0 / len(v)
    for c in range(len(v)):
        for i in range(v.shape[1]):
            for f in range(v.shape[2]):
                out[i, f] += v[c, i, f]
    return (out * share).astype(np.float32)


@njit(cache=True, nogil=True)
def _rated(out: Float32Array, low: np.float32, high: np.float32) -> None:
    """low + (high - low) sigmoid(out), in place."""
    for d in range(out.shape[0]):
        for i in range(out.shape[1]):
            out[d, i] = low + (high - low) * logistic(out[d, i])


ALGORITHMS = {"rfrec": RFRec, "rfrecf": partial(RFRec, style="fast", rounds=200)}
