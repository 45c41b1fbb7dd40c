"""Numbers as people read them. A rounded number carries its exact value in a <data> element."""

from __future__ import annotations

import math

from .markup import Html, tag

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def exact(value: float, shown: str) -> Html:
    """A <data> element that displays `shown` and keeps `value` in full precision."""
    return tag("data", shown, value=repr(value))


def metric(value: float) -> Html:
    """A metric's value as HTML: shares with four decimals, counts (whole numbers above 1) without
    any.
    """
    if not math.isfinite(value):
        return exact(value, "not a number")
    if abs(value) > 1 and value == int(value):
        return exact(value, f"{int(value):,}")
    if abs(value) >= 100:
        return exact(value, f"{value:,.1f}")
    return exact(value, _with_minus(f"{value:.4f}"))


def signed(value: float) -> Html:
    """A number with its sign and four decimals, as HTML."""
    return exact(value, _with_minus(f"{value:+.4f}"))


def _with_minus(text: str) -> str:
    """A number with a minus sign, which is as wide as a plus, instead of a hyphen."""
    return text.replace("-", "−")


def count(value: float) -> Html:
    """A count as HTML, with thousands separated; averages have one decimal."""
    whole = int(value)
    return exact(value, f"{whole:,}" if value == whole else f"{value:,.1f}")


def size(nbytes: float) -> Html:
    """A number of bytes in decimal units with three digits, such as 19.4 GB, as HTML."""
    rounded = float(f"{nbytes:.3g}")
    scale, unit = byte_unit(rounded)
    return exact(nbytes, f"{rounded / scale:.3g} {unit}")


def byte_unit(most: float) -> tuple[float, str]:
    """The unit in which `most` bytes is a number below 1000, and its bytes.

    >>> byte_unit(19_414_182_240)
    (1000000000.0, 'GB')
    """
    place = 0
    if most >= 1:
        # log10(1000) may be a little less than 3.
        thousands = math.log10(most) / 3 + 1e-12
        place = min(len(_UNITS) - 1, int(thousands))
    return 1000.0**place, _UNITS[place]


def p_value(p: float) -> Html:
    """A p-value as HTML with three decimals; a smaller one is only said to be smaller."""
    if p < 0.001:
        return exact(p, "< 0.001")
    return exact(p, f"{p:.3f}")


def seconds(value: float) -> Html:
    """A duration as HTML: in seconds up to two minutes, then in minutes, then in hours."""
    if value < 120:
        return exact(value, f"{value:.3g} s")
    if value < 7200:
        return exact(value, f"{value / 60:.1f} min")
    return exact(value, f"{value / 3600:.1f} h")
