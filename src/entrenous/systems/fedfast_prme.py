"""FedFast (fedfast.py) over PRME-G (_federated_prme.py), with which PEPPER (section 5.4.1) is
compared on data with times and places.

The server sees the user's vector U, which it clusters. Venues are averaged "in the same manner as
FedAvg": weighted by how far devices moved them, as ActvAGG has it, they do worse.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, NamedTuple, final

from ..core.contract.declarations import SentArray, axes
from ..core.types import Float32Array, Int32Array, Int64Array
from ..kernels.averaging import HOW_MUCH
from ._federated_prme import FederatedPRME
from ._user_clusters import shown_user
from .fedfast import FedFastRounds


class FedFastPRMEServer(NamedTuple):
    """The global model and the clusters of users."""

    user: Float32Array
    """float32 [users, factors], U of everybody."""
    item: Float32Array
    """float32 [items, 2 factors], P and S of every venue."""
    cluster: Int32Array
    """int32 [users]."""
    centroids: Float32Array
    """float32 [p, factors]."""
    round: Int64Array
    """int64 [1], rounds done."""


class FedFastPRMEDownload(NamedTuple):
    """The model as devices receive it: w without the vectors of other users."""

    user: Annotated[Float32Array, axes("devices", "row")]
    """float32 [m, factors], the vector of each device's user."""
    item: Annotated[Float32Array, axes("items", "vectors")]
    round: Annotated[Int64Array, axes(1, least=0)]


@final
class FedFastPRME(FedFastRounds, FederatedPRME):
    """FedFast over PRME-G, as PEPPER has it (section 5.4): users are clustered, sampled from each
    cluster, and learn from its delegates.
    """

    holds: ClassVar[type] = FedFastPRMEServer
    receives: ClassVar[type] = FedFastPRMEDownload
    sends: ClassVar[tuple[SentArray, ...]] = (
        shown_user("row"),
        *FederatedPRME.declared_moves("n_k times the move"),
        HOW_MUCH,
    )


ALGORITHMS = {"fedfast-prme-g": FedFastPRME}
