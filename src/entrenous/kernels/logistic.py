"""The logistic function in float32 from additions and multiplications alone: no mathematics
library, so the same bits everywhere.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_LOG2E = np.float32(1.4426950408889634)
_END = np.float32(126)
_ONE = np.float32(1)
(
    _C1,
    _C2,
    _C3,
    _C4,
    _C5,
) = (  # minimax for 2^r on [-1/2, 1/2] with the value 1 at 0; relative error 9.1e-8
    np.float32(c) for c in (0.69314698, 0.24022242, 0.05550734, 0.00967151, 0.00132647)
)


@njit(cache=True, inline="always")
def logistic(x: np.float32) -> np.float32:
    """1 / (1 + e^-x), with a relative error below 3e-7 + 1e-7 |x|; |x| above 87 counts as 87. Not a
    number where x is not finite.
    """
    t = -x * _LOG2E
    n = np.rint(t)
    r = np.float32(t - n)  # e^-x = 2^t = 2^n 2^r
    n = n if n > -_END else -_END  # also for what is not a number: r is not one either, then
    n = n if n < _END else _END
    z = r * r
    power = (_ONE + r * _C1) + z * ((_C2 + r * _C3) + z * (_C4 + r * _C5))
    scale = np.int32((np.int32(n) + np.int32(127)) << np.int32(23)).view(np.float32)
    return _ONE / (_ONE + power * scale)
