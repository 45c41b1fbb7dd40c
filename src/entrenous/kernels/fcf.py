"""Kernels of FCF: the exact solution for a user's factors, and the two forms of the gradient that a device sends.

Plain loops in a fixed order, with sums in float64: the same bits on any machine with this arithmetic, which BLAS does not promise.
y_i: factors of an item, x_u: of a user, c_ui: confidence of a consumed item, w: of one that was not consumed.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ..core.protocols import Histories
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
    y: Float32Array, gram: Float64Array, histories: Histories, c: Float32Array, unobserved: float, reg: float, x: Float32Array
) -> None:
    """x_u of every device. Y^T C_u Y = w Y^T Y + Y^T (C_u - w I) Y with w the weight of what was not consumed."""
    factors = y.shape[1]
    for u in range(len(x)):
        a, rhs = unobserved * gram, np.zeros(factors)
        for f in range(factors):
            a[f, f] += reg
        for r in range(histories.ptr[u], histories.ptr[u + 1]):
            row, confidence = y[histories.item[r]], np.float64(c[r])
            for f in range(factors):
                weight = (confidence - unobserved) * row[f]
                rhs[f] += confidence * row[f]
                for g in range(f + 1):
                    a[f, g] += weight * row[g]
        _cholesky_solve(a, rhs)
        x[u] = rhs.astype(np.float32)


@njit(cache=True, nogil=True)
def _cholesky_solve(a: Float64Array, rhs: Float64Array) -> None:
    """rhs <- a^-1 rhs for a symmetric positive definite matrix given by its lower triangle, which is overwritten by its factor."""
    n = len(rhs)
    for f in range(n):
        for g in range(f + 1):
            left = a[f, g]
            for h in range(g):
                left -= a[f, h] * a[g, h]
            a[f, g] = np.sqrt(max(left, 1e-12)) if f == g else left / a[g, g]
        for g in range(f):
            rhs[f] -= a[f, g] * rhs[g]
        rhs[f] /= a[f, f]
    for f in range(n - 1, -1, -1):
        for g in range(f + 1, n):
            rhs[f] -= a[g, f] * rhs[g]
        rhs[f] /= a[f, f]


@njit(cache=True, nogil=True)
def gradients(
    y: Float32Array, x: Float32Array, histories: Histories, c: Float32Array, unobserved: float, out: Float32Array
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
    y: Float32Array, x: Float32Array, consumed: Int32Array, c: Float32Array, unobserved: float, error: Float32Array
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
    y: Float32Array, x: Float32Array, histories: Histories, c: Float32Array, unobserved: float, out: Float32Array
) -> None:
    """f(u, i) + w (x_u . y_i) x_u = (c_ui - (c_ui - w) x_u . y_i) x_u of every consumed item, out: [interactions, F]."""
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
    """S y_i of every item, float64 [items, F], for a symmetric matrix S given by its lower triangle, row by row."""
    items, factors = y.shape
    whole, out, at = np.empty((factors, factors)), np.zeros((items, factors)), 0
    for f in range(factors):
        for g in range(f + 1):
            whole[f, g] = whole[g, f] = triangle[at]
            at += 1
    for i in range(items):
        for f in range(factors):
            weight = np.float64(y[i, f])
            for g in range(factors):
                out[i, g] += weight * whole[f, g]
    return out
