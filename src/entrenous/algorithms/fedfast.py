"""FedFast: going beyond the average for faster training of federated recommenders.

K. Muhammad, Q. Wang, D. O'Reilly-Morgan, E. Tragos, B. Smyth, N. Hurley, J. Geraci, A. Lawlor, "FedFast: going beyond average for
faster training of federated recommender systems", KDD 2020. Two parts: ActvSAMP chooses the devices of a round from clusters of users,
ActvAGG adds up what they learnt, each of the three parts of the model by a rule of its own. "As found" marks what the one public
implementation does and the paper does not say.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, ClassVar, NamedTuple, Self, final

import numpy as np
from pydantic import Field

from ..core.keys import fold_name
from ..core.protocols import Catalogue, Disclosed, Histories
from ..core.settings import Settings
from ..core.types import Float32Array, Int32Array, Int64Array
from ..core.update import Total, Update, gathered
from ..kernels import ncf, ncf_device
from ..kernels.k_means import first_centroids, k_means
from ._averaged_prme import FederatedPRME
from ._averaged_prme import disclosed as disclosed_venues
from ._clusters import SHOWN_USER, check_clusters, delegates_of, with_progress
from ._ncf import NCFSettings, average, averaged, counts, data_of, mean_network, shared, weighted_mean


class Server(NamedTuple):
    """w. user: w[U] float32 [users, row]; item: w[I] float32 [items, row]; network: float32 [1, network], the non-embedding part;
    cluster: int32 [users]; centroids: float32 [p, row]; round: int64 [1], rounds done."""

    user: Float32Array
    item: Float32Array
    network: Float32Array
    cluster: Int32Array
    centroids: Float32Array
    round: Int64Array


class Download(NamedTuple):
    """What devices receive: w without the user embeddings of others. user: float32 [m, row]; round: int64 [1]."""

    user: Float32Array
    item: Float32Array
    network: Float32Array
    round: Int64Array


class Devices(NamedTuple):
    """Nothing stays on a device but its history: the server holds w[U], which it clusters."""


class Delegates(Settings):
    """ActvSAMP, and when and how much subordinates learn from delegates, whatever the model."""

    clusters: int = Field(20, ge=1, le=100000, description="p, clusters of users")
    decay: float = Field(
        1.0, ge=0, le=1000, description="gamma_t = exp(-decay t): the share of delegates' progress that others take in round t"
    )
    startup: bool = Field(
        True, description="a first round in which every device trains and FedAvg adds up, before the first clusters"
    )

    def configured(self, catalogue: Catalogue) -> Self:
        """The same settings with m as a number. Raises InputError for more clusters than users and for m < p."""
        own = super().configured(catalogue)  # type: ignore[misc]  # the model's
        check_clusters(self.clusters, catalogue.users, own.cohort)
        return own  # type: ignore[no-any-return]

    def select(self, server: Any, catalogue: Catalogue, key: np.uint64) -> Int64Array:
        """The delegates: m/p devices of each cluster at random. In the start-up round everybody (as found)."""
        if self._starts(server.round):
            return np.arange(catalogue.users)
        return delegates_of(server.cluster, self.configured(catalogue).cohort, key)  # type: ignore[attr-defined]

    def _starts(self, number: Int64Array) -> bool:
        return self.startup and not number[0]

    def _gamma(self, number: Int64Array) -> float:
        """gamma_t, t = 1, 2, ... after the start-up round (the decay as found)."""
        return math.exp(-self.decay * (int(number[0]) + (not self.startup)))

    def learnt_users(self, server: Any, total: Total) -> tuple[Float32Array, Int32Array, Float32Array]:
        """All user vectors, delegates' as they showed them and subordinates' += gamma_t times the mean move of their cluster's delegates;
        then the clusters anew, and their centroids."""
        delegates, shown = gathered(total)
        user = with_progress(server.user, server.cluster, self.clusters, delegates, shown["user"], self._gamma(server.round))
        return user, *k_means(user, server.centroids)


@final
class FedFast(Delegates, NCFSettings):
    """FedFast: delegates of every cluster of users take part (ActvSAMP), and those who do not learn from them (ActvAGG).

    Item embeddings are weighted by how far each device moved them."""

    disclosure: ClassVar[tuple[Disclosed, ...]] = (
        SHOWN_USER,
        Disclosed(
            "item",
            "[rows, row] float32",
            "each round: the move of every touched item times its size; in the start-up round, times n_k",
            "seen singly, which items were touched, and by the direction of the move which of them were consumed. A sum hides who sent "
            "what, yet w[U] above does not need it",
        ),
        Disclosed("share", "[rows, 1] float32", "with every row of item", "the size of that move"),
        Disclosed(
            "network",
            "[network] float32",
            "each round: n_k times the move of the non-embedding part",
            "seen singly, a summary of the history; in a sum, the cohort's taste",
        ),
    )

    def update_bytes(self, catalogue: Catalogue) -> int:
        """A row and its share for each touched item, the network and a user embedding."""
        row = 4 * self.shape.row
        return catalogue.items * (4 + row + 4) + 4 * self.shape.network + row

    def init_server(self, catalogue: Catalogue, key: np.uint64) -> Server:
        """The first w and the first clusters."""
        user = self.first_users(np.arange(catalogue.users), fold_name(key, "user"))
        cluster, centroids = k_means(user, first_centroids(user, self.clusters, fold_name(key, "clusters")))
        item, network = self.first_items(catalogue.items, key), self.first_network(key)
        return Server(user, item, network, cluster, centroids, np.zeros(1, np.int64))

    def init_devices(self, users: Int64Array, key: np.uint64) -> Devices:
        """Nothing."""
        return Devices()

    def download(self, server: Server) -> Server:
        """All there is; `deliver` says who gets what."""
        return server

    def deliver(self, download: Server, users: Int64Array) -> Download:
        """w[I], the non-embedding part, and the row of w[U] of each device's user."""
        return Download(download.user[users], download.item, download.network, download.round)

    def local(
        self, download: Download, devices: Devices, histories: Histories, users: Int64Array, key: np.uint64
    ) -> tuple[Devices, Update]:
        """E epochs from w; sends the moves of w[I], each with its L1 norm, and of the non-embedding part, and shows the new w[U_k]."""
        weight, data = counts(histories), data_of(histories, users, key)
        groups = np.zeros(len(users), np.int32)
        sent = ncf_device.train(self.shape, self.rates(), download.user, download.item, download.network, groups, data)
        moved = sent.row
        size = np.abs(moved).mean(axis=1, keepdims=True)  # |w^k[i] - w[i]|_1 but for a factor that all shares have
        rows = {**averaged(moved, sent.ptr, weight), "share": 0 * size} if self._starts(download.round) else shared(moved, size)
        dense = {"network": weight[:, None] * sent.network}
        return devices, Update(sent.ptr, sent.item, rows, dense, weight, shown={"user": sent.user}, sender=users)

    def aggregate(self, server: Server, total: Total) -> Server:
        """Non-embedding part: sum_k (n_k / n) w^k. Item i: sum_k q_k(i) w^k[i] / sum_k q_k(i), q_k(i) = |w^k[i] - w[i]|_1. Users: w^k[U_k]
        of delegates; subordinates' += gamma_t times the mean move of their cluster's delegates. Then the clusters anew."""
        user, cluster, centroids = self.learnt_users(server, total)
        item = average(server.item, total) if self._starts(server.round) else weighted_mean(server.item, total)
        network = mean_network(server.network, total.dense["network"], total.weight)
        return Server(user, item, network, cluster, centroids, server.round + 1)

    def score(self, download: Download, devices: Devices, histories: Histories) -> Float32Array:
        """The logit of y_ui for every item, float32 [m, items]."""
        return ncf.scores(self.shape, download.user, download.item, download.network, np.zeros(len(download.user), np.int32))


