"""PEPPER with evidence: the share that a node takes of a model grows with how sure it is that the
model is better. Not the paper's system, which is in `pepper.py`.

Algorithm 2 of PEPPER takes P_x / (P_i + P_x) of a received model, P being HR@20 over about nine
rows. Both are near 0.8 once nodes have learnt something, so that the share is near one half for any
model, and moves mostly by chance. Here:

* Models are compared row by row on the weighting set, by the share of candidates that stand behind
  the row: a paired difference, the lead, whose variance over rows is known. The rows are evidence
  of t = lead / sqrt(variance); few rows or mixed ones give a small t.
* A received model weighs w = (z + sqrt(1 + z^2))^2 with z = trust t / 2, which is exp(trust t) for
  small t: 1 without evidence.
* A node averages all models that it receives between two of its pushes, its own with weight 1: the
  share of one that comes is w / (W + w), W being the weights so far. Algorithm 2 halves what came
  before each time.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, NamedTuple, final

import numpy as np
from pydantic import Field

from entrenous.core.compiling import njit
from entrenous.core.contract.declarations import axes
from entrenous.core.contract.gossip import Arrivals, DeviceData, Weighing
from entrenous.core.types import Array, Float32Array, Float64Array, Int64Array
from entrenous.kernels import gmf_node
from entrenous.systems._gossip_gmf import GMFModel
from entrenous.systems.gossip_learning import composed
from entrenous.systems.gossip_node import GossipModel, merge_and_train
from entrenous.systems.pepper import PepperPolicy, add_sorted


class EvidencePrivate(NamedTuple):
    """The private state of the policy; the leading axis is nodes."""

    weight: Annotated[Float32Array, axes()]
    """W, of all models that the node's model is an average of."""
    since: Annotated[Int64Array, axes(least=0)]
    """Pushes that the node had made when it began to add up W."""


@final
class EvidencePolicy(PepperPolicy):
    """Policy of PEPPER with shares by evidence: personalised peer sampling as in algorithm 3, and
    an average of all models that come.
    """

    trust: float = Field(
        1.0,
        ge=0,
        le=10,
        description="how much evidence moves the weight of a model; 0 = all models weigh the same",
    )

    private: ClassVar[tuple[type, ...]] = (EvidencePrivate,)

    def init_private(self, nodes: int) -> tuple[Array, ...]:
        """Returns the weights and counts of nodes that have received nothing yet."""
        return np.ones(nodes, np.float32), np.zeros(nodes, np.int64)

    def on_model_received(
        self, model: GossipModel, a: Arrivals, nodes: Any, data: DeviceData
    ) -> None:
        """Averages each received model into the node's own by the evidence for it, trains, and
        remembers how well its sender's model did.
        """
        assert isinstance(model, GMFModel)
        ahead, lead, variance = leads(
            a.pool, a.own, a.received, nodes.user, a.who, data.weighing, model.shape
        )
        weight = weight_of(lead, variance, self.trust)
        weight = np.where(self.points_elsewhere(model, a), 0, weight)
        # W begins anew at 1 with each push of the node.
        pushes = nodes.pushes[a.who]
        before = np.where(nodes.since[a.who] == pushes, nodes.weight[a.who], 1)
        nodes.weight[a.who] = before + weight
        nodes.since[a.who] = pushes
        share = (weight / (before + weight)).astype(np.float32)
        merge_and_train(model, a, nodes, data, share)
        performance = ahead.astype(np.float32)
        add_sorted(nodes.heard, nodes.performance, a.who, a.headers.sender, performance)


@njit(cache=True, nogil=True, error_model="numpy")
def leads(
    pool: Float32Array,
    own: Int64Array,
    received: Int64Array,
    user: Float32Array,
    who: Int64Array,
    sets: Weighing,
    shape: gmf_node.GMFShape,
) -> tuple[Float64Array, Float64Array, Float64Array]:
    """Compares how the models pool[received] and pool[own] rank the weighting items of nodes.
    Returns the mean share of candidates that the received model puts behind an item, the lead of
    that share over the own model's, and the variance of the lead; float64 [m] each, 0 without two
    items.

    The variance is that of the differences between rows, and of a place among so many candidates:
    two equal rows are no certainty.
    """
    ahead = np.zeros(len(who))
    lead = np.zeros(len(who))
    variance = np.zeros(len(who))
    mine = np.empty(shape.stride, np.float32)
    theirs = np.empty(shape.stride, np.float32)
    width = sets.candidates.shape[1]
    for d in range(len(who)):
        u = who[d]
        low = sets.ptr[u]
        high = sets.ptr[u + 1]
        n = high - low
        # One row has no variance.
        if n < 2:
            continue
        gmf_node.model_scores(pool[own[d]], user[u], shape, mine)
        gmf_node.model_scores(pool[received[d]], user[u], shape, theirs)
        squares = 0.0
        for r in range(low, high):
            before = gmf_node.place(mine, sets.item[r], sets.candidates[r]) / width
            after = gmf_node.place(theirs, sets.item[r], sets.candidates[r]) / width
            ahead[d] += (1 - after) / n
            lead[d] += (before - after) / n
            squares += (before - after) ** 2
        # Rounding may take a sum of squares below 0.
        spread = max(0.0, squares - n * lead[d] ** 2) / (n - 1)
        variance[d] = (spread + 1.0 / width**2) / n
    return ahead, lead, variance


def weight_of(lead: Float64Array, variance: Float64Array, trust: float) -> Float64Array:
    """Returns the weight of each received model, where the own model weighs 1, float64 [m].

    >>> # t is 0, 2 and -2
    >>> weight_of(np.array([0.0, 0.1, -0.1]), np.array([0.0, 0.0025, 0.0025]), 1.0).round(3)
    array([1.   , 5.828, 0.172])
    """
    z = trust / 2 * lead / np.sqrt(np.where(variance > 0, variance, 1))
    # By |z|, so that near numbers are never subtracted.
    more = (np.abs(z) + np.sqrt(1 + z * z)) ** 2
    return np.where(z < 0, 1 / more, more)


PepperEvidenceGMF = composed(
    "PepperEvidenceGMF",
    EvidencePolicy,
    GMFModel,
    "PEPPER with evidence over matrix factorisation: peers gossip item vectors, averaged by how"
    " sure a node is that a model ranks better than its own.",
)

ALGORITHMS = {"pepper-evidence-gmf": PepperEvidenceGMF}
