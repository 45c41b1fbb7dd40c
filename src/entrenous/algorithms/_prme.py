"""The settings of PRME-G (kernels/prme_node.py), and what it needs to know of a device: the same between peers and around a server."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from ..core.errors import InputError
from ..core.keys import folds, normals
from ..core.protocols import Histories
from ..core.settings import Settings
from ..core.types import Float32Array, Int64Array
from ..kernels import prme_node, prme_score
from ..kernels.geography import flat_points

HOUR = 3600  # seconds
HOW = {"nearest": prme_score.NEAREST, "mean": prme_score.MEAN, "latest": prme_score.LATEST}


class PRMESettings(Settings):
    """The model and how a device trains it. PRME-G's alpha is `preference`: PEPPER has an alpha of its own."""

    factors: int = Field(8, ge=1, le=1024, description="length of user and venue vectors; a venue has two")
    preference: float = Field(
        0.5, ge=0, le=1, description="alpha of PRME-G: weight of the user's taste against where venues follow each other"
    )
    tau: float = Field(
        0.0, ge=0, le=1e6, description="hours after which a visit has nothing to do with the one before; 0 = it always has"
    )
    learning_rate: float = Field(0.05, gt=0, le=10, description="of SGD, one step for each transition")
    reg: float = Field(0.0005, ge=0, le=10, description="lambda, of every vector in every step")
    local_epochs: int = Field(1, ge=1, le=1000, description="passes over its transitions each time a device trains")
    init_std: float = Field(0.001, ge=0, le=10, description="standard deviation of the first vectors")
    contexts: Literal["nearest", "mean", "latest"] = Field(
        "nearest",
        description="where a list begins: at the one of the user's venues that is nearest by D, at all of them, at the latest",
    )

    def rows(self, own: Histories) -> prme_node.Rows:
        """What the kernels need of devices. Raises InputError for data without times or without places."""
        if own.time is None:
            raise InputError("PRME-G", "the data has no times", expected="when each visit was", fix="give a time column")
        if own.places is None:
            problem, fix = "the data does not say where items are", "give items with columns lat and lon, in degrees"
            raise InputError("PRME-G", problem, expected="places, as in foursquare-nyc and gowalla-nyc", fix=fix)
        row = np.arange(len(own.item)) if own.row is None else own.row
        return prme_node.Rows(own.ptr, own.item, own.avoid_ptr, own.avoid, own.time, row, flat_points(own.places))

    def rates(self) -> prme_node.Rates:
        """How a device learns."""
        numbers = np.float32(self.learning_rate), np.float32(self.reg), np.float32(self.preference)
        return prme_node.Rates(*numbers, int(self.tau * HOUR), self.local_epochs)

    def first_users(self, users: Int64Array, key: np.uint64) -> Float32Array:
        """User vectors, N(0, init_std^2), float32 [m, factors]; each user's depends on the key and the user alone."""
        return normals(folds(key, users), self.factors, self.init_std)

    def first_items(self, items: int, key: np.uint64) -> Float32Array:
        """Both vectors of every venue, N(0, init_std^2), float32 [items, 2 factors]."""
        return normals(folds(key, np.arange(items)), 2 * self.factors, self.init_std)
