"""Clusters of users on a server, for FedFast and Cali3F: delegates from every cluster, and
subordinates, who learn from their cluster's delegates; what FedFast does with them, whatever the
model; and k-means in plain loops, which finds the same clusters on every machine.
"""

from __future__ import annotations

import math
from typing import Annotated, Protocol, TypeAlias

import numpy as np
from numba import njit
from pydantic import Field

from ..core.contract.declarations import SentArray, shown
from ..core.contract.update import Total, gathered
from ..core.errors import InputError
from ..core.keys import draw, folds, uniform
from ..core.lanes.simd import LANES, every, load, sum_of
from ..core.types import Float32Array, Float64Array, Int32Array, Int64Array

ITERATIONS = (
    20  # Lloyd's; a later call starts from the centroids of an earlier one, so few are needed
)


def shown_user(size: str) -> SentArray:
    """The declaration of the user embedding, of so many numbers, that a device shows to the
    server.
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
        problem = f"got {cohort}, fewer devices than the {clusters} clusters"
        raise InputError(
            "--set cohort",
            problem,
            expected="at least one delegate a cluster, or 0 = all",
            fix="lower clusters",
        )


def delegates_of(cluster: Int32Array, m: int, key: np.uint64) -> Int64Array:
    """The delegates of a round: m users, ascending, one of each cluster at random, in a round robin
    over the clusters. cluster: int32 [users]."""
    order = np.argsort(
        folds(key, np.arange(len(cluster))), kind="stable"
    )  # a random order of the users
    turn = np.empty(len(cluster), np.int64)
    turn[np.argsort(cluster[order], kind="stable")] = np.concatenate(
        [np.arange(size) for size in np.bincount(cluster)]
    )
    return np.sort(order[np.argsort(turn, kind="stable")[:m]])


def with_progress(
    user: Float32Array,
    cluster: Int32Array,
    clusters: int,
    delegates: Int64Array,
    learnt: Float32Array,
    discount: float,
) -> Float32Array:
    """User embeddings after a round: delegates' as they learnt them, subordinates' moved by
    `discount` times the mean move of their cluster's delegates (by 0 without any).

    user: float32 [users, row], before; delegates: int64 [m]; learnt: float32 [m, row].
    """
    moves = np.zeros((clusters, user.shape[1]))
    np.add.at(moves, cluster[delegates], (learnt - user[delegates]).astype(np.float64))
    counted = np.maximum(np.bincount(cluster[delegates], minlength=clusters), 1)[:, None]
    after = user + (discount * moves / counted)[cluster].astype(np.float32)
    after[delegates] = learnt
    return after


# ---- FedFast (fedfast.py says what "as found" means): users, whatever the model ------------------

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
    """A server state whose user embeddings are clustered, as ActvSAMP and ActvAGG need it. user:
    float32 [users, row]; cluster: int32 [users]; centroids: float32 [p, row]; round: int64 [1],
    rounds done.
    """

    @property
    def user(self) -> Float32Array: ...
    @property
    def cluster(self) -> Int32Array: ...
    @property
    def centroids(self) -> Float32Array: ...
    @property
    def round(self) -> Int64Array: ...


def actv_samp(server: ClusteredUsers, m: int, starts: bool, key: np.uint64) -> Int64Array:
    """The round's devices by ActvSAMP: the delegates, m/p devices of each cluster at random. In the
    start-up round everybody (as found).
    """
    return np.arange(len(server.user)) if starts else delegates_of(server.cluster, m, key)


def actv_agg_users(
    server: ClusteredUsers, total: Total, gamma: float
) -> tuple[Float32Array, Int32Array, Float32Array]:
    """User vectors after a round by ActvAGG: delegates' w^k[U_k] as they showed it, subordinates'
    += gamma times the mean move of their cluster's delegates. Then the clusters anew, and their
    centroids.
    """
    delegates, shows = gathered(total)
    user = with_progress(
        server.user, server.cluster, len(server.centroids), delegates, shows["user"], gamma
    )
    return user, *k_means(user, server.centroids)


def gamma_of(decay: float, number: Int64Array, startup: bool) -> float:
    """The discount gamma_t of subordinates' moves, t = 1, 2, ... after the start-up round (its
    decay as found). number: int64 [1], rounds done."""
    return math.exp(-decay * (int(number[0]) + (not startup)))


# ---- k-means -------------------------------------------------------------------------------------


def first_centroids(points: Float32Array, clusters: int, key: np.uint64) -> Float32Array:
    """Initial centroids by k-means++ (Arthur and Vassilvitskii 2007): each next centroid is a point
    drawn by its squared distance from those there are.

    points: float32 [n, d], n >= clusters. Returns float32 [clusters, d].
    """
    out = np.empty((clusters, points.shape[1]), np.float32)
    _first(points, out, np.uint64(key))
    return out


def k_means(points: Float32Array, centroids: Float32Array) -> tuple[Int32Array, Float32Array]:
    """Lloyd's algorithm from `centroids`, to the end or for ITERATIONS: (cluster of each point,
    int32 [n]; centroids).

    A cluster that loses all its points takes the point that is farthest from its own centroid,
    among those whose cluster has another; only if fewer points than clusters are distinct may one
    stay empty.
    """
    centroids, cluster = centroids.copy(), np.full(len(points), -1, np.int32)
    _lloyd(np.ascontiguousarray(points), centroids, cluster, ITERATIONS)
    return cluster, centroids


@njit(cache=True, nogil=True)
def _first(points: Float32Array, out: Float32Array, key: np.uint64) -> None:
    n, nearest = len(points), np.full(len(points), np.inf)
    chosen = int(uniform(draw(key, 0)) * n)
    for c in range(len(out)):
        out[c] = points[chosen]
        total = 0.0
        for k in range(n):
            nearest[k] = min(nearest[k], _distance(points, k, out, c))
            total += nearest[k]
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
    n, clusters, width = len(points), len(centroids), points.shape[1]
    sums, sizes, distance = np.empty((clusters, width)), np.empty(clusters, np.int64), np.empty(n)
    for _ in range(iterations):
        changed = _assign(points, centroids, cluster, distance)
        _fill_empty(cluster, distance, _sizes(cluster, sizes))
        if not changed:
            return
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
    """Every point to its nearest centroid, the first of equals; whether one changed."""
    changed = False
    for k in range(len(points)):
        best, at = np.inf, 0
        for c in range(len(centroids)):
            d = _distance(points, k, centroids, c)
            if d < best:
                best, at = d, c
        changed |= cluster[k] != at
        cluster[k], distance[k] = at, best
    return changed


@njit(cache=True, nogil=True)
def _fill_empty(cluster: Int32Array, distance: Float64Array, sizes: Int64Array) -> None:
    for c in range(len(sizes)):
        if sizes[c] == 0:
            far, at = 0.0, -1
            for k in range(len(cluster)):
                if distance[k] > far and sizes[cluster[k]] > 1:
                    far, at = distance[k], k
            if at >= 0:
                sizes[cluster[at]] -= 1
                sizes[c], cluster[at], distance[at] = 1, c, 0.0


@njit(cache=True, nogil=True)
def _sizes(cluster: Int32Array, sizes: Int64Array) -> Int64Array:
    sizes[:] = 0
    for k in range(len(cluster)):
        sizes[cluster[k]] += 1
    return sizes


@njit(cache=True, inline="always")
def _distance(points: Float32Array, k: int, centroids: Float32Array, c: int) -> float:
    """The squared distance."""
    width, total = points.shape[1], every(np.float32(0))
    for f in range(0, width, LANES):
        gap = load(points, k * width + f, width - f) - load(centroids, c * width + f, width - f)
        total = total + gap * gap
    return np.float64(sum_of(total))
