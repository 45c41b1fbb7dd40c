"""Decentralised FedAvg: a received model counts by the rows that its sender trains on (PEPPER, algorithm 1, first procedure).

(|D_1| m_1 + |D_2| m_2) / (|D_1| + |D_2|)
"""

from __future__ import annotations

from typing import final

import numpy as np

from ..core.gossip import Arrivals, DeviceData
from ..core.protocols import State
from ..core.types import BoolArray, Float32Array
from ._gossip import GossipSettings
from ._gossip_gmf import GossipGMF
from ._gossip_prme import GossipPRME


class Average(GossipSettings):
    """Weights by |D|, whatever the model."""

    def share(self, a: Arrivals, nodes: State, data: DeviceData) -> tuple[Float32Array, BoolArray]:
        """|D_2| / (|D_1| + |D_2|); half where neither has rows."""
        own, theirs = np.diff(data.histories.ptr)[a.who], a.letters.samples
        both = own + theirs
        return np.where(both > 0, theirs / np.maximum(both, 1), 0.5).astype(np.float32), np.ones(len(own), np.bool_)


@final
class GossipAverageGMF(Average, GossipGMF):
    """Decentralised FedAvg over GMF: peers gossip item vectors and average them by how much data each has."""


@final
class GossipAveragePRME(Average, GossipPRME):
    """Decentralised FedAvg over PRME-G: peers gossip the vectors of venues and average them by how much data each has."""


ALGORITHMS = {"gossip-average-gmf": GossipAverageGMF, "gossip-average-prme-g": GossipAveragePRME}
