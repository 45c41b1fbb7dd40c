"""PRME-G on a device: its training on its own visits, and its scores of venues. Feng, Li, Zeng,
Cong, Chee, Yuan, "Personalized ranking metric embedding for next new POI recommendation", IJCAI
2015, section 4.

Venue l has a point P_l among users, and a point S_l among venues. For user u at venue c, venue l is
the likelier the next, the smaller the distance

    D(u, c, l) = w(c, l) (alpha |U_u - P_l|^2 + (1 - alpha) |S_c - S_l|^2)
    w(c, l) = (1 + km from c to l)^0.25

or D(u, c, l) = |U_u - P_l|^2 if more than tau passes before the next visit, or the visit before is
not known.

A model is one row of float32: P_l and S_l of venue after venue, [items, 2 factors], padded. They
lie side by side because a step needs both of three venues and nothing else. The user vector U is
not part of the row: between peers it never leaves the device.

One local epoch goes through the transitions of a device in a random order. For each, from c to i,
it draws a venue j that was not observed for (u, c), and ascends ln sigma(z) - reg |theta|^2, z =
D(u, c, j) - D(u, c, i), in all vectors at once. Transitions are between successive visits, repeated
ones included where the data has them (`Visits`).

A list has no venue to come from, so it begins at those that the device has been to: the score of a
venue l is -D(u, c, l) of the nearest such c, of the latest, or in the mean over all c.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..core.compiling import njit
from ..core.contract.protocols import Visits
from ..core.keys import below, draw, fold
from ..core.lanes.memory import padded, sealed
from ..core.lanes.simd import inside
from ..core.types import Float32Array, Int32Array, Int64Array, UInt64Array
from .geography import AXES, kilometres
from .logistic import logistic
from .sampling import negative, shuffle
from .visit_sequence import NOWHERE, VisitSequence, in_order, sequence_of

ZERO = np.float32(0)
ONE = np.float32(1)
TWO = np.float32(2)
# How the venues that a list may begin from become one score.
NEAREST, MEAN, LATEST = range(3)
# Venues scored at once: their vectors stay in the first-level cache.
TILE = 512


class PRMERows(NamedTuple):
    """The histories of n devices, as in `Histories`."""

    ptr: Int64Array
    """int64 [n + 1] from 0."""
    item: Int32Array
    """int32 [ptr[n]], ascending within a device."""
    avoid_ptr: Int64Array
    """int64 [n + 1] from 0."""
    avoid: Int32Array
    """Venues that a device never draws, ascending."""
    time: Int64Array
    """int64 [ptr[n]], NO_TIME where not known."""
    row: Int64Array
    """int64 [ptr[n]], breaks ties in time."""
    visits: Visits
    """The visits of each row, at least one."""
    point: Float32Array
    """float32 [3 items], `geography.flat_points` of all venues."""


class PRMERates(NamedTuple):
    """Constants of the training of a device."""

    rate: np.float32
    """The learning rate of stochastic gradient ascent."""
    reg: np.float32
    """lambda of all vectors."""
    alpha: np.float32
    """The weight of P against S."""
    tau: int
    """Seconds after which a visit follows no other; 0 = no gap is too long."""
    epochs: int
    """Local epochs of a training."""


@njit(cache=True, inline="always")
def spatial_weight(square: np.float32) -> np.float32:
    """Returns the weight w = (1 + km)^0.25 (eq. 10) of two points on the unit sphere whose straight
    distance squared is `square`; 1 if the place of one of them is unknown.
    """
    w = np.sqrt(np.sqrt(ONE + kilometres(square)))
    # An unknown place has a distance below 0, or NaN.
    return w if square >= ZERO else ONE


def width_of(items: int, factors: int) -> int:
    """Returns the length of a model of so many venues and factors."""
    return padded(2 * factors * items)


# ---- learning ------------------------------------------------------------------------------------


class PRMEDevice(NamedTuple):
    """The data that one device learns from."""

    own: Int32Array
    """Its venues, ascending."""
    other: Int32Array
    """Venues that are never drawn as j, ascending."""
    seen: VisitSequence
    """Its visits, whose items are places in `own`."""
    point: Float32Array
    """float32 [3 items], where all venues are."""


@njit(cache=True, nogil=True, error_model="numpy")
def train(
    pool: Float32Array,
    at: Int64Array,
    user: Float32Array,
    who: Int64Array,
    rows: PRMERows,
    rates: PRMERates,
    keys: UInt64Array,
) -> None:
    """Trains the model pool[at[d]] of each node d, and its user vector user[who[d]], in place on
    its own rows.
    """
    for d in range(len(at)):
        u = who[d]
        met = np.empty(met_by(rows, u, rates.epochs), np.int32)
        learn(pool[at[d]], user[u], rows, u, rates, keys[d], met)


@njit(cache=True, nogil=True)
def met_by(rows: PRMERows, u: int, epochs: int) -> int:
    """Returns the most venues that the steps of device u are about: its own, and one drawn for each
    visit and epoch.
    """
    low = rows.ptr[u]
    high = rows.ptr[u + 1]
    visits = rows.visits.ptr[high] - rows.visits.ptr[low]
    # an int to its callers
    return high - low + epochs * visits  # type: ignore[no-any-return]


@njit(cache=True, nogil=True, error_model="numpy")
def learn(
    model: Float32Array,
    user: Float32Array,
    rows: PRMERows,
    u: int,
    rates: PRMERates,
    key: np.uint64,
    met: Int32Array,
) -> int:
    """Trains a model and a user vector in place on the rows of device u. Writes the venues of its
    steps, its own and then those drawn, to `met`. Returns the number of these, 0 without a step.
    """
    low = rows.ptr[u]
    high = rows.ptr[u + 1]
    own = rows.item[low:high]
    other = rows.avoid[rows.avoid_ptr[u] : rows.avoid_ptr[u + 1]]
    seen = sequence_of(rows.visits, low, high, rates.tau)
    device = PRMEDevice(own, other, seen, rows.point)
    n = high - low
    visits = len(seen.item)
    steps = 0
    met[:n] = own
    order = np.empty(visits, np.int64)
    for epoch in range(rates.epochs):
        drawn = met[n + steps : n + steps + visits]
        steps += _epoch(model, user, device, order, drawn, rates, fold(key, epoch))
    return n + steps if steps else 0


@inside
def _epoch(
    model: Float32Array,
    user: Float32Array,
    device: PRMEDevice,
    order: Int64Array,
    drawn: Int32Array,
    rates: PRMERates,
    key: np.uint64,
) -> int:
    """Takes a step for each visit of a device, in random order. Writes `order` and the venues that
    it has `drawn`. Returns the number of steps.
    """
    own = device.own
    other = device.other
    seen = device.seen
    point = device.point
    left = len(point) // AXES - len(other)
    steps = 0
    shuffle(order, 0, len(order), key)
    for t in range(len(order)):
        v = order[t]
        before = seen.before[v]
        # The venues where the device went from c, or the visit itself if it came from nowhere.
        next = seen.item[v : v + 1]
        if before != NOWHERE:
            from_where = seen.item[before]
            next = seen.next[seen.ptr[from_where] : seen.ptr[from_where + 1]]
        # j, if there is one: a venue where it did not go from there.
        many = left + len(own) - len(next)
        if many < 1:
            continue
        # The first len(order) draws of the key made the order.
        k = below(draw(key, len(order) + t), many)
        j = unobserved(own, other, next, k, left)
        drawn[steps] = j
        steps += 1
        i = np.int64(own[seen.item[v]])
        if before == NOWHERE:
            step(model, user, NOWHERE, i, j, ONE, ONE, rates)
        else:
            c = np.int64(own[seen.item[before]])
            w_i = spatial_weight(square(point, AXES * c, point, AXES * i, AXES))
            w_j = spatial_weight(square(point, AXES * c, point, AXES * j, AXES))
            step(model, user, c, i, j, w_i, w_j, rates)
    return steps


@inside
def unobserved(own: Int32Array, other: Int32Array, next: Int32Array, k: int, left: int) -> int:
    """Returns the k-th venue that was not observed after a venue which own[next[0]], own[next[1]],
    ... followed: first the `left` venues that are not in `other`, then the device's own without
    these.
    """
    if k < left:
        return negative(other, k)
    # an int to its callers
    return np.int64(own[negative(next, k - left)])  # type: ignore[return-value]


@inside
def square(a: Float32Array, at: int, b: Float32Array, to: int, n: int) -> np.float32:
    """Returns the squared distance |x - y|^2 of n numbers each: x from number `at` on, y from
    number `to` on.
    """
    total = ZERO
    for k in range(n):
        gap = a[at + k] - b[to + k]
        total += gap * gap
    return total


@inside
def step(
    model: Float32Array,
    user: Float32Array,
    c: int,
    i: int,
    j: int,
    w_i: np.float32,
    w_j: np.float32,
    rates: PRMERates,
) -> None:
    """Takes one step of ascent of ln sigma(z) - reg |theta|^2. Without a venue c to come from, D is
    |U - P|^2.
    """
    # Where the vectors of the three venues begin.
    factors = len(user)
    width = 2 * len(user)
    p_i = width * i
    p_j = width * j
    s_c = width * c + factors
    s_i = width * i + factors
    s_j = width * j + factors
    # z = D(u, c, j) - D(u, c, i).
    alpha = ONE if c == NOWHERE else rates.alpha
    far_j = w_j * square(user, 0, model, p_j, factors)
    far_i = w_i * square(user, 0, model, p_i, factors)
    z = alpha * (far_j - far_i)
    if c != NOWHERE:
        far_j = w_j * square(model, s_c, model, s_j, factors)
        far_i = w_i * square(model, s_c, model, s_i, factors)
        z += (ONE - alpha) * (far_j - far_i)
    # d ln sigma(z) / dz = sigma(-z), and dz/dx of each vector x is twice a weighted difference.
    g = TWO * rates.rate * logistic(-z)
    shrink = ONE - TWO * rates.rate * rates.reg
    of_p = g * alpha
    of_s = g * (ONE - alpha)
    # Move U, P_i and P_j, all from where they were.
    for k in range(factors):
        u = user[k]
        i_k = model[p_i + k]
        j_k = model[p_j + k]
        user[k] = shrink * u + of_p * (w_j * (u - j_k) - w_i * (u - i_k))
        model[p_i + k] = shrink * i_k + of_p * w_i * (u - i_k)
        model[p_j + k] = shrink * j_k - of_p * w_j * (u - j_k)
    # Move S_c, S_i and S_j likewise. c may be j: then the last line overwrites the one before.
    if c != NOWHERE:
        for k in range(factors):
            c_k = model[s_c + k]
            i_k = model[s_i + k]
            j_k = model[s_j + k]
            new_c = shrink * c_k + of_s * (w_j * (c_k - j_k) - w_i * (c_k - i_k))
            model[s_i + k] = shrink * i_k + of_s * w_i * (c_k - i_k)
            model[s_j + k] = new_c if c == j else shrink * j_k - of_s * w_j * (c_k - j_k)
            model[s_c + k] = new_c


# ---- scores --------------------------------------------------------------------------------------


class PRMEScoring(NamedTuple):
    """The rule by which venues are scored."""

    how: int
    """NEAREST, MEAN or LATEST."""
    alpha: np.float32
    """Weight of P against S."""


class PRMEScoreRoom(NamedTuple):
    """Working memory to score TILE venues at once, float32."""

    vector: Float32Array
    """[2 factors + 3, TILE], P, S and point of each venue."""
    by_user: Float32Array
    """[TILE], |U - P_l|^2."""
    by_venue: Float32Array
    """[TILE], |S_c - S_l|^2."""
    total: Float32Array
    """[TILE], the least or the sum of D over the venues c so far."""


@njit(cache=True, nogil=True)
def room_of(factors: int) -> PRMEScoreRoom:
    """Returns working memory for vectors of this length."""
    return PRMEScoreRoom(
        np.empty((2 * factors + AXES, TILE), np.float32),
        np.empty(TILE, np.float32),
        np.empty(TILE, np.float32),
        np.empty(TILE, np.float32),
    )


@njit(cache=True, nogil=True, error_model="numpy")
def score(
    model: Float32Array,
    user: Float32Array,
    start: Int32Array,
    venue: Int32Array,
    point: Float32Array,
    scoring: PRMEScoring,
    room: PRMEScoreRoom,
    out: Float32Array,
) -> None:
    """Scores -D(u, c, v) of venues v over the venues c in `start`: of the nearest c, or the mean;
    -|U - P_l|^2 without any. point: float32 [3 items]; out: float32 [len(venue)].
    """
    factors = len(user)
    alpha = scoring.alpha
    mean = scoring.how == MEAN
    tile = room.vector
    by_user = room.by_user
    by_venue = room.by_venue
    total = room.total
    east = tile[2 * factors]
    north = tile[2 * factors + 1]
    up = tile[2 * factors + 2]
    for low in range(0, len(venue), TILE):
        n = min(TILE, len(venue) - low)
        # One factor of all venues side by side, so that the loops below are of vectors.
        _gather(model, point, venue[low : low + n], factors, tile)
        by_user[:n] = ZERO
        for k in range(factors):
            _add_square(user[k], tile[k], n, by_user)
        for at in range(len(start)):
            c = np.int64(start[at])
            s_c = (2 * c + 1) * factors
            by_venue[:n] = ZERO
            for k in range(factors):
                _add_square(model[s_c + k], tile[factors + k], n, by_venue)
            x = point[AXES * c]
            y = point[AXES * c + 1]
            z = point[AXES * c + 2]
            for v in range(n):
                by_x = x - east[v]
                by_y = y - north[v]
                by_z = z - up[v]
                gap = by_x * by_x + by_y * by_y + by_z * by_z
                near = alpha * by_user[v] + (ONE - alpha) * by_venue[v]
                d = spatial_weight(gap) * near
                if at == 0:
                    total[v] = d
                elif mean:
                    total[v] = total[v] + d
                elif d < total[v]:
                    total[v] = d
        # The divisor 1 changes no bit.
        by = np.float32(len(start)) if mean and len(start) else ONE
        for v in range(n):
            d = total[v] if len(start) else by_user[v]
            out[low + v] = -d / by


@inside
def _gather(
    model: Float32Array, point: Float32Array, venue: Int32Array, factors: int, tile: Float32Array
) -> None:
    """Writes P, S and point of each venue to a column of `tile`."""
    for v in range(len(venue)):
        at = 2 * factors * np.int64(venue[v])
        to = AXES * np.int64(venue[v])
        for k in range(2 * factors):
            tile[k, v] = model[at + k]
        for k in range(AXES):
            tile[2 * factors + k, v] = point[to + k]


@inside
def _add_square(x: np.float32, row: Float32Array, n: int, total: Float32Array) -> None:
    """Adds (x - row[v])^2 to total[v] for v < n."""
    for v in range(n):
        gap = x - row[v]
        total[v] += gap * gap


def scores(
    pool: Float32Array,
    at: Int64Array,
    user: Float32Array,
    who: Int64Array,
    rows: PRMERows,
    scoring: PRMEScoring,
) -> Float32Array:
    """Returns scores of every venue for the users of nodes `who` by the models pool[at], float32
    [m, items].
    """
    out = np.empty((len(at), len(rows.point) // AXES), np.float32)
    _scores(sealed(pool), at, sealed(user), who, rows, scoring, out)
    return out


@njit(cache=True, nogil=True, error_model="numpy")
def _scores(
    pool: Float32Array,
    at: Int64Array,
    user: Float32Array,
    who: Int64Array,
    rows: PRMERows,
    scoring: PRMEScoring,
    out: Float32Array,
) -> None:
    everything = np.arange(out.shape[1]).astype(np.int32)
    room = room_of(user.shape[1])
    for d in range(len(at)):
        u = who[d]
        start = starts_of(rows, u, scoring.how)
        score(pool[at[d]], user[u], start, everything, rows.point, scoring, room, out[d])


@njit(cache=True, nogil=True)
def starts_of(rows: PRMERows, u: int, how: int) -> Int32Array:
    """Returns the venues from which the lists of device u may begin: all its own, or the latest."""
    low = rows.ptr[u]
    high = rows.ptr[u + 1]
    item = rows.item[low:high]
    if how == LATEST:
        order = in_order(rows.time[low:high], rows.row[low:high])
        return item[order[-1:]]
    return item
