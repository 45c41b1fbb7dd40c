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

from entrenous.core.compiling import njit
from entrenous.core.keys import key
from entrenous.core.types import BoolArray, Float64Array, Int64Array
from entrenous.kernels.generator import generator

from ._less_sets import LOOKS, MASKS, PAIR, Doubts, Sets, Sums, tried

DOUBTED = 10  # parties of which all sets are tried, besides those whose codes are clear
# In deviations of the noise: equal, explained, surely another party, the side of a cell.
SAME = 2
EXPLAINED = 5
OTHER = 50
CELL = 20
HASHED = 2  # rounds that are indexed
TURNS = 40  # at most, each with new parties
# Turns without another row explained after which the search ends: noise makes parties of chance,
# turn after turn.
PATIENCE = 2
# rows solved together, and sweeps of coordinate descent
AT_ONCE = 200
SWEEPS = 30
MOST = 3_000_000  # sets of two parties; were there more, none is tried
CHECKED = 10_000  # collisions, of which noise makes many


class Peeled(NamedTuple):
    """The parties whose updates were found, one after the other."""

    vectors: Float64Array
    """[rounds, m, F], x_u of the m parties."""
    codes: Float64Array
    """[n, m] within 0..1; whole numbers in rows that are explained."""
    explained: BoolArray
    """[n]."""


def peeled(sums: Sums, parties: int) -> Peeled:
    """The parties that rows give away, and the rows that these explain. parties: how many there
    are.
    """
    rounds, n, factors = sums.rows.shape
    nobody = np.zeros((rounds, 0, factors))
    known = Peeled(nobody, np.zeros((n, 0)), np.zeros(n, np.bool_))
    scale = np.stack([_whitener(rows) for rows in sums.rows])
    best = known
    turns_without = 0
    for _ in range(TURNS):
        if turns_without >= PATIENCE:
            break
        # Collisions name new parties, which explain more rows, which collide again.
        new = _new(sums, known, parties - known.vectors.shape[1])
        if not new:
            break
        vectors = np.concatenate([known.vectors, np.stack(new, axis=1)], axis=1)
        known = _explained(sums, vectors, scale)
        if known.explained.sum() > best.explained.sum():
            best = known
            turns_without = 0
        else:
            turns_without += 1
    return best


def _explained(sums: Sums, vectors: Float64Array, scale: Float64Array) -> Peeled:
    """The codes that least squares give to vectors, and the rows that they explain. The vectors are
    then fitted to these rows once more.
    """
    for _ in range(2):
        codes, free = _solved(sums, vectors, scale)
        weight = _weights(sums, vectors)
        rounds = list(zip(weight, vectors, sums.rows, strict=True))
        # Rows that whole codes explain to the precision of the numbers.
        squares = [np.square((codes * w) @ x - rows) for w, x, rows in rounds]
        left = sum(square.sum(axis=1) for square in squares)
        values = len(vectors) * vectors.shape[2]
        error = np.sqrt(left / values)
        good = error < EXPLAINED * sums.noise
        # A vector that explains a single row is of no party that is known.
        used = codes[good].sum(axis=0) > 1
        sure = codes[good][:, used]
        fits = []
        for w, _, rows in rounds:
            columns = sure * w[good][:, used]
            fit = np.linalg.lstsq(columns, rows[good], rcond=None)
            fits.append(fit[0])
        vectors = np.stack(fits)
        if used.all():
            break
    clearest = np.where(good[:, None], codes, free)
    return Peeled(vectors, clearest[:, used], good)


