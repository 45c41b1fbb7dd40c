"""FBALF as printed: gradient steps, and a server that moves after each device. `fbalf.py` is the same model learnt in a quicker way.

J. Gao, Y. Ran, J. Chen, "Federated latent factor model for bias-aware recommendation with privacy-preserving", eq. 3-13 (the formulas are
lost in the text at hand; the words around them leave little open). With r = p_u . q_i + b_u + b_i (4) and e = r_ui - r,

    p_u <- p_u - eta (-e q_i + lambda p_u),   b_u <- b_u - eta (-e + lambda b_u)      on the device, rating by rating      (10, 11)
    q_i <- q_i - eta (-e p_u + lambda q_i),   b_i <- b_i - eta (-e + lambda b_i)      on the server, as they are sent          (13)

A visit: the device goes `local_iterations` times over its rated items, then sends the gradients of q_i, b_i at its new p_u, b_u, for what
it rated and for int(rho |I_u|) decoys. A decoy's made-up rating (6) is the user's mean in the first `threshold` passes, and then the
prediction of the new p_u, b_u, from which e takes the prediction of those before the visit (with the new ones e would be 0).

Where the text leaves a choice, or ours differs: a device takes its ratings by ascending item; eta of (11) and of (13) are two settings,
and both shrink by `decay` after every pass; lambda of the biases may be its own; r has a constant, the middle of the scale or the user's
mean, from which the biases deviate; decoys are the same in every pass (drawn anew, they would give away what always comes); in the
stochastic style the server, as the text has it, moves after each device, in batch style along the mean over all who sent a row.
"""

from __future__ import annotations

from typing import ClassVar, Literal, NamedTuple, Self, final

import numpy as np
from numba import njit
from pydantic import Field

from ..core.errors import InputError, NonFiniteError
from ..core.keys import fold_name, folds, normals
from ..core.protocols import Catalogue, Disclosed, Histories
from ..core.settings import Settings
from ..core.simd import BOUND, LANES, SCALE, every, load, padded, store, sum_of, zeros
from ..core.types import BoolArray, Float32Array, Int32Array, Int64Array, UInt64Array
from ..core.update import STEP, Total, Update
from ..models import bpr_mf
from ..models.biased_mf import inside
from ..privacy.decoys import Mixed, with_decoys
from ._filled import _redrawn as redrawn
from ._filling import step_means

UNIT, ONE = np.float32(STEP), np.float32(1)
MAGIC = np.float32(3 << 22)  # x + MAGIC - MAGIC is x rounded to a whole number (half to even) if |x| <= 2^22
SMALL = np.float32(1 << 44)  # a sum of squares below it


class Server(NamedTuple):
    """q: float32 [items, F]; b: float32 [items]; scale: float32 [2], lowest and highest rating; step: int64 [1], rounds done; epoch:
    int64 [1], rounds in a pass. A device receives all of it."""

    q: Float32Array
    b: Float32Array
    scale: Float32Array
    step: Int64Array
    epoch: Int64Array


class Devices(NamedTuple):
    """p: float32 [m, F]; bias: b_u, float32 [m]; key: uint64 [m], from which a device draws its decoys. None of it leaves."""

    p: Float32Array
    bias: Float32Array
    key: UInt64Array


