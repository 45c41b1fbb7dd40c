"""Scores of venues by PRME-G (kernels/prme_node.py), and the performance of a model on a weighting set.

A list has no venue to come from, so it takes those that the device has been to: the score of a venue l is -D(u, c, l) of the nearest
such c, of the latest, or in the mean over all c.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from ..core.geography import AXES
from ..core.simd import inside
from ..core.types import Float32Array, Float64Array, Int32Array, Int64Array
from .prme_node import ONE, ZERO, PRMERows, in_order, spatial_weight

NEAREST, MEAN, LATEST = range(3)  # how the venues that a list may begin from become one score
TILE = 512  # venues scored at once: their vectors stay in the first-level cache


class PRMEScoreRoom(NamedTuple):
    """Working memory to score TILE venues at once. vector: float32 [2 factors + 3, TILE], P, S and point; by_user, by_venue, total:
    [TILE]."""

    vector: Float32Array
    by_user: Float32Array
    by_venue: Float32Array
    total: Float32Array


@njit(cache=True, nogil=True)
def room_of(factors: int) -> PRMEScoreRoom:
    """Working memory for vectors of this length."""
    tile = np.empty((2 * factors + AXES, TILE), np.float32)
    return PRMEScoreRoom(tile, np.empty(TILE, np.float32), np.empty(TILE, np.float32), np.empty(TILE, np.float32))


@njit(cache=True, nogil=True, error_model="numpy")
def score(
    model: Float32Array, user: Float32Array, start: Int32Array, venue: Int32Array, point: Float32Array, how: int, alpha: np.float32,
    room: PRMEScoreRoom, out: Float32Array,
) -> None:  # fmt: skip
    """Scores -D(u, c, v) of venues v over the venues c in `start`: of the nearest c, or the mean; -|U - P_l|^2 without any. point:
    float32 [3 items]; out: float32 [len(venue)]."""
    factors = len(user)
    tile, by_user, by_venue, total = room.vector, room.by_user, room.by_venue, room.total
    for low in range(0, len(venue), TILE):
        n = min(TILE, len(venue) - low)
        _gather(model, point, venue[low : low + n], factors, tile)
        by_user[:n] = ZERO
        for k in range(factors):
            _add_square(user[k], tile[k], n, by_user)
        for at in range(len(start)):
            c = np.int64(start[at])
            by_venue[:n] = ZERO
            for k in range(factors):
                _add_square(model[(2 * c + 1) * factors + k], tile[factors + k], n, by_venue)
            x, y, z = point[AXES * c], point[AXES * c + 1], point[AXES * c + 2]
            east, north, up = tile[2 * factors], tile[2 * factors + 1], tile[2 * factors + 2]
            for v in range(n):
                gap = (x - east[v]) * (x - east[v]) + (y - north[v]) * (y - north[v]) + (z - up[v]) * (z - up[v])
                d = spatial_weight(gap) * (alpha * by_user[v] + (ONE - alpha) * by_venue[v])
                if how == MEAN:
                    total[v] = d if at == 0 else total[v] + d
                else:
                    total[v] = d if at == 0 or d < total[v] else total[v]
        for v in range(n):
            d = by_user[v] if len(start) == 0 else total[v]
            out[low + v] = -d / np.float32(len(start)) if how == MEAN and len(start) else -d


@inside
def _gather(model: Float32Array, point: Float32Array, venue: Int32Array, factors: int, tile: Float32Array) -> None:
    for v in range(len(venue)):
        at, to = 2 * factors * np.int64(venue[v]), AXES * np.int64(venue[v])
        for k in range(2 * factors):
            tile[k, v] = model[at + k]
        for k in range(AXES):
            tile[2 * factors + k, v] = point[to + k]


@inside
def _add_square(x: np.float32, row: Float32Array, n: int, total: Float32Array) -> None:
    for v in range(n):
        gap = x - row[v]
        total[v] += gap * gap


@njit(cache=True, nogil=True)
def starts(item: Int32Array, time: Int64Array, row: Int64Array, how: int) -> Int32Array:
    """The venues from which a device's lists may begin: all its own, or the latest."""
    return item[in_order(time, row)[-1:]] if how == LATEST else item


@njit(cache=True, nogil=True, error_model="numpy")
def scores(
    pool: Float32Array,
    at: Int64Array,
    user: Float32Array,
    who: Int64Array,
    rows: PRMERows,
    how: int,
    alpha: np.float32,
    items: int,
) -> Float32Array:
    """Scores of every venue for the users of nodes `who` by the models pool[at], float32 [m, items]."""
    out, everything, room = np.empty((len(at), items), np.float32), np.arange(items).astype(np.int32), room_of(user.shape[1])
    for d in range(len(at)):
        u, own = who[d], slice(rows.ptr[who[d]], rows.ptr[who[d] + 1])
        start = starts(rows.item[own], rows.time[own], rows.row[own], how)
        score(pool[at[d]], user[u], start, everything, rows.point, how, alpha, room, out[d])
    return out


@njit(cache=True, nogil=True, error_model="numpy")
def performance(
    pool: Float32Array, at: Int64Array, user: Float32Array, who: Int64Array, rows: PRMERows, how: int, alpha: np.float32, ptr: Int64Array,
    item: Int32Array, candidates: Int32Array, n: int,
) -> Float64Array:  # fmt: skip
    """F1 at n of the models pool[at] on the nodes' weighting sets, float64 [m] (PEPPER, eq. 6 to 8): all weighting items of a node in one
    list, with the candidates of the first of them. 0 without any."""
    f1, room = np.zeros(len(at)), room_of(user.shape[1])
    for d in range(len(at)):
        u, own = who[d], slice(rows.ptr[who[d]], rows.ptr[who[d] + 1])
        low, high = ptr[u], ptr[u + 1]
        if high > low:
            venue = listed(item[low:high], candidates[low])
            out = np.empty(len(venue), np.float32)
            start = starts(rows.item[own], rows.time[own], rows.row[own], how)
            score(pool[at[d]], user[u], start, venue, rows.point, how, alpha, room, out)
            f1[d] = 2.0 * hits(out, high - low, n) / (n + high - low)
    return f1


@njit(cache=True, nogil=True)
def listed(relevant: Int32Array, candidates: Int32Array) -> Int32Array:
    """The relevant venues, ascending, then the candidates that are none of them and no gap (-1)."""
    keep = np.empty(len(candidates), np.bool_)
    for k in range(len(candidates)):
        at = np.searchsorted(relevant, candidates[k])
        keep[k] = candidates[k] >= 0 and not (at < len(relevant) and relevant[at] == candidates[k])
    return np.concatenate((relevant, candidates[keep]))


@njit(cache=True, nogil=True)
def hits(score: Float32Array, relevant: int, n: int) -> int:
    """The number of the first `relevant` venues among the n best; equal scores count against them."""
    found = 0
    for k in range(relevant):
        ahead = -1  # itself
        for other in range(len(score)):
            ahead += not (score[other] < score[k])
        found += ahead < n
    return found
