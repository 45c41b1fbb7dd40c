"""Where venues are, and how many kilometres lie between them.

Great circles from points on the unit sphere, whose coordinates NumPy computes once for all venues:
the distance along the sphere follows from the straight one by an arcsine, for which additions,
multiplications and roots suffice. So a kernel calls no mathematics library and has the same bits
everywhere; and its loops run over many venues at once."""

from __future__ import annotations

from typing import Any
from weakref import ref

import numpy as np
from numba import njit

from ..core.types import Float32Array, Float64Array

AXES = 3
DIAMETER = np.float32(2 * 6371.0088)  # km, of a sphere with the Earth's mean radius
_ONE = np.float32(1)
_HALF = np.float32(0.5)
_QUARTER_TURN = np.float32(np.pi / 2)
(
    _C1,
    _C2,
    _C3,
    _C4,
    _C5,
) = (  # arcsine on [0, 1/2] (Moshier's Cephes, asinf); relative error below 2.5e-7
    np.float32(c)
    for c in (1.6666752422e-1, 7.4953002686e-2, 4.5470025998e-2, 2.4181311049e-2, 4.2163199048e-2)
)


def points(places: Float64Array) -> Float32Array:
    """Points on the unit sphere, float32 [items, 3], of degrees latitude and longitude, float64
    [items, 2]; NaN stays NaN.

    A step of float32 is .4 m on the ground.
    """
    north, east = np.radians(places).T
    return np.stack(
        [np.cos(north) * np.cos(east), np.cos(north) * np.sin(east), np.sin(north)], axis=1
    ).astype(np.float32)


class _Latest:
    """The places asked for last, as long as somebody has them, and their points: the same for all
    devices, so worked out once.
    """

    answer: tuple[Any, Float32Array] = (lambda: None, np.empty(0, np.float32))


def flat_points(places: Float64Array) -> Float32Array:
    """`points`, float32 [3 items], remembered for the array asked for last."""
    known, found = _Latest.answer
    if known() is not places:
        found = points(places).reshape(-1)
        _Latest.answer = (ref(places), found)
    return found


@njit(cache=True, inline="always")
def kilometres(square: np.float32) -> np.float32:
    """The great-circle distance between two points on the unit sphere whose straight distance
    squared is `square`.
    """
    h = np.sqrt(square) * _HALF  # the sine of half the angle
    h = h if h < _ONE else _ONE
    far = h > _HALF
    z = (_ONE - h) * _HALF if far else h * h
    s = np.sqrt(z)
    angle = s + s * (z * (_C1 + z * (_C2 + z * (_C3 + z * (_C4 + z * _C5)))))
    return DIAMETER * (_QUARTER_TURN - (angle + angle) if far else angle)
