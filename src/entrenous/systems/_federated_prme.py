"""PRME-G around a server: the model of FedAvg, Reptile and FedFast on data with times and places,
with which PEPPER is compared.

Y. Belal, A. Bellet, S. Ben Mokhtar, V. Nitu, "PEPPER: empowering user-centric recommender systems
over gossip learning", 2022, section 5.4.1. The server holds the two vectors of every venue, P and
S. FedAvg and Reptile leave the user's vector U on the device; FedFast shows it.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from pydantic import Field

from ..core.compiling import njit
from ..core.contract.declarations import SentArray, axes, rows
from ..core.contract.protocols import Catalogue, Histories
from ..core.contract.update import Total
from ..core.keys import fold_name, folds
from ..core.lanes.memory import sealed
from ..core.types import Float32Array, Int32Array, Int64Array, UInt64Array
from ..kernels import prme
from ..kernels.averaging import average
from ._prme import PRMESettings
from ._served import Learnt, ServedModel


class PRMEVenues(NamedTuple):
    """The global model w."""

    item: Annotated[Float32Array, axes("items", "vectors")]
    """float32 [items, 2 factors], P and S of every venue."""


class FederatedPRME(PRMESettings, ServedModel):
    """PRME-G around a server: the vectors of venues are shared, the vector U is the device's."""

    learning_rate: float = Field(
        0.02, gt=0, le=10, description="of SGD, one step for each transition"
    )
    cohort: int = Field(500, ge=0, description="m, devices in a round; 0 = all; at most all")
    rounds: int = Field(100, ge=1, description="training length")

    model: ClassVar[Any] = PRMEVenues

    def default_rounds(self, catalogue: Catalogue) -> int:
        """Returns the number of training rounds if none is asked for: the setting `rounds`."""
        return self.rounds

    def devices_of(self, catalogue: Catalogue) -> int:
        """Returns m, the number of devices in a round of this federation."""
        return min(self.cohort, catalogue.users) or catalogue.users

    def sizes(self, catalogue: Catalogue) -> dict[str, int]:
        """Returns the sizes of the declared arrays: numbers of U (row) and of both vectors of a
        venue (vectors), and the venues that a device touches with a history of the mean length and
        no venue drawn twice (usual_rows)."""
        # Each visit brings another venue in every epoch.
        usual = catalogue.interactions / max(1, catalogue.users)
        touched = usual * (1 + self.local_epochs)
        return {
            "row": self.factors,
            "vectors": 2 * self.factors,
            "usual_rows": max(1, min(catalogue.items, int(touched))),
        }

    # ---- on a device -----------------------------------------------------------------------------

    def trained(
        self, w: Any, user: Float32Array, histories: Histories, users: Int64Array, key: np.uint64
    ) -> Learnt:
        """Trains each device for E epochs on its transitions from w and its U, user[d]."""
        rows = self.rows(histories)
        return moves(w.item, user, rows, self.rates(), folds(key, users))

    def scores(self, w: Any, user: Float32Array, histories: Histories) -> Float32Array:
        """Returns the scores of every venue l, float32 [m, items]: -D(u, c, l) (Feng et al. 2015,
        section 4), c being the previous venues that `contexts` chooses."""
        # All devices score by one model, row 0 of a pool.
        here = np.arange(len(user))
        pool = np.ascontiguousarray(w.item).reshape(1, -1)
        rows = self.rows(histories)
        return prme.scores(pool, 0 * here, user, here, rows, self.scoring())

    def adapted_scores(
        self,
        w: Any,
        user: Float32Array,
        histories: Histories,
        keys: UInt64Array,
        epochs: int,
    ) -> Float32Array:
        """Returns the scores -D(u, c, l) of every venue l, float32 [m, items], each device's by the
        model that it makes of w in some epochs on its transitions."""
        items = len(w.item)
        out = np.empty((len(user), items), np.float32)
        everyone = self.rows(histories)
        rates = self.rates()._replace(epochs=epochs)
        first = np.zeros(1, np.int64)
        for d in range(len(out)):
            own = everyone._replace(
                ptr=everyone.ptr[d : d + 2], avoid_ptr=everyone.avoid_ptr[d : d + 2]
            )
            # The device's own model: a pool of one copy of w, and a copy of its U.
            pool = w.item.reshape(1, -1).copy()
            taste = user[d : d + 1].copy()
            prme.train(pool, first, taste, first, own, rates, keys[d : d + 1])
            out[d] = prme.scores(pool, first, taste, first, own, self.scoring())
        return out

    # ---- on the server ---------------------------------------------------------------------------

    @classmethod
    def declared_moves(cls, what: str) -> tuple[SentArray, ...]:
        """Declares what leaves a device: rows of venues. what: "n_k times the move" or the like."""
        vectors = rows(
            "item",
            "vectors",
            when=(
                f"each round: {what} of both vectors of every venue that the device went to or drew"
                " as another"
            ),
            reveals=(
                "seen singly, which venues were touched, and by the direction of the move which of"
                " them were visited, and which after which; the touched ones are the history and a"
                " random venue for each visit. In a sum over a cohort a row that one device alone"
                " sent stands as it is"
            ),
        )
        return (vectors,)

    def first_model(self, catalogue: Catalogue, key: np.uint64) -> PRMEVenues:
        """Returns the initial w: the vectors P and S of every venue."""
        return PRMEVenues(self.first_items(catalogue.items, fold_name(key, "item")))

    def averaged(self, w: Any, total: Total, rate: float = 1.0) -> PRMEVenues:
        """Returns the new model, w + rate sum_k (n_k / n) (w_k - w)."""
        return PRMEVenues(average(w.item, total, rate))


