"""What rating predictors with decoys share: how many decoys, what a device sends, and the style in which devices come one by one."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from ..core.keys import folds
from ..core.protocols import Catalogue, Histories
from ..core.settings import Settings
from ..core.types import Int64Array, UInt64Array
from ..privacy.decoys import Mixed, with_decoys


class SendsDecoys(Settings):
    """A device sends rows for the items it rated and for some that it did not (FedRec; FBALF eq. 6). `row_bytes`: of one of them."""

    rho: float = Field(1.0, ge=0, le=1000, description="decoys as a multiple of a user's own ratings; 0 hides nothing")
    redraw: bool = Field(
        False,
        description="draw the decoys anew in every round, as FedRec's authors do: gives the rated items away, which always come",
    )

    predicts_ratings: ClassVar[bool] = True
    draws_negatives: ClassVar[bool] = False

    @property
    def row_bytes(self) -> int:
        """Item id and gradients."""
        raise NotImplementedError

    def update_bytes(self, catalogue: Catalogue) -> int:
        """The most a device sends: a row for every item."""
        return self.row_bytes * catalogue.items

    def usual_bytes(self, catalogue: Catalogue) -> int:
        """What a device sends as a rule: rows for its share of the ratings, and their decoys."""
        share = (1 + self.rho) * catalogue.interactions / max(1, catalogue.users)
        return max(1, self.row_bytes * min(catalogue.items, int(share)))

    def mixed(self, keys: UInt64Array, histories: Histories, items: int, key: np.uint64) -> Mixed:
        """Rated items and decoys of some devices. keys: uint64 [m], the devices' own; key: the round's."""
        return with_decoys(histories, self.rho, folds(key, keys) if self.redraw else keys, items)


class InTurn(SendsDecoys):
    """The same in two styles: all devices at once, or one after the other. `rounds` are passes over all users."""

    style: Literal["batch", "stochastic"] = Field(
        "batch",
        description="batch: a round is all devices and the server takes the mean; stochastic: a round is one device, in turn",
    )
    rounds: int = Field(100, ge=1, description="T, iterations: passes over all users")

    @property
    def cohort(self) -> int:
        """Devices in a round; 0 = all."""
        return 1 if self.style == "stochastic" else 0

    def rounds_an_epoch(self, catalogue: Catalogue) -> int:
        """Rounds of one iteration, a pass over the users."""
        return catalogue.users if self.style == "stochastic" else 1

    def default_rounds(self, catalogue: Catalogue) -> int:
        """Rounds of `rounds` iterations."""
        return self.rounds * self.rounds_an_epoch(catalogue)

    def select(self, server: Any, catalogue: Catalogue, key: np.uint64) -> Int64Array:
        """Everybody, or in stochastic style the device whose turn it is: 0, 1, 2, ... in every pass."""
        return np.arange(catalogue.users) if self.style == "batch" else server.step % catalogue.users
