"""Reptile over PRME-G: what PEPPER (section 5.4.1) is compared with on data that says when and
where.

Nichol, Achiam and Schulman 2018, algorithm 2 with each device as a task, as in reptile.py: the
devices of a round take E local epochs from the server's vectors of venues w, and w goes towards the
mean of what they learnt, every device counting the same. Before a device scores, it adapts w to its
own transitions by some more epochs. The user's vector U is the device's own, as in FedAvg.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, NamedTuple, final

import numpy as np
from pydantic import Field

from ..core.contract.declarations import SentArray, axes
from ..core.contract.protocols import Histories
from ..core.contract.update import Total, Update
from ..core.keys import fold_name, folds
from ..core.types import Float32Array, Int64Array, UInt64Array
from ..kernels import prme
from ..kernels.averaging import ALIKE, alike, average, weighted_moves
from ._prme import AveragedPRME, PRMEVenues, moves_of_venues


class ReptilePRMEDevices(NamedTuple):
    """Private state of m devices. user: float32 [m, factors], the vector of each device's user;
    key: uint64 [m], from which a device draws when it adapts."""

    user: Annotated[Float32Array, axes("factors")]
    key: Annotated[UInt64Array, axes()]


@final
class ReptilePRME(AveragedPRME):
    """Reptile over PRME-G: learning of a model from which each device is quick to adapt to its
    user, as it does before it recommends.
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
        description="passes over its transitions by which a device adapts w to score; 0 = none",
    )

    keeps: ClassVar[type] = ReptilePRMEDevices
    sends: ClassVar[tuple[SentArray, ...]] = (moves_of_venues("the move"), ALIKE)

    def init_devices(self, users: Int64Array, key: np.uint64) -> ReptilePRMEDevices:
        """The initial private state of the devices of `users`: the user vectors U and the key of
        each device.
        """
        return ReptilePRMEDevices(
            self.first_users(users, key), folds(fold_name(key, "adapt"), users)
        )

    def local(
        self,
        download: PRMEVenues,
        devices: ReptilePRMEDevices,
        histories: Histories,
        users: Int64Array,
        key: np.uint64,
    ) -> tuple[ReptilePRMEDevices, Update]:
        """Local training: E epochs from w; sends w_k - w of the venues that the device touched."""
        sent, weight = (
            self.learnt(download.item, devices.user, histories, users, key),
            alike(histories),
        )
        update = Update(sent.ptr, sent.item, weighted_moves(sent.row, sent.ptr, weight), {}, weight)
        return ReptilePRMEDevices(sent.user, devices.key), update

    def aggregate(self, server: PRMEVenues, total: Total) -> PRMEVenues:
        """The new global model, w <- w + epsilon mean_k (w_k - w)."""
        return PRMEVenues(average(server.item, total, self.meta_rate))

    def score(
        self, download: PRMEVenues, devices: ReptilePRMEDevices, histories: Histories
    ) -> Float32Array:
        """Scores -D(u, c, l) of every venue l by w as adapted to the device's transitions, float32
        [m, items]; one device after the other."""
        if not self.adapt_epochs:
            return self.scores(download.item, devices.user, histories)
        everyone, rates = self.rows(histories), self.rates()._replace(epochs=self.adapt_epochs)
        out, one = (
            np.empty((len(devices.user), len(download.item)), np.float32),
            np.zeros(1, np.int64),
        )
        for d in range(len(out)):
            private = everyone._replace(
                ptr=everyone.ptr[d : d + 2], avoid_ptr=everyone.avoid_ptr[d : d + 2]
            )
            pool, own = download.item.reshape(1, -1).copy(), devices.user[d : d + 1].copy()
            prme.train(pool, one, own, one, private, rates, devices.key[d : d + 1])
            out[d] = prme.scores(pool, one, own, one, private, self.scoring())
        return out


ALGORITHMS = {"reptile-prme-g": ReptilePRME}
