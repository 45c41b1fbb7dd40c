"""FedAvg over GMF, MLP and NeuMF.

H. B. McMahan, E. Moore, D. Ramage, S. Hampson, B. Aguera y Arcas, "Communication-efficient learning
of deep networks from decentralized data", AISTATS 2017, algorithm 1: each device of a round takes E
local epochs from the server's model w, and

    w <- sum_k (n_k / n) w_k,   n = sum_k n_k over the round's devices.

The user embedding is the device's own model of its user: it takes part in no average and never
leaves, as in FedNCF (Perifanis and Efraimidis 2022). The average counts devices that did not touch
an item, so that items hardly move in sparse data; by default the server goes further in their
direction (`server_rate_item`), as in S. Reddi, Z. Charles, M. Zaheer, Z. Garrett, K. Rush, J.
Konecny, S. Kumar, H. B. McMahan, "Adaptive federated optimization", ICLR 2021, algorithm 1 with SGD
on both sides. 1 is the mean above.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, ClassVar, NamedTuple, final

import numpy as np

from ..core.contract.declarations import SentArray, axes
from ..core.contract.protocols import Histories
from ..core.contract.update import Total, Update
from ..core.types import Float32Array, Int64Array
from ..kernels.averaging import HOW_MUCH, counts
from ._federated_ncf import AveragedNCF, GlobalNCF, data_of, moves_of_w


class FedAvgDevices(NamedTuple):
    """Private state of m devices. user: the user embeddings w[U], float32 [m, row]. They never
    leave.
    """

    user: Annotated[Float32Array, axes("row")]


@final
class FedAvg(AveragedNCF):
    """Federated averaging of neural collaborative filtering: E local epochs on each device, then
    the mean weighted by n_k.
    """

    keeps: ClassVar[type] = FedAvgDevices
    sends: ClassVar[tuple[SentArray, ...]] = (*moves_of_w("n_k times the move"), HOW_MUCH)

    def init_devices(self, users: Int64Array, key: np.uint64) -> FedAvgDevices:
        """The initial user embeddings w[U] of the devices of `users`, each drawn on its device."""
        return FedAvgDevices(self.first_users(users, key))

    def local(
        self,
        download: GlobalNCF,
        devices: FedAvgDevices,
        histories: Histories,
        users: Int64Array,
        key: np.uint64,
    ) -> tuple[FedAvgDevices, Update]:
        """Local training, ClientUpdate(k, w) of algorithm 1: E epochs from w; sends n_k (w_k -
        w).
        """
        data = data_of(histories, users, key)
        user, update = self.client_update(download, devices.user, data, counts(histories))
        return FedAvgDevices(user), update

    def aggregate(self, server: GlobalNCF, total: Total) -> GlobalNCF:
        """The new global model, w <- w + sum_k (n_k / n) (w_k - w) (algorithm 1), items
        `server_rate_item` times as far.
        """
        return self.averaged_model(server, total)

    def score(
        self, download: GlobalNCF, devices: FedAvgDevices, histories: Histories
    ) -> Float32Array:
        """Scores of every item, float32 [m, items]: the logit of y_ui."""
        return self.scores_of(download, devices.user)


ALGORITHMS = {
    "fedavg-gmf": partial(FedAvg, layers=()),
    "fedavg-mlp": partial(FedAvg, factors=0),
    "fedavg-neumf": FedAvg,
}
