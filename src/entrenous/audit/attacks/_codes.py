"""Sums of vectors by unknown binary codes, taken apart: which of N parties is in which row, and what vector each of them has.

Row i of round r is E_i = sum over the parties u of item i of (c - g x_u . y_i) x_u, with y known and x_u unknown but the same in all rows
of a round; in FCF x_u itself follows from which items are u's. Blind separation: independent components (A. Hyvarinen, E. Oja,
"Independent component analysis", Neural Networks 13, 2000, with the square as nonlinearity: codes are sparse and so skewed) of rows with
few parties are a start; then the vectors are fitted to the codes and the codes, between 0 and 1, to the vectors, in turns (D. D. Lee, H.
S. Seung, "Learning the parts of objects", Nature 401, 1999, is this for parts that are not negative).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from ...core.generator import generator
from ...core.keys import key
from ...core.types import BoolArray, Float64Array

TAIL, SOLVED = 0.4, 0.02  # the share of rows with the smallest sums; what is left of a row that is explained, as a share
STEPS, HELD, COMPONENT_STEPS = 60, 30, 60  # turns; of these with the vectors of the start; of the components


class Coded(NamedTuple):
    """Rows to take apart. rows, items: float64 [rounds, n, F], E and y; gram: float64 [rounds, F, F], Y^T Y over all items; c, g: of the
    contribution of a party; w, reg: of x_u = (w Y^T Y + reg I + g sum y y^T)^-1 c sum y over the items of u; shared: float64 [n], the share
    of parties that have each item, about."""

    rows: Float64Array
    items: Float64Array
    gram: Float64Array
    c: float
    g: float
    w: float
    reg: float
    shared: Float64Array

    def some(self, rows: BoolArray) -> Coded:
        """Some of the rows."""
        return self._replace(rows=self.rows[:, rows], items=self.items[:, rows], shared=self.shared[rows])


def separated(coded: Coded, parties: int) -> tuple[Float64Array, Float64Array]:
    """Codes and what each row has left once they are taken off: float64 [n, parties] within 0..1, and [n], as a share of the row."""
    size = np.linalg.norm(coded.rows[0], axis=1)
    tail = size <= np.quantile(size, TAIL if parties > coded.rows.shape[2] else 1.0)
    anchors = _anchors(coded.some(tail), parties)
    codes = np.zeros((len(size), parties))
    few, draw = anchors.shape[1], generator(key(0, "audit", "separation"))
    codes[:, few:] = (coded.shared[:, None] * 2 * draw.uniform((len(size), parties - few))).clip(0, 1)
    scale = np.stack([np.eye(rows.shape[1]) / np.sqrt((rows**2).mean()) for rows in coded.rows])
    for step in range(STEPS):
        vectors = _vectors(coded, codes)
        if step < HELD:
            vectors[:, :few] = anchors
        codes = _codes(coded, vectors, codes, scale, 6)
        left = _left(coded, codes, vectors)
        if np.quantile(left, 0.95) < SOLVED:
            break
    return codes, left


def _anchors(coded: Coded, parties: int) -> Float64Array:
    """Vectors of parties whose codes come out as 0 and 1 by components and regression, float64 [rounds, m, F]."""
    scale = np.stack([_whitener(rows) for rows in coded.rows])
    codes = _start(np.concatenate([rows @ by for rows, by in zip(coded.rows, scale, strict=True)], axis=1), parties)
    vectors = _vectors(coded, codes)
    for _ in range(10):
        sharp = ((codes - 0.5) * 3 + 0.5).clip(0, 1)
        vectors = _fitted(coded, sharp, vectors)
        codes = _codes(coded, vectors, codes, scale, 10)
    whole = (np.abs(codes - np.rint(codes)) < 0.1).mean(axis=0) > 0.98
    return vectors[:, whole & ((codes > 0.5).sum(axis=0) > 1)]


def _whitener(rows: Float64Array) -> Float64Array:
    """The symmetric matrix after which numbers of rows are uncorrelated and of variance 1, float64 [F, F]."""
    size, way = np.linalg.eigh(rows.T @ rows / len(rows))
    return (way / np.sqrt(size.clip(1e-6 * size[-1]))) @ way.T  # type: ignore[no-any-return]


def _start(numbers: Float64Array, parties: int) -> Float64Array:
    """Codes from independent components, float64 [n, parties]: the upper end of each component is 1."""
    left, _, _ = np.linalg.svd(numbers - numbers.mean(axis=0), full_matrices=False)
    white = left[:, :parties] * np.sqrt(len(numbers))
    turn = np.linalg.qr(generator(key(0, "audit", "components")).normal((white.shape[1], white.shape[1])))[0]
    for _ in range(COMPONENT_STEPS):
        one, _, other = np.linalg.svd(((white @ turn.T) ** 2).T @ white, full_matrices=False)
        turn = one @ other
    found = white @ turn.T
    found *= np.sign((found**3).mean(axis=0))
    low, high = np.median(found, axis=0), np.sort(found, axis=0)[-20:].mean(axis=0)
    codes = np.zeros((len(numbers), parties))
    codes[:, : found.shape[1]] = ((found - low) / np.maximum(high - low, 1e-12) * 1.2).clip(0, 1)
    return np.where(codes < 0.3, 0, codes)


def _vectors(coded: Coded, codes: Float64Array) -> Float64Array:
    """x_u by FCF's own formula, float64 [rounds, parties, F]."""
    factors, found = coded.items.shape[2], []
    for items, gram in zip(coded.items, coded.gram, strict=True):
        squares = (items[:, :, None] * items[:, None, :]).reshape(len(items), -1)
        whole = coded.w * gram + coded.reg * np.eye(factors) + coded.g * (codes.T @ squares).reshape(-1, factors, factors)
        found.append(np.linalg.solve(whole, (coded.c * codes.T @ items)[:, :, None])[:, :, 0])
    return np.stack(found)


