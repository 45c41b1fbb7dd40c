"""Shared parts of the federated NCF systems (FedAvg, Ditto, Reptile, FedFast, Cali3F): the settings
of the model and of its training on a device, the ways to weigh what devices learnt, and the plain
average around which three of them are built.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from pydantic import BeforeValidator, Field, PlainSerializer, model_validator

from ..core.contract.declarations import SentArray, Traits, axes, dense, rows
from ..core.contract.protocols import Catalogue, Histories
from ..core.contract.settings import Settings
from ..core.contract.update import Total, Update, real
from ..core.keys import fold_name, folds, normals
from ..core.types import Float32Array, Int32Array, Int64Array
from ..kernels import ncf
from ..kernels.averaging import average, moved_by, weighted_moves
from ..kernels.sampling import cohort

HALF, FEW = -1, 500  # of the setting `cohort`


def _lengths(value: Any) -> Any:
    """`16,8` as (16, 8); an empty text as ()."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


Layers = Annotated[
    tuple[Annotated[int, Field(ge=1, le=1024)], ...],
    BeforeValidator(_lengths),
    PlainSerializer(lambda layers: ",".join(map(str, layers)), return_type=str),
]


class NCFSettings(Settings):
    """Settings of a neural collaborative filter and of its training on a device: one set of names
    for every federated NCF system.

    A user's embedding learns in the rounds of its own device alone, so that a cohort that is a
    share of all devices suits federations of any size.
    """

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
    cohort: int = Field(
        -1,
        ge=-1,
        description=(
            f"m, devices in a round; 0 = all; -1 = half of all, {FEW} at least; at most all"
        ),
    )
    rounds: int = Field(100, ge=1, description="training length")
    init_std: float = Field(0.03, ge=0, description="standard deviation of the first embeddings")

    @model_validator(mode="after")
    def _some_model(self) -> Self:
        if not self.factors and not self.layers:
            raise ValueError(
                "factors, layers or both; factors=0 without layers leaves nothing to learn"
            )
        return self

    @property
    def shape(self) -> ncf.NCFShape:
        """The layout of the filter's embeddings and network in flat arrays."""
        return ncf.shape_of(self.factors, self.layers)

    def default_rounds(self, catalogue: Catalogue) -> int:
        """Training rounds if none are asked for: the setting `rounds`, of any data set."""
        return self.rounds

    def search_space(self) -> dict[str, str]:
        """What a search chooses from unless it is told."""
        rates = {
            "learning_rate": "0.01..0.2:log",
            "learning_rate_item": "0.1..3:log",
            "reg": "0.0005..0.05:log",
        }
        return {
            **({"factors": "16..128:log"} if self.factors else {}),
            **rates,
            "negatives": "2..10",
            "batch": "10..200:log",
        }

    def sizes(self, catalogue: Catalogue) -> dict[str, int]:
        """Sizes of the declared arrays. row: numbers of an embedding. network: numbers of the
        non-embedding part. cohort: devices of a round. usual_rows: items that a device touches with
        a history of the mean length and no item drawn twice.
        """
        touched = (
            catalogue.interactions
            / max(1, catalogue.users)
            * (1 + self.negatives * self.local_epochs)
        )
        usual = max(1, min(catalogue.items, int(touched)))
        row, network, cohort = self.shape.row, self.shape.network, self._devices_of(catalogue)
        return {"row": row, "network": network, "cohort": cohort, "usual_rows": usual}

    def rates(self, **other: Any) -> ncf.NCFRates:
        """Learning rates and regularisation of local training; `other` replaces fields of
        `NCFRates`.
        """
        item = self.learning_rate if self.learning_rate_item is None else self.learning_rate_item
        network = (
            self.learning_rate if self.learning_rate_network is None else self.learning_rate_network
        )
        numbers = (
            np.float32(self.learning_rate),
            np.float32(item),
            np.float32(network),
            np.float32(self.reg),
            np.float32(0),
        )
        rates = ncf.NCFRates(
            *numbers,
            self.optimiser == "adam",
            np.float32(self.epsilon),
            self.local_epochs,
            self.negatives,
            self.batch,
        )
        return rates._replace(**other)

    def first_users(self, users: Int64Array, key: np.uint64) -> Float32Array:
        """Initial user embeddings, drawn from N(0, init_std^2), float32 [m, row]; each user's
        depends on the key and the user number alone."""
        return normals(folds(key, users), self.shape.row, self.init_std)

    def first_items(self, items: int, key: np.uint64) -> Float32Array:
        """Initial item embeddings, drawn from N(0, init_std^2), float32 [items, row]."""
        return normals(
            folds(fold_name(key, "item"), np.arange(items)), self.shape.row, self.init_std
        )

    def first_network(self, key: np.uint64) -> Float32Array:
        """The initial non-embedding part, float32 [1, network]."""
        return ncf.init_network(self.shape, self.layers, fold_name(key, "network"))[None]

    def configured(self, catalogue: Catalogue) -> Self:
        """A copy of the settings in which the cohort is a number of devices of this federation."""
        return self.model_copy(update={"cohort": self._devices_of(catalogue)})

    def _devices_of(self, catalogue: Catalogue) -> int:
        asked = max(FEW, catalogue.users // 2) if self.cohort == HALF else self.cohort
        return min(asked, catalogue.users) or catalogue.users


def data_of(histories: Histories, users: Int64Array, key: np.uint64) -> ncf.NCFData:
    """The private data of the devices of `users`, and the key from which each draws in this
    round.
    """
    return ncf.NCFData(
        histories.ptr, histories.item, histories.avoid_ptr, histories.avoid, folds(key, users)
    )


def one_network(devices: int) -> Int32Array:
    """The number of the network that each device starts from where all share one: int32 [devices]
    of zeros.
    """
    return np.zeros(devices, np.int32)


# ---- ways to weigh item embeddings, so that the server needs sums alone --------------------------

SQUARE = np.float32(
    2.0**9
    # keeps squares of small steps above the grid of 2^-16, and those of steps up to 8 below its
    # limit
)
SHARE = np.float32(2.0**8)


def shared(moved: Float32Array, size: Float32Array) -> dict[str, Float32Array]:
    """Rows for a mean of item embeddings that is weighted by how far each device moved an item:
    size times move, and the size itself.
    """
    return {"item": SQUARE * (size * moved), "share": SHARE * size}


def weighted_mean(item: Float32Array, total: Total) -> Float32Array:
    """Item embeddings as a mean weighted by the sizes of moves, w + sum_k size_k (w_k - w) / sum_k
    size_k = sum_k size_k w_k / sum_k size_k; items that nobody moved stay."""
    sizes, sums = real(total.rows["share"]) / SHARE, real(total.rows["item"]) / SQUARE
    return moved_by(item, sums / np.where(sizes > 0, sizes, 1))


def mean_network(
    network: Float32Array, sums: Int64Array, weight: Int64Array, rate: float = 1.0
) -> Float32Array:
    """The new non-embedding parts, w + rate sum_k (n_k / n) (w_k - w) within each group: float32
    [groups, network]; a group without devices stays."""
    n = real(weight)[:, None]
    return moved_by(network, rate * (real(sums) / np.where(n > 0, n, 1)))


# ---- one global model, the mean of what a round's devices learnt: FedAvg, Ditto, Reptile ---------


def moves_of_w(what: str) -> tuple[SentArray, ...]:
    """The declaration of what leaves a device: rows of items and the network. what: "the move", or
    a multiple of it, for the text of `reveals`."""
    return (
        rows(
            "item",
            "row",
            when=f"each round: {what} of every item that the device consumed or drew as a negative",
            reveals=(
                "seen singly, which items were touched, and by the direction of the move which of"
                " them were consumed: the whole history, in one round. In a sum over a cohort a row"
                " that one device alone sent stands as it is"
            ),
        ),
        dense(
            "network",
            "network",
            when=f"each round: {what} of the non-embedding part",
            reveals=(
                "seen singly, moves that follow from the history, which the rows of item beside it"
                " tell exactly; in a sum, those of the cohort together"
            ),
        ),
    )


class GlobalNCF(NamedTuple):
    """The global model w[I, N], without user embeddings. item: float32 [items, row]; network:
    float32 [1, network]. The server holds it; a device receives it whole."""

    item: Annotated[Float32Array, axes("items", "row")]
    network: Annotated[Float32Array, axes(1, "network")]


class AveragedNCF(NCFSettings):
    """The server's side of a plain average of NCF models, what a device learns from the global one,
    and the settings that suit both.
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
    traits: ClassVar[Traits] = Traits(private={"noise": 0.3})

    def search_space(self) -> dict[str, str]:
        """What a search chooses from unless it is told."""
        return {**super().search_space(), "server_rate_item": "1..64:log"}

    def init_server(self, catalogue: Catalogue, key: np.uint64) -> GlobalNCF:
        """The initial global model w[I, N]."""
        return GlobalNCF(self.first_items(catalogue.items, key), self.first_network(key))

    def select(self, server: GlobalNCF, catalogue: Catalogue, key: np.uint64) -> Int64Array:
        """The round's devices S_t: m of them, uniformly at random."""
        return cohort(key, self.configured(catalogue).cohort, catalogue.users)

    def download(self, server: GlobalNCF) -> GlobalNCF:
        """The global model w[I, N], which every device of the round receives whole."""
        return server

    def client_update(
        self, w: GlobalNCF, user: Float32Array, data: ncf.NCFData, weight: Float32Array
    ) -> tuple[Float32Array, Update]:
        """Trains E epochs from w on each device (ClientUpdate of FedAvg's algorithm 1). user: w[U]
        float32 [m, row]; weight: float32 [m]. Returns the new w[U], and weight (w_k - w) of what
        was touched.
        """
        sent = ncf.train(
            self.shape, self.rates(), user, w.item, w.network, one_network(len(user)), data
        )
        return sent.user, Update(
            sent.ptr,
            sent.item,
            weighted_moves(sent.row, sent.ptr, weight),
            {"network": weight[:, None] * sent.network},
            weight,
        )

    def averaged_model(self, w: GlobalNCF, total: Total, rate: float = 1.0) -> GlobalNCF:
        """The new global model, w + rate sum_k (n_k / n) (w_k - w), items `server_rate_item` times
        as far.
        """
        network = mean_network(w.network, total.dense["network"], total.weight, rate)
        return GlobalNCF(average(w.item, total, rate * self.server_rate_item), network)

    def scores_of(self, w: GlobalNCF, user: Float32Array) -> Float32Array:
        """The logit of y_ui for every item by the given user embeddings, float32 [m, items]."""
        return ncf.scores(self.shape, user, w.item, w.network, one_network(len(user)))
