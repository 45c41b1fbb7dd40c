"""PRME-G (kernels/prme.py) in a federation: its settings and the rows of a device, the same between
peers (_gossip_prme.py) and around a server (_federated_prme.py).
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from ..core.contract.protocols import Histories, Moments
from ..core.contract.settings import Settings
from ..core.errors import InputError
from ..core.keys import folds, normals
from ..core.types import Float32Array, Int64Array
from ..kernels import prme
from ..kernels.geography import flat_points

# In microseconds, as the times of rows.
HOUR = 3_600_000_000
HOW = {"nearest": prme.NEAREST, "mean": prme.MEAN, "latest": prme.LATEST}


class PRMESettings(Settings):
    """The model and its training on a device. PRME-G's alpha is `preference`, because PEPPER has
    another alpha.
    """

    # The model.
    factors: int = Field(
        8, ge=1, le=1024, description="length of user and venue vectors; a venue has two"
    )
    preference: float = Field(
        0.5,
        ge=0,
        le=1,
        description=(
            "alpha of PRME-G: weight of the user's taste against where venues follow each other"
        ),
    )
    tau: float = Field(
        0.0,
        ge=0,
        le=1e6,
        description=(
            "hours after which a visit has nothing to do with the one before; 0 = it always has"
        ),
    )
    # Local training.
    learning_rate: float = Field(
        0.05, gt=0, le=10, description="of SGD, one step for each transition"
    )
    reg: float = Field(0.0005, ge=0, le=10, description="lambda, of every vector in every step")
    local_epochs: int = Field(
        1, ge=1, le=1000, description="passes over its transitions each time a device trains"
    )
    init_std: float = Field(
        0.001, ge=0, le=10, description="standard deviation of the first vectors"
    )
    # The reading of the data: what follows what, and where a list begins.
    visits: Literal["all", "last"] = Field(
        "all",
        description=(
            "which visits follow each other: all that the data has, or the last one of each venue"
            " alone"
        ),
    )
    contexts: Literal["nearest", "mean", "latest"] = Field(
        "nearest",
        description=(
            "where a list begins: at the one of the user's venues that is nearest by D, at all of"
            " them, at the latest"
        ),
    )

    def rows(self, histories: Histories) -> prme.PRMERows:
        """Returns the histories of devices with times and places, as the kernels need them. Raises
        InputError for data without times or without places."""
        if histories.time is None:
            raise InputError(
                "PRME-G",
                "the data has no times",
                expected="when each visit was",
                fix="give a time column",
            )
        if histories.places is None:
            raise InputError(
                "PRME-G",
                "the data does not say where items are",
                expected="places, as in foursquare-nyc and gowalla-nyc",
                fix="give items with columns lat and lon, in degrees",
            )
        row = histories.row
        if row is None:
            row = np.arange(len(histories.item))
        every_visit = histories.visits if self.visits == "all" else None
        return prme.PRMERows(
            histories.ptr,
            histories.item,
            histories.avoid_ptr,
            histories.avoid,
            histories.time,
            row,
            Moments(histories.time, row, every_visit).each,
            flat_points(histories.places),
        )

    def rates(self) -> prme.PRMERates:
        """Returns the constants of local training."""
        return prme.PRMERates(
            rate=np.float32(self.learning_rate),
            reg=np.float32(self.reg),
            alpha=np.float32(self.preference),
            tau=round(self.tau * HOUR),
            epochs=self.local_epochs,
        )

    def scoring(self) -> prme.PRMEScoring:
        """Returns the constants of the kernels that score venues."""
        return prme.PRMEScoring(HOW[self.contexts], np.float32(self.preference))

    def first_users(self, users: Int64Array, key: np.uint64) -> Float32Array:
        """Returns the initial user vectors U, drawn from N(0, init_std^2), float32 [m, factors];
        each depends on the key and the user number alone."""
        return normals(folds(key, users), self.factors, self.init_std)

    def first_items(self, items: int, key: np.uint64) -> Float32Array:
        """Returns the initial vectors of every venue, P and S side by side, drawn from
        N(0, init_std^2), float32 [items, 2 factors].
        """
        keys = folds(key, np.arange(items))
        return normals(keys, 2 * self.factors, self.init_std)
