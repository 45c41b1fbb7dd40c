"""Clusters of users on a server, for FedFast and Cali3F: delegates from every cluster, and
subordinates, who learn from their cluster's delegates; FedFast's rules for the vectors of users;
and k-means in plain loops, which finds the same clusters on every machine.
"""

from __future__ import annotations

import math
from typing import Annotated, Protocol, TypeAlias

import numpy as np
from pydantic import Field

from ..core.compiling import njit
from ..core.contract.declarations import SentArray, shown
from ..core.contract.update import Total, gathered
from ..core.errors import InputError
from ..core.keys import draw, folds, uniform
from ..core.lanes.simd import LANES, every, load, sum_of
from ..core.types import Float32Array, Float64Array, Int32Array, Int64Array

# Of Lloyd's algorithm. A later call starts from the centroids of an earlier one, so few are needed.
ITERATIONS = 20


def shown_user(size: str) -> SentArray:
    """Declares the user embedding that a device shows to the server. size: of the declared axis,
    such as "row".
    """
    return shown(
        "user",
        size,
        when=(
            "each round, as it is, to the server by name: it is clustered, and subordinates learn"
            " from it"
        ),
        reveals=(
            "the user's taste, linked to who they are: with the item embeddings, which everybody"
            " has, the server can rank all items as the user would; no sum hides it"
        ),
    )


def check_clusters(clusters: int, users: int, cohort: int | None) -> None:
    """Raises InputError for more clusters than users and, with a cohort that is drawn from
    clusters, for fewer devices than clusters.
    """
    if clusters > users:
        raise InputError(
            "--set clusters", f"got {clusters}", expected=f"at most {users}, the number of users"
        )
    if cohort is not None and cohort < clusters:
        raise InputError(
            "--set cohort",
            f"got {cohort}, fewer devices than the {clusters} clusters",
            expected="at least one delegate a cluster, or 0 = all",
            fix="lower clusters",
        )


def delegates_of(cluster: Int32Array, m: int, key: np.uint64) -> Int64Array:
    """Returns the delegates of a round: m users, ascending, one of each cluster at random, in a
    round robin over the clusters. cluster: int32 [users].
    """
    # The users in a random order, and then cluster by cluster in that order.
    luck = folds(key, np.arange(len(cluster)))
    order = np.argsort(luck, kind="stable")
    by_cluster = np.argsort(cluster[order], kind="stable")
    # A user's turn is their place within the cluster.
    turn = np.empty(len(cluster), np.int64)
    turns = [np.arange(size) for size in np.bincount(cluster)]
    turn[by_cluster] = np.concatenate(turns)
    first = np.argsort(turn, kind="stable")[:m]
    return np.sort(order[first])


def with_progress(
    user: Float32Array,
    cluster: Int32Array,
    clusters: int,
    delegates: Int64Array,
    learnt: Float32Array,
    discount: float,
) -> Float32Array:
    """Returns the user embeddings after a round: delegates' as they learnt them, subordinates'
    moved by `discount` times the mean move of their cluster's delegates (by 0 without any).

    user: float32 [users, row], before; delegates: int64 [m]; learnt: float32 [m, row].
    """
    # The sum of delegates' moves in each cluster, and how many they are.
    moves = np.zeros((clusters, user.shape[1]))
    moved = learnt - user[delegates]
    np.add.at(moves, cluster[delegates], moved.astype(np.float64))
    delegated = np.bincount(cluster[delegates], minlength=clusters)
    counted = np.maximum(delegated, 1)[:, None]
    mean = discount * moves / counted
    after = user + mean[cluster].astype(np.float32)
    after[delegates] = learnt
    return after


# ---- FedFast: the rules for the vectors of users ("as found": see fedfast.py) --------------------

Clusters: TypeAlias = Annotated[int, Field(ge=1, le=100000, description="p, clusters of users")]
Decay: TypeAlias = Annotated[
    float,
    Field(
        ge=0,
        le=1000,
        description=(
            "gamma_t = exp(-decay t): the share of delegates' progress that others take in round t"
        ),
    ),
]
Startup: TypeAlias = Annotated[
    bool,
    Field(
        description=(
            "a first round in which every device trains and FedAvg adds up, before the first"
            " clusters"
        )
    ),
]


class ClusteredUsers(Protocol):
    """A server state whose user embeddings are clustered, as ActvSAMP and ActvAGG need it."""

    @property
    def user(self) -> Float32Array:
        """float32 [users, row], the vector of each user."""

    @property
    def cluster(self) -> Int32Array:
        """int32 [users], the cluster of each user."""

    @property
    def centroids(self) -> Float32Array:
        """float32 [p, row], the centre of each of the p clusters."""


def actv_samp(server: ClusteredUsers, m: int, starts: bool, key: np.uint64) -> Int64Array:
    """Returns the devices of a round by ActvSAMP: the delegates, m/p devices of each cluster at
    random. In the start-up round everybody (as found).
    """
    if starts:
        return np.arange(len(server.user))
    return delegates_of(server.cluster, m, key)


