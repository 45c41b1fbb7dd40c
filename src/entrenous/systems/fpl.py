"""FPL, Federated Pair-wise Learning.

V. W. Anelli, Y. Deldjoo, T. Di Noia, A. Ferrara, F. Narducci, "User-controlled federated matrix
factorization for recommender systems", Journal of Intelligent Information Systems (2022); short
version: SAC 2021. Read this file with section 4 of the paper. "As run" marks what the authors'
program (sisinflab/FedBPR) does where the text says something else or nothing."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self, final

import numpy as np
from pydantic import Field

from ..core.compiling import njit
from ..core.contract.declarations import SentArray, Traits, axes, rows
from ..core.contract.protocols import Catalogue, Histories
from ..core.contract.settings import Settings
from ..core.contract.update import STEP, Total, Update, add_devices, add_rows, tabled
from ..core.errors import NonFiniteError
from ..core.keys import below, draw, fold, folds, local_key, normals, select_key, uniform
from ..core.lanes.memory import padded, sealed, zeros
from ..core.lanes.simd import LANES, SCALE, every, load, store, sum_of
from ..core.types import Float32Array, Int32Array, Int64Array, UInt64Array
from ..core.values import FEW_PEOPLE, MANY_PEOPLE, SettingValue
from ..kernels import bpr_mf
from ..kernels.logistic import logistic
from ..kernels.sampling import (
    ONE,
    below_low,
    cohort,
    count_gaps,
    fill_gaps,
    first_slot,
    one_of,
    slots_for,
)
from ..privacy.choice import Choice

# Bytes of updates that are made before they are added up: a part of a core's second-level cache,
# which Q needs too.
CACHE = 1 << 18


class FPLServer(NamedTuple):
    """The global model (definition 4), which a device receives whole."""

    q: Annotated[Float32Array, axes("items", "factors")]
    """float32 [items, F], item factors."""
    b: Annotated[Float32Array, axes("items")]
    """float32 [items], item biases."""


class FPLDevices(NamedTuple):
    """The local models of m devices (definition 5)."""

    p: Annotated[Float32Array, axes("factors")]
    """float32 [m, F], user factors. They never leave."""


@final
class FPL(Settings):
    """Federated pair-wise learning: matrix factorisation by BPR in which each user decides (pi)
    which positive updates are sent.
    """

    # The model and the step of gradient descent.
    factors: int = Field(80, ge=1, le=4096, description="F, the length of p_u and q_i")
    learning_rate: float = Field(0.05, gt=0, le=10, description="alpha of eq. 6 and 7")
    # Section 4.2: what a device sends, how many take part, how many triples each draws.
    pi: Annotated[float, Field(ge=0, le=1)] | Choice = Field(
        1.0,
        description=(
            "probability that the update of a consumed item is sent: a number, or a Choice per user"
            " or (user, item); @file.csv on the command line"
        ),
    )
    cohort: int = Field(0, ge=0, description="|U-|, devices in a round; 0 = all")
    triples: int = Field(0, ge=0, description="T, triples a device draws in a round; 0 = X+ / |U|")
    # Section 5.2: training length.
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
    # Readings of the text and of the authors' program.
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
    traits: ClassVar[Traits] = Traits(decided_by_user=("pi",))

    # ---- 5.2: configurations ---------------------------------------------------------------------

    def configured(self, catalogue: Catalogue) -> Self:
        """Returns a copy of the settings with |U-| and T as numbers for this federation: 0 becomes
        |U| and X+ / |U|.
        """
        devices = min(self.cohort, catalogue.users) or catalogue.users
        triples = self.triples or max(1, catalogue.interactions // max(1, catalogue.users))
        return self.model_copy(update={"cohort": devices, "triples": triples})

    def rounds_an_epoch(self, catalogue: Catalogue) -> int:
        """Returns the rounds per epoch, rpe of section 5.2, by the reading `rounds_per_epoch`."""
        configured = self.configured(catalogue)
        triples = configured.triples if self.rounds_per_epoch == "printed" else 1
        return max(1, round(catalogue.interactions / (configured.cohort * triples)))

    def default_rounds(self, catalogue: Catalogue) -> int:
        """Returns the number of training rounds if none is asked for: those of `epochs` epochs."""
        return self.epochs * self.rounds_an_epoch(catalogue)

    def search_space(self) -> dict[str, str]:
        """Returns the ranges that a search of settings draws from by default."""
        return {
            "factors": "10..160:log",
            "learning_rate": "0.005..0.5:log",
            "init_std": "0.02..0.2:log",
        }

    def private_set(self, users: int) -> dict[str, SettingValue]:
        """Returns the settings that were tested together under the profile `private`, for parallel
        training with all triples.
        """
        if self.cohort == 1 or self.triples == 1:
            return {}
        if users >= MANY_PEOPLE:
            return {"factors": 16, "epochs": 46, "cohort": 0}
        # A model of few people tells the more of them the larger it is.
        if users >= FEW_PEOPLE:
            return {"factors": 8, "epochs": 23, "cohort": 0}
        return {"factors": 8, "epochs": 35, "cohort": 0, "learning_rate": 0.1}

    def sizes(self, catalogue: Catalogue) -> dict[str, int]:
        """Returns the sizes of the declared arrays: the most rows that a device sends in a round,
        2 T.
        """
        return {"rows": 2 * self.configured(catalogue).triples}

    @property
    def _row_bytes(self) -> int:
        # Item id, q and b.
        return 4 + 4 * self.factors + 4

    # ---- 4.1: architecture -----------------------------------------------------------------------

    def init_server(self, catalogue: Catalogue, key: np.uint64) -> FPLServer:
        """Returns the initial global model Theta_S = <Q, b>, drawn from N(0, init_std^2) (as
        run).
        """
        drawn = normals(folds(key, np.arange(catalogue.items)), self.factors + 1, self.init_std)
        return FPLServer(np.ascontiguousarray(drawn[:, :-1]), np.ascontiguousarray(drawn[:, -1]))

    def init_devices(self, users: Int64Array, catalogue: Catalogue, key: np.uint64) -> FPLDevices:
        """Returns the initial local models Theta_u = <p_u>, each drawn from N(0, init_std^2) on the
        device of u.
        """
        return FPLDevices(normals(folds(key, users), self.factors, self.init_std))

    # ---- 4.2: training procedure -----------------------------------------------------------------

    def select(self, server: FPLServer, catalogue: Catalogue, key: np.uint64) -> Int64Array:
        """Selects the devices U- of a round at random, as S does (step 1, Distribution to
        Devices).
        """
        return cohort(key, self.configured(catalogue).cohort, catalogue.users)

    def download(self, server: FPLServer) -> FPLServer:
        """Returns the current model, which S delivers to the selected devices (step 1, Distribution
        to Devices).
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
        """Trains the devices of `users` and returns what they send (step 2, Federated Optimization,
        and step 3, Transmission to Server)."""
        m = len(users)
        p = devices.p.copy()
        data = self._data(users, histories, key)
        room = self._room(m, histories)
        sent = _local(_sealed(download), p, data, 0, m, self.numbers(), room)
        rows = {
            "q": room.rows[:sent, : self.factors].copy(),
            "b": room.rows[:sent, self.factors].copy(),
        }
        update = Update(room.ptr, room.item[:sent], rows, {}, np.ones(m, np.float32))
        return FPLDevices(p), update

    def local_sum(
        self,
        download: FPLServer,
        devices: FPLDevices,
        histories: Histories,
        users: Int64Array,
        key: np.uint64,
        total: Total,
    ) -> tuple[FPLDevices, Total, int, int]:
        """Trains as `local` does, and adds the updates to `total` while they are in the cache: the
        same bits. Returns how many rows and bytes were sent, too."""
        m = len(users)
        p = devices.p.copy()
        total, table = tabled(total)
        together = self._together(m)
        data = self._data(users, histories, key)
        room = self._room(together, histories)
        sent = _local_sum(_sealed(download), p, data, together, self.numbers(), room, table)
        if sent < 0:
            raise NonFiniteError(
                "update: a value is not finite or beyond +-32768; the model is unchanged"
            )
        # The rows are in the table; only the number of devices remains to be added.
        no_rows = np.zeros(m + 1, np.int64), np.empty(0, np.int32)
        total = add_devices(total, Update(*no_rows, {}, {}, np.ones(m, np.float32)))
        return FPLDevices(p), total, sent, sent * self._row_bytes

    def aggregate(self, server: FPLServer, total: Total) -> FPLServer:
        """Returns the new global model, which moves by the learning rate times the sum of the
        updates (eq. 7, step 4, Global Aggregation)."""
        q = server.q.copy()
        b = server.b.copy()
        _, table = tabled(total)
        _aggregate(q, b, table, np.float32(self.learning_rate))
        return FPLServer(q, b)

    def score(self, download: FPLServer, devices: FPLDevices, histories: Histories) -> Float32Array:
        """Returns the scores x_ui (eq. 1) of every item, computed on the device, float32 [m,
        items].
        """
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
        server = FPLServer(server.q.copy(), server.b.copy())
        devices = FPLDevices(devices.p.copy())
        data = self._data(np.arange(len(devices.p)), histories, key)
        room = self._room(1, histories)
        sent = _solo(server, devices.p, data, key, rounds.start, rounds.stop, self.numbers(), room)
        return server, devices, sent, sent * self._row_bytes

    # ---- the numbers and the memory that the compiled part takes ---------------------------------

    def _data(self, users: Int64Array, histories: Histories, key: np.uint64) -> FPLData:
        if isinstance(self.pi, Choice):
            pi = self.pi.of(users, histories)
        else:
            pi = np.array([self.pi], np.float32)
        return FPLData(
            histories.ptr,
            histories.item,
            histories.avoid_ptr,
            histories.avoid,
            pi,
            folds(key, users),
        )

    def numbers(self) -> FPLNumbers:
        """Returns the constants of local training; a lambda that is not set has its default."""
        alpha = self.learning_rate
        reg_user = alpha / 20 if self.reg_user is None else self.reg_user
        reg_positive = alpha / 20 if self.reg_positive is None else self.reg_positive
        reg_negative = alpha / 200 if self.reg_negative is None else self.reg_negative
        return FPLNumbers(
            triples=self.triples,
            alpha=np.float32(alpha),
            reg_user=np.float32(reg_user),
            reg_positive=np.float32(reg_positive),
            reg_negative=np.float32(reg_negative),
            per_triple=self.user_step == "triple",
        )

    def _together(self, devices: int) -> int:
        """Returns how many devices' updates fill a core's second-level cache."""
        bytes_of_one = 2 * self.triples * 4 * padded(self.factors + 2)
        return max(1, min(devices, CACHE // max(1, bytes_of_one)))

    def _room(self, devices: int, histories: Histories) -> FPLRoom:
        longest = int(np.diff(histories.ptr).max(initial=0))
        most_avoided = int(np.diff(histories.avoid_ptr).max(initial=0))
        most_rows = 2 * devices * self.triples + 1
        return FPLRoom(
            ptr=np.zeros(devices + 1, np.int64),
            item=np.empty(most_rows, np.int32),
            rows=zeros(most_rows, padded(self.factors + 2)),
            p=zeros(1, padded(self.factors)),
            dp=zeros(1, padded(self.factors)),
            places=np.empty(longest, np.int32),
            slots=slots_for(self.triples),
            gaps=np.empty(most_avoided + LANES, np.int32),
        )


class FPLNumbers(NamedTuple):
    """Constants of local training."""

    triples: int
    """T."""
    alpha: np.float32
    reg_user: np.float32
    reg_positive: np.float32
    reg_negative: np.float32
    per_triple: bool
    """p_u moves after each triple, not once."""


class FPLData(NamedTuple):
    """The private data of m devices: `Histories` without what a triple does not need."""

    ptr: Int64Array
    item: Int32Array
    avoid_ptr: Int64Array
    avoid: Int32Array
    pi: Float32Array
    """float32, pi of each history row; or [1], the same for all."""
    keys: UInt64Array
    """uint64 [m], the key that each device draws from."""


class FPLRoom(NamedTuple):
    """Memory for the training of some devices. Rows of F numbers are padded to whole lanes."""

    ptr: Int64Array
    """int64 [devices + 1], where the rows of each device begin, as in an Update."""
    item: Int32Array
    """int32 [n], the item of each row; at most 2 T rows a device, and one more, the last, that
    takes what is not sent."""
    rows: Float32Array
    """float32 [n, F + 2, padded], Delta Theta_S,u: [update of q_i | of b_i | 1], the 1 in units of
    the fixed-point grid: what the row adds to the count of an item's senders."""
    p: Float32Array
    """float32 [1, F, padded], p_u."""
    dp: Float32Array
    """float32 [1, F, padded], the summed update of p_u."""
    places: Int32Array
    """int32, the row of each consumed item of a device, -1 = none yet."""
    slots: Int32Array
    """int32, a hash table over the negatives drawn (kernels/sampling.py): the row of each."""
    gaps: Int32Array
    """int32, for the draw of negatives (kernels/sampling.py)."""


def _sealed(server: FPLServer) -> FPLServer:
    """Returns the model as kernels take it: one layout and no right to write, so that each kernel
    is compiled once.
    """
    return FPLServer(sealed(server.q), sealed(server.b))


# ---- section 4.2, steps 2 and 3, compiled, on devices `low` to `high`, one after the other -------
#
# tests/algorithms/test_fpl.py has the same for one device in plain NumPy.
#
# Arrays are taken out of their tuples before the loops, and the loops are flat. Numba counts the
# references to an array that a loop takes out, hands on or slices, with one atomic instruction
# each; that would cost more than the arithmetic. Rows go LANES numbers at a time.


@njit(cache=True, nogil=True, error_model="numpy")
def _local(
    theta: FPLServer,
    p: Float32Array,
    data: FPLData,
    low: int,
    high: int,
    numbers: FPLNumbers,
    room: FPLRoom,
) -> int:
    """Trains each device on T triples against the received Q, b. Moves `p` in place, writes the
    rows to send to `room` and returns how many they are.
    """
    # the received model, and its rows as flat memory of `factors` numbers each
    q = theta.q
    b = theta.b
    items, factors = q.shape
    # the private data
    history = data.item
    history_ptr = data.ptr
    avoid = data.avoid
    avoid_ptr = data.avoid_ptr
    pi = data.pi
    keys = data.keys
    personal = len(pi) > 1
    # the rows to send; the last of them takes what is not sent
    ptr = room.ptr
    item = room.item
    d_theta = room.rows
    width = d_theta.shape[1]
    unsent = len(item) - 1
    # working memory of one device
    p_u = room.p
    dp_u = room.dp
    places = room.places
    slots = room.slots
    gaps = room.gaps
    mask = np.uint64(len(slots) - 1)
    # constants, the same number in every lane
    triples = numbers.triples
    per_triple = numbers.per_triple
    alpha = every(numbers.alpha)
    reg_user = every(numbers.reg_user)
    reg_positive = every(numbers.reg_positive)
    reg_negative = every(numbers.reg_negative)
    none = every(np.float32(0))

    n = 0
    for u in range(low, high):
        key = keys[u]
        start = history_ptr[u]
        length = history_ptr[u + 1] - start
        avoided = avoid_ptr[u + 1] - avoid_ptr[u]
        # K_u is empty without a positive or a negative.
        drawn = triples if length > 0 and avoided < items else 0

        # Load p_u, clear the rows that this device may send, forget the device before.
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
            # A triple of K_u: i from the history, j from what is not avoided, both uniform.
            bits = draw(key, 2 * t)
            place = below(bits, length)
            k = below_low(bits, items - avoided)
            i = np.uint32(history[start + place])
            j = np.uint32(k + count_gaps(gaps, avoided, k))

            # The row of j's update: a hash table knows the negatives drawn so far.
            slot = first_slot(j) & mask
            row = slots[slot]
            while row >= 0 and item[row] != j:
                slot = (slot + ONE) & mask
                row = slots[slot]
            row_j = np.uint32(row if row >= 0 else n)
            slots[slot] = row_j
            item[row_j] = j
            n += row_j == n

            # The row of i's update, by its place in the history.
            row_i = np.uint32(unsent)
            chance = pi[start + place if personal else 0]
            # 3. Transmission to Server: pi lets the positive update through.
            if chance >= 1 or uniform(draw(key, 2 * t + 1)) < chance:
                row_i = np.uint32(places[place] if places[place] >= 0 else n)
                places[place] = row_i
                item[row_i] = i
                n += row_i == n

            # 2. Federated Optimization: where the rows of q and of the updates begin
            at_i = np.int64(i) * factors
            at_j = np.int64(j) * factors
            to_i = np.int64(row_i) * width
            to_j = np.int64(row_j) * width
            products = none
            for f in range(0, factors, LANES):
                q_i = load(q, at_i + f, factors - f)
                q_j = load(q, at_j + f, factors - f)
                products = products + load(p_u, f) * (q_i - q_j)
            x_uij = b[i] - b[j] + sum_of(products)  # (4)
            slope = logistic(-x_uij)  # (3): e^-x / (1 + e^-x)
            d = every(slope)
            for f in range(0, factors, LANES):
                p_f = load(p_u, f)
                q_i = load(q, at_i + f, factors - f)
                q_j = load(q, at_j + f, factors - f)
                # (5), theta = q_i
                store(d_theta, to_i + f, load(d_theta, to_i + f) + (d * p_f - reg_positive * q_i))
                # (5), theta = q_j
                store(d_theta, to_j + f, load(d_theta, to_j + f) - (d * p_f + reg_negative * q_j))
                step = d * (q_i - q_j) - reg_user * p_f  # (5), theta = p_u
                if per_triple:
                    store(p_u, f, p_f + alpha * step)  # (6) at once, as run
                else:
                    store(dp_u, f, load(dp_u, f) + step)
            d_theta[row_i, factors] += slope  # (5), theta = b_i
            d_theta[row_j, factors] -= slope  # (5), theta = b_j

        ptr[u - low + 1] = n
        for f in range(0, factors, LANES):
            # (6), as printed; as run the sum is 0
            store(p_u, f, load(p_u, f) + alpha * load(dp_u, f))
            store(dp_u, f, none)
        for f in range(factors):
            p[u, f] = p_u[0, f]
    return n


# ---- cohorts, and the server's step --------------------------------------------------------------


@njit(cache=True, nogil=True)
def _local_sum(
    theta: FPLServer,
    p: Float32Array,
    data: FPLData,
    together: int,
    numbers: FPLNumbers,
    room: FPLRoom,
    table: Int64Array,
) -> int:
    """Trains all devices, `together` at a time, and adds their updates to the sums in `table`.
    Returns how many rows were sent, or -1 if a value cannot be added.
    """
    sent = 0
    finite = True
    for low in range(0, len(p), together):
        n = _local(theta, p, data, low, min(low + together, len(p)), numbers, room)
        finite &= add_rows(room.item[:n], room.rows, table)
        sent += n
    return sent if finite else -1


@njit(cache=True, inline="always")
def _moved(theta: np.float32, total: int | np.signedinteger[Any], alpha: np.float32) -> np.float32:
    """Returns theta + alpha * total. total: a sum of updates in fixed point."""
    return theta + alpha * np.float32(total * STEP)  # (7)


@njit(cache=True, nogil=True)
def _aggregate(q: Float32Array, b: Float32Array, table: Int64Array, alpha: np.float32) -> None:
    """Moves q and b by (7), for the items that somebody sent. table: int64 [items, F + 2], the sums
    [q | b | senders].
    """
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
    data: FPLData,
    key: np.uint64,
    start: int,
    stop: int,
    numbers: FPLNumbers,
    room: FPLRoom,
) -> int:
    """Runs the rounds start .. stop - 1 with one device each, and moves theta and p in place.
    Returns how many rows were sent.
    """
    q = theta.q
    b = theta.b
    item = room.item
    d_theta = room.rows
    factors = p.shape[1]
    sent = 0
    for number in range(start, stop):
        u = one_of(select_key(key, number), len(p))
        data.keys[u] = fold(local_key(key, number), u)
        n = _local(theta, p, data, u, u + 1, numbers, room)
        # (7), by way of the fixed point in which a server adds up
        for r in range(n):
            k = item[r]
            for f in range(factors):
                q[k, f] = _moved(q[k, f], np.int64(np.rint(d_theta[r, f] * SCALE)), numbers.alpha)
            b[k] = _moved(b[k], np.int64(np.rint(d_theta[r, factors] * SCALE)), numbers.alpha)
        sent += n
    return sent


ALGORITHMS = {
    "fpl": FPL,
    "sfpl": partial(FPL, cohort=1, triples=1),
    "sfpl+": partial(FPL, cohort=1, triples=0),
    "pfpl": partial(FPL, cohort=0, triples=1),
    "pfpl+": partial(FPL, cohort=0, triples=0),
}
