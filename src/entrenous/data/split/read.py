"""A split from a folder of files.

A folder with a split.json was written by `split.export.write`, and its split comes back identical:
numbers of users and items, rows, candidates, notes. A folder from elsewhere has train.* and test.*,
and may have validation.*, test_candidates.* and validation_candidates.*, in any format that `load`
reads, with its options.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...core.cells import ESCAPED
from ...core.errors import InputError
from ...core.types import Array
from ..columns import USUAL, find_usual
from ..files import read_table
from ..interactions import NO_TIME, SECOND, Interactions, Vocabulary, build
from ..load import load_part
from ..options import LoadOptions
from ..reading import Reading
from ..table import refuse_without_threads
from ..visits import VisitColumns, with_visits
from .export import ABOUT, FEATURE
from .given import CandidateColumns, Repeats, given
from .parts import ENDINGS, part_files
from .types import Split, between_peers

PARTS = ("train", "validation", "test")
# Held-out rows of one user. Evaluation gives each a rank, so that a huge number would fill memory.
MOST_ABSENT = 100_000
# The expectation of a column of numbers that need not be integers.
EXPECTED = {"value": "a finite number", "time": "seconds since 1970"}


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
    about = {"name": folder.resolve().name, "refit": False}
    return _given(parts, tables, about, repeats)


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
    reading = options.model_copy(update=of_rows)
    frame = read_table(path, reading).frame
    # Others call these columns by their own names.
    usual_names = {
        "user": USUAL["user"],
        "item": USUAL["item"],
        "candidate": ("candidate", "candidate_id", "negative", "negative_item_id"),
    }
    named_by_user = {"user": options.user, "item": options.item}
    columns = []
    for kind, usual in usual_names.items():
        asked = named_by_user.get(kind)
        name = asked
        if asked not in frame.columns:
            name = find_usual(frame.columns, usual)
        # A missing column is refused by `_text` under its plain name.
        named = frame
        if name is not None:
            named = frame.rename({name: kind})
        columns.append(_text(named, kind, path))
    return CandidateColumns(*columns)


def _given(
    parts: dict[str, Interactions],
    tables: dict[str, CandidateColumns | None],
    about: Mapping[str, Any],
    repeats: Repeats,
) -> Split:
    """Returns the split of parts. about: its name and its `refit`."""
    return given(
        parts["train"],
        parts["test"],
        parts.get("validation"),
        tables["test"],
        validation_candidates=tables["validation"],
        name=about["name"],
        refit=about["refit"],
        repeats=repeats,
    )


# ---- folders of `write` --------------------------------------------------------------------------


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
    if about["repeats"]:
        repeats = "keep"
    ids = _ids(folder)
    parts = {}
    for part in PARTS:
        # Some protocols hold no validation rows out; the other parts are always there.
        if part != "validation" or _present(folder, part):
            parts[part] = _part(folder, part, ids, about)
    tables = {part: _candidates(folder, f"{part}_candidates") for part in PARTS[1:]}
    if about["weighting"] and tables["validation"] is None:
        raise InputError(
            str(folder),
            "no validation_candidates file",
            expected="the candidates that each row of the weighting sets is ranked among",
            fix="export the split again",
        )
    # `given` makes notes anew; those of the export are the right ones.
    split = _given(parts, tables, about, repeats)
    test = split.test._replace(absent=_absent(folder, ids.users))
    split = split._replace(notes=tuple(about["notes"]), test=test)
    if about["weighting"]:
        return between_peers(split)
    return split


def _ids(folder: Path) -> SplitIds:
    users = _text(_load(folder, "users"), "user", folder / "users")
    frame = _load(folder, "items")
    path = folder / "items"
    items = _text(frame, "item", path)
    features = {}
    for label in frame.columns:
        if label.startswith(FEATURE):
            features[label.removeprefix(FEATURE)] = _text(frame, label, path)
    return SplitIds(Vocabulary(users, kind="user"), Vocabulary(items, kind="item"), features)


def _about(path: Path) -> dict[str, Any]:
    """Returns the content of split.json. Raises InputError if a name is missing or of another
    type.
    """
    kinds = {
        "name": str,
        "refit": bool,
        "weighting": bool,
        "repeats": bool,
        "notes": list,
        "data": str,
        "data_reading": dict,
    }
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as problem:
        raise InputError(
            str(path), f"cannot be read: {problem}", expected="JSON", fix="mend or remove it"
        ) from None
    whole = isinstance(about, dict)
    if whole and all(isinstance(about.get(name), kind) for name, kind in kinds.items()):
        return {**about, "data_reading": _reading(about["data_reading"], path)}
    raise InputError(
        str(path), "does not describe a split", expected=f"an object with {', '.join(kinds)}"
    )


def _reading(given: dict[str, Any], path: Path) -> Reading:
    try:
        return Reading.parse(given)
    except ValueError:
        raise InputError(
            str(path),
            "data_reading is no report of a reading",
            expected="an object with source, columns, guesses, left_out and notes",
            fix="export the split again",
        ) from None


def _present(folder: Path, stem: str) -> bool:
    return (folder / f"{stem}.csv").exists()


def _load(folder: Path, stem: str) -> Any:
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
        # Undoes the quote that the export puts before a text that a spreadsheet would calculate.
        return frame.with_columns(pl.all().str.replace(ESCAPED, "${1}"))
    except (pl.exceptions.PolarsError, OSError) as problem:
        raise InputError(
            str(folder / stem), f"cannot be read: {problem}", expected="a table with a header"
        ) from None


def _part(folder: Path, part: str, ids: SplitIds, about: dict[str, Any]) -> Interactions:
    path = folder / part
    frame = _load(folder, part)
    user, item = _pairs(frame, ids.users, ids.items, path)
    row = _numbers(frame, "row", path)
    built = build(
        user,
        item,
        value=_numbers(frame, "value", path),
        time=_numbers(frame, "time", path),
        users=ids.users,
        items=ids.items,
        features=ids.features,
        name=str(path),
    )
    if row is not None:
        # `build` sets `row` to the position of each row in the file.
        row = row[built.row]
    rows = replace(built, row=row, name=about["data"], reading=about["data_reading"])
    visits = f"{part}_visits"
    if _present(folder, visits):
        return _visited(rows, folder, visits)
    return rows


def _pairs(frame: Any, users: Vocabulary, items: Vocabulary, path: Path) -> tuple[Array, Array]:
    """Returns the user and the item of each line, as numbers."""
    user = _listed(users, _text(frame, "user", path), path)
    item = _listed(items, _text(frame, "item", path), path)
    return user, item


def _absent(folder: Path, users: Vocabulary) -> Array | None:
    """Returns the number of further held-out test rows of each user, int64 [users]; None without a
    file. Raises InputError for numbers that no export writes.
    """
    stem = "test_absent"
    if not _present(folder, stem):
        return None
    path = folder / stem
    frame = _load(folder, stem)
    user = _listed(users, _text(frame, "user", path), path)
    rows = _numbers(frame, "rows", path)
    # Evaluation loops over these numbers, so that a forged file is refused here.
    once = len(np.unique(user)) == len(user)
    if rows is None or not once or not ((rows >= 1) & (rows <= MOST_ABSENT)).all():
        expected = f"columns user and rows, each user once, 1 to {MOST_ABSENT:,}"
        raise InputError(str(path), "does not count rows", expected=expected)
    absent = np.zeros(len(users), np.int64)
    absent[user] = rows
    return absent


def _visited(rows: Interactions, folder: Path, stem: str) -> Interactions:
    """Returns the rows with the visits in a file."""
    path = folder / stem
    frame = _load(folder, stem)
    user, item = _pairs(frame, rows.users, rows.items, path)
    time = _numbers(frame, "time", path)
    row = _numbers(frame, "row", path)
    if time is None or row is None:
        raise InputError(
            str(path), "no column time or no column row", expected="columns user, item, time, row"
        )
    return with_visits(rows, VisitColumns(user, item, time, row), str(path))


def _listed(names: Vocabulary, ids: Array, path: Path) -> Array:
    """Returns the numbers of ids. Raises InputError for one that the split does not list."""
    indices = names.indices(ids.tolist())
    if len(indices) and indices.min() < 0:
        line = int(np.argmin(indices))
        # Lines count from 1, and the first one is the header.
        raise InputError(
            f"{path}:{line + 2}",
            f"{names.kind} '{ids[line]}' is not in the {names.kind}s file",
            fix="add it there",
        )
    return indices


def _candidates(folder: Path, stem: str) -> CandidateColumns | None:
    if not _present(folder, stem):
        return None
    frame = _load(folder, stem)
    columns = [_text(frame, name, folder / stem) for name in CandidateColumns._fields]
    return CandidateColumns(*columns)


def _text(frame: Any, name: str, path: Path) -> Array:
    """Returns a column of ids or features as text. Raises InputError for an empty id; a feature may
    be empty.
    """
    import polars as pl

    if name not in frame.columns:
        raise InputError(
            str(path),
            f"no column '{name}'",
            expected=f"'{name}'",
            fix=f"the columns are: {', '.join(frame.columns)[:200]}",
        )
    texts = frame[name].cast(pl.String).fill_null("")
    column: Array = texts.to_numpy()
    empty = np.flatnonzero(column == "")
    if name in CandidateColumns._fields and len(empty):
        line = empty[0] + 2
        raise InputError(f"{path}:{line}", f"the {name} is empty", expected="an id")
    return column


def _numbers(frame: Any, name: str, path: Path) -> Array | None:
    """Returns the column `value` (float32), or another one such as `row` (int64); `time` becomes
    microseconds, NO_TIME where it is missing. Returns None if there is no such column. Raises
    InputError for any other field that is not such a number.
    """
    import polars as pl

    if name not in frame.columns:
        return None
    column = frame[name]
    text = column.cast(pl.String).fill_null("").to_numpy()
    kind = pl.Float32 if name == "value" else pl.Int64
    missing = 0
    if name == "time":
        missing = NO_TIME
        # Exact, unlike a float: seconds with six decimals.
        column = column.cast(pl.String).cast(pl.Decimal(38, 6), strict=False) * SECOND
    number = column.cast(kind, strict=False)
    bad = number.is_null().to_numpy()
    if name == "time":
        # Only a time may be missing.
        bad &= text != ""
    number = number.fill_null(missing).to_numpy()
    if name == "value":
        bad |= ~np.isfinite(number)
    if bad.any():
        line = int(np.argmax(bad))
        expected = "an integer"
        if name in EXPECTED:
            expected = EXPECTED[name]
        problem = f"the {name} is '{text[line]}'"
        raise InputError(f"{path}:{line + 2}", problem, expected=expected)
    return number
