"""FedCold: federated pair-wise learning whose items may be new. An encoder of item features gives
every item a vector, also one that nobody has consumed.

The idea is that of IFedRec (C. Zhang, G. Long, T. Zhou, Z. Zhang, P. Yan, B. Yang, "When federated
recommendation meets cold-start problem: separating item attributes and user interactions", WWW
2024): what is known of items stays at the server, histories stay on devices, and the encoder is
trained by what devices send. Theirs is a network that is aligned with item vectors; ours is small
and linear:

    q_i = e_i + W^T x_i,   b_i = c_i + w . x_i

with x_i the features of item i, scaled to length 1, and e_i, c_i what is its own. Devices are those
of FPL, with one round for all of them: each gets Q and b, draws triples (user, consumed, not
consumed) and sends the sums of its steps, Delta Q and Delta b. By the chain rule the server has the
step of the encoder from the same sums, sum_i x_i Delta q_i^T; it divides that of a feature by the
feature's length, sum_i x_if^2, so that a feature of many items moves as far as one of few.

An item that is new has e_i = 0, c_i = 0: its vector is what its features say (`with_items`).
"""

from __future__ import annotations

import warnings
from typing import Annotated, ClassVar, NamedTuple, Self, final

import numpy as np
from pydantic import Field

from entrenous.core.compiling import njit
from entrenous.core.contract.declarations import SentArray, Traits, UpTo, axes
from entrenous.core.contract.item_features import WIDEST, ItemFeatures
from entrenous.core.contract.protocols import Catalogue, Histories
from entrenous.core.contract.settings import Settings
from entrenous.core.contract.update import Total, Update, real
from entrenous.core.errors import EntrenousWarning, InputError
from entrenous.core.keys import fold_name, folds, normals
from entrenous.core.types import Float32Array, Float64Array, Int64Array
from entrenous.systems.fpl import FPL, FPLDevices, FPLServer

# The features decide it, which a node need not know.
WIDTH = UpTo("width", "widest")
UNKNOWN = (
    "nothing is known of the items but their ids, so that none can be scored before somebody has"
    " consumed it: load with items=FILE (--load items=FILE), a file with a column of categories, or"
    " others that features= names"
)


class ColdServer(NamedTuple):
    """The state of the server. The last column of each table of items or features is that of the
    bias.
    """

    own: Annotated[Float32Array, axes("items", "columns")]
    """float32 [items, F + 1], what is an item's own: e_i and c_i."""
    encoder: Annotated[Float32Array, axes(WIDTH, "columns")]
    """float32 [width, F + 1], W and w."""
    x: Annotated[Float32Array, axes("items", WIDTH)]
    """float32 [items, width], the features of every item, of length 1 or 0."""


