"""FedFast: going beyond the average for faster training of federated recommenders.

K. Muhammad, Q. Wang, D. O'Reilly-Morgan, E. Tragos, B. Smyth, N. Hurley, J. Geraci, A. Lawlor,
"FedFast: going beyond average for faster training of federated recommender systems", KDD 2020. Two
parts: ActvSAMP chooses the devices of a round from clusters of users, ActvAGG adds up what they
learnt, each of the three parts of the model by a rule of its own. "As found" marks what the one
public implementation does and the paper does not say."""

from __future__ import annotations

from functools import partial
from typing import Annotated, ClassVar, NamedTuple, Self, final

import numpy as np

from ..core.contract.declarations import SentArray, Traits, axes, dense, rows
from ..core.contract.protocols import Catalogue, Histories
from ..core.contract.update import Total, Update
from ..core.keys import fold_name
from ..core.types import Float32Array, Int32Array, Int64Array
from ..kernels import ncf
from ..kernels.averaging import HOW_MUCH, average, counts, weighted_moves
from ._federated_ncf import NCFSettings, data_of, mean_network, one_network, shared, weighted_mean
from ._user_clusters import (
    Clusters,
    Decay,
    Startup,
    actv_agg_users,
    actv_samp,
    check_clusters,
    first_centroids,
    gamma_of,
    k_means,
    shown_user,
)


class FedFastServer(NamedTuple):
    """The global model and the clusters of users. user: w[U] float32 [users, row]; item: w[I]
    float32 [items, row]; network: float32 [1, network], the non-embedding part; cluster: int32
    [users]; centroids: float32 [p, row]; round: int64 [1], rounds done.
    """

    user: Float32Array
    item: Float32Array
    network: Float32Array
    cluster: Int32Array
    centroids: Float32Array
    round: Int64Array


class FedFastDownload(NamedTuple):
    """The model as devices receive it: w without the user embeddings of others. user: float32 [m,
    row]; round: int64 [1].
    """

    user: Annotated[Float32Array, axes("devices", "row")]
    item: Annotated[Float32Array, axes("items", "row")]
    network: Annotated[Float32Array, axes(1, "network")]
    round: Annotated[Int64Array, axes(1, least=0)]


class FedFastDevices(NamedTuple):
    """No private state: the server holds w[U], which it clusters; a device keeps only its
    history.
    """