@final
class FBALFSGD(Settings):
    """FBALF as printed: one learning rate, gradient steps, server after each device."""

    factors: int = Field(128, ge=1, le=1024, description="f, the length of p_u and q_i")
    rounds: int = Field(75, ge=1, description="passes over all users")
    local_iterations: int = Field(
        10, ge=1, le=1000, description="how often a device goes over its ratings in a visit, moving p_u and b_u"
    )
    learning_rate: float = Field(0.013, gt=0, le=10, description="of the server (13)")
    local_rate: float = Field(0.0013, gt=0, le=10, description="of the device (11)")
    decay: float = Field(0.97, gt=0, le=1, description="what both rates are multiplied by after every pass")
    reg: float = Field(
        0.04,
        ge=0,
        description="lambda, at each row that is sent or learnt from: decoys add to it, so take less (0.03) with rho 3",
    )
    reg_bias: float | None = Field(None, ge=0, description="lambda of b_u and b_i; default: reg, as printed")
    rho: float = Field(1.0, ge=0, le=1000, description="decoys as a multiple of a user's own ratings; 0 hides nothing")
    threshold: int = Field(10, ge=0, description="passes after which decoys are rated by prediction, not by the user's mean")
    redraw: bool = Field(False, description="draw the decoys anew in every round: gives the rated items away, which always come")
    start: Literal["middle", "mean"] | float = Field(
        "middle", description="the constant of a prediction: the middle of the scale, mean: the user's mean rating, or a number"
    )
    init_std: float = Field(0.002, gt=0, description="standard deviation of the first p and q")
    style: Literal["batch", "stochastic"] = Field(
        "stochastic",
        description="stochastic: a round is one device, in turn; batch: a round is all devices and the server takes the mean "
        "(which wants a learning_rate near 1)",
    )

    predicts_ratings: ClassVar[bool] = True
    draws_negatives: ClassVar[bool] = False
    disclosure: ClassVar[tuple[Disclosed, ...]] = (
        Disclosed(
            "q",
            "[rows, F] float32",
            "each round, a row for every rated item and every decoy",
            "lambda q_i - e p_u, from which the server, which knows q_i and lambda, has p_u's direction at once, and with b p_u itself. "
            "The stochastic style has no sum that could hide it: a round is one device. With rho 0 the rows are the rated items",
        ),
        Disclosed(
            "b",
            "[rows] float32",
            "as q",
            "lambda b_i - e: the error of the device's prediction by arithmetic, so that with p_u the ratings come back up to the user's "
            "bias; real ones are then whole numbers apart and made-up ones are not, and so decoys do not hide from a server that looks at "
            "one device what it rated. They do from one that sees sums, and from the network which items a device asks about",
        ),
    )

    # ---- the federation ------------------------------------------------------------------------------------------------------------

    def configured(self, catalogue: Catalogue) -> Self:
        """The same settings. Raises InputError if nothing is rated."""
        low, high = catalogue.scale
        if not low < high:
            fix = "use data with ratings, or an algorithm that ranks"
            raise InputError("fbalf-sgd", "the data has no ratings to learn from", expected="ratings that differ", fix=fix)
        return self

    @property
    def cohort(self) -> int:
        """Devices in a round; 0 = all."""
        return 1 if self.style == "stochastic" else 0

    def rounds_an_epoch(self, catalogue: Catalogue) -> int:
        """Rounds of a pass over the users."""
        return catalogue.users if self.style == "stochastic" else 1

    def default_rounds(self, catalogue: Catalogue) -> int:
        """Rounds of `rounds` passes."""
        return self.rounds * self.rounds_an_epoch(catalogue)

    def update_bytes(self, catalogue: Catalogue) -> int:
        """The most a device sends: a row for every item."""
        return self.row_bytes * catalogue.items

    def usual_bytes(self, catalogue: Catalogue) -> int:
        """Rows for its share of the ratings, and their decoys."""
        share = (1 + self.rho) * catalogue.interactions / max(1, catalogue.users)
        return max(1, self.row_bytes * min(catalogue.items, int(share)))

    @property
    def row_bytes(self) -> int:
        """Item id and gradients."""
        return 4 + 4 * (self.factors + 1)

    def init_server(self, catalogue: Catalogue, key: np.uint64) -> Server:
        """q ~ N(0, init_std^2), b = 0."""
        q, epoch = normals(folds(key, np.arange(catalogue.items)), self.factors, self.init_std), self.rounds_an_epoch(catalogue)
        scale, b = np.array(catalogue.scale, np.float32), np.zeros(catalogue.items, np.float32)
        return Server(q, b, scale, np.zeros(1, np.int64), np.array([epoch], np.int64))

    def init_devices(self, users: Int64Array, key: np.uint64) -> Devices:
        """p ~ N(0, init_std^2), b_u = 0, and the key of the decoys."""
        p = normals(folds(key, users), self.factors, self.init_std)
        return Devices(p, np.zeros(len(users), np.float32), folds(fold_name(key, "decoys"), users))

    def select(self, server: Server, catalogue: Catalogue, key: np.uint64) -> Int64Array:
        """Everybody, or in stochastic style the device whose turn it is: 0, 1, 2, ... in every pass."""
        return np.arange(catalogue.users) if self.style == "batch" else server.step % catalogue.users

    def download(self, server: Server) -> Server:
        """All of it."""
        return server

    # ---- on the device (section 4.3.1) ---------------------------------------------------------------------------------------------

    def local(
        self, download: Server, devices: Devices, histories: Histories, users: Int64Array, key: np.uint64
    ) -> tuple[Devices, Update]:
        """p_u, b_u learn from the device's ratings (11); the gradients of q_i, b_i go, for rated items and decoys."""
        keys = folds(key, devices.key) if self.redraw else devices.key
        rows = self.rows(with_decoys(histories, self.rho, keys, len(download.q)), download, histories)
        after, room = devices._replace(p=devices.p.copy(), bias=devices.bias.copy()), room_for(rows.ptr, self.factors)
        g_q, g_b = np.empty((len(rows.item), self.factors), np.float32), np.empty(len(rows.item), np.float32)
        numbers = self.numbers(int(download.step[0] // download.epoch[0]))
        _visits(download.q, download.b, after.p, after.bias, rows, numbers, room, g_q, g_b)
        return after, Update(rows.ptr, rows.item, {"q": g_q, "b": g_b}, {}, np.ones(len(users), np.float32))

    def rows(self, mixed: Mixed, download: Server, histories: Histories) -> Rows:
        """What the devices go over."""
        middle = np.float32(download.scale.mean())
        return Rows(*mixed, self.starts(download, histories), means(histories, middle))

    def starts(self, download: Server, histories: Histories) -> Float32Array:
        """The constant of each device's predictions, float32 [m]."""
        constant = np.float32(download.scale.mean() if isinstance(self.start, str) else self.start)
        return means(histories, constant) if self.start == "mean" else np.full(len(histories.ptr) - 1, constant, np.float32)

    def numbers(self, iteration: int) -> Numbers:
        """Rates and regularisation in a pass, which counts from 0; what decoys are rated by changes at `threshold` (6)."""
        shrunk, reg_bias = self.decay**iteration, self.reg if self.reg_bias is None else self.reg_bias
        rates = np.float32(self.learning_rate * shrunk), np.float32(self.local_rate * shrunk)
        return Numbers(self.local_iterations, *rates, np.float32(self.reg), np.float32(reg_bias), iteration >= self.threshold)

    # ---- on the server (section 4.3.2) ---------------------------------------------------------------------------------------------

    def aggregate(self, server: Server, total: Total) -> Server:
        """q_i, b_i move along the gradient of the one device, or along the mean over all who sent a row (13)."""
        rate = float(self.numbers(int(server.step[0] // server.epoch[0])).rate)
        q, b = server.q.copy(), server.b.copy()
        step_means(q, total.rows["q"], total.senders, rate)
        step_means(b.reshape(-1, 1), total.rows["b"].reshape(-1, 1), total.senders, rate)
        return server._replace(q=q, b=b, step=server.step + 1)

    # ---- predictions ---------------------------------------------------------------------------------------------------------------

    def score(self, download: Server, devices: Devices, histories: Histories) -> Float32Array:
        """r of eq. 4 for every item, not clipped: float32 [m, items]."""
        return bpr_mf.scores(devices.p, download.q, download.b) + self.biases(download, devices, histories)[0][:, None]

    def biases(self, download: Server, devices: Devices, histories: Histories) -> tuple[Float32Array, Float32Array]:
        """The constant and b_u, float32 [m], and b_i, float32 [items]."""
        return self.starts(download, histories) + devices.bias, download.b

    # ---- a run of rounds with one device each, compiled ----------------------------------------------------------------------------

    def solo_rounds(
        self, server: Server, devices: Devices, histories: Histories, rounds: range, key: np.uint64
    ) -> tuple[Server, Devices, int, int]:
        """`rounds` of the stochastic style over all users' devices; the same bits as one round at a time.

        Returns the new server, the new devices, and how many rows and bytes were sent.
        """
        items, users, number, sent = len(server.q), len(devices.p), rounds.start, 0
        q, b, p, bias = zeros(items, padded(self.factors)), server.b.copy(), devices.p.copy(), devices.bias.copy()
        q[:, : self.factors] = server.q
        rows = self.rows(with_decoys(histories, self.rho, devices.key, items), server, histories)
        room = room_for(rows.ptr, self.factors)
        while number < rounds.stop:
            iteration, first = divmod(number, users)
            last = min(users, first + rounds.stop - number)
            if self.redraw:
                mixed = with_decoys(histories, self.rho, redrawn(key, iteration * users, devices.key), items)
                rows = self.rows(mixed, server, histories)
            if not _solo(q, b, p, bias, rows, self.numbers(iteration), room, first, last):
                raise NonFiniteError("update: a value is not finite or beyond +-32768; the model is unchanged")
            number, sent = number + last - first, sent + int(rows.ptr[last] - rows.ptr[first])
        after = server._replace(q=q[:, : self.factors].copy(), b=b, step=server.step + len(rounds))
        return after, devices._replace(p=p, bias=bias), sent, sent * self.row_bytes


# ---- compiled ------------------------------------------------------------------------------------------------------------------------


class Numbers(NamedTuple):
    """Local iterations, the server's rate, the device's, both lambdas, and whether decoys are rated by prediction."""

    steps: int
    rate: np.float32
    local_rate: np.float32
    reg: np.float32
    reg_bias: np.float32
    predict: bool


class Rows(NamedTuple):
    """Rated items and decoys of m devices (`Mixed`), the constant of each device's predictions and its mean rating, float32 [m]."""

    ptr: Int64Array
    item: Int32Array
    value: Float32Array
    rated: BoolArray
    start: Float32Array
    mean: Float32Array


class Room(NamedTuple):
    """Memory that a device works in. p, old, g: [1, W], padded. own: int64 [longest], its rows that are rated."""

    p: Float32Array
    old: Float32Array
    g: Float32Array
    own: Int64Array


def room_for(ptr: Int64Array, factors: int) -> Room:
    """Room for the device with the most rows."""
    width, longest = padded(factors), int(np.diff(ptr).max(initial=0))
    return Room(zeros(1, width), zeros(1, width), zeros(1, width), np.empty(longest, np.int64))


@njit(cache=True, nogil=True, error_model="numpy")
def _mean(ptr: Int64Array, value: Float32Array, out: Float32Array) -> None:
    for d in range(len(out)):
        total = 0.0
        for r in range(ptr[d], ptr[d + 1]):
            total += np.float64(value[r])
        if ptr[d + 1] > ptr[d]:
            out[d] = np.float32(total / np.float64(ptr[d + 1] - ptr[d]))


def means(histories: Histories, middle: np.float32) -> Float32Array:
    """Each device's mean rating, float32 [m]; `middle` for those that rated nothing."""
    out = np.full(len(histories.ptr) - 1, middle, np.float32)
    _mean(histories.ptr, histories.value, out)
    return out


@inside
def dot(p: Float32Array, q: Float32Array, at: int, factors: int) -> np.float32:
    """p . the `factors` numbers of q from flat position `at`; p: [1, W], padded."""
    out = every(np.float32(0))
    for f in range(0, p.shape[1], LANES):
        out = out + load(p, f) * load(q, at + f, factors - f)
    return sum_of(out)


@inside
def learn(
    q: Float32Array, b: Float32Array, rows: Rows, d: int, numbers: Numbers, room: Room, factors: int, bias: np.float32
) -> np.float32:
    """The local iterations of device d (11): room.p in place, and the new b_u. Leaves what p was in room.old."""
    item, value, rated, mine, own, stride, count = rows.item, rows.value, rows.rated, room.p, room.own, q.shape[1], 0
    rate, start, keep_bias = numbers.local_rate, rows.start[d], ONE - numbers.local_rate * numbers.reg_bias
    keep = every(ONE - rate * numbers.reg)
    for r in range(rows.ptr[d], rows.ptr[d + 1]):
        if rated[r]:
            own[count] = r
            count += 1
    for f in range(0, mine.shape[1], LANES):
        store(room.old, f, load(mine, f))
    for _ in range(numbers.steps):
        for n in range(count):
            r = own[n]
            i = np.int64(item[r])
            gain = rate * (value[r] - start - bias - b[i] - dot(mine, q, i * stride, factors))
            bias = keep_bias * bias + gain
            for f in range(0, mine.shape[1], LANES):
                store(mine, f, keep * load(mine, f) + every(gain) * load(q, i * stride + f, factors - f))
    return bias


@inside
def error(
    q: Float32Array, b: Float32Array, rows: Rows, d: int, r: int, predict: bool, room: Room, factors: int,
    now: np.float32, was: np.float32,
) -> np.float32:  # fmt: skip
    """e of row r, with a decoy's rating made up (6). now, was: b_u after and before the local iterations."""
    i = np.int64(rows.item[r])
    at = i * q.shape[1]
    by_new = now + dot(room.p, q, at, factors)
    if predict and not rows.rated[r]:
        return by_new - (was + dot(room.old, q, at, factors))
    return (rows.value[r] if rows.rated[r] else rows.mean[d]) - rows.start[d] - b[i] - by_new


@njit(cache=True, nogil=True, error_model="numpy")
def _visits(
    q: Float32Array, b: Float32Array, p: Float32Array, bias: Float32Array, rows: Rows, numbers: Numbers, room: Room,
    g_q: Float32Array, g_b: Float32Array,
) -> None:  # fmt: skip
    """Every device by itself, all from the same q, b: p, bias in place; g_q: [n, F] and g_b: [n], the gradients of every row."""
    factors, mine, g, reg = p.shape[1], room.p, room.g, every(numbers.reg)
    for d in range(len(p)):
        for f in range(0, mine.shape[1], LANES):
            store(mine, f, load(p, d * factors + f, factors - f))
        was = bias[d]
        now = learn(q, b, rows, d, numbers, room, factors, was)
        for r in range(rows.ptr[d], rows.ptr[d + 1]):
            i = np.int64(rows.item[r])
            e = error(q, b, rows, d, r, numbers.predict, room, factors, now, was)
            for f in range(0, mine.shape[1], LANES):
                store(g, f, reg * load(q, i * q.shape[1] + f, factors - f) - every(e) * load(mine, f))
            for f in range(factors):
                g_q[r, f] = g[0, f]
            g_b[r] = numbers.reg_bias * b[i] - e
        bias[d] = now
        for f in range(factors):
            p[d, f] = mine[0, f]


@njit(cache=True, nogil=True, error_model="numpy")
def _solo(
    q: Float32Array, b: Float32Array, p: Float32Array, bias: Float32Array, rows: Rows, numbers: Numbers, room: Room,
    first: int, last: int,
) -> bool:  # fmt: skip
    """Devices first .. last - 1 one after the other, each followed by the server's step along what it sent, in fixed point: all in
    place; False if a value cannot be sent. q: [items, W], padded. No row of a device depends on another's item, so each item can move
    as soon as its gradient is known."""
    factors, mine, ok, width = p.shape[1], room.p, True, q.shape[1]
    for d in range(first, last):
        for f in range(0, width, LANES):
            store(mine, f, load(p, d * factors + f, factors - f))
        was = bias[d]
        now = learn(q, b, rows, d, numbers, room, width, was)
        for r in range(rows.ptr[d], rows.ptr[d + 1]):
            i = np.int64(rows.item[r])
            e = error(q, b, rows, d, r, numbers.predict, room, width, now, was)
            scaled = np.rint((numbers.reg_bias * b[i] - e) * SCALE)
            ok &= abs(scaled) < BOUND
            b[i] -= numbers.rate * ((scaled + np.float32(0)) * UNIT)
            ok &= step_row(q, i * width, e, numbers, room)
        bias[d] = now
        for f in range(factors):
            p[d, f] = mine[0, f]
    return ok


@inside
def step_row(q: Float32Array, at: int, e: np.float32, numbers: Numbers, room: Room) -> bool:
    """q_i, which begins at flat position `at`, moves along its gradient in steps of 2^-16; False if that cannot be sent."""
    mine, g, ok, squares = room.p, room.g, True, every(np.float32(0))
    width, reg, rate, magic = mine.shape[1], every(numbers.reg), every(numbers.rate), every(MAGIC)
    for f in range(0, width, LANES):
        scaled = (reg * load(q, at + f) - every(e) * load(mine, f)) * every(SCALE)
        store(g, f, scaled + magic - magic)
        squares = squares + scaled * scaled
    if not sum_of(squares) < SMALL:  # some may be too large for MAGIC, or for the wire
        for f in range(width):
            scaled_one = np.rint((numbers.reg * q.reshape(-1)[at + f] - e * mine[0, f]) * SCALE)
            ok &= abs(scaled_one) < BOUND
            g[0, f] = scaled_one + np.float32(0)  # which makes -0 a 0
    for f in range(0, width, LANES):
        store(q, at + f, load(q, at + f) - rate * (load(g, f) * every(UNIT)))
    return ok


ALGORITHMS = {"fbalf-sgd": FBALFSGD}