def moves(
    table: Float32Array,
    user: Float32Array,
    rows: prme.PRMERows,
    rates: prme.PRMERates,
    keys: UInt64Array,
) -> Learnt:
    """Returns the moves that each of m devices learns on its rows from `table`, float32 [items, 2
    factors], and its own U, user[d]. Neither changes."""
    # The most rows that can move: a device's own venues, and one drawn for each visit and epoch.
    visits = np.diff(rows.visits.ptr[rows.ptr])
    touched = np.diff(rows.ptr) + rates.epochs * visits
    most = int(np.minimum(touched, len(table)).sum())
    ptr = np.zeros(len(user) + 1, np.int64)
    item = np.empty(most, np.int32)
    row = np.empty((most, table.shape[1]), np.float32)
    learnt = user.copy()
    sent = PRMEMovesRoom(ptr, item, row)
    own_table = np.array(table, order="C")
    n = _moves(sealed(table), own_table, learnt, rows, rates, keys, sent)
    return Learnt(ptr, item[:n], row[:n], learnt, {})


class PRMEMovesRoom(NamedTuple):
    """The arrays of `Learnt`, into which `_moves` writes."""

    ptr: Int64Array
    item: Int32Array
    row: Float32Array


@njit(cache=True, nogil=True, error_model="numpy")
def _moves(
    table: Float32Array,
    own_table: Float32Array,
    user: Float32Array,
    rows: prme.PRMERows,
    rates: prme.PRMERates,
    keys: UInt64Array,
    sent: PRMEMovesRoom,
) -> int:
    """Writes `sent` and the new vectors to `user`; returns the number of rows that moved.
    own_table: a copy of `table`, on which one device after the other learns.
    """
    total = 0
    width = table.shape[1]
    for d in range(len(keys)):
        # The venues that this device learns about, each as often as it does.
        met = np.empty(prme.met_by(rows, d, rates.epochs), np.int32)
        n = prme.learn(own_table.ravel(), user[d], rows, d, rates, keys[d], met)
        for v in np.unique(met[:n]) if n else met[:0]:
            sent.item[total] = v
            # The move of this venue; then its row is as the next device receives it.
            for k in range(width):
                sent.row[total, k] = own_table[v, k] - table[v, k]
                own_table[v, k] = table[v, k]
            total += 1
        sent.ptr[d + 1] = total
    return total
