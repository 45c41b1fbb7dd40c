"""`central-gmf`, `central-mlp`, `central-neumf`: neural collaborative filtering that sees
everybody's data.
"""

from __future__ import annotations

from functools import partial
from typing import ClassVar, Literal, NamedTuple, Self, final

import numpy as np
from pydantic import Field, model_validator

from ...core.compiling import njit
from ...core.contract.protocols import Progress, silent
from ...core.contract.settings import Settings
from ...core.keys import below, draw, fold_name, folds, normals
from ...core.lanes.memory import zeros
from ...core.lanes.simd import LANES, every, inside, load, store
from ...core.types import Float32Array, Float64Array, Int32Array, Int64Array
from ...data.interactions import Interactions
from ...kernels import ncf
from ...kernels.adam import BETA1, BETA2
from ...kernels.sampling import shuffle
from .._federated_ncf import Layers
from ._shared import ItemVectors


class NCFModel(NamedTuple):
    """A trained NCF model: all parameters of the network."""

    user: Float32Array
    """float32 [users, row], the embeddings [p^G ; p^M]."""
    item: ItemVectors
    """float32 [items, row], the embeddings [q^G ; q^M]."""
    network: Float32Array
    """float32 [1, network], the non-embedding part."""


class _State(NamedTuple):
    """A model in training."""

    table: Float32Array
    """float32 [users + items, gmf + mlp], the embeddings, padded, users before items."""
    net: Float32Array
    """float32 [1, network]."""
    moments: Float32Array
    """Adam's moments: two rows for each row of the table."""
    net_moments: Float32Array
    """float32 [2, network], Adam's moments of `net`."""
    decay: Float64Array
    """float64 [2], the powers of Adam's two betas."""


class NCFRows(NamedTuple):
    """The training rows, user by user."""

    ptr: Int64Array
    """int64 [users + 1]; user u has the rows ptr[u]:ptr[u + 1]."""
    user: Int32Array
    """int32 [rows]."""
    item: Int32Array
    """int32 [rows], ascending within a user."""
    items: int
    """Number of items in the catalogue."""


class _NCFEpochRoom(NamedTuple):
    """Working memory of an epoch."""

    tower: ncf.NCFTower
    """Of a sample."""
    gnet: Float32Array
    """float32 [1, network], the gradient by `net` of a batch."""
    gradient: Float32Array
    """float32 [most rows, gmf + mlp], the gradients by the rows that a batch touches."""
    row_of: Int32Array
    """int32 [most rows], the row of the table that each gradient is of."""
    slot_of: Int32Array
    """int32 [users + items], where the gradient of a row is, or -1."""
    order: Int64Array
    """int64 [rows], the order of an epoch."""


