"""PEPPER: gossip learning in which a node takes more of a model that does well for it, and pushes
to nodes whose models do.

Y. Belal, A. Bellet, S. Ben Mokhtar, V. Nitu, "PEPPER: Empowering User-Centric Recommender Systems
over Gossip Learning", 2022. Algorithms 1 to 3 in the paper's order, then decentralised Reptile, its
other competitor. What any node does (random peer sampling, what is refused, when it pushes) is in
systems/gossip_learning.py; the two models are in _gossip_gmf.py and _gossip_prme.py.

Where text, pseudo-code and the authors' program differ, a setting offers both: `measure` (of GMF:
HR as printed, HR x NDCG as last run; of PRME-G it is F1), `reading` of alpha, and `memory` of L_N.
Two choices are ours: all nodes begin with one model and one user vector, where the program draws a
model for each node; and the output layer of GMF stays a plain sum unless `learning_rate_output` is
set, so that the model is matrix factorisation.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, final

import numpy as np
from pydantic import Field

from ..core.compiling import njit
from ..core.contract.gossip import NOBODY, Arrivals, DeviceData, Weighing, data_of
from ..core.contract.protocols import some_visits
from ..core.keys import below, draw, fold, fold_name, folds
from ..core.lanes.memory import starts_of
from ..core.types import BoolArray, Float32Array, Float64Array, Int32Array, Int64Array, UInt64Array
from ..kernels.gmf_train import ShareRule
from ..kernels.merging import cosines
from ..kernels.peer_sampling import contains, fill_at_random
from ..kernels.sampling import negative
from ._gossip_gmf import GMFModel
from ._gossip_prme import PRMEModel
from .gossip_learning import composed
from .gossip_node import TRAIN, GossipModel, GossipPolicy, grow_older, keys_for, merge_and_train

# Random items that each weighting item is ranked among (section 4.1).
CANDIDATES = 100


# ---- Algorithm 1: aggregation functions ----------------------------------------------------------
# Each returns the weight of the received model m_2, float32 [m]; that of the node's own, m_1, is
# the rest.


def decentralised_fedavg(a: Arrivals, data: DeviceData) -> Float32Array:
    """Returns the share of a received model by rows, |D_2| / (|D_1| + |D_2|): models count by the
    rows that their nodes train on. Half where neither has rows.
    """
    d_1 = np.diff(data.histories.ptr)[a.who]
    d_2 = a.headers.samples
    both = d_1 + d_2
    return np.where(both > 0, d_2 / np.maximum(both, 1), 0.5).astype(np.float32)


def model_age_based(a: Arrivals, nodes: Any) -> Float32Array:
    """Returns the share of a received model by age, age_2 / (age_1 + age_2): models count by the
    updates that they have had (Hegedus, Danner, Jelasity 2021).
    """
    age_1 = nodes.age[a.who]
    age_2 = a.headers.age
    # No age is 0, since all nodes have trained.
    return (age_2 / np.maximum(age_1 + age_2, 1)).astype(np.float32)  # type: ignore[no-any-return]


class AveragePolicy(GossipPolicy):
    """Policy of decentralised FedAvg: random peers, and models weighted by rows."""

    def on_model_received(
        self, model: GossipModel, a: Arrivals, nodes: Any, data: DeviceData
    ) -> None:
        """Averages each received model with the node's own, weighted by rows |D|, and trains the
        result.
        """
        merge_and_train(model, a, nodes, data, decentralised_fedavg(a, data))


@final
class ModelAgePolicy(GossipPolicy):
    """Policy of model-age-based gossip learning: random peers, and models weighted by age."""

    def on_model_received(
        self, model: GossipModel, a: Arrivals, nodes: Any, data: DeviceData
    ) -> None:
        """Averages each received model with the node's own, weighted by age, and trains the
        result.
        """
        merge_and_train(model, a, nodes, data, model_age_based(a, nodes))


# ---- Algorithms 2 and 3 --------------------------------------------------------------------------


class PepperPolicy(GossipPolicy):
    """Policy of PEPPER: performance-based aggregation and personalised peer sampling, for any
    model. `performance` alone differs between models.
    """

    alpha: float = Field(
        0.4, ge=0, le=1, description="exploration against exploitation, as `reading` says"
    )
    reading: Literal["exploration", "exploitation"] = Field(
        "exploration",
        description=(
            "exploration: T = (1 - alpha) view peers are the best heard from (algorithm 3: 60 %);"
            " exploitation: T = alpha view (the text: 40 % from L_N, and what the authors ran: 1 of"
            " 3); to the nearest whole number"
        ),
    )
    memory: Literal["view", "ever"] = Field(
        "view",
        description=(
            "which performances count in a new view: since the last view (as run) or the best ever"
            " (algorithm 3)"
        ),
    )
    aggregation: Literal["performance", "half"] = Field(
        "performance",
        description=(
            "share of a received model: performance, as algorithm 2 has it; half, whatever it does,"
            " to see what weighing is worth"
        ),
    )
    weighting: float = Field(
        0.15,
        gt=0,
        lt=1,
        description=(
            "share of its rows that a node holds back to weigh by, where the protocol gives no"
            " weighting set"
        ),
    )

    least: float = Field(
        0.0,
        ge=0,
        le=1,
        description=(
            "nothing is taken of a received model that does less than this times as well as the"
            " node's own; 0 = as published"
        ),
    )

    alike: float = Field(
        0.0,
        ge=0,
        le=1,
        description=(
            "nothing is taken of a received model whose item vectors have a lower cosine than this"
            " with the node's own; 0 = as published"
        ),
    )

    holds_out_own: ClassVar[bool] = True

    # ---- Algorithm 2: performance-based aggregation function ----

    def weighting_sets(self, data: DeviceData, items: int, keys: UInt64Array) -> DeviceData:
        """Returns the data with weighting sets D^weighting, drawn at random from D unless they are
        given (algorithm 1, INIT).
        """
        if len(data.weighing.item):
            return data
        return drawn_weighting_sets(data, self.weighting, items, keys)

    def performance(
        self, model: GossipModel, a: Arrivals, at: Int64Array, nodes: Any, data: DeviceData
    ) -> Float64Array:
        """Returns the performance of the models a.pool[at] on the weighting sets of nodes a.who,
        float64 [m] (PredictAndEvaluate(M, D^weighting)).
        """
        raise NotImplementedError

    def performance_based_aggregation(
        self, model: GossipModel, a: Arrivals, nodes: Any, data: DeviceData
    ) -> Float64Array:
        """Merges each received model M_x by how well it does, compared with the node's own M_i, and
        trains. Returns P_x, float64 [m].

        Takes half of each where fewer than two rows weigh, or `aggregation` says so. Keeps M_i as
        it is, without training, where both models fail (as run).
        """
        # lines 7 and 8
        p_x = self.performance(model, a, a.received, nodes, data)
        p_i = self.performance(model, a, a.own, nodes, data)
        # line 6
        few = (np.diff(data.weighing.ptr)[a.who] < 2) | (self.aggregation == "half")
        both = p_i + p_x
        share = np.where(both > 0, p_x / np.where(both > 0, both, 1), 0)
        share = np.where(few, 0.5, share)
        share = np.where(~few & (p_x < self.least * p_i), 0, share)
        share = np.where(self.points_elsewhere(model, a), 0, share)
        # lines 9 and 10
        merge_and_train(model, a, nodes, data, share.astype(np.float32), few | (both > 0))
        return p_x

    def points_elsewhere(self, model: GossipModel, a: Arrivals) -> BoolArray:
        """Tells which received models have item vectors less `alike` the node's own than is asked
        for, bool [m].
        """
        if not self.alike:
            return np.zeros(len(a.who), np.bool_)
        return cosines(model.item_vectors(a.pool), a.own, a.received) < self.alike

    # ---- Algorithm 3: personalised peer sampling ----

    def on_model_received(
        self, model: GossipModel, a: Arrivals, nodes: Any, data: DeviceData
    ) -> None:
        """Aggregates by performance, and remembers how well the model of each sender C_x did."""
        # lines 2 and 3
        p_x = self.performance_based_aggregation(model, a, nodes, data).astype(np.float32)
        add_sorted(nodes.heard, nodes.performance, a.who, a.headers.sender, p_x)

    def update_view(self, nodes: Any, who: Int64Array, view: int, keys: UInt64Array) -> Int32Array:
        """Returns new views of nodes, int32 [m, view]: the T best of L_N and R = |V| - T at random
        (algorithm 3).
        """
        best = self.exploited(view)
        views = personalised_views(
            nodes.known, nodes.heard, nodes.performance, who, best, view, keys
        )
        if self.memory == "view":
            nodes.heard[who] = NOBODY
        return views

    def exploited(self, view: int) -> int:
        """Returns how many places of a view go to the best known nodes, T (line 6)."""
        share = self.alpha
        if self.reading == "exploration":
            share = 1 - self.alpha
        return int(share * view + 0.5)

    def remembered(self, view: int, redraw: int) -> int:
        """Returns the length of a node's list L_N: twice the models that a node pushes between two
        of its views, and so receives on average.
        """
        return 2 * view * redraw


@final
class PepperGMFPolicy(PepperPolicy):
    """Policy of PEPPER with models judged as the paper does those of GMF: HR@20, alone or times
    NDCG@20.
    """

    measure: Literal["hr", "hr-ndcg"] = Field(
        "hr", description="P of a model: HR@20 (as printed) or HR@20 x NDCG@20 (as run last)"
    )

    def performance(
        self, model: GossipModel, a: Arrivals, at: Int64Array, nodes: Any, data: DeviceData
    ) -> Float64Array:
        """Returns the performance of GMF models: HR@20 of the weighting items, or HR@20 x NDCG@20
        (eq. 4 and 5), float64 [m].
        """
        hr, ndcg = model.judged(a.pool, at, nodes, a.who, data)
        if self.measure == "hr":
            return hr
        return hr * ndcg

    def performance_based_aggregation(
        self, model: GossipModel, a: Arrivals, nodes: Any, data: DeviceData
    ) -> Float64Array:
        """Does the same lines 6 to 10 for one node after the other, in a kernel that reads each
        model from memory once. Returns P_x, float64 [m].
        """
        # `alike` compares models as a whole beforehand.
        if self.alike:
            return super().performance_based_aggregation(model, a, nodes, data)
        assert isinstance(model, GMFModel)
        shares = ShareRule(self.aggregation == "half", self.least, self.measure == "hr-ndcg")
        p_x, trained = model.judge_merge_train(a, nodes, data, keys_for(a.keys, TRAIN), shares)
        grow_older(a, nodes, trained)
        return p_x


@final
class PepperPRMEPolicy(PepperPolicy):
    """Policy of PEPPER with models judged as the paper does those of PRME-G: F1@20."""

    def performance(
        self, model: GossipModel, a: Arrivals, at: Int64Array, nodes: Any, data: DeviceData
    ) -> Float64Array:
        """Returns the performance of PRME-G models: F1@20 of the weighting items (eq. 6 to 8),
        float64 [m].
        """
        (f1,) = model.judged(a.pool, at, nodes, a.who, data)
        return f1


def drawn_weighting_sets(
    data: DeviceData, share: float, items: int, keys: UInt64Array
) -> DeviceData:
    """Returns the data of devices with int(share n) of each one's n rows as its weighting set,
    which it no longer trains on, and never draws as negatives.
    """
    own = data.histories
    counts = np.diff(own.ptr)
    # WeightingSize of each
    held = (share * counts).astype(np.int64)
    ptr = starts_of(counts - held)
    weigh = starts_of(held)
    # algorithm 2, line 2; the test set is drawn elsewhere
    stay, chosen, candidates = _sampled(own.ptr, own.item, ptr, weigh, items, keys)
    # line 4
    train = own._replace(
        ptr=ptr,
        item=own.item[stay],
        value=own.value[stay],
        time=None if own.time is None else own.time[stay],
        row=None if own.row is None else own.row[stay],
        visits=some_visits(own.visits, stay),
    )
    return DeviceData(train, Weighing(weigh, chosen, candidates))


@njit(cache=True, nogil=True)
def _sampled(
    old: Int64Array,
    item: Int32Array,
    ptr: Int64Array,
    weigh: Int64Array,
    items: int,
    keys: UInt64Array,
) -> tuple[Int64Array, Int32Array, Int32Array]:
    """Returns where the rows are that stay, in their order, the items that weigh, and the items
    that each of those is ranked among.
    """
    stay = np.empty(ptr[-1], np.int64)
    chosen = np.empty(weigh[-1], np.int32)
    candidates = np.full((weigh[-1], CANDIDATES), -1, np.int32)
    for u in range(len(keys)):
        rows = item[old[u] : old[u + 1]]
        want = weigh[u + 1] - weigh[u]
        left = want
        at = weigh[u]
        to = ptr[u]
        # Each row with probability (still wanted) / (rows left): exactly `want`, in order.
        for r in range(len(rows)):
            if below(draw(keys[u], r), len(rows) - r) < left:
                chosen[at] = rows[r]
                at = at + 1
                left = left - 1
            else:
                stay[to] = old[u] + r
                to += 1
        # Candidates, with repeats, unless the device has every item.
        unseen = items - len(rows)
        for c in range(want * CANDIDATES if unseen > 0 else 0):
            k = below(draw(fold(keys[u], 1), c), unseen)
            candidates[weigh[u] + c // CANDIDATES, c % CANDIDATES] = negative(rows, k)
    return stay, chosen, candidates


@njit(cache=True, nogil=True)
def add_sorted(
    heard: Int32Array,
    performance: Float32Array,
    who: Int64Array,
    sender: Int64Array,
    value: Float32Array,
) -> None:
    """Notes in the list L_N of each node how well the model of sender[d] did; the best of a sender
    counts. When the list is full, the worst makes room.
    """
    for d in range(len(who)):
        peers = heard[who[d]]
        values = performance[who[d]]
        # The sender's place, or a free one, or that of the worst.
        at = 0
        for p in range(len(peers)):
            if peers[p] == sender[d]:
                at = p
                break
            if peers[p] == NOBODY:
                at = p if peers[at] != NOBODY else at
            elif peers[at] != NOBODY and values[p] < values[at]:
                at = p
        same = peers[at] == sender[d]
        if same and values[at] >= value[d]:
            continue
        if same or peers[at] == NOBODY or values[at] < value[d]:
            peers[at] = sender[d]
            values[at] = value[d]


@njit(cache=True, nogil=True)
def personalised_views(
    known: Int32Array,
    heard: Int32Array,
    performance: Float32Array,
    who: Int64Array,
    exploit: int,
    size: int,
    keys: UInt64Array,
) -> Int32Array:
    """Returns the new view of each node, int32 [len(who), size] (algorithm 3): the `exploit` best
    of those it has heard from, the rest at random of those it knows. A node that has heard from
    fewer takes more at random.
    """
    out = np.full((len(who), size), NOBODY, np.int32)
    pile = np.empty(known.shape[1], np.int32)
    for d in range(len(who)):
        u = who[d]
        n = 0
        # line 7: ExploitationPeers = L_N.Get(T)
        for _ in range(exploit):
            best = -1
            for p in range(heard.shape[1]):
                if (
                    heard[u, p] != NOBODY
                    and not contains(out[d], n, heard[u, p])
                    and (best < 0 or performance[u, p] > performance[u, best])
                ):
                    best = p
            if best >= 0:
                out[d, n] = heard[u, best]
                n += 1
        # lines 8 to 10: R = |V| - T, RandomPeers(N, R)
        fill_at_random(out[d], n, known[u], pile, keys[d])
    return out


# ---- Decentralised Reptile (section 5.4.2) -------------------------------------------------------


@final
class ReptilePolicy(AveragePolicy):
    """Decentralised FedAvg, after which every node fine-tunes what it has on its own rows.

    As the authors run it: `meta_epochs` times, from the current weights w one local epoch to w',
    then

        w <- w + meta_rate (1 - e / meta_epochs) (w' - w).

    A node does not push the fine-tuned model, so this happens when a node scores.
    """

    meta_epochs: int = Field(
        120, ge=0, le=10000, description="fine-tuning steps before a node scores; 0 = none"
    )
    meta_rate: float = Field(
        0.1, gt=0, le=1, description="how far each goes towards what an epoch learns, falling to 0"
    )

    def score(
        self,
        model: GossipModel,
        pool: Float32Array,
        at: Int64Array,
        nodes: Any,
        who: Int64Array,
        data: DeviceData,
    ) -> Float32Array:
        """Returns scores of every item by the fine-tuned models, float32 [m, items]."""
        models, own, rows = self.tuned(model, pool, at, nodes, who, data)
        here = np.arange(len(who))
        return model.score(models, here, own, here, rows)

    def tuned(
        self,
        model: GossipModel,
        pool: Float32Array,
        at: Int64Array,
        nodes: Any,
        who: Int64Array,
        data: DeviceData,
    ) -> tuple[Float32Array, Any, DeviceData]:
        """Returns the models of nodes `who` [m, width], their private state and their data, after
        fine-tuning. Changes no argument.
        """
        models = pool[at]
        own = type(nodes)(*(array[who] for array in nodes))
        rows = data_of(data, who)
        here = np.arange(len(who))
        for e in range(self.meta_epochs):
            before = models.copy()
            user = own.user.copy()
            keys = folds(fold_name(np.uint64(e), "tune"), who)
            model.train(models, here, own, here, rows, keys)
            rate = np.float32(self.meta_rate * (1 - e / self.meta_epochs))
            models = before + rate * (models - before)
            own.user[:] = user + rate * (own.user - user)
        return models, own, rows


# ---- Policies over models ------------------------------------------------------------------------

PepperGMF = composed(
    "PepperGMF",
    PepperGMFPolicy,
    GMFModel,
    "PEPPER over matrix factorisation: peers gossip item vectors, weighed by how well they rank for"
    " the node that receives them.",
    # With these, the audit finds in the first push no more of the history than popularity + 0.04.
    {"push_noise": 0.1, "noisy_pushes": 10, "alike": 0.1},
)
PepperPRME = composed(
    "PepperPRME",
    PepperPRMEPolicy,
    PRMEModel,
    "PEPPER over PRME-G: peers gossip the vectors of venues, weighed by how well they rank for the"
    " node that receives them.",
)
GossipAgeGMF = composed(
    "GossipAgeGMF",
    ModelAgePolicy,
    GMFModel,
    "Model-age-based gossip over matrix factorisation: peers gossip item vectors and average them"
    " by how many updates each has had.",
)
GossipAgePRME = composed(
    "GossipAgePRME",
    ModelAgePolicy,
    PRMEModel,
    "Model-age-based gossip over PRME-G: peers gossip the vectors of venues and average them by how"
    " many updates each has had.",
)
GossipAverageGMF = composed(
    "GossipAverageGMF",
    AveragePolicy,
    GMFModel,
    "Decentralised FedAvg over matrix factorisation: peers gossip item vectors and average them by"
    " how much data each has.",
)
GossipAveragePRME = composed(
    "GossipAveragePRME",
    AveragePolicy,
    PRMEModel,
    "Decentralised FedAvg over PRME-G: peers gossip the vectors of venues and average them by how"
    " much data each has.",
)
GossipReptileGMF = composed(
    "GossipReptileGMF",
    ReptilePolicy,
    GMFModel,
    "Decentralised Reptile over matrix factorisation: peers gossip as in decentralised FedAvg, and"
    " each fine-tunes its model before it recommends.",
)
GossipReptilePRME = composed(
    "GossipReptilePRME",
    ReptilePolicy,
    PRMEModel,
    "Decentralised Reptile over PRME-G: peers gossip as in decentralised FedAvg, and each"
    " fine-tunes its model before it recommends.",
)

ALGORITHMS = {
    "pepper-gmf": PepperGMF,
    "pepper-prme-g": PepperPRME,
    "gossip-age-gmf": GossipAgeGMF,
    "gossip-age-prme-g": GossipAgePRME,
    "gossip-average-gmf": GossipAverageGMF,
    "gossip-average-prme-g": GossipAveragePRME,
    "gossip-reptile-gmf": GossipReptileGMF,
    "gossip-reptile-prme-g": GossipReptilePRME,
}
