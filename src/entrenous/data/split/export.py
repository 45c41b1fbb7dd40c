"""A split as a folder of files that any program can read.

    split.json            name, refit, weighting, repeats, notes, name of the data, report of its
                          reading, types of ids that were whole numbers, the scale of ratings
    users, items          external ids in the order of their numbers; items with their features
                          (title, category, ...)
    train, validation,    user, item, value, time (seconds since 1970, with six decimals if any time
    test                  has a fraction), row (its place in the source); validation only if there
                          is one
    train_visits, ...     user, item, time, row: every visit, where a row stands for several
                          (Interactions.visits)
    test_candidates, ...  user, item, candidate: an item that a held-out item is ranked against, if
                          the protocol draws candidates
    test_absent           user, rows: the number of further held-out rows, of items that are not in
                          the catalogue (fpl-80-20)

All are CSV; `split.read` brings them back. A spreadsheet takes a cell that starts with = + - or @
for a formula, so such a text gets a leading ' (and a text that starts with ' and one of those gets
one more, so that reading can undo it).
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from ...core.cells import FORMULA
from ...core.errors import InputError
from ...core.types import Int32Array
from ..interactions import NO_TIME, SECOND, Interactions, whole_seconds
from ..table import refuse_without_threads
from ..visits import visit_columns
from .given import CandidateColumns
from .types import Held, Split

ABOUT = "split.json"
# The columns of item features start with it, so that a feature may be called `item`.
FEATURE = "feature:"


def write(split: Split, folder: Path | str) -> Path:
    """Writes the split into a new folder, whole or not at all: a temporary folder is filled, then
    renamed.

    Raises InputError if the folder exists or cannot be made.
    """
    folder = Path(folder)
    refuse_without_threads(str(folder), "write the split before the fork")
    if folder.exists():
        raise InputError(
            str(folder),
            "it already exists",
            expected="a new folder",
            fix="choose another name or remove it",
        )
    try:
        # In the same parent: only within one file system is renaming a single step.
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    except OSError as problem:
        raise InputError(
            str(folder),
            f"cannot be made: {problem.strerror}",
            fix="choose a folder you may write to",
        ) from None
    try:
        _fill(temporary, split)
        # Others may read it, as they may a folder that `mkdir` makes.
        temporary.chmod(0o755)
        os.rename(temporary, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return folder


def _fill(folder: Path, split: Split) -> None:
    train = split.train
    about = {
        "name": split.name,
        "refit": split.refit,
        "weighting": split.weighting,
        "repeats": split.test.repeats,
        "notes": split.notes,
        "data": train.name,
        "whole": [train.users.whole, train.items.whole],
        "scale": train.scale,
        "data_reading": train.reading.as_json(),
    }
    (folder / ABOUT).write_text(json.dumps(about, indent=1, ensure_ascii=False))
    # Ids in the order of their numbers: reading gives each the same number again.
    _save(folder / "users", {"user": train.users.ids})
    features = {FEATURE + label: text for label, text in train.features.items()}
    _save(folder / "items", {"item": train.items.ids, **features})
    _save_part(folder / "train", train)
    for part, held in (("validation", split.validation), ("test", split.test)):
        if held is not None:
            _save_held(folder, part, held)


def _save_held(folder: Path, part: str, held: Held) -> None:
    _save_part(folder / part, held.rows)
    if held.candidates is not None:
        candidates = _candidate_columns(held.rows, held.candidates)
        _save(folder / f"{part}_candidates", candidates._asdict())
    if held.absent is not None:
        users = np.flatnonzero(held.absent)
        # Users without such rows need no line.
        columns = {"user": held.rows.users.ids[users], "rows": held.absent[users]}
        _save(folder / f"{part}_absent", columns)


def _save_part(path: Path, rows: Interactions) -> None:
    _save(path, _columns(rows))
    visits = visit_columns(rows)
    if visits is not None:
        columns = {
            "user": rows.users.ids[visits.user],
            "item": rows.items.ids[visits.item],
            "time": visits.time,
            "row": visits.row,
        }
        _save(path.with_name(f"{path.name}_visits"), columns)


def _columns(rows: Interactions) -> dict[str, Any]:
    """Returns the columns of a part, in the order of the source."""
    order = np.arange(len(rows))
    if rows.row is not None:
        # As in the source, so that a person finds a row where it was.
        order = np.argsort(rows.row, kind="stable")
    columns = {
        "user": rows.users.ids[rows.user[order]],
        "item": rows.items.ids[rows.item[order]],
        "value": rows.value[order],
    }
    if rows.time is not None:
        columns["time"] = rows.time[order]
    if rows.row is not None:
        columns["row"] = rows.row[order]
    return columns


def _candidate_columns(rows: Interactions, candidates: Int32Array) -> CandidateColumns:
    """Returns one line for each candidate of each row. candidates: int32 [len(rows), k]; -1 is
    none.
    """
    # A row with fewer candidates than others has -1 in some places.
    row, column = np.nonzero(candidates >= 0)
    return CandidateColumns(
        rows.users.ids[rows.user[row]],
        rows.items.ids[rows.item[row]],
        rows.items.ids[candidates[row, column]],
    )


def _save(path: Path, columns: dict[str, Any]) -> None:
    """Writes columns as a file: times in seconds, an unknown time as an empty cell, and a text that
    looks like a formula behind a quote.
    """
    import polars as pl

    # An array of texts that is empty would have no type.
    texts = {
        name: pl.String for name, column in columns.items() if np.asarray(column).dtype == object
    }
    frame = pl.DataFrame(columns, schema_overrides=texts)
    if "time" in columns:
        time = pl.col("time")
        seconds = time // SECOND
        if not whole_seconds(columns["time"]):
            # As text, since a float is written with as many digits as it needs.
            fraction = (time % SECOND).cast(pl.String).str.zfill(6)
            seconds = seconds.cast(pl.String) + "." + fraction
        frame = frame.with_columns(pl.when(time != NO_TIME).then(seconds).alias("time"))
    quoted = pl.col(pl.String).str.replace(FORMULA, "'${1}")
    frame.with_columns(quoted).write_csv(path.with_suffix(".csv"))
