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
from ..models.triples import below_low, negative, row_of, slots_for
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
            download, p, histories, self._pi(users, histories), folds(key, users), self._numbers(), sent, _Work.room(self)
        )  # fmt: skip
        rows = {"q": sent.dq[: ptr[-1]], "b": sent.db[: ptr[-1]]}
        return Devices(p), Update(ptr, sent.item[: ptr[-1]], rows, {}, np.ones(len(users), np.float32))

    def aggregate(self, server: Server, total: Total) -> Server:
        """4. Global Aggregation."""
        q, b = server.q.copy(), server.b.copy()
        _aggregate(q, b, total.rows["q"], total.rows["b"], np.float32(self.learning_rate))
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
            _Work.room(self),
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
    slots: hash table over the rows; dp: the summed update of p_u."""

    i: Int32Array
    j: Int32Array
    row_i: Int32Array
    row_j: Int32Array
    slots: Int32Array
    dp: Float32Array

    @staticmethod
    def room(fpl: FPL) -> _Work:
        i, j, row_i, row_j = (np.empty(fpl.triples, np.int32) for _ in range(4))
        return _Work(i, j, row_i, row_j, slots_for(2 * fpl.triples), np.zeros(fpl.factors, np.float32))


class _Own(NamedTuple):
    """One device's private data: x_u as the items it consumed, what it never draws as a negative, and pi of each consumed item."""

    history: Int32Array
    avoid: Int32Array
    pi: Float32Array


# ---- section 4.2 on one device, in plain loops ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _device(theta: Server, p: Float32Array, own: _Own, key: np.uint64, numbers: _Numbers, sent: _Sent, work: _Work) -> int:
    """T triples against the received Q, b; writes the rows to send and returns how many. `p` moves in place."""
    if len(own.history) == 0 or len(own.avoid) >= len(theta.b):  # K_u is empty: no positive, or no negative
        return 0
    n = _draw(len(theta.b), own, key, numbers.triples, sent.item, work)
    sent.dq[:n] = np.float32(0)
    sent.db[:n] = np.float32(0)
    work.dp[:] = np.float32(0)
    for t in range(numbers.triples):
        q_i, q_j = theta.q[work.i[t]], theta.q[work.j[t]]
        row_i, row_j = work.row_i[t], work.row_j[t]
        x_uij = theta.b[work.i[t]] - theta.b[work.j[t]] + _dot(p, q_i, q_j)  # (4)
        d = np.float32(1) / (np.float32(1) + np.float32(math.exp(x_uij)))  # (3): e^-x / (1 + e^-x)
        sent.db[row_j] -= d  # (5), theta = b_j
        _negative(sent.dq[row_j], p, q_j, d, numbers.reg_negative)  # (5), theta = q_j
        if row_i >= 0:  # 3. Transmission: pi let this one through
            sent.db[row_i] += d  # (5), theta = b_i
            _positive(sent.dq[row_i], p, q_i, d, numbers.reg_positive)  # (5), theta = q_i
        if numbers.per_triple:
            _user(p, p, q_i, q_j, d, numbers.reg_user, numbers.alpha)  # (6), as run
        else:
            _user(work.dp, p, q_i, q_j, d, numbers.reg_user, np.float32(1))  # (5), theta = p_u
    if not numbers.per_triple:
        for f in range(len(p)):
            p[f] += numbers.alpha * work.dp[f]  # (6), as printed
    return n


@njit(cache=True, nogil=True)
def _draw(items: int, own: _Own, key: np.uint64, triples: int, item: Int32Array, work: _Work) -> int:
    """T random triples from K_u, and which rows will be sent: every j, and i with probability pi. Returns the number of rows."""
    n = 0
    work.slots[:] = -1
    for t in range(triples):
        bits = draw(key, 2 * t)
        place = below(bits, len(own.history))
        i, j = own.history[place], negative(own.avoid, below_low(bits, items - len(own.avoid)))
        row = row_of(work.slots, item, n, j)
        item[row] = j
        n = max(n, row + 1)
        work.i[t], work.j[t], work.row_j[t], work.row_i[t] = i, j, row, -1
        if own.pi[place] >= 1 or uniform(draw(key, 2 * t + 1)) < own.pi[place]:
            row = row_of(work.slots, item, n, i)
            item[row] = i
            n = max(n, row + 1)
            work.row_i[t] = row
    return n


@njit(cache=True, inline="always")
def _dot(p: Float32Array, q_i: Float32Array, q_j: Float32Array) -> np.float32:
    """p . (q_i - q_j), in four partial sums: the order is fixed, and the additions need not wait for each other."""
    zero = np.float32(0)
    s0, s1, s2, s3 = zero, zero, zero, zero
    whole = len(p) & ~3
    for f in range(0, whole, 4):
        s0 += p[f] * (q_i[f] - q_j[f])
        s1 += p[f + 1] * (q_i[f + 1] - q_j[f + 1])
        s2 += p[f + 2] * (q_i[f + 2] - q_j[f + 2])
        s3 += p[f + 3] * (q_i[f + 3] - q_j[f + 3])
    for f in range(whole, len(p)):
        s0 += p[f] * (q_i[f] - q_j[f])
    return (s0 + s1) + (s2 + s3)


@njit(cache=True)
def _negative(dq_j: Float32Array, p: Float32Array, q_j: Float32Array, d: np.float32, reg: np.float32) -> None:
    for f in range(len(p)):
        dq_j[f] -= d * p[f] + reg * q_j[f]


@njit(cache=True)
def _positive(dq_i: Float32Array, p: Float32Array, q_i: Float32Array, d: np.float32, reg: np.float32) -> None:
    for f in range(len(p)):
        dq_i[f] += d * p[f] - reg * q_i[f]


@njit(cache=True)
def _user(
    target: Float32Array, p: Float32Array, q_i: Float32Array, q_j: Float32Array, d: np.float32, reg: np.float32, rate: np.float32
) -> None:
    for f in range(len(p)):
        target[f] += rate * (d * (q_i[f] - q_j[f]) - reg * p[f])


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


@njit(cache=True)
def _own(data: Histories, pi: Float32Array, u: int) -> _Own:
    low, high = data.ptr[u], data.ptr[u + 1]
    return _Own(data.item[low:high], data.avoid[data.avoid_ptr[u] : data.avoid_ptr[u + 1]], pi[low:high])


@njit(cache=True, nogil=True)
def _aggregate(q: Float32Array, b: Float32Array, sum_q: Int64Array, sum_b: Int64Array, alpha: np.float32) -> None:
    """(7) in place: theta += alpha * sum, where something was sent."""
    for k in range(len(b)):
        for f in range(q.shape[1]):
            if sum_q[k, f] != 0:
                q[k, f] += alpha * np.float32(sum_q[k, f] * STEP)
        if sum_b[k] != 0:
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
