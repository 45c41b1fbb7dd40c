"""Model-age-based gossip learning (Hegedus, Danner, Jelasity 2021): a model that has had more updates counts more (PEPPER, algorithm 1,
second procedure).

    (age_1 m_1 + age_2 m_2) / (age_1 + age_2), of age max(age_1, age_2) before it is trained
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


class Age(GossipSettings):
    """Weights by age, whatever the model."""

    def share(self, a: Arrivals, nodes: State, data: DeviceData) -> tuple[Float32Array, BoolArray]:
        """age_2 / (age_1 + age_2); every node has trained once, so none is 0."""
        own, theirs = nodes.age[a.who], a.letters.age
        return (theirs / np.maximum(own + theirs, 1)).astype(np.float32), np.ones(len(own), np.bool_)


@final
class GossipAgeGMF(Age, GossipGMF):
    """Model-age-based gossip over GMF: peers gossip item vectors and average them by how many updates each has had."""


@final
class GossipAgePRME(Age, GossipPRME):
    """Model-age-based gossip over PRME-G: peers gossip the vectors of venues and average them by how many updates each has had."""


ALGORITHMS = {"gossip-age-gmf": GossipAgeGMF, "gossip-age-prme-g": GossipAgePRME}
