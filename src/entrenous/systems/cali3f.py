"""Cali3F, calibrated fast fair federated recommendation.

Z. Zhu, S. Si, J. Wang, J. Xiao, "Cali3F: calibrated fast fair federated recommendation system",
IJCNN 2022. Read this file with section III of the paper. w[U, I, N] are the user embeddings, the
item embeddings and the non-embedding part of a neural collaborative filter; v_p[N] is the
non-embedding part of cluster p, whose other parts are those of w. Numbers in brackets are the
paper's equations; "line" is a line of its algorithm 1, whose lines 2 and 3 (rounds, devices in
parallel) are federation/rounds.py. (1) is Ditto's objective (ditto.py).
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, ClassVar, Literal, NamedTuple, Self, final

import numpy as np
from pydantic import Field

from ..core.contract.declarations import SentArray, Traits, UpTo, axes, dense, rows, shown
from ..core.contract.protocols import Catalogue, Histories
from ..core.contract.update import Total, Update, gathered, real
from ..core.errors import InputError
from ..core.keys import fold_name
from ..core.types import Float32Array, Float64Array, Int32Array, Int64Array
from ..data.user_groups import UserGroups
from ..kernels import ncf
from ..kernels.averaging import HOW_MUCH, average, counts, weighted_moves
from ..kernels.sampling import cohort
from ._federated_ncf import WeighedNCF, data_of, mean_network, one_network
from ._user_clusters import (
    check_clusters,
    delegates_of,
    first_centroids,
    k_means,
    shown_user,
    with_progress,
)


class Cali3FServer(NamedTuple):
    """The global model w, the cluster models v_p, and the clusters."""

    user: Float32Array
    """float32 [users, row], w[U]."""
    item: Float32Array
    """float32 [items, row], w[I]."""
    network: Float32Array
    """float32 [1, network], w[N]."""
    local: Float32Array
    """float32 [P, network], v_p[N]."""
    cluster: Int32Array
    """int32 [users], G."""
    centroids: Float32Array
    """float32 [P, row]."""
    n: Float32Array
    """float32 [users], n_k as far as known."""
    round: Int64Array
    """int64 [1], rounds done."""


class Cali3FDownload(NamedTuple):
    """The models that the m devices of a delivery receive: w[I, N], the row of w[U] of their user,
    and the v_p[N] of their cluster."""

    user: Annotated[Float32Array, axes("devices", "row")]
    item: Annotated[Float32Array, axes("items", "row")]
    network: Annotated[Float32Array, axes(1, "network")]
    local: Annotated[Float32Array, axes(UpTo("among", "devices"), "network")]
    """float32 [clusters among the devices, network]."""
    cluster: Annotated[Int32Array, axes("devices", below="clusters")]
    """int32 [m], the cluster of each device."""
    at: Annotated[Int32Array, axes("devices", below="among", least=-1)]
    """int32 [m], the row of `local` that holds the model of each device, -1 = it has none."""


class Cali3FDevices(NamedTuple):
    """No private state: the server holds w[U], which it clusters; a device keeps only its
    history.
    """


@final
class Cali3F(WeighedNCF):
    """Calibrated fast fair federated recommendation: a model for each cluster of users, held near
    the global one (CaliUp).

    Delegates from each cluster take part (ClusSamp), and their cluster shares their progress
    (FastAgg).
    """

    # Section III-B: clusters of users.
    clusters: int = Field(20, ge=1, le=100000, description="P, the number of clusters of users")
    # III-C, CaliUp: how v_p is held near w.
    phi: float = Field(
        0.5, ge=0, le=1000, description="eq. 6: how strongly v_p is drawn to w; 0 = local training"
    )
    pull: Literal["printed", "bounded"] = Field(
        "printed",
        description=(
            "printed: eq. 6, in which v_p is drawn towards w by phi times the length of its step,"
            " and beyond w where that is more than the way there; bounded: as far as w at most, so"
            " that a larger phi brings v_p closer to w, as section III-A has it"
        ),
    )
    # III-C, FastAgg: how subordinates learn.
    discount: float = Field(
        0.9,
        ge=0,
        le=1,
        description=(
            "lambda of eq. 4: in round t discount^t, a share of the delegates' progress that fades"
        ),
    )
    fading: bool = Field(True, description="off: lambda is `discount` in every round")
    # What the paper leaves open.
    groups: UserGroups | None = Field(
        None,
        description=(
            "the clusters, if they come from what is known about users (metadata) and not from"
            " their embeddings; @file.csv on the command line, with the header user,group. They"
            " stay as they are, and P is how many there are"
        ),
    )
    one_pass: bool = Field(
        False,
        description=(
            "lines 5 and 6 in one pass over the history: w[N] and v_p[N] learn from the same"
            " samples and one copy of the embeddings, which learns with v_p; off: each has a copy"
            " of its own, as printed, at about twice the work"
        ),
    )
    # Parts of the method that can be left out.
    personalised: bool = Field(
        True, description="CaliUp: a model v_p for each cluster; off: everybody uses w"
    )
    fast: bool = Field(
        True,
        description=(
            "FastAgg: eq. 4 and eq. 5; off: subordinates wait, items are averaged as in FedAvg"
        ),
    )
    sampled: bool = Field(
        True, description="ClusSamp: m/P delegates from each cluster; off: m devices from all"
    )

    holds: ClassVar[type] = Cali3FServer
    receives: ClassVar[type] = Cali3FDownload
    keeps: ClassVar[type] = Cali3FDevices
    sends: ClassVar[tuple[SentArray, ...]] = (
        shown_user("row"),
        shown(
            "n", 1, when="each round, by name", reveals="how many items the user consumed", least=0
        ),
        HOW_MUCH,
        rows(
            "item",
            "row",
            when="each round: the move of every touched item, times its size",
            reveals=(
                "seen singly, which items were touched, and by the direction of the move which of"
                " them were consumed. A sum adds it to others', yet the user's own embedding, which"
                " the device shows, does not need it"
            ),
        ),
        rows(
            "share",
            "row",
            when="with every row of item",
            reveals="the size of that item's move",
            only_if="fast",
        ),
        dense(
            "local",
            "network",
            when=(
                "each round: n_k times the move of the cluster's non-embedding part, added within"
                " the cluster"
            ),
            reveals=(
                "moves that follow from the history, in a sum over few devices; the rows of item"
                " beside it tell more"
            ),
            only_if="personalised",
        ),
        dense(
            "network",
            "network",
            when=(
                "each round: n_k times the move of the global non-embedding part, added within the"
                " cluster"
            ),
            reveals=(
                "moves that follow from the history, in a sum over few devices; the rows of item"
                " beside it tell more"
            ),
        ),
    )
    traits: ClassVar[Traits] = Traits(groups="clusters")

    def configured(self, catalogue: Catalogue) -> Self:
        """Returns a copy of the settings with m, the devices of a round, as a number, and P, the
        number of groups if they are given. Raises InputError for more clusters than users, for m <
        P, and for groups of other users.
        """
        configured = super().configured(catalogue)
        if self.groups is not None:
            if len(self.groups.of) != catalogue.users:
                raise InputError(
                    "--set groups",
                    f"got groups of {len(self.groups.of)} users",
                    expected=f"a group for each of the {catalogue.users} users",
                )
            configured = configured.model_copy(update={"clusters": len(self.groups.names)})
        least_cohort = configured.cohort if self.sampled else None
        check_clusters(configured.clusters, catalogue.users, least_cohort)
        return configured

    # ---- algorithm 1, line 1 ---------------------------------------------------------------------

    def init_server(self, catalogue: Catalogue, key: np.uint64) -> Cali3FServer:
        """Returns the initial global model w, the cluster models v_p = w, and the initial clusters
        of users.
        """
        own_key = fold_name(key, "user")
        user = self.first_users(np.arange(catalogue.users), own_key)
        item, network = self.first_model(catalogue, key)
        drawn = first_centroids(user, self.clusters, fold_name(key, "clusters"))
        cluster, centroids = self._clustered(user, drawn)  # line 1: G
        return Cali3FServer(
            user,
            item,
            network,
            np.repeat(network, self.clusters if self.personalised else 0, axis=0),
            cluster,
            centroids,
            np.ones(catalogue.users, np.float32),
            np.zeros(1, np.int64),
        )

    def init_devices(
        self, users: Int64Array, catalogue: Catalogue, key: np.uint64
    ) -> Cali3FDevices:
        """Returns a private state without arrays: a device keeps only its history."""
        return Cali3FDevices()

    # ---- III-B: ClusSamp -------------------------------------------------------------------------

    def _clustered(
        self, user: Float32Array, centroids: Float32Array
    ) -> tuple[Int32Array, Float32Array]:
        """Returns G and its centroids: by k-means on w[U], from `centroids`; or the groups that are
        given.
        """
        if self.groups is None:
            return k_means(user, centroids)
        return (self.groups.of, centroids)

    def select(self, server: Cali3FServer, catalogue: Catalogue, key: np.uint64) -> Int64Array:
        """Draws D, the devices of a round: one client of each cluster at random, in a round robin
        over the clusters, until there are m. S are all others.
        """
        m = self.devices_of(catalogue)
        if not self.sampled:
            return cohort(key, m, catalogue.users)
        return delegates_of(server.cluster, m, key)  # lines 1 and 19: D, S

    def download(self, server: Cali3FServer) -> Cali3FServer:
        """Returns the whole server state, of which `deliver` sends each device its part."""
        return server

    def deliver(self, download: Cali3FServer, users: Int64Array) -> Cali3FDownload:
        """Returns the models that the devices of `users` receive: w[I, N], the row of w[U] of each
        user, and the v_p of each device's cluster.
        """
        return self._delivered(download, download.user[users], download.cluster[users])

    def deliver_newcomer(
        self, download: Cali3FServer, told: Update | None, key: np.uint64
    ) -> Cali3FDownload:
        """Returns the models for the device of a newcomer, whose w[U] is drawn at first, then what
        the device has learnt. Its v_p is that of the cluster whose users' vectors are nearest on
        average.
        """
        user = self.first_users(np.zeros(1, np.int64), key) if told is None else told.shown["user"]
        return self._delivered(download, np.asarray(user), _nearest(download, user[0]))

    def _delivered(
        self, download: Cali3FServer, user: Float32Array, cluster: Int32Array
    ) -> Cali3FDownload:
        """Returns the models for devices with these w[U], float32 [m, row], in these clusters."""
        among, at = np.unique(cluster, return_inverse=True)
        if not self.personalised:
            among = among[:0]
            at = np.full(len(user), -1)
        return Cali3FDownload(
            user,
            download.item,
            download.network,
            download.local[among],
            cluster,
            at.astype(np.int32),
        )

    # ---- algorithm 1, lines 4 to 7: on the client ------------------------------------------------

    def local(
        self,
        download: Cali3FDownload,
        devices: Cali3FDevices,
        histories: Histories,
        users: Int64Array,
        key: np.uint64,
    ) -> tuple[Cali3FDevices, Update]:
        """Trains the devices (algorithm 1, line 17): w[N] and v_p learn, each with its own copy of
        the embeddings; w[U, I] learn with v_p.
        """
        weight = counts(histories)
        learnt, moved_w = self._trained(download, data_of(histories, users, key))
        dense = {"network": weight[:, None] * moved_w}
        if self.personalised:
            dense["local"] = weight[:, None] * learnt.network
        if self.fast:
            rows = self.shared(learnt.row, np.abs(learnt.row))  # theta^d of (5)
        else:
            rows = weighted_moves(learnt.row, learnt.ptr, weight)
        update = Update(
            learnt.ptr,
            learnt.item,
            rows,
            dense,
            weight,
            group=download.cluster,
            groups=self.clusters,
            shown={"user": learnt.user, "n": weight[:, None]},
            sender=users,
        )
        return devices, update

    def _trained(
        self, download: Cali3FDownload, data: ncf.NCFData
    ) -> tuple[ncf.NCFLearnt, Float32Array]:
        """Returns what the devices learnt, with v_p if they have one, and how w[N] moved, float32
        [m, network].
        """
        embeddings = (self.shape, self.rates(), download.user, download.item)
        w = download.network
        v = download.local
        if self.personalised and self.one_pass:
            both = ncf.train(*embeddings, v, download.at, data, second=w)  # lines 5 and 6
            return both, both.second
        alone = ncf.train(*embeddings, w, one_network(len(data.keys)), data)  # line 5
        if not self.personalised:
            return alone, alone.network
        return ncf.train(*embeddings, v, download.at, data), alone.network  # line 6

    # ---- algorithm 1, lines 8 to 20: on the server -----------------------------------------------

    def aggregate(self, server: Cali3FServer, total: Total) -> Cali3FServer:
        """Returns the new server state (algorithm 1): new v_p of the round's clusters, new w, the
        clusters anew, and the models of those who change cluster."""
        local = server.local
        if self.personalised:
            local = self._cali_up(server, total)  # lines 9 to 13
        moved = total.dense["network"].sum(axis=0)[None]
        network = mean_network(server.network, moved, total.weight.sum()[None])  # lines 14 and 15
        user, item, n = self._fast_agg(server, total)  # lines 16 and 17
        # Lines 18 and 19: G; D and S by `select`.
        cluster, centroids = self._clustered(user, server.centroids)
        if self.personalised:
            local = _clus_avg(cluster, server.cluster, n, local)  # line 20
        return Cali3FServer(user, item, network, local, cluster, centroids, n, server.round + 1)

    def _cali_up(self, server: Cali3FServer, total: Total) -> Float32Array:
        """Returns the local models drawn to the global one by the gradient of the penalty (2)
        (III-C, CaliUp). -eta times a cluster's gradient is the mean of what its delegates learnt.
        """
        n = np.maximum(real(total.weight), 1e-9)[:, None]  # n_sigma
        step = real(total.dense["local"]) / n  # line 11, times -eta
        away = server.local.astype(np.float64) - server.network
        distance = np.linalg.norm(away, axis=1, keepdims=True)
        far = self.phi * np.linalg.norm(step, axis=1, keepdims=True)
        if self.pull == "bounded":
            far = np.minimum(far, distance)
        # Users that lie on their centroid have nowhere to go.
        length = np.where(distance > 0, distance, 1)
        back = far * away / length
        return (server.local + step - back).astype(np.float32)  # line 12, (6)

    def _fast_agg(
        self, server: Cali3FServer, total: Total
    ) -> tuple[Float32Array, Float32Array, Float32Array]:
        """Returns w[U], w[I], and n_k of those who took part (III-C, FastAgg): delegates'
        embeddings as they showed them, subordinates' moved by the mean of their cluster's
        delegates."""
        delegates, shows = gathered(total)
        discount = 0.0
        if self.fast:
            number = int(server.round[0]) + 1 if self.fading else 1
            discount = self.discount**number
        # (3), (4)
        user = with_progress(
            server.user, server.cluster, self.clusters, delegates, shows["user"], discount
        )
        combine = self.weighted_mean if self.fast else average
        item = combine(server.item, total)  # (5)
        n = server.n.copy()
        n[delegates] = shows["n"][:, 0]
        return user, item, n

    def score(
        self, download: Cali3FDownload, devices: Cali3FDevices, histories: Histories
    ) -> Float32Array:
        """Returns the logit of y_ui for every item by the model of the user's cluster, float32 [m,
        items].
        """
        networks = download.local
        at = download.at
        if not self.personalised:
            networks = download.network
            at = one_network(len(download.at))
        return ncf.scores(self.shape, download.user, download.item, networks, at)


def _nearest(server: Cali3FServer, user: Float32Array) -> Int32Array:
    """Returns the cluster whose users' w[U] are nearest on average to that of `user`, int32 [1]."""
    members = np.bincount(server.cluster, minlength=len(server.centroids))
    mean = np.zeros((len(members), server.user.shape[1]))
    np.add.at(mean, server.cluster, server.user)
    apart = ((mean / np.maximum(members, 1)[:, None] - user) ** 2).sum(axis=1)
    # A cluster without users is nobody's.
    apart[members == 0] = np.inf
    return np.array([np.argmin(apart)], np.int32)


def _clus_avg(
    new: Int32Array, old: Int32Array, n: Float32Array, local: Float32Array
) -> Float32Array:
    """Returns the model of each new cluster as the mean of its members' models, weighted by n_k
    (III-D); of an empty one, the model that it had.
    """
    clusters = len(local)
    # together[p, q]: the n_k of those who moved from cluster q to cluster p
    together = np.zeros((clusters, clusters))
    np.add.at(together, (new, old), n.astype(np.float64))
    of_new = together.sum(axis=1, keepdims=True)
    size = np.where(of_new > 0, of_new, 1)
    shares = np.where(of_new > 0, together / size, np.eye(clusters))
    return _product(shares, local.astype(np.float64)).astype(np.float32)


def _product(a: Float64Array, b: Float64Array) -> Float64Array:
    """Returns a b, added in one order: BLAS would not promise the same bits everywhere."""
    products = a[:, :, None] * b[None]
    return products.sum(axis=1)


ALGORITHMS = {
    "cali3f-gmf": partial(Cali3F, layers=()),
    "cali3f-mlp": partial(Cali3F, factors=0),
    "cali3f-neumf": Cali3F,
}
