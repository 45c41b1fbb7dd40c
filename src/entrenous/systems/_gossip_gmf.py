"""Matrix factorisation between peers, generalised (GMF) where its output layer is trained: the
model that PEPPER and its baselines exchange (kernels/gmf_node.py).
"""

from __future__ import annotations

from typing import Any, ClassVar, final

import numpy as np
from pydantic import Field

from ..core.contract.gossip import Arrivals, DeviceData
from ..core.keys import folds, normals
from ..core.types import BoolArray, Float32Array, Float64Array, Int64Array, UInt64Array
from ..kernels import gmf_node, gmf_train
from .gossip_node import GossipModel, part_of

# n of the HR@n and NDCG@n by which a model is judged.
RANKED = 20


@final
class GMFModel(GossipModel):
    """GMF on every node: item vectors Q and the output layer, h and c, are exchanged; the user
    vector stays. Unless `learning_rate_output` is set, the output layer is a plain sum, and the
    model is matrix factorisation.
    """

    factors: int = Field(8, ge=1, le=1024, description="length of user and item vectors")
    learning_rate: float = Field(
        0.02,
        gt=0,
        le=10,
        description="of the item vectors, in root mean squares of their gradients",
    )
    learning_rate_user: float = Field(0.3, ge=0, le=10, description="of the user vector")
    learning_rate_output: float = Field(
        0.0, ge=0, le=10, description="of h and c, the output layer; 0 = it stays a plain sum"
    )
    reg: float = Field(
        0.3,
        ge=0,
        le=10,
        description="how much a step shortens the vectors it moves, for each unit of learning rate",
    )
    decay: float = Field(
        0.0,
        ge=0,
        le=1,
        description="learning rates of a node's step t are divided by 1 + decay t; 0 = they stay",
    )
    local_epochs: int = Field(
        1,
        ge=1,
        le=1000,
        description="passes over its rows, each one step, after each received model",
    )
    negatives: int = Field(
        4, ge=1, le=1000, description="for each consumed item, redrawn in each local epoch"
    )
    init_std: float = Field(
        0.01,
        ge=0,
        le=10,
        description="standard deviation of the first item vectors, the same on all nodes",
    )
    init_user: float = Field(0.1, gt=0, le=10, description="every number of the first user vectors")
    rounds: int = Field(500, ge=1, description="training length, in pushes of a node")

    private: ClassVar[type] = gmf_node.GMFPrivate
    layout: ClassVar[str] = "[factors items + factors + 1] float32"
    reveals: ClassVar[str] = (
        "item vectors and output layer after merging and training on the history. The first push is"
        " the model that everybody has and this device's training alone: less the one that all"
        " began with it names what was trained on. Later pushes blend others in and still drift"
        " towards what was consumed; the user vector is not part of it"
    )

    @property
    def shape(self) -> gmf_node.GMFShape:
        """The layout of a GMF model in one row of numbers."""
        return gmf_node.shape_of(self._items, self.factors)

    @property
    def width(self) -> int:
        """Numbers in a model: item vectors, output weights and bias, with padding."""
        return self.shape.width

    def item_vectors(self, models: Float32Array) -> Float32Array:
        """A view of models, float32 [m, width], as the vectors Q of the items, [m, stride,
        factors]; those beyond the items are zeros.
        """
        shape = self.shape
        return (
            models[:, : shape.factors * shape.stride]
            .reshape(len(models), shape.factors, shape.stride)
            .transpose(0, 2, 1)
        )

    def sizes(self) -> dict[str, int]:
        """Returns the sizes of private arrays. stride: items, rounded up to whole lanes."""
        return {"stride": self.shape.stride}

    def search_space(self) -> dict[str, str]:
        """Returns the ranges of a search that is given none: those of PEPPER's tables, and
        those that helped among many peers.
        """
        rates = {"learning_rate": "0.005..0.1:log", "learning_rate_user": "0.03..1:log"}
        return {**rates, "reg": "0.03..1:log", "factors": "8..32:log", "decay": "0..0.006"}

    def init_model(self, key: np.uint64) -> Float32Array:
        """The initial model, float32 [width]: item vectors Q ~ N(0, init_std^2), output weights h =
        1, bias c = 0.
        """
        shape = self.shape
        model = np.zeros(shape.width, np.float32)
        size = shape.factors * shape.stride
        table = model[:size].reshape(shape.factors, shape.stride)
        table[:, : shape.items] = normals(
            folds(key, np.arange(shape.items)), shape.factors, self.init_std
        ).T
        # h begins where the table of items ends.
        model[size:][: shape.factors] = 1
        return model

    def init_private(self, users: Int64Array, key: np.uint64) -> gmf_node.GMFPrivate:
        """Returns the initial private state of m nodes. Every user vector is the same: users come
        to differ by learning.
        """
        m = len(users)
        user = np.full((m, self.factors), self.init_user, np.float32)
        squares = np.zeros((m, self.shape.stride), np.float32)
        return gmf_node.GMFPrivate(
            user, squares, np.zeros(m, np.float32), np.zeros(m, np.float32), np.zeros(m, np.int64)
        )

    def train(
        self,
        pool: Float32Array,
        at: Int64Array,
        nodes: Any,
        who: Int64Array,
        data: DeviceData,
        keys: UInt64Array,
    ) -> None:
        """Trains each of m models in place for `local_epochs` steps on the rows of its node."""
        private = part_of(nodes, gmf_node.GMFPrivate)
        rows = rows_of(data)
        gmf_train.train(pool, at, private, who, rows, self.rates(), self.shape, keys)

    def rates(self) -> gmf_train.GMFRates:
        """The constants of a node's training."""
        return gmf_train.GMFRates(
            item=np.float32(self.learning_rate),
            user=np.float32(self.learning_rate_user),
            output=np.float32(self.learning_rate_output),
            reg=np.float32(self.reg),
            decay=np.float32(self.decay),
            epochs=self.local_epochs,
            negatives=self.negatives,
        )

    def judged(
        self, pool: Float32Array, at: Int64Array, nodes: Any, who: Int64Array, data: DeviceData
    ) -> tuple[Float64Array, ...]:
        """Performance on the weighting items, each ranked among its candidates: HR@20 and NDCG@20,
        float64 [m] each (PEPPER, eq. 4 and 5)."""
        discount = gmf_node.discounts(RANKED)
        return gmf_node.performance(pool, at, nodes.user, who, data.weighing, discount, self.shape)

    def judge_merge_train(
        self,
        a: Arrivals,
        nodes: Any,
        data: DeviceData,
        keys: UInt64Array,
        shares: gmf_train.ShareRule,
    ) -> tuple[Float64Array, BoolArray]:
        """Merges each received model by how well it does and trains the result (PEPPER, algorithm
        2), node by node. keys: uint64 [m], for the draws of each. Returns the performances of
        received models, float64 [m], and which nodes trained, bool [m].
        """
        return gmf_train.judge_merge_train(
            a.pool,
            gmf_train.ModelsToMerge(a.who, a.own, a.received, a.into, keys),
            part_of(nodes, gmf_node.GMFPrivate),
            rows_of(data),
            shares,
            gmf_node.discounts(RANKED),
            self.rates(),
            self.shape,
        )

    def score(
        self, pool: Float32Array, at: Int64Array, nodes: Any, who: Int64Array, data: DeviceData
    ) -> Float32Array:
        """Scores of every item, float32 [m, items]: the logit of y_ui."""
        return gmf_node.scores(pool, at, nodes.user, who, self.shape)


def rows_of(data: DeviceData) -> gmf_train.GMFRows:
    """Returns the rows of nodes as the kernels need them."""
    own = data.histories
    return gmf_train.GMFRows(own.ptr, own.item, own.avoid_ptr, own.avoid, data.weighing)
