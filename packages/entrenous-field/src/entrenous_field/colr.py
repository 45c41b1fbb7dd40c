"""CoLR, Correlated Low-rank Structure: FedMF whose devices send a few numbers for each item.

N.-H. Nguyen, T.-A. Nguyen, T. Nguyen, V. T. Hoang, D. D. Le, K.-S. Wong, "Towards efficient
communication and secure federated recommendation system via low-rank training", WWW 2024
(arXiv:2401.03748). The model is logistic matrix factorisation, y_ui = sigma(p_u . q_i), and p_u
stays on its device. In round t all devices restrict their updates of the item table Q to one
subspace of r dimensions,

    Delta Q_u = A_u B_t,   B_t = sqrt(F / r) times r random orthonormal rows of length F.

The server draws B_t, which everybody knows; a device holds Q and B_t fixed, and trains A_u, which
begins at 0, and p_u by SGD on the binary cross-entropy with regularisation

    L = BCE(sigma(p_u . (q_i + a_i B_t)), y_ui) + gamma (|p_u|^2 + |q_i + a_i B_t|^2).

It sends A_u. Since B_t is the same for all, the server needs no more than sums, which can be masked
or encrypted:

    Q <- Q + (sum_u A_u / c) B_t,   c_i = how many devices touched item i.

Each row has r numbers and a count for c, not F. With r = F this is FedMF whose items are divided by
c.

As the authors' program (NNHieu/CoLR-FedRec) has it: p_u steps along the mean gradient of a batch,
a_i along the mean over the samples of its item, and the gradient by A is scaled by sqrt(r / F).
`colr-printed` has the constants of its README: F = 64, r = 4, rate 0.5, gamma 5e-4, 2 local epochs,
2000 rounds; and 120 devices a round, of fedtrain.yaml. For MovieLens-1M its ml-1m.yaml has 60, and
devices come in turn there; here they are drawn.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, ClassVar, NamedTuple, Self, final

import numpy as np
from pydantic import Field, model_validator

from entrenous.core.compiling import njit
from entrenous.core.contract.declarations import SentArray, Traits, axes, rows
from entrenous.core.contract.protocols import Catalogue, Histories
from entrenous.core.contract.update import Total, Update, real
from entrenous.core.keys import below, draw, fold, fold_name, folds, normals
from entrenous.core.lanes.simd import LANES
from entrenous.core.types import Float32Array, Float64Array, Int32Array, Int64Array
from entrenous.kernels import bpr_mf
from entrenous.kernels.averaging import moved_by
from entrenous.kernels.logistic import logistic
from entrenous.kernels.ncf import NCFData
from entrenous.kernels.sampling import count_gaps, fill_gaps, shuffle
from entrenous.systems._cohort import InCohorts
from entrenous.systems._federated_ncf import data_of


class CoLRServer(NamedTuple):
    """The state of the server."""

    item: Float32Array
    """float32 [items, F], the item table Q."""
    basis: Float32Array
    """float32 [r, F], B_t of the next round."""
    source: Int64Array
    """int64 [1], the key from which B_t was drawn, and the next is."""


class CoLRDownload(NamedTuple):
    """The model as a device receives it."""

    item: Annotated[Float32Array, axes("items", "factors")]
    """float32 [items, F], the item table Q."""
    basis: Annotated[Float32Array, axes("rank", "factors")]
    """float32 [r, F], B_t."""


class CoLRDevices(NamedTuple):
    """Private state of m devices."""

    user: Annotated[Float32Array, axes("factors")]
    """float32 [m, F], user factors p_u. They never leave."""


class CoLRNumbers(NamedTuple):
    """Constants of local training."""

    rate: np.float32
    """The learning rate of p_u."""
    rate_low: np.float32
    """The learning rate of A, sqrt(r / F) times that."""
    reg: np.float32
    """2 gamma."""
    stretch: np.float32
    """F / r: B_t B_t^T is this times the identity."""
    epochs: int
    negatives: int
    batch: int


class _CoLRRoom(NamedTuple):
    """Memory for the devices of one call. `ptr`, `item` and `low` are results."""

    ptr: Int64Array
    item: Int32Array
    low: Float32Array
    """float32 [n, r], A of the touched items."""
    place: Int32Array
    """int32 [items], the row of each item among those that a device touches; -1 = none."""
    order: Int32Array
    gaps: Int32Array
    batch_row: Int32Array
    """The rows that a batch touches."""
    samples: Int32Array
    """int32 [most], the samples of each row in a batch."""
    a: Float32Array
    """float32 [most, r], A of the device."""
    seen: Float32Array
    """float32 [most, r], q_i B_t^T of the same rows."""
    g_a: Float32Array
    """float32 [most, r], the sums of gradients by A."""
    g_p: Float32Array
    """float32 [F]."""
    z: Float32Array
    """float32 [r], B_t p_u."""
    mixed: Float32Array
    """float32 [r], the sum of error times a_i."""


@final
class CoLR(InCohorts):
    """CoLR: logistic matrix factorisation whose devices send low-rank updates of the item table."""

    factors: int = Field(64, ge=1, le=1024, description="F, the length of p_u and q_i")
    rank: int = Field(
        8, ge=1, le=1024, description="r, the numbers that a device sends for an item; at most F"
    )
    # Local training.
    learning_rate: float = Field(0.5, gt=0, le=100, description="of p_u and A; 0.5 as run")
    reg: float = Field(
        5e-4, ge=0, le=1, description="gamma of gamma (|p_u|^2 + |q_i|^2), for each sample"
    )
    negatives: int = Field(
        4, ge=1, le=1000, description="for each consumed item, redrawn in each local epoch"
    )
    local_epochs: int = Field(2, ge=1, le=1000, description="passes over the history in a round")
    batch: int = Field(256, ge=1, le=1 << 20, description="samples whose mean gradient is one step")
    # The federation.
    cohort: int = Field(0, ge=0, description="devices in a round, at most all; 0 = all")
    rounds: int = Field(100, ge=1, description="training length; 2000 as run")
    init_std: float = Field(
        0.125, ge=0, description="standard deviation of the first factors; sqrt(1 / F) as run"
    )
    # Sums with noise.
    counts: float = Field(
        1.0, gt=0, le=100, description="the number that a device sends as the count of each row"
    )
    least: float = Field(
        1.0, ge=1, description="the least number of devices that the server divides a sum by"
    )

    holds: ClassVar[type] = CoLRServer
    receives: ClassVar[type] = CoLRDownload
    keeps: ClassVar[type] = CoLRDevices
    sends: ClassVar[tuple[SentArray, ...]] = (
        rows(
            "a",
            "rank",
            when="each round: the row of A_u of every item consumed or drawn as a negative",
            reveals=(
                "seen singly, which items were touched, and by the direction of the row which of"
                " them were consumed: B_t is public, and low rank hides nothing. In a sum over a"
                " cohort a row that one device alone sent stands as it is"
            ),
        ),
        rows(
            "count",
            when="each round, with each of these rows: the same number",
            reveals="nothing singly; in a sum, how many devices touched an item",
        ),
    )
    traits: ClassVar[Traits] = Traits(private_settings={"least": 30.0})

    @model_validator(mode="after")
    def _low_rank(self) -> Self:
        if self.rank > self.factors:
            raise ValueError(
                f"rank at most factors; rank={self.rank} is above factors={self.factors}: lower it"
            )
        return self

    # ---- the federation --------------------------------------------------------------------------

    def search_space(self) -> dict[str, str]:
        """Returns the ranges that a search of settings draws from by default."""
        return {"learning_rate": "0.05..5:log", "reg": "0.00001..0.01:log", "rank": "4..32:log"}

    def init_server(self, catalogue: Catalogue, key: np.uint64) -> CoLRServer:
        """Returns the initial item table, drawn from N(0, init_std^2), and B_1."""
        keys = folds(fold_name(key, "item"), np.arange(catalogue.items))
        item = normals(keys, self.factors, self.init_std)
        source = fold_name(key, "basis")
        return CoLRServer(item, self.basis(source), np.array([source]).view(np.int64))

    def init_devices(self, users: Int64Array, catalogue: Catalogue, key: np.uint64) -> CoLRDevices:
        """Returns the initial user factors of the devices of `users`, each drawn on its device."""
        return CoLRDevices(normals(folds(key, users), self.factors, self.init_std))

    def basis(self, source: np.uint64) -> Float32Array:
        """Returns B_t, float32 [r, F]: random orthonormal rows times sqrt(F / r)."""
        drawn = normals(folds(source, np.arange(self.rank)), self.factors, 1.0).astype(np.float64)
        for k in range(self.rank):
            # Twice, since once leaves what rounding made of nearly parallel rows.
            for _ in range(2):
                for before in drawn[:k]:
                    drawn[k] -= (drawn[k] * before).sum() * before
            drawn[k] /= np.sqrt((drawn[k] * drawn[k]).sum())
        return (np.sqrt(self.factors / self.rank) * drawn).astype(np.float32)

    def download(self, server: CoLRServer) -> CoLRDownload:
        """Returns Q and B_t, which every device of the round receives whole."""
        return CoLRDownload(server.item, server.basis)

    # ---- on a device -----------------------------------------------------------------------------

    def local(
        self,
        download: CoLRDownload,
        devices: CoLRDevices,
        histories: Histories,
        users: Int64Array,
        key: np.uint64,
    ) -> tuple[CoLRDevices, Update]:
        """Trains p_u and A_u of the devices. Each sends A_u of the items that it touched."""
        user = devices.user.copy()
        room = self._room(histories, len(download.item))
        n = _train(download, user, data_of(histories, users, key), self._numbers(), room)
        count = np.full(n, self.counts, np.float32)
        sent = {"a": room.low[:n], "count": count}
        update = Update(room.ptr, room.item[:n], sent, {}, np.ones(len(users), np.float32))
        return CoLRDevices(user), update

    def _numbers(self) -> CoLRNumbers:
        return CoLRNumbers(
            rate=np.float32(self.learning_rate),
            rate_low=np.float32(self.learning_rate * np.sqrt(self.rank / self.factors)),
            reg=np.float32(2 * self.reg),
            stretch=np.float32(self.factors / self.rank),
            epochs=self.local_epochs,
            negatives=self.negatives,
            batch=self.batch,
        )

    def _room(self, histories: Histories, items: int) -> _CoLRRoom:
        counts = np.diff(histories.ptr)
        touched = np.minimum(counts * (1 + self.negatives * self.local_epochs), items)
        most = int(touched.max(initial=0))
        n = int(touched.sum())
        avoided = int(np.diff(histories.avoid_ptr).max(initial=0))
        return _CoLRRoom(
            ptr=np.zeros(len(counts) + 1, np.int64),
            item=np.empty(n, np.int32),
            low=np.empty((n, self.rank), np.float32),
            place=np.full(items, -1, np.int32),
            order=np.empty(int(counts.max(initial=0)), np.int32),
            gaps=np.empty(avoided + LANES, np.int32),
            batch_row=np.empty(most, np.int32),
            samples=np.zeros(most, np.int32),
            a=np.empty((most, self.rank), np.float32),
            seen=np.empty((most, self.rank), np.float32),
            g_a=np.zeros((most, self.rank), np.float32),
            g_p=np.zeros(self.factors, np.float32),
            z=np.empty(self.rank, np.float32),
            mixed=np.zeros(self.rank, np.float32),
        )

    def score(
        self, download: CoLRDownload, devices: CoLRDevices, histories: Histories
    ) -> Float32Array:
        """Returns p_u . q_i, the logit of y_ui, for every item: float32 [m, items]."""
        zeros = np.zeros(len(download.item), np.float32)
        return bpr_mf.scores(devices.user, download.item, zeros)

    # ---- on the server ---------------------------------------------------------------------------

    def aggregate(self, server: CoLRServer, total: Total) -> CoLRServer:
        """Returns the new table, Q <- Q + (sum_u A_u / c) B_t, and the B_t of the next round."""
        count = np.maximum(real(total.rows["count"]) / self.counts, self.least)
        mean = real(total.rows["a"]) / count[:, None]
        # Column by column: a product of matrices would differ from machine to machine.
        step: Float64Array = np.zeros(server.item.shape)
        for k in range(self.rank):
            step += mean[:, k, None] * server.basis[k]
        source = fold_name(server.source.view(np.uint64)[0], "next")
        kept = np.array([source]).view(np.int64)
        return CoLRServer(moved_by(server.item, step), self.basis(source), kept)


@njit(cache=True, nogil=True)
def _train(
    download: CoLRDownload,
    user: Float32Array,
    data: NCFData,
    numbers: CoLRNumbers,
    room: _CoLRRoom,
) -> int:
    """Trains all devices one after the other: steps user in place, writes the rows of A to `room`
    and returns how many there are.
    """
    q = download.item
    basis = download.basis
    items = len(q)
    rank, factors = basis.shape
    place = room.place
    a = room.a
    seen = room.seen
    g_a = room.g_a
    g_p = room.g_p
    z = room.z
    mixed = room.mixed
    n = 0
    for d in range(len(data.keys)):
        p = user[d]
        start = data.ptr[d]
        length = data.ptr[d + 1] - start
        avoided = data.avoid_ptr[d + 1] - data.avoid_ptr[d]
        fill_gaps(data.avoid, data.avoid_ptr[d], avoided, room.gaps)
        # If nothing is left to draw, the device learns from its items alone.
        extra = numbers.negatives if avoided < items else 0
        touched = 0
        for epoch in range(numbers.epochs):
            key = fold(data.keys[d], epoch)
            shuffle(room.order, 0, length, key)
            samples = length * (1 + extra)
            taken = 0
            filled = 0
            for t in range(samples):
                # The sample: a consumed item, then its negatives.
                which = t % (1 + extra)
                if which == 0:
                    i = int(data.item[start + room.order[t // (1 + extra)]])
                else:
                    # The first `length` draws of the key made the order.
                    k = below(draw(key, length + t), items - avoided)
                    i = int(k + count_gaps(room.gaps, avoided, k))
                row = int(place[i])
                if row < 0:
                    row = touched
                    touched += 1
                    place[i] = np.int32(row)
                    for k in range(rank):
                        a[row, k] = 0
                        seen[row, k] = _dot(basis, k, q, i)
                if taken == 0:
                    for k in range(rank):
                        z[k] = 0
                        for f in range(factors):
                            z[k] += basis[k, f] * p[f]
                if room.samples[row] == 0:
                    room.batch_row[filled] = np.int32(row)
                    filled += 1
                room.samples[row] += 1
                taken += 1
                # p_u . (q_i + a_i B_t) = p_u . q_i + (B_t p_u) . a_i
                logit = np.float32(0)
                for f in range(factors):
                    logit += p[f] * q[i, f]
                for k in range(rank):
                    logit += z[k] * a[row, k]
                e = logistic(logit) - np.float32(which == 0)
                for f in range(factors):
                    g_p[f] += e * q[i, f]
                for k in range(rank):
                    mixed[k] += e * a[row, k]
                    # (q_i + a_i B_t) B_t^T = q_i B_t^T + (F / r) a_i
                    shrink = seen[row, k] + numbers.stretch * a[row, k]
                    g_a[row, k] += e * z[k] + numbers.reg * shrink
                # A step at the end of a batch, the last of which may be smaller.
                if taken == numbers.batch or t == samples - 1:
                    share = np.float32(1) / np.float32(taken)
                    for k in range(rank):
                        for f in range(factors):
                            g_p[f] += mixed[k] * basis[k, f]
                        mixed[k] = 0
                    for f in range(factors):
                        p[f] -= numbers.rate * (share * g_p[f] + numbers.reg * p[f])
                        g_p[f] = 0
                    for b in range(filled):
                        row = int(room.batch_row[b])
                        own = np.float32(1) / np.float32(room.samples[row])
                        room.samples[row] = 0
                        for k in range(rank):
                            a[row, k] -= numbers.rate_low * (own * g_a[row, k])
                            g_a[row, k] = 0
                    taken = 0
                    filled = 0
        # What the device sends: items in ascending order, which says nothing of the order of
        # learning.
        for i in range(items):
            row = int(place[i])
            if row >= 0:
                place[i] = -1
                room.item[n] = np.int32(i)
                for k in range(rank):
                    room.low[n, k] = a[row, k]
                n += 1
        room.ptr[d + 1] = n
    return n


@njit(cache=True, inline="always")
def _dot(a: Float32Array, row: int, b: Float32Array, other: int) -> np.float32:
    """Returns the product of a row of each of two tables."""
    found = np.float32(0)
    for f in range(a.shape[1]):
        found += a[row, f] * b[other, f]
    return found


ALGORITHMS = {
    "colr": CoLR,
    "colr-printed": partial(CoLR, rank=4, cohort=120, rounds=2000),
}
