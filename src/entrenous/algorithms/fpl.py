"""FPL, Federated Pair-wise Learning.

V. W. Anelli, Y. Deldjoo, T. Di Noia, A. Ferrara, F. Narducci, "User-controlled federated matrix
factorization for recommender systems", Journal of Intelligent Information Systems (2022); short
version: SAC 2021. Read this file beside section 4. "As run" marks what the authors' program
(sisinflab/FedBPR) does where the text says something else or nothing."""

from __future__ import annotations

import math
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self, final

import numpy as np
from numba import njit
from pydantic import Field

from ..core.contract.declarations import SentArray, Traits, axes, rows
from ..core.contract.protocols import Catalogue, Histories
from ..core.contract.settings import Settings
from ..core.contract.update import STEP, Total, Update, add_devices, add_rows, tabled
from ..core.errors import NonFiniteError
from ..core.keys import below, draw, fold, folds, local_key, normals, select_key, uniform
from ..core.lanes.sealed import sealed
from ..core.lanes.simd import LANES, SCALE, every, load, padded, store, sum_of, zeros
from ..core.types import Float32Array, Int32Array, Int64Array, UInt64Array
from ..kernels import bpr_mf
from ..kernels.logistic import logistic
from ..kernels.negatives import (
    ONE,
    below_low,
    count_gaps,
    fill_gaps,
    first_slot,
    negative,
    slots_for,
)
from ..kernels.sampling import cohort, one_of
from ..privacy.choice import Choice

CACHE = (
    1 << 18
    # bytes of updates made before they are added: a part of a core's second-level cache, which Q
    # needs too
)


class FPLServer(NamedTuple):
    """The global model (definition 4). q: item factors float32 [items, F]; b: item biases float32
    [items]. A device receives it whole.
    """

    q: Annotated[Float32Array, axes("items", "factors")]
    b: Annotated[Float32Array, axes("items")]


class FPLDevices(NamedTuple):
    """The local models of m devices (definition 5). p: user factors float32 [m, F]. They never
    leave.
    """

    p: Annotated[Float32Array, axes("factors")]


