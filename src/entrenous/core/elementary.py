"""Natural logarithm and cosine in float64 by additions, multiplications and divisions alone: no
mathematics library, so the same bits on every machine and in every language.

Both bring their argument near 1 or 0 by exact steps and add a Taylor series there until its terms
vanish. The error is below 1.5 units in the last place, or below 1e-25 where a cosine is 0. Terms
are added in pairs, two of which a processor computes at once.
"""

from __future__ import annotations

from .compiling import njit

# ln 2 and pi / 2 in two parts: products of the first with small whole numbers are exact.
_LN2 = 0.6931471804855391
_LN2_REST = 7.440617110012397e-11
_QUARTER = 1.5707963267341256
_QUARTER_REST = 6.077100506506192e-11
_QUARTERS = 0.6366197723675814  # in a radian
_SQRT_HALF = 0.7071067811865476


@njit(cache=True, inline="always")
def ln(x: float) -> float:
    """Returns the natural logarithm of a number above 0 and at most 1, such as 1 - `uniform`."""
    # x = m / 2^k, with m from sqrt(1/2) to sqrt(2). Doubling is exact.
    m = x
    k = 0.0
    while m < _SQRT_HALF:
        m *= 2.0
        k += 1.0
    # ln m = 2 s + 2 s^3 / 3 + 2 s^5 / 5 + ... with s = (m - 1) / (m + 1), of which |s| < 0.172.
    f = m - 1.0
    s = f / (2.0 + f)
    z = s * s
    w = z * z
    series = (2.0 / 19.0 + z * (2.0 / 21.0)) + w * (2.0 / 23.0)
    series = (2.0 / 15.0 + z * (2.0 / 17.0)) + w * series
    series = (2.0 / 11.0 + z * (2.0 / 13.0)) + w * series
    series = (2.0 / 7.0 + z * (2.0 / 9.0)) + w * series
    series = z * ((2.0 / 3.0 + z * (2.0 / 5.0)) + w * series)
    # 2 s is f - s f, whose largest part has no rounding.
    of_m = f - (s * (f - series) + k * _LN2_REST)
    return of_m - k * _LN2


@njit(cache=True, inline="always")
def cos(x: float) -> float:
    """Returns the cosine of an angle in radians from 0 to 2 pi."""
    # x = n quarters of a turn and y, with |y| at most pi / 4 and a little.
    n = int(x * _QUARTERS + 0.5)
    y = (x - n * _QUARTER) - n * _QUARTER_REST
    z = y * y
    # In the quarters cos x is cos y, -sin y, -cos y and sin y.
    value = _sin_near_0(y, z) if n & 1 else _cos_near_0(z)
    return -value if (n + 1) & 2 else value


@njit(cache=True, inline="always")
def _cos_near_0(z: float) -> float:
    """Returns cos y by its series, with z = y^2."""
    w = z * z
    series = 1.0 / 20922789888000.0 - z * (1.0 / 6402373705728000.0)
    series = (1.0 / 479001600.0 - z * (1.0 / 87178291200.0)) + w * series
    series = (1.0 / 40320.0 - z * (1.0 / 3628800.0)) + w * series
    series = (1.0 / 24.0 - z * (1.0 / 720.0)) + w * series
    half = 0.5 * z
    whole = 1.0 - half
    # What rounding took from `whole` comes back with the small terms.
    return whole + (((1.0 - whole) - half) + w * series)


@njit(cache=True, inline="always")
def _sin_near_0(y: float, z: float) -> float:
    """Returns sin y by its series, with z = y^2."""
    w = z * z
    series = 1.0 / 1307674368000.0 - z * (1.0 / 355687428096000.0)
    series = (1.0 / 39916800.0 - z * (1.0 / 6227020800.0)) + w * series
    series = (1.0 / 5040.0 - z * (1.0 / 362880.0)) + w * series
    series = (1.0 / 6.0 - z * (1.0 / 120.0)) + w * series
    return y - y * z * series
