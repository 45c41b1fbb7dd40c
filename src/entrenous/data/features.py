"""What is known of the items: title, category and other columns, as text in the order of the
items.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..core.errors import InputError
from ..core.types import Array
from ..core.vocabulary import Vocabulary
from .columns import FEATURES, USUAL, find_usual
from .table import ColumnTable

LONGEST = 300  # characters of a title or a category; the rest is cut
YEAR = "release_year"  # RecBole keeps the year apart from the title
UNKNOWN = ("", "unknown", "unkonwn")
GENRES = (
    "unknown",
    "Action",
    "Adventure",
    "Animation",
    "Children's",
    "Comedy",
    "Crime",
    "Documentary",
    "Drama",
    "Fantasy",
    "Film-Noir",
    "Horror",
    "Musical",
    "Mystery",
    "Romance",
    "Sci-Fi",
    "Thriller",
    "War",
    "Western",
)
U_ITEM = (
    "item_id",
    "title",
    "release_date",
    "video_release_date",
    "url",
    *GENRES,
)  # MovieLens-100K: one column of 0 and 1 for each genre


def features(
    table: ColumnTable, items: Vocabulary, *, columns: Mapping[str, str] | None = None
) -> dict[str, Array]:
    """Item features from a table with one row per item, text [items], "" where an item is not in
    the table.

    columns: {feature: column}; by default `title`, `category`, `lat` and `lon` under their usual
    names. Several categories of an item are separated by "|". Where an item has several rows the
    last one counts. Raises InputError if there is no item column or a named column is missing."""
    names = table.frame.columns
    item = find_usual(names, USUAL["item"])
    if item is None:
        raise InputError(
            table.source,
            f"no item column among {', '.join(names[:8])}",
            expected="a column named item_id, or a similar name",
        )
    missing = [column for column in (columns or {}).values() if column not in names]
    if missing:
        raise InputError(
            table.source, f"no column '{missing[0]}'", expected="one of " + ", ".join(names[:12])
        )
    index = items.indices(_text(table, item))
    chosen = columns or {
        feature: name
        for feature, usual in FEATURES.items()
        if (name := find_usual(names, usual)) is not None
    }
    out = {
        feature: _place(_feature(table, feature, column), index, len(items))
        for feature, column in chosen.items()
    }
    if set(GENRES) <= set(names):
        out["category"] = _place(_from_flags(table), index, len(items))
    return out


def _text(table: ColumnTable, column: str) -> list[str]:
    import polars as pl

    series = table.frame[column]
    if series.dtype == pl.List(pl.String):
        series = series.list.join("|")
    if series.dtype.is_nested() or series.dtype == pl.Binary:
        raise InputError(
            table.source, f"column '{column}' holds {series.dtype}", expected="text or numbers"
        )
    return [
        str(text)[:LONGEST]
        for text in series.cast(pl.String).fill_null("").str.strip_chars().to_list()
    ]


def _feature(table: ColumnTable, feature: str, column: str) -> list[str]:
    texts = _text(table, column)
    if feature == "category" and table.types.get(column) == "token_seq":
        return ["|".join(text.split()) for text in texts]
    if feature == "title" and YEAR in table.frame.columns:
        return [
            f"{text} ({year})" if year not in UNKNOWN else text
            for text, year in zip(texts, _text(table, YEAR), strict=True)
        ]
    return texts


def _from_flags(table: ColumnTable) -> list[str]:
    flags: list[Any] = [_text(table, genre) for genre in GENRES]
    return [
        "|".join(genre for genre, flag in zip(GENRES, row, strict=True) if flag == "1")
        for row in zip(*flags, strict=True)
    ]


def _place(texts: list[str], index: Array, size: int) -> Array:
    out = np.full(size, "", dtype=object)
    known = index >= 0
    out[index[known]] = np.array(texts, dtype=object)[known]
    return out.astype(np.str_)
