"""FedRec, federated recommendation with explicit feedback.

G. Lin, F. Liang, W. Pan, Z. Ming, "FedRec: federated recommendation with explicit feedback", IEEE
Intelligent Systems 36(5), 2021. The model is r_ui = U_u . V_i, without a mean or biases (or SVD++,
r_ui = (U_u + sum_k O_k / sqrt |I_u|) . V_i over the rated items k). A device gives int(rho |I_u|)
items that it never rated a made-up rating r', so that the rows it sends do not list what it rated:

    r'_ui       the user's mean rating, or U'_u . V_i of a temporary U'_u once `predict_after`
                iterations have passed (hybrid filling)
    e_ui        r_ui - U_u . V_i, with r' for a made-up rating
    grad V_ui   -e_ui U_u + lambda V_i, sent to the server:
                V_i <- V_i - gamma mean_u grad V_ui over all who sent row i
    grad U_u    mean_i (-e_ui V_i + lambda U_u), on the device:
                U_u <- U_u - gamma grad U_u over rated and made-up items

after which gamma <- 0.9 gamma. This is the batch style. In the stochastic style devices come one by
one and U_u moves after each item; grad V_ui takes the U_u before that step.

Deviations from the authors' program. Decoys are the same in every round (`redraw` draws them anew,
as theirs does). A device goes through its rows by ascending item. The gamma of the stochastic
style, which is not published, is 0.01. Their program shares SVD++'s O unprotected; here a device
sends the gradients of O for the items that it rated, and zeros for decoys. After an item every O_k
of the device moves, with lambda O_k in its gradient.

tests/algorithms/test_fedrec.py has both styles in a few lines of plain NumPy, with which the
compiled ones below are compared.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Protocol, Self, final

import numpy as np
from pydantic import Field, model_validator

from ..core.compiling import njit
from ..core.contract.declarations import SentArray, Traits, axes, rows
from ..core.contract.protocols import Catalogue, Histories, rated
from ..core.contract.update import STEP, Total, Update, real
from ..core.errors import NonFiniteError
from ..core.keys import draw, fold_name, folds, uniform
from ..core.lanes.memory import padded
from ..core.lanes.simd import BOUND, LANES, SCALE, dot, every, inside, load, root, store, sum_of
from ..core.types import Float32Array, Int64Array, UInt64Array
from ..kernels import bpr_mf
from ..privacy.decoys import Mixed
from ._in_turn import InTurn

# The first values are uniform in +-0.005.
SPREAD = 0.01


class FedRecServer(NamedTuple):
    """The global model, which a device receives whole."""

    v: Annotated[Float32Array, axes("items", "width")]
    """float32 [items, width], item factors V, or with SVD++ V and O side by side."""
    step: Annotated[Int64Array, axes(1, least=0)]
    """int64 [1], rounds done."""
    epoch: Annotated[Int64Array, axes(1, least=1)]
    """int64 [1], rounds in an iteration over the users."""


class FedRecDevices(NamedTuple):
    """Private state of m devices. Nothing of it leaves."""

    u: Annotated[Float32Array, axes("factors")]
    """float32 [m, F], user factors U_u."""
    key: Annotated[UInt64Array, axes()]
    """uint64 [m], from which a device draws its decoys."""


class FedRecReceived(Protocol):
    """The part of a download that the devices of FedRec and FedRec++ both read."""

    @property
    def v(self) -> Float32Array: ...
    @property
    def step(self) -> Int64Array: ...
    @property
    def epoch(self) -> Int64Array: ...


class FilledFactorisation(InTurn):
    """Matrix factorisation over ratings and made-up ones, which FedRec and FedRec++ share."""

    # The model.
    factors: int = Field(20, ge=1, le=1024, description="d, the length of U_u and V_i")
    # The federation.
    style: Literal["batch", "stochastic"] = Field(
        "batch",
        description=(
            "batch: a round is all devices and the server takes the mean; stochastic: a round is"
            " one device, in turn"
        ),
    )
    rounds: int = Field(100, ge=1, description="T, iterations: passes over all users")
    # Made-up ratings of decoys.
    filling: Literal["average", "hybrid"] = Field(
        "hybrid",
        description=(
            "a made-up rating is the user's mean, or that at first and a prediction later on"
        ),
    )
    predict_after: int = Field(
        10,
        ge=0,
        description="T_predict: iterations (passes) before hybrid filling predicts; 5 for rho 2, 3",
    )
    local_iterations: int = Field(
        10,
        ge=0,
        le=1000,
        description="T_local: steps that the temporary U'_u takes before it predicts",
    )
    # Gradient descent.
    learning_rate: float | None = Field(
        None, gt=0, le=10, description="gamma; default 0.8 in batch style, 0.01 in stochastic style"
    )
    decay: float = Field(
        0.9,
        gt=0,
        le=1,
        description="what gamma is multiplied by after every iteration (pass over the users)",
    )
    reg: float = Field(0.001, ge=0, description="lambda of U, V and O")

    keeps: ClassVar[type] = FedRecDevices
    traits: ClassVar[Traits] = Traits(predicts_ratings=True, draws_negatives=False)
    decoys_move_u: ClassVar[bool]
    """The step of U_u takes made-up ratings in."""
    decoys_count: ClassVar[bool]
    """The server's step takes them in."""

    # ---- the federation --------------------------------------------------------------------------

    def configured(self, catalogue: Catalogue) -> Self:
        """Returns the same settings. Raises InputError if the catalogue has no ratings."""
        rated(catalogue.scale, type(self).__name__)
        return self

    @property
    def width(self) -> int:
        """The numbers that the server keeps of an item: its factors."""
        return self.factors

    def sizes(self, catalogue: Catalogue) -> dict[str, int]:
        """Returns the sizes of the declared arrays: numbers of an item (width), devices in a round
        (cohort), and the rows that a device sends at most (rows) and as a rule (usual_rows)."""
        return {
            "width": self.width,
            "cohort": 1 if self.style == "stochastic" else catalogue.users,
            "rows": catalogue.items,
            "usual_rows": self.usual_rows(catalogue),
        }

    def first_items(self, catalogue: Catalogue, key: np.uint64) -> Float32Array:
        """Returns the initial item factors V (and O with SVD++), uniform in +-0.005, float32
        [items, width].
        """
        return uniforms(folds(key, np.arange(catalogue.items)), self.width, SPREAD)

    def init_devices(
        self, users: Int64Array, catalogue: Catalogue, key: np.uint64
    ) -> FedRecDevices:
        """Returns the initial private state of the devices of `users`: user factors U, uniform in
        +-0.005, and the key of the decoys.
        """
        u = uniforms(folds(key, users), self.factors, SPREAD)
        return FedRecDevices(u, folds(fold_name(key, "decoys"), users))

    def rate(self, iteration: int) -> np.float32:
        """Returns the learning rate gamma in an iteration, which counts from 0."""
        # Steps along a mean may be long; those after each item may not.
        first = self.learning_rate or (0.8 if self.style == "batch" else 0.01)
        return np.float32(first * self.decay**iteration)

    def numbers(self, iteration: int) -> FedRecNumbers:
        """Returns the constants of an iteration, which counts from 0."""
        # Without decoys there is nothing to predict.
        hybrid = bool(self.rho) and self.filling == "hybrid"
        rate = self.rate(iteration)
        reg = np.float32(self.reg)
        filling = Filling(
            predicts=hybrid and iteration >= self.predict_after,
            steps=self.local_iterations,
            rate=rate,
            reg=reg,
            each=self.style == "stochastic",
        )
        return FedRecNumbers(rate, reg, self.decoys_move_u, self.decoys_count, filling)

    # ---- on the device ---------------------------------------------------------------------------

    def gradients(
        self, download: FedRecReceived, devices: FedRecDevices, histories: Histories, key: np.uint64
    ) -> tuple[FedRecDevices, Mixed, Float32Array]:
        """Trains m devices for a round. Returns their new state, their rows (rated items and
        decoys, n in all), and grad V_ui, float32 [n, width].
        """
        v = download.v
        u = devices.u.copy()
        numbers = self.numbers(iteration(download))
        # Rated items and decoys, then made-up ratings of the decoys by the U before this round.
        mixed = self.mixed(devices.key, histories, len(v), key)
        filled = fill(mixed, v, u, numbers.filling)
        g = np.zeros((len(filled.item), self.width), np.float32)
        if self.style == "batch":
            _batch_gradients(filled, v, u, numbers, g)
        else:
            _stochastic_gradients(filled, v, u, numbers, room_for(self.factors, 0), g)
        return devices._replace(u=u), filled, g

    def score(
        self, download: FedRecReceived, devices: FedRecDevices, histories: Histories
    ) -> Float32Array:
        """Returns the predicted ratings r_ui of every item, not clipped to the scale, float32 [m,
        items].
        """
        # With SVD++ a user's vector has a part of O, which follows from the rated items.
        v = download.v
        rated = np.ones(len(histories.item), np.bool_)
        own = Mixed(histories.ptr, histories.item, histories.value, rated)
        u = with_implicit(own, v, devices.u)
        return bpr_mf.scores(u, v[:, : self.factors], np.zeros(len(v), np.float32))

    # ---- rounds of one device each, one after the other in one call ------------------------------

    def solo_rounds(
        self,
        server: Any,
        devices: FedRecDevices,
        histories: Histories,
        rounds: range,
        key: np.uint64,
    ) -> tuple[Any, FedRecDevices, int, int]:
        """Runs `rounds` rounds of the stochastic style over all users' devices; the same bits as
        one round at a time.

        Returns the new server, the new devices, and how many rows and bytes were sent.
        """
        v = server.v.copy()
        u = devices.u.copy()
        users = len(u)
        sent = 0
        number = rounds.start
        mixed = self.mixed_in_turn(devices.key, histories, len(v), key, 0)
        # One call for the devices of each iteration, whose constants are the same.
        while number < rounds.stop:
            iteration, first = divmod(number, users)
            last = min(users, first + rounds.stop - number)
            if self.redraw:
                mixed = self.mixed_in_turn(devices.key, histories, len(v), key, iteration * users)
            filled = mixed._replace(value=mixed.value.copy())
            room = room_for(self.factors, len(mixed.item))
            if not _solo(mixed, filled, v, u, first, last, self.numbers(iteration), room):
                raise NonFiniteError(
                    "update: a value is not finite or beyond +-32768; the model is unchanged"
                )
            number += last - first
            sent += int(mixed.ptr[last] - mixed.ptr[first])
        server = server._replace(v=v, step=server.step + len(rounds))
        return server, devices._replace(u=u), sent, sent * self.row_bytes

    @property
    def row_bytes(self) -> int:
        """The bytes of one sent row: item id and gradient."""
        return 4 + 4 * self.width


