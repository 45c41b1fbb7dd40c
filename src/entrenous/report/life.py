"""A federation over time as one HTML page: how good its lists are, who is there, what there is to
recommend, and what was sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..core.types import Float64Array
from .figures import FigureFormat, lines
from .html import page_head
from .markup import Html, join, tag
from .theme import figure, side_by_side

ROUNDS = "rounds"


def life_page(windows: Sequence[Mapping[str, Any]], title: str) -> Html:
    """The page of a federation. windows: its state at some moments, in their order, each with
    `rounds`, `people`, `present`, `items`, `rows`, `megabytes`, and `hit_rate`, `low` and `high`,
    which are None where too few tests came.
    """
    drawn = [
        _figure(
            windows,
            "New rows that the list of ten would have had",
            "HR@10",
            {"HR@10": "hit_rate", "95 %: low": "low", "95 %: high": "high"},
        ),
        _figure(windows, "People", "people", {"joined": "people", "there": "present"}),
        _figure(windows, "Items and rows", "number", {"items": "items", "rows": "rows"}),
        _figure(windows, "Sent by all together", "MB", {"MB": "megabytes"}),
    ]
    body = tag(
        "body",
        tag("header", tag("p", "Entrenous", class_="mark"), tag("h1", title)),
        tag("main", side_by_side(*drawn[:2]), side_by_side(*drawn[2:])),
    )
    return join(Html("<!DOCTYPE html>\n"), tag("html", page_head(title), body, lang="en"))


def _figure(
    windows: Sequence[Mapping[str, Any]], title: str, unit: str, series: Mapping[str, str]
) -> Html:
    """A line for each series over rounds. series: the name of its number, by its label."""
    x = _column(windows, ROUNDS)
    columns = {label: (x, _column(windows, name)) for label, name in series.items()}
    look = FigureFormat(title, x_label=ROUNDS, y_label=unit)
    return figure(lines(columns, look, marks=len(series) == 1))


def _column(windows: Sequence[Mapping[str, Any]], name: str) -> Float64Array:
    """A number of all windows; NaN, which leaves a gap, where there is none."""
    values = [window[name] for window in windows]
    return np.array([np.nan if value is None else value for value in values], np.float64)
