"""Reptile as federated meta-learning of an initialisation, over GMF, MLP and NeuMF.

A. Nichol, J. Achiam, J. Schulman, "On first-order meta-learning algorithms", 2018, algorithm 2 with each device as a task: the devices of
a round take E local epochs from w, and

    w <- w + epsilon mean_k (w_k - w),

every device counting the same, over all of the round's devices whether they touched an item or not. What is learnt is where to begin:
before a device scores, it adapts w to its own history by some more epochs. The user embedding is the device's own, as in FedAvg.
"""

from __future__ import annotations

from functools import partial
from typing import ClassVar, NamedTuple, final

import numpy as np
from pydantic import Field

from ..core.keys import fold_name, folds
from ..core.protocols import Disclosed, Histories
from ..core.types import Float32Array, Int64Array, UInt64Array
from ..core.update import Total, Update
from ..kernels import ncf, ncf_device
from . import _averaged_prme
from ._averaged import AveragedNCF, Server, disclosed
from ._averaged_prme import AveragedPRME
from ._ncf import average, averaged, counts, data_of, mean_network

EACH = np.float32(2.0**8)  # what every device weighs: keeps small moves above the grid of 2^-16


class Devices(NamedTuple):
    """user: float32 [m, row], the embedding of each device's user; key: uint64 [m], from which a device draws when it adapts."""

    user: Float32Array
    key: UInt64Array


@final
class Reptile(AveragedNCF):
    """Reptile: federated learning of a model from which each device is quick to adapt to its user, as it does before it recommends."""

    meta_rate: float = Field(1.0, gt=0, le=10, description="epsilon: how far w goes towards the mean of the devices' models")
    adapt_epochs: int = Field(
        1, ge=0, le=1000, description="passes over its history by which a device adapts w to score; 0 = none"
    )

    disclosure: ClassVar[tuple[Disclosed, ...]] = disclosed("the move")

    def init_devices(self, users: Int64Array, key: np.uint64) -> Devices:
        """The first w[U], and the key of each device."""
        return Devices(self.first_users(users, key), folds(fold_name(key, "adapt"), users))

    def local(
        self, download: Server, devices: Devices, histories: Histories, users: Int64Array, key: np.uint64
    ) -> tuple[Devices, Update]:
        """E epochs from w; sends w_k - w."""
        shape, data, weight = self.shape, data_of(histories, users, key), EACH * (counts(histories) > 0)
        sent = ncf_device.train(
            shape, self.rates(), devices.user, download.item, download.network, np.zeros(len(users), np.int32), data
        )
        rows, dense = averaged(sent.row, sent.ptr, weight), {"network": weight[:, None] * sent.network}
        return Devices(sent.user, devices.key), Update(sent.ptr, sent.item, rows, dense, weight)

    def aggregate(self, server: Server, total: Total) -> Server:
        """w <- w + epsilon mean_k (w_k - w)."""
        network = mean_network(server.network, total.dense["network"], total.weight, self.meta_rate)
        return Server(average(server.item, total, self.meta_rate), network)

    def score(self, download: Server, devices: Devices, histories: Histories) -> Float32Array:
        """The logit of y_ui for every item by w as adapted to the device's history, float32 [m, items]; one device after the other."""
        if not self.adapt_epochs:
            return ncf.scores(self.shape, devices.user, download.item, download.network, np.zeros(len(devices.user), np.int32))
        out, item = np.empty((len(devices.user), len(download.item)), np.float32), download.item.copy()
        for d in range(len(out)):
            out[d] = self._adapted(download, item, devices, histories, d)
        return out

    def _adapted(self, download: Server, item: Float32Array, devices: Devices, histories: Histories, d: int) -> Float32Array:
        """The scores of device d. item: a copy of the table, in which the device's rows take the place of w's for as long as this takes."""
        shape, one = self.shape, np.zeros(1, np.int32)
        here = slice(d, d + 2)
        data = ncf_device.Data(
            histories.ptr[here], histories.item, histories.avoid_ptr[here], histories.avoid, devices.key[d : d + 1]
        )
        rates = self.rates(epochs=self.adapt_epochs)
        learnt = ncf_device.train(shape, rates, devices.user[d : d + 1], download.item, download.network, one, data)
        item[learnt.item] += learnt.row
        scores = ncf.scores(shape, learnt.user, item, download.network + learnt.network, one)
        item[learnt.item] = download.item[learnt.item]
        return scores[0]


@final
class ReptilePRME(AveragedPRME):
    """Reptile over PRME-G: learning of a model from which each device is quick to adapt to its user, as it does before it recommends."""

    meta_rate: float = Field(1.0, gt=0, le=10, description="epsilon: how far w goes towards the mean of the devices' models")
    adapt_epochs: int = Field(
        1, ge=0, le=1000, description="passes over its transitions by which a device adapts w to score; 0 = none"
    )

    disclosure: ClassVar[tuple[Disclosed, ...]] = (_averaged_prme.disclosed("the move"),)

    def init_devices(self, users: Int64Array, key: np.uint64) -> Devices:
        """The first U, and the key of each device."""
        return Devices(self.first_users(users, key), folds(fold_name(key, "adapt"), users))

    def local(
        self, download: _averaged_prme.Server, devices: Devices, histories: Histories, users: Int64Array, key: np.uint64
    ) -> tuple[Devices, Update]:
        """E epochs from w; sends w_k - w of the venues that it touched."""
        sent, weight = self.learnt(download.item, devices.user, histories, users, key), EACH * (counts(histories) > 0)
        rows = averaged(sent.row, sent.ptr, weight)
        return Devices(sent.user, devices.key), Update(sent.ptr, sent.item, rows, {}, weight)

    def aggregate(self, server: _averaged_prme.Server, total: Total) -> _averaged_prme.Server:
        """w <- w + epsilon mean_k (w_k - w)."""
        return _averaged_prme.Server(average(server.item, total, self.meta_rate))

    def score(self, download: _averaged_prme.Server, devices: Devices, histories: Histories) -> Float32Array:
        """-D(u, c, l) of every venue l by w as adapted to the device's transitions, float32 [m, items]; one device after the other."""
        if not self.adapt_epochs:
            return self.scores(download.item, devices.user, histories)
        return self.adapted_scores(download.item, devices.user, histories, self.adapt_epochs, devices.key)


ALGORITHMS = {
    "reptile-gmf": partial(Reptile, layers=()),
    "reptile-mlp": partial(Reptile, factors=0),
    "reptile-neumf": Reptile,
    "reptile-prme-g": ReptilePRME,
}
