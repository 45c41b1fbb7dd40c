"""Ditto: fair and robust federated learning through personalisation.

T. Li, S. Hu, A. Beirami, V. Smith, "Ditto: fair and robust federated learning through
personalization", ICML 2021, algorithm 1, over GMF, MLP and NeuMF. FedAvg trains the global model w.
Each device also keeps a personal model v_k and trains it on

    min h_k(v_k; w*) = F_k(v_k) + lambda/2 |v_k - w*|^2        (eq. 1 of Cali3F)

w* being the w of the round. The paper leaves open what v_k holds here; we chose the user embedding
and the non-embedding part. Item embeddings are the global ones, so that a device keeps a network,
not a table of all items; the personal pass reads them and does not train them.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, ClassVar, NamedTuple, final

import numpy as np
from pydantic import Field

from ..core.contract.declarations import SentArray, axes
from ..core.contract.protocols import Catalogue, Histories
from ..core.contract.update import Total, Update
from ..core.types import BoolArray, Float32Array, Int64Array
from ..kernels import ncf
from ..kernels.averaging import HOW_MUCH, counts
from ._federated_ncf import AveragedNCF, GlobalNCF, data_of
from ._served import UniformRounds, update_of


class DittoDevices(NamedTuple):
    """Private state of m devices."""

    user: Annotated[Float32Array, axes("row")]
    """float32 [m, row], w[U], the user embedding of the global model. It never leaves, as in
    FedAvg."""
    own_user: Annotated[Float32Array, axes("row")]
    """float32 [m, row], v_k[U] of the personal model."""
    own_network: Annotated[Float32Array, axes("network")]
    """float32 [m, network], v_k[N] of the personal model."""
    started: Annotated[BoolArray, axes()]
    """bool [m], False until a device trains; until then v_k is w."""


@final
class Ditto(UniformRounds, AveragedNCF):
    """Ditto: each device trains FedAvg's model and a personal one, which a penalty holds near the
    global one. It scores with the personal one.
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
    # v_k never leaves.
    sends: ClassVar[tuple[SentArray, ...]] = (
        *AveragedNCF.declared_moves("n_k times the move"),
        HOW_MUCH,
    )

    def init_devices(self, users: Int64Array, catalogue: Catalogue, key: np.uint64) -> DittoDevices:
        """Returns the initial private state of the devices of `users`: w[U] drawn at random, and
        v_k not begun.
        """
        user = self.first_users(users, key)
        network = np.zeros((len(users), self.shape.network), np.float32)
        started = np.zeros(len(users), bool)
        return DittoDevices(user, user.copy(), network, started)

    def local(
        self,
        download: GlobalNCF,
        devices: DittoDevices,
        histories: Histories,
        users: Int64Array,
        key: np.uint64,
    ) -> tuple[DittoDevices, Update]:
        """Trains the devices (Ditto, algorithm 1): E epochs of w, whose move is sent, and E epochs
        of v_k on the same samples, which stays.
        """
        learnt = self.trained(download, devices.user, histories, users, key)
        data = data_of(histories, users, key)
        own_user, own_network = self._personal(download, devices, data)
        started = np.ones(len(users), bool)
        after = DittoDevices(learnt.user, own_user, own_network, started)
        return after, update_of(learnt, counts(histories))

    def _personal(
        self, download: GlobalNCF, devices: DittoDevices, data: ncf.NCFData
    ) -> tuple[Float32Array, Float32Array]:
        """Returns v_k[U] and v_k[N] after E epochs of v_k <- v_k - eta (grad F_k(v_k) + lambda (v_k
        - w*)).
        """
        network = own_networks(download, devices)
        each = np.arange(len(devices.user), dtype=np.int32)
        # A rate of 0 for items: the personal pass reads them.
        rates = self.rates(item=np.float32(0), pull=np.float32(self.reg_global))
        learnt = ncf.train(
            self.shape,
            rates,
            devices.own_user,
            download.item,
            network,
            each,
            data,
            user_anchor=devices.user,
            network_anchor=download.network,
        )
        return learnt.user, network + learnt.network

    def aggregate(self, server: GlobalNCF, total: Total) -> GlobalNCF:
        """Returns the new global model, w <- w + sum_k (n_k / n) (w_k - w)."""
        return self.averaged(server, total)

    def score(
        self, download: GlobalNCF, devices: DittoDevices, histories: Histories
    ) -> Float32Array:
        """Returns the scores of every item by the personal model v_k, float32 [m, items]: the logit
        of y_ui."""
        # Each device has its own network.
        each = np.arange(len(devices.user), dtype=np.int32)
        network = own_networks(download, devices)
        return ncf.scores(self.shape, devices.own_user, download.item, network, each)


def own_networks(download: GlobalNCF, devices: DittoDevices) -> Float32Array:
    """Returns the non-embedding part v_k[N] of each device's personal model, float32 [m, network];
    of a device that has none yet, the one it received."""
    started = devices.started[:, None]
    return np.where(started, devices.own_network, download.network)


ALGORITHMS = {
    "ditto-gmf": partial(Ditto, layers=()),
    "ditto-mlp": partial(Ditto, factors=0),
    "ditto-neumf": Ditto,
}
