"""Matrix factorisation with biases on one device, learnt rating by rating: FBALF's eq. 10 and 11 as
printed, and the server's eq. 13.

tests/algorithms/test_fbalf.py has the same in a few lines of plain NumPy (`Plain`), to which these
functions are held.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from ..core.contract.protocols import Histories
from ..core.contract.update import STEP
from ..core.lanes.simd import (
    BOUND,
    LANES,
    SCALE,
    dot,
    every,
    inside,
    load,
    padded,
    store,
    sum_of,
    zeros,
)
from ..core.types import BoolArray, Float32Array, Int32Array, Int64Array

UNIT, ONE = np.float32(STEP), np.float32(1)
MAGIC = np.float32(
    3 << 22
)  # x + MAGIC - MAGIC is x rounded to a whole number (half to even) if |x| <= 2^22
SMALL = np.float32(1 << 44)  # a sum of squares below it


class BiasedSGDNumbers(NamedTuple):
    """Constants of a round: local iterations, the server's rate, the device's, both lambdas,
    whether decoys are rated by prediction and whether p_u and b_u learn from them too, and whether
    what is sent are gradients at the p_u and b_u before the visit.
    """

    steps: int
    rate: np.float32
    local_rate: np.float32
    reg: np.float32
    reg_bias: np.float32
    predict: bool
    decoys: bool
    before: bool


class BiasedSGDRows(NamedTuple):
    """Rated items and decoys of m devices (`Mixed`), the constant of each device's predictions and
    its mean rating, float32 [m].
    """

    ptr: Int64Array
    item: Int32Array
    value: Float32Array
    rated: BoolArray
    start: Float32Array
    mean: Float32Array


class BiasedSGDRoom(NamedTuple):
    """Working memory of a device. p, old, g: [1, W], padded. own: int64 [longest], its rows that
    are rated.
    """

    p: Float32Array
    old: Float32Array
    g: Float32Array
    own: Int64Array


def room_for(ptr: Int64Array, factors: int) -> BiasedSGDRoom:
    """Working memory that suffices for the device with the most rows."""
    width, longest = padded(factors), int(np.diff(ptr).max(initial=0))
    return BiasedSGDRoom(
        zeros(1, width), zeros(1, width), zeros(1, width), np.empty(longest, np.int64)
    )


@njit(cache=True, nogil=True, error_model="numpy")
def _mean(ptr: Int64Array, value: Float32Array, out: Float32Array) -> None:
    for d in range(len(out)):
        total = 0.0
        for r in range(ptr[d], ptr[d + 1]):
            total += np.float64(value[r])
        if ptr[d + 1] > ptr[d]:
            out[d] = np.float32(total / np.float64(ptr[d + 1] - ptr[d]))


def means(histories: Histories, middle: np.float32) -> Float32Array:
    """Mean ratings of devices, float32 [m]; `middle` for those that rated nothing."""
    out = np.full(len(histories.ptr) - 1, middle, np.float32)
    _mean(histories.ptr, histories.value, out)
    return out


@inside
def learn(
    q: Float32Array,
    b: Float32Array,
    rows: BiasedSGDRows,
    d: int,
    numbers: BiasedSGDNumbers,
    room: BiasedSGDRoom,
    factors: int,
    bias: np.float32,
) -> np.float32:
    """Runs the local iterations of device d (eq. 11): room.p in place, and the new b_u. Leaves what
    p was in room.old. Decoys that count have the rating made up for them (eq. 6), by prediction
    that of the p_u and b_u before the visit.
    """
    item, value, rated, mine, own, stride, count = (
        rows.item,
        rows.value,
        rows.rated,
        room.p,
        room.own,
        q.shape[1],
        0,
    )
    rate, start, keep_bias = (
        numbers.local_rate,
        rows.start[d],
        ONE - numbers.local_rate * numbers.reg_bias,
    )
    keep, was = every(ONE - rate * numbers.reg), bias
    for r in range(rows.ptr[d], rows.ptr[d + 1]):
        if rated[r] or numbers.decoys:
            own[count] = r
            count += 1
    for f in range(0, mine.shape[1], LANES):
        store(room.old, f, load(mine, f))
    for _ in range(numbers.steps):
        for n in range(count):
            r = own[n]
            i = np.int64(item[r])
            if rated[r] or not numbers.predict:
                target = value[r] if rated[r] else rows.mean[d]
                gain = rate * (target - start - bias - b[i] - dot(mine, q, i * stride, factors))
            else:
                gain = rate * (
                    was
                    + dot(room.old, q, i * stride, factors)
                    - bias
                    - dot(mine, q, i * stride, factors)
                )
            bias = keep_bias * bias + gain
            for f in range(0, mine.shape[1], LANES):
                store(
                    mine,
                    f,
                    keep * load(mine, f) + every(gain) * load(q, i * stride + f, factors - f),
                )
    return bias


@inside
def error(
    q: Float32Array,
    b: Float32Array,
    rows: BiasedSGDRows,
    d: int,
    r: int,
    numbers: BiasedSGDNumbers,
    room: BiasedSGDRoom,
    factors: int,
    now: np.float32,
    was: np.float32,
) -> np.float32:
    """The error e of row r, with a decoy's rating made up (eq. 6). now, was: b_u after and before
    the local iterations; with `numbers.before`, they and room.p and room.old are the other way
    round.
    """
    i = np.int64(rows.item[r])
    at = i * q.shape[1]
    by_new = now + dot(room.p, q, at, factors)
    if numbers.predict and not rows.rated[r]:
        moved = by_new - (was + dot(room.old, q, at, factors))
        return -moved if numbers.before else moved
    return (rows.value[r] if rows.rated[r] else rows.mean[d]) - rows.start[d] - b[i] - by_new


@inside
def swap(room: BiasedSGDRoom, numbers: BiasedSGDNumbers) -> None:
    """Exchanges p_u and what it was before the visit, where gradients are sent of that."""
    for f in range(0, room.p.shape[1] if numbers.before else 0, LANES):
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
    """The visits of m devices, each by itself, all from the same q, b: p, b_u after the local
    iterations, and the gradients of q_i, float32 [n, F], and b_i, float32 [n], for every row.

    q: float32 [items, F]. b: float32 [items]. p: float32 [m, F]. bias: b_u, float32 [m].
    """
    p, bias, room = p.copy(), bias.copy(), room_for(rows.ptr, p.shape[1])
    g_q, g_b = (
        np.empty((len(rows.item), p.shape[1]), np.float32),
        np.empty(len(rows.item), np.float32),
    )
    _visits(q, b, p, bias, rows, numbers, room, g_q, g_b)
    return p, bias, g_q, g_b


@njit(cache=True, nogil=True, error_model="numpy")
def _visits(
    q: Float32Array,
    b: Float32Array,
    p: Float32Array,
    bias: Float32Array,
    rows: BiasedSGDRows,
    numbers: BiasedSGDNumbers,
    room: BiasedSGDRoom,
    g_q: Float32Array,
    g_b: Float32Array,
) -> None:
    """`visits`: p, bias in place; g_q, g_b: what is sent."""
    factors, mine, g, reg = p.shape[1], room.p, room.g, every(numbers.reg)
    for d in range(len(p)):
        for f in range(0, mine.shape[1], LANES):
            store(mine, f, load(p, d * factors + f, factors - f))
        was = bias[d]
        now = learn(q, b, rows, d, numbers, room, factors, was)
        swap(room, numbers)
        one, other = (was, now) if numbers.before else (now, was)
        for r in range(rows.ptr[d], rows.ptr[d + 1]):
            i = np.int64(rows.item[r])
            e = error(q, b, rows, d, r, numbers, room, factors, one, other)
            for f in range(0, mine.shape[1], LANES):
                store(
                    g, f, reg * load(q, i * q.shape[1] + f, factors - f) - every(e) * load(mine, f)
                )
            for f in range(factors):
                g_q[r, f] = g[0, f]
            g_b[r] = numbers.reg_bias * b[i] - e
        swap(room, numbers)
        bias[d] = now
        for f in range(factors):
            p[d, f] = mine[0, f]


class InTurn(NamedTuple):
    """The state of a federation while devices come one after the other. q: float32 [items, W],
    padded; b: [items]; p: [m, F]; bias: b_u, [m]."""

    q: Float32Array
    b: Float32Array
    p: Float32Array
    bias: Float32Array


def in_turn(q: Float32Array, b: Float32Array, p: Float32Array, bias: Float32Array) -> InTurn:
    """Copies of a federation's state, padded, for `solo` to work on; q: float32 [items, F]."""
    wide = zeros(len(q), padded(q.shape[1]))
    wide[:, : q.shape[1]] = q
    return InTurn(wide, b.copy(), p.copy(), bias.copy())


