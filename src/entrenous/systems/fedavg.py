"""FedAvg, and its systems over GMF, MLP and NeuMF.

H. B. McMahan, E. Moore, D. Ramage, S. Hampson, B. Aguera y Arcas, "Communication-efficient learning
of deep networks from decentralized data", AISTATS 2017, algorithm 1: each device of a round takes E
local epochs from the server's model w, and

    w <- sum_k (n_k / n) w_k,   n = sum_k n_k over the round's devices.

The user's vector U is the device's own model of its user: it takes part in no average and never
leaves, as in FedNCF (Perifanis and Efraimidis 2022). The average counts devices that did not touch
an item, so that items hardly move in sparse data. By default the server therefore moves items
further in the same direction (`server_rate_item`), as in S. Reddi, Z. Charles, M. Zaheer, Z.
Garrett, K. Rush, J. Konecny, S. Kumar, H. B. McMahan, "Adaptive federated optimization", ICLR 2021,
algorithm 1 with SGD on both sides; 1 is the mean above. fedavg_prme.py follows this policy with
another model.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, ClassVar, NamedTuple, final

import numpy as np

from ..core.contract.declarations import SentArray, axes
from ..core.contract.protocols import Catalogue, Histories
from ..core.contract.update import Total, Update
from ..core.types import Float32Array, Int64Array
from ..kernels.averaging import HOW_MUCH, counts
from ._federated_ncf import AveragedNCF
from ._served import UniformRounds, update_of


class FedAvgDevices(NamedTuple):
    """Private state of m devices."""

    user: Annotated[Float32Array, axes("row")]
    """float32 [m, row], the vectors U of the users. They never leave."""


class FedAvgRounds(UniformRounds):
    """Federated averaging of any model: E local epochs on each device, then the mean weighted by
    n_k.
    """

    keeps: ClassVar[type] = FedAvgDevices

    def init_devices(
        self, users: Int64Array, catalogue: Catalogue, key: np.uint64
    ) -> FedAvgDevices:
        """Returns the initial vectors U of the devices of `users`, each drawn on its device."""
        return FedAvgDevices(self.first_users(users, key))

    def local(
        self,
        download: Any,
        devices: FedAvgDevices,
        histories: Histories,
        users: Int64Array,
        key: np.uint64,
    ) -> tuple[FedAvgDevices, Update]:
        """Trains the devices, ClientUpdate(k, w) of algorithm 1: E epochs from w. Each sends
        n_k (w_k - w).
        """
        learnt = self.trained(download, devices.user, histories, users, key)
        return FedAvgDevices(learnt.user), update_of(learnt, counts(histories))

    def aggregate(self, server: Any, total: Total) -> Any:
        """Returns the new model, w <- w + sum_k (n_k / n) (w_k - w) (algorithm 1)."""
        return self.averaged(server, total)

    def score(self, download: Any, devices: FedAvgDevices, histories: Histories) -> Float32Array:
        """Returns the scores of every item, float32 [m, items], by w and the device's U."""
        return self.scores(download, devices.user, histories)


@final
class FedAvg(FedAvgRounds, AveragedNCF):
    """Federated averaging of neural collaborative filtering: E local epochs on each device, then
    the mean weighted by n_k.
    """

    sends: ClassVar[tuple[SentArray, ...]] = (
        *AveragedNCF.declared_moves("n_k times the move"),
        HOW_MUCH,
    )


ALGORITHMS = {
    "fedavg-gmf": partial(FedAvg, layers=()),
    "fedavg-mlp": partial(FedAvg, factors=0),
    "fedavg-neumf": FedAvg,
}
