"""FPL, Federated Pair-wise Learning.

V. W. Anelli, Y. Deldjoo, T. Di Noia, A. Ferrara, F. Narducci, "User-controlled federated matrix factorization for recommender
systems", Journal of Intelligent Information Systems (2022); short version: SAC 2021. Read this file beside section 4.
"As run" marks what the authors' program (sisinflab/FedBPR) does where the text says something else or nothing.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Annotated, ClassVar, Literal, NamedTuple, Self, final

import numpy as np
from numba import njit
from pydantic import Field

from ..core.keys import below, draw, fold, folds, local_key, normals, select_key, uniform
from ..core.protocols import Catalogue, Disclosed, Histories
from ..core.sampling import cohort, one_of
from ..core.settings import Settings
from ..core.types import Float32Array, Int32Array, Int64Array, UInt64Array
from ..core.update import STEP, Total, Update
from ..models import bpr_mf
from ..models.triples import ONE, WINDOW, below_low, first_slot, slots_for
from ..privacy.choice import Choice


class Server(NamedTuple):
    """Definition 4, the global model. q: item factors float32 [items, F]; b: item biases float32 [items]. It is also what a device receives."""

    q: Float32Array
    b: Float32Array


class Devices(NamedTuple):
    """Definition 5, the local models of m devices. p: user factors float32 [m, F]. They never leave."""

    p: Float32Array


@final
class FPL(Settings):
    """Federated pair-wise learning: matrix factorisation by BPR in which each user decides (pi) which positive updates are sent."""

    factors: int = Field(50, ge=1, le=4096, description="F, the length of p_u and q_i")
    learning_rate: float = Field(0.05, gt=0, le=10, description="alpha of eq. 6 and 7")
    pi: Annotated[float, Field(ge=0, le=1)] | Choice = Field(
        1.0,
        description="probability that the update of a consumed item is sent: a number, or a Choice per user or (user, item); @file.csv on the command line",
    )
    cohort: int = Field(0, ge=0, description="|U-|, devices in a round; 0 = all")
    triples: int = Field(85, ge=0, description="T, triples a device draws in a round; 0 = X+ / |U|")
    epochs: int = Field(60, ge=1, description="training length when the number of rounds is not given")
    rounds_per_epoch: Literal["printed", "run"] = Field(
        "printed",
        description="printed: X+ / (|U-| T), so that an epoch is X+ triples; run: X+ / |U-| whatever T, as the authors' program has it",
    )
    user_step: Literal["triple", "once"] = Field(
        "triple", description="when p_u moves: after each triple (as run), or once with the summed update (eq. 6 as printed)"
    )
    reg_user: float | None = Field(None, ge=0, description="lambda of p_u; default learning_rate / 20")
    reg_positive: float | None = Field(None, ge=0, description="lambda of q_i; default learning_rate / 20")
    reg_negative: float | None = Field(
        None, ge=0, description="lambda of q_j; default learning_rate / 200 (biases are not regularised, as run)"
    )
    init_std: float = Field(0.1, ge=0, description="standard deviation of the first p, q, b")

    disclosure: ClassVar[tuple[Disclosed, ...]] = (
        Disclosed(
            "q",
            "[rows, F] float32",
            "each round: a row for every drawn negative; for a drawn positive with probability pi",
            "at any pi, the rows of negatives can be solved for p_u and for the score of the hidden positive (privacy research A-MATCH); with pi > 0 "
            "the sign of b's update names consumed items. Seen singly, the history is recoverable; summed over a cohort it is not row by row",
        ),
        Disclosed("b", "[rows] float32", "with every row of q", "its sign tells a positive from a negative"),
    )

    # ---- 5.2: configurations -----------------------------------------------------------------------------------------------

    def configured(self, catalogue: Catalogue) -> Self:
        """The same settings with |U-| and T as numbers for this federation: 0 becomes |U| and X+ / |U|."""
        devices = min(self.cohort, catalogue.users) or catalogue.users
        triples = self.triples or max(1, catalogue.interactions // max(1, catalogue.users))
        return self.model_copy(update={"cohort": devices, "triples": triples})

    def rounds_an_epoch(self, catalogue: Catalogue) -> int:
        """rpe of section 5.2, by either reading."""
        own = self.configured(catalogue)
        triples = own.triples if self.rounds_per_epoch == "printed" else 1
        return max(1, round(catalogue.interactions / (own.cohort * triples)))

    def default_rounds(self, catalogue: Catalogue) -> int:
        """Rounds of `epochs` epochs."""
        return self.epochs * self.rounds_an_epoch(catalogue)

    def update_bytes(self, catalogue: Catalogue) -> int:
        """The most a device sends in a round: 2 T rows."""
        return 2 * self.configured(catalogue).triples * self._row_bytes

    @property
    def _row_bytes(self) -> int:
        return 4 + 4 * self.factors + 4  # item id, q, b

    # ---- 4.1: architecture -------------------------------------------------------------------------------------------------

    def init_server(self, catalogue: Catalogue, key: np.uint64) -> Server:
        """Theta_S = <Q, b>, drawn from N(0, init_std^2) (as run)."""
        drawn = normals(folds(key, np.arange(catalogue.items)), self.factors + 1, self.init_std)
        return Server(np.ascontiguousarray(drawn[:, :-1]), np.ascontiguousarray(drawn[:, -1]))

    def init_devices(self, users: Int64Array, key: np.uint64) -> Devices:
        """Theta_u = <p_u>, drawn from N(0, init_std^2) on the device of u."""
        return Devices(normals(folds(key, users), self.factors, self.init_std))

    # ---- 4.2: training procedure -------------------------------------------------------------------------------------------

    def select(self, catalogue: Catalogue, key: np.uint64) -> Int64Array:
        """1. Distribution to Devices: S randomly selects U-."""
        return cohort(key, self.configured(catalogue).cohort, catalogue.users)

    def download(self, server: Server) -> Server:
        """1. ... and delivers to them the current model."""
        return server

    def local(
        self, download: Server, devices: Devices, histories: Histories, users: Int64Array, key: np.uint64
    ) -> tuple[Devices, Update]:
        """2. Federated Optimization and 3. Transmission to Server, for the devices of `users`."""
        p, sent = devices.p.copy(), _Sent.room(len(users), self)
        ptr = _cohort(
            download, p, histories, self._pi(users, histories), folds(key, users), self._numbers(), sent, _Work.room(self, _longest(histories))
        )  # fmt: skip
        rows = {"q": sent.dq[: ptr[-1]], "b": sent.db[: ptr[-1]]}
        return Devices(p), Update(ptr, sent.item[: ptr[-1]], rows, {}, np.ones(len(users), np.float32))

    def aggregate(self, server: Server, total: Total) -> Server:
        """4. Global Aggregation."""
        q, b = server.q.copy(), server.b.copy()
        _aggregate(q, b, total.rows["q"], total.rows["b"], total.count, np.float32(self.learning_rate))
        return Server(q, b)

    def score(self, download: Server, devices: Devices, histories: Histories) -> Float32Array:
        """x_ui of eq. 1 for every item, on the device: float32 [m, items]."""
        return bpr_mf.scores(devices.p, download.q, download.b)

    # ---- a run of rounds with one device each, compiled: sFPL needs X+ of them an epoch ---------------------------------------

    def solo_rounds(
        self, server: Server, devices: Devices, histories: Histories, rounds: range, key: np.uint64
    ) -> tuple[Server, Devices, int, int]:
        """`rounds` (cohort 1) of select, local and aggregate over all users' devices; the same bits as one round at a time.

        Returns the new server, the new devices, and how many rows and bytes were sent.
        """
        server, devices = Server(server.q.copy(), server.b.copy()), Devices(devices.p.copy())
        pi = self._pi(np.arange(len(devices.p)), histories)
        rows = _solo(
            server,
            devices.p,
            histories,
            pi,
            key,
            rounds.start,
            rounds.stop,
            self._numbers(),
            _Sent.room(1, self),
            _Work.room(self, _longest(histories)),
        )
        return server, devices, rows, rows * self._row_bytes

    # ---- the numbers the compiled part takes ---------------------------------------------------------------------------------

    def _pi(self, users: Int64Array, histories: Histories) -> Float32Array:
        choice = self.pi if isinstance(self.pi, Choice) else Choice(self.pi)
        return choice.of(users, histories)

    def _numbers(self) -> _Numbers:
        alpha = self.learning_rate
        regs = (self.reg_user, alpha / 20), (self.reg_positive, alpha / 20), (self.reg_negative, alpha / 200)
        reg_user, reg_positive, reg_negative = (np.float32(default if reg is None else reg) for reg, default in regs)
        return _Numbers(self.triples, np.float32(alpha), reg_user, reg_positive, reg_negative, self.user_step == "triple")


class _Numbers(NamedTuple):
    """T, alpha, the three lambdas, and whether p_u moves after each triple."""

    triples: int
    alpha: np.float32
    reg_user: np.float32
    reg_positive: np.float32
    reg_negative: np.float32
    per_triple: bool


class _Sent(NamedTuple):
    """Room for the rows of Delta Theta_S,u: at most 2 T a device."""

    item: Int32Array
    dq: Float32Array
    db: Float32Array

    @staticmethod
    def room(devices: int, fpl: FPL) -> _Sent:
        n = devices * 2 * fpl.triples
        return _Sent(np.empty(n, np.int32), np.empty((n, fpl.factors), np.float32), np.empty(n, np.float32))


class _Work(NamedTuple):
    """A device's scratch memory. i, j: items of each triple; row_i, row_j: the rows their updates go to (-1 = not sent);
    places: the row of each consumed item (-1 = none yet); slots: hash table over the rows of negatives; dp: the summed update of p_u."""

    i: Int32Array
    j: Int32Array
    row_i: Int32Array
    row_j: Int32Array
    places: Int32Array
    slots: Int32Array
    dp: Float32Array

    @staticmethod
    def room(fpl: FPL, longest: int) -> _Work:
        i, j, row_i, row_j = (np.empty(fpl.triples, np.int32) for _ in range(4))
        places = np.empty(longest, np.int32)
        return _Work(i, j, row_i, row_j, places, slots_for(fpl.triples), np.zeros(fpl.factors, np.float32))


def _longest(histories: Histories) -> int:
    return int(np.diff(histories.ptr).max(initial=0))


class _Own(NamedTuple):
    """One device's private data: x_u as the items it consumed, what it never draws as a negative, and pi of each consumed item."""

    history: Int32Array
    avoid: Int32Array
    pi: Float32Array


