"""FedRAP, Federated Recommendation with Additive Personalization.

Z. Li, G. Long, T. Zhou, "Federated recommendation with additive personalization", ICLR 2024. A
device adds two views of an item: the common C, which is averaged, and its own D_u, which stays; its
score function w_u and b_u stays too. The numbers are those of this file:

    y_ui = s(w_u . (C_i + D_ui) + b_u)                                         (1)
    L_u  = mean over a batch of [- r log y_ui - (1 - r) log (1 - y_ui)]
           - lambda_t mean (C - D_u)^2 + mu_t mean |C|                         (2)
    C, D_u, w_u, b_u step along the gradient of (2) at once                    (3)
    C    <- mean of the devices' C                                             (4)
    lambda_t = lambda tanh(t / 10),  mu_t = mu tanh(t / 10)                    (5)

s is the logistic function, t the number of the round. Means of the regularisers are over the rows
of a batch, as run: the second term keeps the views apart, and has no lower bound. Rates fall by
`decay` each round. All devices begin with one w, b and D (as run).

`fedrap-printed` has the rates, epochs and batch of the authors' instructions for MovieLens-100K.
Its lambda is ours: with theirs, 0.1, the second term grows without end on a device with few rows.
Their program's own accuracy falls after eight rounds (`entrenous bridge fedrap`), and here the
moves of C pass what can be added up on small data.

The authors' program (mtics/FedRAP) differs, and `reading=as-run` repeats it where that is cheap:
the schedule (5) never reaches the loss, so that lambda and mu are constant, and rates fall to 0.95
of themselves after each batch, anew each round. That is the program since it became the version of
the paper (550765d, 29 February 2024), which draws negatives anew in each round. Not repeated: it
draws negatives that are never held out (`--negatives leaky` does that), ends a device's epochs
when its loss hardly changes, decays all weights (l2_regularization), judges validation and test
by the same 99 items, and chooses its round by test figures.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Annotated, ClassVar, Literal, NamedTuple, final

import numpy as np
from pydantic import Field

from entrenous.core.contract.declarations import SentArray, Traits, axes, rows
from entrenous.core.contract.own_rows import OwnRows
from entrenous.core.contract.protocols import Catalogue, Histories
from entrenous.core.contract.update import Total, Update, real
from entrenous.core.keys import fold_name, folds, normals
from entrenous.core.lanes.memory import owners_of, starts_of
from entrenous.core.types import BoolArray, Float32Array, Int64Array
from entrenous.kernels import bpr_mf
from entrenous.kernels.logistic import logistic
from entrenous.systems._cohort import InCohorts

from ._own_items import first_score, sizes_of
from .kernels import own_items

# As run: rates fall by this after each batch.
STEP_DECAY = 0.95


class FedRAPServer(NamedTuple):
    """The model of the server, which every device receives whole."""

    common: Annotated[Float32Array, axes("items", "factors")]
    """float32 [items, F], C."""
    first: Annotated[Float32Array, axes("first")]
    """float32 [F + 1], the w and b that every device begins with."""
    seed: Annotated[Int64Array, axes(1)]
    """int64 [1], the key from which each device draws the first D."""
    round: Annotated[Int64Array, axes(1, least=0)]
    """int64 [1], t."""


class FedRAPDevices(NamedTuple):
    """The private state of m devices."""

    w: Annotated[Float32Array, axes("factors")]
    """float32 [m, F], score functions."""
    b: Annotated[Float32Array, axes()]
    """float32 [m], their constants."""
    begun: Annotated[BoolArray, axes()]
    """bool [m], true once a device has trained."""
    own: Annotated[OwnRows, axes("items", "factors")]
    """The rows of D_u that differ from the first D."""
    changed: Annotated[OwnRows, axes("items", "factors")]
    """The device's own rows of C; none with aggregation."""


