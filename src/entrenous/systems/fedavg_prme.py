"""FedAvg (fedavg.py) over PRME-G (_federated_prme.py), with which PEPPER (section 5.4.1) is
compared on data with times and places.
"""

from __future__ import annotations

from typing import ClassVar, final

from ..core.contract.declarations import SentArray
from ..kernels.averaging import HOW_MUCH
from ._federated_prme import FederatedPRME, PRMEVenues
from .fedavg import FedAvgRounds


@final
class FedAvgPRME(FedAvgRounds, FederatedPRME):
    """Federated averaging of PRME-G: E local epochs on each device, then the mean weighted by
    n_k.
    """

    holds: ClassVar[type] = PRMEVenues
    receives: ClassVar[type] = PRMEVenues
    sends: ClassVar[tuple[SentArray, ...]] = (
        *FederatedPRME.declared_moves("n_k times the move"),
        HOW_MUCH,
    )


ALGORITHMS = {"fedavg-prme-g": FedAvgPRME}
