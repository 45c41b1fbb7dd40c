"""Kernels of FCF: the exact solution for a user's factors, and the two forms of the gradient that a
device sends.

Plain loops in a fixed order, with sums in float64: the same bits on any machine with this
arithmetic, which BLAS does not promise. y_i: factors of an item, x_u: of a user, c_ui: confidence
of a consumed item, w: of one that was not consumed.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ..core.contract.protocols import Histories
from ..core.lanes.doubles import DOUBLES, TERMS, add_products
from ..core.types import Float32Array, Float64Array, Int32Array


@njit(cache=True, nogil=True)
def gram(y: Float32Array) -> Float64Array:
    """The lower triangle of Y^T Y, float64 [F, F], item by item; 0 above the diagonal."""
    factors = y.shape[1]
    out = np.zeros((factors, factors))
    for i in range(len(y)):
        for f in range(factors):
            weight, row = np.float64(y[i, f]), out[f]
            for g in range(f + 1):
                row[g] += weight * y[i, g]
    return out


@njit(cache=True, nogil=True)
def solve(
    y: Float32Array,
    gram: Float64Array,
    histories: Histories,
    c: Float32Array,
    unobserved: float,
    reg: Float64Array,
    x: Float32Array,
) -> None:
    """x_u of every device. Y^T C_u Y = w Y^T Y + Y^T (C_u - w I) Y with w the weight of what was
    not consumed. reg: lambda of each, [m].
    """
    factors = y.shape[1]
    width = -(-factors // DOUBLES) * DOUBLES
    a, rhs, columns = np.zeros((factors, width)), np.empty(factors), np.zeros((TERMS, width))
    for u in range(len(x)):
        rhs[:] = 0
        for f in range(factors):
            for g in range(width):
                a[f, g] = unobserved * gram[f, g] if g <= f else 0.0
            a[f, f] += reg[u]
        own = slice(histories.ptr[u], histories.ptr[u + 1])
        _add_consumed(y, histories.item[own], c[own], unobserved, a, rhs)
        _cholesky_solve(a, rhs, columns)
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
    rows, weights = np.zeros((TERMS, width)), np.zeros((TERMS, width))
    for first in range(0, len(item), TERMS):
        if len(item) - first < TERMS:
            rows[:], weights[:] = 0, 0  # what is not there adds 0
        for k in range(min(TERMS, len(item) - first)):
            given, row, weight, confidence = (
                y[item[first + k]],
                rows[k],
                weights[k],
                np.float64(c[first + k]),
            )
            for f in range(factors):
                row[f] = given[f]
                weight[f] = (confidence - unobserved) * row[f]
                rhs[f] += confidence * row[f]
        for f in range(factors):
            for g in range(0, f + 1, DOUBLES):
                add_products(a, f * width + g, weights, f, width, rows, g, width)


@njit(cache=True, nogil=True)
def _cholesky_solve(a: Float64Array, rhs: Float64Array, columns: Float64Array) -> None:
    """rhs <- a^-1 rhs for a symmetric positive definite matrix given by its lower triangle, which
    is overwritten by its factor.

    a: [n, n or more, a multiple of DOUBLES]. TERMS columns of the factor are taken off the rest at
    a time; columns: [TERMS, as a], room for them.
    """
    n, width = a.shape
    for first in range(0, n, TERMS):
        last = min(first + TERMS, n)
        _finish_columns(a, rhs, first, last, columns)
        for f in range(last, n):
            for g in range(last // DOUBLES * DOUBLES, f + 1, DOUBLES):
                add_products(a, f * width + g, a, f * width + first, 1, columns, g, width)
    for f in range(n - 1, -1, -1):
        for g in range(f + 1, n):
            rhs[f] -= a[g, f] * rhs[g]
        rhs[f] /= a[f, f]


@njit(cache=True, nogil=True)
def _finish_columns(
    a: Float64Array, rhs: Float64Array, first: int, last: int, columns: Float64Array
) -> None:
    """Columns first to last of the factor, from which the columns before were taken off already,
    and their part of the forward substitution. columns: these from row `last` on, with the opposite
    sign, and 0 before.
    """
    for k in range(first, last):
        own = columns[k - first]
        for f in range(k, len(a)):
            own[f] = a[f, k]
        for h in range(first, k):
            other, weight = columns[h - first], a[k, h]
            for f in range(k, len(a)):
                own[f] -= other[f] * weight
        own[k] = np.sqrt(max(own[k], 1e-12))
        for f in range(k + 1, len(a)):
            own[f] /= own[k]
        rhs[k] /= own[k]
        for f in range(k, len(a)):
            a[f, k] = own[f]
            rhs[f] -= own[f] * rhs[k] if f > k else 0.0
    for own in columns:
        own[:last] = 0
        for f in range(last, len(a)):
            own[f] = -own[f]


@njit(cache=True, nogil=True)
def gradients(
    y: Float32Array,
    x: Float32Array,
    histories: Histories,
    c: Float32Array,
    unobserved: float,
    out: Float32Array,
) -> None:
    """f(u, i) = c_ui (p_ui - x_u . y_i) x_u for every device and item, out: [m, items, F]."""
    factors = y.shape[1]
    error = np.empty(len(y), np.float32)
    for u in range(len(x)):
        _errors(
            y,
            x[u],
            histories.item[histories.ptr[u] : histories.ptr[u + 1]],
            c[histories.ptr[u] : histories.ptr[u + 1]],
            unobserved,
            error,
        )
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
    """c_ui (p_ui - x_u . y_i) of every item."""
    for i in range(len(y)):
        score = np.float32(0)
        for f in range(len(x)):
            score += x[f] * y[i, f]
        error[i] = -np.float32(unobserved) * score
    for r in range(len(consumed)):
        i = consumed[r]
        score = np.float32(0)
        for f in range(len(x)):
            score += x[f] * y[i, f]
        error[i] = c[r] * (np.float32(1) - score)


@njit(cache=True, nogil=True)
def own_rows(
    y: Float32Array,
    x: Float32Array,
    histories: Histories,
    c: Float32Array,
    unobserved: float,
    out: Float32Array,
) -> None:
    """f(u, i) + w (x_u . y_i) x_u = (c_ui - (c_ui - w) x_u . y_i) x_u of every consumed item, out:
    [interactions, F].
    """
    factors, w = y.shape[1], np.float32(unobserved)
    for u in range(len(x)):
        for r in range(histories.ptr[u], histories.ptr[u + 1]):
            i, score = histories.item[r], np.float32(0)
            for f in range(factors):
                score += x[u, f] * y[i, f]
            weight = c[r] - (c[r] - w) * score
            for f in range(factors):
                out[r, f] = weight * x[u, f]


@njit(cache=True, nogil=True)
def outer_products(x: Float32Array, out: Float32Array) -> None:
    """x_u x_u^T of every device, the lower triangle row by row, out: [m, F (F + 1) / 2]."""
    for u in range(len(x)):
        at = 0
        for f in range(x.shape[1]):
            for g in range(f + 1):
                out[u, at] = x[u, f] * x[u, g]
                at += 1


@njit(cache=True, nogil=True)
def times_triangle(y: Float32Array, triangle: Float64Array) -> Float64Array:
    """S y_i of every item, float64 [items, F], for a symmetric matrix S given by its lower
    triangle, row by row.
    """
    items, factors = y.shape
    whole, out = _whole(triangle, factors), np.zeros((items, factors))
    for i in range(items):
        for f in range(factors):
            weight = np.float64(y[i, f])
            for g in range(factors):
                out[i, g] += weight * whole[f, g]
    return out


@njit(cache=True, nogil=True)
def _whole(triangle: Float64Array, factors: int) -> Float64Array:
    """The symmetric matrix whose lower triangle, row by row, is given: float64 [F, F]."""
    out, at = np.empty((factors, factors)), 0
    for f in range(factors):
        for g in range(f + 1):
            out[f, g] = out[g, f] = triangle[at]
            at += 1
    return out


@njit(cache=True, nogil=True)
def over_curvature(
    downhill: Float64Array, triangle: Float64Array, weight: Float64Array, reg: Float64Array
) -> Float64Array:
    """(weight_i S + reg_i I)^-1 downhill_i of every item, float64 [items, F], for a symmetric
    matrix S given by its lower triangle, row by row."""
    items, factors = downhill.shape
    width = -(-factors // DOUBLES) * DOUBLES
    s, out, a, columns = (
        _whole(triangle, factors),
        downhill.copy(),
        np.zeros((factors, width)),
        np.zeros((TERMS, width)),
    )
    for i in range(items):
        for f in range(factors):
            for g in range(f + 1):
                a[f, g] = weight[i] * s[f, g]
            a[f, f] += reg[i]
        _cholesky_solve(a, out[i], columns)
    return out