@final
class CentralNCF(Settings):
    """Centralised GMF, MLP or NeuMF: neural collaborative filtering on everybody's data (He et al.
    2017).

    y_ui of `kernels.ncf` is trained on each consumed item and `negatives` others that the user did
    not consume, redrawn every epoch, by binary cross-entropy. An epoch passes over all rows in a
    new order, each followed by its negatives, in batches whose mean gradient is one step of Adam or
    SGD; Adam leaves alone the embeddings that a batch does not touch. Every row counts as
    consumed. A user who consumed every item has no negatives and teaches with what there is.
    Single-threaded and deterministic. Each model's defaults were chosen on the validation rows of
    ml-100k, loo-99; the paper has 4 negatives, batches of 256 and a step of 0.001.
    """

    # The model.
    factors: int = Field(
        64, ge=0, le=1024, description="length of the GMF part of an embedding; 0 = MLP alone"
    )
    layers: Layers = Field(
        (16, 8),
        description=(
            "outputs of the MLP's layers, the first also the length of its part of an embedding;"
            " none = GMF alone"
        ),
    )
    # Training.
    epochs: int = Field(20, ge=1, description="passes over all rows")
    learning_rate: float = Field(0.002, gt=0, le=100, description="step of the optimiser")
    optimiser: Literal["sgd", "adam"] = Field("adam", description="of all parts")
    reg: float = Field(0.02, ge=0, description="lambda of |p_u|^2 and |q_i|^2, for each sample")
    negatives: int = Field(
        8, ge=1, le=1000, description="for each consumed item, redrawn in each epoch"
    )
    batch: int = Field(
        4096, ge=1, le=1 << 20, description="samples whose mean gradient is one step"
    )
    init_std: float = Field(0.01, ge=0, description="standard deviation of the first embeddings")
    holds: ClassVar[type] = NCFModel

    @model_validator(mode="after")
    def _some_model(self) -> Self:
        if not self.factors and not self.layers:
            raise ValueError(
                "a model has factors or layers; factors=0 without layers leaves nothing"
            )
        return self

    def search_space(self) -> dict[str, str]:
        """Returns the ranges that a search of settings draws from by default."""
        space = {"factors": "16..128:log"} if self.factors else {}
        space["learning_rate"] = "0.0003..0.01:log"
        space["reg"] = "0.0005..0.1:log"
        space["epochs"] = "5..60:log"
        space["negatives"] = "2..12"
        return space

    @property
    def shape(self) -> ncf.NCFShape:
        """The layout of the model's embeddings and network in flat arrays."""
        return ncf.shape_of(self.factors, self.layers)

    def fit(self, data: Interactions, key: np.uint64, progress: Progress = silent) -> NCFModel:
        state = self._start(data, key)
        self._learn(state, data, key, progress)
        row = ncf.unpadded(self.shape, state.table)
        return NCFModel(row[: len(data.users)], row[len(data.users) :], state.net)

    def score(self, model: NCFModel, data: Interactions, users: Int64Array) -> Float32Array:
        """Returns the scores of every item, float32 [m, items]: the logit of y_ui."""
        same_network = np.zeros(len(users), np.int32)
        return ncf.scores(self.shape, model.user[users], model.item, model.network, same_network)

    def _start(self, train: Interactions, key: np.uint64) -> _State:
        """Returns a model with embeddings N(0, init_std^2), the network as `init_network` has it,
        and Adam at rest.
        """
        shape = self.shape
        users = len(train.users)
        items = len(train.items)
        state = _state(shape, users + items, self.optimiser == "adam")
        for name, table in (("user", state.table[:users]), ("item", state.table[users:])):
            keys = folds(fold_name(key, name), np.arange(len(table)))
            # The two parts of an embedding are padded apart.
            first = normals(keys, shape.row, self.init_std)
            table[:, : shape.factors] = first[:, : shape.factors]
            table[:, shape.gmf : shape.gmf + shape.embedding] = first[:, shape.factors :]
        state.net[0] = ncf.init_network(shape, self.layers, fold_name(key, "network"))
        return state

    def _learn(
        self, state: _State, train: Interactions, key: np.uint64, progress: Progress
    ) -> None:
        """Runs all epochs, in place."""
        rate = np.float32(self.learning_rate)
        rates = ncf.NCFRates(
            user=rate,
            item=rate,
            network=rate,
            reg=np.float32(self.reg),
            pull=np.float32(0),
            adam=self.optimiser == "adam",
            epsilon=np.float32(1e-8),
            epochs=1,
            negatives=self.negatives,
            batch=self.batch,
        )
        user = np.ascontiguousarray(train.user, np.int32)
        rows = NCFRows(train.ptr, user, train.item, len(train.items))
        room = _room(self.shape, rates, len(state.table), len(train.item))
        for epoch in range(self.epochs):
            learn(self.shape, rates, state, rows, fold_name(key, "epoch", epoch), room)
            progress(epoch + 1, self.epochs, "epochs")


def _state(shape: ncf.NCFShape, rows: int, adam: bool) -> _State:
    width = shape.gmf + shape.mlp
    if adam:
        moments = zeros(2 * rows, width)
        net_moments = zeros(2, shape.network)
    else:
        moments = zeros(1, LANES)
        net_moments = zeros(1, LANES)
    return _State(zeros(rows, width), zeros(1, shape.network), moments, net_moments, np.ones(2))


def _room(shape: ncf.NCFShape, rates: ncf.NCFRates, rows: int, interactions: int) -> _NCFEpochRoom:
    # A sample touches a user and an item.
    batch = min(rates.batch, max(1, interactions * (1 + rates.negatives)))
    touched = min(2 * batch, rows)
    return _NCFEpochRoom(
        tower=ncf.tower_of(shape),
        gnet=zeros(1, shape.network),
        gradient=zeros(touched, shape.gmf + shape.mlp),
        row_of=np.empty(touched, np.int32),
        slot_of=np.full(rows, -1, np.int32),
        order=np.empty(interactions, np.int64),
    )


# ---- an epoch, compiled --------------------------------------------------------------------------


