"""FedAvg over PRME-G: what PEPPER (section 5.4.1) is compared with on data that says when and
where.

McMahan et al. 2017, algorithm 1, as in fedavg.py: each device of a round takes E local epochs from
the server's vectors of venues w, and the new w is their mean, weighted by n_k. The user's vector U
is the device's own: it takes part in no average and never leaves.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, NamedTuple, final

import numpy as np

from ..core.contract.declarations import SentArray, axes
from ..core.contract.protocols import Histories
from ..core.contract.update import Total, Update
from ..core.types import Float32Array, Int64Array
from ..kernels.averaging import HOW_MUCH, average, counts, weighted_moves
from ._prme import AveragedPRME, PRMEVenues, moves_of_venues


class FedAvgPRMEDevices(NamedTuple):
    """Private state of m devices. user: the user vectors U, float32 [m, factors]. They never
    leave.
    """

    user: Annotated[Float32Array, axes("factors")]


@final
class FedAvgPRME(AveragedPRME):
    """Federated averaging of PRME-G: E local epochs on each device, then the mean weighted by
    n_k.
    """

    keeps: ClassVar[type] = FedAvgPRMEDevices
    sends: ClassVar[tuple[SentArray, ...]] = (moves_of_venues("n_k times the move"), HOW_MUCH)

    def init_devices(self, users: Int64Array, key: np.uint64) -> FedAvgPRMEDevices:
        """The initial user vectors U of the devices of `users`, each drawn on its device."""
        return FedAvgPRMEDevices(self.first_users(users, key))

    def local(
        self,
        download: PRMEVenues,
        devices: FedAvgPRMEDevices,
        histories: Histories,
        users: Int64Array,
        key: np.uint64,
    ) -> tuple[FedAvgPRMEDevices, Update]:
        """Local training, ClientUpdate(k, w) of FedAvg: E epochs; sends n_k (w_k - w) of the venues
        that the device touched.
        """
        sent, weight = (
            self.learnt(download.item, devices.user, histories, users, key),
            counts(histories),
        )
        update = Update(sent.ptr, sent.item, weighted_moves(sent.row, sent.ptr, weight), {}, weight)
        return FedAvgPRMEDevices(sent.user), update

    def aggregate(self, server: PRMEVenues, total: Total) -> PRMEVenues:
        """The new global model, w <- w + sum_k (n_k / n) (w_k - w)."""
        return PRMEVenues(average(server.item, total))

    def score(
        self, download: PRMEVenues, devices: FedAvgPRMEDevices, histories: Histories
    ) -> Float32Array:
        """Scores of every venue l, float32 [m, items]: -D(u, c, l)."""
        return self.scores(download.item, devices.user, histories)


ALGORITHMS = {"fedavg-prme-g": FedAvgPRME}
