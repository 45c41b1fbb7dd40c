"""FedFast: going beyond the average for faster training, and its systems over GMF, MLP and NeuMF.

K. Muhammad, Q. Wang, D. O'Reilly-Morgan, E. Tragos, B. Smyth, N. Hurley, J. Geraci, A. Lawlor,
"FedFast: going beyond average for faster training of federated recommender systems", KDD 2020. Two
parts: ActvSAMP chooses the devices of a round from clusters of users; ActvAGG adds up what they
learnt, each of the three parts of the model by another rule. "As found" marks what the one
public implementation does and the paper does not say. fedfast_prme.py follows this policy with
another model.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, ClassVar, NamedTuple, Self, final

import numpy as np

from ..core.contract.declarations import SentArray, axes, dense, rows
from ..core.contract.protocols import Catalogue, Histories
from ..core.contract.update import Total, Update
from ..core.keys import fold_name
from ..core.types import Float32Array, Int32Array, Int64Array
from ..kernels.averaging import HOW_MUCH, counts
from ._federated_ncf import WeighedNCF
from ._served import Learnt, ServedModel, update_of
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
    """The global model and the clusters of users."""

    user: Float32Array
    """float32 [users, row], w[U], the vectors of all users."""
    item: Float32Array
    """float32 [items, row], w[I]."""
    network: Float32Array
    """float32 [1, network], the non-embedding part."""
    cluster: Int32Array
    """int32 [users]."""
    centroids: Float32Array
    """float32 [p, row]."""
    round: Int64Array
    """int64 [1], rounds done."""


class FedFastDownload(NamedTuple):
    """The model as devices receive it: w without the vectors of other users."""

    user: Annotated[Float32Array, axes("devices", "row")]
    """float32 [m, row], the vector of each device's user."""
    item: Annotated[Float32Array, axes("items", "row")]
    network: Annotated[Float32Array, axes(1, "network")]
    round: Annotated[Int64Array, axes(1, least=0)]


class FedFastDevices(NamedTuple):
    """No private state: the server holds w[U], which it clusters; a device keeps only its data."""


