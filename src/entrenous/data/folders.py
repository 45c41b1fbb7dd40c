"""A folder of files to `Interactions` with item features, in one of six layouts: that of
Entrenous, that of RecBole, three of MovieLens, and parts of one table, also in folders by the
values of a column.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from ..core.errors import InputError
from .columns import assemble
from .features import NEWS, U_ITEM, ReadFeatures, features
from .files import read_table
from .home import find
from .interactions import Interactions
from .options import LoadOptions
from .table import ColumnTable, NoRows, stack

# The names of the parts of one table; all files of a folder have one of these forms.
PARTS = (
    re.compile(r"(?i)part(ition)?[-_.]?([mr]-)?\d+([-_.].*)?"),
    re.compile(r"(?i)part[-_.].*\.parquet"),
    # Hugging Face, also by the name of a split such as train.
    re.compile(r"[\w.]+-\d{5}-of-\d{5}(-\w+)?\.parquet"),
    re.compile(r"\d{4}\.parquet"),
)
_SPLIT = re.compile(r"(train|test)[._-]")
# What is in a folder of Delta Lake, Iceberg and Hudi, whose other files may be out of date.
LOGS = ("_delta_log", "metadata/version-hint.text", ".hoodie")
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
    fix = "name the file you mean"
    parts = [path.name for path in _present(folder) if _SPLIT.match(path.name)]
    if len({name[:4] for name in parts}) > 1:
        listed = ", ".join(parts[:3])
        fix = f"it looks like a split ({listed}): say protocol='given' (--protocol given)"
    raise InputError(
        str(folder),
        "it is a folder without known files",
        expected=EXPECTED,
        fix=fix,
    )


def _recbole(folder: Path, ending: str) -> tuple[str, ...]:
    """Returns the name of RecBole's file with an ending: the folder's name, or the only
    such file.
    """
    names = [path.name for path in _present(folder) if path.suffix == f".{ending}"]
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
) -> Interactions:
    """Returns the interactions of a folder with the features in its file of items. items: another
    file of items.
    """
    # Hugging Face keeps the parts of a table below the description of the data set.
    below = folder / "data"
    parts = part_files(folder) or part_files(below)
    if parts:
        data = assemble(_stacked(parts, folder, options), options, name=name)
        described = items
    else:
        files = pair(folder)
        data = assemble(read_table(files.rows, options), options, name=name)
        described = items or files.items
    if described is None:
        return data
    return add_features(data, described, options)


def part_files(folder: Path) -> list[Path]:
    """Returns the files of a folder in which one table is kept in parts, as Spark, Dask and Merlin
    write them, in the order of their numbers; none for any other folder.
    """
    log = next((name for name in LOGS if (folder / name).exists()), None)
    if log is not None:
        raise InputError(
            str(folder),
            f"a log ({log}) says which of its files count, and is not read",
            expected="files that all count",
            fix="write the table as Parquet, or load the frame in Python",
        )
    present = _present(folder)
    if present and all("=" in path.name and path.is_dir() for path in present):
        return list(_below(folder))
    for form in PARTS:
        if present and all(form.match(path.name) for path in present):
            return present
    return []


def _present(folder: Path) -> list[Path]:
    """Returns what is in a folder, in the order of numbers; nothing for one that cannot be read."""
    try:
        paths = list(folder.iterdir())
    except OSError:
        # The error comes from reading the folder's files, which says more.
        return []
    # `_SUCCESS`, `_metadata`, `.part-00000.crc`: about the parts.
    present = [path for path in paths if not path.name.startswith(("_", "."))]
    return sorted(present, key=lambda path: _numbered(path.name))


def _below(folder: Path) -> Iterator[Path]:
    """Yields the files in a folder and in those in it."""
    for path in _present(folder):
        # A link may lead back; as a part it is refused.
        if path.is_dir() and not path.is_symlink():
            yield from _below(path)
        else:
            yield path


def first_file(folder: Path) -> Path:
    """Returns the file of rows in a folder, the first one of several parts."""
    parts = part_files(folder)
    if parts:
        return parts[0]
    return pair(folder).rows


def _numbered(name: str) -> list[tuple[int, str]]:
    """Returns a key by which part-10 follows part-9."""
    pieces = re.findall(r"\d+|\D+", name)
    return [(int(piece), "") if piece.isdigit() else (-1, piece) for piece in pieces]


def _stacked(parts: list[Path], folder: Path, options: LoadOptions) -> ColumnTable:
    """Returns the tables in some files one under the other, with the columns that the names of
    their folders below `folder` give; empty ones are left out and counted. Raises InputError if all
    are empty.
    """
    tables = []
    empty = 0
    for path in parts:
        try:
            tables.append(_with_folders(read_table(path, options), path.relative_to(folder)))
        except NoRows:
            empty += 1
    if not tables:
        raise InputError(
            str(parts[0].parent),
            f"none of the {len(parts)} parts has rows",
            expected="at least one row",
        )
    notes = [f"parts of one table: {len(tables):,}"]
    # The part of a name before the number of the part.
    splits = {re.split(r"-\d{5}-of-", path.name)[0] for path in parts if "-of-" in path.name}
    if len(splits) > 1:
        notes.append(f"splits that are read as one table: {', '.join(sorted(splits))}")
    if empty:
        notes.append(f"parts without rows, left out: {empty:,}")
    # A note that all parts have is said once.
    notes += dict.fromkeys(note for table in tables for note in table.notes)
    table = stack(tables)
    return replace(table, source=str(folder), notes=tuple(notes))


def _with_folders(table: ColumnTable, path: Path) -> ColumnTable:
    """Returns the table of a file with a column for each folder on its path that is named like
    `day=2020-01-31`, as Hive and Spark name them. A column of the file itself stays.
    """
    import polars as pl

    for folder in path.parts[:-1]:
        name, equals, text = folder.partition("=")
        if equals and name not in table.frame.columns:
            value = None if text == "__HIVE_DEFAULT_PARTITION__" else unquote(text)
            frame = table.frame.with_columns(pl.lit(value, pl.String).alias(name))
            note = f"the names of folders give a column: {name}"
            table = replace(table, frame=frame, notes=(*table.notes, note))
    return table


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
    if path is None:
        return data
    return add_features(data, path, options, columns=columns)


def _part(folder: Path, stem: str, options: LoadOptions) -> ColumnTable:
    path = find(folder, stem)
    if path is None:
        raise InputError(
            str(folder / stem), "no such file", expected=f"{stem}.parquet, .csv or .tsv"
        )
    return read_table(path, options)


def add_features(
    data: Interactions,
    path: Path,
    options: LoadOptions,
    *,
    columns: Mapping[str, str] | None = None,
) -> Interactions:
    """Returns the data set with item features (title, category and coordinates by default) from a
    file with one row per item. options: how the rows were read.
    """
    table = _items_table(path, options)
    added = features(table, data.items, options, columns=columns)
    read = [f"{feature} = {columns[feature]}" if columns else feature for feature in added.columns]
    notes = [f"read {path}: {', '.join(read) or 'no title and no category'}"]
    notes += [f"{path.name}: {note}" for note in (*table.notes, *added.notes)]
    return with_features(data, table, added, notes)


def with_features(
    data: Interactions, table: ColumnTable, added: ReadFeatures, notes: Iterable[str]
) -> Interactions:
    """Returns the data set with features of its items. added: as they were read from a table."""
    reading = data.reading.noted(*notes)
    reading = reading._replace(
        guesses=(*reading.guesses, *table.guesses), left_out=(*reading.left_out, *added.left_out)
    )
    return replace(data, reading=reading, features={**data.features, **added.columns})


def _items_table(path: Path, options: LoadOptions) -> ColumnTable:
    """Returns the table in a file of items. Raises the InputError of the first way to read it."""
    refusals = []
    for reading in _items_readings(path, options):
        try:
            return read_table(path, reading)
        except InputError as refusal:
            refusals.append(refusal)
    first = refusals[0]
    # The options of an error are those of the rows.
    fix = "write it in UTF-8, with the delimiter that its ending says"
    raise InputError(first.where, first.problem, expected=first.expected, fix=fix)


def _items_readings(path: Path, options: LoadOptions) -> Iterator[LoadOptions]:
    """Yields the ways to read a file of items, in order of preference."""
    encodings = ["utf-8", options.encoding]
    delimiters = [None, options.delimiter]
    names: tuple[str, ...] | None = None
    # Those of MovieLens and MIND have no header.
    if path.name == "u.item":
        encodings = ["latin-1"]
        delimiters = ["|"]
        names = U_ITEM
    elif path.name == "movies.dat":
        # Latin-1 in MovieLens-1M, UTF-8 in MovieLens-10M, under one name.
        encodings = ["utf-8", "latin-1"]
        delimiters = ["::"]
        names = ("item_id", "title", "genres")
    elif path.name == "news.tsv":
        delimiters = ["\t"]
        names = NEWS
    # Without repeats.
    for encoding in dict.fromkeys(encodings):
        for delimiter in dict.fromkeys(delimiters):
            yield options.model_copy(
                update={
                    "encoding": encoding,
                    "delimiter": delimiter,
                    "names": names,
                    "skip_lines": 0,
                    "format": None,
                }
            )
