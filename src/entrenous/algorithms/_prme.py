"""PRME-G (kernels/prme.py): its settings and what it needs to know of a device, the same between
peers and around a server; and the shared parts of the systems around a server, which are what
PEPPER is compared with on data that says when and where.

Y. Belal, A. Bellet, S. Ben Mokhtar, V. Nitu, "PEPPER: empowering user-centric recommender systems
over gossip learning", 2022, section 5.4.1: FedAvg, Reptile and FedFast. The two vectors of every
venue, P and S, are on the server; FedAvg and Reptile leave the user's vector U on the device,
FedFast shows it.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numba import njit
from pydantic import Field

from ..core.contract.declarations import SentArray, Traits, axes, rows
from ..core.contract.protocols import Catalogue, Histories
from ..core.contract.settings import Settings
from ..core.errors import InputError
from ..core.keys import fold_name, folds, normals
from ..core.lanes.sealed import sealed
from ..core.types import Float32Array, Int32Array, Int64Array, UInt64Array
from ..core.visits import Moments
from ..kernels import prme
from ..kernels.geography import flat_points
from ..kernels.sampling import cohort

HOUR = 3600  # seconds
HOW = {"nearest": prme.NEAREST, "mean": prme.MEAN, "latest": prme.LATEST}


class PRMESettings(Settings):
    """The model and how a device trains it. PRME-G's alpha is `preference`: PEPPER has an alpha of
    its own.
    """

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

    def rows(self, own: Histories) -> prme.PRMERows:
        """The histories of devices with times and places, as the kernels need them. Raises
        InputError for data without times or without places."""
        if own.time is None:
            raise InputError(
                "PRME-G",
                "the data has no times",
                expected="when each visit was",
                fix="give a time column",
            )
        if own.places is None:
            raise InputError(
                "PRME-G",
                "the data does not say where items are",
                expected="places, as in foursquare-nyc and gowalla-nyc",
                fix="give items with columns lat and lon, in degrees",
            )
        row = np.arange(len(own.item)) if own.row is None else own.row
        visits = Moments(own.time, row, own.visits if self.visits == "all" else None).each
        return prme.PRMERows(
            own.ptr,
            own.item,
            own.avoid_ptr,
            own.avoid,
            own.time,
            row,
            visits,
            flat_points(own.places),
        )

    def rates(self) -> prme.PRMERates:
        """Learning rate, regularisation and the other constants of local training."""
        return prme.PRMERates(
            rate=np.float32(self.learning_rate),
            reg=np.float32(self.reg),
            alpha=np.float32(self.preference),
            tau=int(self.tau * HOUR),
            epochs=self.local_epochs,
        )

    def scoring(self) -> prme.PRMEScoring:
        """Returns the rule by which the kernels score venues."""
        return prme.PRMEScoring(HOW[self.contexts], np.float32(self.preference))

    def first_users(self, users: Int64Array, key: np.uint64) -> Float32Array:
        """Initial user vectors, drawn from N(0, init_std^2), float32 [m, factors]; each user's
        depends on the key and the user number alone."""
        return normals(folds(key, users), self.factors, self.init_std)

    def first_items(self, items: int, key: np.uint64) -> Float32Array:
        """Initial vectors of every venue, P and S side by side, drawn from N(0, init_std^2),
        float32 [items, 2 factors].
        """
        return normals(folds(key, np.arange(items)), 2 * self.factors, self.init_std)


# ---- around a server -----------------------------------------------------------------------------


class PRMELearnt(NamedTuple):
    """Moves and new vectors that m devices learnt from one model."""

    ptr: Int64Array
    """int64 [m + 1], as in an Update."""
    item: Int32Array
    """int32 [n], ascending within a device."""
    row: Float32Array
    """float32 [n, 2 factors], how a venue's vectors moved."""
    user: Float32Array
    """float32 [m, factors], the new user vectors."""


def moves(
    table: Float32Array,
    user: Float32Array,
    rows: prme.PRMERows,
    rates: prme.PRMERates,
    keys: UInt64Array,
) -> PRMELearnt:
    """Returns the moves that each of m devices learns on its rows from `table`, float32 [items, 2
    factors], and its own user vector, user[d]; neither changes.
    """
    met = np.diff(rows.ptr) + rates.epochs * np.diff(rows.visits.ptr[rows.ptr])
    most = int(np.minimum(met, len(table)).sum())
    out = PRMELearnt(
        ptr=np.zeros(len(user) + 1, np.int64),
        item=np.empty(most, np.int32),
        row=np.empty((most, table.shape[1]), np.float32),
        user=user.copy(),
    )
    n = _moves(sealed(table), np.array(table, order="C"), rows, rates, keys, out)
    return out._replace(item=out.item[:n], row=out.row[:n])


