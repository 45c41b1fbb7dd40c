"""PRME-G on one peer: Feng, Li, Zeng, Cong, Chee, Yuan, "Personalized ranking metric embedding for next new POI recommendation", IJCAI
2015, section 4, learnt by a node that holds a whole model of its own.

Venue l has a point P_l among users, and a point S_l among venues. From venue c, user u is the nearer to l, the likelier it is the next:

    D(u, c, l) = w(c, l) (alpha |U_u - P_l|^2 + (1 - alpha) |S_c - S_l|^2),   w = (1 + km from c to l)^0.25,
    D(u, c, l) = |U_u - P_l|^2   if more than tau passes before the next, or nothing is known of what went before.

A model is one row of float32: P_l and S_l of venue after venue, [items, 2 factors], padded. Side by side, because a step needs both of
three venues and nothing else. The user vector U is not part of the row: it never leaves the node.

One local epoch goes through the device's transitions in a random order. For each, from c to i, it draws a venue j that was not observed
for (u, c), and ascends ln sigma(z) - reg |theta|^2, z = D(u, c, j) - D(u, c, i), in all vectors at once.
A venue is one row of a device, of the last visit where visits repeat, so that from each it went to one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from ..core.geography import AXES, kilometres
from ..core.keys import below, draw, fold
from ..core.logistic import logistic
from ..core.negatives import negative
from ..core.simd import inside, padded
from ..core.types import Float32Array, Int32Array, Int64Array, UInt64Array

NO_TIME, NOWHERE = np.iinfo(np.int64).min, -1  # as in data/interactions.py; what lies before a first row
ZERO, ONE, TWO = np.float32(0), np.float32(1), np.float32(2)


class PRMERows(NamedTuple):
    """The histories of n devices, as in `Histories`. time: NO_TIME where not known; row: breaks ties in time; both int64. point: float32
    [items, 3], `core.geography.points` of all venues."""

    ptr: Int64Array
    item: Int32Array
    avoid_ptr: Int64Array
    avoid: Int32Array
    time: Int64Array
    row: Int64Array
    point: Float32Array


class PRMERates(NamedTuple):
    """Constants of a node's training. rate: of SGD; reg: lambda; alpha: weight of P against S; tau: seconds, 0 = no gap is too long;
    epochs: passes."""

    rate: np.float32
    reg: np.float32
    alpha: np.float32
    tau: int
    epochs: int


@njit(cache=True, inline="always")
def spatial_weight(square: np.float32) -> np.float32:
    """The weight w = (1 + km)^0.25 (eq. 10) of two points on the unit sphere whose straight distance squared is `square`; 1 if it is not
    known where one of them is."""
    w = np.sqrt(np.sqrt(ONE + kilometres(square)))
    return w if square >= ZERO else ONE


def width_of(items: int, factors: int) -> int:
    """Numbers in a model of so many venues and factors."""
    return padded(2 * factors * items)


# ---- the device's own sequence ------------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def in_order(time: Int64Array, row: Int64Array) -> Int64Array:
    """Positions of a device's rows by time, then by `row`, int64 [n]; those without a time first."""
    by_row = np.argsort(row, kind="mergesort")
    return by_row[np.argsort(time[by_row], kind="mergesort")]


@njit(cache=True, nogil=True)
def previous(time: Int64Array, order: Int64Array, tau: int) -> Int64Array:
    """The predecessor of each of a device's rows, as its position, int64 [n]; NOWHERE for the first, for one without a time, and where
    more than `tau` seconds lie between."""
    out = np.full(len(order), NOWHERE, np.int64)
    for t in range(1, len(order)):
        c, i = order[t - 1], order[t]
        if time[c] != NO_TIME and (tau == 0 or time[i] - time[c] <= tau):
            out[i] = c
    return out


