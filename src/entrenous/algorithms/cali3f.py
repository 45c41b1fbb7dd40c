"""Cali3F, calibrated fast fair federated recommendation.

Z. Zhu, S. Si, J. Wang, J. Xiao, "Cali3F: calibrated fast fair federated recommendation system", IJCNN 2022. Read this file beside
section III. w[U, I, N] are the user embeddings, the item embeddings and the non-embedding part of a neural collaborative filter.
"As decided" marks what the text leaves open.
"""

from __future__ import annotations

from functools import partial
from typing import ClassVar, NamedTuple, Self, final

import numpy as np
from pydantic import Field

from ..core.keys import fold_name
from ..core.protocols import Catalogue, Disclosed, Histories
from ..core.sampling import cohort
from ..core.types import Float32Array, Float64Array, Int32Array, Int64Array
from ..core.update import Total, Update, gathered, real
from ..kernels import ncf, ncf_device
from ..kernels.k_means import first_centroids, k_means
from ._clusters import SHOWN_USER, check_clusters, delegates_of, with_progress
from ._ncf import NCFSettings, average, averaged, counts, data_of, mean_network, shared, weighted_mean


class Server(NamedTuple):
    """w and v_p. user: w[U] float32 [users, row]; item: w[I] float32 [items, row]; network: w[N] float32 [1, network];
    local: v_p[N] float32 [P, network]; cluster: int32 [users], G; centroids: float32 [P, row]; n: n_k as far as known, float32 [users];
    round: int64 [1]."""

    user: Float32Array
    item: Float32Array
    network: Float32Array
    local: Float32Array
    cluster: Int32Array
    centroids: Float32Array
    n: Float32Array
    round: Int64Array


class Download(NamedTuple):
    """What devices receive: w[I, N], and of v the model of their cluster, of w[U] the row of their user. local: float32 [clusters among
    them, network]; cluster, at: int32 [m], which cluster each device is in, and where in `local` its model is."""

    user: Float32Array
    item: Float32Array
    network: Float32Array
    local: Float32Array
    cluster: Int32Array
    at: Int32Array


class Devices(NamedTuple):
    """Nothing stays on a device but its history: the server holds w[U], which it clusters."""


