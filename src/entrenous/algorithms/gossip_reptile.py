"""Decentralised Reptile: decentralised FedAvg, after which every node fine-tunes what it has on its own rows (PEPPER, section 5.4.2).

As the authors run it: `meta_epochs` times, from the current weights w one local epoch to w', then

    w <- w + meta_rate (1 - e / meta_epochs) (w' - w).

What a node fine-tunes is its own: it is not pushed. So this happens when a node scores.
"""

from __future__ import annotations

from typing import Any, final

import numpy as np
from pydantic import Field

from ..core.gossip import DeviceData
from ..core.keys import fold_name, folds
from ..core.types import Float32Array, Int64Array
from ._gossip import data_of
from ._gossip_gmf import GossipGMF
from ._gossip_prme import GossipPRME
from .gossip_average import Average


class Reptile(Average):
    """Fine-tuning before a node scores, whatever the model."""

    meta_epochs: int = Field(120, ge=0, le=10000, description="fine-tuning steps before a node scores; 0 = none")
    meta_rate: float = Field(0.1, gt=0, le=1, description="how far each goes towards what an epoch learns, falling to 0")

    def score(self, pool: Float32Array, at: Int64Array, nodes: Any, who: Int64Array, data: DeviceData) -> Float32Array:
        """Scores by the fine-tuned models, float32 [m, items]."""
        models, own, rows = self.tuned(pool, at, nodes, who, data)
        here = np.arange(len(who))
        return super().score(models, here, own, here, rows)

    def tuned(
        self, pool: Float32Array, at: Int64Array, nodes: Any, who: Int64Array, data: DeviceData
    ) -> tuple[Float32Array, Any, DeviceData]:
        """The models of nodes `who` [m, width], their private state and their data, after fine-tuning; nothing given is changed."""
        models, own = pool[at], type(nodes)(*(array[who] for array in nodes))
        rows, here = data_of(data, who), np.arange(len(who))
        for e in range(self.meta_epochs):
            before, user = models.copy(), own.user.copy()
            self.train(models, here, own, here, rows, folds(fold_name(np.uint64(e), "tune"), who))
            rate = np.float32(self.meta_rate * (1 - e / self.meta_epochs))
            models, own.user[:] = before + rate * (models - before), user + rate * (own.user - user)
        return models, own, rows


@final
class GossipReptileGMF(Reptile, GossipGMF):
    """Decentralised Reptile over GMF: peers gossip as in decentralised FedAvg, and each fine-tunes its model before it recommends."""


@final
class GossipReptilePRME(Reptile, GossipPRME):
    """Decentralised Reptile over PRME-G: peers gossip as in decentralised FedAvg, and each fine-tunes its model before it recommends."""


ALGORITHMS = {"gossip-reptile-gmf": GossipReptileGMF, "gossip-reptile-prme-g": GossipReptilePRME}
