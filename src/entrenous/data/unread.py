"""Columns that are not read although they look as if they mattered: times, values, labels. Each is
named in the report with the option that reads it.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from .table import ColumnTable
from .times import looks_like_times


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


# The parts of a name, between capitals and separators, that tell of values or of labels.
VALUE_WORDS = _set(
    "rating ratings rate score scores star stars value weight strength ratio share percent count"
    " counts cnt plays play playcount playcounts listens views visits times freq frequency quantity"
    " qty amount price hours minutes seconds duration dwell progress preference votes"
)
LABEL_WORDS = _set(
    "label labels click clicks clicked like liked likes is has favorite favourite purchase"
    " purchased buy bought target feedback positive interested recommended recommend"
)
# Rows by which the content of a column is judged.
SAMPLE = 1_000


class Loss(NamedTuple):
    """The reason why an unread column may be missed."""

    role: str
    """The role that it could have: value, time or likes."""
    kind: str
    """The content that it seems to have, such as times."""


def look_at(table: ColumnTable, name: str) -> Loss | None:
    """Returns what an unread column seems to be, by its name and its first rows; None for a column
    that nobody will miss.
    """
    if looks_like_times(table, name):
        return Loss("time", "times")
    sample = table.frame[name].head(SAMPLE)
    if not _numbers(sample):
        return None
    if _zeros_and_ones(sample):
        return Loss("likes", "labels")
    if _words(name) & (VALUE_WORDS | LABEL_WORDS):
        return Loss("value", "values")
    return None


def _words(name: str) -> set[str]:
    """Returns the words of a column name in lower case.

    >>> sorted(_words("playCount_total"))
    ['count', 'play', 'total']
    """
    parts = re.findall(r"[A-Z]*[a-z]+|[A-Z]+", name)
    return {part.lower() for part in parts}


def _numbers(sample: Any) -> bool:
    """Returns True for a column of numbers, or of truth values, as text or not."""
    import polars as pl

    if sample.dtype == pl.Boolean or sample.dtype.is_numeric():
        return True
    if sample.dtype != pl.String:
        return False
    text = sample.str.strip_chars()
    filled = text.filter(text != "")
    return len(filled) > 0 and not filled.cast(pl.Float64, strict=False).is_null().any()


def _zeros_and_ones(sample: Any) -> bool:
    import polars as pl

    distinct = sample.cast(pl.Float64, strict=False).drop_nulls().unique().sort().to_list()
    return distinct in ([0, 1], [-1, 1], [-1, 0, 1])
