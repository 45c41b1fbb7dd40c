"""`load` and `from_frame`, the two ways in for data; and `LoadOptions`, the options of `load` by
name, as `--load item=venue` on the command line and the manifest of a stored run have them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, final

from pydantic import Field, field_validator

from ..core.contract.settings import Settings
from ..core.errors import InputError, did_you_mean
from .columns import Duplicates, Reading, assemble
from .dataset import datasets
from .features import features
from .files import read_table
from .filters import binarise, k_core
from .folders import add_features, read_folder
from .frames import from_any
from .interactions import Interactions


@final
class LoadOptions(Settings):
    """The options of `load` that describe an unusual file, under the same names. A value may be the
    text that the command line has."""

    user: str | None = Field(None, description="name of the user column")
    item: str | None = Field(None, description="name of the item column")
    value: str | None = Field(None, description="name of the value column; empty to leave it out")
    time: str | None = Field(None, description="name of the time column; empty to leave it out")
    delimiter: str | None = Field(None, description="of a text file: one character, or ::")
    encoding: str = Field("utf-8", description="of a text file, such as latin-1")
    names: list[str] | None = Field(
        None, description="column names of a file without a header, separated by commas"
    )
    duplicates: Duplicates = Field(
        "same",
        description=(
            "which of repeated (user, item) rows is kept: same (any, if they agree), first, last,"
            " or error"
        ),
    )
    scale: tuple[float, float] | None = Field(
        None, description="lowest and highest value allowed, such as 1,5"
    )
    min_value: float | None = Field(
        None, description="keep rows of at least this value and count them as consumed"
    )
    min_rows: int = Field(
        1, ge=1, description="keep users and items with at least this many rows (the core)"
    )
    items: str | None = Field(None, description="a file with title and category of the items")

    @field_validator("names", "scale", mode="before")
    @classmethod
    def _separated(cls, given: Any) -> Any:
        """Returns the parts of a text such as `1,5`; anything else as it is."""
        return given.split(",") if isinstance(given, str) else given


def load_arguments(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns keyword arguments for `load` from names and values. Raises InputError for an unknown
    name or a wrong value.
    """
    options = LoadOptions.parse(values, "--load")
    # Only those that were given, so that a manifest lists no defaults.
    return {name: getattr(options, name) for name in values}


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
    fetch: bool = True,
) -> Interactions:
    """Returns the interactions of a named data set ("ml-100k"), a file, or a folder.

    Files: CSV, TSV, Parquet, RecBole `.inter`, MovieLens `::`, also as .gz, .bz2, .xz or .zip.
    Folders: `interactions.*` with `items.*`, those of RecBole and of MovieLens. `notes` of the
    result lists what loading did. External ids are text: "007" and "7" are two users.

    user, item, value, time: the names of the columns if they are unusual; value="" or time=""
    leaves that column out.

    delimiter, encoding: those of a text file. names: the columns of a file without a header.

    duplicates: "same" (default) keeps the last of repeated (user, item) rows and refuses rows that
    disagree on the value; "last" and "first" keep that row; "error" refuses repeats. Rows are in
    the order of time, then of their place in the file.

    scale: (lowest, highest) value; a value outside is refused.

    min_value: keeps rows of at least this value and sets their value to 1. min_rows: then keeps
    users and items with at least this many rows (the core).

    items: a file with title and category of the items. fetch: True downloads a named data set that
    is missing.

    Raises InputError: one line with file and line, the problem, the expectation, and a fix.
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
    )
    data = _loaded(name_or_path, reading, None if items is None else Path(items), fetch)
    return _filtered(data, min_value, min_rows)


def load_part(
    path: Path,
    *,
    min_value: float | None = None,
    min_rows: int = 1,
    items: str | Path | None = None,
    names: Sequence[str] | None = None,
    **options: Any,
) -> Interactions:
    """Returns the interactions of a file that is a part of a whole, such as a test file or the rows
    of one device: a single user in it is no error. Options and errors are those of `load`.
    """
    # Other options pass through, and Reading refuses those that it does not know.
    reading = Reading(names=None if names is None else tuple(names), part=True, **options)
    data = _loaded(path, reading, None if items is None else Path(items), fetch=False)
    return _filtered(data, min_value, min_rows)


def _loaded(
    name_or_path: str | Path, reading: Reading, items_file: Path | None, fetch: bool
) -> Interactions:
    path = Path(name_or_path)
    # A Path is never the name of a data set, so that a file of that name can be read.
    named = datasets() if isinstance(name_or_path, str) else {}
    if name_or_path in named:
        _refuse_options(str(name_or_path), reading)
        data = named[str(name_or_path)].load(fetch=fetch)
    # A folder may have a file of items, which the user's own replaces.
    elif path.is_dir():
        data = read_folder(path, reading, name=path.resolve().name, items=items_file)
        items_file = None
    else:
        if isinstance(name_or_path, str):
            _check_path(name_or_path, list(named))
        name = path.name.split(".")[0] or path.name
        data = assemble(read_table(path, reading), reading, name=name)
    return data if items_file is None else add_features(data, items_file)


def _filtered(data: Interactions, min_value: float | None, min_rows: int) -> Interactions:
    """Returns the rows of enough value, then the users and items with enough rows."""
    if min_value is not None:
        data = binarise(data, at_least=min_value)
    if min_rows != 1:
        data = k_core(data, users=min_rows, items=min_rows)
    return data


def _refuse_options(name: str, reading: Reading) -> None:
    """Raises InputError for an option of reading: a named data set declares them itself."""
    for field in fields(reading):
        if getattr(reading, field.name) != field.default:
            raise InputError(
                name,
                f"'{field.name}' does not apply to a named data set",
                expected="min_value, min_rows, items or fetch",
                fix="load the file itself instead",
            )


def _check_path(text: str, known: list[str]) -> None:
    """Raises InputError for a text that neither names a data set nor looks like a path."""
    # `ml-10k` is a slip for a name, `ratings.csv` and `./ratings` are paths.
    if not os.path.lexists(text) and not Path(text).suffix and os.sep not in text:
        raise InputError(
            "data",
            f"unknown data set '{text}', and there is no such file",
            expected="a name or a path",
            fix=did_you_mean(text, known),
        )


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
    """Returns the interactions of a pandas, polars or Arrow table, a mapping of columns, a list of
    tuples (user, item, value, time), or a SciPy sparse matrix. Imports neither pandas nor pyarrow.

    items: a table with one row per item: title, category. part: True for a part of a whole, in
    which a single user is no error. The other options are those of `load`. Raises InputError: one
    line that names the row (counting from 0), the problem, the expectation, and a fix.
    """
    reading = Reading(
        user=user, item=item, value=value, time=time, duplicates=duplicates, scale=scale, part=part
    )
    data = assemble(from_any(frame, name), reading, name=name)
    if items is not None:
        table = from_any(items, f"{name} items")
        data = replace(data, features=features(table, data.items))
    return _filtered(data, min_value, min_rows)