# ---- section 4.2 on one device, in plain loops ---------------------------------------------------------------------------------
# One function each and no row views inside the loops: numba would count references to every array handed to a helper, with an
# atomic instruction each, and that costs more than the arithmetic.


@njit(cache=True, nogil=True)
def _device(theta: Server, p: Float32Array, own: _Own, key: np.uint64, numbers: _Numbers, sent: _Sent, work: _Work) -> int:
    """T triples against the received Q, b; writes the rows to send and returns how many. `p` moves in place."""
    q, b, dq, db, dp = theta.q, theta.b, sent.dq, sent.db, work.dp
    of_i, of_j, of_row_i, of_row_j = work.i, work.j, work.row_i, work.row_j
    alpha, reg_user, reg_positive, reg_negative = numbers.alpha, numbers.reg_user, numbers.reg_positive, numbers.reg_negative
    factors, whole, zero = len(p), len(p) & ~3, np.float32(0)
    if len(own.history) == 0 or len(own.avoid) >= len(b):  # K_u is empty: no positive, or no negative
        return 0
    n = _draw(len(b), own, key, numbers.triples, sent.item, work)
    dq[:n] = zero
    db[:n] = zero
    dp[:] = zero
    for t in range(numbers.triples):
        i, j, row_i, row_j = of_i[t], of_j[t], of_row_i[t], of_row_j[t]
        s0, s1, s2, s3 = zero, zero, zero, zero  # four partial sums in a fixed order: the additions need not wait for each other
        for f in range(0, whole, 4):
            s0 += p[f] * (q[i, f] - q[j, f])
            s1 += p[f + 1] * (q[i, f + 1] - q[j, f + 1])
            s2 += p[f + 2] * (q[i, f + 2] - q[j, f + 2])
            s3 += p[f + 3] * (q[i, f + 3] - q[j, f + 3])
        for f in range(whole, factors):
            s0 += p[f] * (q[i, f] - q[j, f])
        x_uij = b[i] - b[j] + ((s0 + s1) + (s2 + s3))  # (4)
        d = np.float32(1.0 / (1.0 + math.exp(min(np.float64(x_uij), 80.0))))  # (3): e^-x / (1 + e^-x)
        db[row_j] -= d  # (5), theta = b_j
        for f in range(factors):
            dq[row_j, f] -= d * p[f] + reg_negative * q[j, f]  # (5), theta = q_j
        if row_i >= 0:  # 3. Transmission: pi let this one through
            db[row_i] += d  # (5), theta = b_i
            for f in range(factors):
                dq[row_i, f] += d * p[f] - reg_positive * q[i, f]  # (5), theta = q_i
        if numbers.per_triple:
            for f in range(factors):
                p[f] += alpha * (d * (q[i, f] - q[j, f]) - reg_user * p[f])  # (5), theta = p_u, and (6) at once, as run
        else:
            for f in range(factors):
                dp[f] += d * (q[i, f] - q[j, f]) - reg_user * p[f]  # (5), theta = p_u
    for f in range(factors):
        p[f] += alpha * dp[f]  # (6), as printed (0 as run)
    return n