@final
class FedRAP(InCohorts):
    """Additive personalisation: each device adds its own view of an item to a common one, and
    shares the common one alone.
    """

    factors: int = Field(32, ge=1, le=4096, description="F, the length of an item's vectors")
    learning_rate: float = Field(0.1, ge=0, le=1000, description="of w_u and b_u")
    learning_rate_item: float = Field(100.0, gt=0, le=1e7, description="of C and D_u")
    decay: float = Field(0.97, gt=0, le=1, description="factor of both rates from round to round")
    apart: float = Field(1e-3, ge=0, le=1000, description="lambda, keeps C and D_u apart")
    sparse: float = Field(1e-3, ge=0, le=1000, description="mu, makes C sparse")
    batch: int = Field(256, ge=1, le=1 << 20, description="samples whose gradient is one step")
    negatives: int = Field(4, ge=1, le=1000, description="for each consumed item")
    local_epochs: int = Field(1, ge=1, le=1000, description="passes over the samples in a round")
    cohort: int = Field(0, ge=0, description="devices in a round; 0 = all")
    rounds: int = Field(100, ge=1, description="training length")
    reading: Literal["printed", "as-run"] = Field(
        "printed",
        description=(
            "as-run: lambda and mu without schedule, and rates that fall after each batch, as in"
            " the authors' program"
        ),
    )
    aggregation: Literal["on", "off"] = Field(
        "on",
        description=(
            "off: no mean is formed (4) and nothing is sent; each device trains alone on from its"
            " own C and D_u, which shows how much of a result is not collaboration"
        ),
    )

    holds: ClassVar[type] = FedRAPServer
    receives: ClassVar[type] = FedRAPServer
    keeps: ClassVar[type] = FedRAPDevices
    sends: ClassVar[tuple[SentArray, ...]] = (
        rows(
            "c",
            "factors",
            when=(
                "each round: the move of C of every item that the device consumed or drew as a"
                " negative"
            ),
            reveals=(
                "seen singly, which items were touched, and by the direction of the move, nearly a"
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
            "learning_rate": "0.0001..1:log",
            "learning_rate_item": "1..1000:log",
            "apart": "0.0001..0.1:log",
            "sparse": "0.0001..0.1:log",
            "batch": "32..2048:log",
        }

    def sizes(self, catalogue: Catalogue) -> dict[str, int]:
        """Returns the sizes of the declared arrays, first and usual_rows (`sizes_of`)."""
        return sizes_of(catalogue, self.factors, self.negatives)

    # ---- the server ------------------------------------------------------------------------------

    def init_server(self, catalogue: Catalogue, key: np.uint64) -> FedRAPServer:
        """Returns the first model: C from N(0, 1), and one w and b for all devices, uniform in
        +-1 / sqrt(F) (as run).
        """
        keys = folds(fold_name(key, "common"), np.arange(catalogue.items))
        first = first_score(key, self.factors)
        seed = np.array([fold_name(key, "own")], np.uint64).view(np.int64)
        return FedRAPServer(normals(keys, self.factors, 1.0), first, seed, np.zeros(1, np.int64))

    def aggregate(self, server: FedRAPServer, total: Total) -> FedRAPServer:
        """Returns the new model: the mean of the devices' C (4), as C and the mean of their
        moves.
        """
        after = server._replace(round=server.round + 1)
        if not self.aggregates:
            return after
        mean = real(total.rows["c"]) / max(1, total.devices)
        return after._replace(common=(server.common + mean).astype(np.float32))

    # ---- the device ------------------------------------------------------------------------------

    def init_devices(
        self, users: Int64Array, catalogue: Catalogue, key: np.uint64
    ) -> FedRAPDevices:
        """Returns the private state of devices that have not begun: they take their first w, b and
        D from their first download.
        """
        m = len(users)
        none = OwnRows.none(m, self.factors)
        return FedRAPDevices(
            np.zeros((m, self.factors), np.float32),
            np.zeros(m, np.float32),
            np.zeros(m, np.bool_),
            none,
            none.copy(),
        )

    def local(
        self,
        download: FedRAPServer,
        devices: FedRAPDevices,
        histories: Histories,
        users: Int64Array,
        key: np.uint64,
    ) -> tuple[FedRAPDevices, Update]:
        """Trains the devices by (3), batch after batch. Each sends the moves of C."""
        m = len(users)
        w, b = _functions(download, devices)
        data = own_items.OwnItemsData(
            histories.ptr,
            histories.item,
            histories.avoid_ptr,
            histories.avoid,
            folds(key, users),
        )
        rates = self._rates(int(download.round[0]))
        first = self._first_own(download)
        learnt = own_items.train_views(
            rates, w, b, download.common, first, devices.own, devices.changed, data
        )
        own = OwnRows(learnt.ptr, learnt.item, learnt.own)
        begun = np.ones(m, np.bool_)
        after = FedRAPDevices(learnt.w, learnt.c, begun, own, devices.changed)
        weight = np.ones(m, np.float32)
        if not self.aggregates:
            changed = OwnRows(learnt.ptr, learnt.item, learnt.common)
            nothing = np.zeros(m + 1, np.int64), np.zeros(0, np.int32)
            return after._replace(changed=changed), Update(*nothing, {}, {}, weight)
        # Rows of earlier rounds have not moved.
        item = learnt.item[learnt.sampled]
        moved = learnt.common[learnt.sampled] - download.common[item]
        ptr = starts_of(np.bincount(owners_of(learnt.ptr)[learnt.sampled], minlength=m))
        return after, Update(ptr, item, {"c": moved}, {}, weight)

    def _rates(self, number: int) -> own_items.ViewsRates:
        """Returns the constants of a round (5)."""
        as_run = self.reading == "as-run"
        # tanh x = 2 s(2 x) - 1 and a product: a library's functions differ between machines.
        schedule = 1.0 if as_run else 2 * float(logistic(np.float32(number / 5))) - 1
        fallen = math.prod([self.decay] * number)
        steps = own_items.OwnItemsRates(
            score=np.float32(self.learning_rate * fallen),
            item=np.float32(self.learning_rate_item * fallen),
            epochs=self.local_epochs,
            negatives=self.negatives,
            batch=self.batch,
        )
        return own_items.ViewsRates(
            steps,
            decay=np.float32(STEP_DECAY if as_run else 1.0),
            apart=np.float32(self.apart * schedule),
            sparse=np.float32(self.sparse * schedule),
        )

    def _first_own(self, download: FedRAPServer) -> Float32Array:
        """Returns the first D, drawn from N(0, 1)."""
        keys = folds(download.seed.view(np.uint64)[0], np.arange(len(download.common)))
        return normals(keys, self.factors, 1.0)

    def score(
        self, download: FedRAPServer, devices: FedRAPDevices, histories: Histories
    ) -> Float32Array:
        """Returns the logit of y_ui (1) of every item, float32 [m, items]."""
        w, b = _functions(download, devices)
        first = self._first_own(download)
        none = np.zeros(len(first), np.float32)
        out = bpr_mf.scores(w, download.common + first, none)
        for d in range(len(w)):
            item, row = devices.own.of(d)
            # Alone, a device has its own rows of C for the same items.
            _, changed = devices.changed.of(d)
            both = row + (changed if len(changed) else download.common[item])
            out[d, item] = bpr_mf.scores(w[d : d + 1], both, none[: len(item)])[0]
        return out + b[:, None]


def _functions(download: FedRAPServer, devices: FedRAPDevices) -> tuple[Float32Array, Float32Array]:
    """Returns the w and b of each device: the common first ones of a device that has not begun."""
    w = np.where(devices.begun[:, None], devices.w, download.first[:-1])
    b = np.where(devices.begun, devices.b, download.first[-1])
    return w, b


ALGORITHMS = {
    "fedrap": FedRAP,
    "fedrap-printed": partial(
        FedRAP, learning_rate=1e-4, learning_rate_item=1000.0, batch=2048, local_epochs=10
    ),
}
