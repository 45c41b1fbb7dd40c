"""`Divided`: a whole division of a data set that others published, training rows included. It is
read when a protocol asks for it.

A data set keeps it in two tables: one line for each row with the part it is in, and one for each
held-out row with its negatives.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..core.errors import InputError
from ..core.types import Array
from .files import read_table
from .home import find
from .options import LoadOptions
from .published import list_column, text_column

PARTS = ("train", "test", "validation")
ROWS = "pepper_splits"
NEGATIVES = "pepper_negatives"
LIST = "negative_item_ids"


class HeldOutNegatives(NamedTuple):
    """The held-out rows of one part with their negatives, in the published order."""

    user: Array
    """The user of each row, text [m]."""
    item: Array
    """The item of each row, text [m]."""
    candidates: Array
    """The negatives of each row, text [m, k]."""


class Divided(NamedTuple):
    """A division by external ids, in the published order. A row may occur more than once."""

    user: Array
    """The user of each row, text [n]."""
    item: Array
    """The item of each row, text [n]."""
    part: Array
    """The part of each row, text [n]; one of PARTS."""
    against: dict[str, HeldOutNegatives]
    """The negatives of the parts "validation" and "test"."""
    tabled: int
    """The number of users in the authors' tables of results: the first ones."""
    lacking: int
    """The largest number of rows that the data set may lack."""
    source: str
    """The file, for errors."""


class Frames(NamedTuple):
    """The two tables, polars DataFrames."""

    rows: Any
    """Columns user_id, item_id, split."""
    negatives: Any
    """Columns split, user_id, item_id, negative_item_ids."""


def present(folder: Path) -> bool:
    """Returns True if a folder has both tables of a published division."""
    return all(find(folder, stem) is not None for stem in (ROWS, NEGATIVES))


def read_frames(folder: Path, name: str) -> Frames:
    """Returns PEPPER's tables in the folder of the data set `name`. Raises InputError that names
    the tables and their origin if one is missing.
    """
    rows = find(folder, ROWS)
    negatives = find(folder, NEGATIVES)
    if rows is None or negatives is None:
        raise InputError(
            name,
            f"PEPPER's parts are not in {folder}",
            expected=f"{ROWS} (user_id, item_id, split) and {NEGATIVES} (split, user_id, item_id,"
            f" {LIST}), both .parquet",
            fix="make them of the files in github.com/YacineBelal/PEPPER (branch TensorFlow), or"
            " use pepper-85-15",
        )
    return Frames(read_table(rows, LoadOptions()).frame, read_table(negatives, LoadOptions()).frame)


def pepper(folder: Path, name: str, *, tabled: int) -> Divided:
    """Returns the training, weighting and test rows that PEPPER's authors published of the data set
    `name`. tabled: the number of users in the paper's tables.
    """
    return divided(read_frames(folder, name), folder, tabled=tabled)


def divided(frames: Frames, folder: Path, *, tabled: int, lacking: int = 0) -> Divided:
    """Returns the `Divided` in two tables. Raises InputError for a missing column, an unknown part,
    and lists of different lengths.
    """
    rows = str(folder / ROWS)
    user = text_column(frames.rows, "user_id", rows)
    item = text_column(frames.rows, "item_id", rows)
    part = text_column(frames.rows, "split", rows)
    # The names of the parts decide what is trained on.
    unknown = np.flatnonzero(~np.isin(part, PARTS))
    if len(unknown):
        row = unknown[0]
        raise InputError(
            f"{rows}:row {row}",
            f"the part is '{part[row]}'",
            expected=f"one of {', '.join(PARTS)}",
        )
    negatives = str(folder / NEGATIVES)
    against = {label: _against(frames.negatives, label, negatives) for label in PARTS[1:]}
    return Divided(user, item, part, against, tabled, lacking, rows)


def _against(frame: Any, label: str, where: str) -> HeldOutNegatives:
    """Returns the held-out rows of one part. Raises InputError if their lists are empty or differ
    in length.
    """
    part = text_column(frame, "split", where)
    rows = frame.filter(part == label)
    expected = "the negatives of each held-out row in a list"
    candidates = list_column(rows, LIST, where, expected)
    if candidates is None:
        raise InputError(
            where,
            f"the lists of {label} rows differ in length",
            expected="as many negatives for each row",
        )
    user = text_column(rows, "user_id", where)
    item = text_column(rows, "item_id", where)
    return HeldOutNegatives(user, item, candidates)
