"""A folder of files to `Interactions` with item features, in one of five layouts: that of
Entrenous, that of RecBole, and three of MovieLens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ..core.errors import InputError
from .columns import assemble
from .features import U_ITEM, features
from .files import read_bytes, read_table
from .home import find
from .interactions import Interactions
from .options import LoadOptions
from .table import ColumnTable, stack

EXPECTED = "interactions.parquet (or .csv, .tsv), NAME.inter, u.data, ratings.dat or ratings.csv"


class SetFiles(NamedTuple):
    """The files of a data set."""

    rows: Path
    """The file of its rows."""
    items: Path | None
    """The file of its items; None without one."""


def pair(folder: Path) -> SetFiles:
    """Returns the file of rows and the file of items in a folder. Raises InputError if no known
    file of rows is there.
    """
    # The files of rows and of items of each layout, in order of preference.
    layouts = (
        (("interactions", "checkins"), ("items",)),
        (_recbole(folder, "inter"), _recbole(folder, "item")),
        (("u.data",), ("u.item",)),
        (("ratings.dat",), ("movies.dat",)),
        (("ratings.csv", "ratings.csv.gz"), ("movies.csv", "movies.csv.gz")),
    )
    for names, items in layouts:
        rows = find(folder, *names)
        if rows is not None:
            return SetFiles(rows, find(folder, *items))
    raise InputError(
        str(folder),
        "it is a folder without known files",
        expected=EXPECTED,
        fix="name the file you mean",
    )


def _recbole(folder: Path, ending: str) -> tuple[str, ...]:
    """Returns the name of RecBole's file with an ending: the folder's name, or the only
    such file.
    """
    try:
        names = sorted(path.name for path in folder.glob(f"*.{ending}"))
    except OSError:
        # The error comes from reading the folder's files, which says more.
        names = []
    usual = f"{folder.name}.{ending}"
    if usual in names:
        return (usual,)
    return tuple(names) if len(names) == 1 else ()


def read_folder(
    folder: Path,
    options: LoadOptions,
    *,
    name: str,
    items: Path | None = None,
    part: bool = False,
) -> Interactions:
    """Returns the interactions of a folder with the features in its file of items. items: another
    file of items. part: see `assemble`.
    """
    files = pair(folder)
    data = assemble(read_table(files.rows, options), options, name=name, part=part)
    described = items or files.items
    return data if described is None else add_features(data, described)


def read_parts(
    folder: Path,
    rows: Sequence[str],
    options: LoadOptions,
    *,
    name: str,
    items: str | None = None,
    columns: Mapping[str, str] | None = None,
) -> Interactions:
    """Returns the interactions in the files `rows` of a folder, one under the other, with features
    from the file `items`.

    rows, items: names without ending (see `home.find`). columns: {feature: column}.
    Raises InputError if a file of rows is missing.
    """
    table = stack([_part(folder, stem, options) for stem in rows])
    data = assemble(table, options, name=name)
    path = None if items is None else find(folder, items)
    return data if path is None else add_features(data, path, columns=columns)


def _part(folder: Path, stem: str, options: LoadOptions) -> ColumnTable:
    path = find(folder, stem)
    if path is None:
        raise InputError(
            str(folder / stem), "no such file", expected=f"{stem}.parquet, .csv or .tsv"
        )
    return read_table(path, options)


def add_features(
    data: Interactions, path: Path, *, columns: Mapping[str, str] | None = None
) -> Interactions:
    """Returns the data set with item features (title, category and coordinates by default) from a
    file with one row per item.
    """
    table = read_table(path, _items_reading(path))
    added = features(table, data.items, columns=columns)
    read = [f"{feature} = {columns[feature]}" if columns else feature for feature in added]
    note = f"read {path}: {', '.join(read) or 'no title and no category'}"
    return replace(data.noted(note), features={**data.features, **added})


def _items_reading(path: Path) -> LoadOptions:
    """Returns how to read a file of items: those of MovieLens have no header."""
    if path.name == "u.item":
        return LoadOptions(delimiter="|", encoding="latin-1", names=U_ITEM)
    if path.name == "movies.dat":
        # MovieLens-1M and -10M.
        names = ("item_id", "title", "genres")
        return LoadOptions(delimiter="::", encoding=_utf8_or_latin1(path), names=names)
    return LoadOptions()


def _utf8_or_latin1(path: Path) -> str:
    # Latin-1 in MovieLens-1M, UTF-8 in MovieLens-10M, under one name.
    try:
        read_bytes(path).decode("utf-8")
    except UnicodeDecodeError:
        return "latin-1"
    return "utf-8"
