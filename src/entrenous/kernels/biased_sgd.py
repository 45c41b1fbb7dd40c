"""Matrix factorisation with biases on one device, learnt rating by rating: FBALF's eq. 10 and 11 as
printed, and the server's eq. 13.

tests/algorithms/test_fbalf.py has the same in a few lines of plain NumPy (`Plain`), to which these
functions are held.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..core.compiling import njit
from ..core.contract.protocols import Histories
from ..core.contract.update import STEP
from ..core.lanes.memory import padded, sealed, zeros
from ..core.lanes.simd import BOUND, LANES, SCALE, dot, every, inside, load, store, sum_of
from ..core.types import BoolArray, Float32Array, Int32Array, Int64Array

UNIT = np.float32(STEP)
ONE = np.float32(1)
# x + MAGIC - MAGIC is x rounded to a whole number (half to even) if |x| <= 2^22.
MAGIC = np.float32(3 << 22)
# Numbers whose squares add up to less than this are at most 2^22.
SMALL = np.float32(1 << 44)


class BiasedSGDNumbers(NamedTuple):
    """Constants of a round."""

    steps: int
    """Local iterations."""
    rate: np.float32
    """The learning rate of the server."""
    local_rate: np.float32
    """The learning rate of the device."""
    reg: np.float32
    """lambda of p_u and q_i."""
    reg_bias: np.float32
    """lambda of b_u and b_i."""
    predict: bool
    """True if decoys are rated by prediction, False for the user's mean."""
    decoys: bool
    """True if p_u and b_u learn from decoys too."""
    before: bool
    """True if gradients are sent at the p_u and b_u before the visit."""
    user_bias: bool
    """True if b_u is learnt; else it stays as it is."""
    item_bias: bool
    """True if b_i is learnt; else its gradients are 0."""


class BiasedSGDState(NamedTuple):
    """The state of a federation of m devices."""

    q: Float32Array
    """float32 [items, F]; padded to [items, W] while devices come one after the other."""
    b: Float32Array
    """float32 [items]."""
    p: Float32Array
    """float32 [m, F]."""
    bias: Float32Array
    """b_u, float32 [m]."""


class BiasedSGDRows(NamedTuple):
    """Rated items and decoys of m devices (`Mixed`)."""

    ptr: Int64Array
    """int64 [m + 1] from 0."""
    item: Int32Array
    """int32 [ptr[m]]."""
    value: Float32Array
    """float32 [ptr[m]], ratings."""
    rated: BoolArray
    """bool [ptr[m]], False for decoys."""
    start: Float32Array
    """float32 [m], the constant of each device's predictions."""
    mean: Float32Array
    """float32 [m], each device's mean rating."""


class BiasedSGDRoom(NamedTuple):
    """Working memory of a device."""

    p: Float32Array
    """p_u, [1, W], padded."""
    old: Float32Array
    """p_u before the visit, [1, W]."""
    g: Float32Array
    """One gradient, [1, W]."""
    own: Int64Array
    """int64 [longest], the rows that the device learns from."""


def room_for(ptr: Int64Array, factors: int) -> BiasedSGDRoom:
    """Returns working memory that suffices for the device with the most rows."""
    width = padded(factors)
    longest = int(np.diff(ptr).max(initial=0))
    own = np.empty(longest, np.int64)
    return BiasedSGDRoom(zeros(1, width), zeros(1, width), zeros(1, width), own)


@njit(cache=True, nogil=True, error_model="numpy")
def _mean(ptr: Int64Array, value: Float32Array, out: Float32Array) -> None:
    for d in range(len(out)):
        total = 0.0
        for r in range(ptr[d], ptr[d + 1]):
            total += np.float64(value[r])
        count = ptr[d + 1] - ptr[d]
        if count > 0:
            out[d] = np.float32(total / np.float64(count))


def means(histories: Histories, middle: np.float32) -> Float32Array:
    """Returns the mean ratings of devices, float32 [m]; `middle` for those that rated nothing."""
    out = np.full(len(histories.ptr) - 1, middle, np.float32)
    _mean(histories.ptr, sealed(histories.value), out)
    return out


@inside
def copy_user(state: BiasedSGDState, d: int, room: BiasedSGDRoom) -> None:
    """Copies p_u of device d to room.p, padded."""
    factors = state.p.shape[1]
    for f in range(0, room.p.shape[1], LANES):
        store(room.p, f, load(state.p, d * factors + f, factors - f))


@inside
def keep_user(state: BiasedSGDState, d: int, room: BiasedSGDRoom, bias: np.float32) -> None:
    """Writes p_u and b_u of device d back."""
    state.bias[d] = bias
    for f in range(state.p.shape[1]):
        state.p[d, f] = room.p[0, f]


