"""`load` and `from_frame`, the two ways in for data."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from ..core.errors import InputError, did_you_mean
from ..core.registry.neighbours import engine
from ..core.values import SettingValue
from .columns import assemble, inspect
from .dataset import datasets
from .features import features as features_of
from .files import formats, read_table
from .filters import k_core, max_user_items
from .folders import add_features, read_folder, with_features
from .frames import CallersFrame, FrameT, OtherRows, from_any, library_of
from .interactions import Interactions, Vocabulary
from .likes import keep_likes
from .options import FrameKeywords, LoadKeywords, LoadOptions
from .reading import refuse_guesses
from .table import ColumnTable, refuse_without_threads

if TYPE_CHECKING:
    import polars as pl


def load_arguments(values: Mapping[str, SettingValue]) -> dict[str, Any]:
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
) -> Interactions[pl.DataFrame]:
    """Returns the interactions of a named data set ("ml-100k"), a file, or a folder.

    Files: CSV, TSV, Parquet, JSON lines, RecBole `.inter`, MovieLens `::` and others, also as .gz,
    .bz2, .xz or .zip. Folders: `interactions.*` with `items.*`, those of RecBole and of
    MovieLens, and parts of one table. `notes` of the result lists what loading did. External ids
    are text: "007" and "7" are two users.

    user, item, value, time: the names of the columns if they are unusual; value="" or time=""
    leaves that column out.

    time_form: the form of times that could be read in two ways, such as "day-first". bad_times:
    "missing" takes a time that cannot be read, is before 1970 or after 2100 as missing; "refuse"
    (default) raises InputError.

    format: a format or the preset of a published data set, for a file that is not recognised by its
    content (`entrenous data formats` lists them).

    delimiter, encoding: those of a text file. skip_lines: the lines before its header or first row.
    names: the columns of a file without a header.

    duplicates: "same" (default) keeps the last of repeated (user, item) rows and refuses rows that
    disagree on the value; "last" and "first" keep that row; "sum" adds the values up, as of plays
    and purchases (rows without a value are counted). Rows are in the order of time, then of their
    place in the file.

    bad_rows: "refuse" (default) refuses the first row that cannot be read; "drop" leaves such rows
    out, at most `bad_share` of all rows, but always one. max_items_of_a_user: leaves out users with
    more items. strict: True refuses whatever had to be guessed.

    scale: (lowest, highest) value; a value outside is refused. "log" for counts: values become
    log(1 + count).

    likes: the rows that count as likes, for every algorithm and ranking: "any", "positive" (values
    above 0), "at_least=4", or the name of a column of labels. The others are left out; values stay.
    not_rated: a value that means that a row is no rating; such rows are left out before repeats are
    treated. Data with values of 0 or less needs one of these.

    min_rows: after the other filters, keeps users and items with at least this many rows (the
    core).

    items: a file with title and category of the items.
    features: its further columns that algorithms may learn from, such as "year,embedding":
    categories between |, a number, or a list of numbers.
    fetch: True downloads a named data set that is missing.

    Raises InputError: one line with file and line, the problem, the expectation, and a fix.
    """
    return loaded(name_or_path, LoadOptions.parse(options, "load"), fetch=fetch)


def load_part(path: Path, **options: Unpack[LoadKeywords]) -> Interactions:
    """Returns the interactions of a file that is a part of a whole, such as a test file or the rows
    of one device: a single user in it is no error. Options and errors are those of `load`.
    """
    return loaded(path, LoadOptions.parse(options, "load"), fetch=False, part=True)


def loaded(
    name_or_path: str | Path, options: LoadOptions, *, fetch: bool, part: bool = False
) -> Interactions:
    """Returns the interactions of a data set, a file or a folder, or of such a part of a whole."""
    refuse_without_threads(str(name_or_path), "load the data before the fork")
    path = Path(name_or_path)
    items_file = None
    if options.items is not None:
        items_file = Path(options.items)
    # A Path is never the name of a data set, so that a file of that name can be read.
    named = datasets() if isinstance(name_or_path, str) else {}
    if name_or_path in named:
        _refuse_options(str(name_or_path), options)
        data = named[str(name_or_path)].load(fetch=fetch)
        if options.likes is not None:
            data = keep_likes(data, options.likes)
    else:
        if isinstance(name_or_path, str):
            _check_path(name_or_path, list(named))
        if options.format not in (None, *formats()):
            # A published data set by its name, whose recipe a neighbour reads.
            options = engine("recipes", "format").preset_options(path, options)
        data = _read(path, options, items_file)
    # A folder may have a file of items, which the user's own replaces.
    if items_file is not None and not path.is_dir():
        data = add_features(data, items_file, options)
    return _filtered(data, options, part)


def _read(path: Path, options: LoadOptions, items_file: Path | None) -> Interactions:
    """Returns the interactions of a file, or of a folder with its features."""
    if path.is_dir():
        name = path.resolve().name
        return read_folder(path, options, name=name, items=items_file)
    name = path.name.split(".")[0] or path.name
    return assemble(read_table(path, options), options, name=name)


def _filtered(data: Interactions, options: LoadOptions, part: bool) -> Interactions:
    """Returns the users with few enough items, then the users and items with enough rows. part:
    True for a part of a whole, such as a test file, in which too little to learn from is no error.

    Raises InputError if `strict` finds a guess in the report.
    """
    if options.strict:
        refuse_guesses(data.reading)
    features = data.item_features
    if options.features is not None and features is not None:
        # Made into numbers here, so that what is wrong with them is said here.
        data = data.noted(f"features to learn from: {len(features.names):,} columns of numbers")
    if options.max_items_of_a_user is not None:
        data = max_user_items(data, options.max_items_of_a_user)
    if options.min_rows != 1:
        data = k_core(data, users=options.min_rows, items=options.min_rows)
    if part:
        return data
    return inspect(data, _filters(options))


def _filters(options: LoadOptions) -> list[str]:
    """Returns the options that leave rows out, in the order in which they do."""
    named = {
        "not_rated": None if options.not_rated is None else f"{options.not_rated:g}",
        "likes": options.likes,
        "max_items_of_a_user": options.max_items_of_a_user,
        "min_rows": options.min_rows if options.min_rows != 1 else None,
    }
    return [f"{name}={value}" for name, value in named.items() if value is not None]


# The options that apply to a named data set too, which declares the others itself.
ANYWHERE = (
    "likes",
    "min_rows",
    "items",
    "features",
    "max_items_of_a_user",
    "strict",
)


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


def _with_types(data: Interactions, table: ColumnTable) -> Interactions:
    """Returns the rows of a frame with ids that know whether they were whole numbers."""
    typed: dict[str, Any] = {}
    for use in data.reading.columns:
        if use.role in ("user", "item"):
            kind = table.frame[use.name].dtype
            whole = str(kind).lower()
            # NumPy lacks the integers of 128 bits.
            if kind.is_integer() and whole in np.sctypeDict:
                ids = getattr(data, f"{use.role}s").ids
                typed[f"{use.role}s"] = Vocabulary(ids, kind=use.role, whole=whole)
    return replace(data, **typed)


def from_frame(
    frame: FrameT | OtherRows,
    *,
    items: CallersFrame | OtherRows | None = None,
    part: bool = False,
    name: str = "frame",
    **options: Unpack[FrameKeywords],
) -> Interactions[FrameT]:
    """Returns the interactions of a pandas, polars or Arrow table, a mapping of columns, a list of
    tuples (user, item, value, time), or a SciPy sparse matrix. Imports neither pandas nor pyarrow.
    Ids that are whole numbers here are whole numbers of the same type in every result, and the
    frames of results are of the kind of this one, polars frames where it is none.

    items: a table with one row per item: title, category. part: True for a part of a whole, in
    which a single user is no error. The other options are those of `load`. Raises InputError: one
    line that names the row (counting from 0), the problem, the expectation, and a fix.
    """
    refuse_without_threads(name, "make the Interactions before the fork")
    asked = LoadOptions.parse(options, "from_frame")
    for option in options:
        if option not in FrameKeywords.__annotations__:
            raise InputError(
                f"from_frame {option}", "it is an option of files", fix="leave it out of a frame"
            )
    table = from_any(frame, name)
    data = _with_types(assemble(table, asked, name=name), table)
    reading = data.reading._replace(in_frame=True)
    data = replace(data, frames=library_of(frame), reading=reading)
    if items is not None:
        table = from_any(items, f"{name} items")
        added = features_of(table, data.items, asked)
        data = with_features(data, table, added, added.notes)
    return _filtered(data, asked, part)