@final
class FedRec(FilledFactorisation):
    """FedRec: rating prediction by matrix factorisation (or SVD++) in which devices also rate items
    that they never rated.
    """

    model: Literal["pmf", "svd++"] = Field(
        "pmf", description="U_u . V_i, or SVD++ with implicit factors O (stochastic style)"
    )

    holds: ClassVar[type] = FedRecServer
    receives: ClassVar[type] = FedRecServer
    sends: ClassVar[tuple[SentArray, ...]] = (
        rows(
            "v",
            "width",
            when="each round, a row for every rated item and every decoy",
            reveals=(
                "the gradients of V_i. Seen singly: with rho 0 the rows are the rated items, and"
                " with any rho the row of item i is lambda V_i - e U_u, so that two rounds of one"
                " device give U_u by arithmetic, and then e and the integer ratings; made-up"
                " ratings stand out as those that are not integers. With SVD++ the second half is"
                " zero for decoys: the rated items can be read off. Only a sum over many devices"
                " hides this, and the stochastic style has no sum: a round is one device"
            ),
        ),
    )
    decoys_move_u: ClassVar[bool] = True
    decoys_count: ClassVar[bool] = True

    @model_validator(mode="after")
    def _as_published(self) -> Self:
        """Refuses SVD++ in batch style, in which it was not published."""
        if self.model == "svd++" and self.style == "batch":
            raise ValueError("style=stochastic with model=svd++, which has no batch style")
        return self

    @property
    def width(self) -> int:
        """The numbers that the server keeps of an item: V_i, and O_i with SVD++."""
        return self.factors * (2 if self.model == "svd++" else 1)

    def init_server(self, catalogue: Catalogue, key: np.uint64) -> FedRecServer:
        """Returns the initial global model: item factors V (and O with SVD++)."""
        epoch = np.array([self.rounds_an_epoch(catalogue)], np.int64)
        return FedRecServer(self.first_items(catalogue, key), np.zeros(1, np.int64), epoch)

    def download(self, server: FedRecServer) -> FedRecServer:
        """Returns the global model, which every device receives whole."""
        return server

    def local(
        self,
        download: FedRecServer,
        devices: FedRecDevices,
        histories: Histories,
        users: Int64Array,
        key: np.uint64,
    ) -> tuple[FedRecDevices, Update]:
        """Trains the devices: makes grad V_ui of rated items and decoys, which is sent, and moves
        U_u.
        """
        after, filled, g = self.gradients(download, devices, histories, key)
        weight = np.ones(len(users), np.float32)
        return after, Update(filled.ptr, filled.item, {"v": g}, {}, weight)

    def aggregate(self, server: FedRecServer, total: Total) -> FedRecServer:
        """Returns the new global model, V_i <- V_i - gamma mean_u grad V_ui over all who sent a
        row, made-up ratings among them.
        """
        rate = float(self.rate(iteration(server)))
        v = stepped(server.v, total.rows["v"], total.senders, rate)
        return server._replace(v=v, step=server.step + 1)