@inside
def learn(
    state: BiasedSGDState,
    rows: BiasedSGDRows,
    d: int,
    numbers: BiasedSGDNumbers,
    room: BiasedSGDRoom,
    bias: np.float32,
) -> np.float32:
    """Runs the local iterations of device d (eq. 11): room.p in place. Returns the new b_u, and
    leaves the old p_u in room.old. Decoys that count have made-up ratings (eq. 6); a predicted one
    is that of the p_u and b_u before the visit.
    """
    q = state.q
    b = state.b
    item = rows.item
    value = rows.value
    rated = rows.rated
    mine = room.p
    old = room.old
    own = room.own
    factors = q.shape[1]
    rate = numbers.local_rate
    start = rows.start[d]
    # The regularisation shrinks p_u and b_u by these factors in each step.
    keep = every(ONE - rate * numbers.reg)
    keep_bias = ONE - rate * numbers.reg_bias
    was = bias
    # List the rows once: every iteration goes over them.
    count = 0
    for r in range(rows.ptr[d], rows.ptr[d + 1]):
        if rated[r] or numbers.decoys:
            own[count] = r
            count += 1
    for f in range(0, mine.shape[1], LANES):
        store(old, f, load(mine, f))
    for _ in range(numbers.steps):
        for n in range(count):
            r = own[n]
            i = np.int64(item[r])
            at = i * factors
            # The rate times the error, of a rating or of a made-up one. A prediction has neither
            # b_i nor start: both cancel.
            if rated[r] or not numbers.predict:
                target = value[r] if rated[r] else rows.mean[d]
                gain = rate * (target - start - bias - b[i] - dot(mine, q, at, factors))
            else:
                target = was + dot(old, q, at, factors)
                gain = rate * (target - bias - dot(mine, q, at, factors))
            # A step of stochastic gradient descent along this row.
            if numbers.user_bias:
                bias = keep_bias * bias + gain
            for f in range(0, mine.shape[1], LANES):
                row = load(q, at + f, factors - f)
                store(mine, f, keep * load(mine, f) + every(gain) * row)
    return bias


@inside
def error(
    state: BiasedSGDState,
    rows: BiasedSGDRows,
    d: int,
    r: int,
    numbers: BiasedSGDNumbers,
    room: BiasedSGDRoom,
    now: np.float32,
    was: np.float32,
) -> np.float32:
    """Returns the error e of row r; the rating of a decoy is made up (eq. 6).

    now, was: b_u after and before the local iterations. With `numbers.before` they are exchanged,
    and so are room.p and room.old.
    """
    q = state.q
    factors = state.q.shape[1]
    i = np.int64(rows.item[r])
    at = i * factors
    by_new = now + dot(room.p, q, at, factors)
    if numbers.predict and not rows.rated[r]:
        # The made-up rating is the new prediction, whichever of the two the gradient is taken at.
        moved = by_new - (was + dot(room.old, q, at, factors))
        return -moved if numbers.before else moved
    target = rows.value[r] if rows.rated[r] else rows.mean[d]
    return target - rows.start[d] - state.b[i] - by_new


@inside
def swap(room: BiasedSGDRoom, numbers: BiasedSGDNumbers) -> None:
    """Exchanges the p_u after and before the visit, if gradients are taken at the one before."""
    width = room.p.shape[1] if numbers.before else 0
    for f in range(0, width, LANES):
        mine = load(room.p, f)
        store(room.p, f, load(room.old, f))
        store(room.old, f, mine)


def visits(
    q: Float32Array,
    b: Float32Array,
    p: Float32Array,
    bias: Float32Array,
    rows: BiasedSGDRows,
    numbers: BiasedSGDNumbers,
) -> tuple[Float32Array, Float32Array, Float32Array, Float32Array]:
    """Runs the visits of m devices, each by itself, all from the same q, b. Returns p, b_u after
    the local iterations, and the gradients of q_i, float32 [n, F], and b_i, float32 [n], for every
    row.

    q: float32 [items, F]. b: float32 [items]. p: float32 [m, F]. bias: b_u, float32 [m].
    """
    state = BiasedSGDState(sealed(q), sealed(b), p.copy(), bias.copy())
    n = len(rows.item)
    factors = p.shape[1]
    g_q = np.empty((n, factors), np.float32)
    g_b = np.empty(n, np.float32)
    room = room_for(rows.ptr, factors)
    _visits(state, rows, numbers, room, g_q, g_b)
    return state.p, state.bias, g_q, g_b


