"""Matrix factorisation with biases on one device: r_ui = p_u . q_i + b_u + b_i (FBALF eq. 4),
learnt by coordinate-wise Newton steps.

A device knows the rows q_i, b_i of the items it rated and one number v_i, the variance that the
server gives q_i's coordinates. With y_i = r_ui - b_i - start and reg the weight of p_u's prior, p_u
and d = b_u - start minimise the expectation over q_i of

    sum_i (y_i - d - p . q_i)^2 + reg |p|^2 + reg_b d^2
        =  sum_i (y_i - d - p . q_i)^2 + (reg + sum_i v_i) |p|^2 + reg_b d^2

(without v: eq. 5 as printed). All that the steps need of the items are the sums N = sum q q', s =
sum q, z = sum y q and sum y, which are made once; a local iteration then goes once over d and the
coordinates of p and puts each at its own minimum, that is, it takes the step of eq. 11 with 1 /
curvature as its rate. p_u is known up to a covariance C = noise (N + (reg + sum v) 1)^-1.
tests/kernels/test_biased_mf.py writes all of it out in plain NumPy, and holds this file to it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..core.compiling import njit
from ..core.lanes.memory import padded, sealed, zeros
from ..core.lanes.simd import LANES, every, inside, load, store, sum_of
from ..core.types import BoolArray, Float32Array, Float64Array, Int32Array, Int64Array


class BiasedMFRates(NamedTuple):
    """Constants of the training of a device."""

    steps: int
    """Local iterations."""
    reg: np.float32
    """The weight of the prior of p_u."""
    reg_bias: np.float32
    """The weight of the prior of b_u - start."""
    noise: np.float32
    """The variance of a rating around its prediction; 0 = p_u is taken to be exact."""
    bias: bool
    """True if b_u moves."""
    predict: bool
    """True if decoys are rated by the prediction of the new p_u and b_u, False for the user's mean.
    """


class BiasedMFRows(NamedTuple):
    """Rated items and decoys of m devices (see `privacy.decoys.Mixed`)."""

    ptr: Int64Array
    """int64 [m + 1] from 0."""
    item: Int32Array
    """int32 [ptr[m]]."""
    value: Float32Array
    """float32 [ptr[m]], ratings."""
    rated: BoolArray
    """bool [ptr[m]], False for decoys."""
    start: Float32Array
    """float32 [m], the first b_u of each device."""


class BiasedMFItems(NamedTuple):
    """The items as devices receive them, of K models."""

    q: Float32Array
    """float32 [items, K, F]."""
    b: Float32Array
    """float32 [items, K]."""
    v: Float32Array
    """float32 [items]."""


class BiasedMFRoom(NamedTuple):
    """Working memory of a device; rows are padded to W."""

    n: Float32Array
    """The sum N, [F, W]."""
    s: Float32Array
    """The sum s, [1, W]."""
    z: Float32Array
    """The sum z, [1, W]; then a gradient."""
    x: Float32Array
    """One q_i, [1, W]."""
    p: Float32Array
    """p_u, [1, W]."""
    old: Float32Array
    """p_u before, [1, W]."""
    c: Float32Array
    """The covariance C, [F, W]."""
    a: Float64Array
    """Its Cholesky factor, [F, F]."""


def gradients(
    q: Float32Array,
    b: Float32Array,
    v: Float32Array,
    p: Float32Array,
    offset: Float32Array,
    rows: BiasedMFRows,
    rates: BiasedMFRates,
) -> tuple[Float32Array, Float32Array]:
    """Moves p and offset in place and returns the gradients of q_i, float32 [n, K, F], and b_i,
    float32 [n, K], for every row (eq. 10, halved), of K models that know nothing of each other.

    q, b, v: as in `BiasedMFItems`. p: float32 [m, K, F]. offset: b_u - start, float32 [m, K]. A
    gradient is of half the squared error alone: reg is the server's business. For a rated item it
    is -e p_u + C q_i, the mean over all p_u that are likely; for a decoy -e p_u.
    """
    members, factors = p.shape[1:]
    width = padded(factors)
    g_q = np.empty((len(rows.item), members, factors), np.float32)
    g_b = np.empty((len(rows.item), members), np.float32)
    room = BiasedMFRoom(
        n=zeros(factors, width),
        s=zeros(1, width),
        z=zeros(1, width),
        x=zeros(1, width),
        p=zeros(1, width),
        old=zeros(1, width),
        c=zeros(factors, width),
        a=np.empty((factors, factors)),
    )
    items = BiasedMFItems(sealed(q), sealed(b), sealed(v))
    for k in range(members):
        _gradients(items, k, p, offset, rows, rates, room, (g_q, g_b))
    return g_q, g_b


@njit(cache=True, nogil=True, error_model="numpy")
def _gradients(
    items: BiasedMFItems,
    k: int,
    p: Float32Array,
    offset: Float32Array,
    rows: BiasedMFRows,
    rates: BiasedMFRates,
    room: BiasedMFRoom,
    out: tuple[Float32Array, Float32Array],
) -> None:
    """Trains model k of all devices, one device after the other. out: the gradients of q and b."""
    # Arrays are taken out of their tuples before the loop, where numba would count references.
    q = items.q
    b = items.b
    v = items.v
    g_q, g_b = out
    ptr = rows.ptr
    item = rows.item
    value = rows.value
    rated = rows.rated
    members = q.shape[1]
    factors = q.shape[2]
    width = room.n.shape[1]
    x = room.x
    mine = room.p
    old = room.old
    s = room.s
    z = room.z
    c = room.c
    for d in range(len(p)):
        start = rows.start[d]
        count = 0
        total = np.float32(0)
        given = np.float32(0)
        spread = np.float32(0)
        # All that the steps need of the rated items are sums, made once.
        clear(room)
        for r in range(ptr[d], ptr[d + 1]):
            if not rated[r]:
                continue
            i = np.int64(item[r])
            y = value[r] - b[i, k] - start
            count += 1
            total += y
            given += value[r]
            spread += v[i]
            at = (i * members + k) * factors
            for f in range(0, width, LANES):
                row = load(q, at + f, factors - f)
                store(x, f, row)
                store(s, f, load(s, f) + row)
                store(z, f, load(z, f) + every(y) * row)
            add_square(room.n, x, factors)
        # The gradients of decoys compare the new p_u with the old.
        at = (d * members + k) * factors
        for f in range(0, width, LANES):
            own = load(p, at + f, factors - f)
            store(mine, f, own)
            store(old, f, own)
        was = offset[d, k]
        now = descend(room, factors, np.float32(count), total, was, rates, spread)
        mean = given / np.float32(max(count, 1))
        if rates.noise > 0:
            covariance(room, factors, rates.reg + spread, rates.noise)
        # The gradients of every row, those of decoys too.
        for r in range(ptr[d], ptr[d + 1]):
            i = np.int64(item[r])
            at = (i * members + k) * factors
            product = every(np.float32(0))
            before = every(np.float32(0))
            for f in range(0, width, LANES):
                row = load(q, at + f, factors - f)
                store(x, f, row)
                product = product + load(mine, f) * row
                before = before + load(old, f) * row
            by_new = now + sum_of(product)
            by_old = was + sum_of(before)
            if rated[r]:
                e = value[r] - b[i, k] - start - by_new
            elif rates.predict:
                # The made-up rating r' is the new prediction, that of the model the one before
                # (FedRec).
                e = by_new - by_old
            else:
                e = mean - b[i, k] - start - by_new
            g_b[r, k] = -e
            # The sum z has served; its memory holds the gradient.
            for f in range(0, width, LANES):
                step = every(-e) * load(mine, f)
                # The mean over all p_u that are likely adds C q_i.
                if rated[r] and rates.noise > 0:
                    for h in range(factors):
                        step = step + every(x[0, h]) * load(c, h * width + f)
                store(z, f, step)
            for f in range(factors):
                g_q[r, k, f] = z[0, f]
        # The user's own parameters stay on the device.
        offset[d, k] = now
        for f in range(factors):
            p[d, k, f] = mine[0, f]


@inside
def clear(room: BiasedMFRoom) -> None:
    """Sets the sums of a device to 0."""
    none = every(np.float32(0))
    for f in range(0, room.n.size, LANES):
        store(room.n, f, none)
    for f in range(0, room.s.size, LANES):
        store(room.s, f, none)
        store(room.z, f, none)


@inside
def add_square(n: Float32Array, x: Float32Array, factors: int) -> None:
    """Adds the outer product of an item vector with itself, N += x x'."""
    width = n.shape[1]
    for k in range(factors):
        weight = every(x[0, k])
        for f in range(0, width, LANES):
            at = k * width + f
            store(n, at, load(n, at) + weight * load(x, f))


