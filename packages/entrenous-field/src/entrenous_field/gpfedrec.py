"""GPFedRec, graph-guided personalisation for federated recommendation.

C. Zhang, G. Long, T. Zhou, Z. Zhang, P. Yan, B. Yang, "GPFedRec: graph-guided personalization for
federated recommendation", KDD 2024. Read this file with section 4 of the paper. On each device are
a user vector p_u, an MLP as score function and an item table Q_u; p_u and the MLP never leave. The
server sees every Q_u, makes a graph of users of them, and gives each user the mean R_u of its
neighbours' tables, to which the next Q_u is held; all begin a round from the mean of the R_u.

The authors' program (Zhangcx19/GPFedRec) differs from the paper where it makes the graph: what it
compares with the threshold is a cosine *distance*, so that a user's neighbours are those who are
least alike, never the user itself. `neighbours=near` is the paper, `as-run` the program. It also
fails for a cohort of fewer than all users, whose rows it looks up by their numbers among all; here
a user who is not in a round keeps its R_u.

The tables are large. A federation of MovieLens-100K (943 users, 1,682 items, F 32) has 203 MB of
Q_u on the devices, 203 MB of R_u on the server, and as much again twice while a round is added up;
MovieLens-1M (6,040 users, 3,706 items) would have 2.9 GB of each.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, ClassVar, Literal, NamedTuple, final

import numpy as np
from pydantic import Field

from entrenous.core.contract.declarations import SentArray, axes, shown
from entrenous.core.contract.protocols import Catalogue, Histories
from entrenous.core.contract.update import Total, Update, gathered
from entrenous.core.keys import fold_name, folds, normals
from entrenous.core.types import BoolArray, Float32Array, Float64Array, Int64Array
from entrenous.kernels import ncf
from entrenous.systems._cohort import InCohorts
from entrenous.systems._federated_ncf import Layers, data_of

from .kernels import graph_ncf


class GPFedRecServer(NamedTuple):
    """The tables that the server makes of those that it sees."""

    q: Float32Array
    """float32 [items, F], the global table, from which all devices begin a round."""
    near: Float32Array
    """float32 [users, items, F], R_u of every user."""


class GPFedRecDownload(NamedTuple):
    """The tables that the m devices of a delivery receive."""

    q: Annotated[Float32Array, axes("items", "factors")]
    near: Annotated[Float32Array, axes("devices", "items", "factors")]
    """float32 [m, items, F], R_u of each device."""


class GPFedRecDevices(NamedTuple):
    """Private state of m devices."""

    user: Annotated[Float32Array, axes("factors")]
    """float32 [m, F], p_u. It never leaves."""
    network: Annotated[Float32Array, axes("network")]
    """float32 [m, network], the MLP. It never leaves."""
    table: Annotated[Float32Array, axes("items", "factors")]
    """float32 [m, items, F], Q_u after the device's latest round, with which it scores. The server
    knows it: the device has shown how it moved."""
    started: Annotated[BoolArray, axes()]
    """bool [m], True for a device that was in a round."""


@final
class GPFedRec(InCohorts):
    """Graph-guided personalisation: each user's item table is held to the mean of those of similar
    users, which the server finds by comparing everybody's.
    """

    # The model.
    factors: int = Field(
        32, ge=16, le=1024, multiple_of=16, description="F, the length of p_u and of a row of Q_u"
    )
    layers: Layers = Field(
        (16, 8),
        description=(
            "outputs of the MLP's layers after the first, which has F of them and reads [p_u ; q_i]"
        ),
    )
    # Section 4.3: local training.
    learning_rate: float = Field(0.1, gt=0, le=100, description="eta, of the MLP")
    scale: float = Field(
        80.0,
        gt=0,
        le=1e5,
        description=(
            "p_u learns at eta (scale - 1), and Q_u at eta (scale items - 1), as in the authors'"
            " program"
        ),
    )
    reg: float = Field(
        1.0,
        ge=0,
        le=1e4,
        description="gamma of the loss L + gamma mean (Q_u - R_u)^2, a mean over the whole table",
    )
    local_epochs: int = Field(1, ge=1, le=1000, description="passes over the history in a round")
    negatives: int = Field(
        4, ge=1, le=1000, description="for each consumed item, redrawn in each local epoch"
    )
    batch: int = Field(256, ge=1, le=1 << 20, description="samples whose mean gradient is one step")
    # Section 4.2: the graph of users.
    neighbours: Literal["near", "as-run"] = Field(
        "near",
        description=(
            "near: N(u) are the users whose tables are more alike to Q_u than tau times the mean,"
            " as printed; as-run: those that are less alike, as in the authors' program"
        ),
    )
    threshold: float = Field(
        1.0, ge=0, le=100, description="tau, of the mean over all pairs of users"
    )
    aggregation: Literal["on", "off"] = Field(
        "on",
        description=(
            "off: nothing is sent, and each device goes on from its own Q_u, held to nothing: what"
            " a device learns by itself. What a system gains by others is the difference"
        ),
    )
    # The federation.
    cohort: int = Field(0, ge=0, description="m, devices in a round; 0 = all")
    rounds: int = Field(100, ge=1, description="training length")
    init_std: float = Field(1.0, ge=0, description="standard deviation of the first p_u and Q_u")

    holds: ClassVar[type] = GPFedRecServer
    receives: ClassVar[type] = GPFedRecDownload
    keeps: ClassVar[type] = GPFedRecDevices
    sends: ClassVar[tuple[SentArray, ...]] = (
        shown(
            "move",
            "items",
            "factors",
            when="each round, as it is, to the server by name: how the whole item table moved",
            reveals=(
                "the history: an item that was not touched moves to R_u, which the server made, and"
                " by the direction of the others consumed ones are told from drawn ones. The server"
                " compares the tables of single users, so that no sum can hide them"
            ),
            only_if="aggregates",
        ),
    )

    def search_space(self) -> dict[str, str]:
        """Returns the ranges that a search of settings draws from by default."""
        return {
            "learning_rate": "0.02..0.5:log",
            "scale": "10..200:log",
            "reg": "0.1..3:log",
            "threshold": "0.9..1.1",
        }

    @property
    def aggregates(self) -> bool:
        """True if devices send their tables, and the server makes the graph."""
        return self.aggregation == "on"

    @property
    def shape(self) -> ncf.NCFShape:
        """The layout of the MLP in a flat array."""
        return ncf.shape_of(0, (self.factors, *self.layers))

    def sizes(self, catalogue: Catalogue) -> dict[str, int]:
        """Returns the numbers of an MLP (network)."""
        return {"network": self.shape.network}

    # ---- the first models ------------------------------------------------------------------------

    def init_server(self, catalogue: Catalogue, key: np.uint64) -> GPFedRecServer:
        """Returns the first global table, drawn from N(0, init_std^2), which is everybody's R_u."""
        q = normals(folds(key, np.arange(catalogue.items)), self.factors, self.init_std)
        return GPFedRecServer(q, np.repeat(q[None], catalogue.users, axis=0))

    def init_devices(
        self, users: Int64Array, catalogue: Catalogue, key: np.uint64
    ) -> GPFedRecDevices:
        """Returns the first private state: one p_u and one MLP for all (as run), and no table."""
        m = len(users)
        user = normals(folds(fold_name(key, "user"), np.arange(1)), self.factors, self.init_std)
        layers = (self.factors, *self.layers)
        network = graph_ncf.first_network(self.shape, layers, fold_name(key, "network"))
        return GPFedRecDevices(
            np.repeat(user, m, axis=0),
            np.repeat(network[None], m, axis=0),
            np.zeros((m, catalogue.items, self.factors), np.float32),
            np.zeros(m, bool),
        )

    def deliver(self, download: GPFedRecServer, users: Int64Array) -> GPFedRecDownload:
        """Returns the global table, and R_u of each device."""
        return GPFedRecDownload(download.q, download.near[users])

    def deliver_newcomer(
        self, download: GPFedRecServer, told: Update | None, key: np.uint64
    ) -> GPFedRecDownload:
        """Returns the global table, which is the R_u of somebody without neighbours as well."""
        return GPFedRecDownload(download.q, download.q[None])

    # ---- section 4.3: on the device --------------------------------------------------------------

    def local(
        self,
        download: GPFedRecDownload,
        devices: GPFedRecDevices,
        histories: Histories,
        users: Int64Array,
        key: np.uint64,
    ) -> tuple[GPFedRecDevices, Update]:
        """Trains p_u, the MLP and Q_u on L + gamma mean (Q_u - R_u)^2, from the global table. Each
        device shows how its table moved.
        """
        begun = self._tables(download, devices, goes_on=not self.aggregates)
        models = graph_ncf.GraphModels(devices.user.copy(), devices.network.copy(), begun)
        items = len(download.q)
        graph_ncf.train(
            self.shape, self._rates(items), models, download.near, data_of(histories, users, key)
        )
        after = GPFedRecDevices(*models, np.ones(len(users), bool))
        alike = np.ones(len(users), np.float32)
        no_rows = np.zeros(len(users) + 1, np.int64), np.empty(0, np.int32)
        update = Update(*no_rows, {}, {}, alike)
        if not self.aggregates:
            return after, update
        move = models.item - download.q
        return after, update._replace(shown={"move": move}, sender=users)

    def _tables(
        self, download: GPFedRecDownload, devices: GPFedRecDevices, goes_on: bool
    ) -> Float32Array:
        """Returns the item table of each device, float32 [m, items, F], not shared with anybody:
        its own if it goes on from that and has one, else the global one.
        """
        out = np.repeat(download.q[None], len(devices.user), axis=0)
        if goes_on:
            out[devices.started] = devices.table[devices.started]
        return out

    def _rates(self, items: int) -> graph_ncf.GraphRates:
        eta = self.learning_rate
        item = eta * (self.scale * items - 1)
        # The gradient of gamma mean (Q - R)^2 by a number of the table.
        pull = item * self.reg * 2 / (items * self.factors)
        return graph_ncf.GraphRates(
            user=np.float32(eta * (self.scale - 1)),
            item=np.float32(item),
            network=np.float32(eta),
            pull=np.float32(pull if self.aggregates else 0),
            epochs=self.local_epochs,
            negatives=self.negatives,
            batch=self.batch,
        )

    def score(
        self, download: GPFedRecDownload, devices: GPFedRecDevices, histories: Histories
    ) -> Float32Array:
        """Returns the logit of every item, float32 [m, items], by p_u, the MLP and Q_u."""
        tables = self._tables(download, devices, goes_on=True)
        models = graph_ncf.GraphModels(devices.user, devices.network, tables)
        return graph_ncf.scores(self.shape, models)

    # ---- section 4.2: on the server --------------------------------------------------------------

    def aggregate(self, server: GPFedRecServer, total: Total) -> GPFedRecServer:
        """Returns R_u = mean of Q_v over N(u) of each user of the round, and the global table, the
        mean of these R_u.
        """
        if not total.shown:
            return server
        sender, shown = gathered(total)
        tables = (server.q + shown["move"]).reshape(len(sender), -1)  # Q_u
        graph = self.graph(graph_ncf.similarities(tables))
        means = graph_ncf.means(tables, graph).reshape(len(sender), *server.q.shape)
        near = server.near.copy()
        near[sender] = means
        q = means.mean(axis=0, dtype=np.float64)
        return GPFedRecServer(q.astype(np.float32), near)

    def graph(self, similarity: Float64Array) -> BoolArray:
        """Returns N(u) = {v: sim_uv > tau mean sim}, bool [m, m]; u alone where that is nobody.
        similarity: cos(vec Q_u, vec Q_v), float64 [m, m].
        """
        measure = similarity
        if self.neighbours == "as-run":
            measure = 1 - similarity
            # The distance of a table to itself is 0, whatever the rounding.
            np.fill_diagonal(measure, 0)
        near = measure > self.threshold * measure.mean()
        near |= np.eye(len(near), dtype=bool) & ~near.any(axis=1)[:, None]
        return near


ALGORITHMS = {
    "gpfedrec": GPFedRec,
    "gpfedrec-as-run": partial(GPFedRec, neighbours="as-run"),
}
