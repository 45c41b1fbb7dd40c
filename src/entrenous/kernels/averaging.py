"""Federated averaging of a table of items, for which a server needs sums alone.

H. B. McMahan, E. Moore, D. Ramage, S. Hampson, B. Aguera y Arcas, "Communication-efficient learning
of deep networks from decentralized data", AISTATS 2017, algorithm 1: device k of a round learns w_k
from the server's model w on its n_k rows, and

    w <- sum_k (n_k / n) w_k = w + sum_k (n_k / n) (w_k - w),   n = sum_k n_k over the round's
    devices.

A device sends n_k (w_k - w) of the items that it touched, w_k being w in all others, and n_k. Where
every device weighs the same in the place of n_k, the mean counts all alike, as in Reptile (Nichol,
Achiam and Schulman 2018, algorithm 2).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..core.compiling import njit
from ..core.contract.declarations import weight
from ..core.contract.protocols import Histories
from ..core.contract.update import Total, real
from ..core.types import Float32Array, Float64Array, Int64Array

# The weight of every device where all count alike: keeps small moves above the grid of 2^-16.
EACH = np.float32(2.0**8)
HOW_MUCH = weight(
    when="each round: n_k",
    reveals="how many interactions the device has; in a sum, how many the cohort has",
)
ALIKE = weight(
    when="each round: 256, or 0 from a device without a history",
    reveals="whether the device has a history; in a sum, how many have one",
    usual=float(EACH),
)


def counts(histories: Histories) -> Float32Array:
    """Returns the number of interactions n_k on each device, float32 [m]."""
    return np.diff(histories.ptr).astype(np.float32)


def alike(histories: Histories) -> Float32Array:
    """Returns equal weights, float32 [m]: EACH for every device that has interactions, 0 for one
    that has none.
    """
    return EACH * (counts(histories) > 0)


def weighted_moves(
    moved: Float32Array, ptr: Int64Array, weight: Float32Array
) -> dict[str, Float32Array]:
    """Returns the rows that devices send, n_k (w_k - w) of each item that they touched.

    moved: w_k - w, float32 [n, row], ordered by device as `ptr` says. weight: n_k, float32 [m].
    """
    of_row = np.repeat(weight, np.diff(ptr))
    return {"item": of_row[:, None] * moved}


def average(item: Float32Array, total: Total, rate: float = 1.0) -> Float32Array:
    """Returns the new table of items, w + rate sum_k (n_k / n) (w_k - w) over the round's devices,
    whether they touched an item or not.
    """
    # In a round without a weight, rows are 0 as well.
    n = max(float(real(total.weight).sum()), 1e-9)
    mean = real(total.rows["item"]) / n
    return moved_by(item, rate * mean)


def moved_by(array: Float32Array, step: Float64Array) -> Float32Array:
    """Returns float32 numbers plus their steps, added in float64."""
    return (array.astype(np.float64) + step).astype(np.float32)


# ---- moves that are weighted by their sizes ------------------------------------------------------


class ScaledMoves(NamedTuple):
    """Moves times their sizes, scaled for a sum in fixed point, and how they fit."""

    product: Float32Array
    """float32 [n, row], top (scale size) (scale move)."""
    largest: np.float32
    """The largest move, without its sign and not scaled."""
    moved: int
    """How many moves are not 0."""
    lost: int
    """How many of these have a product of `least` or less, without its sign."""


@njit(cache=True, nogil=True)
def scaled_moves(
    moved: Float32Array, size: Float32Array, scale: np.float32, top: np.float32, least: np.float32
) -> ScaledMoves:
    """Returns moves times their sizes, scaled. moved: float32 [n, row]; size: float32 [n, row], or
    [n, 1] for one size a row.
    """
    product = np.empty_like(moved)
    last = size.shape[1] - 1
    largest = np.float32(0)
    some = 0
    lost = 0
    for r in range(len(moved)):
        for f in range(moved.shape[1]):
            move = moved[r, f]
            weight = scale * size[r, min(f, last)]
            product[r, f] = top * (weight * (scale * move))
            largest = max(largest, abs(move))
            some += move != 0
            lost += (move != 0) & (abs(product[r, f]) <= least)
    return ScaledMoves(product, largest, some, lost)
