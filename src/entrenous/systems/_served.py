"""The parts of a system around a server: a policy and a model.

A policy (FedAvg, Reptile, FedFast) says which devices take part in a round, how each of them counts
and what the server does with the sum. A model (NCF in _federated_ncf.py, PRME-G in
_federated_prme.py) says what the server and the devices hold, how a device learns, and how it
scores. A system inherits from one of each.

Both speak of the model w that the server holds, whose table of items has a row for each item, and
of the user's own vector U, one for each device.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from ..core.contract.declarations import SentArray, Traits
from ..core.contract.protocols import Catalogue, Histories, State
from ..core.contract.settings import Settings
from ..core.contract.update import Total, Update
from ..core.types import Float32Array, Int32Array, Int64Array, UInt64Array
from ..kernels.averaging import weighted_moves
from ..kernels.sampling import cohort


class Learnt(NamedTuple):
    """Moves and new user vectors that m devices learnt from one model w."""

    ptr: Int64Array
    """int64 [m + 1]; device d has the rows ptr[d]:ptr[d + 1]."""
    item: Int32Array
    """int32 [n], the items that each device touched, ascending within a device."""
    row: Float32Array
    """float32 [n, row], w_k - w of these items."""
    user: Float32Array
    """float32 [m, row], the new U of each device."""
    dense: dict[str, Float32Array]
    """{name: float32 [m, ...]}, w_k - w of the parts of the model that have no items."""


class ServedModel(Settings):
    """The model of a system around a server: its settings, and the functions that policies call.

    In their signatures w is any state that has the arrays of `model`, such as the state of a server
    or a download.
    """

    model: ClassVar[Any]
    """The NamedTuple class of w."""
    traits: ClassVar[Traits] = Traits()

    @classmethod
    def declared_moves(cls, what: str) -> tuple[SentArray, ...]:
        """Declares the rows and arrays that leave a device. what: "n_k times the move" or the
        like."""
        raise NotImplementedError

    def devices_of(self, catalogue: Catalogue) -> int:
        """Returns m, the number of devices in a round of this federation."""
        raise NotImplementedError

    def configured(self, catalogue: Catalogue) -> Self:
        """Returns a copy of the settings in which the cohort is a number of devices."""
        return self.model_copy(update={"cohort": self.devices_of(catalogue)})

    def first_users(self, users: Int64Array, key: np.uint64) -> Float32Array:
        """Returns the initial U of the devices of `users`, float32 [m, row]; each depends on the
        key and the user number alone."""
        raise NotImplementedError

    def first_model(self, catalogue: Catalogue, key: np.uint64) -> Any:
        """Returns the initial w, of the class `model`."""
        raise NotImplementedError

    def trained(
        self, w: Any, user: Float32Array, histories: Histories, users: Int64Array, key: np.uint64
    ) -> Learnt:
        """Trains each device for E epochs on its own data from w and its U, user[d]."""
        raise NotImplementedError

    def averaged(self, w: Any, total: Total, rate: float = 1.0) -> Any:
        """Returns the new model, w + rate sum_k (n_k / n) (w_k - w), of the class `model`."""
        raise NotImplementedError

    def scores(self, w: Any, user: Float32Array, histories: Histories) -> Float32Array:
        """Returns the scores of every item, float32 [m, items], by w and the U of each device."""
        raise NotImplementedError

    def adapted_scores(
        self,
        w: Any,
        user: Float32Array,
        histories: Histories,
        keys: UInt64Array,
        epochs: int,
    ) -> Float32Array:
        """Returns the scores of every item, float32 [m, items], each device's by the model that it
        makes of w and its U in some epochs on its own data."""
        raise NotImplementedError


class UniformRounds(ServedModel):
    """The part of a policy that FedAvg, Ditto and Reptile share: the server holds w alone, draws
    the devices of a round uniformly, and sends w whole to each of them.
    """

    def init_server(self, catalogue: Catalogue, key: np.uint64) -> State:
        """Returns the initial global model w."""
        return self.first_model(catalogue, key)

    def select(self, server: State, catalogue: Catalogue, key: np.uint64) -> Int64Array:
        """Draws the devices of a round, m of them, uniformly at random."""
        return cohort(key, self.devices_of(catalogue), catalogue.users)

    def download(self, server: State) -> State:
        """Returns the global model w, which every device of the round receives whole."""
        return server


def update_of(learnt: Learnt, weight: Float32Array) -> Update:
    """Returns what the devices send: n_k (w_k - w) of what each touched, and n_k. weight: n_k,
    float32 [m].
    """
    # A server that adds these up, and the weights, has all that the mean needs.
    rows = weighted_moves(learnt.row, learnt.ptr, weight)
    dense = {name: weight[:, None] * moved for name, moved in learnt.dense.items()}
    return Update(learnt.ptr, learnt.item, rows, dense, weight)