@final
class Cali3F(NCFSettings):
    """Calibrated fast fair federated recommendation: a model for each cluster of users, held near the global one (CaliUp).

    Delegates from each cluster take part (ClusSamp), and their cluster shares their progress (FastAgg)."""

    clusters: int = Field(20, ge=1, le=100000, description="P, the number of clusters of users")
    phi: float = Field(0.5, ge=0, le=1000, description="eq. 6: how strongly v_p is drawn to w; 0 = local training")
    discount: float = Field(
        0.9, ge=0, lt=1, description="lambda of eq. 4 in round t is discount^t: a share of the delegates' progress, fading"
    )
    personalised: bool = Field(True, description="CaliUp: a model v_p for each cluster; off: everybody uses w")
    fast: bool = Field(True, description="FastAgg: eq. 4 and eq. 5; off: subordinates wait, items are averaged as in FedAvg")
    sampled: bool = Field(True, description="ClusSamp: m/P delegates from each cluster; off: m devices from all")

    disclosure: ClassVar[tuple[Disclosed, ...]] = (
        SHOWN_USER,
        Disclosed(
            "n", "[1] float32", "each round, by name", "how many items the user consumed"
        ),
        Disclosed(
            "item",
            "[rows, row] float32",
            "each round: the move of every touched item, times its size",
            "seen singly, which items were touched, and by the direction of the move which of them were consumed. A sum hides who sent "
            "what, yet w[U] above does not need it",
        ),
        Disclosed("share", "[rows, row] float32", "with every row of item", "the size of that move"),
        Disclosed(
            "local", "[network] float32", "each round: n_k times the move of the cluster's non-embedding part, added within the cluster",
            "a summary of the history, in a sum over few devices",
        ),
        Disclosed("network", "[network] float32", "each round: the same for the global one", "a summary of the history"),
    )  # fmt: skip

    def configured(self, catalogue: Catalogue) -> Self:
        """The same settings with m as a number. Raises InputError for more clusters than users and for m < P."""
        own = super().configured(catalogue)
        check_clusters(self.clusters, catalogue.users, own.cohort if self.sampled else None)
        return own

    def update_bytes(self, catalogue: Catalogue) -> int:
        """A row and its share for each touched item, two networks, a user embedding and a number."""
        row = 4 * self.shape.row
        return catalogue.items * (4 + (2 if self.fast else 1) * row) + 2 * 4 * self.shape.network + row + 4

    # ---- algorithm 1, line 1 -------------------------------------------------------------------------------------------------

    def init_server(self, catalogue: Catalogue, key: np.uint64) -> Server:
        """w, v_p = w, and the first clusters."""
        user = self.first_users(np.arange(catalogue.users), fold_name(key, "user"))
        network = self.first_network(key)
        cluster, centroids = k_means(user, first_centroids(user, self.clusters, fold_name(key, "clusters")))
        local = np.repeat(network, self.clusters if self.personalised else 0, axis=0)
        n = np.ones(catalogue.users, np.float32)
        return Server(user, self.first_items(catalogue.items, key), network, local, cluster, centroids, n, np.zeros(1, np.int64))

    def init_devices(self, users: Int64Array, key: np.uint64) -> Devices:
        """Nothing."""
        return Devices()

    # ---- III-B: ClusSamp -------------------------------------------------------------------------------------------------------

    def select(self, server: Server, catalogue: Catalogue, key: np.uint64) -> Int64Array:
        """D: one client of each cluster at random, in a round robin over the clusters, until there are m."""
        own = self.configured(catalogue)
        if not self.sampled:
            return cohort(key, own.cohort, catalogue.users)
        return delegates_of(server.cluster, own.cohort, key)

    def download(self, server: Server) -> Server:
        """All there is; `deliver` says who gets what."""
        return server

    def deliver(self, download: Server, users: Int64Array) -> Download:
        """w[I, N], the row of w[U] and the v_p of each device's cluster."""
        cluster = download.cluster[users]
        among, at = np.unique(cluster, return_inverse=True)
        local = download.local[among] if self.personalised else download.local
        return Download(download.user[users], download.item, download.network, local, cluster, at.astype(np.int32))

    # ---- algorithm 1, lines 4 to 6: on the client -------------------------------------------------------------------------------

    def local(
        self, download: Download, devices: Devices, histories: Histories, users: Int64Array, key: np.uint64
    ) -> tuple[Devices, Update]:
        """Trains w[N] (line 5) and v_p (line 6), each with its own copy of the embeddings; w[U, I] learn with v_p (line 16)."""
        weight, data, model = counts(histories), data_of(histories, users, key), (download.user, download.item)
        everyone, dense = np.zeros(len(users), np.int32), {}
        sent = ncf_device.train(self.shape, self.rates(), *model, download.network, everyone, data)
        dense["network"] = weight[:, None] * sent.network
        if self.personalised:
            sent = ncf_device.train(self.shape, self.rates(), *model, download.local, download.at, data)
            dense["local"] = weight[:, None] * sent.network
        moved = sent.row
        rows = shared(moved, np.abs(moved)) if self.fast else averaged(moved, sent.ptr, weight)  # theta of (5)
        shown = {"user": sent.user, "n": weight[:, None]}
        return devices, Update(sent.ptr, sent.item, rows, dense, weight, download.cluster, self.clusters, shown, users)

    # ---- algorithm 1, lines 8 to 19: on the server --------------------------------------------------------------------------------

    def aggregate(self, server: Server, total: Total) -> Server:
        """Lines 9 to 16 with the clusters of the round, then lines 18 and 19: new clusters, and the models of who is in them."""
        delegates, shown = gathered(total)
        n = server.n.copy()
        n[delegates] = shown["n"][:, 0]
        user = self._users(server, delegates, shown["user"])
        item = weighted_mean(server.item, total) if self.fast else average(server.item, total)  # (5)
        everyone = total.dense["network"].sum(axis=0)[None], total.weight.sum()[None]
        network = mean_network(server.network, *everyone)  # line 15
        cluster, centroids = k_means(user, server.centroids)  # line 18
        local = server.local
        if self.personalised:
            local = _averaged_by(cluster, server.cluster, n, self._calibrated(server, total))  # line 19
        return Server(user, item, network, local, cluster, centroids, n, server.round + 1)

    def _users(self, server: Server, delegates: Int64Array, learnt: Float32Array) -> Float32Array:
        """III-C: delegates' embeddings as they come, (3); subordinates' moved by their cluster's mean, (4)."""
        discount = self.discount ** (int(server.round[0]) + 1) if self.fast else 0.0
        return with_progress(server.user, server.cluster, len(server.centroids), delegates, learnt, discount)  # (3), (4)

    def _calibrated(self, server: Server, total: Total) -> Float32Array:
        """III-C, CaliUp: (6), where -eta times the cluster's gradient is the mean of its delegates' moves (line 11)."""
        n = np.maximum(real(total.weight), 1e-9)[:, None]
        step = real(total.dense["local"]) / n
        away = server.local.astype(np.float64) - server.network
        distance = np.linalg.norm(away, axis=1, keepdims=True)
        back = self.phi * np.linalg.norm(step, axis=1, keepdims=True) * away / np.where(distance > 0, distance, 1)
        return (server.local + step - back).astype(np.float32)  # (6)

    def score(self, download: Download, devices: Devices, histories: Histories) -> Float32Array:
        """The logit of y_ui for every item by the model of the user's cluster, float32 [m, items]."""
        networks, at = (download.local, download.at) if self.personalised else (download.network, np.zeros_like(download.at))
        return ncf.scores(self.shape, download.user, download.item, networks, at)


def _averaged_by(new: Int32Array, old: Int32Array, n: Float32Array, local: Float32Array) -> Float32Array:
    """III-D: the model of each new cluster is the mean of its members' models, weighted by n_k; of an empty one, what it was."""
    clusters = len(local)
    together = np.zeros((clusters, clusters))
    np.add.at(together, (new, old), n.astype(np.float64))
    of_new = together.sum(axis=1, keepdims=True)
    shares = np.where(of_new > 0, together / np.where(of_new > 0, of_new, 1), np.eye(clusters))
    return _product(shares, local.astype(np.float64)).astype(np.float32)


def _product(a: Float64Array, b: Float64Array) -> Float64Array:
    """a b, added in one order: BLAS would not promise the same bits everywhere."""
    return (a[:, :, None] * b[None]).sum(axis=1)


ALGORITHMS = {
    "cali3f-gmf": partial(Cali3F, layers=()),
    "cali3f-mlp": partial(Cali3F, factors=0),
    "cali3f-neumf": Cali3F,
}