def _fitted(coded: Coded, codes: Float64Array, vectors: Float64Array) -> Float64Array:
    """x_u by least squares, round by round, with the factor c - g x_u . y_i of the vectors before."""
    parts = zip(coded.rows, coded.items, vectors, strict=True)
    return np.stack([np.linalg.lstsq(codes * (coded.c - coded.g * items @ x.T), rows, rcond=None)[0] for rows, items, x in parts])


def _left(coded: Coded, codes: Float64Array, vectors: Float64Array) -> Float64Array:
    """What is left of each row, as a share of it."""
    left, whole = np.zeros(len(codes)), np.zeros(len(codes))
    for rows, items, x in zip(coded.rows, coded.items, vectors, strict=True):
        left += ((codes * (coded.c - coded.g * items @ x.T)) @ x - rows).__pow__(2).sum(axis=1)
        whole += (rows**2).sum(axis=1)
    return np.sqrt(left / np.maximum(whole, 1e-30))  # type: ignore[no-any-return]


def _codes(coded: Coded, vectors: Float64Array, codes: Float64Array, scale: Float64Array, sweeps: int) -> Float64Array:
    """Codes within 0..1 by least squares, from those before. scale: float64 [rounds, F, F], what rows and vectors are multiplied by."""
    scaled = np.stack([x @ by for x, by in zip(vectors, scale, strict=True)])
    kernel = np.stack([x @ x.T for x in scaled])
    weight = np.stack([coded.c - coded.g * items @ x.T for items, x in zip(coded.items, vectors, strict=True)])
    right = np.stack([(rows @ by) @ x.T for rows, by, x in zip(coded.rows, scale, scaled, strict=True)])
    found = codes.copy()
    _descend(kernel, weight, right, found, sweeps)
    return found


@njit(cache=True, nogil=True)
def _descend(kernel: Float64Array, weight: Float64Array, right: Float64Array, codes: Float64Array, sweeps: int) -> None:
    """Least squares within 0..1, row by row, one code after the other."""
    rounds, n, parties = weight.shape
    square, slope = np.empty((parties, parties)), np.empty(parties)
    for i in range(n):
        for k in range(parties):
            total = 0.0
            for r in range(rounds):
                total += weight[r, i, k] * right[r, i, k]
            slope[k] = total
            for j in range(k + 1):
                total = 0.0
                for r in range(rounds):
                    total += weight[r, i, k] * weight[r, i, j] * kernel[r, k, j]
                square[k, j] = square[j, k] = total
        for k in range(parties):
            if codes[i, k] != 0:
                for j in range(parties):
                    slope[j] -= codes[i, k] * square[k, j]
        for _ in range(sweeps):
            most = 0.0
            for k in range(parties):
                if square[k, k] <= 0:
                    continue
                step = min(1.0, max(0.0, codes[i, k] + slope[k] / square[k, k])) - codes[i, k]
                if step != 0:
                    codes[i, k] += step
                    most = max(most, abs(step))
                    for j in range(parties):
                        slope[j] -= step * square[k, j]
            if most < 1e-5:
                break