# ---- learning -----------------------------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True, error_model="numpy")
def train(
    pool: Float32Array,
    at: Int64Array,
    user: Float32Array,
    who: Int64Array,
    rows: PRMERows,
    rates: PRMERates,
    items: int,
    keys: UInt64Array,
) -> None:
    """Trains the model pool[at[d]] of each node d, and its user vector user[who[d]], in place on its own rows."""
    for d in range(len(at)):
        u = who[d]
        low, high = rows.ptr[u], rows.ptr[u + 1]
        time, other = rows.time[low:high], rows.avoid[rows.avoid_ptr[u] : rows.avoid_ptr[u + 1]]
        before, n = previous(time, in_order(time, rows.row[low:high]), rates.tau), high - low
        order, drawn = np.arange(n), np.empty(n, np.int32)
        for epoch in range(rates.epochs):
            key = fold(keys[d], epoch)
            _epoch(pool[at[d]], user[u], rows.item[low:high], other, before, order, drawn, rows.point, rates, items, key)


@inside
def _epoch(
    model: Float32Array, user: Float32Array, own: Int32Array, other: Int32Array, before: Int64Array, order: Int64Array,
    drawn: Int32Array, point: Float32Array, rates: PRMERates, items: int, key: np.uint64,
) -> int:  # fmt: skip
    """A step for each of a device's rows, in random order. own: its venues, each after own[before[r]]; other: never drawn as j; point:
    float32 [3 items]. Writes `order` and what it has `drawn`; returns how many steps these were."""
    n, left = len(own), items - len(other)
    if left + n < 2:  # there is no j
        return 0
    for r in range(n):
        order[r] = r
    for r in range(n - 1, 0, -1):  # Fisher and Yates
        swap = below(draw(key, r), r + 1)
        order[r], order[swap] = order[swap], order[r]
    for t in range(n):
        r = order[t]
        i, j = np.int64(own[r]), unobserved(own, other, r, below(draw(key, n + t), left + n - 1), left)
        drawn[t] = j
        if before[r] == NOWHERE:
            step(model, user, NOWHERE, i, j, ONE, ONE, rates)
        else:
            c = np.int64(own[before[r]])
            w_i = spatial_weight(square(point, AXES * c, point, AXES * i, AXES))
            w_j = spatial_weight(square(point, AXES * c, point, AXES * j, AXES))
            step(model, user, c, i, j, w_i, w_j, rates)
    return n


@inside
def unobserved(own: Int32Array, other: Int32Array, r: int, k: int, left: int) -> int:
    """The k-th venue that the device did not go to from where it went to own[r]: first the `left` that are not in `other`, then its own but
    for own[r]. Each of its venues is one row, so that it went from each to one."""
    if k < left:
        return negative(other, k)
    k -= left
    return np.int64(own[k if k < r else k + 1])  # type: ignore[return-value]  # an int to its callers


@inside
def square(a: Float32Array, at: int, b: Float32Array, to: int, n: int) -> np.float32:
    """The squared distance |x - y|^2 of n numbers each, x from number `at` on, y from number `to` on."""
    total = ZERO
    for k in range(n):
        gap = a[at + k] - b[to + k]
        total += gap * gap
    return total


