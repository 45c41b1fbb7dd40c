"""A split from a folder of files.

A folder with a split.json was written by `split.export.write`, and its split comes back identical:
numbers of users and items, rows, candidates, notes. A folder from elsewhere has train.* and test.*,
and may have validation.*, test_candidates.* and validation_candidates.*, in any format that `load`
reads, with its options.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from pydantic import FiniteFloat, TypeAdapter

from ...core.cells import ESCAPED
from ...core.errors import InputError
from ...core.types import Array, Int32Array, Int64Array
from ..columns import USUAL, find_usual
from ..files import read_table
from ..interactions import NO_TIME, Interactions, Vocabulary, build
from ..load import load_part
from ..options import LoadOptions
from ..reading import Reading
from ..table import ColumnTable, refuse, refuse_without_threads, shown, values
from ..times import times
from ..visits import VisitColumns, with_visits
from .export import ABOUT, FEATURE
from .given import CandidateColumns, Repeats, given
from .parts import ENDINGS, part_files
from .types import Held, Split, between_peers

# The types of ids that a table can have as whole numbers; "" = text.
Whole = Literal["", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
PARTS = ("train", "validation", "test")
# Held-out rows of one user. Evaluation gives each a rank, so that a huge number would fill memory.
MOST_ABSENT = 100_000
# One of the names that others give a column of candidates.
NEGATIVE = "negative_item_id"


def read(
    folder: Path | str, load: Mapping[str, Any] | None = None, *, repeats: Repeats = "drop"
) -> Split:
    """Reads a split from its folder.

    load: how to read files from elsewhere, by the names of `LoadOptions`. repeats: as of `given`.
    Raises InputError that names the file, the line if there is one, and the expectation.
    """
    folder = Path(folder)
    refuse_without_threads(str(folder), "read the split before the fork")
    if (folder / ABOUT).exists():
        if load:
            raise InputError(
                "--load",
                f"{folder} was written by `entrenous split`, whose files need no options",
                expected="files from elsewhere",
                fix="leave it out",
            )
        return _exported(folder, repeats)
    return _foreign(folder, load or {}, repeats)


# ---- folders from elsewhere ----------------------------------------------------------------------


# Options that look at all rows of a data set, and would treat each part as a data set.
OF_THE_WHOLE = ("min_rows", "max_items_of_a_user")


def _foreign(folder: Path, load: Mapping[str, Any], repeats: Repeats) -> Split:
    options = LoadOptions.parse(load, "--load")
    for name in OF_THE_WHOLE:
        if name in load:
            raise InputError(
                f"--load {name}",
                "it would filter each part of the given split by itself",
                expected="options that read one row at a time",
                fix="leave it out, and filter the data before it is split",
            )
    present = part_files(folder)
    # A part of a split is often too small to learn from, and that is no error.
    parts = {part: load_part(path, **load) for part, path in present.items()}
    tables = {part: _foreign_candidates(folder, part, options) for part in PARTS[1:]}
    return _given(parts, tables, folder.resolve().name, False, repeats)


def _find(folder: Path, stem: str) -> Path | None:
    for ending in ENDINGS:
        path = folder / f"{stem}.{ending}"
        if path.exists():
            return path
    return None


def _foreign_candidates(folder: Path, part: str, options: LoadOptions) -> CandidateColumns | None:
    path = _find(folder, f"{part}_candidates")
    if path is None:
        return None
    # Its columns are user, item and candidate: the other names are of the rows.
    of_rows = {"value": None, "time": None, "names": None}
    table = read_table(path, options.model_copy(update=of_rows))
    names = table.frame.columns
    # Others call these columns by their own names.
    usual = {
        "user": find_usual(names, USUAL["user"]),
        "item": find_usual(names, USUAL["item"]),
        "candidate": find_usual(names, ("candidate", "candidate_id", "negative", NEGATIVE)),
    }
    asked = {"user": options.user, "item": options.item}
    found = usual | {kind: name for kind, name in asked.items() if name in names}
    # A missing column is refused by `_text` under its plain name.
    new = {name: kind for kind, name in found.items() if name is not None}
    named = replace(table, frame=table.frame.rename(new))
    return CandidateColumns(*(_text(named, kind) for kind in found))


def _given(
    parts: dict[str, Interactions],
    tables: dict[str, CandidateColumns | None],
    name: str,
    refit: bool,
    repeats: Repeats,
) -> Split:
    return given(
        parts["train"],
        parts["test"],
        parts.get("validation"),
        tables["test"],
        validation_candidates=tables["validation"],
        name=name,
        refit=refit,
        repeats=repeats,
    )


# ---- folders of `write` --------------------------------------------------------------------------


class AboutSplit(NamedTuple):
    """The content of split.json."""

    name: str
    refit: bool
    weighting: bool
    repeats: bool
    notes: tuple[str, ...]
    data: str
    """The name of the data."""
    data_reading: Reading
    """The report of its reading."""
    whole: tuple[Whole, Whole] = ("", "")
    """The types of ids of users and items that were whole numbers."""
    scale: tuple[FiniteFloat, FiniteFloat] | None = None
    """The lowest and highest possible rating, where it is known."""


class SplitIds(NamedTuple):
    """The external ids and the item features of an exported split."""

    users: Vocabulary
    """The external ids of the users."""
    items: Vocabulary
    """The external ids of the items."""
    features: dict[str, Array]
    """Columns of text [items] by name."""


def _exported(folder: Path, repeats: Repeats) -> Split:
    about = _about(folder / ABOUT)
    # A split that was made with repeats has them for good reason.
    if about.repeats:
        repeats = "keep"
    ids = _ids(folder, about)
    parts = {}
    for part in PARTS:
        # Some protocols hold no validation rows out; the other parts are always there.
        if part != "validation" or _present(folder, part):
            parts[part] = _part(folder, part, ids, about)
    if not len(parts["test"]):
        # All rows train, as those of a recommender do.
        return Split(
            about.name, parts["train"], None, Held(parts["test"]), about.refit, about.notes
        )
    tables = {part: _candidates(folder, f"{part}_candidates") for part in PARTS[1:]}
    if about.weighting and tables["validation"] is None:
        raise InputError(
            str(folder),
            "no validation_candidates file",
            expected="the candidates that each row of the weighting sets is ranked among",
            fix="export the split again",
        )
    # `given` makes notes anew; those of the export are the right ones.
    split = _given(parts, tables, about.name, about.refit, repeats)
    test = split.test._replace(absent=_absent(folder, ids.users))
    split = split._replace(notes=about.notes, test=test)
    if about.weighting:
        return between_peers(split)
    return split


def _about(path: Path) -> AboutSplit:
    """Returns the content of split.json. Raises InputError for anything else."""
    try:
        return TypeAdapter(AboutSplit).validate_json(path.read_bytes())
    except (ValueError, OSError):
        raise InputError(
            str(path),
            "does not describe a split",
            expected=f"an object with {', '.join(AboutSplit._fields)}",
            fix="export the split again, or remove the file if the parts are your own",
        ) from None


def _ids(folder: Path, about: AboutSplit) -> SplitIds:
    users = _text(_load(folder, "users"), "user")
    of_users, of_items = about.whole
    table = _load(folder, "items")
    features = {
        label.removeprefix(FEATURE): _text(table, label)
        for label in table.frame.columns
        if label.startswith(FEATURE)
    }
    return SplitIds(
        Vocabulary(users, kind="user", whole=of_users),
        Vocabulary(_text(table, "item"), kind="item", whole=of_items),
        features,
    )


def _present(folder: Path, stem: str) -> bool:
    return (folder / f"{stem}.csv").exists()


def _load(folder: Path, stem: str) -> ColumnTable:
    """Returns the table in a file, its columns as text."""
    import polars as pl

    if not _present(folder, stem):
        raise InputError(
            str(folder),
            f"no {stem} file",
            expected=f"{stem}.csv",
            fix="export the split again",
        )
    try:
        # As text: polars would read the id "007" as the number 7.
        frame = pl.read_csv(folder / f"{stem}.csv", infer_schema=False)
    except (pl.exceptions.PolarsError, OSError) as problem:
        raise InputError(
            str(folder / stem), f"cannot be read: {problem}", expected="a table with a header"
        ) from None
    # Undoes the quote that the export puts before a text that a spreadsheet would calculate.
    frame = frame.with_columns(pl.all().str.replace(ESCAPED, "${1}"))
    return ColumnTable(frame=frame, source=str(folder / stem), first_line=2)


def _part(folder: Path, part: str, ids: SplitIds, about: AboutSplit) -> Interactions:
    table = _load(folder, part)
    columns = table.frame.columns
    time = None
    if "time" in columns:
        time = _times(table)
    _check_column(table, "value")
    built = build(
        _listed(table, ids.users),
        _listed(table, ids.items),
        value=values(table, "value"),
        time=time,
        users=ids.users,
        items=ids.items,
        features=ids.features,
        name=table.source,
    )
    row = None
    if "row" in columns:
        # `build` sets `row` to the position of each row in the file.
        row = _integers(table, "row")[built.row]
    rows = replace(built, row=row, name=about.data, reading=about.data_reading, scale=about.scale)
    if not _present(folder, f"{part}_visits"):
        return rows
    table = _load(folder, f"{part}_visits")
    user = _listed(table, ids.users)
    item = _listed(table, ids.items)
    visits = VisitColumns(user, item, _times(table), _integers(table, "row"))
    return with_visits(rows, visits, table.source)


def _times(table: ColumnTable) -> Int64Array:
    """Returns the column `time` in microseconds, NO_TIME where it is missing."""
    _check_column(table, "time")
    read = times(table, "time", LoadOptions(time_form="seconds")).time
    if read is None:
        return np.full(table.frame.height, NO_TIME)
    return read


def _integers(table: ColumnTable, name: str) -> Int64Array:
    import polars as pl

    _check_column(table, name)
    numbers = table.frame[name].cast(pl.Int64, strict=False)
    bad = numbers.is_null().to_numpy()
    if bad.any():
        text = shown(table.frame[name], bad)
        refuse(table, bad, f"the {name} is '{text}'", expected="an integer")
    return numbers.to_numpy()


def _absent(folder: Path, users: Vocabulary) -> Int64Array | None:
    """Returns the number of further held-out test rows of each user, int64 [users]; None without a
    file. Raises InputError for numbers that no export writes.
    """
    if not _present(folder, "test_absent"):
        return None
    table = _load(folder, "test_absent")
    user = _listed(table, users)
    rows = _integers(table, "rows")
    # Evaluation loops over these numbers, so that a forged file is refused here.
    if len(np.unique(user)) < len(user) or ((rows < 1) | (rows > MOST_ABSENT)).any():
        expected = f"columns user and rows, each user once, 1 to {MOST_ABSENT:,}"
        raise InputError(table.source, "does not count rows", expected=expected)
    absent = np.zeros(len(users), np.int64)
    absent[user] = rows
    return absent


def _listed(table: ColumnTable, names: Vocabulary) -> Int32Array:
    """Returns the numbers of the ids in the column `user` or `item`. Raises InputError for one that
    the split does not list.
    """
    ids = _text(table, names.kind)
    indices = names.indices(ids.tolist())
    unknown = indices < 0
    if unknown.any():
        problem = f"{names.kind} '{ids[np.argmax(unknown)]}' is not in the {names.kind}s file"
        refuse(table, unknown, problem, expected="one of them", fix="add it there")
    return indices


def _candidates(folder: Path, stem: str) -> CandidateColumns | None:
    if not _present(folder, stem):
        return None
    table = _load(folder, stem)
    return CandidateColumns(*(_text(table, name) for name in CandidateColumns._fields))


def _check_column(table: ColumnTable, name: str) -> None:
    columns = table.frame.columns
    if name not in columns:
        listed = ", ".join(columns)[:200]
        raise InputError(table.source, f"no column '{name}'", fix=f"the columns are: {listed}")


def _text(table: ColumnTable, name: str) -> Array:
    """Returns a column as text. Raises InputError if there is none, and for an empty id."""
    import polars as pl

    _check_column(table, name)
    texts: Array = table.frame[name].cast(pl.String).fill_null("").to_numpy()
    empty = texts == ""
    if name in CandidateColumns._fields and empty.any():
        refuse(table, empty, f"the {name} is empty", expected="an id")
    return texts
