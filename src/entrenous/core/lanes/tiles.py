"""Sixteen by sixteen float32 at a time: the arithmetic of a dense layer of a small network, for one
sample, on one device.

A tile is sixteen rows of sixteen numbers of a C-contiguous array, addressed by the flat position of
its first number and the distance between rows. As in `simd`, each function is plain NumPy;
`tiles_instructions` has what stands for it in a compiled kernel, and both add in the same order, so
they give the same bits on every machine.

>>> eye, x = np.eye(16, dtype=np.float32), np.arange(16, dtype=np.float32)
>>> weighted(eye, 0, 16, x, 0)[:3].tolist(), products(eye, 0, 16, x)[13:].tolist()
([0.0, 1.0, 2.0], [13.0, 14.0, 15.0])
"""

from __future__ import annotations

import numpy as np

from ..types import Float32Array
from .simd import LANES, Lanes, load, store, sum_of

# Sums that grow side by side, so that an addition need not wait for the one before.
CHAINS = 4


def weighted(tile: Float32Array, start: int, stride: int, x: Float32Array, at: int) -> Lanes:
    """Returns the sum over rows k of a tile of row k * x[at + k]: the forward pass of a layer."""
    sums = [_row(tile, start, stride, x, at, k) for k in range(CHAINS)]
    for k in range(CHAINS, LANES):
        chain = k % CHAINS
        sums[chain] = sums[chain] + _row(tile, start, stride, x, at, k)
    return (sums[0] + sums[1]) + (sums[2] + sums[3])


def products(tile: Float32Array, start: int, stride: int, lanes: Lanes) -> Lanes:
    """Returns for each row k of a tile the sum over lanes of row k * lanes: the backward pass of a
    layer.
    """
    rows = [load(tile, start + k * stride) for k in range(LANES)]
    return np.array([sum_of(row * lanes) for row in rows], np.float32)


def add_outer(
    tile: Float32Array, start: int, stride: int, x: Float32Array, at: int, lanes: Lanes
) -> None:
    """Adds x[at + k] * lanes to each row k of a tile: the gradient of the weights of a layer."""
    for k in range(LANES):
        row = start + k * stride
        store(tile, row, load(tile, row) + x.reshape(-1)[at + k] * lanes)


def _row(tile: Float32Array, start: int, stride: int, x: Float32Array, at: int, k: int) -> Lanes:
    """Returns row k of a tile times x[at + k]."""
    return x.reshape(-1)[at + k] * load(tile, start + k * stride)
