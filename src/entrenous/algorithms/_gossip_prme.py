"""PRME-G between peers, for data that says when and where: the model that PEPPER and its baselines
exchange (kernels/prme.py).
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, NamedTuple, final

import numpy as np
from pydantic import Field

from ..core.compiling import njit
from ..core.contract.declarations import axes
from ..core.contract.gossip import DeviceData, Weighing
from ..core.keys import fold_name
from ..core.lanes.memory import sealed
from ..core.types import Float32Array, Float64Array, Int64Array, UInt64Array
from ..kernels import prme
from ..kernels.sampling import others
from ._prme import PRMESettings
from .gossip_node import GossipModel

# n of the F1@n by which a model is judged.
RANKED = 20


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
        width = 2 * self.factors
        size = width * self._items
        return models[:, :size].reshape(len(models), self._items, width)

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
        rows = self.rows(data.histories)
        prme.train(pool, at, nodes.user, who, rows, self.rates(), keys)

    def judged(
        self, pool: Float32Array, at: Int64Array, nodes: Any, who: Int64Array, data: DeviceData
    ) -> tuple[Float64Array, ...]:
        """Performance on the weighting items: F1@20, float64 [m] (PEPPER, eq. 6 to 8)."""
        rows = self.rows(data.histories)
        scoring = self.scoring()
        f1 = performance(
            sealed(pool), at, sealed(nodes.user), who, rows, scoring, data.weighing, RANKED
        )
        return (f1,)

    def score(
        self, pool: Float32Array, at: Int64Array, nodes: Any, who: Int64Array, data: DeviceData
    ) -> Float32Array:
        """Scores of every venue l, float32 [m, items]: -D(u, c, l) (Feng et al. 2015, section 4), c
        being the previous venues that `contexts` chooses."""
        rows = self.rows(data.histories)
        return prme.scores(pool, at, nodes.user, who, rows, self.scoring())


@njit(cache=True, nogil=True, error_model="numpy")
def performance(
    pool: Float32Array,
    at: Int64Array,
    user: Float32Array,
    who: Int64Array,
    rows: prme.PRMERows,
    scoring: prme.PRMEScoring,
    sets: Weighing,
    n: int,
) -> Float64Array:
    """Returns F1 at n of the models pool[at] on the nodes' weighting sets, float64 [m] (PEPPER, eq.
    6 to 8): all weighting items of a node in one list, with the candidates of the first of them. 0
    without any.
    """
    f1 = np.zeros(len(at))
    room = prme.room_of(user.shape[1])
    for d in range(len(at)):
        u = who[d]
        low = sets.ptr[u]
        high = sets.ptr[u + 1]
        if high > low:
            weighed = sets.item[low:high]
            drawn = others(sets.candidates[low], weighed)
            venue = np.concatenate((weighed, drawn))
            out = np.empty(len(venue), np.float32)
            start = prme.starts_of(rows, u, scoring.how)
            prme.score(pool[at[d]], user[u], start, venue, rows.point, scoring, room, out)
            f1[d] = 2.0 * hits(out, high - low, n) / (n + high - low)
    return f1


@njit(cache=True, nogil=True)
def hits(score: Float32Array, relevant: int, n: int) -> int:
    """Returns how many of the first `relevant` venues are among the n best; equal scores count
    against them.
    """
    among = 0
    for k in range(relevant):
        # less itself
        ahead = -1
        for other in range(len(score)):
            ahead += not (score[other] < score[k])
        among += ahead < n
    return among