@njit(cache=True, nogil=True, error_model="numpy")
def _moves(
    table: Float32Array,
    own_table: Float32Array,
    rows: prme.PRMERows,
    rates: prme.PRMERates,
    keys: UInt64Array,
    out: PRMELearnt,
) -> int:
    """Writes to `out`; returns how many rows moved. own_table: a copy of `table`, on which one
    device after the other learns.
    """
    total, width = 0, table.shape[1]
    for d in range(len(keys)):
        met = np.empty(prme.met_by(rows, d, rates.epochs), np.int32)
        n = prme.learn(own_table.ravel(), out.user[d], rows, d, rates, keys[d], met)
        # Each venue that a step was about, ascending; then the copy is as before.
        for v in np.unique(met[:n]) if n else met[:0]:
            out.item[total] = v
            for k in range(width):
                out.row[total, k] = own_table[v, k] - table[v, k]
                own_table[v, k] = table[v, k]
            total += 1
        out.ptr[d + 1] = total
    return total


def moves_of_venues(what: str) -> SentArray:
    """The declaration of what leaves a device of every venue that it touched. what: "n_k times the
    move" or the like.
    """
    return rows(
        "item",
        "vectors",
        when=(
            f"each round: {what} of both vectors of every venue that the device went to or drew as"
            " another"
        ),
        reveals=(
            "seen singly, which venues were touched, and by the direction of the move which of them"
            " were visited, and which after which; the touched ones are the history and a random"
            " venue for each visit. In a sum over a cohort a row that one device alone sent stands"
            " as it is"
        ),
    )


class FederatedPRME(PRMESettings):
    """PRME-G on the devices of a federation: local training, scores, and the number of devices in a
    round.
    """

    learning_rate: float = Field(
        0.02, gt=0, le=10, description="of SGD, one step for each transition"
    )
    cohort: int = Field(500, ge=0, description="m, devices in a round; 0 = all; at most all")
    rounds: int = Field(100, ge=1, description="training length")

    traits: ClassVar[Traits] = Traits()

    def configured(self, catalogue: Catalogue) -> Self:
        """A copy of the settings in which the cohort is a number of devices of this federation."""
        return self.model_copy(
            update={"cohort": min(self.cohort, catalogue.users) or catalogue.users}
        )

    def default_rounds(self, catalogue: Catalogue) -> int:
        """Training rounds if none are asked for: the setting `rounds`, of any data set."""
        return self.rounds

    def sizes(self, catalogue: Catalogue) -> dict[str, int]:
        """Sizes of the declared arrays. vectors: numbers of both vectors of a venue. usual_rows:
        venues that a device touches with a history of the mean length and no venue drawn twice."""
        touched = catalogue.interactions / max(1, catalogue.users) * (1 + self.local_epochs)
        return {
            "vectors": 2 * self.factors,
            "usual_rows": max(1, min(catalogue.items, int(touched))),
        }

    def learnt(
        self,
        item: Float32Array,
        user: Float32Array,
        histories: Histories,
        users: Int64Array,
        key: np.uint64,
    ) -> PRMELearnt:
        """The result of local training: what each device learns in E passes over its transitions
        from the global model w.
        """
        return moves(item, user, self.rows(histories), self.rates(), folds(key, users))

    def scores(self, item: Float32Array, user: Float32Array, histories: Histories) -> Float32Array:
        """Scores of every venue l, float32 [m, items]: -D(u, c, l) (Feng et al. 2015, section 4), c
        being the previous venues that `contexts` chooses."""
        here, pool = np.arange(len(user)), np.ascontiguousarray(item).reshape(1, -1)
        rows = self.rows(histories)
        return prme.scores(pool, 0 * here, user, here, rows, self.scoring())


# ---- one global model, the mean of what a round's devices learnt: FedAvg, Reptile ----------------


class PRMEVenues(NamedTuple):
    """The global model w. item: float32 [items, 2 factors], P and S of every venue. The server
    holds it; a device receives it whole.
    """

    item: Annotated[Float32Array, axes("items", "vectors")]


class AveragedPRME(FederatedPRME):
    """The server's side of a plain average of PRME-G models."""

    holds: ClassVar[type] = PRMEVenues
    receives: ClassVar[type] = PRMEVenues

    def init_server(self, catalogue: Catalogue, key: np.uint64) -> PRMEVenues:
        """The initial global model w: the vectors P and S of every venue."""
        return PRMEVenues(self.first_items(catalogue.items, fold_name(key, "item")))

    def select(self, server: PRMEVenues, catalogue: Catalogue, key: np.uint64) -> Int64Array:
        """The round's devices S_t: m of them, uniformly at random."""
        return cohort(key, self.configured(catalogue).cohort, catalogue.users)

    def download(self, server: PRMEVenues) -> PRMEVenues:
        """The global model w, which every device of the round receives whole."""
        return server
