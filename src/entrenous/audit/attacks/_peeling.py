"""Sums of vectors by unknown binary codes, taken apart exactly: which parties are in which row, and
what vector each of them has.

Row i of round r is E_i = sum over the parties u of item i of (c - g x_u . y_i) x_u, with y known
and x_u unknown but the same in all rows of a round. A row of one party alone gives its x_u in
closed form, whoever it is: two rows of the same party give the same vector in every round, which
hundreds of numbers of chance do not. So parties are found by collisions: of rows as they are, then
of rows from which some known parties are taken off (all sets of two, and sets near what least
squares say). A row is solved when known parties explain it to the precision of the grid. This is
peeling, as of sparse sums in the decoding of erasure codes (M. Luby et al., IEEE Transactions on
Information Theory 47, 2001). Source: ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

import numpy as np
from numba import njit

from ...core.keys import key
from ...core.types import BoolArray, Float64Array, Int64Array
from ...kernels.generator import generator
from ._less_sets import LOOKS, MASKS, Sets, Sums, tried

DOUBTED = 10  # parties of which all sets are tried, beside those whose codes are clear
SAME, EXPLAINED, OTHER, CELL = (
    2,
    5,
    50,
    20,
)  # in deviations of the noise: equal, explained, surely another party, side of a cell
HASHED = 2  # rounds that are indexed
TURNS, AT_ONCE, SWEEPS = 40, 200, 30
# turns without another row explained, after which no more come: noise makes parties of chance, turn
# after turn
PATIENCE = 2
MOST, CHECKED = (
    3_000_000,
    10_000,
)  # sets of two parties, were there more none is tried; collisions, which noise makes many of


class Peeled(NamedTuple):
    """What came out. vectors: float64 [rounds, m, F], x_u of the m parties found; codes: float64
    [n, m] within 0..1, whole numbers in rows that are explained; explained: bool [n]."""

    vectors: Float64Array
    codes: Float64Array
    explained: BoolArray


def peeled(sums: Sums, parties: int) -> Peeled:
    """The parties that rows give away, and the rows that these explain."""
    rounds, n, factors = sums.rows.shape
    found = Peeled(np.zeros((rounds, 0, factors)), np.zeros((n, 0)), np.zeros(n, np.bool_))
    scale = np.stack([_whitener(rows) for rows in sums.rows])
    best, since = found, 0
    for _ in range(TURNS):
        new = _new(sums, found, parties - found.vectors.shape[1]) if since < PATIENCE else []
        if not new:
            break
        found = _explained(
            sums, np.concatenate([found.vectors, np.stack(new, axis=1)], axis=1), scale
        )
        best, since = (
            (found, 0) if found.explained.sum() > best.explained.sum() else (best, since + 1)
        )
    return best


def _explained(sums: Sums, vectors: Float64Array, scale: Float64Array) -> Peeled:
    """The codes that least squares give to vectors, and the rows that they explain; vectors are
    fitted to these once more.
    """
    for _ in range(2):
        codes, free = _solved(sums, vectors, scale)
        weight = _weights(sums, vectors)
        parts = zip(weight, vectors, sums.rows, strict=True)
        left = sum(np.square((codes * w) @ x - rows).sum(axis=1) for w, x, rows in parts)
        good = np.sqrt(left / (len(vectors) * vectors.shape[2])) < EXPLAINED * sums.noise
        used = codes[good].sum(axis=0) > 1
        both = zip(weight, sums.rows, strict=True)
        vectors = np.stack(
            [
                np.linalg.lstsq(codes[good][:, used] * w[good][:, used], rows[good], rcond=None)[0]
                for w, rows in both
            ]
        )
        if used.all():
            break
    return Peeled(vectors, np.where(good[:, None], codes, free)[:, used], good)


def _solved(
    sums: Sums, vectors: Float64Array, scale: Float64Array
) -> tuple[Float64Array, Float64Array]:
    """Codes by least squares, rounded to 0 and 1, and by least squares within 0..1."""
    sent = np.stack([x @ by for x, by in zip(vectors, scale, strict=True)])
    kernel = np.stack([x @ x.T for x in sent])
    weight = _weights(sums, vectors)
    slope = sum(
        w * (rows @ by @ x.T) for w, rows, by, x in zip(weight, sums.rows, scale, sent, strict=True)
    )
    whole, free = np.empty_like(slope), np.zeros_like(slope)
    for at in range(0, len(slope), AT_ONCE):
        part = slice(at, at + AT_ONCE)
        square = sum(
            w[part, :, None] * w[part, None, :] * k for w, k in zip(weight, kernel, strict=True)
        )
        square += (
            1e-12 * np.trace(square, axis1=1, axis2=2)[:, None, None] * np.eye(square.shape[1])
        )
        whole[part] = np.rint(np.linalg.solve(square, slope[part, :, None])[:, :, 0]).clip(0, 1)
        _descend(square, slope[part].copy(), free[part], SWEEPS)
    return whole, free


def _new(sums: Sums, found: Peeled, most: int) -> list[Float64Array]:
    """Vectors [rounds, F] of parties that were not known: each comes out of two rows."""
    rows = np.flatnonzero(~found.explained)
    codes, weight = found.codes[rows], _weights(sums, found.vectors)
    doubted, likely = (
        np.argsort(np.abs(codes - 0.5), axis=1, kind="stable")[:, :DOUBTED],
        codes > 0.5,
    )
    sets = _sets(sums, found.vectors, weight[:, rows], rows, doubted, likely)

    def alone(h: int) -> Float64Array:
        at = int(sets.row[h])
        return _alone(
            sums,
            found.vectors,
            weight,
            int(rows[at]),
            _members(int(sets.code[h]), doubted[at], likely[at]),
        )

    new: list[Float64Array] = []
    for one, other in islice(_collisions(sets, CELL * sums.noise), CHECKED):
        x, again = alone(one), alone(other)
        known = [*found.vectors.transpose(1, 0, 2), *new]
        if (
            len(new) < most
            and _apart(x, again) < SAME * sums.noise
            and all(_apart(x, y) > OTHER * sums.noise for y in known)
        ):
            new.append((x + again) / 2)
    return new


def _apart(x: Float64Array, y: Float64Array) -> float:
    return float(np.sqrt(np.mean((x - y) ** 2)))


def _sets(
    sums: Sums,
    vectors: Float64Array,
    weights: Float64Array,
    rows: Int64Array,
    doubted: Int64Array,
    likely: BoolArray,
) -> Sets:
    """Rows less every set of at most two known parties, and less the likely ones with every set of
    doubts turned.
    """
    known = vectors.shape[1]
    e, y, x, weight = (
        np.ascontiguousarray(array[:HASHED])
        for array in (sums.rows[:, rows], sums.items[:, rows], vectors, weights)
    )
    ways = generator(key(0, "audit", "separation")).normal((len(e), e.shape[2], LOOKS)) / np.sqrt(
        len(e) * e.shape[2]
    )
    pairs = known if len(rows) * known * (known + 1) // 2 <= MOST else 0
    most = len(rows) * (1 + pairs * (pairs + 1) // 2 + (1 << doubted.shape[1]))
    sets = Sets(np.empty((most, LOOKS)), np.empty(most, np.int64), np.empty(most, np.int64))
    count = tried(sums._replace(rows=e, items=y), x, weight, doubted, likely, pairs, ways, sets)
    return Sets(sets.look[:count], sets.row[:count], sets.code[:count])


def _collisions(sets: Sets, cell: float) -> Iterator[tuple[int, int]]:
    """Pairs of sets of different rows whose projections are in one cell of a grid, or of one that
    is moved by half a cell.
    """
    for moved in (0.0, 0.5):
        cells = np.floor(sets.look / cell + moved).astype(np.int64)
        index = np.zeros(len(cells), np.int64)
        for column in cells.T:
            index = index * 1_000_003 + column
        order = np.argsort(index, kind="stable")
        near = np.abs(np.diff(sets.look[order], axis=0)).max(axis=1, initial=0) < cell / 2
        pairs = np.flatnonzero(
            near & (np.diff(index[order]) == 0) & (np.diff(sets.row[order]) != 0)
        )
        yield from zip(order[pairs].tolist(), order[pairs + 1].tolist(), strict=True)


def _members(code: int, doubted: Int64Array, likely: BoolArray) -> list[int]:
    """The parties of a set."""
    if code >= MASKS:
        turned = {int(party) for bit, party in enumerate(doubted) if (code - MASKS) >> bit & 1}
        return sorted(turned ^ set(np.flatnonzero(likely).tolist()))
    return [part - 1 for part in (code % 1024, code // 1024) if part]


def _alone(
    sums: Sums, vectors: Float64Array, weight: Float64Array, row: int, members: list[int]
) -> Float64Array:
    """x of the only party left in a row, float64 [rounds, F]: E = (c - g x . y) x, so x = k E with
    g (E . y) k^2 - c k + 1 = 0.
    """
    rest = sums.rows[:, row] - np.einsum("rk,rkf->rf", weight[:, row, members], vectors[:, members])
    inside = sums.c**2 - 4 * sums.g * (rest * sums.items[:, row]).sum(axis=1)
    return rest * (2 / (sums.c + np.sqrt(np.maximum(inside, 0))))[:, None]  # type: ignore[no-any-return]


def _weights(sums: Sums, vectors: Float64Array) -> Float64Array:
    """c - g x_u . y_i, float64 [rounds, n, m]."""
    return np.stack([sums.c - sums.g * y @ x.T for y, x in zip(sums.items, vectors, strict=True)])


def _whitener(rows: Float64Array) -> Float64Array:
    """The symmetric matrix after which numbers of rows are uncorrelated and of variance 1, float64
    [F, F].
    """
    size, way = np.linalg.eigh(rows.T @ rows / len(rows))
    return (way / np.sqrt(size.clip(1e-6 * size[-1]))) @ way.T  # type: ignore[no-any-return]


# ---- in plain loops ------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _descend(square: Float64Array, slope: Float64Array, codes: Float64Array, sweeps: int) -> None:
    """Least squares within 0..1 by the normal equations of each row, one code after the other, from
    codes of 0.
    """
    for i in range(len(codes)):
        for _ in range(sweeps):
            for k in range(codes.shape[1]):
                before = codes[i, k]
                codes[i, k] = min(1.0, max(0.0, before + slope[i, k] / square[i, k, k]))
                if codes[i, k] != before:
                    slope[i] -= (codes[i, k] - before) * square[i, k]