@final
class FedCold(Settings):
    """Pair-wise learning over items with features: a new item is scored by what is known of it."""

    factors: int = Field(20, ge=1, le=1024, description="F, the length of p_u and q_i")
    learning_rate: float = Field(0.02, gt=0, le=10, description="alpha of the steps of a device")
    reg: float = Field(
        0.0025, ge=0, description="lambda of p_u and q_i of a consumed item; a tenth for others"
    )
    triples: int = Field(0, ge=0, description="that a device draws in a round; 0 = X+ / |U|")
    own_rate: float = Field(
        0.1,
        ge=0,
        le=100,
        description="what the step of an item's own vector is multiplied by; 0 = features alone",
    )
    encoder_rate: float = Field(
        3.0, ge=0, le=100, description="what the step of the encoder is multiplied by"
    )
    rounds: int = Field(60, ge=1, description="training length")
    init_std: float = Field(0.1, ge=0, description="standard deviation of the first p_u, W and e_i")

    holds: ClassVar[type] = ColdServer
    receives: ClassVar[type] = FPLServer
    keeps: ClassVar[type] = FPLDevices
    # Its devices are those of FPL.
    sends: ClassVar[tuple[SentArray, ...]] = FPL.sends
    traits: ClassVar[Traits] = Traits(learns_features=True)

    # ---- the federation --------------------------------------------------------------------------

    def configured(self, catalogue: Catalogue) -> Self:
        """Returns the same settings, with the number of triples for this federation."""
        triples = self.triples or max(1, catalogue.interactions // max(1, catalogue.users))
        return self.model_copy(update={"triples": triples})

    def default_rounds(self, catalogue: Catalogue) -> int:
        """Returns the number of training rounds if none is asked for: the setting `rounds`."""
        return self.rounds

    def search_space(self) -> dict[str, str]:
        """Returns the ranges that a search of settings draws from by default."""
        return {
            "factors": "8..64:log",
            "learning_rate": "0.005..0.2:log",
            "reg": "0.0005..0.05:log",
            "own_rate": "0.1..1:log",
            "encoder_rate": "0.1..10:log",
        }

    def sizes(self, catalogue: Catalogue) -> dict[str, int]:
        """Returns the sizes of the declared arrays: factors and bias (columns), the most features
        (widest), and the most rows that a device sends in a round (rows).
        """
        rows = 2 * self.configured(catalogue).triples
        return {"columns": self.factors + 1, "widest": WIDEST, "rows": rows}

    def init_server(self, catalogue: Catalogue, key: np.uint64) -> ColdServer:
        """Returns the first state: W and e drawn from N(0, init_std^2). Warns if nothing is known
        of the items.
        """
        if catalogue.features is None:
            warnings.warn(UNKNOWN, EntrenousWarning, stacklevel=2)
        x = np.zeros((catalogue.items, 0), np.float32)
        if catalogue.features is not None:
            x = _unit_rows(catalogue.features)
        own = self._drawn(fold_name(key, "own"), catalogue.items)
        return ColdServer(own, self._drawn(fold_name(key, "encoder"), x.shape[1]), x)

    def _drawn(self, key: np.uint64, rows: int) -> Float32Array:
        return normals(folds(key, np.arange(rows)), self.factors + 1, self.init_std)

    def init_devices(self, users: Int64Array, catalogue: Catalogue, key: np.uint64) -> FPLDevices:
        """Returns the first vectors p_u, drawn from N(0, init_std^2)."""
        return self._devices.init_devices(users, catalogue, key)

    def select(self, server: ColdServer, catalogue: Catalogue, key: np.uint64) -> Int64Array:
        """Returns all devices, which take part in every round."""
        return np.arange(catalogue.users)

    def download(self, server: ColdServer) -> FPLServer:
        """Returns Q and b: what is an item's own, and what its features say."""
        items = server.own + encode(server.x, server.encoder)
        return FPLServer(np.ascontiguousarray(items[:, :-1]), np.ascontiguousarray(items[:, -1]))

    def local(
        self,
        download: FPLServer,
        devices: FPLDevices,
        histories: Histories,
        users: Int64Array,
        key: np.uint64,
    ) -> tuple[FPLDevices, Update]:
        """Trains the devices and returns what they send, as FPL does."""
        return self._devices.local(download, devices, histories, users, key)

    def local_sum(
        self,
        download: FPLServer,
        devices: FPLDevices,
        histories: Histories,
        users: Int64Array,
        key: np.uint64,
        total: Total,
    ) -> tuple[FPLDevices, Total, int, int]:
        """Trains as `local` does and adds the updates to `total`."""
        return self._devices.local_sum(download, devices, histories, users, key, total)

    def aggregate(self, server: ColdServer, total: Total) -> ColdServer:
        """Returns the next state: items move by the sums of the devices' steps, and the encoder by
        those of the items that have a feature.
        """
        moves = np.column_stack([real(total.rows["q"]), real(total.rows["b"])])
        step = self.learning_rate * moves
        encoder = server.encoder + self.encoder_rate * backward(server.x, step)
        own = server.own + self.own_rate * step
        return ColdServer(own.astype(np.float32), encoder.astype(np.float32), server.x)

    def score(self, download: FPLServer, devices: FPLDevices, histories: Histories) -> Float32Array:
        """Returns b_i + p_u . q_i for every item, float32 [m, items]."""
        return self._devices.score(download, devices, histories)

    @property
    def _devices(self) -> FPL:
        """The devices of FPL with these settings."""
        return FPL(
            factors=self.factors,
            learning_rate=self.learning_rate,
            triples=self.triples,
            reg_user=self.reg,
            reg_positive=self.reg,
            reg_negative=self.reg / 10,
            init_std=self.init_std,
        )

    # ---- items that are new ----------------------------------------------------------------------

    def with_items(self, server: ColdServer, features: ItemFeatures) -> ColdServer:
        """Returns the state over more items: new ones stand behind those of training, and have
        their features alone. features: of all items, with the columns of training.

        Raises InputError for fewer items or other columns.
        """
        x = _unit_rows(features)
        items, width = server.x.shape
        if len(x) < items or x.shape[1] != width:
            raise InputError(
                "FedCold",
                f"the features are of {len(x)} items and {x.shape[1]} columns",
                expected=f"at least {items} items and {width} columns, as in training",
                fix="give the features of all items, made from one file",
            )
        nothing = np.zeros((len(x) - items, self.factors + 1), np.float32)
        return ColdServer(np.concatenate([server.own, nothing]), server.encoder, x)


def _unit_rows(features: ItemFeatures) -> Float32Array:
    """Returns the features of every item, scaled to length 1; those of an item without any stay
    0.
    """
    values = features.values.astype(np.float64)
    squares = np.zeros(len(values))
    # Column by column, so that the order of the sum is that of the columns everywhere.
    for column in values.T:
        squares += column * column
    length = np.sqrt(squares)
    return (values / np.where(length > 0, length, 1)[:, None]).astype(np.float32)


@njit(cache=True, nogil=True)
def encode(x: Float32Array, encoder: Float32Array) -> Float32Array:
    """Returns what the features of every item say, x_i W, float32 [items, columns]."""
    out = np.zeros((x.shape[0], encoder.shape[1]), np.float32)
    for i in range(x.shape[0]):
        for f in range(x.shape[1]):
            weight = x[i, f]
            # Categories are mostly 0.
            if weight != 0:
                for k in range(encoder.shape[1]):
                    out[i, k] += weight * encoder[f, k]
    return out


@njit(cache=True, nogil=True)
def backward(x: Float32Array, step: Float64Array) -> Float64Array:
    """Returns the step of the encoder, float64 [width, columns]: of each feature the steps of its
    items, sum_i x_if step_i / sum_i x_if^2.
    """
    out = np.zeros((x.shape[1], step.shape[1]))
    length = np.zeros(x.shape[1])
    for i in range(x.shape[0]):
        for f in range(x.shape[1]):
            weight = np.float64(x[i, f])
            if weight != 0:
                length[f] += weight * weight
                for k in range(step.shape[1]):
                    out[f, k] += weight * step[i, k]
    for f in range(x.shape[1]):
        if length[f] > 0:
            for k in range(step.shape[1]):
                out[f, k] /= length[f]
    return out


ALGORITHMS = {"fedcold": FedCold}
