"""The logistic function in float32 from additions and multiplications alone: no mathematics
library, so the same bits everywhere.
"""

from __future__ import annotations

import numpy as np

from ..core.compiling import njit

_LOG2E = np.float32(1.4426950408889634)
_END = np.float32(126)
_ONE = np.float32(1)
# Minimax for 2^r on [-1/2, 1/2] with the value 1 at 0; the relative error is 9.1e-8.
_C1 = np.float32(0.69314698)
_C2 = np.float32(0.24022242)
_C3 = np.float32(0.05550734)
_C4 = np.float32(0.00967151)
_C5 = np.float32(0.00132647)


@njit(cache=True, inline="always")
def logistic(x: np.float32) -> np.float32:
    """Returns 1 / (1 + e^-x), with a relative error below 3e-7 + 1e-7 |x|; |x| above 87 counts as
    87. NaN where x is not finite.
    """
    # e^-x = 2^t = 2^n 2^r with a whole n and |r| <= 1/2.
    t = -x * _LOG2E
    n = np.rint(t)
    r = np.float32(t - n)
    # This bounds NaN too: then r is NaN, and so is the result.
    n = n if n > -_END else -_END
    n = n if n < _END else _END
    # 2^r by its series, in an order that lets two products grow side by side.
    z = r * r
    power = (_ONE + r * _C1) + z * ((_C2 + r * _C3) + z * (_C4 + r * _C5))
    # 2^n is a float32 whose exponent is n.
    scale = np.int32((np.int32(n) + np.int32(127)) << np.int32(23)).view(np.float32)
    return _ONE / (_ONE + power * scale)
