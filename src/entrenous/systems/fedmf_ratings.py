"""FedMF of Chai et al., secure federated matrix factorisation of ratings. The baseline of that name
for implicit feedback is in `entrenous-field`.

D. Chai, L. Wang, K. Chen, Q. Yang, "Secure federated matrix factorization", IEEE Intelligent
Systems 36(5), 2021 (arXiv:1906.05108). With

    J = 1/M sum_ij (r_ij - <u_i, v_j>)^2 + lambda |U|^2 + lambda |V|^2

every device i steps first and then makes its gradients with the new u_i. The server adds them up,
in the paper under Paillier encryption, which changes no sum. With the rated items of i in the sums
over j:

    u_i <- u_i - gamma sum_j (-2 v_j (r_ij - <u_i, v_j>) + 2 lambda u_i)    on the device
    Gradient_ij = -2 u_i (r_ij - <u_i, v_j>) + 2 lambda v_j                 sent
    v_j <- v_j - gamma sum_i Gradient_ij                                    on the server

A device sends the rows of its rated items ("part"), or zeros for all others as well ("full"),
without which the rows list the rated items. As run, gamma = 1e-3, lambda = 1e-4, 100 factors, 175
iterations, lambda once for each rating, and all factors start at 0.01, which leaves them alike for
good: a model of one factor (`init_std` = 0). With sums, the user with most ratings limits gamma:
1e-3 diverges on MovieLens-100K, 3e-4 on MovieLens-1M, where 1e-4 is far from converged after 175
iterations. Default here: the first factors differ and `step` = mean, in which a device's sum over
its ratings and an item's sum over its raters are divided by their number (devices send a 1 with
each row, which can be encrypted as well). On the larger set lambda = 0.06 and 280 rounds are better
than the defaults, which serve both.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, NamedTuple, Self, final

import numpy as np
from pydantic import Field

from ..core.compiling import njit
from ..core.contract.declarations import SentArray, Traits, axes, dense, rows
from ..core.contract.protocols import Catalogue, Histories, rated
from ..core.contract.settings import Settings
from ..core.contract.update import LIMIT, STEP, Total, Update, add_devices, add_rows, count_items
from ..core.errors import NonFiniteError
from ..core.keys import folds, normals
from ..core.lanes.memory import owners_of, sealed
from ..core.types import Float32Array, Int64Array
from ..kernels import bpr_mf

REVEALS = (
    "gradients of v_j. Seen singly: the rows that are there, or not zero, are the rated items; each"
    " is a multiple of u_i but for lambda, and two rounds give u_i and then the integer ratings by"
    " arithmetic. The server is meant to see the sum over all devices, and with step = mean how"
    " many rated each item"
)


class FedMFServer(NamedTuple):
    """The global model, which a device receives whole."""

    v: Annotated[Float32Array, axes("items", "factors")]
    """float32 [items, F], item factors."""


class FedMFDevices(NamedTuple):
    """Private state of m devices."""

    u: Annotated[Float32Array, axes("factors")]
    """float32 [m, F], user factors. They never leave."""


class FedMFNumbers(NamedTuple):
    """Constants of a round."""

    rate: np.float32
    """gamma."""
    reg: np.float32
    """lambda."""
    mean: bool
    """Steps are along means, not sums."""


@final
class FedMFRatings(Settings):
    """FedMF of Chai et al., of ratings: matrix factorisation by gradients that devices send and
    the server adds up, encrypted in the paper.
    """

    # The model and its cost J.
    factors: int = Field(20, ge=1, le=1024, description="F, the length of u_i and v_j; 100 as run")
    learning_rate: float = Field(
        0.12, gt=0, le=10, description="gamma; 1e-3 as run, with step = sum"
    )
    reg: float = Field(
        0.1, ge=0, description="lambda of u_i and v_j, once for each rating; 1e-4 as run"
    )
    # Sums or means, and what is sent.
    step: Literal["mean", "sum"] = Field(
        "mean",
        description=(
            "sum: steps along sums of gradients, as published; mean: along means over a user's and"
            " an item's ratings"
        ),
    )
    send: Literal["part", "full"] = Field(
        "full",
        description=(
            "part: rows of rated items alone, which lists them; full: zero rows for all other items"
            " as well"
        ),
    )
    # Training length and start.
    rounds: int = Field(250, ge=1, description="training length; 175 as run")
    init: float = Field(0.01, description="mean of the first factors")
    init_std: float = Field(
        0.03,
        ge=0,
        description="standard deviation of the first factors; 0 as run: a model of one factor",
    )

    def search_space(self) -> dict[str, str]:
        """Returns the ranges that a search of settings draws from by default."""
        return {"factors": "8..64:log", "learning_rate": "0.02..0.5:log", "reg": "0.01..1:log"}

    holds: ClassVar[type] = FedMFServer
    receives: ClassVar[type] = FedMFServer
    keeps: ClassVar[type] = FedMFDevices
    sends: ClassVar[tuple[SentArray, ...]] = (
        dense("v", "items", "width", when="each round", reveals=REVEALS, only_if="full"),
        rows("v", "width", when="each round, for the items rated", reveals=REVEALS, only_if="part"),
    )
    traits: ClassVar[Traits] = Traits(predicts_ratings=True, draws_negatives=False)

    def configured(self, catalogue: Catalogue) -> Self:
        """Returns the same settings. Raises InputError if the catalogue has no ratings."""
        rated(catalogue.scale, "fedmf-ratings")
        return self

    def default_rounds(self, catalogue: Catalogue) -> int:
        """Returns the number of training rounds if none is asked for: the setting `rounds`."""
        return self.rounds

    @property
    def width(self) -> int:
        """The numbers of a sent row: Gradient_ij, and with step = mean a 1."""
        return self.factors + (self.step == "mean")

    @property
    def part(self) -> bool:
        """True if a device sends the rows of its rated items alone."""
        return self.send == "part"

    @property
    def full(self) -> bool:
        """True if a device sends a row for every item."""
        return not self.part

    def sizes(self, catalogue: Catalogue) -> dict[str, int]:
        """Returns the sizes of the declared arrays: the numbers of a sent row."""
        return {"width": self.width}

    def init_server(self, catalogue: Catalogue, key: np.uint64) -> FedMFServer:
        """Returns the initial item factors v ~ N(init, init_std^2), float32 [items, F]."""
        return FedMFServer(self._first(folds(key, np.arange(catalogue.items))))

    def init_devices(self, users: Int64Array, catalogue: Catalogue, key: np.uint64) -> FedMFDevices:
        """Returns the initial user factors u ~ N(init, init_std^2) of the devices of `users`,
        float32 [m, F].
        """
        return FedMFDevices(self._first(folds(key, users)))

    def _first(self, keys: np.ndarray) -> Float32Array:
        drawn = normals(keys, self.factors, self.init_std)
        return (drawn + np.float32(self.init)).astype(np.float32)

    def select(self, server: FedMFServer, catalogue: Catalogue, key: np.uint64) -> Int64Array:
        """Returns the devices of a round: all of them."""
        return np.arange(catalogue.users)

    def download(self, server: FedMFServer) -> FedMFServer:
        """Returns the item factors, which every device receives whole."""
        return server

    def local(
        self,
        download: FedMFServer,
        devices: FedMFDevices,
        histories: Histories,
        users: Int64Array,
        key: np.uint64,
    ) -> tuple[FedMFDevices, Update]:
        """Trains the devices: u_i steps over the rated items, then Gradient_ij is made with the new
        u_i and sent.
        """
        u, g = self._gradients(download, devices, histories)
        weight = np.ones(len(users), np.float32)
        if self.part:
            return FedMFDevices(u), Update(histories.ptr, histories.item, {"v": g}, {}, weight)
        # "full": a row for every item, zeros but for the rated ones
        table = np.zeros((len(users), len(download.v), self.width), np.float32)
        device = owners_of(histories.ptr)
        table[device, histories.item] = g
        return FedMFDevices(u), _without_rows(len(users))._replace(dense={"v": table})

    def local_sum(
        self,
        download: FedMFServer,
        devices: FedMFDevices,
        histories: Histories,
        users: Int64Array,
        key: np.uint64,
        total: Total,
    ) -> tuple[FedMFDevices, Total, int, int]:
        """Trains as `local` does, and adds the updates to `total`, zeros left out: the same bits.
        Returns how many rows and bytes were sent, too."""
        u, g = self._gradients(download, devices, histories)
        # Zeros add nothing, so that the rows of rated items are enough in both forms.
        item = sealed(histories.item)
        if not add_rows(item, sealed(g), self._sum_in(total)):
            raise NonFiniteError(
                f"update 'v': a value is not finite or beyond +-{LIMIT:.0f}; the model is unchanged"
            )
        if self.part:
            count_items(item, total.senders)
            sent = len(item)
            sent_bytes = sent * 4 * (self.width + 1)
        else:
            sent = 0
            sent_bytes = 4 * self.width * len(download.v) * len(users)
        total = add_devices(total, _without_rows(len(users)))
        return FedMFDevices(u), total, sent, sent_bytes

    def _sum_in(self, total: Total) -> Int64Array:
        """Returns the sums of Gradient_ij (and of ones), int64 [items, width] in fixed point."""
        if self.part:
            return total.rows["v"]
        return total.dense["v"][0]

    def _gradients(
        self, download: FedMFServer, devices: FedMFDevices, histories: Histories
    ) -> tuple[Float32Array, Float32Array]:
        """Returns u after its step, and the rows of rated items, float32 [n, width]."""
        u = devices.u.copy()
        g = np.empty((len(histories.item), self.width), np.float32)
        rate = np.float32(self.learning_rate)
        reg = np.float32(self.reg)
        # Compiled code takes arrays alone: neither features of items nor visits.
        rated_rows = Histories(*histories[:5])
        _gradients(download.v, u, rated_rows, FedMFNumbers(rate, reg, self.step == "mean"), g)
        return u, g

    def aggregate(self, server: FedMFServer, total: Total) -> FedMFServer:
        """Returns the new item factors, v_j <- v_j - gamma sum_i Gradient_ij, or along the mean."""
        v = server.v.copy()
        _step(v, self._sum_in(total), self.learning_rate)
        return FedMFServer(v)

    def score(
        self, download: FedMFServer, devices: FedMFDevices, histories: Histories
    ) -> Float32Array:
        """Returns the predicted ratings <u_i, v_j> of every item, not clipped to the scale, float32
        [m, items].
        """
        return bpr_mf.scores(devices.u, download.v, np.zeros(len(download.v), np.float32))


def _without_rows(devices: int) -> Update:
    """Returns the update of some devices in which only their number counts."""
    no_rows = np.zeros(devices + 1, np.int64), np.empty(0, np.int32)
    return Update(*no_rows, {}, {}, np.ones(devices, np.float32))


@njit(cache=True, nogil=True)
def _gradients(
    v: Float32Array, u: Float32Array, histories: Histories, numbers: FedMFNumbers, g: Float32Array
) -> None:
    """Steps u in place; then writes Gradient_ij (and a 1) of every rated item to g, float32 [n, F
    or F + 1].
    """
    rate = numbers.rate
    reg = numbers.reg
    factors = u.shape[1]
    two = np.float32(2)
    g_u = np.empty(factors, np.float32)
    for d in range(len(u)):
        start = histories.ptr[d]
        stop = histories.ptr[d + 1]
        # the device's step
        for f in range(factors):
            g_u[f] = 0
        for r in range(start, stop):
            j = histories.item[r]
            e = histories.value[r]
            for f in range(factors):
                e -= u[d, f] * v[j, f]
            for f in range(factors):
                g_u[f] += two * (reg * u[d, f] - e * v[j, f])
        count = np.float32(max(stop - start, 1) if numbers.mean else 1)
        for f in range(factors):
            u[d, f] -= rate * (g_u[f] / count)
        # Gradient_ij with the new u_i
        for r in range(start, stop):
            j = histories.item[r]
            e = histories.value[r]
            for f in range(factors):
                e -= u[d, f] * v[j, f]
            for f in range(factors):
                g[r, f] = two * (reg * v[j, f] - e * u[d, f])
            if numbers.mean:
                g[r, factors] = 1


@njit(cache=True, nogil=True)
def _step(v: Float32Array, total: Int64Array, rate: float) -> None:
    """Moves v_j by -rate * total_j in place, divided by the last column of total if it has one more
    than v. total: fixed point.
    """
    factors = v.shape[1]
    for j in range(len(v)):
        # step = mean: by how many rated the item
        count = np.float64(1)
        if total.shape[1] > factors:
            count = max(total[j, factors] * STEP, 1.0)
        for f in range(factors):
            v[j, f] -= np.float32(rate * (total[j, f] * STEP) / count)


ALGORITHMS = {"fedmf-ratings": FedMFRatings}
