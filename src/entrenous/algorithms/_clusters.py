"""What FedFast and Cali3F share: delegates from every cluster of users, and subordinates who learn from their cluster's delegates."""

from __future__ import annotations

import numpy as np

from ..core.errors import InputError
from ..core.keys import folds
from ..core.protocols import Disclosed
from ..core.types import Float32Array, Int32Array, Int64Array

SHOWN_USER = Disclosed(
    "user",
    "[row] float32",
    "each round, as it is, to the server by name: it is clustered, and subordinates learn from it",
    "the user's taste, linked to who they are: with the item embeddings, which everybody has, the server can rank all items as the "
    "user would; no sum hides it",
)


def check_clusters(clusters: int, users: int, cohort: int | None) -> None:
    """Raises InputError for more clusters than users and, with a cohort that is drawn from clusters, for fewer devices than clusters."""
    if clusters > users:
        raise InputError("--set clusters", f"got {clusters}", expected=f"at most {users}, the number of users")
    if cohort is not None and cohort < clusters:
        problem = f"got {cohort}, fewer devices than the {clusters} clusters"
        raise InputError("--set cohort", problem, expected="at least one delegate a cluster, or 0 = all", fix="lower clusters")


def delegates_of(cluster: Int32Array, m: int, key: np.uint64) -> Int64Array:
    """m users, ascending: one of each cluster at random, in a round robin over the clusters. cluster: int32 [users]."""
    order = np.argsort(folds(key, np.arange(len(cluster))), kind="stable")  # a random order of the users
    turn = np.empty(len(cluster), np.int64)
    turn[np.argsort(cluster[order], kind="stable")] = np.concatenate([np.arange(size) for size in np.bincount(cluster)])
    return np.sort(order[np.argsort(turn, kind="stable")[:m]])


def with_progress(
    user: Float32Array, cluster: Int32Array, clusters: int, delegates: Int64Array, learnt: Float32Array, discount: float
) -> Float32Array:
    """All user embeddings after a round: delegates' as they learnt them, subordinates' moved by `discount` times the mean move of their
    cluster's delegates (by 0 without any).

    user: float32 [users, row], before; delegates: int64 [m]; learnt: float32 [m, row]."""
    moves = np.zeros((clusters, user.shape[1]))
    np.add.at(moves, cluster[delegates], (learnt - user[delegates]).astype(np.float64))
    counted = np.maximum(np.bincount(cluster[delegates], minlength=clusters), 1)[:, None]
    after = user + (discount * moves / counted)[cluster].astype(np.float32)
    after[delegates] = learnt
    return after
