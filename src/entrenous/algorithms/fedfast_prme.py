"""FedFast over PRME-G: what PEPPER (section 5.4.1) is compared with on data that says when and
where.

Muhammad et al. 2020, as in fedfast.py: devices of a round come from clusters of users (ActvSAMP),
and users who take no part learn from those of their cluster who do (ActvAGG); _user_clusters.py has
both. Venues are averaged as in FedAvg. The server sees the user's vector U, which it clusters."""

from __future__ import annotations

from typing import Annotated, ClassVar, NamedTuple, Self, final

import numpy as np

from ..core.contract.declarations import SentArray, axes
from ..core.contract.protocols import Catalogue, Histories
from ..core.contract.update import Total, Update
from ..core.keys import fold_name
from ..core.types import Float32Array, Int32Array, Int64Array
from ..kernels.averaging import HOW_MUCH, average, counts, weighted_moves
from ._prme import FederatedPRME, moves_of_venues
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


class FedFastPRMEServer(NamedTuple):
    """The global model and the clusters of users. user: U of everybody, float32 [users, factors];
    item: P and S of every venue, float32 [items, 2 factors]; cluster: int32 [users]; centroids:
    float32 [p, factors]; round: int64 [1], rounds done.
    """

    user: Float32Array
    item: Float32Array
    cluster: Int32Array
    centroids: Float32Array
    round: Int64Array


class FedFastPRMEDownload(NamedTuple):
    """The model as devices receive it: w without the vectors of other users. user: float32 [m,
    factors]; round: int64 [1].
    """

    user: Annotated[Float32Array, axes("devices", "factors")]
    item: Annotated[Float32Array, axes("items", "vectors")]
    round: Annotated[Int64Array, axes(1, least=0)]


class FedFastPRMEDevices(NamedTuple):
    """No private state: the server holds U, which it clusters; a device keeps only its visits."""


@final
class FedFastPRME(FederatedPRME):
    """FedFast over PRME-G, as PEPPER has it (section 5.4): users are clustered, sampled from each
    cluster, and learn from its delegates.

    Venues are averaged "in the same manner as FedAvg": as ActvAGG has it, each by how far devices
    moved it, they do worse.
    """

    clusters: Clusters = 20
    decay: Decay = 1.0
    startup: Startup = True

    holds: ClassVar[type] = FedFastPRMEServer
    receives: ClassVar[type] = FedFastPRMEDownload
    keeps: ClassVar[type] = FedFastPRMEDevices
    sends: ClassVar[tuple[SentArray, ...]] = (
        shown_user("factors"),
        moves_of_venues("n_k times the move"),
        HOW_MUCH,
    )

    def configured(self, catalogue: Catalogue) -> Self:
        """A copy of the settings with m, the devices of a round, as a number. Raises InputError for
        more clusters than users and for m < p."""
        own = super().configured(catalogue)
        check_clusters(self.clusters, catalogue.users, own.cohort)
        return own

    def init_server(self, catalogue: Catalogue, key: np.uint64) -> FedFastPRMEServer:
        """The initial global model w and the initial clusters of users."""
        user = self.first_users(np.arange(catalogue.users), fold_name(key, "user"))
        cluster, centroids = k_means(
            user, first_centroids(user, self.clusters, fold_name(key, "clusters"))
        )
        item = self.first_items(catalogue.items, fold_name(key, "item"))
        return FedFastPRMEServer(user, item, cluster, centroids, np.zeros(1, np.int64))

    def init_devices(self, users: Int64Array, key: np.uint64) -> FedFastPRMEDevices:
        """Private state without arrays: a device keeps its visits alone."""
        return FedFastPRMEDevices()

    def select(self, server: FedFastPRMEServer, catalogue: Catalogue, key: np.uint64) -> Int64Array:
        """The round's devices: the delegates of the clusters of users; in the start-up round
        everybody.
        """
        return actv_samp(
            server, self.configured(catalogue).cohort, self.startup and not server.round[0], key
        )

    def download(self, server: FedFastPRMEServer) -> FedFastPRMEServer:
        """The whole server state, of which `deliver` sends each device its part."""
        return server

    def deliver(self, download: FedFastPRMEServer, users: Int64Array) -> FedFastPRMEDownload:
        """The model that the devices of `users` receive: the venues' vectors, and the vector of
        each device's user.
        """
        return FedFastPRMEDownload(download.user[users], download.item, download.round)

    def local(
        self,
        download: FedFastPRMEDownload,
        devices: FedFastPRMEDevices,
        histories: Histories,
        users: Int64Array,
        key: np.uint64,
    ) -> tuple[FedFastPRMEDevices, Update]:
        """Local training: E epochs from w; sends n_k times the moves of venues, and shows the new
        user vector U.
        """
        sent, weight = (
            self.learnt(download.item, download.user, histories, users, key),
            counts(histories),
        )
        moved = weighted_moves(sent.row, sent.ptr, weight)
        return devices, Update(
            sent.ptr, sent.item, moved, {}, weight, shown={"user": sent.user}, sender=users
        )

    def aggregate(self, server: FedFastPRMEServer, total: Total) -> FedFastPRMEServer:
        """The server's step. Venues: sum_k (n_k / n) w^k. Users, then clusters, as in FedFast
        (ActvAGG).
        """
        user, cluster, centroids = actv_agg_users(
            server, total, gamma_of(self.decay, server.round, self.startup)
        )
        return FedFastPRMEServer(
            user, average(server.item, total), cluster, centroids, server.round + 1
        )

    def score(
        self, download: FedFastPRMEDownload, devices: FedFastPRMEDevices, histories: Histories
    ) -> Float32Array:
        """Scores of every venue l, float32 [m, items]: -D(u, c, l)."""
        return self.scores(download.item, download.user, histories)


ALGORITHMS = {"fedfast-prme-g": FedFastPRME}
