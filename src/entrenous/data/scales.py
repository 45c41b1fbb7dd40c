"""Scales of values: bounds of ratings, logarithms of counts, and values that look like counts.

Rule: values above LARGEST_RATING without a declared scale look like counts (plays, seconds), not
ratings. They are no hindrance to algorithms that learn from consumption.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, TypeAlias

import numpy as np

from ..core.errors import InputError
from ..core.types import Float32Array
from .interactions import Interactions
from .likes import liked
from .table import LARGEST, ColumnTable, refuse, shown

# (lowest, highest) rating, or counts that become logarithms.
Scale: TypeAlias = tuple[float, float] | Literal["log"]
LOG = "log"
# Published scales of ratings end here: Yahoo's songs and Jester's jokes have up to 100 steps.
LARGEST_RATING = 100
# A training that diverges on wider ratings than these is told of their width.
USUAL_WIDTH = 10


def check_values(
    table: ColumnTable,
    name: str,
    value: Float32Array,
    scale: Scale | None,
    rule: str | None,
    not_rated: float | None,
) -> None:
    """Raises InputError for the first value that the scale does not allow. A row that is no like or
    no rating is left out, and its value with it. value: float32 [rows], of the column `name`.
    """
    if scale is None:
        return
    text = table.frame[name]
    counts = liked(value, rule)
    if not_rated is not None:
        counts &= value != np.float32(not_rated)
    low, high = (0, LARGEST) if isinstance(scale, str) else scale
    # As values are kept, in float32.
    bad = (value < np.float32(low)) | (value > np.float32(high))
    bad &= counts
    if bad.any():
        refuse(
            table,
            bad,
            f"the value {shown(text, bad)} is outside the scale",
            expected=f"{low:g} to {high:g}",
            fix="correct it or the scale, or say not_rated=X if X means that a row is no rating, or"
            " likes=positive",
            reason=f"the value is outside the scale {low:g} to {high:g}",
        )


def on_scale(data: Interactions, scale: Scale | None) -> Interactions:
    """Returns the rows with log(1 + count) in place of counts where the scale says so, and with a
    note on values that became logarithms or look like counts.
    """
    if scale == LOG:
        # In float64: one rounding, at the end.
        value = np.log1p(data.value, dtype=np.float64).astype(np.float32)
        note = f"scale=log: values are log(1 + count), {_span(value.min(), value.max())}"
        return replace(data.noted(note), value=value)
    if scale is None and data.value.max() > LARGEST_RATING:
        span = _span(data.value.min(), data.value.max())
        return data.noted(
            f"values {span} look like counts, which an algorithm that predicts ratings refuses"
        )
    return data


def check_counts(data: Interactions, algorithm: str) -> None:
    """Raises InputError for values that look like counts, before an algorithm learns to predict
    them as ratings.
    """
    low, high = data.rating_scale
    if data.reading.scaled or high <= LARGEST_RATING:
        return
    raise InputError(
        data.name,
        f"values {_span(low, high)} look like counts, not ratings, which {algorithm} predicts",
        expected=f"ratings up to {LARGEST_RATING}",
        fix=f"say scale=log, or scale={low:.9g},{high:.9g} if they are ratings (--load scale=log);"
        " or choose an algorithm that learns from consumption, such as fcf",
    )


def cause_in_values(data: Interactions) -> str:
    """Returns the reason in the values for which a training on them as ratings may diverge; ""
    without one.
    """
    low, high = data.rating_scale
    if high - low <= USUAL_WIDTH:
        return ""
    return (
        f"the ratings are values {_span(low, high)}; if these are counts, load them with scale=log;"
        f" settings are made for ratings over a range of up to {USUAL_WIDTH}"
    )


def _span(low: float, high: float) -> str:
    return f"from {low:,.6g} to {high:,.6g}"
