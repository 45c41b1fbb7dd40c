"""Reptile as federated meta-learning of an initialisation, and its systems over GMF, MLP and NeuMF.

A. Nichol, J. Achiam, J. Schulman, "On first-order meta-learning algorithms", 2018, algorithm 2 with
each device as a task: the devices of a round take E local epochs from w, and

    w <- w + epsilon mean_k (w_k - w),

every device counting the same, over all of the round's devices whether they touched an item or not.
The devices learn where to begin: before a device scores, it adapts w to its own data by some more
epochs. The user's vector U is the device's own, as in FedAvg. reptile_prme.py follows this policy
with another model.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, ClassVar, NamedTuple, final

import numpy as np
from pydantic import Field

from ..core.contract.declarations import SentArray, axes
from ..core.contract.protocols import Catalogue, Histories
from ..core.contract.update import Total, Update
from ..core.keys import fold_name, folds
from ..core.types import Float32Array, Int64Array, UInt64Array
from ..kernels.averaging import ALIKE, alike
from ._federated_ncf import AveragedNCF
from ._served import UniformRounds, update_of


class ReptileDevices(NamedTuple):
    """Private state of m devices."""

    user: Annotated[Float32Array, axes("row")]
    """float32 [m, row], the vectors U of the users. They never leave."""
    key: Annotated[UInt64Array, axes()]
    """uint64 [m], from which a device draws when it adapts."""


class ReptileRounds(UniformRounds):
    """Reptile with any model: federated learning of a model from which each device is quick to
    adapt to its user, as it does before it recommends.
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
        description="passes over its own data by which a device adapts w to score; 0 = none",
    )

    keeps: ClassVar[type] = ReptileDevices

    def init_devices(
        self, users: Int64Array, catalogue: Catalogue, key: np.uint64
    ) -> ReptileDevices:
        """Returns the initial private state of the devices of `users`: the vectors U, and the key
        of each device.
        """
        return ReptileDevices(self.first_users(users, key), folds(fold_name(key, "adapt"), users))

    def local(
        self,
        download: Any,
        devices: ReptileDevices,
        histories: Histories,
        users: Int64Array,
        key: np.uint64,
    ) -> tuple[ReptileDevices, Update]:
        """Trains the devices for E epochs from w (algorithm 2). Each sends w_k - w."""
        learnt = self.trained(download, devices.user, histories, users, key)
        return ReptileDevices(learnt.user, devices.key), update_of(learnt, alike(histories))

    def aggregate(self, server: Any, total: Total) -> Any:
        """Returns the new model, w <- w + epsilon mean_k (w_k - w) (algorithm 2)."""
        return self.averaged(server, total, self.meta_rate)

    def score(self, download: Any, devices: ReptileDevices, histories: Histories) -> Float32Array:
        """Returns the scores of every item, float32 [m, items], by w as each device adapts it to
        its own data.
        """
        if not self.adapt_epochs:
            return self.scores(download, devices.user, histories)
        return self.adapted_scores(
            download, devices.user, histories, devices.key, self.adapt_epochs
        )


@final
class Reptile(ReptileRounds, AveragedNCF):
    """Reptile: federated learning of a model from which each device is quick to adapt to its user,
    as it does before it recommends.
    """

    sends: ClassVar[tuple[SentArray, ...]] = (*AveragedNCF.declared_moves("the move"), ALIKE)


ALGORITHMS = {
    "reptile-gmf": partial(Reptile, layers=()),
    "reptile-mlp": partial(Reptile, factors=0),
    "reptile-neumf": Reptile,
}