@njit(cache=True, nogil=True, error_model="numpy")
def learn(
    shape: ncf.NCFShape,
    rates: ncf.NCFRates,
    state: _State,
    rows: NCFRows,
    key: np.uint64,
    room: _NCFEpochRoom,
) -> None:
    """Runs one epoch in place."""
    table = state.table
    net = state.net
    gradient = room.gradient
    gnet = room.gnet
    order = room.order
    row_of = room.row_of
    slot_of = room.slot_of
    tower = room.tower
    ptr = rows.ptr
    user = rows.user
    item = rows.item
    items = rows.items
    # Users and items are rows of one table, and of one table of gradients.
    model = ncf.NCFParts(table, table, net)
    slopes = ncf.NCFParts(gradient, gradient, gnet)
    users = len(ptr) - 1
    width = table.shape[1]
    reg = every(rates.reg)
    shuffle(order, 0, len(order), key)
    taken = 0
    filled = 0
    # The draws before these made the order.
    drawn = len(item)
    for n in range(len(item)):
        # a row in the order of this epoch, and the user's other items
        positive = order[n]
        u = int(user[positive])
        start = ptr[u]
        length = ptr[u + 1] - ptr[u]
        extra = rates.negatives if length < items else 0
        for which in range(1 + extra):
            i = int(item[positive])
            label = which == 0
            if not label:
                i = _other(item, start, length, below(draw(key, drawn), items - length))
                drawn += 1
            # where the batch adds up the gradients of both rows
            i += users
            to = _place(u, filled, width, gradient, row_of, slot_of)
            filled = max(filled, to + 1)
            i_to = _place(i, filled, width, gradient, row_of, slot_of)
            filled = max(filled, i_to + 1)
            # forward, the slope of the loss, and backward
            at = ncf.NCFPlace(u * width, i * width, 0)
            error = ncf.slope(ncf.forward(shape, model, at, tower), label)
            into = ncf.NCFPlace(to * width, i_to * width, 0)
            ncf.backward(shape, model, at, tower, error, reg, slopes, into)
            # A step is one of a full batch, or of the rest of the epoch.
            taken += 1
            if taken == rates.batch or (n == len(item) - 1 and which == extra):
                _step(rates, state, room, filled, taken)
                taken = 0
                filled = 0


@inside
def _other(item: Int32Array, start: int, length: int, k: int) -> int:
    """Returns the k-th item (k = 0, 1, ...) that is not in the ascending item[start : start +
    length], by bisection as in `kernels.sampling.negative`.
    """
    # The k-th free item is k plus the consumed items before it, whose number bisection finds.
    low = start
    while length > 1:
        half = length >> 1
        low += half if item[low + half - 1] - (low + half - 1 - start) <= k else 0
        length -= half
    low += 1 if length == 1 and item[low] - (low - start) <= k else 0
    return k + low - start


@inside
def _place(
    row: int,
    filled: int,
    width: int,
    gradient: Float32Array,
    row_of: Int32Array,
    slot_of: Int32Array,
) -> int:
    """Returns the place where the batch adds up the gradient of a row of the table: the one that
    the row has, or else the next free one, zeroed.
    """
    if slot_of[row] >= 0:
        return int(slot_of[row])
    slot_of[row] = filled
    row_of[filled] = row
    for f in range(0, width, LANES):
        store(gradient, filled * width + f, every(np.float32(0)))
    return filled


@inside
def _step(rates: ncf.NCFRates, state: _State, room: _NCFEpochRoom, filled: int, taken: int) -> None:
    """Takes the step at the end of a batch of `taken` samples that touched `filled` rows. All parts
    have one rate.
    """
    table = state.table
    net = state.net
    moments = state.moments
    net_moments = state.net_moments
    gradient = room.gradient
    gnet = room.gnet
    row_of = room.row_of
    slot_of = room.slot_of
    width = table.shape[1]
    size = net.shape[1]
    mean = every(np.float32(1) / np.float32(taken))
    rate = every(rates.item)
    epsilon = every(rates.epsilon)
    # Adam's corrections for moments that begin at 0
    decay = state.decay
    decay[0] = decay[0] * BETA1
    decay[1] = decay[1] * BETA2
    c1 = every(np.float32(1 / (1 - decay[0])))
    c2 = every(np.float32(1 / (1 - decay[1])))
    # the network, whose gradient is cleared for the next batch
    for f in range(0, size, LANES):
        step = mean * load(gnet, f)
        if rates.adam:
            step = ncf.adam(net_moments, f, size + f, step, c1, c2, epsilon)
        store(net, f, load(net, f) - rate * step)
        store(gnet, f, every(np.float32(0)))
    # the embeddings that the batch touched
    for g in range(filled):
        r = int(row_of[g])
        slot_of[r] = -1
        for f in range(0, width, LANES):
            step = mean * load(gradient, g * width + f)
            if rates.adam:
                m = 2 * r * width + f
                step = ncf.adam(moments, m, m + width, step, c1, c2, epsilon)
            store(table, r * width + f, load(table, r * width + f) - rate * step)


ALGORITHMS = {
    "central-gmf": partial(CentralNCF, layers=(), reg=0.01),
    "central-mlp": partial(
        CentralNCF, factors=0, layers=(32, 16), epochs=15, reg=0.0, negatives=4, batch=1024
    ),
    "central-neumf": CentralNCF,
}
