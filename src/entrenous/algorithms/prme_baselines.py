"""PRME-G around a server: what PEPPER is compared with on data that says when and where.

Y. Belal, A. Bellet, S. Ben Mokhtar, V. Nitu, "PEPPER: empowering user-centric recommender systems over gossip learning", 2022, section
5.4.1. FedAvg, Reptile and FedFast (fedavg.py, reptile.py, fedfast.py say what each is) with the model of S. Feng, X. Li, Y. Zeng, G. Cong,
Y. M. Chee, Q. Yuan, "Personalized ranking metric embedding for next new POI recommendation", IJCAI 2015 (kernels/prme_node.py). The two
vectors of every venue, P and S, are on the server; FedAvg and Reptile leave the user's vector U on the device, FedFast shows it.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, NamedTuple, Self, final

import numpy as np
from pydantic import Field

from ..core.averaging import ALIKE, HOW_MUCH, alike, average, counts, weighted_moves
from ..core.contract import SentArray, Traits, axes, rows
from ..core.keys import fold_name, folds
from ..core.protocols import Catalogue, Histories
from ..core.sampling import cohort
from ..core.types import Float32Array, Int32Array, Int64Array, UInt64Array
from ..core.update import Total, Update
from ..kernels import prme_node, prme_score
from ..kernels.user_clusters import check_clusters, first_centroids, k_means, shown_user
from ._prme import HOW, PRMESettings
from .fedfast import Clusters, Decay, Startup, actv_agg_users, actv_samp, gamma_of


def moves_of_venues(what: str) -> SentArray:
    """The declaration of what leaves a device of every venue that it touched. what: "n_k times the move" or the like."""
    return rows(
        "item",
        "vectors",
        when=f"each round: {what} of both vectors of every venue that the device went to or drew as another",
        reveals="seen singly, which venues were touched, and by the direction of the move which of them were visited, and which after "
        "which; the touched ones are the history and a random venue for each visit. A sum over a cohort hides who sent what",
    )


class FederatedPRME(PRMESettings):
    """PRME-G on the devices of a federation: local training, scores, and the number of devices in a round."""

    learning_rate: float = Field(0.02, gt=0, le=10, description="of SGD, one step for each transition")
    cohort: int = Field(500, ge=0, description="m, devices in a round; 0 = all; at most all")
    rounds: int = Field(100, ge=1, description="training length")

    traits: ClassVar[Traits] = Traits()

    def configured(self, catalogue: Catalogue) -> Self:
        """A copy of the settings in which the cohort is a number of devices of this federation."""
        return self.model_copy(update={"cohort": min(self.cohort, catalogue.users) or catalogue.users})

    def default_rounds(self, catalogue: Catalogue) -> int:
        """Training rounds if none are asked for: the setting `rounds`, of any data set."""
        return self.rounds

    def sizes(self, catalogue: Catalogue) -> dict[str, int]:
        """Sizes of the declared arrays. vectors: numbers of both vectors of a venue. usual_rows: venues that a device touches with a
        history of the mean length and no venue drawn twice."""
        touched = catalogue.interactions / max(1, catalogue.users) * (1 + self.local_epochs)
        return {"vectors": 2 * self.factors, "usual_rows": max(1, min(catalogue.items, int(touched)))}

    def learnt(
        self, item: Float32Array, user: Float32Array, histories: Histories, users: Int64Array, key: np.uint64
    ) -> prme_node.PRMELearnt:
        """The result of local training: what each device learns in E passes over its transitions from the global model w."""
        return prme_node.moves(item, user, self.rows(histories), self.rates(), folds(key, users))

    def scores(self, item: Float32Array, user: Float32Array, histories: Histories) -> Float32Array:
        """Scores of every venue l, float32 [m, items]: -D(u, c, l) (Feng et al. 2015, section 4), c being the previous venues that
        `contexts` chooses."""
        here, pool = np.arange(len(user)), np.ascontiguousarray(item).reshape(1, -1)
        how, alpha = HOW[self.contexts], np.float32(self.preference)
        return prme_score.scores(pool, 0 * here, user, here, self.rows(histories), how, alpha, len(item))


# ---- FedAvg and Reptile --------------------------------------------------------------------------------------------------------


class PRMEVenues(NamedTuple):
    """The global model w. item: float32 [items, 2 factors], P and S of every venue. The server holds it; a device receives it whole."""

    item: Annotated[Float32Array, axes("items", "vectors")]


class FedAvgPRMEDevices(NamedTuple):
    """Private state of m devices. user: the user vectors U, float32 [m, factors]. They never leave."""

    user: Annotated[Float32Array, axes("factors")]


class AveragedPRME(FederatedPRME):
    """The server's side of a plain average of PRME-G models."""

    holds: ClassVar[type] = PRMEVenues
    receives: ClassVar[type] = PRMEVenues

    def init_server(self, catalogue: Catalogue, key: np.uint64) -> PRMEVenues:
        """The initial global model w: the vectors P and S of every venue."""
        return PRMEVenues(self.first_items(catalogue.items, fold_name(key, "item")))

    def select(self, server: PRMEVenues, catalogue: Catalogue, key: np.uint64) -> Int64Array:
        """The round's devices S_t: m of them, uniformly at random."""
        return cohort(key, self.configured(catalogue).cohort, catalogue.users)

    def download(self, server: PRMEVenues) -> PRMEVenues:
        """The global model w, which every device of the round receives whole."""
        return server


