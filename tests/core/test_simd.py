"""Sixteen numbers at a time: compiled and plain forms end with the same bits; the logistic function
is what it says.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from numba import njit

from entrenous.core.contract.update import add_rows
from entrenous.core.lanes.memory import padded, zeros
from entrenous.core.lanes.simd import LANES, add_fixed, count_up_to, every, load, store, sum_of
from entrenous.kernels.logistic import logistic
from entrenous.kernels.sampling import count_gaps, fill_gaps


@njit
def everything(a, total, gaps, count):
    ok = add_fixed(total, 3, load(a, 0, count), count)
    found = sum_of(load(a, 1) * every(np.float32(3)) + load(a, 5, count) - load(a, 2))
    store(a, 4, load(a, 3, count) - load(a, 1))
    return found, ok, count_up_to(gaps, 2, 7)


@pytest.mark.parametrize("count", [1, 4, 15, 16, 20])
def test_compiled_and_plain_have_the_same_bits(count):
    first = np.random.default_rng(count).normal(size=40).astype(np.float32)
    a, b, gaps = first.copy(), first.copy(), np.arange(40, dtype=np.int32)
    left, right = np.zeros(40, np.int64), np.zeros(40, np.int64)
    assert everything(a, left, gaps, count) == everything.py_func(b, right, gaps, count)
    assert (a == b).all() and (left == right).all()
    assert (
        left[3] == round(float(first[0]) * 65536)
        and not left[3 + count :].any()
        and not left[:3].any()
    )
    assert everything(a, left, gaps, 1)[2] == 6  # 2, 3, 4, 5, 6, 7


def test_a_sum_is_a_tree_of_halves():
    lanes = np.array([2.0**24, 1, 1, 1, 1, 1, 1, 1, -(2.0**24), 0, 0, 0, 0, 0, 0, 0], np.float32)
    assert sum_of(lanes) == 7  # 2^24 and -2^24 meet first, so that none of the ones is lost


def test_rows_begin_where_registers_do():
    rows = zeros(5, padded(20))
    assert rows.shape == (5, 32) and rows.ctypes.data % 64 == 0 and not rows.any()
    assert [padded(width) for width in (1, 16, 17)] == [16, 16, 32]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 40_000.0, -32_769.0])
def test_a_number_beyond_the_grid_is_noticed_in_any_lane(bad):
    for place in (0, 7, LANES, 19):
        rows = np.zeros((1, 20), np.float32)
        rows[0, place] = bad
        assert not add_rows(np.array([1], np.int32), rows, np.zeros((3, 20), np.int64))
        assert not add_rows.py_func(np.array([1], np.int32), rows, np.zeros((3, 20), np.int64))


def test_padded_rows_add_like_their_first_columns():
    rows, item = (
        np.random.default_rng(0).normal(size=(6, 32)).astype(np.float32),
        np.array([0, 2, 2, 1, 0, 2], np.int32),
    )
    wide, narrow = np.zeros((3, 20), np.int64), np.zeros((3, 20), np.int64)
    assert add_rows(item, rows, wide) and add_rows(item, np.ascontiguousarray(rows[:, :20]), narrow)
    assert (wide == narrow).all()
    assert wide[1, 19] == round(float(rows[3, 19]) * 65536)


@njit
def sigmoids(x, out):
    for k in range(len(x)):
        out[k] = logistic(x[k])


def test_the_logistic_function_is_portable_and_close():
    x = np.concatenate([np.linspace(-87, 87, 3001), [0.0]]).astype(np.float32)
    out = np.empty_like(x)
    sigmoids(x, out)
    assert all(out[k] == logistic.py_func(x[k]) for k in range(0, len(x), 10))
    exact = np.array([1 / (1 + math.exp(-float(v))) for v in x])
    assert (np.abs(out - exact) <= exact * (3e-7 + 1e-7 * np.abs(x))).all() and out[-1] == 0.5
    special = np.array([1000, -1000, np.nan, np.inf, -np.inf], np.float32)
    sigmoids(special, out[:5])
    assert out[0] == 1 and 0 < out[1] < 1e-37 and np.isnan(out[2:5]).all()


@pytest.mark.parametrize("length", [0, 1, 15, 16, 17, 64, 65, 150])
def test_gaps_find_the_kth_item_that_is_not_avoided(length):
    avoid = np.sort(np.random.default_rng(length).choice(200, length, replace=False)).astype(
        np.int32
    )
    gaps, free = np.empty(length + LANES, np.int32), np.setdiff1d(np.arange(200), avoid)
    fill_gaps(avoid, 0, length, gaps)
    assert [k + count_gaps(gaps, length, k) for k in range(len(free))] == free.tolist()