class PRMEServer(NamedTuple):
    """As Server. user: U of everybody, float32 [users, factors]; item: P and S of every venue, float32 [items, 2 factors]."""

    user: Float32Array
    item: Float32Array
    cluster: Int32Array
    centroids: Float32Array
    round: Int64Array


class PRMEDownload(NamedTuple):
    """As Download."""

    user: Float32Array
    item: Float32Array
    round: Int64Array


@final
class FedFastPRME(Delegates, FederatedPRME):
    """FedFast over PRME-G, as PEPPER has it (section 5.4): users are clustered, sampled from each cluster, and learn from its delegates.

    Venues are averaged "in the same manner as FedAvg": as ActvAGG has it, each by how far devices moved it, they do worse."""

    disclosure: ClassVar[tuple[Disclosed, ...]] = (
        SHOWN_USER._replace(shape="[factors] float32"),
        disclosed_venues("n_k times the move"),
    )

    def update_bytes(self, catalogue: Catalogue) -> int:
        """A row for each venue, at most all, and a user vector."""
        return super().update_bytes(catalogue) + 4 * self.factors

    def init_server(self, catalogue: Catalogue, key: np.uint64) -> PRMEServer:
        """The first w and the first clusters."""
        user = self.first_users(np.arange(catalogue.users), fold_name(key, "user"))
        cluster, centroids = k_means(user, first_centroids(user, self.clusters, fold_name(key, "clusters")))
        item = self.first_items(catalogue.items, fold_name(key, "item"))
        return PRMEServer(user, item, cluster, centroids, np.zeros(1, np.int64))

    def init_devices(self, users: Int64Array, key: np.uint64) -> Devices:
        """Nothing."""
        return Devices()

    def download(self, server: PRMEServer) -> PRMEServer:
        """All there is; `deliver` says who gets what."""
        return server

    def deliver(self, download: PRMEServer, users: Int64Array) -> PRMEDownload:
        """The venues, and the vector of each device's user."""
        return PRMEDownload(download.user[users], download.item, download.round)

    def local(
        self, download: PRMEDownload, devices: Devices, histories: Histories, users: Int64Array, key: np.uint64
    ) -> tuple[Devices, Update]:
        """E epochs from w; sends n_k times the moves of venues, and shows the new U."""
        sent, weight = self.learnt(download.item, download.user, histories, users, key), counts(histories)
        rows = averaged(sent.row, sent.ptr, weight)
        return devices, Update(sent.ptr, sent.item, rows, {}, weight, shown={"user": sent.user}, sender=users)

    def aggregate(self, server: PRMEServer, total: Total) -> PRMEServer:
        """Venues: sum_k (n_k / n) w^k. Users, then clusters: `learnt_users`."""
        user, cluster, centroids = self.learnt_users(server, total)
        return PRMEServer(user, average(server.item, total), cluster, centroids, server.round + 1)

    def score(self, download: PRMEDownload, devices: Devices, histories: Histories) -> Float32Array:
        """-D(u, c, l) of every venue l, float32 [m, items]."""
        return self.scores(download.item, download.user, histories)


ALGORITHMS = {
    "fedfast-gmf": partial(FedFast, layers=()),
    "fedfast-mlp": partial(FedFast, factors=0),
    "fedfast-neumf": FedFast,
    "fedfast-prme-g": FedFastPRME,
}
