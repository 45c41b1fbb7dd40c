"""Reptile as federated meta-learning of an initialisation, over GMF, MLP and NeuMF.

A. Nichol, J. Achiam, J. Schulman, "On first-order meta-learning algorithms", 2018, algorithm 2 with
each device as a task: the devices of a round take E local epochs from w, and

    w <- w + epsilon mean_k (w_k - w),

every device counting the same, over all of the round's devices whether they touched an item or not.
What is learnt is where to begin: before a device scores, it adapts w to its own history by some
more epochs. The user embedding is the device's own, as in FedAvg."""

from __future__ import annotations

from functools import partial
from typing import Annotated, ClassVar, NamedTuple, final

import numpy as np
from pydantic import Field

from ..core.contract.declarations import SentArray, axes
from ..core.contract.protocols import Histories
from ..core.contract.update import Total, Update
from ..core.keys import fold_name, folds
from ..core.types import Float32Array, Int64Array, UInt64Array
from ..kernels import ncf
from ..kernels.averaging import ALIKE, alike
from ._federated_ncf import AveragedNCF, GlobalNCF, data_of, moves_of_w, one_network


class ReptileDevices(NamedTuple):
    """Private state of m devices. user: float32 [m, row], the embedding of each device's user; key:
    uint64 [m], from which a device draws when it adapts."""

    user: Annotated[Float32Array, axes("row")]
    key: Annotated[UInt64Array, axes()]


@final
class Reptile(AveragedNCF):
    """Reptile: federated learning of a model from which each device is quick to adapt to its user,
    as it does before it recommends.
    """

    meta_rate: float = Field(
        1.0,
        gt=0,
        le=10,
        description="epsilon: how far w goes towards the mean of the devices' models",
    )
    adapt_epochs: int = Field(
        1,
        ge=0,
        le=1000,
        description="passes over its history by which a device adapts w to score; 0 = none",
    )

    keeps: ClassVar[type] = ReptileDevices
    sends: ClassVar[tuple[SentArray, ...]] = (*moves_of_w("the move"), ALIKE)

    def init_devices(self, users: Int64Array, key: np.uint64) -> ReptileDevices:
        """The initial private state of the devices of `users`: the user embeddings w[U], and the
        key of each device.
        """
        return ReptileDevices(self.first_users(users, key), folds(fold_name(key, "adapt"), users))

    def local(
        self,
        download: GlobalNCF,
        devices: ReptileDevices,
        histories: Histories,
        users: Int64Array,
        key: np.uint64,
    ) -> tuple[ReptileDevices, Update]:
        """Local training (algorithm 2): E epochs from w; sends w_k - w."""
        data = data_of(histories, users, key)
        user, update = self.client_update(download, devices.user, data, alike(histories))
        return ReptileDevices(user, devices.key), update

    def aggregate(self, server: GlobalNCF, total: Total) -> GlobalNCF:
        """The new global model, w <- w + epsilon mean_k (w_k - w) (algorithm 2)."""
        return self.averaged_model(server, total, self.meta_rate)

    def score(
        self, download: GlobalNCF, devices: ReptileDevices, histories: Histories
    ) -> Float32Array:
        """Scores of every item by w as adapted to the device's history, float32 [m, items]: the
        logit of y_ui; one device after the other."""
        if not self.adapt_epochs:
            return self.scores_of(download, devices.user)
        out, item = (
            np.empty((len(devices.user), len(download.item)), np.float32),
            download.item.copy(),
        )
        for d in range(len(out)):
            out[d] = self._adapted(download, item, devices, histories, d)
        return out

    def _adapted(
        self,
        download: GlobalNCF,
        item: Float32Array,
        devices: ReptileDevices,
        histories: Histories,
        d: int,
    ) -> Float32Array:
        """The scores of device d. item: a copy of the table, in which the device's rows take the
        place of w's for as long as this takes.
        """
        one, here = one_network(1), slice(d, d + 2)
        data = ncf.NCFData(
            histories.ptr[here],
            histories.item,
            histories.avoid_ptr[here],
            histories.avoid,
            devices.key[d : d + 1],
        )
        rates = self.rates(epochs=self.adapt_epochs)
        learnt = ncf.train(
            self.shape, rates, devices.user[d : d + 1], download.item, download.network, one, data
        )
        item[learnt.item] += learnt.row
        scores = ncf.scores(self.shape, learnt.user, item, download.network + learnt.network, one)
        item[learnt.item] = download.item[learnt.item]
        return scores[0]


ALGORITHMS = {
    "reptile-gmf": partial(Reptile, layers=()),
    "reptile-mlp": partial(Reptile, factors=0),
    "reptile-neumf": Reptile,
}
