"""Gossip over PRME-G: venues among users and among each other, for data that says when and where (kernels/prme_node.py)."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np
from pydantic import Field

from ..core.gossip import Arrivals, DeviceData
from ..core.keys import fold_name
from ..core.protocols import Catalogue, Disclosed
from ..core.types import Float32Array, Float64Array, Int32Array, Int64Array, UInt64Array
from ..kernels import prme_node, prme_score
from ._gossip import GossipSettings, disclosed
from ._prme import HOW, PRMESettings

RANKED = 20  # n of the F1@n by which a model is judged


class Nodes(NamedTuple):
    """user: float32 [n, factors]; then _gossip.Peer."""

    user: Float32Array
    me: Int64Array
    age: Int64Array
    pushes: Int64Array
    known: Int32Array
    view: Int32Array
    heard: Int32Array
    performance: Float32Array


class GossipPRME(PRMESettings, GossipSettings):
    """PRME-G on every node: the vectors of venues are exchanged, the user vector stays, and so do times."""

    rounds: int = Field(80, ge=1, description="training length, in pushes of a node")

    disclosure: ClassVar[tuple[Disclosed, ...]] = disclosed(
        "[items, 2 factors] float32",
        "both vectors of every venue after merging and training on the device's transitions: venues that were visited, and which after "
        "which, stand out in a model that few have merged into yet; user vector and times are not part of it",
    )

    @property
    def width(self) -> int:
        """Numbers in a model."""
        return prme_node.width_of(self._items, self.factors)

    def init_model(self, catalogue: Catalogue, key: np.uint64) -> Float32Array:
        """P and S ~ N(0, init_std^2)."""
        model = np.zeros(self.width, np.float32)
        first = self.first_items(self._items, key)
        model[: first.size] = first.reshape(-1)
        return model

    def init_nodes(self, users: Int64Array, peers: Int32Array, width: int, key: np.uint64) -> Nodes:
        """U ~ N(0, init_std^2)."""
        return Nodes(self.first_users(users, fold_name(key, "user")), *self.first_peer(users, peers))

    def train(self, pool: Float32Array, at: Int64Array, nodes: Any, who: Int64Array, data: DeviceData, keys: UInt64Array) -> None:
        """`local_epochs` passes of each model over its node's transitions."""
        prme_node.train(pool, at, nodes.user, who, self.rows(data.histories), self.rates(), self._items, keys)

    def judged(self, a: Arrivals, at: Int64Array, nodes: Any, data: DeviceData) -> Float64Array:
        """F1@20 of the models pool[at] on the weighting sets of nodes a.who, float64 [m]."""
        sets, alpha = data.weighing, np.float32(self.preference)
        return prme_score.performance(
            a.pool, at, nodes.user, a.who, self.rows(data.histories), HOW[self.contexts], alpha, sets.ptr, sets.item,
            sets.candidates, RANKED,
        )  # fmt: skip

    def score(self, pool: Float32Array, at: Int64Array, nodes: Any, who: Int64Array, data: DeviceData) -> Float32Array:
        """-D(u, c, l) of every venue l, float32 [m, items]; c as `contexts` says."""
        alpha = np.float32(self.preference)
        return prme_score.scores(pool, at, nodes.user, who, self.rows(data.histories), HOW[self.contexts], alpha, self._items)