@inside
def descend(
    room: BiasedMFRoom,
    factors: int,
    count: np.float32,
    total: np.float32,
    d: np.float32,
    rates: BiasedMFRates,
    spread: np.float32,
) -> np.float32:
    """Runs the local iterations: room.p in place. Returns the new d = b_u - start. A coordinate
    that nothing holds stays where it is.
    """
    n = room.n
    s = room.s
    z = room.z
    p = room.p
    width = n.shape[1]
    # The variance of the items adds to the prior.
    reg = rates.reg + spread
    for _ in range(rates.steps):
        # The minimum over d with p held.
        if rates.bias and count + rates.reg_bias > 0:
            product = every(np.float32(0))
            for f in range(0, width, LANES):
                product = product + load(s, f) * load(p, f)
            d = (total - sum_of(product)) / (count + rates.reg_bias)
        # The minimum over each coordinate of p with all else held.
        for k in range(factors):
            product = every(np.float32(0))
            for f in range(0, width, LANES):
                product = product + load(n, k * width + f) * load(p, f)
            curvature = n[k, k] + reg
            if curvature > 0:
                downhill = z[0, k] - d * s[0, k] - sum_of(product) - reg * p[0, k]
                p[0, k] += downhill / curvature
    return d


@inside
def covariance(room: BiasedMFRoom, factors: int, reg: np.float32, noise: np.float32) -> None:
    """Writes the covariance of p_u, c = noise (N + reg 1)^-1, by Cholesky's factor L and its
    inverse: c = noise (L^-1)' L^-1.
    """
    a = room.a
    n = room.n
    c = room.c
    # L, row by row.
    for k in range(factors):
        for m in range(k + 1):
            left = np.float64(n[k, m]) + np.float64(reg if m == k else np.float32(0))
            for h in range(m):
                left -= a[k, h] * a[m, h]
            # Rounding may leave a pivot that is not above 0.
            a[k, m] = np.sqrt(max(left, 1e-12)) if m == k else left / a[m, m]
    # L^-1 in place, column by column.
    for m in range(factors):
        a[m, m] = 1.0 / a[m, m]
        for k in range(m + 1, factors):
            left = np.float64(0)
            for h in range(m, k):
                left -= a[k, h] * a[h, m]
            a[k, m] = left / a[k, k]
    # (L^-1)' L^-1, of which one half is enough.
    for k in range(factors):
        for m in range(k + 1):
            left = np.float64(0)
            for h in range(k, factors):
                left += a[h, k] * a[h, m]
            c[k, m] = np.float32(np.float64(noise) * left)
            c[m, k] = c[k, m]