def iteration(state: FedRecReceived) -> int:
    """Returns the number of passes over all users that were completed so far."""
    return int(state.step[0] // state.epoch[0])


@njit(cache=True, nogil=True)
def uniforms(keys: UInt64Array, width: int, spread: float) -> Float32Array:
    """Returns uniform numbers in +- spread / 2, float32 [len(keys), width]. Row r depends on
    keys[r] alone.
    """
    out = np.empty((len(keys), width), np.float32)
    for r in range(len(keys)):
        for f in range(width):
            out[r, f] = np.float32(spread * (uniform(draw(keys[r], f)) - 0.5))
    return out


# ---- hybrid filling: r'_ui -----------------------------------------------------------------------


class Filling(NamedTuple):
    """The way in which decoys are rated in an iteration."""

    predicts: bool
    """By the prediction of a temporary U', not by the user's mean."""
    steps: int
    """Passes of U' over the rated items."""
    rate: np.float32
    """gamma of U'."""
    reg: np.float32
    """lambda of U'."""
    each: bool
    """U' steps after each item, not after each pass along the mean gradient."""


class FedRecNumbers(NamedTuple):
    """Constants of an iteration."""

    rate: np.float32
    """gamma."""
    reg: np.float32
    """lambda."""
    decoys_move_u: bool
    """The step of U_u takes made-up ratings in."""
    decoys_count: bool
    """The server's step takes them in."""
    filling: Filling


class FedRecRoom(NamedTuple):
    """Working memory of a device. Rows of F numbers are padded to whole lanes."""

    own: Float32Array
    """float32 [F, padded], U_u."""
    x: Float32Array
    """float32 [F, padded], the temporary U'."""
    y: Float32Array
    """float32 [F, padded], the implicit part of SVD++."""
    h: Float32Array
    """float32 [F, padded], a sum of gradients."""
    out: Float32Array
    """float32 [F, padded], the gradient of one row."""
    known: Float32Array
    """float32 [n], y . V_i of each row."""


def fill(mixed: Mixed, v: Float32Array, u: Float32Array, filling: Filling) -> Mixed:
    """Returns the rows of m devices with made-up ratings for the decoys. v: float32 [items, width];
    u: float32 [m, F], not changed.
    """
    value = np.empty_like(mixed.value)
    _fill(mixed, v, u, filling, room_for(u.shape[1], len(mixed.item)), value)
    return mixed._replace(value=value)


def room_for(factors: int, rows: int) -> FedRecRoom:
    """Returns working memory for devices with n rows together."""
    own, x, y, h, out = (np.zeros(padded(factors), np.float32) for _ in range(5))
    return FedRecRoom(own, x, y, h, out, np.empty(rows, np.float32))


@njit(cache=True, nogil=True, error_model="numpy")
def _fill(
    mixed: Mixed,
    v: Float32Array,
    u: Float32Array,
    filling: Filling,
    room: FedRecRoom,
    value: Float32Array,
) -> None:
    for d in range(len(u)):
        fill_one(mixed, d, v, u, filling, room, value)


@inside
def fill_one(
    mixed: Mixed,
    d: int,
    v: Float32Array,
    u: Float32Array,
    filling: Filling,
    room: FedRecRoom,
    value: Float32Array,
) -> None:
    """Writes the ratings of the rows of device d to `value`, float32 [n]; some of them are made
    up."""
    if filling.predicts:
        train_temporary(mixed, d, v, u, filling, room)
    # the user's mean rating
    total = 0.0
    count = 0
    for r in range(mixed.ptr[d], mixed.ptr[d + 1]):
        if mixed.rated[r]:
            total = total + np.float64(mixed.value[r])
            count = count + 1
    mean = np.float32(total / max(count, 1))
    # r_ui of a rated item, r'_ui of a decoy
    for r in range(mixed.ptr[d], mixed.ptr[d + 1]):
        value[r] = mixed.value[r] if mixed.rated[r] else mean
        if filling.predicts and not mixed.rated[r]:
            value[r] = predicted(room, v, mixed.item[r], r, u.shape[1])


@inside
def predicted(room: FedRecRoom, v: Float32Array, i: int, r: int, factors: int) -> np.float32:
    """Returns the prediction (U'_u + y) . V_i of row r by the temporary user vector."""
    return room.known[r] + dot(room.x, v, np.int64(i) * v.shape[1], factors)


@inside
def train_temporary(
    mixed: Mixed, d: int, v: Float32Array, u: Float32Array, filling: Filling, room: FedRecRoom
) -> None:
    """Trains the temporary U'_u, room.x: it starts from U_u and takes some steps on the rated items
    alone. Writes y . V_i, which does not move meanwhile, to room.known.
    """
    x = room.x
    g = room.h
    start = mixed.ptr[d]
    stop = mixed.ptr[d + 1]
    factors = u.shape[1]
    rate = every(filling.rate)
    reg = every(filling.reg)
    none = every(np.float32(0))
    implicit_part(mixed, d, v, room.y, factors)
    # U' starts at U_u
    for f in range(0, factors, LANES):
        store(x, f, load(u, d * factors + f, factors - f))
    # the part of each prediction that U' does not change
    count = np.float32(0)
    for r in range(start, stop):
        count += np.float32(mixed.rated[r])
        room.known[r] = dot(room.y, v, np.int64(mixed.item[r]) * v.shape[1], factors)
    for _ in range(filling.steps):
        for f in range(0, factors, LANES):
            store(g, f, none)
        for r in range(start, stop):
            if not mixed.rated[r]:
                continue
            at = np.int64(mixed.item[r]) * v.shape[1]
            e = every(mixed.value[r] - predicted(room, v, mixed.item[r], r, factors))
            for f in range(0, factors, LANES):
                slope = reg * load(x, f) - e * load(v, at + f, factors - f)  # grad U'_u
                # stochastic style: a step now; batch style: one along the mean, below
                if filling.each:
                    store(x, f, load(x, f) - rate * slope)
                else:
                    store(g, f, load(g, f) + slope)
        if not filling.each and count > 0:
            for f in range(0, factors, LANES):
                store(x, f, load(x, f) - rate * (load(g, f) / every(count)))


# ---- the device: gradients of 1/2 (r - (u + y) . v_i)^2 + lambda / 2 (|u|^2 + |v_i|^2 + ...) -----


@njit(cache=True, nogil=True)
def _batch_gradients(
    filled: Mixed, v: Float32Array, u: Float32Array, numbers: FedRecNumbers, g: Float32Array
) -> None:
    """Writes grad V_ui of each row at the U_u given to g, float32 [n, F] (batch style). U_u then
    moves, in place, along the mean over its rows.
    """
    rate = numbers.rate
    reg = numbers.reg
    factors = u.shape[1]
    g_u = np.empty(factors, np.float32)
    for d in range(len(u)):
        count = np.float32(0)
        for f in range(factors):
            g_u[f] = 0
        # every gradient at the U_u with which the round began
        for r in range(filled.ptr[d], filled.ptr[d + 1]):
            i = filled.item[r]
            e = filled.value[r]
            for f in range(factors):
                e -= u[d, f] * v[i, f]  # e_ui
            for f in range(factors):
                g[r, f] = reg * v[i, f] - e * u[d, f]  # grad V_ui
            if filled.rated[r] or numbers.decoys_move_u:
                count += np.float32(1)
                for f in range(factors):
                    g_u[f] += reg * u[d, f] - e * v[i, f]
        for f in range(factors):
            u[d, f] -= rate * (g_u[f] / max(count, np.float32(1)))  # U_u <- U_u - gamma grad U_u


@njit(cache=True, nogil=True, error_model="numpy")
def _stochastic_gradients(
    filled: Mixed,
    v: Float32Array,
    u: Float32Array,
    numbers: FedRecNumbers,
    room: FedRecRoom,
    g: Float32Array,
) -> None:
    """Writes gradients as `_batch_gradients` does, in the stochastic style: U_u moves after each
    row. Every device by itself, all from the same v.
    """
    for d in range(len(u)):
        visit_one(filled, d, v, u, numbers, room, g, 0)


@inside
def visit_one(
    filled: Mixed,
    d: int,
    v: Float32Array,
    u: Float32Array,
    numbers: FedRecNumbers,
    room: FedRecRoom,
    g: Float32Array,
    base: int,
) -> None:
    """Runs one device's round: device d goes through its rows in order and moves U_u after each.
    filled: the rows with their ratings, made-up ones among them. g: float32 [rows, w], from row
    `base` of `filled` on: the gradients of V_i (and O_i) for its rows.

    With w = 2 F, v holds O in its second half, y = sum_k O_k / sqrt |I_u| takes part, and each row
    moves every O_k of a rated item: all alike but for lambda, O_k <- (1 - rate lambda) O_k + rate e
    V_i / sqrt |I_u|. What they have moved at the end is rate (h - shrunk O_k), so that only h and
    `shrunk` have to be kept.
    """
    # working memory, and the rows of this device
    own = room.own
    y = room.y
    h = room.h
    out = room.out
    value = filled.value
    start = filled.ptr[d]
    stop = filled.ptr[d + 1]
    factors = u.shape[1]
    implicit = v.shape[1] > factors
    divisor = every(implicit_part(filled, d, v, y, factors))
    # constants, the same number in every lane
    none = every(np.float32(0))
    by = every(numbers.rate)
    shrink = every(numbers.reg)
    one_keep = np.float32(1) - numbers.rate * numbers.reg
    keep = every(one_keep)
    # After n steps an O_k has kept `left` = (1 - rate lambda)^n of itself, and rate `shrunk` less.
    left = np.float32(1)
    shrunk = np.float32(0)
    for f in range(0, factors, LANES):
        store(h, f, none)
        store(own, f, load(u, d * factors + f, factors - f))
    for r in range(start, stop):
        # the prediction (U_u + y) . V_i
        at = np.int64(filled.item[r]) * v.shape[1]
        moves = filled.rated[r] or numbers.decoys_move_u
        product = none
        for f in range(0, factors, LANES):
            product = product + (load(own, f) + load(y, f)) * load(v, at + f, factors - f)
        e = every(value[r] - sum_of(product))  # e_ui
        for f in range(0, factors, LANES):
            v_i = load(v, at + f, factors - f)
            u_d = load(own, f)
            y_d = load(y, f)
            store(out, f, shrink * v_i - e * (u_d + y_d))  # grad V_ui, at the U_u before its step
            # U_u, and with SVD++ the sums that stand for the O_k, each from its value before
            if moves:
                store(own, f, u_d - by * (shrink * u_d - e * v_i))
                if implicit:
                    store(y, f, keep * y_d + by * (e * v_i))
                    store(h, f, keep * load(h, f) + e * v_i / divisor)
        # The gradient is padded, its row in g is not.
        for f in range(factors):
            g[r - base, f] = out[f]
        if moves:
            shrunk = shrunk + numbers.reg * left
            left = left * one_keep
    for f in range(factors):
        u[d, f] = own[f]
    # grad O_k: how far all steps together would move it; zeros for decoys
    if implicit:
        for r in range(start, stop):
            for f in range(factors):
                o = v[filled.item[r], factors + f]
                g[r - base, factors + f] = shrunk * o - h[f] if filled.rated[r] else np.float32(0)


@inside
def implicit_part(
    mixed: Mixed, d: int, v: Float32Array, y: Float32Array, factors: int
) -> np.float32:
    """Writes SVD++'s sum of O_k over the rated items of device d, divided by sqrt |I_u|, to the
    padded y; 0 where v holds no O. Returns the divisor.
    """
    count = np.float32(0)
    for f in range(0, factors, LANES):
        store(y, f, every(np.float32(0)))
    for r in range(mixed.ptr[d], mixed.ptr[d + 1]):
        if mixed.rated[r]:
            count += np.float32(1)
            if v.shape[1] > factors:
                at = np.int64(mixed.item[r]) * v.shape[1] + factors
                for f in range(0, factors, LANES):
                    store(y, f, load(y, f) + load(v, at + f, factors - f))
    divisor = root(max(count, np.float32(1)))
    for f in range(0, factors, LANES):
        store(y, f, load(y, f) / every(divisor))
    return divisor


def with_implicit(own: Mixed, v: Float32Array, u: Float32Array) -> Float32Array:
    """Returns user vectors with SVD++'s implicit part, U_u + y of every device, float32 [m, F].
    own: the rated items.
    """
    out = np.empty_like(u)
    _with_implicit(own, v, u, room_for(u.shape[1], 0), out)
    return out


@njit(cache=True, nogil=True, error_model="numpy")
def _with_implicit(
    own: Mixed, v: Float32Array, u: Float32Array, room: FedRecRoom, out: Float32Array
) -> None:
    for d in range(len(u)):
        implicit_part(own, d, v, room.y, u.shape[1])
        for f in range(u.shape[1]):
            out[d, f] = u[d, f] + room.y[f]


# ---- the server's step ---------------------------------------------------------------------------


def stepped(v: Float32Array, total: Int64Array, count: Int64Array, rate: float) -> Float32Array:
    """Returns item factors after a step, v_i - rate * total_i / count_i of the items with a count.
    total: fixed point [items, >= w], the sum of what was sent.
    """
    sent = count > 0
    out = v.copy()
    out[sent] -= (rate * real(total[sent, : v.shape[1]]) / count[sent, None]).astype(np.float32)
    return out


@inside
def step_one(
    filled: Mixed, d: int, v: Float32Array, g: Float32Array, rate: float, decoys_count: bool
) -> bool:
    """Makes the step of `stepped` in place after device d alone has sent g, whose first row is the
    device's first. Returns False if a value cannot be sent.
    """
    finite = True
    for r in range(filled.ptr[d], filled.ptr[d + 1]):
        if filled.rated[r] or decoys_count:
            for f in range(v.shape[1]):
                # by way of the fixed point in which a server adds up
                scaled = np.rint(g[r - filled.ptr[d], f] * SCALE)
                finite &= abs(scaled) < BOUND
                v[filled.item[r], f] -= np.float32(rate * (np.int64(scaled) * STEP))
    return finite


@njit(cache=True, nogil=True, error_model="numpy")
def _solo(
    mixed: Mixed,
    filled: Mixed,
    v: Float32Array,
    u: Float32Array,
    first: int,
    last: int,
    numbers: FedRecNumbers,
    room: FedRecRoom,
) -> bool:
    """Runs devices first .. last - 1 one after the other, each followed by the server's step, on v
    and u in place. Overwrites filled.value. Returns False if a value cannot be sent.
    """
    # room for the gradients of the device with most rows
    longest = 0
    for d in range(first, last):
        longest = max(longest, mixed.ptr[d + 1] - mixed.ptr[d])
    g = np.zeros((longest, v.shape[1]), np.float32)
    finite = True
    for d in range(first, last):
        fill_one(mixed, d, v, u, numbers.filling, room, filled.value)
        visit_one(filled, d, v, u, numbers, room, g, mixed.ptr[d])
        finite &= step_one(mixed, d, v, g, np.float64(numbers.rate), numbers.decoys_count)
    return finite


ALGORITHMS = {"fedrec": FedRec}