@final
class FedAvgPRME(AveragedPRME):
    """Federated averaging of PRME-G: E local epochs on each device, then the mean weighted by n_k."""

    keeps: ClassVar[type] = FedAvgPRMEDevices
    sends: ClassVar[tuple[SentArray, ...]] = (moves_of_venues("n_k times the move"), HOW_MUCH)

    def init_devices(self, users: Int64Array, key: np.uint64) -> FedAvgPRMEDevices:
        """The initial user vectors U of the devices of `users`, each drawn on its device."""
        return FedAvgPRMEDevices(self.first_users(users, key))

    def local(
        self, download: PRMEVenues, devices: FedAvgPRMEDevices, histories: Histories, users: Int64Array, key: np.uint64
    ) -> tuple[FedAvgPRMEDevices, Update]:
        """Local training, ClientUpdate(k, w) of FedAvg: E epochs; sends n_k (w_k - w) of the venues that the device touched."""
        sent, weight = self.learnt(download.item, devices.user, histories, users, key), counts(histories)
        update = Update(sent.ptr, sent.item, weighted_moves(sent.row, sent.ptr, weight), {}, weight)
        return FedAvgPRMEDevices(sent.user), update

    def aggregate(self, server: PRMEVenues, total: Total) -> PRMEVenues:
        """The new global model, w <- w + sum_k (n_k / n) (w_k - w)."""
        return PRMEVenues(average(server.item, total))

    def score(self, download: PRMEVenues, devices: FedAvgPRMEDevices, histories: Histories) -> Float32Array:
        """Scores of every venue l, float32 [m, items]: -D(u, c, l)."""
        return self.scores(download.item, devices.user, histories)


class ReptilePRMEDevices(NamedTuple):
    """Private state of m devices. user: float32 [m, factors], the vector of each device's user; key: uint64 [m], from which a device
    draws when it adapts."""

    user: Annotated[Float32Array, axes("factors")]
    key: Annotated[UInt64Array, axes()]


@final
class ReptilePRME(AveragedPRME):
    """Reptile over PRME-G: learning of a model from which each device is quick to adapt to its user, as it does before it recommends."""

    meta_rate: float = Field(1.0, gt=0, le=10, description="epsilon: how far w goes towards the mean of the devices' models")
    adapt_epochs: int = Field(
        1, ge=0, le=1000, description="passes over its transitions by which a device adapts w to score; 0 = none"
    )

    keeps: ClassVar[type] = ReptilePRMEDevices
    sends: ClassVar[tuple[SentArray, ...]] = (moves_of_venues("the move"), ALIKE)

    def init_devices(self, users: Int64Array, key: np.uint64) -> ReptilePRMEDevices:
        """The initial private state of the devices of `users`: the user vectors U and the key of each device."""
        return ReptilePRMEDevices(self.first_users(users, key), folds(fold_name(key, "adapt"), users))

    def local(
        self, download: PRMEVenues, devices: ReptilePRMEDevices, histories: Histories, users: Int64Array, key: np.uint64
    ) -> tuple[ReptilePRMEDevices, Update]:
        """Local training: E epochs from w; sends w_k - w of the venues that the device touched."""
        sent, weight = self.learnt(download.item, devices.user, histories, users, key), alike(histories)
        update = Update(sent.ptr, sent.item, weighted_moves(sent.row, sent.ptr, weight), {}, weight)
        return ReptilePRMEDevices(sent.user, devices.key), update

    def aggregate(self, server: PRMEVenues, total: Total) -> PRMEVenues:
        """The new global model, w <- w + epsilon mean_k (w_k - w)."""
        return PRMEVenues(average(server.item, total, self.meta_rate))

    def score(self, download: PRMEVenues, devices: ReptilePRMEDevices, histories: Histories) -> Float32Array:
        """Scores -D(u, c, l) of every venue l by w as adapted to the device's transitions, float32 [m, items]; one device after the
        other."""
        if not self.adapt_epochs:
            return self.scores(download.item, devices.user, histories)
        everyone, rates = self.rows(histories), self.rates()._replace(epochs=self.adapt_epochs)
        out, one = np.empty((len(devices.user), len(download.item)), np.float32), np.zeros(1, np.int64)
        how, alpha = HOW[self.contexts], np.float32(self.preference)
        for d in range(len(out)):
            private = everyone._replace(ptr=everyone.ptr[d : d + 2], avoid_ptr=everyone.avoid_ptr[d : d + 2])
            pool, own = download.item.reshape(1, -1).copy(), devices.user[d : d + 1].copy()
            prme_node.train(pool, one, own, one, private, rates, len(download.item), devices.key[d : d + 1])
            out[d] = prme_score.scores(pool, one, own, one, private, how, alpha, len(download.item))
        return out