@njit(cache=True, nogil=True, error_model="numpy")
def _visits(
    state: BiasedSGDState,
    rows: BiasedSGDRows,
    numbers: BiasedSGDNumbers,
    room: BiasedSGDRoom,
    g_q: Float32Array,
    g_b: Float32Array,
) -> None:
    """Moves state.p and state.bias; writes what is sent to g_q, g_b."""
    q = state.q
    b = state.b
    mine = room.p
    g = room.g
    factors = q.shape[1]
    reg = every(numbers.reg)
    for d in range(len(state.p)):
        copy_user(state, d, room)
        was = state.bias[d]
        now = learn(state, rows, d, numbers, room, was)
        # The gradients of every row, at the new p_u and b_u or at the old.
        swap(room, numbers)
        at, other = (was, now) if numbers.before else (now, was)
        for r in range(rows.ptr[d], rows.ptr[d + 1]):
            i = np.int64(rows.item[r])
            e = error(state, rows, d, r, numbers, room, at, other)
            # Padded, then copied: what is sent has F numbers.
            for f in range(0, mine.shape[1], LANES):
                row = load(q, i * factors + f, factors - f)
                store(g, f, reg * row - every(e) * load(mine, f))
            for f in range(factors):
                g_q[r, f] = g[0, f]
            g_b[r] = numbers.reg_bias * b[i] - e if numbers.item_bias else np.float32(0)
        swap(room, numbers)
        keep_user(state, d, room, now)


def in_turn(
    q: Float32Array, b: Float32Array, p: Float32Array, bias: Float32Array
) -> BiasedSGDState:
    """Returns copies of a federation's state, padded, for `solo` to work on; q: float32 [items,
    F].
    """
    wide = zeros(len(q), padded(q.shape[1]))
    wide[:, : q.shape[1]] = q
    return BiasedSGDState(wide, b.copy(), p.copy(), bias.copy())


def solo(
    work: BiasedSGDState, rows: BiasedSGDRows, numbers: BiasedSGDNumbers, first: int, last: int
) -> bool:
    """Runs devices first .. last - 1 one after the other, each followed by the server's step (eq.
    13) along what it sent, in fixed point: `work` in place. Returns False if a value cannot be
    sent.
    """
    return bool(_solo(work, rows, numbers, room_for(rows.ptr, work.p.shape[1]), first, last))


@njit(cache=True, nogil=True, error_model="numpy")
def _solo(
    state: BiasedSGDState,
    rows: BiasedSGDRows,
    numbers: BiasedSGDNumbers,
    room: BiasedSGDRoom,
    first: int,
    last: int,
) -> bool:
    """Does the work of `solo`. No row of a device depends on another's item, so each item can move
    as soon as its gradient is known.
    """
    q = state.q
    b = state.b
    width = state.q.shape[1]
    ok = True
    for d in range(first, last):
        copy_user(state, d, room)
        was = state.bias[d]
        now = learn(state, rows, d, numbers, room, was)
        swap(room, numbers)
        at, other = (was, now) if numbers.before else (now, was)
        for r in range(rows.ptr[d], rows.ptr[d + 1]):
            i = np.int64(rows.item[r])
            e = error(state, rows, d, r, numbers, room, at, other)
            # The gradient of b_i in whole steps of 2^-16, as a sum would hold it.
            if numbers.item_bias:
                scaled = np.rint((numbers.reg_bias * b[i] - e) * SCALE)
                ok &= abs(scaled) < BOUND
                sent = (scaled + np.float32(0)) * UNIT
                b[i] -= numbers.rate * sent
            ok &= step_row(q, i * width, e, numbers, room)
        swap(room, numbers)
        keep_user(state, d, room, now)
    return ok


@inside
def step_row(
    q: Float32Array, at: int, e: np.float32, numbers: BiasedSGDNumbers, room: BiasedSGDRoom
) -> bool:
    """Moves q_i, which begins at flat position `at`, along its gradient in steps of 2^-16. Returns
    False if that cannot be sent.
    """
    mine = room.p
    g = room.g
    width = room.p.shape[1]
    reg = every(numbers.reg)
    rate = every(numbers.rate)
    magic = every(MAGIC)
    ok = True
    squares = every(np.float32(0))
    # The gradient in units of 2^-16, rounded sixteen at a time.
    for f in range(0, width, LANES):
        gradient = reg * load(q, at + f) - every(e) * load(mine, f)
        scaled = gradient * every(SCALE)
        store(g, f, scaled + magic - magic)
        squares = squares + scaled * scaled
    # Some numbers may be too large for MAGIC, or for the wire: round one after the other.
    if not sum_of(squares) < SMALL:
        for f in range(width):
            slope = numbers.reg * q.reshape(-1)[at + f] - e * mine[0, f]
            rounded = np.rint(slope * SCALE)
            ok &= abs(rounded) < BOUND
            # A sum of integers knows no -0: + 0 makes it a 0.
            g[0, f] = rounded + np.float32(0)
    # The server's step (eq. 13).
    for f in range(0, width, LANES):
        sent = load(g, f) * every(UNIT)
        store(q, at + f, load(q, at + f) - rate * sent)
    return ok
