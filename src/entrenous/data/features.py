"""Item features: title, category and other columns, as text in the order of the items."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ..core.contract.item_features import NUMBER
from ..core.errors import InputError
from ..core.types import Array, Int32Array, Int64Array
from .bad_rows import read_good_rows
from .columns import FEATURES, USUAL, find_usual
from .interactions import SHOWN, Vocabulary
from .options import LoadOptions
from .reading import LeftOut
from .table import ColumnTable, refuse, refuse_control_in

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
# Those of MIND.
NEWS = (
    *("news_id", "category", "subcategory", "title", "abstract", "url"),
    *("title_entities", "abstract_entities"),
)


class ReadFeatures(NamedTuple):
    """The features of items and the report of their reading."""

    columns: dict[str, Array]
    """Texts [items] by feature, "" where an item is not in the table."""
    left_out: tuple[LeftOut, ...]
    """The rows without an item, and those that repeat an item."""
    notes: tuple[str, ...]
    """The number of items that the table does not describe, and of rows of other items."""


def features(
    table: ColumnTable,
    items: Vocabulary,
    options: LoadOptions,
    *,
    columns: Mapping[str, str] | None = None,
) -> ReadFeatures:
    """Returns item features from a table with one row per item.

    columns: {feature: column}; by default `title`, `category`, `lat` and `lon` under their usual
    names. Several categories of an item are separated by "|", and of several rows of an item the
    last counts. options: `bad_rows` is the policy for rows without an item. Raises InputError if
    there is no item column or a named column is missing, and where the policy refuses a row.
    """
    names = table.frame.columns
    item = find_usual(names, (*USUAL["item"], "id"))
    if item is None:
        raise InputError(
            table.source,
            f"no item column among {', '.join(names[:8])}",
            expected="a column named item_id, or a similar name",
        )
    if columns is None:
        usual = {feature: find_usual(names, known) for feature, known in FEATURES.items()}
        columns = {feature: name for feature, name in usual.items() if name is not None}
    learnt = {name: name for name in options.features or () if name not in columns.values()}
    columns = {**columns, **learnt}
    for column in columns.values():
        if column not in names:
            raise InputError(
                table.source, f"no column '{column}'", expected="one of " + ", ".join(names[:12])
            )
    for feature in set(learnt) & set(SHOWN):
        raise InputError(
            "features",
            f"'{feature}' is shown and not learnt from",
            expected="columns such as genres, year or embedding",
            fix=f"rename the column {feature}, or leave it out",
        )
    steps = [lambda rows: _items_of(rows, item)]
    table, (item_texts,) = read_good_rows(table, steps, options)
    # -1 for an item that no row has.
    index = items.indices(item_texts)
    known = np.flatnonzero(index >= 0)
    texts = {
        feature: _cells(table, column) if feature in learnt else _feature(table, feature, column)
        for feature, column in columns.items()
    }
    # MovieLens-100K alone has these columns.
    if set(GENRES) <= set(names):
        texts["category"] = _from_flags(table)
    kept, repeats = _one_row_each(table, known, index)
    described = len(kept)
    notes = []
    if described < len(items):
        notes.append(f"items that it does not describe: {len(items) - described:,}")
    if len(known) < len(index):
        notes.append(f"its rows of items without interactions: {len(index) - len(known):,}")
    placed = {}
    for feature, of_rows in texts.items():
        placed[feature] = _placed(of_rows, kept, index, len(items))
    return ReadFeatures(placed, (*table.left_out, *repeats), tuple(notes))


def _items_of(table: ColumnTable, item: str) -> list[str]:
    """Returns the item of each row. Raises BadRows for rows without one."""
    texts = _text(table, item)
    bad = np.array([not text for text in texts])
    if bad.any():
        fix = "fill it in or remove the row"
        refuse(table, bad, "the item id is empty", expected="an id on every row", fix=fix)
    return texts


def _one_row_each(
    table: ColumnTable, known: Int64Array, index: Int32Array
) -> tuple[Int64Array, tuple[LeftOut, ...]]:
    """Returns the last row of each item, int64, and the others, which are left out. known: the rows
    of items of the data, int64; index: the item of each row.
    """
    # Found from the end, the first row of an item is its last.
    _, place = np.unique(index[known][::-1], return_index=True)
    kept = np.sort(known[::-1][place])
    gone = np.setdiff1d(known, kept)
    if not len(gone):
        return kept, ()
    reason = "repeats of an item, of which the last is kept"
    return kept, (LeftOut(reason, len(gone), table.where(int(gone[0]))),)


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


def _cells(table: ColumnTable, name: str) -> list[str]:
    """Returns the fields of a column to learn from as text: "|" between the categories or numbers
    of an item, whether the file has a list, `[0.1, 0.2]` or `0.1 0.2`.
    """
    import polars as pl

    column = table.frame[name]
    if column.dtype.base_type() in (pl.List, pl.Array):
        parts = column.cast(pl.List(pl.String), strict=False)
        return parts.list.join("|").fill_null("").to_list()
    refuse_control_in(table, name)
    texts = column.cast(pl.String, strict=False).fill_null("").str.strip_chars().to_list()
    return [_divided(text) for text in texts]


def _divided(text: str) -> str:
    """Returns numbers with "|" between them; any other text as it is.

    >>> _divided("[0.5, -1e-3]"), _divided("0.5 2"), _divided("New York|Rome")
    ('0.5|-1e-3', '0.5|2', 'New York|Rome')
    """
    parts = text.strip("[]()").replace(",", " ").split()
    if all(NUMBER.fullmatch(part) for part in parts):
        return "|".join(parts)
    return text


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


def _placed(texts: list[str], rows: Int64Array, index: Array, size: int) -> Array:
    """Returns the texts of some `rows` at the places `index` of these rows, text [size]."""
    column = np.full(size, "", dtype=object)
    column[index[rows]] = np.array(texts, dtype=object)[rows]
    return column