# ---- FedFast -------------------------------------------------------------------------------------------------------------------


class FedFastPRMEServer(NamedTuple):
    """The global model and the clusters of users. user: U of everybody, float32 [users, factors]; item: P and S of every venue, float32
    [items, 2 factors]; cluster: int32 [users]; centroids: float32 [p, factors]; round: int64 [1], rounds done."""

    user: Float32Array
    item: Float32Array
    cluster: Int32Array
    centroids: Float32Array
    round: Int64Array


class FedFastPRMEDownload(NamedTuple):
    """The model as devices receive it: w without the vectors of other users. user: float32 [m, factors]; round: int64 [1]."""

    user: Annotated[Float32Array, axes("devices", "factors")]
    item: Annotated[Float32Array, axes("items", "vectors")]
    round: Annotated[Int64Array, axes(1, least=0)]


class FedFastPRMEDevices(NamedTuple):
    """No private state: the server holds U, which it clusters; a device keeps only its visits."""


@final
class FedFastPRME(FederatedPRME):
    """FedFast over PRME-G, as PEPPER has it (section 5.4): users are clustered, sampled from each cluster, and learn from its delegates.

    Venues are averaged "in the same manner as FedAvg": as ActvAGG has it, each by how far devices moved it, they do worse."""

    clusters: Clusters = 20
    decay: Decay = 1.0
    startup: Startup = True

    holds: ClassVar[type] = FedFastPRMEServer
    receives: ClassVar[type] = FedFastPRMEDownload
    keeps: ClassVar[type] = FedFastPRMEDevices
    sends: ClassVar[tuple[SentArray, ...]] = (shown_user("factors"), moves_of_venues("n_k times the move"), HOW_MUCH)

    def configured(self, catalogue: Catalogue) -> Self:
        """A copy of the settings with m, the devices of a round, as a number. Raises InputError for more clusters than users and for m <
        p."""
        own = super().configured(catalogue)
        check_clusters(self.clusters, catalogue.users, own.cohort)
        return own

    def init_server(self, catalogue: Catalogue, key: np.uint64) -> FedFastPRMEServer:
        """The initial global model w and the initial clusters of users."""
        user = self.first_users(np.arange(catalogue.users), fold_name(key, "user"))
        cluster, centroids = k_means(user, first_centroids(user, self.clusters, fold_name(key, "clusters")))
        item = self.first_items(catalogue.items, fold_name(key, "item"))
        return FedFastPRMEServer(user, item, cluster, centroids, np.zeros(1, np.int64))

    def init_devices(self, users: Int64Array, key: np.uint64) -> FedFastPRMEDevices:
        """Private state without arrays: a device keeps its visits alone."""
        return FedFastPRMEDevices()

    def select(self, server: FedFastPRMEServer, catalogue: Catalogue, key: np.uint64) -> Int64Array:
        """The round's devices: the delegates of the clusters of users; in the start-up round everybody."""
        return actv_samp(server, self.configured(catalogue).cohort, self.startup and not server.round[0], key)

    def download(self, server: FedFastPRMEServer) -> FedFastPRMEServer:
        """The whole server state, of which `deliver` sends each device its part."""
        return server

    def deliver(self, download: FedFastPRMEServer, users: Int64Array) -> FedFastPRMEDownload:
        """The model that the devices of `users` receive: the venues' vectors, and the vector of each device's user."""
        return FedFastPRMEDownload(download.user[users], download.item, download.round)

    def local(
        self, download: FedFastPRMEDownload, devices: FedFastPRMEDevices, histories: Histories, users: Int64Array, key: np.uint64
    ) -> tuple[FedFastPRMEDevices, Update]:
        """Local training: E epochs from w; sends n_k times the moves of venues, and shows the new user vector U."""
        sent, weight = self.learnt(download.item, download.user, histories, users, key), counts(histories)
        moved = weighted_moves(sent.row, sent.ptr, weight)
        return devices, Update(sent.ptr, sent.item, moved, {}, weight, shown={"user": sent.user}, sender=users)

    def aggregate(self, server: FedFastPRMEServer, total: Total) -> FedFastPRMEServer:
        """The server's step. Venues: sum_k (n_k / n) w^k. Users, then clusters, as in FedFast (ActvAGG)."""
        user, cluster, centroids = actv_agg_users(server, total, gamma_of(self.decay, server.round, self.startup))
        return FedFastPRMEServer(user, average(server.item, total), cluster, centroids, server.round + 1)

    def score(self, download: FedFastPRMEDownload, devices: FedFastPRMEDevices, histories: Histories) -> Float32Array:
        """Scores of every venue l, float32 [m, items]: -D(u, c, l)."""
        return self.scores(download.item, download.user, histories)


ALGORITHMS = {"fedavg-prme-g": FedAvgPRME, "reptile-prme-g": ReptilePRME, "fedfast-prme-g": FedFastPRME}