@final
class FedFast(NCFSettings):
    """FedFast: delegates of every cluster of users take part (ActvSAMP), and those who do not learn
    from them (ActvAGG).

    Item embeddings are weighted by how far each device moved them.
    """

    clusters: Clusters = 20
    decay: Decay = 1.0
    startup: Startup = True

    holds: ClassVar[type] = FedFastServer
    receives: ClassVar[type] = FedFastDownload
    keeps: ClassVar[type] = FedFastDevices
    sends: ClassVar[tuple[SentArray, ...]] = (
        shown_user("row"),
        HOW_MUCH,
        rows(
            "item",
            "row",
            when=(
                "each round: the move of every touched item times its size; in the start-up round,"
                " times n_k"
            ),
            reveals=(
                "seen singly, which items were touched, and by the direction of the move which of"
                " them were consumed. A sum adds it to others', yet the user's own embedding, which"
                " the device shows, does not need it"
            ),
        ),
        rows("share", 1, when="with every row of item", reveals="the size of that item's move"),
        dense(
            "network",
            "network",
            when="each round: n_k times the move of the non-embedding part",
            reveals=(
                "seen singly, moves that follow from the history, which the rows of item beside it"
                " tell; in a sum, those of the cohort together"
            ),
        ),
    )
    traits: ClassVar[Traits] = Traits()

    def configured(self, catalogue: Catalogue) -> Self:
        """A copy of the settings with m, the devices of a round, as a number. Raises InputError for
        more clusters than users and for m < p."""
        own = super().configured(catalogue)
        check_clusters(self.clusters, catalogue.users, own.cohort)
        return own

    def init_server(self, catalogue: Catalogue, key: np.uint64) -> FedFastServer:
        """The initial global model w and the initial clusters of users."""
        user = self.first_users(np.arange(catalogue.users), fold_name(key, "user"))
        cluster, centroids = k_means(
            user, first_centroids(user, self.clusters, fold_name(key, "clusters"))
        )
        item, network = self.first_items(catalogue.items, key), self.first_network(key)
        return FedFastServer(user, item, network, cluster, centroids, np.zeros(1, np.int64))

    def init_devices(self, users: Int64Array, key: np.uint64) -> FedFastDevices:
        """Private state without arrays: a device keeps its history alone."""
        return FedFastDevices()

    # ---- ActvSAMP --------------------------------------------------------------------------------

    def select(self, server: FedFastServer, catalogue: Catalogue, key: np.uint64) -> Int64Array:
        """The round's devices: m/p of each cluster of users at random (ActvSAMP); in the start-up
        round everybody (as found).
        """
        return actv_samp(server, self.configured(catalogue).cohort, self._starts(server.round), key)

    def _starts(self, number: Int64Array) -> bool:
        return self.startup and not number[0]

    def download(self, server: FedFastServer) -> FedFastServer:
        """The whole server state, of which `deliver` sends each device its part."""
        return server

    def deliver(self, download: FedFastServer, users: Int64Array) -> FedFastDownload:
        """The model that the devices of `users` receive: w[I], the non-embedding part, and the row
        of w[U] of each device's user.
        """
        return FedFastDownload(
            download.user[users], download.item, download.network, download.round
        )

    def local(
        self,
        download: FedFastDownload,
        devices: FedFastDevices,
        histories: Histories,
        users: Int64Array,
        key: np.uint64,
    ) -> tuple[FedFastDevices, Update]:
        """Local training: E epochs from w; sends the moves of w[I], each with its L1 norm, and of
        the non-embedding part, and shows the new w[U_k]."""
        weight, data, w = (
            counts(histories),
            data_of(histories, users, key),
            (download.user, download.item, download.network),
        )
        sent = ncf.train(self.shape, self.rates(), *w, one_network(len(users)), data)
        moved = sent.row
        size = np.abs(moved).mean(
            axis=1, keepdims=True
        )  # |w^k[i] - w[i]|_1 but for a factor that all shares have
        starts = self._starts(download.round)
        item = (
            {**weighted_moves(moved, sent.ptr, weight), "share": 0 * size}
            if starts
            else shared(moved, size)
        )
        network = {"network": weight[:, None] * sent.network}
        return devices, Update(
            sent.ptr, sent.item, item, network, weight, shown={"user": sent.user}, sender=users
        )

    # ---- ActvAGG ---------------------------------------------------------------------------------

    def aggregate(self, server: FedFastServer, total: Total) -> FedFastServer:
        """The server's step (ActvAGG). Non-embedding part: sum_k (n_k / n) w^k. Item i: sum_k
        q_k(i) w^k[i] / sum_k q_k(i), q_k(i) = |w^k[i] - w[i]|_1. Users: w^k[U_k] of delegates;
        subordinates' += gamma_t times the mean move of their cluster's delegates. Then the clusters
        anew.
        """
        network = mean_network(server.network, total.dense["network"], total.weight)
        item = (
            average(server.item, total)
            if self._starts(server.round)
            else weighted_mean(server.item, total)
        )
        user, cluster, centroids = actv_agg_users(
            server, total, gamma_of(self.decay, server.round, self.startup)
        )
        return FedFastServer(user, item, network, cluster, centroids, server.round + 1)

    def score(
        self, download: FedFastDownload, devices: FedFastDevices, histories: Histories
    ) -> Float32Array:
        """Scores of every item, float32 [m, items]: the logit of y_ui."""
        return ncf.scores(
            self.shape,
            download.user,
            download.item,
            download.network,
            one_network(len(download.user)),
        )


ALGORITHMS = {
    "fedfast-gmf": partial(FedFast, layers=()),
    "fedfast-mlp": partial(FedFast, factors=0),
    "fedfast-neumf": FedFast,
}