def actv_agg_users(
    server: ClusteredUsers, total: Total, gamma: float
) -> tuple[Float32Array, Int32Array, Float32Array]:
    """Returns the user vectors after a round by ActvAGG: delegates' w^k[U_k] as they showed it,
    subordinates' += gamma times the mean move of their cluster's delegates. Also returns the
    clusters anew, and their centroids.
    """
    delegates, shows = gathered(total)
    user = with_progress(
        server.user, server.cluster, len(server.centroids), delegates, shows["user"], gamma
    )
    return user, *k_means(user, server.centroids)


def gamma_of(decay: float, number: Int64Array, startup: bool) -> float:
    """Returns the discount gamma_t of subordinates' moves, t = 1, 2, ... after the start-up round
    (its decay as found). number: int64 [1], rounds done.
    """
    rounds = int(number[0]) + (not startup)
    return math.exp(-decay * rounds)


# ---- k-means -------------------------------------------------------------------------------------


def first_centroids(points: Float32Array, clusters: int, key: np.uint64) -> Float32Array:
    """Returns initial centroids by k-means++ (Arthur and Vassilvitskii 2007), float32 [clusters,
    d]: each next centroid is a point drawn by its squared distance from those before it.

    points: float32 [n, d], n >= clusters.
    """
    out = np.empty((clusters, points.shape[1]), np.float32)
    _first(points, out, np.uint64(key))
    return out


def k_means(points: Float32Array, centroids: Float32Array) -> tuple[Int32Array, Float32Array]:
    """Runs Lloyd's algorithm from `centroids`, to the end or for ITERATIONS. Returns the cluster of
    each point, int32 [n], and the centroids.

    A cluster that loses all its points takes the point that is farthest from its own centroid,
    among those whose cluster has another; only if fewer points than clusters are distinct may one
    stay empty.
    """
    centroids = centroids.copy()
    cluster = np.full(len(points), -1, np.int32)
    _lloyd(np.ascontiguousarray(points), centroids, cluster, ITERATIONS)
    return cluster, centroids


@njit(cache=True, nogil=True)
def _first(points: Float32Array, out: Float32Array, key: np.uint64) -> None:
    n = len(points)
    nearest = np.full(n, np.inf)
    # The first centroid is any point.
    chosen = int(uniform(draw(key, 0)) * n)
    for c in range(len(out)):
        out[c] = points[chosen]
        # squared distances from the nearest centroid so far
        total = 0.0
        for k in range(n):
            nearest[k] = min(nearest[k], _distance(points, k, out, c))
            total += nearest[k]
        # The point at which the running sum of distances passes a share of the total.
        left = uniform(draw(key, c + 1)) * total
        chosen = n - 1
        for k in range(n):
            left -= nearest[k]
            if left < 0:
                chosen = k
                break


@njit(cache=True, nogil=True)
def _lloyd(
    points: Float32Array, centroids: Float32Array, cluster: Int32Array, iterations: int
) -> None:
    n, width = points.shape
    clusters = len(centroids)
    sums = np.empty((clusters, width))
    sizes = np.empty(clusters, np.int64)
    distance = np.empty(n)
    for _ in range(iterations):
        changed = _assign(points, centroids, cluster, distance)
        _fill_empty(cluster, distance, _sizes(cluster, sizes))
        if not changed:
            return
        # Centroids are the means of their points, added in float64 in the order of points.
        sums[:] = 0
        for k in range(n):
            for f in range(width):
                sums[cluster[k], f] += points[k, f]
        for c in range(clusters):
            for f in range(width):
                if sizes[c] > 0:
                    centroids[c, f] = np.float32(sums[c, f] / sizes[c])


@njit(cache=True, nogil=True)
def _assign(
    points: Float32Array, centroids: Float32Array, cluster: Int32Array, distance: Float64Array
) -> bool:
    """Puts every point into the cluster of its nearest centroid, the first of equals. Returns True
    if one changed.
    """
    changed = False
    for k in range(len(points)):
        best = np.inf
        at = 0
        for c in range(len(centroids)):
            d = _distance(points, k, centroids, c)
            if d < best:
                best = d
                at = c
        changed |= cluster[k] != at
        cluster[k] = at
        distance[k] = best
    return changed


@njit(cache=True, nogil=True)
def _fill_empty(cluster: Int32Array, distance: Float64Array, sizes: Int64Array) -> None:
    for c in range(len(sizes)):
        if sizes[c] == 0:
            # the farthest point of a cluster that has another
            far = 0.0
            at = -1
            for k in range(len(cluster)):
                if distance[k] > far and sizes[cluster[k]] > 1:
                    far = distance[k]
                    at = k
            if at >= 0:
                sizes[cluster[at]] -= 1
                sizes[c] = 1
                cluster[at] = c
                distance[at] = 0.0


@njit(cache=True, nogil=True)
def _sizes(cluster: Int32Array, sizes: Int64Array) -> Int64Array:
    sizes[:] = 0
    for k in range(len(cluster)):
        sizes[cluster[k]] += 1
    return sizes


@njit(cache=True, inline="always")
def _distance(points: Float32Array, k: int, centroids: Float32Array, c: int) -> float:
    """Returns the squared distance of point k and centroid c."""
    width = points.shape[1]
    total = every(np.float32(0))
    for f in range(0, width, LANES):
        here = load(points, k * width + f, width - f)
        there = load(centroids, c * width + f, width - f)
        gap = here - there
        total = total + gap * gap
    return np.float64(sum_of(total))