@njit(cache=True, nogil=True)
def _draw(items: int, own: _Own, key: np.uint64, triples: int, item: Int32Array, work: _Work) -> int:
    """T random triples from K_u, and which rows will be sent: every j, and i with probability pi. Returns the number of rows.

    i is uniform over the history, with replacement. j is uniform over what is not avoided, without rejection: it is the k-th such
    item, which is k plus the number of m with avoid[m] - m <= k (avoid[m] - m items before avoid[m] are not avoided).
    """
    history, avoid, pi, slots, places = own.history, own.avoid, own.pi, work.slots, work.places
    of_i, of_j, of_row_i, of_row_j = work.i, work.j, work.row_i, work.row_j
    n, mask = 0, np.uint64(len(slots) - 1)
    slots[:] = -1
    places[: len(history)] = -1
    for t in range(triples):
        bits = draw(key, 2 * t)
        place, k = below(bits, len(history)), below_low(bits, items - len(avoid))
        low, length = 0, len(avoid)
        while length > WINDOW:  # bisection as far as it is faster than counting, which needs no jumps
            half = length >> 1
            low += half if avoid[low + half - 1] - (low + half - 1) <= k else 0
            length -= half
        before = low
        for m in range(np.uint64(low), np.uint64(low + length)):  # unsigned: numba then need not look for negative indices
            before += np.int64(avoid[m]) - np.int64(m) <= k
        i, j = history[place], np.int32(k + before)

        slot = first_slot(j) & mask  # the row of j: an open-addressing hash table over the negatives drawn so far
        row_j = slots[slot]
        while row_j >= 0 and item[row_j] != j:
            slot = (slot + ONE) & mask
            row_j = slots[slot]
        row_j = row_j if row_j >= 0 else n
        slots[slot], item[row_j] = row_j, j
        n += row_j == n

        row_i = -1
        if pi[place] >= 1 or uniform(draw(key, 2 * t + 1)) < pi[place]:
            row_i = places[place] if places[place] >= 0 else n
            places[place], item[row_i] = row_i, i
            n += row_i == n
        of_i[t], of_j[t], of_row_i[t], of_row_j[t] = i, j, row_i, row_j
    return n