class FedFastRounds(ServedModel):
    """FedFast with any model: delegates of every cluster of users take part (ActvSAMP), and those
    who do not learn from them (ActvAGG).
    """

    clusters: Clusters = 20
    decay: Decay = 1.0
    startup: Startup = True

    keeps: ClassVar[type] = FedFastDevices
    holds: ClassVar[type]
    receives: ClassVar[type]

    def configured(self, catalogue: Catalogue) -> Self:
        """Returns a copy of the settings with m, the devices of a round, as a number. Raises
        InputError for more clusters than users and for m < p."""
        configured = super().configured(catalogue)
        check_clusters(self.clusters, catalogue.users, self.devices_of(catalogue))
        return configured

    def init_server(self, catalogue: Catalogue, key: np.uint64) -> Any:
        """Returns the initial global model w and the initial clusters of users."""
        user = self.first_users(np.arange(catalogue.users), fold_name(key, "user"))
        drawn = first_centroids(user, self.clusters, fold_name(key, "clusters"))
        cluster, centroids = k_means(user, drawn)
        model = self.first_model(catalogue, key)
        return self.holds(user, *model, cluster, centroids, np.zeros(1, np.int64))

    def init_devices(
        self, users: Int64Array, catalogue: Catalogue, key: np.uint64
    ) -> FedFastDevices:
        """Returns a private state without arrays: a device keeps only its data."""
        return FedFastDevices()

    # ---- ActvSAMP --------------------------------------------------------------------------------

    def select(self, server: Any, catalogue: Catalogue, key: np.uint64) -> Int64Array:
        """Draws the devices of a round: m/p of each cluster of users at random (ActvSAMP); in the
        start-up round everybody (as found).
        """
        return actv_samp(server, self.devices_of(catalogue), self._starts(server.round), key)

    def _starts(self, rounds: Int64Array) -> bool:
        return self.startup and not rounds[0]

    def download(self, server: Any) -> Any:
        """Returns the whole server state, of which `deliver` sends each device its part."""
        return server

    def deliver(self, download: Any, users: Int64Array) -> Any:
        """Returns what the devices of `users` receive: w but for w[U], of which each device
        receives its user's row.
        """
        return self._delivered(download, download.user[users])

    def deliver_newcomer(self, download: Any, told: Update | None, key: np.uint64) -> Any:
        """Returns what the device of a newcomer receives: w, and a w[U] that is drawn at first,
        then what the device has learnt.
        """
        user = self.first_users(np.zeros(1, np.int64), key) if told is None else told.shown["user"]
        return self._delivered(download, np.asarray(user))

    def _delivered(self, download: Any, user: Float32Array) -> Any:
        # w[I] and w[N], or those parts that the model has.
        model = (getattr(download, name) for name in self.model._fields)
        return self.receives(user, *model, download.round)

    def local(
        self,
        download: Any,
        devices: FedFastDevices,
        histories: Histories,
        users: Int64Array,
        key: np.uint64,
    ) -> tuple[FedFastDevices, Update]:
        """Trains the devices for E epochs from w. Each sends its moves of w, those of items with
        their L1 norms, and shows the new w[U_k].
        """
        learnt = self.trained(download, download.user, histories, users, key)
        update = self.update_of(learnt, download, histories)
        return devices, update._replace(shown={"user": learnt.user}, sender=users)

    def update_of(self, learnt: Learnt, download: Any, histories: Histories) -> Update:
        """Returns what the devices learnt as an update, its items weighted by n_k."""
        return update_of(learnt, counts(histories))

    # ---- ActvAGG ---------------------------------------------------------------------------------

    def aggregate(self, server: Any, total: Total) -> Any:
        """Returns the new server state (ActvAGG). Non-embedding part: sum_k (n_k / n) w^k. Item i:
        sum_k q_k(i) w^k[i] / sum_k q_k(i). Users: w^k[U_k] of delegates; subordinates' += gamma_t
        times the mean move of their cluster's delegates. Then the clusters anew.
        """
        model = self.combined(server, total)
        gamma = gamma_of(self.decay, server.round, self.startup)
        user, cluster, centroids = actv_agg_users(server, total, gamma)
        return self.holds(user, *model, cluster, centroids, server.round + 1)

    def combined(self, server: Any, total: Total) -> Any:
        """Returns the new model, all of it averaged as in FedAvg."""
        return self.averaged(server, total)

    def score(self, download: Any, devices: FedFastDevices, histories: Histories) -> Float32Array:
        """Returns the scores of every item, float32 [m, items], by w and the user's own w[U_k]."""
        return self.scores(download, download.user, histories)


@final
class FedFast(FedFastRounds, WeighedNCF):
    """FedFast: delegates of every cluster of users take part (ActvSAMP), and those who do not learn
    from them (ActvAGG).

    Item embeddings are weighted by how far each device moved them.
    """

    holds: ClassVar[type] = FedFastServer
    receives: ClassVar[type] = FedFastDownload
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

    def update_of(self, learnt: Learnt, download: Any, histories: Histories) -> Update:
        """Returns what the devices learnt as an update, each item weighted by the L1 norm of its
        move, q_k(i) = |w^k[i] - w[i]|_1 (ActvAGG); in the start-up round by n_k."""
        update = super().update_of(learnt, download, histories)
        # |w^k[i] - w[i]|_1, but for a factor that all shares have
        size = np.abs(learnt.row).mean(axis=1, keepdims=True)
        if self._starts(download.round):
            # The start-up round is FedAvg's, but for a row of zeros that the declaration has.
            update.rows["share"] = 0 * size
            return update
        return update._replace(rows=self.shared(learnt.row, size))

    def combined(self, server: Any, total: Total) -> Any:
        """Returns the new model, all parts as in FedAvg, but for items: sum_k q_k(i) w^k[i] / sum_k
        q_k(i) (ActvAGG)."""
        model = super().combined(server, total)
        if self._starts(server.round):
            return model
        return model._replace(item=self.weighted_mean(server.item, total))


ALGORITHMS = {
    "fedfast-gmf": partial(FedFast, layers=()),
    "fedfast-mlp": partial(FedFast, factors=0),
    "fedfast-neumf": FedFast,
}