def _solved(
    sums: Sums, vectors: Float64Array, scale: Float64Array
) -> tuple[Float64Array, Float64Array]:
    """Codes by least squares, rounded to 0 and 1, and by least squares within 0..1, float64 [n, m]
    each. scale: whitens the rows of each round.
    """
    white = np.stack([x @ by for x, by in zip(vectors, scale, strict=True)])
    kernel = np.stack([x @ x.T for x in white])
    weight = _weights(sums, vectors)
    # The right-hand sides of the normal equations, over all rounds.
    slope = sum(
        w * (rows @ by @ x.T)
        for w, rows, by, x in zip(weight, sums.rows, scale, white, strict=True)
    )
    whole = np.empty_like(slope)
    free = np.zeros_like(slope)
    for low in range(0, len(slope), AT_ONCE):
        part = slice(low, low + AT_ONCE)
        # Their matrix for each row, with a ridge that keeps it solvable.
        square = sum(
            w[part, :, None] * w[part, None, :] * k for w, k in zip(weight, kernel, strict=True)
        )
        size = np.trace(square, axis1=1, axis2=2)
        ridge = 1e-12 * size[:, None, None]
        square += ridge * np.eye(square.shape[1])
        solution = np.linalg.solve(square, slope[part, :, None])
        codes = solution[:, :, 0]
        whole[part] = np.rint(codes).clip(0, 1)
        _descend(square, slope[part].copy(), free[part], SWEEPS)
    return whole, free


def _new(sums: Sums, known: Peeled, most: int) -> list[Float64Array]:
    """Vectors [rounds, F] of at most so many parties that were not known. Each comes out of two
    rows.
    """
    rows = np.flatnonzero(~known.explained)
    codes = known.codes[rows]
    weight = _weights(sums, known.vectors)
    # Least squares doubt most the codes that are nearest to 1/2.
    clear = np.abs(codes - 0.5)
    doubted = np.argsort(clear, axis=1, kind="stable")[:, :DOUBTED]
    doubts = Doubts(doubted, codes > 0.5)
    sets = _sets(sums, known.vectors, weight[:, rows], rows, doubts)

    def alone(place: int) -> Float64Array:
        at = int(sets.row[place])
        code = int(sets.code[place])
        members = _members(code, doubts.doubted[at], doubts.likely[at])
        return _alone(sums, known.vectors, weight, int(rows[at]), members)

    new: list[Float64Array] = []
    old = list(known.vectors.transpose(1, 0, 2))
    for place, other in islice(_collisions(sets, CELL * sums.noise), CHECKED):
        if len(new) >= most:
            break
        x = alone(place)
        again = alone(other)
        # Projections in one cell may still be of two vectors: whole vectors decide.
        if _apart(x, again) >= SAME * sums.noise:
            continue
        if all(_apart(x, y) > OTHER * sums.noise for y in [*old, *new]):
            new.append((x + again) / 2)
    return new


def _apart(x: Float64Array, y: Float64Array) -> float:
    """The root mean square difference of two vectors."""
    squares = (x - y) ** 2
    return float(np.sqrt(np.mean(squares)))


def _sets(
    sums: Sums, vectors: Float64Array, weights: Float64Array, rows: Int64Array, doubts: Doubts
) -> Sets:
    """Rows less every set of at most two known parties, and less the likely ones with every set of
    doubts turned.
    """
    known = vectors.shape[1]
    # Some rounds are enough to find collisions; all of them confirm one.
    e = np.ascontiguousarray(sums.rows[:, rows][:HASHED])
    y = np.ascontiguousarray(sums.items[:, rows][:HASHED])
    x = np.ascontiguousarray(vectors[:HASHED])
    weight = np.ascontiguousarray(weights[:HASHED])
    # Random directions on which vectors are projected.
    draws = generator(key(0, "audit", "separation"))
    ways = draws.normal((len(e), e.shape[2], LOOKS))
    ways = ways / np.sqrt(len(e) * e.shape[2])
    # Room for no party, one or two of those that pair, and all sets of doubts.
    # Sets of two known parties are tried only where there is room for all of them.
    fits = len(rows) * known * (known + 1) // 2 <= MOST
    pairs = known if fits else 0
    by_doubts = 1 << doubts.doubted.shape[1]
    by_known = pairs * (pairs + 1) // 2
    most = len(rows) * (1 + by_known + by_doubts)
    row = np.empty(most, np.int64)
    code = np.empty(most, np.int64)
    sets = Sets(np.empty((most, LOOKS)), row, code)
    count = tried(sums._replace(rows=e, items=y), x, weight, doubts, pairs, ways, sets)
    return Sets(sets.look[:count], sets.row[:count], sets.code[:count])