# ---- cohorts, and the server's step --------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _cohort(
    theta: Server,
    p: Float32Array,
    data: Histories,
    pi: Float32Array,
    keys: UInt64Array,
    numbers: _Numbers,
    sent: _Sent,
    work: _Work,
) -> Int64Array:
    """`_device` for each device in turn; returns their row ranges in `sent`, int64 [m + 1]."""
    ptr = np.zeros(len(keys) + 1, np.int64)
    for u in range(len(keys)):
        room = _Sent(sent.item[ptr[u] :], sent.dq[ptr[u] :], sent.db[ptr[u] :])
        ptr[u + 1] = ptr[u] + _device(theta, p[u], _own(data, pi, u), keys[u], numbers, room, work)
    return ptr


@njit(cache=True, inline="always")
def _own(data: Histories, pi: Float32Array, u: int) -> _Own:
    low, high = data.ptr[u], data.ptr[u + 1]
    return _Own(data.item[low:high], data.avoid[data.avoid_ptr[u] : data.avoid_ptr[u + 1]], pi[low:high])


@njit(cache=True, nogil=True)
def _aggregate(
    q: Float32Array, b: Float32Array, sum_q: Int64Array, sum_b: Int64Array, senders: Int64Array, alpha: np.float32
) -> None:
    """(7) in place: theta += alpha * sum, for the items that somebody sent."""
    for k in range(len(b)):
        if senders[k] > 0:
            for f in range(q.shape[1]):
                q[k, f] += alpha * np.float32(sum_q[k, f] * STEP)
            b[k] += alpha * np.float32(sum_b[k] * STEP)


