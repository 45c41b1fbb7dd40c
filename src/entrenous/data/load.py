"""`load` and `from_frame`: the two ways in for data."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from ..core.errors import InputError, did_you_mean
from .assemble import assemble
from .columns import Duplicates, Reading
from .dataset import datasets
from .features import features
from .files import read_table
from .filters import binarise, k_core
from .folders import add_features, read_folder
from .frames import from_any
from .interactions import Interactions


def load(
    name_or_path: str | Path,
    *,
    user: str | None = None,
    item: str | None = None,
    value: str | None = None,
    time: str | None = None,
    delimiter: str | None = None,
    encoding: str = "utf-8",
    names: Sequence[str] | None = None,
    duplicates: Duplicates = "same",
    scale: tuple[float, float] | None = None,
    min_value: float | None = None,
    min_rows: int = 1,
    items: str | Path | None = None,
    part: bool = False,
    fetch: bool = True,
) -> Interactions:
    """The interactions of a named data set ("ml-100k"), a file, or a folder.

    Files: CSV, TSV, Parquet, RecBole `.inter`, MovieLens `::`, also as .gz, .bz2, .xz or .zip.
    Folders: `interactions.*` with `items.*`, RecBole's, MovieLens's. What loading did is in
    `notes`. External ids are text: "007" and "7" are two users.

    user, item, value, time: names of the columns if they are unusual; value="" or time="" leaves
    that column out. delimiter, encoding, names: of a text file; names for one without a header.
    duplicates: "same" (default) keeps the last of repeated (user, item) rows and refuses rows that
    disagree on the value; "last"
        and "first" keep one of them whatever it says; "error" refuses repeats. Order is time, then
        place in the file.
    scale: (lowest, highest) value, one outside is refused. min_value: keep rows of at least this
    value and set their value to 1. min_rows: keep users and items that have this many rows, of
    those that are kept (the core). items: a file with title and category of the items. part: the
    file is part of a whole, so one user in it is no error. fetch: whether a named data set that is
    missing may be fetched.

    Raises InputError: one line with file and line, what is wrong, what was expected, how to fix it.
    """
    reading = Reading(
        user=user,
        item=item,
        value=value,
        time=time,
        delimiter=delimiter,
        encoding=encoding,
        names=None if names is None else tuple(names),
        duplicates=duplicates,
        scale=scale,
        part=part,
    )
    named = datasets() if isinstance(name_or_path, str) else {}
    if name_or_path in named:
        _refuse_options(str(name_or_path), reading)
        data = named[str(name_or_path)].load(fetch=fetch)
        data = data if items is None else add_features(data, Path(items))
    else:
        data = _from_path(
            name_or_path, list(named), reading, None if items is None else Path(items)
        )
    return _filtered(data, min_value, min_rows)


def _filtered(data: Interactions, min_value: float | None, min_rows: int) -> Interactions:
    """Rows of enough value, then users and items with enough rows."""
    data = data if min_value is None else binarise(data, at_least=min_value)
    return data if min_rows == 1 else k_core(data, users=min_rows, items=min_rows)


def _refuse_options(name: str, reading: Reading) -> None:
    """A named data set says itself how it is read."""
    changed = [
        field.name for field in fields(reading) if getattr(reading, field.name) != field.default
    ]
    if changed:
        raise InputError(
            name,
            f"'{changed[0]}' does not apply to a named data set",
            expected="min_value, min_rows, items or fetch",
            fix="load the file itself instead",
        )


def _from_path(
    name_or_path: str | Path, known: list[str], reading: Reading, items: Path | None
) -> Interactions:
    path = Path(name_or_path)
    if path.is_dir():
        return read_folder(path, reading, name=path.resolve().name, items=items)
    looks_like_path = (
        os.path.lexists(path)
        or path.suffix
        or os.sep in str(name_or_path)
        or isinstance(name_or_path, Path)
    )
    if not looks_like_path:
        problem = f"unknown data set '{name_or_path}', and there is no such file"
        raise InputError(
            "data", problem, expected="a name or a path", fix=did_you_mean(str(name_or_path), known)
        )
    data = assemble(read_table(path, reading), reading, name=path.name.split(".")[0] or path.name)
    return data if items is None else add_features(data, items)


def from_frame(
    frame: Any,
    *,
    user: str | None = None,
    item: str | None = None,
    value: str | None = None,
    time: str | None = None,
    duplicates: Duplicates = "same",
    scale: tuple[float, float] | None = None,
    min_value: float | None = None,
    min_rows: int = 1,
    items: Any = None,
    part: bool = False,
    name: str = "frame",
) -> Interactions:
    """The interactions of a pandas, polars or Arrow table, or of a mapping of columns; neither
    pandas nor pyarrow is imported.

    items: a table with one row per item: title, category. The other options are those of `load`.
    Raises InputError: one line that names the row (counting from 0), what is wrong, what was
    expected, how to fix it.
    """
    reading = Reading(
        user=user, item=item, value=value, time=time, duplicates=duplicates, scale=scale, part=part
    )
    data = assemble(from_any(frame, name), reading, name=name)
    if items is not None:
        data = replace(data, features=features(from_any(items, f"{name} items"), data.items))
    return _filtered(data, min_value, min_rows)