@inside
def step(
    model: Float32Array, user: Float32Array, c: int, i: int, j: int, w_i: np.float32, w_j: np.float32, rates: PRMERates
) -> None:
    """Takes one step of ascent of ln sigma(z) - reg |theta|^2. Without a venue c to come from, D is |U - P|^2."""
    factors, width = len(user), 2 * len(user)
    p_i, p_j, s_c, s_i, s_j = width * i, width * j, width * c + factors, width * i + factors, width * j + factors
    alpha = ONE if c == NOWHERE else rates.alpha
    z = alpha * (w_j * square(user, 0, model, p_j, factors) - w_i * square(user, 0, model, p_i, factors))
    if c != NOWHERE:
        far = w_j * square(model, s_c, model, s_j, factors) - w_i * square(model, s_c, model, s_i, factors)
        z += (ONE - alpha) * far
    g = TWO * rates.rate * logistic(-z)  # of both terms: dz/dx is twice a difference, weighted
    shrink, of_p, of_s = ONE - TWO * rates.rate * rates.reg, g * alpha, g * (ONE - alpha)
    for k in range(factors):
        u, i_k, j_k = user[k], model[p_i + k], model[p_j + k]
        user[k] = shrink * u + of_p * (w_j * (u - j_k) - w_i * (u - i_k))
        model[p_i + k] = shrink * i_k + of_p * w_i * (u - i_k)
        model[p_j + k] = shrink * j_k - of_p * w_j * (u - j_k)
    if c != NOWHERE:
        for k in range(factors):
            c_k, i_k, j_k = model[s_c + k], model[s_i + k], model[s_j + k]
            new_c = shrink * c_k + of_s * (w_j * (c_k - j_k) - w_i * (c_k - i_k))
            model[s_i + k] = shrink * i_k + of_s * w_i * (c_k - i_k)
            model[s_j + k] = new_c if c == j else shrink * j_k - of_s * w_j * (c_k - j_k)
            model[s_c + k] = new_c


# ---- learning from a model that others learn from too ---------------------------------------------------------------------------------


class PRMELearnt(NamedTuple):
    """Moves and new vectors that m devices learnt from one model. ptr, item: as in an Update, ascending within a device; row: float32
    [n, 2 factors], how a venue's vectors moved; user: float32 [m, factors], the new user vectors."""

    ptr: Int64Array
    item: Int32Array
    row: Float32Array
    user: Float32Array


def moves(table: Float32Array, user: Float32Array, rows: PRMERows, rates: PRMERates, keys: UInt64Array) -> PRMELearnt:
    """The moves that each of m devices learns on its rows from `table`, float32 [items, 2 factors], and its own user vector, user[d];
    neither changes."""
    counts = np.diff(rows.ptr)
    most = int(np.minimum(counts * (1 + rates.epochs), len(table)).sum())
    ptr, item, row = np.zeros(len(user) + 1, np.int64), np.empty(most, np.int32), np.empty((most, table.shape[1]), np.float32)
    table, learnt = np.ascontiguousarray(table), user.copy()
    n = _moves(table, table.copy(), learnt, rows, rates, keys, ptr, item, row)
    return PRMELearnt(ptr, item[:n], row[:n], learnt)


@njit(cache=True, nogil=True, error_model="numpy")
def _moves(
    table: Float32Array, own_table: Float32Array, user: Float32Array, rows: PRMERows, rates: PRMERates, keys: UInt64Array, ptr: Int64Array,
    item: Int32Array, out: Float32Array,
) -> int:  # fmt: skip
    """Writes ptr, item, out and `user`; returns how many rows moved. own_table: a copy, on which one device after the other learns."""
    total, items, width = 0, table.shape[0], table.shape[1]
    for d in range(len(keys)):
        low, high = rows.ptr[d], rows.ptr[d + 1]
        time, other, n = rows.time[low:high], rows.avoid[rows.avoid_ptr[d] : rows.avoid_ptr[d + 1]], high - low
        before, order = previous(time, in_order(time, rows.row[low:high]), rates.tau), np.arange(n)
        met, steps = np.empty(n * (1 + rates.epochs), np.int32), 0
        met[:n] = rows.item[low:high]
        for epoch in range(rates.epochs):
            drawn, key = met[n + steps : n + steps + n], fold(keys[d], epoch)
            steps += _epoch(
                own_table.ravel(), user[d], rows.item[low:high], other, before, order, drawn, rows.point, rates, items, key
            )
        touched = np.unique(met[: n + steps]) if steps else met[:0]
        for v in touched:
            item[total] = v
            for k in range(width):
                out[total, k] = own_table[v, k] - table[v, k]
                own_table[v, k] = table[v, k]
            total += 1
        ptr[d + 1] = total
    return total