@njit(cache=True, nogil=True)
def _solo(
    theta: Server, p: Float32Array, data: Histories, pi: Float32Array, key: np.uint64, start: int, stop: int, numbers: _Numbers,
    sent: _Sent, work: _Work,
) -> int:  # fmt: skip
    """Rounds start .. stop - 1 with one device each, in place; returns the rows sent. The sums are fixed point as everywhere."""
    total = 0
    for number in range(start, stop):
        u = one_of(select_key(key, number), len(p))
        n = _device(theta, p[u], _own(data, pi, u), fold(local_key(key, number), u), numbers, sent, work)
        for r in range(n):
            k = sent.item[r]
            for f in range(p.shape[1]):
                theta.q[k, f] += numbers.alpha * np.float32(np.int64(np.rint(sent.dq[r, f] * np.float32(65536.0))) * STEP)  # (7)
            theta.b[k] += numbers.alpha * np.float32(np.int64(np.rint(sent.db[r] * np.float32(65536.0))) * STEP)  # (7)
        total += n
    return total


# ---- 6.3: communication cost ---------------------------------------------------------------------------------------------------


def communication_cost_per_epoch(fpl: FPL, catalogue: Catalogue) -> float:
    """CCE = rpe |U-| (|I| + T (1 + pi)), in exchanged vectors; with a Choice, pi is its default."""
    own = fpl.configured(catalogue)
    pi = own.pi.default if isinstance(own.pi, Choice) else own.pi
    return own.rounds_an_epoch(catalogue) * own.cohort * (catalogue.items + own.triples * (1 + pi))


def total_communication_cost(fpl: FPL, catalogue: Catalogue, epochs: float) -> float:
    """TCC = CCE x epochs (table 4)."""
    return communication_cost_per_epoch(fpl, catalogue) * epochs


ALGORITHMS = {
    "fpl": FPL,
    "sfpl": partial(FPL, cohort=1, triples=1),
    "sfpl+": partial(FPL, cohort=1, triples=0),
    "pfpl": partial(FPL, cohort=0, triples=1),
    "pfpl+": partial(FPL, cohort=0, triples=0),
}
