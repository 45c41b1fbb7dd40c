"""`InCohorts`: rounds of some devices, drawn at random, as most federated systems have them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ..core.contract.protocols import Catalogue
from ..core.contract.settings import Settings
from ..core.types import Int64Array
from ..kernels.sampling import cohort


class InCohorts(Settings):
    """A system with `rounds` rounds, each of `cohort` devices, 0 = all."""

    if TYPE_CHECKING:
        # Each algorithm has both settings among its own.
        cohort: int
        rounds: int

    def configured(self, catalogue: Catalogue) -> Self:
        """Returns a copy of the settings in which the cohort is a number of devices."""
        devices = min(self.cohort, catalogue.users) or catalogue.users
        return self.model_copy(update={"cohort": devices})

    def default_rounds(self, catalogue: Catalogue) -> int:
        """Returns the number of training rounds if none is asked for: the setting `rounds`."""
        return self.rounds

    def select(self, server: Any, catalogue: Catalogue, key: np.uint64) -> Int64Array:
        """Draws the devices of a round uniformly at random, before the server steps."""
        return cohort(key, self.configured(catalogue).cohort, catalogue.users)

    def download(self, server: Any) -> Any:
        """Returns the state of the server: all devices receive it whole, unless `deliver` sends
        each its part.
        """
        return server
