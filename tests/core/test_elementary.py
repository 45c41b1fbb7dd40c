"""`ln` and `cos` agree with the mathematics library to its last digits, and compiled with
uncompiled to the last bit.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from entrenous.core.elementary import cos, ln

DRAWN = np.random.default_rng(0).integers(0, 2**53, 20_000) * 2.0**-53
EDGES = [2.0**-53, 0.25, 0.5, math.sqrt(0.5), 1 - 2.0**-53]
TURN = 6.283185307179586
AXES = [k * TURN / 8 for k in range(9)]


def units(found: float, expected: float) -> float:
    """The difference in units of the last place of what is expected, or of 1e-25 next to 0."""
    return abs(found - expected) / max(1e-25, math.ulp(expected))


@pytest.mark.parametrize(
    ("own", "library", "arguments"),
    [
        (ln, math.log, [*EDGES, *(1 - DRAWN)]),
        (cos, math.cos, [*AXES, *(TURN * DRAWN)]),
    ],
    ids=["ln", "cos"],
)
def test_the_library_has_nearly_the_same(own: Any, library: Any, arguments: list[float]) -> None:
    # The library's own error is half a unit and a little.
    assert max(units(own(x), library(x)) for x in arguments) <= 2
    for x in arguments[:2000]:
        assert own(x) == own.py_func(x)


def test_the_ends() -> None:
    assert ln(1.0) == 0.0
    assert cos(0.0) == 1.0
    assert cos(TURN) == 1.0
    assert cos(TURN / 2) == -1.0
