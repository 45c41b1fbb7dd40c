"""`load` and `from_frame`, the two ways in for data."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

from ..core.errors import InputError, did_you_mean
from .columns import assemble
from .dataset import datasets
from .features import features
from .files import read_table
from .filters import binarise, k_core, max_user_items
from .folders import add_features, read_folder
from .frames import from_any
from .interactions import Interactions
from .options import FrameKeywords, LoadKeywords, LoadOptions
from .reading import refuse_guesses


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
    fetch: bool = True,
    **options: Unpack[LoadKeywords],
) -> Interactions:
    """Returns the interactions of a named data set ("ml-100k"), a file, or a folder.

    Files: CSV, TSV, Parquet, RecBole `.inter`, MovieLens `::`, also as .gz, .bz2, .xz or .zip.
    Folders: `interactions.*` with `items.*`, those of RecBole and of MovieLens. `notes` of the
    result lists what loading did. External ids are text: "007" and "7" are two users.

    user, item, value, time: the names of the columns if they are unusual; value="" or time=""
    leaves that column out.

    delimiter, encoding: those of a text file. names: the columns of a file without a header.

    duplicates: "same" (default) keeps the last of repeated (user, item) rows and refuses rows that
    disagree on the value; "last" and "first" keep that row; "sum" adds the values up, as of plays
    and purchases (rows without a value are counted); "refuse" refuses repeats. Rows are in the
    order of time, then of their place in the file.

    bad_rows: "refuse" (default) refuses the first row that cannot be read; "drop" leaves such rows
    out, at most `bad_share` of all rows, but always one. max_items_of_a_user: leaves out users with
    more items. strict: True refuses whatever had to be guessed.

    scale: (lowest, highest) value; a value outside is refused.

    min_value: keeps rows of at least this value and sets their value to 1. min_rows: then keeps
    users and items with at least this many rows (the core).

    items: a file with title and category of the items. fetch: True downloads a named data set that
    is missing.

    Raises InputError: one line with file and line, the problem, the expectation, and a fix.
    """
    return _loaded(name_or_path, LoadOptions.parse(options, "load"), fetch=fetch)


def load_part(path: Path, **options: Unpack[LoadKeywords]) -> Interactions:
    """Returns the interactions of a file that is a part of a whole, such as a test file or the rows
    of one device: a single user in it is no error. Options and errors are those of `load`.
    """
    return _loaded(path, LoadOptions.parse(options, "load"), fetch=False, part=True)


def _loaded(
    name_or_path: str | Path, options: LoadOptions, *, fetch: bool, part: bool = False
) -> Interactions:
    path = Path(name_or_path)
    items_file = None if options.items is None else Path(options.items)
    # A Path is never the name of a data set, so that a file of that name can be read.
    named = datasets() if isinstance(name_or_path, str) else {}
    if name_or_path in named:
        _refuse_options(str(name_or_path), options)
        data = named[str(name_or_path)].load(fetch=fetch)
    # A folder may have a file of items, which the user's own replaces.
    elif path.is_dir():
        name = path.resolve().name
        data = read_folder(path, options, name=name, items=items_file, part=part)
        items_file = None
    else:
        if isinstance(name_or_path, str):
            _check_path(name_or_path, list(named))
        name = path.name.split(".")[0] or path.name
        data = assemble(read_table(path, options), options, name=name, part=part)
    if items_file is not None:
        data = add_features(data, items_file)
    return _filtered(data, options)


def _filtered(data: Interactions, options: LoadOptions) -> Interactions:
    """Returns the rows of users with few enough items, then those of enough value, then the users
    and items with enough rows. Raises InputError if `strict` finds a guess in the report.
    """
    if options.strict:
        refuse_guesses(data.reading)
    if options.max_items_of_a_user is not None:
        data = max_user_items(data, options.max_items_of_a_user)
    if options.min_value is not None:
        data = binarise(data, at_least=options.min_value)
    if options.min_rows != 1:
        data = k_core(data, users=options.min_rows, items=options.min_rows)
    return data


# The options that apply to a named data set too, which declares the others itself.
ANYWHERE = ("min_value", "min_rows", "items", "max_items_of_a_user", "strict")


def _refuse_options(name: str, options: LoadOptions) -> None:
    """Raises InputError for an option that a named data set declares itself."""
    default = LoadOptions()
    for option, value in options:
        if option not in ANYWHERE and value != getattr(default, option):
            raise InputError(
                name,
                f"'{option}' does not apply to a named data set",
                expected=f"{', '.join(ANYWHERE)} or fetch",
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
    items: Any = None,
    part: bool = False,
    name: str = "frame",
    **options: Unpack[FrameKeywords],
) -> Interactions:
    """Returns the interactions of a pandas, polars or Arrow table, a mapping of columns, a list of
    tuples (user, item, value, time), or a SciPy sparse matrix. Imports neither pandas nor pyarrow.

    items: a table with one row per item: title, category. part: True for a part of a whole, in
    which a single user is no error. The other options are those of `load`. Raises InputError: one
    line that names the row (counting from 0), the problem, the expectation, and a fix.
    """
    asked = LoadOptions.parse(options, "from_frame")
    for option in options:
        if option not in FrameKeywords.__annotations__:
            raise InputError(
                f"from_frame {option}", "it is an option of files", fix="leave it out of a frame"
            )
    data = assemble(from_any(frame, name), asked, name=name, part=part)
    if items is not None:
        table = from_any(items, f"{name} items")
        data = replace(data, features=features(table, data.items))
    return _filtered(data, asked)
