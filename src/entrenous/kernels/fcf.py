"""Kernels of FCF: the exact solution for a user's factors, and the two forms of the gradient that a
device sends.

Plain loops in a fixed order, with sums in float64: the same bits on any machine with this
arithmetic, which BLAS does not promise. y_i: factors of an item; x_u: factors of a user; c_ui: the
confidence in a consumed item; w (`unobserved`): the confidence in an item that was not consumed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..core.compiling import njit
from ..core.lanes.doubles import DOUBLES, TERMS, add_products
from ..core.lanes.memory import sealed
from ..core.types import Float32Array, Float64Array, Int32Array, Int64Array

# Rounding may leave a pivot of Cholesky's that is below this, or not above 0.
PIVOT = 1e-12


class Consumed(NamedTuple):
    """The consumed items of m devices, those of device u at item[ptr[u]:ptr[u + 1]]."""

    ptr: Int64Array
    """int64 [m + 1] from 0."""
    item: Int32Array
    """int32 [ptr[m]]."""
    c: Float32Array
    """float32 [ptr[m]], the confidence c_ui of each."""


def gram(y: Float32Array) -> Float64Array:
    """Returns the lower triangle of Y^T Y, float64 [F, F], added up item by item; 0 above the
    diagonal.
    """
    return _gram(sealed(y))


@njit(cache=True, nogil=True)
def _gram(y: Float32Array) -> Float64Array:
    factors = y.shape[1]
    out = np.zeros((factors, factors))
    for i in range(len(y)):
        for f in range(factors):
            weight = np.float64(y[i, f])
            row = out[f]
            # The matrix is symmetric: its lower triangle is enough.
            for g in range(f + 1):
                row[g] += weight * y[i, g]
    return out


def solve(
    y: Float32Array, gram: Float64Array, consumed: Consumed, unobserved: float, reg: Float64Array
) -> Float32Array:
    """Returns x_u = (Y^T C_u Y + lambda_u I)^-1 Y^T C_u p_u of every device, float32 [m, F]. gram:
    as `gram` returns it; reg: lambda of each device, float64 [m].
    """
    x = np.empty((len(consumed.ptr) - 1, y.shape[1]), np.float32)
    _solve(sealed(y), sealed(gram), _sealed(consumed), unobserved, reg, x)
    return x


def _sealed(consumed: Consumed) -> Consumed:
    return Consumed(sealed(consumed.ptr), sealed(consumed.item), sealed(consumed.c))


@njit(cache=True, nogil=True)
def _solve(
    y: Float32Array,
    gram: Float64Array,
    consumed: Consumed,
    unobserved: float,
    reg: Float64Array,
    x: Float32Array,
) -> None:
    factors = y.shape[1]
    # Rows of the matrix begin where a vector of DOUBLES numbers does.
    width = -(-factors // DOUBLES) * DOUBLES
    a = np.zeros((factors, width))
    rhs = np.empty(factors)
    columns = np.zeros((TERMS, width))
    for u in range(len(x)):
        # Y^T C_u Y = w Y^T Y + Y^T (C_u - w I) Y: of the second term, only consumed items are not
        # 0, so a device adds a few rows to a matrix that all devices share.
        rhs[:] = 0
        for f in range(factors):
            for g in range(width):
                a[f, g] = unobserved * gram[f, g] if g <= f else 0.0
            a[f, f] += reg[u]
        own = slice(consumed.ptr[u], consumed.ptr[u + 1])
        item = consumed.item[own]
        c = consumed.c[own]
        _add_consumed(y, item, c, unobserved, a, rhs)
        # The right-hand side becomes the solution.
        _cholesky_solve(a, rhs, columns, PIVOT)
        for f in range(factors):
            x[u, f] = rhs[f]


@njit(cache=True, nogil=True)
def _add_consumed(
    y: Float32Array,
    item: Int32Array,
    c: Float32Array,
    unobserved: float,
    a: Float64Array,
    rhs: Float64Array,
) -> None:
    """Adds (c_ui - w) y_i y_i^T of each consumed item to the lower triangle of a, and c_ui y_i to
    rhs, TERMS items at a time.
    """
    factors, width = a.shape
    rows = np.zeros((TERMS, width))
    weights = np.zeros((TERMS, width))
    for first in range(0, len(item), TERMS):
        left = len(item) - first
        # The last items may be fewer than TERMS; rows of zeros add nothing.
        if left < TERMS:
            rows[:] = 0
            weights[:] = 0
        for k in range(min(TERMS, left)):
            factors_of_item = y[item[first + k]]
            row = rows[k]
            weight = weights[k]
            confidence = np.float64(c[first + k])
            for f in range(factors):
                row[f] = factors_of_item[f]
                weight[f] = (confidence - unobserved) * row[f]
                rhs[f] += confidence * row[f]
        # The outer products of all of them, eight numbers of a row of `a` at a time.
        for f in range(factors):
            for g in range(0, f + 1, DOUBLES):
                at = f * width + g
                add_products(a, at, weights, f, width, rows, g, width)


@njit(cache=True, nogil=True)
def _cholesky_solve(
    a: Float64Array, rhs: Float64Array, columns: Float64Array, least: float
) -> None:
    """Overwrites rhs with a^-1 rhs for a symmetric positive definite matrix given by its lower
    triangle, and that with its Cholesky factor L.

    a: [n, n or more, a multiple of DOUBLES]. TERMS columns of the factor are taken off the rest at
    a time; columns: [TERMS, as a], room for them. least: a pivot's least value, where rounding or
    noise has left less.
    """
    n, width = a.shape
    # The factor L, and the forward substitution L z = rhs.
    for first in range(0, n, TERMS):
        last = min(first + TERMS, n)
        _finish_columns(a, rhs, first, last, columns, least)
        # Take the finished columns off the columns to the right, from the vector in which the first
        # of those lies: before it, `columns` is 0.
        begin = last // DOUBLES * DOUBLES
        for f in range(last, n):
            row = f * width
            for g in range(begin, f + 1, DOUBLES):
                add_products(a, row + g, a, row + first, 1, columns, g, width)
    # The backward substitution L^T x = z.
    for f in range(n - 1, -1, -1):
        for g in range(f + 1, n):
            rhs[f] -= a[g, f] * rhs[g]
        rhs[f] /= a[f, f]


@njit(cache=True, nogil=True)
def _finish_columns(
    a: Float64Array,
    rhs: Float64Array,
    first: int,
    last: int,
    columns: Float64Array,
    least: float,
) -> None:
    """Finishes columns first to last of the factor, from which the columns before were taken off
    already, and their part of the forward substitution. Leaves in `columns` these from row `last`
    on, with the opposite sign, and 0 before.
    """
    for k in range(first, last):
        own = columns[k - first]
        for f in range(k, len(a)):
            own[f] = a[f, k]
        # Take off the columns of the same group.
        for h in range(first, k):
            other = columns[h - first]
            weight = a[k, h]
            for f in range(k, len(a)):
                own[f] -= other[f] * weight
        own[k] = np.sqrt(max(own[k], least))
        for f in range(k + 1, len(a)):
            own[f] /= own[k]
        # One step of the forward substitution.
        rhs[k] /= own[k]
        for f in range(k, len(a)):
            a[f, k] = own[f]
            rhs[f] -= own[f] * rhs[k] if f > k else 0.0
    # Turn the sign: `add_products` adds, and these are to be taken off.
    for own in columns:
        own[:last] = 0
        for f in range(last, len(a)):
            own[f] = -own[f]


def gradients(
    y: Float32Array, x: Float32Array, consumed: Consumed, unobserved: float
) -> Float32Array:
    """Returns f(u, i) = c_ui (p_ui - x_u . y_i) x_u for every device and item, float32 [m, items,
    F].
    """
    out = np.empty((len(x), *y.shape), np.float32)
    _gradients(sealed(y), x, _sealed(consumed), unobserved, out)
    return out


@njit(cache=True, nogil=True)
def _gradients(
    y: Float32Array, x: Float32Array, consumed: Consumed, unobserved: float, out: Float32Array
) -> None:
    factors = y.shape[1]
    error = np.empty(len(y), np.float32)
    for u in range(len(x)):
        own = slice(consumed.ptr[u], consumed.ptr[u + 1])
        item = consumed.item[own]
        c = consumed.c[own]
        _errors(y, x[u], item, c, unobserved, error)
        for i in range(len(y)):
            for f in range(factors):
                out[u, i, f] = error[i] * x[u, f]


@njit(cache=True, nogil=True)
def _errors(
    y: Float32Array,
    x: Float32Array,
    consumed: Int32Array,
    c: Float32Array,
    unobserved: float,
    error: Float32Array,
) -> None:
    """Writes c_ui (p_ui - x_u . y_i) of every item to `error`."""
    # First of all items as if none were consumed (p_ui = 0, c_ui = w).
    for i in range(len(y)):
        score = np.float32(0)
        for f in range(len(x)):
            score += x[f] * y[i, f]
        error[i] = -np.float32(unobserved) * score
    # Then of those that were (p_ui = 1).
    for r in range(len(consumed)):
        i = consumed[r]
        score = np.float32(0)
        for f in range(len(x)):
            score += x[f] * y[i, f]
        error[i] = c[r] * (np.float32(1) - score)


def own_rows(
    y: Float32Array, x: Float32Array, consumed: Consumed, unobserved: float
) -> Float32Array:
    """Returns f(u, i) + w (x_u . y_i) x_u = (c_ui - (c_ui - w) x_u . y_i) x_u of every consumed
    item, float32 [interactions, F].
    """
    out = np.empty((len(consumed.item), y.shape[1]), np.float32)
    _own_rows(sealed(y), x, _sealed(consumed), unobserved, out)
    return out


@njit(cache=True, nogil=True)
def _own_rows(
    y: Float32Array, x: Float32Array, consumed: Consumed, unobserved: float, out: Float32Array
) -> None:
    factors = y.shape[1]
    w = np.float32(unobserved)
    for u in range(len(x)):
        for r in range(consumed.ptr[u], consumed.ptr[u + 1]):
            i = consumed.item[r]
            c = consumed.c[r]
            score = np.float32(0)
            for f in range(factors):
                score += x[u, f] * y[i, f]
            weight = c - (c - w) * score
            for f in range(factors):
                out[r, f] = weight * x[u, f]


@njit(cache=True, nogil=True)
def outer_products(x: Float32Array) -> Float32Array:
    """Returns x_u x_u^T of every device, float32 [m, F (F + 1) / 2]: the lower triangle, row by
    row.
    """
    users, factors = x.shape
    out = np.empty((users, factors * (factors + 1) // 2), np.float32)
    for u in range(users):
        at = 0
        for f in range(factors):
            for g in range(f + 1):
                out[u, at] = x[u, f] * x[u, g]
                at += 1
    return out


def times_triangle(y: Float32Array, triangle: Float64Array) -> Float64Array:
    """Returns S y_i of every item, float64 [items, F], for a symmetric matrix S given by its lower
    triangle, row by row.
    """
    return _times_triangle(sealed(y), triangle)


@njit(cache=True, nogil=True)
def _times_triangle(y: Float32Array, triangle: Float64Array) -> Float64Array:
    items, factors = y.shape
    # The sums run over whole rows, so the triangle is mirrored once.
    whole = _whole(triangle, factors)
    out = np.zeros((items, factors))
    for i in range(items):
        for f in range(factors):
            weight = np.float64(y[i, f])
            for g in range(factors):
                out[i, g] += weight * whole[f, g]
    return out


@njit(cache=True, nogil=True)
def _whole(triangle: Float64Array, factors: int) -> Float64Array:
    """Returns the symmetric matrix whose lower triangle, row by row, is given: float64 [F, F]."""
    out = np.empty((factors, factors))
    at = 0
    for f in range(factors):
        for g in range(f + 1):
            out[f, g] = out[g, f] = triangle[at]
            at += 1
    return out


@njit(cache=True, nogil=True)
def over_curvature(
    downhill: Float64Array, triangle: Float64Array, weight: Float64Array, reg: Float64Array
) -> Float64Array:
    """Returns (weight_i S + reg_i I)^-1 downhill_i of every item, float64 [items, F], for a
    symmetric matrix S given by its lower triangle, row by row. No pivot is below 0.9 reg_i, so
    that there is a solution where noise makes S indefinite.

    >>> one = np.ones((1, 1))
    >>> float(over_curvature(one, np.array([-0.5]), one[0], one[0])[0, 0])  # 1 / 0.9, not 1 / 0.5
    1.1111111111111112
    """
    items, factors = downhill.shape
    width = -(-factors // DOUBLES) * DOUBLES
    s = _whole(triangle, factors)
    out = downhill.copy()
    a = np.zeros((factors, width))
    columns = np.zeros((TERMS, width))
    for i in range(items):
        # Each item has a matrix of its own: S is scaled by its weight.
        for f in range(factors):
            for g in range(f + 1):
                a[f, g] = weight[i] * s[f, g]
            a[f, f] += reg[i]
        # Of a sum of x x^T no pivot is below reg, so that nothing changes without noise.
        _cholesky_solve(a, out[i], columns, 0.9 * reg[i])
    return out
