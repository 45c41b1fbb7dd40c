"""Eight float64 at a time: compiled and plain forms end with the same bits, which are those of a
loop.
"""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from entrenous.core.lanes.doubles import DOUBLES, TERMS, add_products


@njit
def compiled(out, at, weights, w, apart, rows, r, stride):
    add_products(out, at, weights, w, apart, rows, r, stride)


@pytest.mark.parametrize(
    "at, w, apart, r, stride", [(0, 0, 1, 0, 8), (5, 3, 7, 2, 11), (16, 1, 24, 8, 24)]
)
def test_compiled_plain_and_a_loop_have_the_same_bits(
    at: int, w: int, apart: int, r: int, stride: int
) -> None:
    out, weights, rows = np.random.default_rng(0).normal(size=(3, 10, 12))
    plain, looped = out.copy(), out.copy().ravel()
    compiled(out, at, weights, w, apart, rows, r, stride)
    add_products(plain, at, weights, w, apart, rows, r, stride)
    for k in range(TERMS):
        for lane in range(DOUBLES):
            looped[at + lane] += (
                weights.ravel()[w + k * apart] * rows.ravel()[r + k * stride + lane]
            )
    assert (out == plain).all() and (out.ravel() == looped).all()
