"""Axes of a figure: values to places, round numbers at the ticks, and the width of text."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

# Ticks of an axis, at most.
MOST = 6
# A step between ticks is one of these times a power of ten.
STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
# The part of an axis that stays free at each end.
ROOM = 0.06


class Axis(NamedTuple):
    """A range of values, and the places on paper of its two ends."""

    low: float
    high: float
    start: float = 0.0
    """The place of `low`."""
    end: float = 1.0
    """The place of `high`."""
    logarithmic: bool = False

    def at(self, value: float) -> float:
        """The place of a value; NaN for a value that the axis cannot show.

        >>> Axis(0, 10, 100, 200).at(2.5)
        125.0
        """
        if not self.logarithmic:
            share = (value - self.low) / (self.high - self.low)
        elif value > 0:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = math.nan
        return self.start + share * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Round values on the axis, ascending.

        >>> Axis(0.0, 0.7).ticks()
        [0.0, 0.2, 0.4, 0.6]
        >>> Axis(2.0, 300.0, logarithmic=True).ticks()
        [10.0, 100.0]
        >>> Axis(2.0, 9.0, logarithmic=True).ticks()
        [2.0, 5.0]
        """
        if self.logarithmic:
            return self._powers()
        step = self._step()
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        # Fifteen digits: a multiple of a step such as 0.1 is not exact.
        return [float(f"{number * step:.15g}") for number in range(first, last + 1)]

    def said(self, tick: float) -> str:
        """A tick in as many decimals as the steps of the axis need.

        >>> Axis(0.0, 0.7).said(0.4), Axis(0, 5000).said(2000.0), Axis(-2e9, 0).said(-1e9)
        ('0.4', '2,000', '−1e+09')
        """
        if self.logarithmic or not 1e-4 <= max(abs(self.low), abs(self.high)) < 1e6:
            text = f"{tick:g}"
        else:
            step = self._step()
            decimals = max(0, -math.floor(math.log10(step) + 1e-9))
            # A quarter needs one digit more than its power of ten.
            if abs(step * 10**decimals % 1 - 0.5) < 1e-6:
                decimals += 1
            text = f"{tick:,.{decimals}f}"
        return text.replace("-", "−", 1)

    def _step(self) -> float:
        """The smallest round step that leaves at most MOST ticks."""
        least = (self.high - self.low) / MOST
        power = 10.0 ** math.floor(math.log10(least))
        return next(step * power for step in STEPS if step * power >= least * (1 - 1e-9))

    def _powers(self) -> list[float]:
        """The powers of ten on a logarithmic axis; with fewer than two, their doubles and
        quintuples too.
        """
        first = math.floor(math.log10(self.low))
        last = math.ceil(math.log10(self.high))
        powers = [10.0**power for power in range(first, last + 1)]
        shown = [tick for tick in powers if self.low <= tick <= self.high]
        if len(shown) >= 2:
            # Every second or third power where there are many.
            return shown[:: -(-len(shown) // MOST)]
        finer = [power * factor for power in powers for factor in (1, 2, 5)]
        return [tick for tick in finer if self.low <= tick <= self.high]


def axis_of(values: Iterable[ArrayLike], *, logarithmic: bool = False) -> Axis:
    """The axis that shows all finite values, with some room at its ends; 0 to 1 for none."""
    arrays = [np.ravel(np.asarray(value, np.float64)) for value in values]
    joined = np.concatenate(arrays) if arrays else np.empty(0)
    shown = joined[np.isfinite(joined)]
    if logarithmic:
        shown = shown[shown > 0]
    if not len(shown):
        return Axis(0.1 if logarithmic else 0.0, 1.0, logarithmic=logarithmic)
    low = float(shown.min())
    high = float(shown.max())
    if logarithmic:
        factor = max(high / low, 1.5) ** ROOM
        return Axis(low / factor, high * factor, logarithmic=True)
    # Equal values need an axis of some length too.
    length = (high - low) or abs(high) or 1.0
    return Axis(low - ROOM * length, high + ROOM * length)


def text_width(text: str, size: float) -> float:
    """The width of a text in a font of some size, as far as it can be known without the font.

    >>> text_width("abcd", 10), text_width("映画", 10)
    (23.0, 20.0)
    """
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    return round((0.575 * (len(text) - wide) + wide) * size, 3)
