"""FedAvg over GMF, MLP and NeuMF.

H. B. McMahan, E. Moore, D. Ramage, S. Hampson, B. Aguera y Arcas, "Communication-efficient learning of deep networks from
decentralized data", AISTATS 2017, algorithm 1: each device of a round takes E local epochs from the server's model w, and

    w <- sum_k (n_k / n) w_k,   n = sum_k n_k over the round's devices.

The user embedding is the device's own model of its user: it takes part in no average and never leaves, as in FedNCF (Perifanis and
Efraimidis 2022).
"""

from __future__ import annotations

from functools import partial
from typing import ClassVar, NamedTuple, final

import numpy as np
from pydantic import Field

from ..core.protocols import Catalogue, Disclosed, Histories
from ..core.sampling import cohort
from ..core.types import Float32Array, Int64Array
from ..core.update import Total, Update
from ..models import ncf, ncf_device
from ._ncf import NCFSettings, average, averaged, counts, data_of, mean_network


class Server(NamedTuple):
    """w[I, N]. item: float32 [items, row]; network: float32 [1, network]. A device receives both whole."""

    item: Float32Array
    network: Float32Array


class Devices(NamedTuple):
    """w[U]. user: float32 [m, row], the embedding of each device's user. It never leaves."""

    user: Float32Array


@final
class FedAvg(NCFSettings):
    """Federated averaging of neural collaborative filtering: E local epochs on each device, then the mean weighted by n_k."""

    learning_rate_item: float | None = Field(
        10.0,
        ge=0,
        le=10000,
        description="of the item embeddings, if another: large, since the average counts devices that did not touch an item",
    )
    reg: float = Field(0.003, ge=0, description="lambda of lambda/2 (|p_u|^2 + |q_i|^2), for each sample")
    rounds: int = Field(60, ge=1, description="training length")

    disclosure: ClassVar[tuple[Disclosed, ...]] = (
        Disclosed(
            "item",
            "[rows, row] float32",
            "each round: n_k times the move of every item that the device consumed or drew as a negative",
            "seen singly, which items were touched, and by the direction of the move which of them were consumed; the touched ones are "
            "the history and its random negatives. A sum over a cohort hides who sent what",
        ),
        Disclosed(
            "network",
            "[network] float32",
            "each round: n_k times the move of the non-embedding part",
            "seen singly, a summary of the history; in a sum, the cohort's taste",
        ),
    )

    def update_bytes(self, catalogue: Catalogue) -> int:
        """A row for each touched item, at most all of them, and the network."""
        return catalogue.items * (4 + 4 * self.shape.row) + 4 * self.shape.network

    def init_server(self, catalogue: Catalogue, key: np.uint64) -> Server:
        """The first w[I, N]."""
        return Server(self.first_items(catalogue.items, key), self.first_network(key))

    def init_devices(self, users: Int64Array, key: np.uint64) -> Devices:
        """The first w[U], each row on the device of its user."""
        return Devices(self.first_users(users, key))

    def select(self, server: Server, catalogue: Catalogue, key: np.uint64) -> Int64Array:
        """S_t: m devices, uniformly at random."""
        return cohort(key, self.configured(catalogue).cohort, catalogue.users)

    def download(self, server: Server) -> Server:
        """w."""
        return server

    def local(
        self, download: Server, devices: Devices, histories: Histories, users: Int64Array, key: np.uint64
    ) -> tuple[Devices, Update]:
        """ClientUpdate(k, w): E epochs; sends n_k (w_k - w)."""
        shape, weight = self.shape, counts(histories)
        groups, data = np.zeros(len(users), np.int32), data_of(histories, users, key)
        sent = ncf_device.train(shape, self.rates(), devices.user, download.item, download.network, groups, data)
        rows = averaged(sent.row, sent.ptr, weight)
        return Devices(sent.user), Update(sent.ptr, sent.item, rows, {"network": weight[:, None] * sent.network}, weight)

    def aggregate(self, server: Server, total: Total) -> Server:
        """w <- w + sum_k (n_k / n) (w_k - w)."""
        return Server(average(server.item, total), mean_network(server.network, total.dense["network"], total.weight))

    def score(self, download: Server, devices: Devices, histories: Histories) -> Float32Array:
        """The logit of y_ui for every item, float32 [m, items]."""
        return ncf.scores(self.shape, devices.user, download.item, download.network, np.zeros(len(devices.user), np.int32))


ALGORITHMS = {
    "fedavg-gmf": partial(FedAvg, layers=()),
    "fedavg-mlp": partial(FedAvg, factors=0),
    "fedavg-neumf": FedAvg,
}
