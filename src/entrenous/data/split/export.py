"""A split as a folder of files that any program can read.

    split.json                     name, refit, weighting, notes, name of the data users, items
    external ids in index order; items with their features (title, category, ...) train, validation,
    test        user, item, value, time, row (its position in the source); validation only if there
    is one train_visits, ...              user, item, time, row: every visit, where a row stands for
    several (Interactions.visits) test_candidates, ...           user, item, candidate: what each
    held-out item is ranked against, if the protocol samples test_absent                    user,
    rows: how many more rows are held out, of items that are not in the catalogue (fpl-80-20)

All are CSV or all are Parquet; `split.read` brings them back. A spreadsheet takes a cell that
starts with = + - or @ for a formula, so in CSV such a text gets a leading ' (and one that starts
with ' and one of those gets one more, so that reading can undo it)."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ...core.cells import FORMULA
from ...core.errors import InputError
from ..interactions import NO_TIME, Interactions
from ..visits import visit_columns
from .given import CandidateColumns
from .types import Held, Split

Format = Literal["csv", "parquet"]
ABOUT = "split.json"
FEATURE = "feature:"  # what the columns of item features start with


def write(split: Split, folder: Path | str, *, format: Format = "csv") -> Path:
    """Writes the split into a new folder, all or nothing: a folder beside it is filled, then
    renamed.

    Raises InputError if the folder exists or cannot be made, or the format is unknown.
    """
    folder = Path(folder)
    if format not in ("csv", "parquet"):
        raise InputError("format", f"unknown format '{format}'", expected="csv or parquet")
    if folder.exists():
        raise InputError(
            str(folder),
            "it already exists",
            expected="a new folder",
            fix="choose another name or remove it",
        )
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    except OSError as problem:
        raise InputError(
            str(folder),
            f"cannot be made: {problem.strerror}",
            fix="choose a folder you may write to",
        ) from None
    try:
        _fill(temporary, split, format)
        temporary.chmod(0o755)
        os.rename(temporary, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return folder


def _fill(folder: Path, split: Split, format: Format) -> None:
    train = split.train
    own = {
        "name": split.name,
        "refit": split.refit,
        "weighting": split.weighting,
        "notes": split.notes,
    }
    about = {**own, "data": train.name, "data_notes": train.notes}
    (folder / ABOUT).write_text(json.dumps(about, indent=1, ensure_ascii=False))
    _save(folder / "users", {"user": train.users.ids}, format)
    features = {FEATURE + label: text for label, text in train.features.items()}
    _save(folder / "items", {"item": train.items.ids, **features}, format)
    _save_part(folder / "train", train, format)
    for part, held in (("validation", split.validation), ("test", split.test)):
        if held is not None:
            _save_part(folder / part, held.rows, format)
            if held.candidates is not None:
                _save(folder / f"{part}_candidates", _table(held)._asdict(), format)
            if held.absent is not None:
                who = np.flatnonzero(held.absent)
                _save(
                    folder / f"{part}_absent",
                    {"user": train.users.ids[who], "rows": held.absent[who]},
                    format,
                )


def _save_part(path: Path, rows: Interactions, format: Format) -> None:
    _save(path, _columns(rows), format)
    if (visits := visit_columns(rows)) is not None:
        ids = {"user": rows.users.ids[visits.user], "item": rows.items.ids[visits.item]}
        _save(
            path.with_name(f"{path.name}_visits"),
            {**ids, "time": visits.time, "row": visits.row},
            format,
        )


def _columns(rows: Interactions) -> dict[str, Any]:
    """The columns of a part, in the order of the source."""
    order = np.arange(len(rows)) if rows.row is None else np.argsort(rows.row, kind="stable")
    columns = {
        "user": rows.users.ids[rows.user[order]],
        "item": rows.items.ids[rows.item[order]],
        "value": rows.value[order],
    }
    if rows.time is not None:
        columns["time"] = rows.time[order]
    return columns if rows.row is None else {**columns, "row": rows.row[order]}


def _table(held: Held) -> CandidateColumns:
    assert held.candidates is not None
    at, column = np.nonzero(held.candidates >= 0)
    rows = held.rows
    return CandidateColumns(
        rows.users.ids[rows.user[at]],
        rows.items.ids[rows.item[at]],
        rows.items.ids[held.candidates[at, column]],
    )


def _save(path: Path, columns: dict[str, Any], format: Format) -> None:
    import polars as pl

    frame = pl.DataFrame(columns)
    if "time" in columns:
        frame = frame.with_columns(pl.when(pl.col("time") != NO_TIME).then(pl.col("time")))
    if format == "parquet":
        frame.write_parquet(path.with_suffix(".parquet"))
    else:
        frame.with_columns(pl.col(pl.String).str.replace(FORMULA, "'${1}")).write_csv(
            path.with_suffix(".csv")
        )
