"""Ditto: fair and robust federated learning through personalisation.

T. Li, S. Hu, A. Beirami, V. Smith, "Ditto: fair and robust federated learning through
personalization", ICML 2021, algorithm 1, over GMF, MLP and NeuMF. FedAvg trains the global model w;
beside it each device keeps a personal model v_k and trains it on

    min h_k(v_k; w*) = F_k(v_k) + lambda/2 |v_k - w*|^2        (eq. 1 of Cali3F)

w* being the w of the round. As decided: v_k is the user embedding and the non-embedding part. Item
embeddings are the global ones, so that a device keeps a network, not a table of all items; the
personal pass reads them and does not train them.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, ClassVar, NamedTuple, final

import numpy as np
from pydantic import Field

from ..core.contract.declarations import SentArray, axes
from ..core.contract.protocols import Histories
from ..core.contract.update import Total, Update
from ..core.types import BoolArray, Float32Array, Int64Array
from ..kernels import ncf
from ..kernels.averaging import HOW_MUCH, counts
from ._federated_ncf import AveragedNCF, GlobalNCF, data_of, moves_of_w


class DittoDevices(NamedTuple):
    """Private state of m devices. user: w[U] float32 [m, row], the user embedding of the global
    model, which never leaves, as in FedAvg. own_user, own_network: the personal model v_k[U]
    float32 [m, row] and v_k[N] float32 [m, network]; started: bool [m], False until a device
    trains: v_k is w until then.
    """

    user: Annotated[Float32Array, axes("row")]
    own_user: Annotated[Float32Array, axes("row")]
    own_network: Annotated[Float32Array, axes("network")]
    started: Annotated[BoolArray, axes()]


@final
class Ditto(AveragedNCF):
    """Ditto: beside FedAvg's model each device trains one of its own, which a penalty holds near
    the global one. It scores with its own.
    """

    reg_global: float = Field(
        0.1,
        ge=0,
        le=1000,
        description=(
            "Ditto's lambda: how strongly v_k is held near w; 0 = the personal part learns alone"
        ),
    )

    keeps: ClassVar[type] = DittoDevices
    sends: ClassVar[tuple[SentArray, ...]] = (
        *moves_of_w("n_k times the move"),
        HOW_MUCH,
    )  # v_k never leaves

    def init_devices(self, users: Int64Array, key: np.uint64) -> DittoDevices:
        """The initial private state of the devices of `users`: w[U] drawn at random, and v_k not
        begun.
        """
        user = self.first_users(users, key)
        return DittoDevices(
            user,
            user.copy(),
            np.zeros((len(users), self.shape.network), np.float32),
            np.zeros(len(users), bool),
        )

    def local(
        self,
        download: GlobalNCF,
        devices: DittoDevices,
        histories: Histories,
        users: Int64Array,
        key: np.uint64,
    ) -> tuple[DittoDevices, Update]:
        """Local training (Ditto, algorithm 1): E epochs of w, whose move is sent, and E of v_k on
        the same samples, which stays.
        """
        data = data_of(histories, users, key)
        user, update = self.client_update(download, devices.user, data, counts(histories))
        own_user, own_network = self._personal(download, devices, data)
        return DittoDevices(user, own_user, own_network, np.ones(len(users), bool)), update

    def _personal(
        self, download: GlobalNCF, devices: DittoDevices, data: ncf.NCFData
    ) -> tuple[Float32Array, Float32Array]:
        """v_k <- v_k - eta (grad F_k(v_k) + lambda (v_k - w*)), E epochs."""
        network, each = (
            own_networks(download, devices),
            np.arange(len(devices.user), dtype=np.int32),
        )
        rates = self.rates(item=np.float32(0), pull=np.float32(self.reg_global))
        anchors = {"user_anchor": devices.user, "network_anchor": download.network}
        learnt = ncf.train(
            self.shape, rates, devices.own_user, download.item, network, each, data, **anchors
        )
        return learnt.user, network + learnt.network

    def aggregate(self, server: GlobalNCF, total: Total) -> GlobalNCF:
        """The new global model, w <- w + sum_k (n_k / n) (w_k - w)."""
        return self.averaged_model(server, total)

    def score(
        self, download: GlobalNCF, devices: DittoDevices, histories: Histories
    ) -> Float32Array:
        """Scores of every item by the personal model v_k, float32 [m, items]: the logit of y_ui."""
        each = np.arange(len(devices.user), dtype=np.int32)
        return ncf.scores(
            self.shape, devices.own_user, download.item, own_networks(download, devices), each
        )


def own_networks(download: GlobalNCF, devices: DittoDevices) -> Float32Array:
    """The non-embedding part v_k[N] of each device's personal model, float32 [m, network]; of a
    device that has none yet, the one it received."""
    return np.where(devices.started[:, None], devices.own_network, download.network)


ALGORITHMS = {
    "ditto-gmf": partial(Ditto, layers=()),
    "ditto-mlp": partial(Ditto, factors=0),
    "ditto-neumf": Ditto,
}
