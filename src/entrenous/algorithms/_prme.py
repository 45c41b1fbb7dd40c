"""PRME-G (kernels/prme_node.py): its settings and what it needs to know of a device, the same between peers and around a server; and the
model that peers exchange, for data that says when and where."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, NamedTuple, final

import numpy as np
from pydantic import Field

from ..core.contract import axes
from ..core.errors import InputError
from ..core.geography import flat_points
from ..core.gossip import DeviceData
from ..core.gossip_node import GossipModel
from ..core.keys import fold_name, folds, normals
from ..core.protocols import Histories
from ..core.settings import Settings
from ..core.types import Float32Array, Float64Array, Int64Array, UInt64Array
from ..kernels import prme_node, prme_score

HOUR = 3600  # seconds
RANKED = 20  # n of the F1@n by which a model is judged
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

    def rows(self, own: Histories) -> prme_node.PRMERows:
        """The histories of devices with times and places, as the kernels need them. Raises InputError for data without times or without
        places."""
        if own.time is None:
            raise InputError("PRME-G", "the data has no times", expected="when each visit was", fix="give a time column")
        if own.places is None:
            problem, fix = "the data does not say where items are", "give items with columns lat and lon, in degrees"
            raise InputError("PRME-G", problem, expected="places, as in foursquare-nyc and gowalla-nyc", fix=fix)
        row = np.arange(len(own.item)) if own.row is None else own.row
        return prme_node.PRMERows(own.ptr, own.item, own.avoid_ptr, own.avoid, own.time, row, flat_points(own.places))

    def rates(self) -> prme_node.PRMERates:
        """Learning rate, regularisation and the other constants of local training."""
        numbers = np.float32(self.learning_rate), np.float32(self.reg), np.float32(self.preference)
        return prme_node.PRMERates(*numbers, int(self.tau * HOUR), self.local_epochs)

    def first_users(self, users: Int64Array, key: np.uint64) -> Float32Array:
        """Initial user vectors, drawn from N(0, init_std^2), float32 [m, factors]; each user's depends on the key and the user number
        alone."""
        return normals(folds(key, users), self.factors, self.init_std)

    def first_items(self, items: int, key: np.uint64) -> Float32Array:
        """Initial vectors of every venue, P and S side by side, drawn from N(0, init_std^2), float32 [items, 2 factors]."""
        return normals(folds(key, np.arange(items)), 2 * self.factors, self.init_std)


# ---- between peers --------------------------------------------------------------------------------------------------------------------


class PRMEPrivate(NamedTuple):
    """The private state of nodes: the vector of each node's user, which never leaves it; times of visits do not either."""

    user: Annotated[Float32Array, axes("factors")]


@final
class PRMEModel(PRMESettings, GossipModel):
    """PRME-G on every node: the vectors of venues are exchanged, the user vector stays, and so do times."""

    rounds: int = Field(80, ge=1, description="training length, in pushes of a node")

    private: ClassVar[type] = PRMEPrivate
    layout: ClassVar[str] = "[items, 2 factors] float32"
    reveals: ClassVar[str] = (
        "both vectors of every venue after merging and training on the device's transitions: venues that were visited, and which after "
        "which, stand out in a model that few have merged into yet; user vector and times are not part of it"
    )

    @property
    def width(self) -> int:
        """Numbers in a model: two vectors for every venue, with padding."""
        return prme_node.width_of(self._items, self.factors)

    def init_model(self, key: np.uint64) -> Float32Array:
        """The initial model, float32 [width]: the venues' vectors P and S ~ N(0, init_std^2)."""
        model = np.zeros(self.width, np.float32)
        first = self.first_items(self._items, key)
        model[: first.size] = first.reshape(-1)
        return model

    def init_private(self, users: Int64Array, key: np.uint64) -> PRMEPrivate:
        """The initial private state of m nodes: user vectors U ~ N(0, init_std^2)."""
        return PRMEPrivate(self.first_users(users, fold_name(key, "user")))

    def train(self, pool: Float32Array, at: Int64Array, nodes: Any, who: Int64Array, data: DeviceData, keys: UInt64Array) -> None:
        """Trains each of m models in place for `local_epochs` passes over the transitions of its node."""
        prme_node.train(pool, at, nodes.user, who, self.rows(data.histories), self.rates(), self._items, keys)

    def judged(
        self, pool: Float32Array, at: Int64Array, nodes: Any, who: Int64Array, data: DeviceData
    ) -> tuple[Float64Array, ...]:
        """Performance on the weighting items: F1@20, float64 [m] (PEPPER, eq. 6 to 8)."""
        sets, alpha = data.weighing, np.float32(self.preference)
        f1 = prme_score.performance(
            pool, at, nodes.user, who, self.rows(data.histories), HOW[self.contexts], alpha, sets.ptr, sets.item, sets.candidates,
            RANKED,
        )  # fmt: skip
        return (f1,)

    def score(self, pool: Float32Array, at: Int64Array, nodes: Any, who: Int64Array, data: DeviceData) -> Float32Array:
        """Scores of every venue l, float32 [m, items]: -D(u, c, l) (Feng et al. 2015, section 4), c being the previous venues that
        `contexts` chooses."""
        alpha = np.float32(self.preference)
        return prme_score.scores(pool, at, nodes.user, who, self.rows(data.histories), HOW[self.contexts], alpha, self._items)
