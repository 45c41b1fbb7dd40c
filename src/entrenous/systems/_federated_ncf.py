"""Neural collaborative filtering around a server: the model of FedAvg, Ditto, Reptile, FedFast and
Cali3F over GMF, MLP and NeuMF (kernels/ncf.py).

The server holds the item embeddings w[I] and the non-embedding part w[N]. The user embedding is the
device's own vector U.
"""

from __future__ import annotations

import math
import warnings
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from pydantic import BeforeValidator, Field, PlainSerializer, model_validator

from ..core.contract.declarations import SentArray, axes, dense, rows
from ..core.contract.protocols import Catalogue, Histories
from ..core.contract.update import STEP, Total, real
from ..core.errors import EntrenousWarning, NonFiniteError
from ..core.keys import fold_name, folds, normals
from ..core.types import Float32Array, Int32Array, Int64Array, UInt64Array
from ..kernels import ncf
from ..kernels.averaging import average, moved_by, scaled_moves
from ._served import Learnt, ServedModel

# The value of the setting `cohort` that means half of all devices, and FEW of them at least.
HALF = -1
FEW = 500
# More samples than a history gives: a batch of so many is the whole history.
WHOLE = 2**31 - 1


class GlobalNCF(NamedTuple):
    """The global model w[I, N], without user embeddings."""

    item: Annotated[Float32Array, axes("items", "row")]
    """float32 [items, row], the item embeddings."""
    network: Annotated[Float32Array, axes(1, "network")]
    """float32 [1, network], the non-embedding part."""


def _lengths(value: Any) -> Any:
    """Reads `16,8` as (16, 8) and an empty text as ()."""
    if isinstance(value, str):
        names = [part.strip() for part in value.split(",")]
        return tuple(name for name in names if name)
    return value


Layers = Annotated[
    tuple[Annotated[int, Field(ge=1, le=1024)], ...],
    BeforeValidator(_lengths),
    PlainSerializer(lambda layers: ",".join(map(str, layers)), return_type=str),
]


