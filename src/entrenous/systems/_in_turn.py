"""`InTurn`: the two styles of FedRec and FBALF, in which a round is all devices, or one in turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.contract.protocols import Catalogue
from ..core.types import Int64Array
from ..privacy.decoys import SendsDecoys


class InTurn(SendsDecoys):
    """A factorisation of ratings by rounds in `style` batch or stochastic."""

    if TYPE_CHECKING:
        # Each algorithm has both settings among its own.
        style: str
        rounds: int

    def rounds_an_epoch(self, catalogue: Catalogue) -> int:
        """Returns the rounds in one pass over the users: one in batch style, as many as users in
        stochastic style.
        """
        return catalogue.users if self.style == "stochastic" else 1

    def default_rounds(self, catalogue: Catalogue) -> int:
        """Returns the number of training rounds if none is asked for: `rounds` passes over the
        users.
        """
        return self.rounds * self.rounds_an_epoch(catalogue)

    def select(self, server: Any, catalogue: Catalogue, key: np.uint64) -> Int64Array:
        """Returns the devices of a round: everybody, or in stochastic style the one whose turn it
        is: 0, 1, 2, ... in every pass.
        """
        if self.style == "batch":
            return np.arange(catalogue.users)
        turn: Int64Array = server.step % catalogue.users
        return turn
