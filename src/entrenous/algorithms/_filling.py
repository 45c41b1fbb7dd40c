"""What FedRec and FedRec++ share on a device: ratings made up for the decoys, and the gradients of a rating model.

Filling (Lin et al., FedRec). A decoy's rating is the mean of the user's ratings, or, once training has gone on for a while,

    r'_ui = known_ui + p'_u . v_i

where p' starts from the device's p_u, takes some steps on its rated items alone, predicts, and is forgotten. `known` is what else belongs
to a prediction and does not move meanwhile: SVD++'s implicit part.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from ..core.keys import draw, uniform
from ..core.simd import BOUND, SCALE
from ..core.types import Float32Array, Int64Array, UInt64Array
from ..core.update import STEP
from ..privacy.decoys import Mixed


class Temporary(NamedTuple):
    """How p' is trained: how many passes over the rated items, the rate, lambda, and a step after each item (True) or after each pass
    along the mean gradient (False)."""

    steps: int
    rate: np.float32
    reg: np.float32
    each: bool


def fill_average(mixed: Mixed) -> Mixed:
    """Every decoy gets the mean of its user's ratings."""
    value = np.empty_like(mixed.value)
    _averages(mixed, value)
    return mixed._replace(value=value)


def fill_predicted(
    mixed: Mixed, v: Float32Array, p: Float32Array, temporary: Temporary, known: Float32Array | None = None
) -> Mixed:  # fmt: skip
    """Every decoy gets the prediction of a temporary p'.

    v: float32 [items, >= F], of which the first F columns count; p: float32 [m, F], which stays as it is; known: float32 [n], as
    mixed.item (None = 0).
    """
    value = np.empty_like(mixed.value)
    known = np.zeros(len(mixed.item), np.float32) if known is None else known
    _predictions(mixed, v, p, temporary, known, value)
    return mixed._replace(value=value)


@njit(cache=True, nogil=True)
def _averages(mixed: Mixed, value: Float32Array) -> None:
    for d in range(len(mixed.ptr) - 1):
        average_one(mixed, d, value)


@njit(cache=True, nogil=True)
def _predictions(
    mixed: Mixed, v: Float32Array, p: Float32Array, temporary: Temporary, known: Float32Array, value: Float32Array
) -> None:  # fmt: skip
    x, g = np.empty(p.shape[1], np.float32), np.empty(p.shape[1], np.float32)
    for d in range(len(mixed.ptr) - 1):
        predict_one(mixed, d, v, p, temporary, known, x, g, value)


@njit(cache=True, nogil=True)
def average_one(mixed: Mixed, d: int, value: Float32Array) -> None:
    """Fills in the decoys of device d; value: float32 [n], rated items included."""
    total, count = 0.0, 0
    for r in range(mixed.ptr[d], mixed.ptr[d + 1]):
        if mixed.rated[r]:
            total, count = total + np.float64(mixed.value[r]), count + 1
    mean = np.float32(total / max(count, 1))
    for r in range(mixed.ptr[d], mixed.ptr[d + 1]):
        value[r] = mixed.value[r] if mixed.rated[r] else mean


@njit(cache=True, nogil=True)
def predict_one(
    mixed: Mixed, d: int, v: Float32Array, p: Float32Array, temporary: Temporary, known: Float32Array,
    x: Float32Array, g: Float32Array, value: Float32Array,
) -> None:  # fmt: skip
    """Fills in the decoys of device d by p' = x and b'. x, g: float32 [F], memory to work in."""
    item, factors, start, stop = mixed.item, len(x), mixed.ptr[d], mixed.ptr[d + 1]
    rate, reg, each = temporary.rate, temporary.reg, temporary.each
    count = np.float32(0)
    for f in range(factors):
        x[f] = p[d, f]
    for r in range(start, stop):
        count += np.float32(mixed.rated[r])
    for _ in range(temporary.steps):
        for f in range(factors):
            g[f] = 0
        for r in range(start, stop):
            if not mixed.rated[r]:
                continue
            i, predicted = item[r], known[r]
            for f in range(factors):
                predicted += x[f] * v[i, f]
            e = mixed.value[r] - predicted
            for f in range(factors):
                slope = reg * x[f] - e * v[i, f]
                if each:
                    x[f] -= rate * slope
                else:
                    g[f] += slope
        if not each and count > 0:
            for f in range(factors):
                x[f] -= rate * (g[f] / count)
    for r in range(start, stop):
        value[r] = mixed.value[r]
        if not mixed.rated[r]:
            predicted = known[r]
            for f in range(factors):
                predicted += x[f] * v[item[r], f]
            value[r] = predicted


# ---- gradients of 1/2 (r - (u + y) . v_i)^2 + lambda / 2 (|u|^2 + |v_i|^2 + ...), y the implicit part of SVD++ ---------------------


@njit(cache=True, nogil=True)
def batch_gradients(
    filled: Mixed, v: Float32Array, u: Float32Array, rate: np.float32, reg: np.float32, decoys_move_u: bool, g: Float32Array
) -> None:
    """g: float32 [n, F], the gradient of v_i for each row at the u given; u then moves, in place, along the mean over its rows."""
    factors = u.shape[1]
    g_u = np.empty(factors, np.float32)
    for d in range(len(u)):
        count = np.float32(0)
        for f in range(factors):
            g_u[f] = 0
        for r in range(filled.ptr[d], filled.ptr[d + 1]):
            i, e = filled.item[r], filled.value[r]
            for f in range(factors):
                e -= u[d, f] * v[i, f]
            for f in range(factors):
                g[r, f] = reg * v[i, f] - e * u[d, f]
            if filled.rated[r] or decoys_move_u:
                count += np.float32(1)
                for f in range(factors):
                    g_u[f] += reg * u[d, f] - e * v[i, f]
        for f in range(factors):
            u[d, f] -= rate * (g_u[f] / max(count, np.float32(1)))