def _collisions(sets: Sets, cell: float) -> Iterator[tuple[int, int]]:
    """Yields pairs of sets of different rows whose projections are in one cell of a grid, or of a
    grid that is moved by half a cell.
    """
    for moved in (0.0, 0.5):
        cells = np.floor(sets.look / cell + moved).astype(np.int64)
        # One number for each cell, by which sets of one cell become neighbours.
        index = np.zeros(len(cells), np.int64)
        for column in cells.T:
            index = index * 1_000_003 + column
        order = np.argsort(index, kind="stable")
        apart = np.abs(np.diff(sets.look[order], axis=0))
        near = apart.max(axis=1, initial=0) < cell / 2
        same_cell = np.diff(index[order]) == 0
        other_row = np.diff(sets.row[order]) != 0
        pairs = np.flatnonzero(near & same_cell & other_row)
        left = order[pairs].tolist()
        right = order[pairs + 1].tolist()
        yield from zip(left, right, strict=True)


def _members(code: int, doubted: Int64Array, likely: BoolArray) -> list[int]:
    """The parties of a set."""
    if code >= MASKS:
        bits = code - MASKS
        turned = {int(party) for bit, party in enumerate(doubted) if bits >> bit & 1}
        return sorted(turned ^ set(np.flatnonzero(likely).tolist()))
    return [party - 1 for party in (code % PAIR, code // PAIR) if party]


def _alone(
    sums: Sums, vectors: Float64Array, weight: Float64Array, row: int, members: list[int]
) -> Float64Array:
    """x of the only party left in a row, float64 [rounds, F]: E = (c - g x . y) x, so x = k E with
    g (E . y) k^2 - c k + 1 = 0.
    """
    taken = np.einsum("rk,rkf->rf", weight[:, row, members], vectors[:, members])
    rest = sums.rows[:, row] - taken
    # The root that stays finite as g goes to 0: k = 2 / (c + sqrt(c^2 - 4 g E . y)).
    product = (rest * sums.items[:, row]).sum(axis=1)
    inside = np.maximum(sums.c**2 - 4 * sums.g * product, 0)
    k = 2 / (sums.c + np.sqrt(inside))
    return rest * k[:, None]  # type: ignore[no-any-return]


def _weights(sums: Sums, vectors: Float64Array) -> Float64Array:
    """c - g x_u . y_i, float64 [rounds, n, m]."""
    rounds = zip(sums.items, vectors, strict=True)
    return np.stack([sums.c - sums.g * y @ x.T for y, x in rounds])


def _whitener(rows: Float64Array) -> Float64Array:
    """The symmetric matrix after which numbers of rows are uncorrelated and of variance 1, float64
    [F, F].
    """
    covariance = rows.T @ rows / len(rows)
    size, way = np.linalg.eigh(covariance)
    # Directions with hardly any variance are not blown up.
    deviation = np.sqrt(size.clip(1e-6 * size[-1]))
    return (way / deviation) @ way.T  # type: ignore[no-any-return]


@njit(cache=True, nogil=True)
def _descend(square: Float64Array, slope: Float64Array, codes: Float64Array, sweeps: int) -> None:
    """Least squares within 0..1 by the normal equations of each row, one code after the other, from
    codes of 0.
    """
    for i in range(len(codes)):
        for _ in range(sweeps):
            for k in range(codes.shape[1]):
                # The best value of this code with the others as they are, within 0..1.
                before = codes[i, k]
                best = before + slope[i, k] / square[i, k, k]
                codes[i, k] = min(1.0, max(0.0, best))
                if codes[i, k] != before:
                    moved = codes[i, k] - before
                    slope[i] -= moved * square[i, k]
