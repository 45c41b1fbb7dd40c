"""Columns that are not read although they look as if they mattered: times, values, labels. Each is
named in the report with the option that reads it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from .likes import NO, YES, label_text
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
# A name of these alone is that of a column that tells whether something was consumed or liked.
LABEL_WORDS = _set(
    "label labels click clicks clicked like liked likes favorite favourite purchase purchased buy"
    " bought target feedback positive interested recommended recommend consumed watched viewed"
    " view played read rated visited listened owned completed finished"
)
# In such a column yes means no.
DENIAL_WORDS = _set("skip skipped dislike disliked hate hated uninterested ignored")
# They stand beside these words, as in `is_like`, `long_view` and `not_interested`.
AROUND = _set("is has was did user long effective valid voted up not")
# The name of a column of kinds of actions has one of these, and a field one of the second ones if
# nothing was consumed.
ACTION_WORDS = _set(
    "action event behavior behaviour type kind feedback activity interaction status"
)
REFUSALS = DENIAL_WORDS | _set("impression impressions show shown exposure exposed not_interested")
# Different kinds of actions in a column.
MOST_KINDS = 12
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
    if _labels(sample):
        return Loss("likes", "labels")
    if _numbers(sample) and _words(name) & (VALUE_WORDS | LABEL_WORDS | {"is", "has"}):
        return Loss("value", "values")
    return None


def labels_among(names: Sequence[str]) -> list[str]:
    """Returns the names of columns that tell whether something was consumed or liked.

    >>> labels_among(["is_click", "verified_purchase", "isliked", "not_interested", "long_view"])
    ['is_click', 'isliked', 'not_interested', 'long_view']
    """
    return [name for name in names if _tells(_words(name))]


def denies(name: str) -> bool:
    """Returns True for a name of labels of which yes says that something was not liked."""
    words = _words(name)
    return bool(words & DENIAL_WORDS) or ("not" in words and bool(words & LABEL_WORDS))


def _tells(words: set[str]) -> bool:
    own = LABEL_WORDS | DENIAL_WORDS
    # `isliked` is one word.
    words = {word.removeprefix("is") or word for word in words}
    return bool(words & own) and words <= own | AROUND


def refused_action(table: ColumnTable, name: str) -> str | None:
    """Returns the kind of action of an unread column of such kinds that says that nothing was
    consumed, such as "skip"; None if it is no such column or has no such kind.
    """
    import polars as pl

    column = table.frame[name]
    if not _words(name) & ACTION_WORDS or column.dtype != pl.String:
        return None
    kinds = label_text(table, name).unique().to_list()
    if len(kinds) > MOST_KINDS:
        return None
    return next((kind for kind in sorted(kinds) if kind in REFUSALS), None)


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


def _labels(sample: Any) -> bool:
    """Returns True for a column of yes and no, as numbers, truth values or words."""
    import polars as pl

    if sample.dtype.is_nested():
        return False
    text = sample.cast(pl.String, strict=False).str.strip_chars().str.to_lowercase()
    distinct = set(text.drop_nulls().unique().to_list()) - {""}
    return len(distinct) > 1 and distinct <= YES | NO
