"""PEPPER: gossip learning in which a node takes more of a model that does well for it, and pushes to nodes whose models do.

Y. Belal, A. Bellet, S. Ben Mokhtar, V. Nitu, "PEPPER: Empowering User-Centric Recommender Systems over Gossip Learning", 2022.
Algorithm 2 is `weighing` (INIT) and `share`; algorithm 3 is `share` (lines 1 to 3) and `view_of`.

Where text, pseudo-code and the authors' program differ, a setting offers both: `measure` (of GMF: HR as printed, HR x NDCG as last run;
of PRME-G it is F1), `reading` of alpha, and `memory` of L_N.
"""

from __future__ import annotations

from typing import ClassVar, Literal, final

import numpy as np
from pydantic import Field

from ..core.gossip import NOBODY, Arrivals, DeviceData
from ..core.protocols import State
from ..core.types import BoolArray, Float32Array, Float64Array, Int32Array, Int64Array, UInt64Array
from ..kernels import peers, weighting
from ._gossip import GossipSettings
from ._gossip_gmf import GossipGMF
from ._gossip_prme import GossipPRME


class Pepper(GossipSettings):
    """Performance-based aggregation and personalised peer sampling, whatever the model."""

    alpha: float = Field(0.4, ge=0, le=1, description="exploration against exploitation, as `reading` says")
    reading: Literal["exploration", "exploitation"] = Field(
        "exploration",
        description="exploration: T = (1 - alpha) view peers are the best heard from (algorithm 3: 60 %); exploitation: T = alpha view "
        "(the text: 40 % from L_N, and what the authors ran: 1 of 3); to the nearest whole number",
    )
    memory: Literal["view", "ever"] = Field(
        "view", description="which performances count in a new view: since the last view (as run) or the best ever (algorithm 3)"
    )
    weighting: float = Field(
        0.15,
        gt=0,
        lt=1,
        description="share of its rows that a node holds back to weigh by, where the protocol gives no weighting set",
    )

    weighs: ClassVar[bool] = True

    def weighing(self, data: DeviceData, keys: UInt64Array) -> DeviceData:
        """INIT: D^weighting, drawn at random from D unless it is given."""  # alg. 2, lines 1-5
        return data if len(data.weighing.item) else weighting.drawn(data, self.weighting, self._items, keys)

    def share(self, a: Arrivals, nodes: State, data: DeviceData) -> tuple[Float32Array, BoolArray]:
        """P_x / (P_i + P_x), the weight of M_x. Half of each where fewer than two rows weigh; M_i as it is, and no training, where both
        models fail (as run)."""
        p_x = self.performance(a, a.received, nodes, data)  # alg. 2, line 7
        p_i = self.performance(a, a.own, nodes, data)  # line 8
        peers.remember(nodes.heard, nodes.performance, a.who, a.letters.sender, p_x.astype(np.float32))  # alg. 3, line 3
        both = p_i + p_x
        share = np.where(both > 0, p_x / np.where(both > 0, both, 1), 0)  # alg. 2, line 9
        few = np.diff(data.weighing.ptr)[a.who] < 2
        return np.where(few, 0.5, share).astype(np.float32), few | (both > 0)

    def performance(self, a: Arrivals, at: Int64Array, nodes: State, data: DeviceData) -> Float64Array:
        """PredictAndEvaluate(M, D^weighting), float64 [m]."""
        raise NotImplementedError

    @property
    def exploited(self) -> int:
        """T: places of a view that go to the best."""
        return int((1 - self.alpha if self.reading == "exploration" else self.alpha) * self.view + 0.5)

    def view_of(self, nodes: State, who: Int64Array, keys: UInt64Array) -> Int32Array:
        """T best of L_N and R = |V| - T at random."""  # alg. 3, lines 5-10
        view = peers.views(nodes.known, nodes.heard, nodes.performance, who, self.exploited, self.view, keys)
        if self.memory == "view":
            nodes.heard[who] = NOBODY
        return view


@final
class PepperGMF(Pepper, GossipGMF):
    """PEPPER over GMF: peers gossip item vectors, weighed by how well they rank for the node that receives them."""

    measure: Literal["hr", "hr-ndcg"] = Field(
        "hr", description="P of a model: HR@20 (as printed) or HR@20 x NDCG@20 (as run last)"
    )

    def performance(self, a: Arrivals, at: Int64Array, nodes: State, data: DeviceData) -> Float64Array:
        """HR@20 of the weighting items, or HR@20 x NDCG@20, float64 [m]."""
        hr, ndcg = self.judged(a, at, nodes, data)
        return hr if self.measure == "hr" else hr * ndcg


@final
class PepperPRME(Pepper, GossipPRME):
    """PEPPER over PRME-G: peers gossip the vectors of venues, weighed by how well they rank for the node that receives them."""

    def performance(self, a: Arrivals, at: Int64Array, nodes: State, data: DeviceData) -> Float64Array:
        """F1@20 of the weighting items, float64 [m]."""
        return self.judged(a, at, nodes, data)


ALGORITHMS = {"pepper-gmf": PepperGMF, "pepper-prme-g": PepperPRME}