def solo(
    work: InTurn, rows: BiasedSGDRows, numbers: BiasedSGDNumbers, first: int, last: int
) -> bool:
    """Runs devices first .. last - 1 one after the other, each followed by the server's step (eq.
    13) along what it sent, in fixed point: `work` in place. Returns False if a value cannot be
    sent.
    """
    return bool(_solo(*work, rows, numbers, room_for(rows.ptr, work.p.shape[1]), first, last))


@njit(cache=True, nogil=True, error_model="numpy")
def _solo(
    q: Float32Array,
    b: Float32Array,
    p: Float32Array,
    bias: Float32Array,
    rows: BiasedSGDRows,
    numbers: BiasedSGDNumbers,
    room: BiasedSGDRoom,
    first: int,
    last: int,
) -> bool:
    """`solo`. No row of a device depends on another's item, so each item can move as soon as its
    gradient is known.
    """
    factors, mine, ok, width = p.shape[1], room.p, True, q.shape[1]
    for d in range(first, last):
        for f in range(0, width, LANES):
            store(mine, f, load(p, d * factors + f, factors - f))
        was = bias[d]
        now = learn(q, b, rows, d, numbers, room, width, was)
        swap(room, numbers)
        one, other = (was, now) if numbers.before else (now, was)
        for r in range(rows.ptr[d], rows.ptr[d + 1]):
            i = np.int64(rows.item[r])
            e = error(q, b, rows, d, r, numbers, room, width, one, other)
            scaled = np.rint((numbers.reg_bias * b[i] - e) * SCALE)
            ok &= abs(scaled) < BOUND
            b[i] -= numbers.rate * ((scaled + np.float32(0)) * UNIT)
            ok &= step_row(q, i * width, e, numbers, room)
        swap(room, numbers)
        bias[d] = now
        for f in range(factors):
            p[d, f] = mine[0, f]
    return ok


@inside
def step_row(
    q: Float32Array, at: int, e: np.float32, numbers: BiasedSGDNumbers, room: BiasedSGDRoom
) -> bool:
    """Moves q_i, which begins at flat position `at`, along its gradient in steps of 2^-16. Returns
    False if that cannot be sent.
    """
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
