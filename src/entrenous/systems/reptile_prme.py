"""Reptile (reptile.py) over PRME-G (_federated_prme.py), with which PEPPER (section 5.4.1) is
compared on data with times and places.
"""

from __future__ import annotations

from typing import ClassVar, final

from ..core.contract.declarations import SentArray
from ..kernels.averaging import ALIKE
from ._federated_prme import FederatedPRME, PRMEVenues
from .reptile import ReptileRounds


@final
class ReptilePRME(ReptileRounds, FederatedPRME):
    """Reptile over PRME-G: learning of a model from which each device is quick to adapt to its
    user, as it does before it recommends.
    """

    holds: ClassVar[type] = PRMEVenues
    receives: ClassVar[type] = PRMEVenues
    sends: ClassVar[tuple[SentArray, ...]] = (*FederatedPRME.declared_moves("the move"), ALIKE)


ALGORITHMS = {"reptile-prme-g": ReptilePRME}
