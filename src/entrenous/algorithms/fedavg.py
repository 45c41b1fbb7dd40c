"""FedAvg over GMF, MLP, NeuMF and PRME-G.

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

from ..core.protocols import Disclosed, Histories
from ..core.types import Float32Array, Int64Array
from ..core.update import Total, Update
from ..kernels import ncf, ncf_device
from . import _averaged_prme
from ._averaged import AveragedNCF, Server, disclosed
from ._averaged_prme import AveragedPRME
from ._ncf import average, averaged, counts, data_of, mean_network


class Devices(NamedTuple):
    """w[U]. user: float32 [m, row], the embedding of each device's user. It never leaves."""

    user: Float32Array


@final
class FedAvg(AveragedNCF):
    """Federated averaging of neural collaborative filtering: E local epochs on each device, then the mean weighted by n_k."""

    disclosure: ClassVar[tuple[Disclosed, ...]] = disclosed("n_k times the move")

    def init_devices(self, users: Int64Array, key: np.uint64) -> Devices:
        """The first w[U], each row on the device of its user."""
        return Devices(self.first_users(users, key))

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


@final
class FedAvgPRME(AveragedPRME):
    """Federated averaging of PRME-G: E local epochs on each device, then the mean weighted by n_k."""

    disclosure: ClassVar[tuple[Disclosed, ...]] = (_averaged_prme.disclosed("n_k times the move"),)

    def init_devices(self, users: Int64Array, key: np.uint64) -> Devices:
        """The first U, each row on the device of its user."""
        return Devices(self.first_users(users, key))

    def local(
        self, download: _averaged_prme.Server, devices: Devices, histories: Histories, users: Int64Array, key: np.uint64
    ) -> tuple[Devices, Update]:
        """ClientUpdate(k, w): E epochs; sends n_k (w_k - w) of the venues that it touched."""
        sent, weight = self.learnt(download.item, devices.user, histories, users, key), counts(histories)
        return Devices(sent.user), Update(sent.ptr, sent.item, averaged(sent.row, sent.ptr, weight), {}, weight)

    def aggregate(self, server: _averaged_prme.Server, total: Total) -> _averaged_prme.Server:
        """w <- w + sum_k (n_k / n) (w_k - w)."""
        return _averaged_prme.Server(average(server.item, total))

    def score(self, download: _averaged_prme.Server, devices: Devices, histories: Histories) -> Float32Array:
        """-D(u, c, l) of every venue l, float32 [m, items]."""
        return self.scores(download.item, devices.user, histories)


ALGORITHMS = {
    "fedavg-gmf": partial(FedAvg, layers=()),
    "fedavg-mlp": partial(FedAvg, factors=0),
    "fedavg-neumf": FedAvg,
    "fedavg-prme-g": FedAvgPRME,
}
