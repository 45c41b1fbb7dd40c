"""FedNCF and FedMF: federated averaging with a private user factor, the baselines that papers on
federated recommendation from implicit feedback compare with.

V. Perifanis, P. S. Efraimidis, "Federated neural collaborative filtering", Knowledge-Based Systems
242, 2022 (arXiv:2106.04405). Each device k of a round takes E local epochs from the server's model
w[I, N]: the item embeddings, and the weights of the network. Its user embedding p_u learns there
and never leaves. The server averages the rest,

    w <- w + eta_s sum_k (n_k / n) (w_k - w),   eta_s = 1 as printed.

The model is GMF, MLP or NeuMF (kernels/ncf.py), with L = binary cross-entropy:

    fedmf        y_ui = sigma(h . (p_u * q_i) + h_0)
    fedncf-mlp   y_ui = sigma(h . a_L + h_0),   a_0 = [p_u ; q_i]
    fedncf       both together

FedMF is what later papers call the first of these; they cite D. Chai et al. 2021, whose own system
predicts ratings (fedmf_ratings.py) and ranks below a list of popular items.

Names without more have the settings that do best here: more factors, Adam, half of the devices in a
round, and a server that moves items further than their mean (eta_s = 16), since that mean counts
devices which did not touch an item. Names with `-printed` have the protocol that the field prints:
32 factors, 4 negatives, batches of 256, 100 rounds, all devices in each, eta_s = 1; FedNCF is the
MLP 64-32-16-8-1 there. Papers search the rates of these; the rates here (of Adam) were chosen on
the validation rows of MovieLens-100K.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, ClassVar, Final, Literal, NamedTuple, final

import numpy as np
from pydantic import Field

from entrenous.core.contract.declarations import SentArray, axes
from entrenous.core.contract.own_rows import OwnRows
from entrenous.core.contract.protocols import Catalogue, Histories
from entrenous.core.contract.update import Total, Update
from entrenous.core.lanes.memory import starts_of
from entrenous.core.types import Float32Array, Int32Array, Int64Array
from entrenous.core.values import FEW_PEOPLE, MANY_PEOPLE, SettingValue
from entrenous.kernels import ncf
from entrenous.kernels.averaging import HOW_MUCH, counts
from entrenous.systems._federated_ncf import (
    AveragedNCF,
    GlobalNCF,
    data_of,
    data_of_one,
    one_network,
)
from entrenous.systems._served import UniformRounds, update_of


class FedNCFDevices(NamedTuple):
    """Private state of m devices. A device that trains alone keeps a whole model."""

    user: Annotated[Float32Array, axes("row")]
    """float32 [m, row], the user embeddings p_u. They never leave."""
    own_network: Annotated[Float32Array, axes("own_network")]
    """float32 [m, network], how far its own network is from the first one; [m, 0] if the server
    averages."""
    own_item: Annotated[OwnRows, axes("items", "row")]
    """Its own item embeddings; none if the server averages."""


@final
class FedNCF(UniformRounds, AveragedNCF):
    """Federated averaging of GMF (FedMF), MLP or NeuMF (FedNCF) from implicit feedback: the user
    factor is private, the rest is averaged.
    """

    aggregation: Literal["on", "off"] = Field(
        "on",
        description=(
            "off: nothing is sent; each device trains alone on from its own items and network,"
            " which shows how much of a result is not collaboration"
        ),
    )

    keeps: ClassVar[type] = FedNCFDevices
    sends: ClassVar[tuple[SentArray, ...]] = tuple(
        sent._replace(only_if="aggregates")
        for sent in (*AveragedNCF.declared_moves("n_k times the move"), HOW_MUCH)
    )

    @property
    def aggregates(self) -> bool:
        """True unless each device trains alone."""
        return self.aggregation == "on"

    def sizes(self, catalogue: Catalogue) -> dict[str, int]:
        """Returns the sizes of the declared arrays, those of every federated network and the
        numbers of the network that a device keeps (own_network).
        """
        own = 0 if self.aggregates else self.shape.network
        return {**super().sizes(catalogue), "own_network": own}

    def private_set(self, users: int) -> dict[str, SettingValue]:
        """Returns the settings that were tested together under the profile `private`, for NeuMF,
        and for GMF in federations of fewer than 1,000 people; not for the printed protocol.
        """
        as_printed = self.server_rate_item == 1
        if not self.factors or not self.aggregates or as_printed:
            return {}
        if users >= FEW_PEOPLE:
            # GMF was not tried with more people.
            wide = 32 if users >= MANY_PEOPLE else 16
            return {"factors": wide} if self.layers else {}
        factors = 16 if self.layers else 12
        return {"factors": factors, "rounds": 40, "cohort": users}

    # ---- on a device -----------------------------------------------------------------------------

    def init_devices(
        self, users: Int64Array, catalogue: Catalogue, key: np.uint64
    ) -> FedNCFDevices:
        """Returns the initial user embeddings of the devices of `users`, each drawn on its device,
        and no private network.
        """
        own = self.sizes(catalogue)["own_network"]
        network = np.zeros((len(users), own), np.float32)
        return FedNCFDevices(
            self.first_users(users, key), network, OwnRows.none(len(users), self.shape.row)
        )

    def local(
        self,
        download: GlobalNCF,
        devices: FedNCFDevices,
        histories: Histories,
        users: Int64Array,
        key: np.uint64,
    ) -> tuple[FedNCFDevices, Update]:
        """Trains the devices for E epochs from w. Each sends n_k (w_k - w)."""
        if not self.aggregates:
            return self._alone(download, devices, data_of(histories, users, key)), _nothing(users)
        learnt = self.trained(download, devices.user, histories, users, key)
        return devices._replace(user=learnt.user), update_of(learnt, counts(histories))

    def _alone(self, w: GlobalNCF, devices: FedNCFDevices, data: ncf.NCFData) -> FedNCFDevices:
        """Trains each device for E epochs from its own model."""
        user = np.empty_like(devices.user)
        network = np.empty_like(devices.own_network)
        items: list[Int32Array] = []
        rows: list[Float32Array] = []
        # One table for all: a device's rows take the place of w's while it trains.
        table = w.item.copy()
        for d in range(len(user)):
            item, row = devices.own_item.of(d)
            table[item] = row
            learnt = ncf.train(
                self.shape,
                self.rates(),
                devices.user[d : d + 1],
                table,
                w.network + devices.own_network[d],
                one_network(1),
                data_of_one(data, d),
            )
            user[d] = learnt.user[0]
            network[d] = devices.own_network[d] + learnt.network[0]
            table[learnt.item] += learnt.row
            items.append(np.union1d(item, learnt.item).astype(np.int32))
            rows.append(table[items[-1]])
            # w again, for the next device
            table[items[-1]] = w.item[items[-1]]
        ptr = starts_of([len(item) for item in items])
        empty = np.zeros((0, self.shape.row), np.float32)
        every = np.concatenate([np.zeros(0, np.int32), *items])
        return FedNCFDevices(user, network, OwnRows(ptr, every, np.concatenate([empty, *rows])))

    def score(
        self, download: GlobalNCF, devices: FedNCFDevices, histories: Histories
    ) -> Float32Array:
        """Returns the logit of y_ui for every item, float32 [m, items], by w or, of a device that
        trains alone, by its own model.
        """
        if self.aggregates:
            return self.scores(download, devices.user, histories)
        out = np.empty((len(devices.user), len(download.item)), np.float32)
        for d in range(len(out)):
            table = devices.own_item.over(download.item, d)
            network = download.network + devices.own_network[d]
            user = devices.user[d : d + 1]
            out[d] = ncf.scores(self.shape, user, table, network, one_network(1))[0]
        return out

    # ---- on the server ---------------------------------------------------------------------------

    def aggregate(self, server: GlobalNCF, total: Total) -> GlobalNCF:
        """Returns the new model, w <- w + eta_s sum_k (n_k / n) (w_k - w)."""
        return self.averaged(server, total) if self.aggregates else server


def _nothing(users: Int64Array) -> Update:
    """Returns the update of devices that send nothing."""
    ptr = np.zeros(len(users) + 1, np.int64)
    return Update(ptr, np.zeros(0, np.int32), {}, {}, np.ones(len(users), np.float32))


# The protocol of the field.
PRINTED: Final[dict[str, Any]] = {
    "negatives": 4,
    "batch": 256,
    "rounds": 100,
    "cohort": 0,
    "local_epochs": 1,
    "optimiser": "adam",
    "reg": 0.0,
    "server_rate_item": 1.0,
}

# The rates are the best of 10 trials for FedMF, and of 2 for FedNCF, on validation rows.
ALGORITHMS = {
    "fedmf": partial(FedNCF, layers=()),
    "fedmf-printed": partial(
        FedNCF,
        factors=32,
        layers=(),
        learning_rate=0.1638,
        learning_rate_item=0.7763,
        learning_rate_network=0.03258,
        **PRINTED,
    ),
    "fedncf": FedNCF,
    "fedncf-mlp": partial(FedNCF, factors=0),
    "fedncf-printed": partial(
        FedNCF,
        factors=0,
        layers=(32, 16, 8),
        learning_rate=0.3059,
        learning_rate_item=21.69,
        learning_rate_network=0.01729,
        **PRINTED,
    ),
}
