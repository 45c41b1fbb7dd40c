"""PRME-G between peers, for data that says when and where: the model that PEPPER and its baselines
exchange (kernels/prme.py).
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, NamedTuple, final

import numpy as np
from numba import njit
from pydantic import Field

from ..core.contract.declarations import axes
from ..core.contract.gossip import DeviceData
from ..core.keys import fold_name
from ..core.types import Float32Array, Float64Array, Int32Array, Int64Array, UInt64Array
from ..kernels import prme
from ..kernels.arrays import others
from ._prme import HOW, PRMESettings
from .gossip_node import GossipModel

RANKED = 20  # n of the F1@n by which a model is judged


class PRMEPrivate(NamedTuple):
    """The private state of nodes: the vector of each node's user, which never leaves it; times of
    visits do not either.
    """

    user: Annotated[Float32Array, axes("factors")]


@final
class PRMEModel(PRMESettings, GossipModel):
    """PRME-G on every node: the vectors of venues are exchanged, the user vector stays, and so do
    times.
    """

    rounds: int = Field(80, ge=1, description="training length, in pushes of a node")

    private: ClassVar[type] = PRMEPrivate
    layout: ClassVar[str] = "[items, 2 factors] float32"
    reveals: ClassVar[str] = (
        "both vectors of every venue after merging and training on the device's transitions: venues"
        " that were visited, and which after which. The first push is the model that everybody has"
        " and this device's training alone: less the one that all began with it names what was"
        " trained on. Later pushes blend others in; user vector and times are not part of it"
    )

    @property
    def width(self) -> int:
        """Numbers in a model: two vectors for every venue, with padding."""
        return prme.width_of(self._items, self.factors)

    def item_vectors(self, models: Float32Array) -> Float32Array:
        """A view of models, float32 [m, width], as both points of every venue side by side, [m,
        items, 2 factors].
        """
        return models[:, : 2 * self.factors * self._items].reshape(
            len(models), self._items, 2 * self.factors
        )

    def init_model(self, key: np.uint64) -> Float32Array:
        """The initial model, float32 [width]: the venues' vectors P and S ~ N(0, init_std^2)."""
        model = np.zeros(self.width, np.float32)
        first = self.first_items(self._items, key)
        model[: first.size] = first.reshape(-1)
        return model

    def init_private(self, users: Int64Array, key: np.uint64) -> PRMEPrivate:
        """The initial private state of m nodes: user vectors U ~ N(0, init_std^2)."""
        return PRMEPrivate(self.first_users(users, fold_name(key, "user")))

    def train(
        self,
        pool: Float32Array,
        at: Int64Array,
        nodes: Any,
        who: Int64Array,
        data: DeviceData,
        keys: UInt64Array,
    ) -> None:
        """Trains each of m models in place for `local_epochs` passes over the transitions of its
        node.
        """
        prme.train(
            pool, at, nodes.user, who, self.rows(data.histories), self.rates(), self._items, keys
        )

    def judged(
        self, pool: Float32Array, at: Int64Array, nodes: Any, who: Int64Array, data: DeviceData
    ) -> tuple[Float64Array, ...]:
        """Performance on the weighting items: F1@20, float64 [m] (PEPPER, eq. 6 to 8)."""
        sets, alpha = data.weighing, np.float32(self.preference)
        f1 = performance(
            pool,
            at,
            nodes.user,
            who,
            self.rows(data.histories),
            HOW[self.contexts],
            alpha,
            sets.ptr,
            sets.item,
            sets.candidates,
            RANKED,
        )
        return (f1,)

    def score(
        self, pool: Float32Array, at: Int64Array, nodes: Any, who: Int64Array, data: DeviceData
    ) -> Float32Array:
        """Scores of every venue l, float32 [m, items]: -D(u, c, l) (Feng et al. 2015, section 4), c
        being the previous venues that `contexts` chooses."""
        alpha = np.float32(self.preference)
        return prme.scores(
            pool,
            at,
            nodes.user,
            who,
            self.rows(data.histories),
            HOW[self.contexts],
            alpha,
            self._items,
        )


@njit(cache=True, nogil=True, error_model="numpy")
def performance(
    pool: Float32Array,
    at: Int64Array,
    user: Float32Array,
    who: Int64Array,
    rows: prme.PRMERows,
    how: int,
    alpha: np.float32,
    ptr: Int64Array,
    item: Int32Array,
    candidates: Int32Array,
    n: int,
) -> Float64Array:
    """F1 at n of the models pool[at] on the nodes' weighting sets, float64 [m] (PEPPER, eq. 6 to
    8): all weighting items of a node in one list, with the candidates of the first of them. 0
    without any.
    """
    f1, room = np.zeros(len(at)), prme.room_of(user.shape[1])
    for d in range(len(at)):
        u, own = who[d], slice(rows.ptr[who[d]], rows.ptr[who[d] + 1])
        low, high = ptr[u], ptr[u + 1]
        if high > low:
            venue = np.concatenate((item[low:high], others(candidates[low], item[low:high])))
            out = np.empty(len(venue), np.float32)
            start = prme.starts(rows.item[own], rows.time[own], rows.row[own], how)
            prme.score(pool[at[d]], user[u], start, venue, rows.point, how, alpha, room, out)
            f1[d] = 2.0 * hits(out, high - low, n) / (n + high - low)
    return f1


@njit(cache=True, nogil=True)
def hits(score: Float32Array, relevant: int, n: int) -> int:
    """The number of the first `relevant` venues among the n best; equal scores count against
    them.
    """
    found = 0
    for k in range(relevant):
        ahead = -1  # itself
        for other in range(len(score)):
            ahead += not (score[other] < score[k])
        found += ahead < n
    return found