@njit(cache=True, nogil=True)
def visit_one(
    filled: Mixed, d: int, v: Float32Array, u: Float32Array, rate: np.float32, reg: np.float32, decoys_move_u: bool,
    y: Float32Array, h: Float32Array, g: Float32Array, base: int,
) -> None:  # fmt: skip
    """Device d goes through its rows in order and moves u_d after each. g: float32 [rows, w], from row `base` of `filled` on: the
    gradients of v_i (and o_i) for its rows.

    With w = 2 F, v holds o in its second half, y = sum_k o_k / sqrt |I_u| takes part, and each row moves every o_k of a rated item: all
    alike but for lambda, o_k <- (1 - rate lambda) o_k + rate e v_i / sqrt |I_u|, so that what they have moved at the end is
    rate (h - shrunk o_k), and h and `shrunk` are all there is to keep. y, h: float32 [F], memory to work in.
    """
    factors, start, stop, implicit = len(y), filled.ptr[d], filled.ptr[d + 1], v.shape[1] > len(y)
    root = implicit_part(filled, d, v, y)
    keep, left, shrunk = np.float32(1) - rate * reg, np.float32(1), np.float32(0)
    for f in range(factors):
        h[f] = 0
    for r in range(start, stop):
        i, e, moves = filled.item[r], filled.value[r], filled.rated[r] or decoys_move_u
        for f in range(factors):
            e -= (u[d, f] + y[f]) * v[i, f]
        for f in range(factors):
            g[r - base, f] = reg * v[i, f] - e * (u[d, f] + y[f])  # of v_i, at the u before its step
            if moves:
                u[d, f] -= rate * (reg * u[d, f] - e * v[i, f])
                if implicit:
                    y[f] = keep * y[f] + rate * (e * v[i, f])
                    h[f] = keep * h[f] + e * v[i, f] / root
        if moves:
            shrunk, left = shrunk + reg * left, left * keep
    if implicit:
        for r in range(start, stop):
            for f in range(factors):
                o = v[filled.item[r], factors + f]
                g[r - base, factors + f] = shrunk * o - h[f] if filled.rated[r] else np.float32(0)


@njit(cache=True, nogil=True)
def implicit_part(filled: Mixed, d: int, v: Float32Array, y: Float32Array) -> np.float32:
    """y = sum of o_k over the rated items of device d, / sqrt |I_u|, which is returned; 0 where v holds no o."""
    factors, count = len(y), np.float32(0)
    for f in range(factors):
        y[f] = 0
    for r in range(filled.ptr[d], filled.ptr[d + 1]):
        if filled.rated[r]:
            count += np.float32(1)
            if v.shape[1] > factors:
                for f in range(factors):
                    y[f] += v[filled.item[r], factors + f]
    root = np.sqrt(max(count, np.float32(1)))
    for f in range(factors):
        y[f] /= root
    return root


@njit(cache=True, nogil=True)
def with_implicit(filled: Mixed, v: Float32Array, u: Float32Array, x: Float32Array, known: Float32Array) -> None:
    """x = u + y of every device, and known[r] = y . v_i of every row; u, x: float32 [m, F]; known: float32 [n]."""
    y = np.empty(u.shape[1], np.float32)
    for d in range(len(u)):
        implicit_part(filled, d, v, y)
        for f in range(len(y)):
            x[d, f] = u[d, f] + y[f]
        known_one(filled, d, v, y, known)


@njit(cache=True, nogil=True)
def known_one(filled: Mixed, d: int, v: Float32Array, y: Float32Array, known: Float32Array) -> None:
    """known[r] = y . v_i for the rows of device d."""
    for r in range(filled.ptr[d], filled.ptr[d + 1]):
        known[r] = 0
        for f in range(len(y)):
            known[r] += y[f] * v[filled.item[r], f]


# ---- the server's step, and numbers to begin with ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def step_means(v: Float32Array, total: Int64Array, count: Int64Array, rate: float) -> None:
    """v_i -= rate * total_i / count_i in place, for the items with a count; total: fixed point [items, >= w]."""
    for i in range(len(v)):
        if count[i] > 0:
            for f in range(v.shape[1]):
                v[i, f] -= np.float32(rate * (total[i, f] * STEP) / count[i])


@njit(cache=True, nogil=True)
def step_one(filled: Mixed, d: int, v: Float32Array, g: Float32Array, rate: float, decoys_count: bool) -> bool:
    """`step_means` after device d alone has sent g (its first row is g's first); False if a value cannot be sent."""
    ok = True
    for r in range(filled.ptr[d], filled.ptr[d + 1]):
        if filled.rated[r] or decoys_count:
            for f in range(v.shape[1]):
                scaled = np.rint(g[r - filled.ptr[d], f] * SCALE)
                ok &= abs(scaled) < BOUND
                v[filled.item[r], f] -= np.float32(rate * (np.int64(scaled) * STEP))
    return ok


@njit(cache=True, nogil=True)
def uniforms(keys: UInt64Array, width: int, spread: float) -> Float32Array:
    """Even in +- spread / 2, float32 [len(keys), width]: row r depends on keys[r] alone."""
    out = np.empty((len(keys), width), np.float32)
    for r in range(len(keys)):
        for f in range(width):
            out[r, f] = np.float32(spread * (uniform(draw(keys[r], f)) - 0.5))
    return out
