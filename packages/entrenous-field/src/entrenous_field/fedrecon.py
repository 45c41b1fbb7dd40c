"""FedRecon, federated reconstruction.

K. Singhal, H. Sidahmed, Z. Garrett, S. Wu, K. Rush, S. Prakash, "Federated reconstruction:
partially local federated learning", NeurIPS 2021. Read this file with sections 3 and 4 and
algorithm 1 of the paper: its global parameters g are here the item factors q_i and biases b_i,
its local parameters l_i the user's factors p_u. "line" is a line of algorithm 1; lines 2 and 3
(rounds, clients in parallel) are federation/rounds.py.

A device keeps nothing between rounds. In each round it reconstructs p_u from the model that it
receives, with one half of its examples (the support set), and the items learn from the other half
(the query set) while p_u is fixed. It scores with a p_u that it reconstructs from all of its rows.
Somebody who was in no round at all is served in the same way.

The paper predicts ratings, by the squared error, for users who were not in training. Papers of
federated recommendation that compare with FedRecon rank instead, leave-one-out, by the binary
cross-entropy over consumed items and drawn others; so does this file. `fedrecon-printed` has the
rates, steps and batches that the authors publish for MovieLens (google-research/federated).
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, ClassVar, Literal, NamedTuple, final

import numpy as np
from pydantic import Field

from entrenous.core.contract.declarations import SentArray, axes, rows, weight
from entrenous.core.contract.protocols import Catalogue, Histories
from entrenous.core.contract.update import Total, Update, real
from entrenous.core.keys import fold_name, folds, normals
from entrenous.core.types import Float32Array, Int64Array
from entrenous.kernels import bpr_mf
from entrenous.kernels.averaging import moved_by
from entrenous.systems._cohort import InCohorts

from .kernels.reconstruction import (
    Reconstructed,
    ReconstructionData,
    ReconstructionRates,
    reconstruct,
)


class FedReconModel(NamedTuple):
    """The global parameters g, which the server holds and every device receives."""

    q: Annotated[Float32Array, axes("items", "factors")]
    """float32 [items, F], item factors."""
    b: Annotated[Float32Array, axes("items")]
    """float32 [items], item biases; 0 if biases=False."""


class FedReconDevices(NamedTuple):
    """No private state: local parameters are reconstructed whenever they are needed."""


@final
class FedRecon(InCohorts):
    """Federated reconstruction: each device rebuilds its user's vector in every round from half of
    its examples, and the items learn from the other half.
    """

    # The model.
    factors: int = Field(32, ge=1, le=1024, description="F, the length of p_u and q_i")
    biases: bool = Field(True, description="b_i of every item is learnt too")
    # R of algorithm 1: reconstruction.
    steps: int = Field(50, ge=1, le=10000, description="k_r, the most steps that rebuild p_u")
    passes: int = Field(
        0,
        ge=0,
        le=10000,
        description="the most passes over the support set meanwhile; 0 = no other limit",
    )
    learning_rate: float = Field(2.0, gt=0, le=1000, description="eta_r, of p_u")
    reg: float = Field(0.01, ge=0, le=100, description="lambda of lambda/2 |p_u|^2, in every step")
    start_std: float = Field(
        0.0, ge=0, description="standard deviation of the p_u that reconstruction starts from"
    )
    # U of algorithm 1: the update of the global parameters.
    item_steps: int = Field(
        1, ge=1, le=10000, description="k_u, the most steps of the items, in one pass over batches"
    )
    item_rate: float = Field(1.0, gt=0, le=1000, description="eta_u, of q_i and b_i")
    batch: int = Field(
        0, ge=0, le=1 << 20, description="examples of a step of either kind; 0 = all there are"
    )
    negatives: int = Field(
        4, ge=1, le=1000, description="for each consumed item, redrawn in each round"
    )
    # The federation.
    server: Literal["mean", "sum"] = Field(
        "sum",
        description=(
            "mean: g moves by eta_s sum_i (n_i / n) Delta_i, as printed; sum: by eta_s sum_i n_i"
            " Delta_i, in which an item's step does not shrink with the number of devices"
        ),
    )
    server_rate: float = Field(0.05, gt=0, le=1e6, description="eta_s, of the server's step")
    cohort: int = Field(0, ge=0, description="m, devices in a round; 0 = all")
    rounds: int = Field(100, ge=1, description="training length")
    init_std: float = Field(0.1, ge=0, description="standard deviation of the first q_i")

    holds: ClassVar[type] = FedReconModel
    receives: ClassVar[type] = FedReconModel
    keeps: ClassVar[type] = FedReconDevices
    sends: ClassVar[tuple[SentArray, ...]] = (
        rows(
            "item",
            "factors",
            when="each round: n_i times the move of q_i, of every item in the query set",
            reveals=(
                "every row is a number times p_u. Seen singly they give p_u's direction, and the"
                " sign of the number says which of these items were consumed: in some rounds the"
                " whole history. In a sum over a cohort a row that one device alone sent stands as"
                " it is"
            ),
        ),
        rows(
            "bias",
            when="with every row of item: n_i times the move of b_i",
            reveals="its sign says whether the item was consumed, seen singly",
            only_if="biases",
        ),
        weight(
            when="each round: n_i, the examples of the query set",
            reveals=(
                "half of how many interactions the device has, times one and its negatives; in a"
                " sum, what the cohort has"
            ),
        ),
    )

    def search_space(self) -> dict[str, str]:
        """Returns the ranges that a search of settings draws from by default."""
        return {
            "factors": "16..64:log",
            "learning_rate": "0.5..4:log",
            "reg": "0.002..0.1:log",
            "server_rate": "0.01..0.2:log",
            "negatives": "2..10",
        }

    def sizes(self, catalogue: Catalogue) -> dict[str, int]:
        """Returns the items that a device touches with a mean history (usual_rows)."""
        history = catalogue.interactions / max(1, catalogue.users)
        queries = int(history * (1 + self.negatives) / 2)
        return {"usual_rows": max(1, min(catalogue.items, queries))}

    # ---- algorithm 1: the server -----------------------------------------------------------------

    def init_server(self, catalogue: Catalogue, key: np.uint64) -> FedReconModel:
        """Returns g^(0): item factors drawn from N(0, init_std^2), and biases 0 (line 1)."""
        q = normals(folds(key, np.arange(catalogue.items)), self.factors, self.init_std)
        return FedReconModel(q, np.zeros(catalogue.items, np.float32))

    def init_devices(
        self, users: Int64Array, catalogue: Catalogue, key: np.uint64
    ) -> FedReconDevices:
        """Returns a private state without arrays: nothing local lasts beyond a round."""
        return FedReconDevices()

    def aggregate(self, server: FedReconModel, total: Total) -> FedReconModel:
        """Returns g^(t+1) <- g^(t) + eta_s sum_i (n_i / n) Delta_i (lines 6 and 7)."""
        rate = self.server_rate
        if self.server == "mean":
            rate /= max(float(real(total.weight).sum()), 1.0)  # n = sum_i n_i
        b = server.b
        if self.biases:
            b = moved_by(b, rate * real(total.rows["bias"]))
        return FedReconModel(moved_by(server.q, rate * real(total.rows["item"])), b)

    # ---- algorithm 1: ClientUpdate ---------------------------------------------------------------

    def local(
        self,
        download: FedReconModel,
        devices: FedReconDevices,
        histories: Histories,
        users: Int64Array,
        key: np.uint64,
    ) -> tuple[FedReconDevices, Update]:
        """Returns n_i Delta_i of the clients (ClientUpdate): half of the examples reconstruct l_i,
        the other half moves g.
        """
        found = self._reconstructed(download, histories, users, key, update=True)
        n = np.repeat(found.queries, np.diff(found.ptr))
        moved = n * found.c  # n_i Delta_i is this for b_i,
        # and this times p_u for q_i: the gradient by q_i is a number times p_u.
        own = np.repeat(found.p, np.diff(found.ptr), axis=0)
        sent = {"item": moved[:, None] * own}
        if self.biases:
            sent["bias"] = moved
        return devices, Update(found.ptr, found.item, sent, {}, found.queries)

    def _reconstructed(
        self,
        download: FedReconModel,
        histories: Histories,
        users: Int64Array,
        key: np.uint64,
        update: bool,
    ) -> Reconstructed:
        """Returns l_i = R(D_s, L, g) of the clients, and with `update` what g learns by U(D_q, l_i,
        g); without, all of D_i is the support set.
        """
        keys = folds(key, users)
        first = np.zeros((len(users), self.factors), np.float32)
        if self.start_std:
            first = normals(folds(fold_name(key, "start"), users), self.factors, self.start_std)
        data = ReconstructionData(
            histories.ptr, histories.item, histories.avoid_ptr, histories.avoid, keys
        )
        return reconstruct(self._rates, download.q, download.b, first, data, update)

    @property
    def _rates(self) -> ReconstructionRates:
        return ReconstructionRates(
            negatives=self.negatives,
            batch=self.batch,
            steps=self.steps,
            passes=self.passes,
            rate=np.float32(self.learning_rate),
            reg=np.float32(self.reg),
            item_steps=self.item_steps,
            item_rate=np.float32(self.item_rate),
            biased=np.float32(self.biases),
        )

    # ---- section 4: inference, for clients in training and for others ----------------------------

    def score_with_key(
        self,
        download: FedReconModel,
        devices: FedReconDevices,
        histories: Histories,
        users: Int64Array,
        key: np.uint64,
    ) -> Float32Array:
        """Returns the scores p_u . q_i + b_i of every item, float32 [m, items], by the p_u that
        each device reconstructs from all of its rows.
        """
        found = self._reconstructed(download, histories, users, key, update=False)
        return bpr_mf.scores(found.p, download.q, download.b)


ALGORITHMS = {
    "fedrecon": FedRecon,
    "fedrecon-printed": partial(
        FedRecon,
        factors=50,
        biases=False,
        steps=50,
        passes=5,
        learning_rate=0.1,
        reg=0.0,
        item_steps=50,
        item_rate=0.5,
        batch=5,
        server="mean",
        server_rate=1.0,
        cohort=100,
        rounds=500,
    ),
}