@final
class FPL(Settings):
    """Federated pair-wise learning: matrix factorisation by BPR in which each user decides (pi)
    which positive updates are sent.
    """

    factors: int = Field(80, ge=1, le=4096, description="F, the length of p_u and q_i")
    learning_rate: float = Field(0.05, gt=0, le=10, description="alpha of eq. 6 and 7")
    pi: Annotated[float, Field(ge=0, le=1)] | Choice = Field(
        1.0,
        description=(
            "probability that the update of a consumed item is sent: a number, or a Choice per user"
            " or (user, item); @file.csv on the command line"
        ),
    )
    cohort: int = Field(0, ge=0, description="|U-|, devices in a round; 0 = all")
    triples: int = Field(0, ge=0, description="T, triples a device draws in a round; 0 = X+ / |U|")
    epochs: int = Field(
        100, ge=1, description="training length when the number of rounds is not given"
    )
    rounds_per_epoch: Literal["printed", "run"] = Field(
        "printed",
        description=(
            "printed: X+ / (|U-| T), so that an epoch is X+ triples; run: X+ / |U-| whatever T, as"
            " the authors' program has it"
        ),
    )
    user_step: Literal["triple", "once"] = Field(
        "triple",
        description=(
            "when p_u moves: after each triple (as run), or once with the summed update (eq. 6 as"
            " printed)"
        ),
    )
    reg_user: float | None = Field(
        None, ge=0, description="lambda of p_u; default learning_rate / 20"
    )
    reg_positive: float | None = Field(
        None, ge=0, description="lambda of q_i; default learning_rate / 20"
    )
    reg_negative: float | None = Field(
        None,
        ge=0,
        description=(
            "lambda of q_j; default learning_rate / 200 (biases are not regularised, as run)"
        ),
    )
    init_std: float = Field(0.1, ge=0, description="standard deviation of the first p, q, b")

    holds: ClassVar[type] = FPLServer
    receives: ClassVar[type] = FPLServer
    keeps: ClassVar[type] = FPLDevices
    sends: ClassVar[tuple[SentArray, ...]] = (
        rows(
            "q",
            "factors",
            when=(
                "each round: a row for every drawn negative; for a drawn positive with"
                " probability pi"
            ),
            reveals=(
                "seen singly, the history can be recovered at any pi: a negative's row can be"
                " solved for p_u and for the score of the hidden positive, and with pi > 0 the sign"
                " of b's update names consumed items. In a sum over a cohort a row that one device"
                " alone sent can be solved in the same way, and sums of many rounds may tell more"
            ),
        ),
        rows("b", when="with every row of q", reveals="its sign tells a positive from a negative"),
    )
    traits: ClassVar[Traits] = Traits(decided_by_user=("pi",), private={"noise": 0.1})

    # ---- 5.2: configurations ---------------------------------------------------------------------

    def configured(self, catalogue: Catalogue) -> Self:
        """A copy of the settings with |U-| and T as numbers for this federation: 0 becomes |U| and
        X+ / |U|.
        """
        devices = min(self.cohort, catalogue.users) or catalogue.users
        triples = self.triples or max(1, catalogue.interactions // max(1, catalogue.users))
        return self.model_copy(update={"cohort": devices, "triples": triples})

    def rounds_an_epoch(self, catalogue: Catalogue) -> int:
        """Rounds per epoch, rpe of section 5.2, by either reading."""
        own = self.configured(catalogue)
        triples = own.triples if self.rounds_per_epoch == "printed" else 1
        return max(1, round(catalogue.interactions / (own.cohort * triples)))

    def default_rounds(self, catalogue: Catalogue) -> int:
        """Training rounds if none are asked for: those of `epochs` epochs."""
        return self.epochs * self.rounds_an_epoch(catalogue)

    def search_space(self) -> dict[str, str]:
        """What a search chooses from unless it is told."""
        return {
            "factors": "10..160:log",
            "learning_rate": "0.005..0.5:log",
            "init_std": "0.02..0.2:log",
        }

    def sizes(self, catalogue: Catalogue) -> dict[str, int]:
        """Sizes of the declared arrays. rows: the most rows that a device sends in a round, 2 T."""
        return {"rows": 2 * self.configured(catalogue).triples}

    @property
    def _row_bytes(self) -> int:
        return 4 + 4 * self.factors + 4  # item id, q, b

    # ---- 4.1: architecture -----------------------------------------------------------------------

    def init_server(self, catalogue: Catalogue, key: np.uint64) -> FPLServer:
        """The initial global model Theta_S = <Q, b>, drawn from N(0, init_std^2) (as run)."""
        drawn = normals(folds(key, np.arange(catalogue.items)), self.factors + 1, self.init_std)
        return FPLServer(np.ascontiguousarray(drawn[:, :-1]), np.ascontiguousarray(drawn[:, -1]))

    def init_devices(self, users: Int64Array, key: np.uint64) -> FPLDevices:
        """The initial local models Theta_u = <p_u>, each drawn from N(0, init_std^2) on the device
        of u.
        """
        return FPLDevices(normals(folds(key, users), self.factors, self.init_std))

    # ---- 4.2: training procedure -----------------------------------------------------------------

    def select(self, server: FPLServer, catalogue: Catalogue, key: np.uint64) -> Int64Array:
        """The round's devices U-, selected at random by S (step 1, Distribution to Devices)."""
        return cohort(key, self.configured(catalogue).cohort, catalogue.users)

    def download(self, server: FPLServer) -> FPLServer:
        """The current model, which S delivers to the selected devices (step 1, Distribution to
        Devices).
        """
        return server

    def local(
        self,
        download: FPLServer,
        devices: FPLDevices,
        histories: Histories,
        users: Int64Array,
        key: np.uint64,
    ) -> tuple[FPLDevices, Update]:
        """Local training and what it sends, for the devices of `users` (step 2, Federated
        Optimization, and step 3, Transmission to Server)."""
        p, sent = devices.p.copy(), self._room(len(users), histories)
        theta, data = _sealed(download), self._data(users, histories, key)
        n = _local(theta, p, data, 0, len(users), self.numbers(), sent)
        of_items = {
            "q": sent.rows[:n, : self.factors].copy(),
            "b": sent.rows[:n, self.factors].copy(),
        }
        return FPLDevices(p), Update(
            sent.ptr, sent.item[:n], of_items, {}, np.ones(len(users), np.float32)
        )

    def local_sum(
        self,
        download: FPLServer,
        devices: FPLDevices,
        histories: Histories,
        users: Int64Array,
        key: np.uint64,
        total: Total,
    ) -> tuple[FPLDevices, Total, int, int]:
        """Local training as `local`, with the updates added to `total` while they are in the cache:
        the same bits. Also returns how many rows and bytes were sent."""
        p, (total, table), together = devices.p.copy(), tabled(total), self._together(len(users))
        room, data = self._room(together, histories), self._data(users, histories, key)
        theta = _sealed(download)
        rows = _local_sum(theta, p, data, together, self.numbers(), room, table)
        if rows < 0:
            raise NonFiniteError(
                "update: a value is not finite or beyond +-32768; the model is unchanged"
            )
        nothing, none = np.zeros(len(users) + 1, np.int64), np.empty(0, np.int32)
        total = add_devices(total, Update(nothing, none, {}, {}, np.ones(len(users), np.float32)))
        return FPLDevices(p), total, rows, rows * self._row_bytes

    def aggregate(self, server: FPLServer, total: Total) -> FPLServer:
        """The server's step (eq. 7, step 4, Global Aggregation): the global model moves by the
        learning rate times the sum of the updates."""
        q, b = server.q.copy(), server.b.copy()
        _aggregate(q, b, tabled(total)[1], np.float32(self.learning_rate))
        return FPLServer(q, b)

    def score(self, download: FPLServer, devices: FPLDevices, histories: Histories) -> Float32Array:
        """Scores x_ui (eq. 1) of every item, computed on the device: float32 [m, items]."""
        return bpr_mf.scores(devices.p, download.q, download.b)

    # ---- a run of rounds with one device each, compiled: sFPL needs X+ of them an epoch ----------

    def solo_rounds(
        self,
        server: FPLServer,
        devices: FPLDevices,
        histories: Histories,
        rounds: range,
        key: np.uint64,
    ) -> tuple[FPLServer, FPLDevices, int, int]:
        """Runs `rounds` rounds (cohort 1) of select, local and aggregate over all users' devices;
        the same bits as one round at a time.

        Returns the new server, the new devices, and how many rows and bytes were sent.
        """
        server, devices = FPLServer(server.q.copy(), server.b.copy()), FPLDevices(devices.p.copy())
        users = np.arange(len(devices.p))
        data, room = self._data(users, histories, key), self._room(1, histories)
        rows = _solo(server, devices.p, data, key, rounds.start, rounds.stop, self.numbers(), room)
        return server, devices, rows, rows * self._row_bytes

    # ---- the numbers and the memory that the compiled part takes ---------------------------------

    def _data(self, users: Int64Array, histories: Histories, key: np.uint64) -> _Data:
        pi = (
            self.pi.of(users, histories)
            if isinstance(self.pi, Choice)
            else np.array([self.pi], np.float32)
        )
        # A triple needs neither values nor times nor places.
        own = histories.ptr, histories.item, histories.avoid_ptr, histories.avoid
        return _Data(*own, pi, folds(key, users))

    def numbers(self) -> _Numbers:
        """Constants of local training: T, alpha, the three lambdas with their defaults, and whether
        p_u moves after each triple.
        """
        alpha = self.learning_rate
        regs = (
            (self.reg_user, alpha / 20),
            (self.reg_positive, alpha / 20),
            (self.reg_negative, alpha / 200),
        )
        reg_user, reg_positive, reg_negative = (
            np.float32(default if reg is None else reg) for reg, default in regs
        )
        return _Numbers(
            self.triples,
            np.float32(alpha),
            reg_user,
            reg_positive,
            reg_negative,
            self.user_step == "triple",
        )

    def _together(self, devices: int) -> int:
        """How many devices' updates fill a core's second-level cache."""
        return max(
            1, min(devices, CACHE // max(1, 2 * self.triples * 4 * padded(self.factors + 2)))
        )

    def _room(self, devices: int, histories: Histories) -> _FPLRoom:
        longest, avoided = (
            int(np.diff(ptr).max(initial=0)) for ptr in (histories.ptr, histories.avoid_ptr)
        )
        sent, width = 2 * devices * self.triples + 1, padded(self.factors)
        ptr, item, rows = (
            np.zeros(devices + 1, np.int64),
            np.empty(sent, np.int32),
            zeros(sent, padded(self.factors + 2)),
        )
        places, gaps = np.empty(longest, np.int32), np.empty(avoided + LANES, np.int32)
        return _FPLRoom(
            ptr, item, rows, zeros(1, width), zeros(1, width), places, slots_for(self.triples), gaps
        )


class _Numbers(NamedTuple):
    """T, alpha, the three lambdas, and whether p_u moves after each triple."""

    triples: int
    alpha: np.float32
    reg_user: np.float32
    reg_positive: np.float32
    reg_negative: np.float32
    per_triple: bool


def _sealed(server: FPLServer) -> FPLServer:
    return FPLServer(sealed(server.q), sealed(server.b))


class _Data(NamedTuple):
    """The private data of m devices: `Histories` without values, pi of each history row (or [1],
    the same for all), and the key each draws from.
    """

    ptr: Int64Array
    item: Int32Array
    avoid_ptr: Int64Array
    avoid: Int32Array
    pi: Float32Array
    keys: UInt64Array


class _FPLRoom(NamedTuple):
    """Memory for a number of devices; rows of F numbers are padded to whole lanes.

    ptr, item, rows: the rows of Delta Theta_S,u as in an Update, at most 2 T a device, and one more
    that takes what is not sent. A row is [update of q_i | of b_i | 1], the 1 in units of the
    fixed-point grid: what it adds to the count of an item's senders. p, dp: p_u and its summed
    update. places: the row of each consumed item of a device (-1 = none yet); slots, gaps: for its
    negatives (kernels/negatives.py)."""

    ptr: Int64Array
    item: Int32Array
    rows: Float32Array
    p: Float32Array
    dp: Float32Array
    places: Int32Array
    slots: Int32Array
    gaps: Int32Array


# ---- section 4.2, steps 2 and 3, on one device: as a person reads it -----------------------------


def plain_local(
    fpl: FPL, theta: FPLServer, p_u: Float32Array, history: Int32Array, key: np.uint64
) -> tuple[Float32Array, dict[int, tuple[Float32Array, float]]]:
    """One round of one device in plain NumPy: the new p_u, float32 [F], and {item: (update of q,
    update of b)} that it sends.

    fpl: configured, with pi a number. theta: the received model. history: int32, the consumed
    items, ascending. key: the device's in this round. It draws what the compiled loop below draws,
    and a test holds that loop to it (to 1e-5: sums are added in another order).
    """
    triples, alpha, reg_u, reg_i, reg_j, per_triple = fpl.numbers()
    # a number here
    unseen, pi, summed = len(theta.b) - len(history), float(fpl.pi), np.zeros_like(p_u)  # type: ignore[arg-type]
    sent: dict[int, tuple[Float32Array, float]] = {}
    for t in range(triples if len(history) and unseen else 0):
        bits, chance = (np.uint64(draw(key, 2 * t + number)) for number in range(2))
        i, j = (
            int(history[below(bits, len(history))]),
            int(negative(history, below_low(bits, unseen))),
        )  # (u, i, j) of K_u
        x_uij = theta.b[i] + p_u @ theta.q[i] - theta.b[j] - p_u @ theta.q[j]  # (4)
        d = math.exp(-x_uij) / (1 + math.exp(-x_uij))  # (3)
        updates = {j: (-d * p_u - reg_j * theta.q[j], -d)}  # (5), theta = q_j, b_j
        if uniform(chance) < pi:  # 3. Transmission to Server: pi lets the positive update through
            updates[i] = (d * p_u - reg_i * theta.q[i], d)  # (5), theta = q_i, b_i
        for item, (dq, db) in updates.items():
            before_q, before_b = sent.get(item, (np.zeros_like(p_u), 0.0))
            sent[item] = (before_q + dq, before_b + db)
        step = d * (theta.q[i] - theta.q[j]) - reg_u * p_u  # (5), theta = p_u
        if per_triple:
            p_u = p_u + alpha * step  # (6) at once, as run
        else:
            summed = summed + step
    return (p_u + alpha * summed).astype(np.float32), sent  # (6), as printed


# ---- the same, compiled, on devices `low` to `high`, one after the other -------------------------
# Flat loops over arrays taken out of their tuples first: numba counts references to every array
# that a loop takes, hands on or
# slices, with an atomic instruction each, and that would cost more than the arithmetic. Rows go
# LANES numbers at a time.


@njit(cache=True, nogil=True, error_model="numpy")
def _local(
    theta: FPLServer,
    p: Float32Array,
    data: _Data,
    low: int,
    high: int,
    numbers: _Numbers,
    room: _FPLRoom,
) -> int:
    """T triples a device against the received Q, b; writes the rows to send and returns how many. p
    moves in place.
    """
    q, b, p_u, dp_u, ptr, item, d_theta = (
        theta.q,
        theta.b,
        room.p,
        room.dp,
        room.ptr,
        room.item,
        room.rows,
    )
    history, history_ptr, avoid, avoid_ptr, pi, keys = (
        data.item,
        data.ptr,
        data.avoid,
        data.avoid_ptr,
        data.pi,
        data.keys,
    )
    slots, places, gaps, mask = room.slots, room.places, room.gaps, np.uint64(len(room.slots) - 1)
    items, factors, width, triples, per_triple = (
        len(b),
        q.shape[1],
        d_theta.shape[1],
        numbers.triples,
        numbers.per_triple,
    )
    alpha, reg_user, none = every(numbers.alpha), every(numbers.reg_user), every(np.float32(0))
    reg_positive, reg_negative = every(numbers.reg_positive), every(numbers.reg_negative)
    n, personal, kept = 0, len(pi) > 1, len(item) - 1
    for u in range(low, high):
        start, length, avoided = (
            history_ptr[u],
            history_ptr[u + 1] - history_ptr[u],
            avoid_ptr[u + 1] - avoid_ptr[u],
        )
        key, drawn = (
            keys[u],
            triples if length > 0 and avoided < items else 0,
        )  # K_u is empty without a positive or a negative
        for f in range(factors):
            p_u[0, f] = p[u, f]
        for f in range(n * width, (n + 2 * drawn) * width, LANES):
            store(d_theta, f, none)
        for r in range(n, n + 2 * drawn):
            d_theta[r, factors + 1] = STEP
        slots[:] = -1
        places[:length] = -1
        fill_gaps(avoid, avoid_ptr[u], avoided, gaps)

        for t in range(drawn):
            # a triple of K_u: i from the history, j from what is not avoided, both uniform
            bits = draw(key, 2 * t)
            place, k = below(bits, length), below_low(bits, items - avoided)
            i, j = np.uint32(history[start + place]), np.uint32(k + count_gaps(gaps, avoided, k))

            # the rows of their updates: j's by a hash table over the negatives drawn so far, i's by
            # its place in the history
            slot = first_slot(j) & mask
            row = slots[slot]
            while row >= 0 and item[row] != j:
                slot = (slot + ONE) & mask
                row = slots[slot]
            row_j = np.uint32(row if row >= 0 else n)
            slots[slot], item[row_j] = row_j, j
            n += row_j == n
            row_i, chance = np.uint32(kept), pi[start + place if personal else 0]
            if (
                chance >= 1 or uniform(draw(key, 2 * t + 1)) < chance
            ):  # 3. Transmission: pi lets this one through
                row_i = np.uint32(places[place] if places[place] >= 0 else n)
                places[place], item[row_i] = row_i, i
                n += row_i == n

            # 2. Federated Optimization
            at_i, at_j = np.int64(i) * factors, np.int64(j) * factors
            to_i, to_j = np.int64(row_i) * width, np.int64(row_j) * width
            products = none
            for f in range(0, factors, LANES):
                q_i, q_j = load(q, at_i + f, factors - f), load(q, at_j + f, factors - f)
                products = products + load(p_u, f) * (q_i - q_j)
            x_uij = b[i] - b[j] + sum_of(products)  # (4)
            slope = logistic(-x_uij)  # (3): e^-x / (1 + e^-x)
            d = every(slope)
            for f in range(0, factors, LANES):
                p_f, q_i, q_j = (
                    load(p_u, f),
                    load(q, at_i + f, factors - f),
                    load(q, at_j + f, factors - f),
                )
                store(
                    d_theta, to_i + f, load(d_theta, to_i + f) + (d * p_f - reg_positive * q_i)
                )  # (5), theta = q_i
                store(
                    d_theta, to_j + f, load(d_theta, to_j + f) - (d * p_f + reg_negative * q_j)
                )  # (5), theta = q_j
                step = d * (q_i - q_j) - reg_user * p_f  # (5), theta = p_u
                if per_triple:
                    store(p_u, f, p_f + alpha * step)  # (6) at once, as run
                else:
                    store(dp_u, f, load(dp_u, f) + step)
            d_theta[row_i, factors] += slope  # (5), theta = b_i
            d_theta[row_j, factors] -= slope  # (5), theta = b_j

        ptr[u - low + 1] = n
        for f in range(0, factors, LANES):
            store(
                p_u, f, load(p_u, f) + alpha * load(dp_u, f)
            )  # (6), as printed (the sum is 0 as run)
            store(dp_u, f, none)
        for f in range(factors):
            p[u, f] = p_u[0, f]
    return n


# ---- cohorts, and the server's step --------------------------------------------------------------


@njit(cache=True, nogil=True)
def _local_sum(
    theta: FPLServer,
    p: Float32Array,
    data: _Data,
    together: int,
    numbers: _Numbers,
    room: _FPLRoom,
    table: Int64Array,
) -> int:
    """All devices, `together` at a time, and their updates added to the sum; returns the rows sent,
    -1 if a value cannot be added.
    """
    rows, ok = 0, True
    for low in range(0, len(p), together):
        n = _local(theta, p, data, low, min(low + together, len(p)), numbers, room)
        ok &= add_rows(room.item[:n], room.rows, table)
        rows += n
    return rows if ok else -1


@njit(cache=True, inline="always")
def _moved(theta: np.float32, total: int | np.signedinteger[Any], alpha: np.float32) -> np.float32:
    """theta := theta + alpha * total, which is a sum of updates in fixed point."""
    return theta + alpha * np.float32(total * STEP)  # (7)


@njit(cache=True, nogil=True)
def _aggregate(q: Float32Array, b: Float32Array, table: Int64Array, alpha: np.float32) -> None:
    """(7) in place, for the items that somebody sent. table: the sums [q | b | senders]."""
    factors = q.shape[1]
    for k in range(len(b)):
        if table[k, factors + 1] > 0:
            for f in range(factors):
                q[k, f] = _moved(q[k, f], table[k, f], alpha)
            b[k] = _moved(b[k], table[k, factors], alpha)


@njit(cache=True, nogil=True)
def _solo(
    theta: FPLServer,
    p: Float32Array,
    data: _Data,
    key: np.uint64,
    start: int,
    stop: int,
    numbers: _Numbers,
    room: _FPLRoom,
) -> int:
    """Rounds start .. stop - 1 with one device each, in place; returns the rows sent. The sums are
    fixed point as everywhere.
    """
    total, q, b, item, d_theta, factors = 0, theta.q, theta.b, room.item, room.rows, p.shape[1]
    for number in range(start, stop):
        u = one_of(select_key(key, number), len(p))
        data.keys[u] = fold(local_key(key, number), u)
        n = _local(theta, p, data, u, u + 1, numbers, room)
        for r in range(n):
            k = item[r]
            for f in range(factors):
                q[k, f] = _moved(q[k, f], np.int64(np.rint(d_theta[r, f] * SCALE)), numbers.alpha)
            b[k] = _moved(b[k], np.int64(np.rint(d_theta[r, factors] * SCALE)), numbers.alpha)
        total += n
    return total


# ---- 6.3: communication cost ---------------------------------------------------------------------


def communication_cost_per_epoch(fpl: FPL, catalogue: Catalogue) -> float:
    """Communication cost per epoch, CCE = rpe |U-| (|I| + T (1 + pi)), in exchanged vectors; with a
    Choice, pi is its default.
    """
    own = fpl.configured(catalogue)
    pi = own.pi.default if isinstance(own.pi, Choice) else own.pi
    return own.rounds_an_epoch(catalogue) * own.cohort * (catalogue.items + own.triples * (1 + pi))


def total_communication_cost(fpl: FPL, catalogue: Catalogue, epochs: float) -> float:
    """Communication cost of a training, TCC = CCE x epochs (table 4), in exchanged vectors."""
    return communication_cost_per_epoch(fpl, catalogue) * epochs


ALGORITHMS = {
    "fpl": FPL,
    "sfpl": partial(FPL, cohort=1, triples=1),
    "sfpl+": partial(FPL, cohort=1, triples=0),
    "pfpl": partial(FPL, cohort=0, triples=1),
    "pfpl+": partial(FPL, cohort=0, triples=0),
}
