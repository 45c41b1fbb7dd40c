"""Places of venues, and the kilometres between them.

Great circles from points on the unit sphere, whose coordinates NumPy computes once for all venues:
the distance along the sphere follows from the straight one by an arcsine, for which additions,
multiplications and roots suffice. So a kernel calls no mathematics library and has the same bits
everywhere; and its loops run over many venues at once.
"""

from __future__ import annotations

from typing import Any
from weakref import ref

import numpy as np

from ..core.compiling import njit
from ..core.types import Float32Array, Float64Array

AXES = 3
# Kilometres, of a sphere with the mean radius of the Earth.
DIAMETER = np.float32(2 * 6371.0088)
_ONE = np.float32(1)
_HALF = np.float32(0.5)
_QUARTER_TURN = np.float32(np.pi / 2)
# Arcsine on [0, 1/2] (Moshier's Cephes, asinf); the relative error is below 2.5e-7.
_C1 = np.float32(1.6666752422e-1)
_C2 = np.float32(7.4953002686e-2)
_C3 = np.float32(4.5470025998e-2)
_C4 = np.float32(2.4181311049e-2)
_C5 = np.float32(4.2163199048e-2)


def points(places: Float64Array) -> Float32Array:
    """Returns points on the unit sphere, float32 [items, 3], of degrees latitude and longitude,
    float64 [items, 2]; NaN stays NaN.

    A step of float32 is 0.4 m on the ground.
    """
    north, east = np.radians(places).T
    x = np.cos(north) * np.cos(east)
    y = np.cos(north) * np.sin(east)
    z = np.sin(north)
    return np.stack([x, y, z], axis=1).astype(np.float32)


class _Latest:
    """The places asked for last, as long as somebody has them, and their points. All devices have
    the same, so they are computed once.
    """

    answer: tuple[Any, Float32Array] = (lambda: None, np.empty(0, np.float32))


def flat_points(places: Float64Array) -> Float32Array:
    """Returns `points` as float32 [3 items], remembered for the array asked for last."""
    known, found = _Latest.answer
    if known() is not places:
        found = points(places).reshape(-1)
        _Latest.answer = (ref(places), found)
    return found


@njit(cache=True, inline="always")
def kilometres(square: np.float32) -> np.float32:
    """Returns the great-circle distance between two points on the unit sphere whose straight
    distance squared is `square`.
    """
    # The sine of half the angle; rounding may take it above 1.
    h = np.sqrt(square) * _HALF
    h = h if h < _ONE else _ONE
    # The series holds up to 1/2: beyond, asin(h) = pi/2 - 2 asin(sqrt((1 - h) / 2)).
    far = h > _HALF
    z = (_ONE - h) * _HALF if far else h * h
    s = np.sqrt(z)
    angle = s + s * (z * (_C1 + z * (_C2 + z * (_C3 + z * (_C4 + z * _C5)))))
    return DIAMETER * (_QUARTER_TURN - (angle + angle) if far else angle)
