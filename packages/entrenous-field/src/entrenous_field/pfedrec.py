"""PFedRec, Personalized Federated Recommendation.

C. Zhang, G. Long, T. Zhou, P. Yan, Z. Zhang, C. Zhang, B. Yang, "Dual personalization on federated
recommendation", IJCAI 2023. The device of user u has a private score function, w_u and c_u, in
the place of a user embedding, and tunes the item embeddings Q that the server sends before it
recommends by them. The numbers are those of this file:

    y_ui = s(w_u . q_i + c_u)                                                  (1)
    L_u  = - mean over a batch of [r log y_ui + (1 - r) log (1 - y_ui)]        (2)
    w_u <- w_u - alpha dL_u / dw_u,   c_u likewise                             (3)
    Q_u <- Q_u - alpha |I| eta dL_u / dQ_u,   at the new w_u and c_u           (4)
    Q   <- mean of Q_u over the devices of the round                           (5)

s is the logistic function, and Q_u begins as Q. A device scores by its w_u, c_u and Q_u; the rows
of Q_u that its samples do not touch are those of the newest Q.

The authors' program (Zhangcx19/IJCAI-23-PFedRec) differs in three ways. It draws negatives among
the items that are neither in a user's history nor held out: that is the leak that `--negatives
leaky` repeats. It uploads and averages c_u too, and sends no device the mean, so that the model is
the same. It scores untouched rows by the Q of the round before.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, ClassVar, Literal, NamedTuple, final

import numpy as np
from pydantic import Field

from entrenous.core.contract.declarations import SentArray, Traits, axes, rows
from entrenous.core.contract.own_rows import OwnRows
from entrenous.core.contract.protocols import Catalogue, Histories
from entrenous.core.contract.update import Total, Update, add_devices, real, tabled
from entrenous.core.errors import NonFiniteError
from entrenous.core.keys import fold_name, folds, normals
from entrenous.core.types import BoolArray, Float32Array, Int64Array
from entrenous.kernels import bpr_mf
from entrenous.systems._cohort import InCohorts

from ._own_items import first_score, sizes_of
from .kernels import own_items


class PFedRecServer(NamedTuple):
    """The model of the server, which every device receives whole."""

    q: Annotated[Float32Array, axes("items", "factors")]
    """float32 [items, F], the item embeddings."""
    first: Annotated[Float32Array, axes("first")]
    """float32 [F + 1], the w and c that every device begins with."""


class PFedRecDevices(NamedTuple):
    """The private state of m devices."""

    w: Annotated[Float32Array, axes("factors")]
    """float32 [m, F], score functions."""
    c: Annotated[Float32Array, axes()]
    """float32 [m], their constants."""
    begun: Annotated[BoolArray, axes()]
    """bool [m], true once a device has trained."""
    own: Annotated[OwnRows, axes("items", "factors")]
    """The rows of Q_u that differ from Q."""


@final
class PFedRec(InCohorts):
    """Personalised federated recommendation: each device has its own score function, and its own
    view of the items, tuned from the mean of all views.
    """

    factors: int = Field(32, ge=1, le=4096, description="F, the length of w_u and q_i")
    learning_rate: float = Field(0.1, gt=0, le=1000, description="alpha, of w_u and c_u")
    eta: float = Field(
        80.0,
        ge=0,
        le=1e6,
        description="the rate of the item embeddings is learning_rate |I| eta (as run)",
    )
    batch: int = Field(256, ge=1, le=1 << 20, description="samples whose mean gradient is one step")
    negatives: int = Field(
        4, ge=1, le=1000, description="for each consumed item, redrawn in each round"
    )
    local_epochs: int = Field(1, ge=1, le=1000, description="passes over the samples in a round")
    cohort: int = Field(0, ge=0, description="devices in a round; 0 = all")
    rounds: int = Field(100, ge=1, description="training length")
    aggregation: Literal["on", "off"] = Field(
        "on",
        description=(
            "off: no mean is formed (5) and nothing is sent; each device trains alone on from its"
            " own Q_u, which shows how much of a result is not collaboration"
        ),
    )

    holds: ClassVar[type] = PFedRecServer
    receives: ClassVar[type] = PFedRecServer
    keeps: ClassVar[type] = PFedRecDevices
    sends: ClassVar[tuple[SentArray, ...]] = (
        rows(
            "q",
            "factors",
            when=(
                "each round: the move of every item that the device consumed or drew as a negative"
            ),
            reveals=(
                "seen singly, which items were touched, and by the direction of the move, a"
                " multiple of w_u, which of them were consumed: the whole history, in one round. In"
                " a sum over a cohort a row that one device alone sent stands as it is"
            ),
            only_if="aggregates",
        ),
    )
    traits: ClassVar[Traits] = Traits()

    @property
    def aggregates(self) -> bool:
        """True unless each device trains alone."""
        return self.aggregation == "on"

    def search_space(self) -> dict[str, str]:
        """Returns the ranges that a search of settings draws from by default."""
        return {
            "factors": "16..128:log",
            "learning_rate": "0.01..1:log",
            "eta": "1..300:log",
            "negatives": "2..10",
            "batch": "32..512:log",
        }

    def sizes(self, catalogue: Catalogue) -> dict[str, int]:
        """Returns the sizes of the declared arrays, first and usual_rows (`sizes_of`)."""
        return sizes_of(catalogue, self.factors, self.negatives)

    # ---- the server ------------------------------------------------------------------------------

    def init_server(self, catalogue: Catalogue, key: np.uint64) -> PFedRecServer:
        """Returns the first model: Q from N(0, 1), and one w and c for all devices, uniform in
        +-1 / sqrt(F) (as run).
        """
        q = normals(folds(fold_name(key, "q"), np.arange(catalogue.items)), self.factors, 1.0)
        return PFedRecServer(q, first_score(key, self.factors))

    def aggregate(self, server: PFedRecServer, total: Total) -> PFedRecServer:
        """Returns the new model: the mean of all Q_u (5), as Q and the mean of their moves."""
        if not self.aggregates:
            return server
        # An item that a device did not touch has not moved, and counts in the mean.
        mean = real(total.rows["q"]) / max(1, total.devices)
        return server._replace(q=(server.q + mean).astype(np.float32))

    # ---- the device ------------------------------------------------------------------------------

    def init_devices(
        self, users: Int64Array, catalogue: Catalogue, key: np.uint64
    ) -> PFedRecDevices:
        """Returns the private state of devices that have not begun: they take their first w and c
        from their first download.
        """
        m = len(users)
        nothing = np.zeros((m, self.factors), np.float32)
        own = OwnRows.none(m, self.factors)
        return PFedRecDevices(nothing, np.zeros(m, np.float32), np.zeros(m, np.bool_), own)

    def local(
        self,
        download: PFedRecServer,
        devices: PFedRecDevices,
        histories: Histories,
        users: Int64Array,
        key: np.uint64,
    ) -> tuple[PFedRecDevices, Update]:
        """Trains the devices by (3) and (4), batch after batch. Each sends the moves of its
        rows.
        """
        m = len(users)
        learnt, _ = self._train(download, devices, histories, users, key, None)
        ptr, item, row = learnt.own.flat()
        sent = {"q": row - download.q[item]}
        if not self.aggregates:
            ptr, item, sent = np.zeros(m + 1, np.int64), np.zeros(0, np.int32), {}
        update = Update(ptr, item, sent, {}, np.ones(m, np.float32))
        return self._state(learnt), update

    def local_sum(
        self,
        download: PFedRecServer,
        devices: PFedRecDevices,
        histories: Histories,
        users: Int64Array,
        key: np.uint64,
        total: Total,
    ) -> tuple[PFedRecDevices, Total, int, int]:
        """Trains as `local` does, and adds the moves to `total` device by device: the same bits.
        Returns how many rows and bytes were sent, too.
        """
        m = len(users)
        table = None
        if self.aggregates:
            total, table = tabled(total)
        learnt, finite = self._train(download, devices, histories, users, key, table)
        if not finite:
            raise NonFiniteError(
                "update: a value is not finite or beyond +-32768; the model is unchanged"
            )
        no_rows = np.zeros(m + 1, np.int64), np.zeros(0, np.int32)
        total = add_devices(total, Update(*no_rows, {}, {}, np.ones(m, np.float32)))
        sent = learnt.own.rows if self.aggregates else 0
        return self._state(learnt), total, sent, sent * (4 + 4 * self.factors)

    def _train(
        self,
        download: PFedRecServer,
        devices: PFedRecDevices,
        histories: Histories,
        users: Int64Array,
        key: np.uint64,
        table: Int64Array | None,
    ) -> tuple[own_items.OwnItemsLearnt, bool]:
        w, c = _functions(download, devices)
        # With aggregation Q_u begins as Q in every round; alone a device goes on from its own.
        own = OwnRows.none(len(users), self.factors) if self.aggregates else devices.own
        rates = own_items.OwnItemsRates(
            score=np.float32(self.learning_rate),
            item=np.float32(self.learning_rate * len(download.q) * self.eta),
            epochs=self.local_epochs,
            negatives=self.negatives,
            batch=self.batch,
        )
        data = own_items.OwnItemsData(
            histories.ptr,
            histories.item,
            histories.avoid_ptr,
            histories.avoid,
            folds(key, users),
        )
        return own_items.train(rates, w, c, download.q, own, data, table)

    def _state(self, learnt: own_items.OwnItemsLearnt) -> PFedRecDevices:
        return PFedRecDevices(learnt.w, learnt.c, np.ones(len(learnt.c), np.bool_), learnt.own)

    def score(
        self, download: PFedRecServer, devices: PFedRecDevices, histories: Histories
    ) -> Float32Array:
        """Returns the logit of y_ui (1) of every item by w_u, c_u and Q_u, float32 [m, items]."""
        w, c = _functions(download, devices)
        none = np.zeros(len(download.q), np.float32)
        out = bpr_mf.scores(w, download.q, none)
        for d in range(len(w)):
            item, row = devices.own.of(d)
            out[d, item] = bpr_mf.scores(w[d : d + 1], row, none[: len(item)])[0]
        return out + c[:, None]


def _functions(
    download: PFedRecServer, devices: PFedRecDevices
) -> tuple[Float32Array, Float32Array]:
    """Returns the w and c of each device: the common first ones of a device that has not begun."""
    w = np.where(devices.begun[:, None], devices.w, download.first[:-1])
    c = np.where(devices.begun, devices.c, download.first[-1])
    return w, c


ALGORITHMS = {
    "pfedrec": PFedRec,
    "pfedrec-printed": partial(PFedRec, factors=32, learning_rate=0.1, eta=80.0, batch=256),
}