class NCFSettings(ServedModel):
    """A neural collaborative filter and its training on a device, the same in every federated NCF
    system.

    A user's embedding learns only in the rounds of the user's device. So a cohort that is a share
    of all devices suits federations of any size.
    """

    # The model.
    factors: int = Field(
        64, ge=0, le=1024, description="length of the GMF part of an embedding; 0 = MLP alone"
    )
    layers: Layers = Field(
        (16, 8),
        description=(
            "outputs of the MLP's layers, the first also the length of the MLP part of an"
            " embedding; none = GMF alone"
        ),
    )
    # Local training. Each part of the model may have its own rate.
    client: Literal["epochs", "gradient"] = Field(
        "epochs",
        description=(
            "what a device does in a round. epochs: it trains for E epochs in batches; gradient:"
            " it takes one step of plain SGD along the mean gradient over its whole history, as"
            " algorithm 1 of Cali3F has it, whatever `optimiser` and `batch` are"
        ),
    )
    learning_rate: float = Field(0.04, gt=0, le=100, description="eta, of a device's optimiser")
    learning_rate_item: float | None = Field(
        0.6,
        ge=0,
        le=10000,
        description=(
            "of the item embeddings, if another: the server averages what devices learn about an"
            " item"
        ),
    )
    learning_rate_network: float | None = Field(
        0.003, ge=0, le=100, description="of the non-embedding part, if another"
    )
    optimiser: Literal["sgd", "adam"] = Field(
        "adam", description="on the device; Adam's moments begin at 0 in every round"
    )
    epsilon: float = Field(
        1e-3,
        gt=0,
        le=1,
        description=(
            "Adam's; a larger one lets a small gradient take a small step, which counts when"
            " moments begin at 0"
        ),
    )
    reg: float = Field(
        0.007, ge=0, description="lambda of lambda/2 (|p_u|^2 + |q_i|^2), for each sample"
    )
    negatives: int = Field(
        4, ge=1, le=1000, description="for each consumed item, redrawn in each local epoch"
    )
    local_epochs: int = Field(
        1, ge=1, le=1000, description="E, passes over the device's history in a round"
    )
    batch: int = Field(100, ge=1, le=1 << 20, description="samples whose mean gradient is one step")
    # The federation.
    cohort: int = Field(
        -1,
        ge=-1,
        description=(
            f"m, devices in a round; 0 = all; -1 = half of all, {FEW} at least; at most all"
        ),
    )
    rounds: int = Field(100, ge=1, description="training length")
    init_std: float = Field(0.03, ge=0, description="standard deviation of the first embeddings")

    model: ClassVar[Any] = GlobalNCF

    @model_validator(mode="after")
    def _some_model(self) -> Self:
        if not self.factors and not self.layers:
            raise ValueError(
                "factors, layers or both; factors=0 without layers leaves nothing to learn"
            )
        return self

    @model_validator(mode="after")
    def _one_gradient(self) -> Self:
        if self.client == "gradient" and self.local_epochs > 1:
            raise ValueError("with client=gradient, local_epochs=1: a client sends one gradient")
        return self

    @property
    def shape(self) -> ncf.NCFShape:
        """The layout of embeddings and network in flat arrays."""
        return ncf.shape_of(self.factors, self.layers)

    def default_rounds(self, catalogue: Catalogue) -> int:
        """Returns the number of training rounds if none is asked for: the setting `rounds`."""
        return self.rounds

    def search_space(self) -> dict[str, str]:
        """Returns the ranges that a search of settings draws from by default."""
        space = {"factors": "16..128:log"} if self.factors else {}
        space["learning_rate"] = "0.01..0.2:log"
        space["learning_rate_item"] = "0.1..3:log"
        space["reg"] = "0.0005..0.05:log"
        space["negatives"] = "2..10"
        space["batch"] = "10..200:log"
        return space

    def sizes(self, catalogue: Catalogue) -> dict[str, int]:
        """Returns the sizes of the declared arrays: numbers of an embedding (row) and of the
        non-embedding part (network), devices of a round (cohort), and the items that a device
        touches with a history of the mean length and no item drawn twice (usual_rows).
        """
        # Each consumed item brings `negatives` others in every epoch.
        history = catalogue.interactions / max(1, catalogue.users)
        touched = history * (1 + self.negatives * self.local_epochs)
        return {
            "row": self.shape.row,
            "network": self.shape.network,
            "cohort": self.devices_of(catalogue),
            "usual_rows": max(1, min(catalogue.items, int(touched))),
        }

    def devices_of(self, catalogue: Catalogue) -> int:
        """Returns m, the number of devices in a round of this federation."""
        # 0 stands for all.
        asked = max(FEW, catalogue.users // 2) if self.cohort == HALF else self.cohort
        return min(asked, catalogue.users) or catalogue.users

    # ---- on a device -----------------------------------------------------------------------------

    def rates(self, **other: Any) -> ncf.NCFRates:
        """Returns the constants of local training; `other` replaces fields of `NCFRates`."""
        item = self.learning_rate_item
        network = self.learning_rate_network
        one_step = self.client == "gradient"
        rates = ncf.NCFRates(
            user=np.float32(self.learning_rate),
            item=np.float32(self.learning_rate if item is None else item),
            network=np.float32(self.learning_rate if network is None else network),
            reg=np.float32(self.reg),
            pull=np.float32(0),
            adam=self.optimiser == "adam" and not one_step,
            epsilon=np.float32(self.epsilon),
            epochs=self.local_epochs,
            negatives=self.negatives,
            batch=WHOLE if one_step else self.batch,
        )
        return rates._replace(**other)

    def first_users(self, users: Int64Array, key: np.uint64) -> Float32Array:
        """Returns the initial user embeddings, drawn from N(0, init_std^2), float32 [m, row]; each
        depends on the key and the user number alone."""
        return normals(folds(key, users), self.shape.row, self.init_std)

    def trained(
        self, w: Any, user: Float32Array, histories: Histories, users: Int64Array, key: np.uint64
    ) -> Learnt:
        """Trains each device for E epochs on its own history from w and its embedding, user[d]."""
        data = data_of(histories, users, key)
        learnt = ncf.train(
            self.shape, self.rates(), user, w.item, w.network, one_network(len(user)), data
        )
        return Learnt(learnt.ptr, learnt.item, learnt.row, learnt.user, {"network": learnt.network})

    def scores(self, w: Any, user: Float32Array, histories: Histories) -> Float32Array:
        """Returns the logit of y_ui for every item, float32 [m, items]."""
        here = one_network(len(user))
        return ncf.scores(self.shape, user, w.item, w.network, here)

    def adapted_scores(
        self,
        w: Any,
        user: Float32Array,
        histories: Histories,
        keys: UInt64Array,
        epochs: int,
    ) -> Float32Array:
        """Returns the logit of y_ui for every item, float32 [m, items], each device's by the model
        that it makes of w in some epochs on its own history."""
        out = np.empty((len(user), len(w.item)), np.float32)
        everyone = data_with(histories, keys)
        rates = self.rates(epochs=epochs)
        # One table for all: a device's rows take the place of w's while it scores.
        item = w.item.copy()
        for d in range(len(out)):
            own = data_of_one(everyone, d)
            # the device's own model: w plus what it learnt
            learnt = ncf.train(
                self.shape, rates, user[d : d + 1], w.item, w.network, one_network(1), own
            )
            item[learnt.item] += learnt.row
            network = w.network + learnt.network
            out[d] = ncf.scores(self.shape, learnt.user, item, network, one_network(1))[0]
            # w again, for the next device
            item[learnt.item] = w.item[learnt.item]
        return out

    # ---- on the server ---------------------------------------------------------------------------

    @classmethod
    def declared_moves(cls, what: str) -> tuple[SentArray, ...]:
        """Declares what leaves a device: rows of items and the network. what: "the move", or a
        multiple of it."""
        return (
            rows(
                "item",
                "row",
                when=(
                    f"each round: {what} of every item that the device consumed or drew as a"
                    " negative"
                ),
                reveals=(
                    "seen singly, which items were touched, and by the direction of the move which"
                    " of them were consumed: the whole history, in one round. In a sum over a"
                    " cohort a row that one device alone sent stands as it is"
                ),
            ),
            dense(
                "network",
                "network",
                when=f"each round: {what} of the non-embedding part",
                reveals=(
                    "seen singly, moves that follow from the history, which the rows of item beside"
                    " it tell exactly; in a sum, those of the cohort together"
                ),
            ),
        )

    def first_model(self, catalogue: Catalogue, key: np.uint64) -> GlobalNCF:
        """Returns the initial w: item embeddings drawn from N(0, init_std^2), and the network."""
        keys = folds(fold_name(key, "item"), np.arange(catalogue.items))
        item = normals(keys, self.shape.row, self.init_std)
        network = ncf.init_network(self.shape, self.layers, fold_name(key, "network"))
        return GlobalNCF(item, network[None])

    def averaged(self, w: Any, total: Total, rate: float = 1.0) -> GlobalNCF:
        """Returns the new model, w + rate sum_k (n_k / n) (w_k - w)."""
        network = mean_network(w.network, total.dense["network"], total.weight, rate)
        return GlobalNCF(average(w.item, total, rate), network)


def data_of(histories: Histories, users: Int64Array, key: np.uint64) -> ncf.NCFData:
    """Returns the private data of the devices of `users`, and the key from which each draws in this
    round.
    """
    return data_with(histories, folds(key, users))


def data_with(histories: Histories, keys: UInt64Array) -> ncf.NCFData:
    """Returns the private data of m devices, which draw from `keys`, uint64 [m]."""
    return ncf.NCFData(histories.ptr, histories.item, histories.avoid_ptr, histories.avoid, keys)


def data_of_one(data: ncf.NCFData, device: int) -> ncf.NCFData:
    """Returns the private data of one of the devices of `data`."""
    return data._replace(
        ptr=data.ptr[device : device + 2],
        avoid_ptr=data.avoid_ptr[device : device + 2],
        keys=data.keys[device : device + 1],
    )


def one_network(devices: int) -> Int32Array:
    """Returns the number of the network that each device starts from where all share one: int32
    [devices] of zeros.
    """
    return np.zeros(devices, np.int32)


def mean_network(
    network: Float32Array, sums: Int64Array, weight: Int64Array, rate: float = 1.0
) -> Float32Array:
    """Returns the new non-embedding parts, w + rate sum_k (n_k / n) (w_k - w) within each group:
    float32 [groups, network]. A group without devices keeps its own."""
    n = real(weight)[:, None]
    senders = np.where(n > 0, n, 1)
    return moved_by(network, rate * (real(sums) / senders))


# ---- a mean of item embeddings that is weighted by moves: FedFast, Cali3F ------------------------

# The largest bound on the moves of E epochs where none is declared, and the largest of all.
MOST = 8.0
WIDEST = 1024.0
# The least bound on moves: smaller ones would take products out of the range of float32.
LEAST = 2.0**-20
# A device moves an item by a few times its learning rate in an epoch, and by this at most.
STEPS = 13
# One gradient is a mean over the history, of which an item is a small share: a part of the rate.
GRADIENT = 0.125
# Numbers that a device sends must lie below 2^15; once scaled by the bound on moves, products of a
# move and a size and sizes lie below 1.
TOP = np.float32(2.0**15)


class WeighedNCF(NCFSettings):
    """The filter where each device counts for an item by how far it moves it.

    A device sends the product of move and size, and the size. The server adds up integers on a grid
    of 2^-16, and a number that it adds lies within +-32768. So both are scaled by a bound on moves:
    a product of half a step of the grid or less would become 0, and its size would still count.
    """

    largest_move: float = Field(
        0,
        ge=0,
        le=WIDEST,
        description=(
            "a bound on the moves of an item embedding in a round, for the fixed point in which"
            " they are added up; moves below a 65,000th of it are lost; 0 = from the item rate and"
            " what a device does in a round"
        ),
    )

    @property
    def move_bound(self) -> float:
        """The bound on moves, a power of two: what is declared, or what the item rate makes
        likely."""
        item = self.learning_rate_item
        rate = self.learning_rate if item is None else item
        likely = min(STEPS * rate * self.local_epochs, MOST)
        if self.client == "gradient":
            likely = min(GRADIENT * rate, WIDEST)
        exponent = math.ceil(math.log2(max(self.largest_move or likely, LEAST)))
        return 2.0**exponent

    def shared(self, moved: Float32Array, size: Float32Array) -> dict[str, Float32Array]:
        """Returns the rows that a device sends for `weighted_mean`: size times move, and the size
        itself, both scaled. moved: w_k - w, float32 [n, row]; size: float32 [n, 1] or [n, row].

        Warns (EntrenousWarning) where most moves are lost in fixed point. Raises NonFiniteError for
        finite moves beyond the bound.
        """
        scale = np.float32(1 / self.move_bound)
        scaled = scaled_moves(moved, size, scale, TOP, np.float32(STEP / 2))
        largest = float(scaled.largest)
        # Numbers that are not finite are for the sum to refuse, as of any algorithm.
        if math.isfinite(largest):
            self._check_bound(largest)
            if 2 * scaled.lost > scaled.moved:
                self._warn_of_lost(largest)
        return {"item": scaled.product, "share": TOP * (scale * size)}

    def weighted_mean(self, item: Float32Array, total: Total) -> Float32Array:
        """Returns item embeddings as a mean weighted by the sizes of moves, w + sum_k size_k (w_k -
        w) / sum_k size_k = sum_k size_k w_k / sum_k size_k. Items that nobody moved stay."""
        # Where nobody moved an item both sums are 0.
        sizes = real(total.rows["share"])
        sums = self.move_bound * real(total.rows["item"])
        weight = np.where(sizes > 0, sizes, 1)
        return moved_by(item, sums / weight)

    def _check_bound(self, largest: float) -> None:
        if largest < self.move_bound:
            return
        raise NonFiniteError(
            f"a device moved an item embedding by {largest:.3g}, and the fixed point in which moves"
            f" are added up holds {self.move_bound:g}; the model is unchanged: set largest_move"
            f" above that, {WIDEST:g} at most, or try a smaller learning rate"
        )

    def _warn_of_lost(self, largest: float) -> None:
        # A power of two: the same words in every round, which Python then shows once.
        fitting = 2.0 ** math.ceil(math.log2(2 * largest))
        finer = f": set largest_move to {fitting:g}" if fitting < self.move_bound else ""
        warnings.warn(
            "most moves of item embeddings in a round are lost in the fixed point in which they are"
            f" added up, which holds moves up to {self.move_bound:g}{finer}",
            EntrenousWarning,
            stacklevel=2,
        )


# ---- a plain mean of what the devices of a round learnt: FedAvg, Ditto, Reptile ------------------


class AveragedNCF(NCFSettings):
    """The filter where the server averages all of w in one way: the step of the server, and the
    settings that suit it.
    """

    server_rate_item: float = Field(
        16.0,
        gt=0,
        le=10000,
        description=(
            "eta_s, how many times their mean move the item embeddings move (Reddi et al. 2021): 1"
            " = the plain mean, in which devices count that did not touch an item"
        ),
    )
    reg: float = Field(
        0.003, ge=0, description="lambda of lambda/2 (|p_u|^2 + |q_i|^2), for each sample"
    )
    rounds: int = Field(80, ge=1, description="training length")

    holds: ClassVar[type] = GlobalNCF
    receives: ClassVar[type] = GlobalNCF

    def search_space(self) -> dict[str, str]:
        """Returns the ranges that a search of settings draws from by default."""
        return {**super().search_space(), "server_rate_item": "1..64:log"}

    def averaged(self, w: Any, total: Total, rate: float = 1.0) -> GlobalNCF:
        """Returns the new model, w + rate sum_k (n_k / n) (w_k - w), whose items move
        `server_rate_item` times as far.
        """
        network = mean_network(w.network, total.dense["network"], total.weight, rate)
        return GlobalNCF(average(w.item, total, rate * self.server_rate_item), network)
