"""Tiles of a dense layer, and what else sixteen lanes can do: compiled and plain forms end with the
same bits.
"""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from entrenous.core.lanes.simd import LANES, every, load, root, store, unless_negative
from entrenous.core.lanes.tiles import add_outer, products, weighted


@njit
def everything(tile, start, stride, x, out):
    store(out, 0, weighted(tile, start, stride, x, 2))
    store(out, 16, products(tile, start, stride, load(x, 3)))
    add_outer(tile, start, stride, x, 1, load(x, 5))
    store(
        out, 32, root(root(load(x, 0) * load(x, 0))) / every(np.float32(3))
    )  # the root of the magnitude
    store(out, 48, unless_negative(load(x, 0), load(x, 8)))


def numbers(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return (
        rng.normal(size=1000).astype(np.float32),
        rng.normal(size=64).astype(np.float32),
        np.zeros(64, np.float32),
    )


def rows(tile: np.ndarray, start: int, stride: int) -> np.ndarray:
    """The sixteen rows of a tile, float64."""
    return np.stack(
        [tile[start + k * stride : start + k * stride + LANES] for k in range(LANES)]
    ).astype(np.float64)


@pytest.mark.parametrize(("start", "stride"), [(0, 16), (5, 21), (3, 48)])
def test_compiled_and_plain_have_the_same_bits(start: int, stride: int) -> None:
    for seed in range(5):
        (tile, x, out), (other, same, plain) = numbers(seed), numbers(seed)
        everything(tile, start, stride, x, out)
        everything.py_func(other, start, stride, same, plain)
        assert (out == plain).all() and (tile == other).all() and out.any()


@pytest.mark.parametrize(("start", "stride"), [(0, 16), (5, 21), (3, 48)])
def test_they_are_what_a_layer_does(start: int, stride: int) -> None:
    tile, x, out = numbers()
    before, x64 = tile.copy(), x.astype(np.float64)
    everything(tile, start, stride, x, out)
    matrix = rows(before, start, stride)
    assert np.allclose(out[:16], x64[2:18] @ matrix, atol=1e-5)
    assert np.allclose(out[16:32], matrix @ x64[3:19], atol=1e-5)
    assert np.allclose(
        rows(tile, start, stride), matrix + np.outer(x64[1:17], x64[5:21]), atol=1e-5
    )
    assert np.allclose(out[32:48], np.sqrt(np.abs(x64[:16])) / 3, rtol=1e-6)
    assert (out[48:] == np.where(x[:16] < 0, 0, x[8:24])).all()


def test_the_outer_product_touches_its_tile_alone() -> None:
    tile, x, out = numbers()
    before = tile.copy()
    everything(tile, 5, 21, x, out)
    inside = np.unique([5 + 21 * k + f for k in range(LANES) for f in range(LANES)])
    outside = np.setdiff1d(np.arange(1000), inside)
    assert (tile[outside] == before[outside]).all() and (tile[inside] != before[inside]).all()


def test_a_sum_of_rows_grows_in_four_chains() -> None:
    """Rows 0, 4, 8, ... are added up first, then 1, 5, ...; ((0 + 1) + (2 + 3)) at the end: a large
    number and its opposite meet early.
    """
    tile, x, out = np.zeros(256, np.float32), np.ones(64, np.float32), np.zeros(64, np.float32)
    column = np.zeros(16, np.float32)
    column[[0, 1, 4]] = 2.0**24, 1, -(2.0**24)
    tile[::16] = column
    everything(tile, 0, 16, x, out)
    assert out[0] == 1


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_a_number_passes_through(bad: float) -> None:
    for compiled in (everything, everything.py_func):
        tile, x, out = numbers()
        tile[3] = bad  # row 0, column 3
        compiled(tile, 0, 16, x, out)
        assert not np.isfinite(out[[3, 16]]).any()
        assert np.isfinite(np.delete(out, [3, 16])).all()


def test_the_rectifier_of_what_is_not_a_number_is_none_either() -> None:
    for compiled in (everything, everything.py_func):
        tile, x, out = numbers()
        x[:4], x[8:12] = [np.nan, -1, -0.0, 0.0], [np.nan, np.nan, 7, 8]
        compiled(tile, 0, 16, x, out)
        assert np.isnan(out[48]) and out[49:52].tolist() == [
            0,
            7,
            8,
        ]  # only a sign below 0 makes it 0
        assert np.isnan(out[32]) and out[34] == 0
