"""Item features: title, category and other columns, as text in the order of the items."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..core.errors import InputError
from ..core.types import Array
from ..core.vocabulary import Vocabulary
from .columns import FEATURES, USUAL, find_usual
from .table import ColumnTable, refuse_control_in

# Characters of a title or a category; the rest is cut.
LONGEST = 300
# RecBole keeps the year apart from the title.
YEAR = "release_year"
# The last one is a slip in RecBole's file of MovieLens-100K.
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
# The columns of MovieLens-100K, which has one column of 0 and 1 for each genre.
U_ITEM = ("item_id", "title", "release_date", "video_release_date", "url", *GENRES)


def features(
    table: ColumnTable, items: Vocabulary, *, columns: Mapping[str, str] | None = None
) -> dict[str, Array]:
    """Returns item features from a table with one row per item, text [items], "" where an item is
    not in the table.

    columns: {feature: column}; by default `title`, `category`, `lat` and `lon` under their usual
    names. Several categories of an item are separated by "|". Where an item has several rows, the
    last one counts. Raises InputError if there is no item column or a named column is missing.
    """
    names = table.frame.columns
    item = find_usual(names, USUAL["item"])
    if item is None:
        raise InputError(
            table.source,
            f"no item column among {', '.join(names[:8])}",
            expected="a column named item_id, or a similar name",
        )
    if columns is None:
        usual = {feature: find_usual(names, known) for feature, known in FEATURES.items()}
        columns = {feature: name for feature, name in usual.items() if name is not None}
    for column in columns.values():
        if column not in names:
            raise InputError(
                table.source, f"no column '{column}'", expected="one of " + ", ".join(names[:12])
            )
    # -1 for an item that no row has, which is left out.
    index = items.indices(_text(table, item))
    texts = {feature: _feature(table, feature, column) for feature, column in columns.items()}
    # MovieLens-100K alone has these columns.
    if set(GENRES) <= set(names):
        texts["category"] = _from_flags(table)
    return {feature: _placed(column, index, len(items)) for feature, column in texts.items()}


def _text(table: ColumnTable, name: str) -> list[str]:
    """Returns the fields of a column as text; a list of texts with "|" between them."""
    import polars as pl

    refuse_control_in(table, name)
    column = table.frame[name]
    if column.dtype == pl.List(pl.String):
        column = column.list.join("|")
    if column.dtype.is_nested() or column.dtype == pl.Binary:
        raise InputError(
            table.source, f"column '{name}' holds {column.dtype}", expected="text or numbers"
        )
    texts = column.cast(pl.String).fill_null("").str.strip_chars().to_list()
    return [text[:LONGEST] for text in texts]


def _feature(table: ColumnTable, feature: str, column: str) -> list[str]:
    texts = _text(table, column)
    # RecBole separates the parts of a sequence by blanks.
    if feature == "category" and table.types.get(column) == "token_seq":
        return ["|".join(text.split()) for text in texts]
    if feature == "title" and YEAR in table.frame.columns:
        years = _text(table, YEAR)
        return [
            text if year in UNKNOWN else f"{text} ({year})"
            for text, year in zip(texts, years, strict=True)
        ]
    return texts


def _from_flags(table: ColumnTable) -> list[str]:
    """Returns the genres of each row, from one column of 0 and 1 for each genre."""
    categories: list[list[str]] = [[] for _ in range(table.frame.height)]
    for genre in GENRES:
        for row, flag in enumerate(_text(table, genre)):
            if flag == "1":
                categories[row].append(genre)
    return ["|".join(genres) for genres in categories]


def _placed(texts: list[str], index: Array, size: int) -> Array:
    """Returns the texts at the places `index`, text [size]; a text with the place -1 is
    left out.
    """
    column = np.full(size, "", dtype=object)
    known = index >= 0
    column[index[known]] = np.array(texts, dtype=object)[known]
    return column
