"""A folder of files to `Interactions` with item features: our own layout, RecBole's, and
MovieLens's three.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ..core.errors import InputError
from .columns import Reading, assemble
from .features import U_ITEM, features
from .files import read_bytes, read_table
from .home import find
from .interactions import Interactions
from .table import ColumnTable, stack

EXPECTED = "interactions.parquet (or .csv, .tsv), NAME.inter, u.data, ratings.dat or ratings.csv"


class SetFiles(NamedTuple):
    """The files of a data set: its rows, and its items if there is such a file."""

    rows: Path
    items: Path | None


def pair(folder: Path) -> SetFiles:
    """Find the file of rows and the file of items in a folder. Raises InputError if no known one is
    there.
    """
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
    try:
        found = sorted(path.name for path in folder.glob(f"*.{ending}"))
    except OSError:
        found = []
    own = f"{folder.name}.{ending}"
    return (own,) if own in found else tuple(found) if len(found) == 1 else ()


def read_folder(
    folder: Path, reading: Reading, *, name: str, items: Path | None = None
) -> Interactions:
    """The interactions of a folder and what its items file says of the items. items: another items
    file.
    """
    files = pair(folder)
    data, about = (
        assemble(read_table(files.rows, reading), reading, name=name),
        items or files.items,
    )
    return data if about is None else add_features(data, about)


def read_parts(
    folder: Path,
    rows: Sequence[str],
    reading: Reading,
    *,
    name: str,
    items: str | None = None,
    columns: Mapping[str, str] | None = None,
) -> Interactions:
    """The interactions in the files `rows` of a folder, one under the other, with features from the
    file `items`.

    rows, items: names without ending (see `home.find`). columns: {feature: column}.
    Raises InputError if a file of rows is missing.
    """
    data = assemble(stack([_part(folder, stem, reading) for stem in rows]), reading, name=name)
    path = None if items is None else find(folder, items)
    return data if path is None else add_features(data, path, columns=columns)


def _part(folder: Path, stem: str, reading: Reading) -> ColumnTable:
    path = find(folder, stem)
    if path is None:
        raise InputError(
            str(folder / stem), "no such file", expected=f"{stem}.parquet, .csv or .tsv"
        )
    return read_table(path, reading)


def add_features(
    data: Interactions, path: Path, *, columns: Mapping[str, str] | None = None
) -> Interactions:
    """The data set with item features (title, category and coordinates by default) from a file with
    one row per item.
    """
    found = features(read_table(path, _items_reading(path)), data.items, columns=columns)
    what = (
        ", ".join(f"{feature} = {columns[feature]}" if columns else feature for feature in found)
        or "no title and no category"
    )
    return replace(
        data, features={**data.features, **found}, notes=(*data.notes, f"read {path}: {what}")
    )


def _items_reading(path: Path) -> Reading:
    if path.name == "u.item":
        return Reading(delimiter="|", encoding="latin-1", names=U_ITEM)
    if path.name == "movies.dat":  # Latin-1 in MovieLens-1M, UTF-8 in MovieLens-10M
        return Reading(
            delimiter="::", encoding=_utf8_or_latin1(path), names=("item_id", "title", "genres")
        )
    return Reading()


def _utf8_or_latin1(path: Path) -> str:
    try:
        read_bytes(path).decode("utf-8")
    except UnicodeDecodeError:
        return "latin-1"
    return "utf-8"
