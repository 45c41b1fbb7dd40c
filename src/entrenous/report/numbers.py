"""Numbers as people read them. A rounded number carries its exact value in a <data> element."""

from __future__ import annotations

import math

from .markup import Html, tag

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def exact(value: float, shown: str) -> Html:
    """A <data> element that displays `shown` and keeps `value` in full precision."""
    return tag("data", shown, value=repr(value))


def metric(value: float) -> Html:
    """A metric's value as HTML: shares with four decimals, counts (whole numbers above 1) without;
    the minus sign is a minus sign."""
    if not math.isfinite(value):
        return exact(value, "not a number")
    if abs(value) > 1 and value == int(value):
        return exact(value, f"{int(value):,}")
    return exact(value, f"{value:.4f}".replace("-", "−") if abs(value) < 100 else f"{value:,.1f}")


def signed(value: float) -> Html:
    """A number with its sign and four decimals, as HTML."""
    return exact(value, f"{value:+.4f}".replace("-", "−"))


def count(value: float) -> Html:
    """A count as HTML, with thousands separated; averages have one decimal."""
    return exact(value, f"{int(value):,}" if value == int(value) else f"{value:,.1f}")


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
    place = 0 if most < 1 else min(len(_UNITS) - 1, int(math.log10(most) / 3 + 1e-12))
    return 1000.0**place, _UNITS[place]


def p_value(p: float) -> Html:
    """A p-value as HTML with three decimals; a smaller one is only said to be smaller."""
    return exact(p, "< 0.001" if p < 0.001 else f"{p:.3f}" if p < 0.9995 else "1.000")


def seconds(value: float) -> Html:
    """A duration as HTML: in seconds up to two minutes, then in minutes, then in hours."""
    if value < 120:
        return exact(value, f"{value:.3g} s")
    return exact(value, f"{value / 60:.1f} min" if value < 7200 else f"{value / 3600:.1f} h")
