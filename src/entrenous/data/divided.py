"""`Divided`: a whole division of a data set that others published, rows to train on as well. Read
when a protocol asks for it.

A data set keeps it in two tables: one line for each row with the part it is in, and one for each
held-out row with its negatives.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..core.errors import InputError
from ..core.types import Array
from .columns import Reading
from .files import read_table
from .home import find

PARTS = ("train", "test", "validation")
ROWS, NEGATIVES = "pepper_splits", "pepper_negatives"
LIST = "negative_item_ids"


class HeldOutNegatives(NamedTuple):
    """The held-out rows of one part with their negatives: user, item text [m]; candidates text [m,
    k], in the published order.
    """

    user: Array
    item: Array
    candidates: Array


class Divided(NamedTuple):
    """A division by external ids, in the published order.

    user, item, part: text [n], the part one of PARTS; a row may occur more than once. against: of
    "validation" and "test". tabled: to how many users, the first, their published tables belong.
    lacking: how many rows the data set may lack, at most. source: the file, for errors.
    """

    user: Array
    item: Array
    part: Array
    against: dict[str, HeldOutNegatives]
    tabled: int
    lacking: int
    source: str


class Frames(NamedTuple):
    """The two tables, polars DataFrames. rows: user_id, item_id, split. negatives: split, user_id,
    item_id, negative_item_ids.
    """

    rows: Any
    negatives: Any


def present(folder: Path) -> bool:
    """Whether a folder has both tables of a published division into training and test rows."""
    return all(find(folder, stem) is not None for stem in (ROWS, NEGATIVES))


def read_frames(folder: Path, name: str) -> Frames:
    """PEPPER's tables in the folder of the data set `name`. Raises InputError that says what is
    missing and where it comes from.
    """
    paths = [find(folder, stem) for stem in (ROWS, NEGATIVES)]
    if paths[0] is None or paths[1] is None:
        expected = (
            f"{ROWS} (user_id, item_id, split) and {NEGATIVES} (split, user_id, item_id, {LIST}),"
            " both .parquet"
        )
        fix = (
            "make them of the files in github.com/YacineBelal/PEPPER (branch TensorFlow), or use"
            " pepper-85-15"
        )
        raise InputError(name, f"PEPPER's parts are not in {folder}", expected=expected, fix=fix)
    return Frames(*(read_table(path, Reading()).frame for path in paths if path is not None))


def pepper(folder: Path, name: str, *, tabled: int) -> Divided:
    """Read the training, weighting and test rows that PEPPER's authors published of the data set
    `name`. tabled: how many users the paper's tables are about."""
    return divided(read_frames(folder, name), folder, tabled=tabled)


def divided(frames: Frames, folder: Path, *, tabled: int, lacking: int = 0) -> Divided:
    """The Divided in two tables. Raises InputError for a missing column, an unknown part, or lists
    that are not as they should be.
    """
    rows, negatives = str(folder / ROWS), str(folder / NEGATIVES)
    user, item, part = (
        _texts(frames.rows, column, rows) for column in ("user_id", "item_id", "split")
    )
    strange = np.flatnonzero(~np.isin(part, PARTS))
    if len(strange):
        raise InputError(
            f"{rows}:row {strange[0]}",
            f"the part is '{part[strange[0]]}'",
            expected=f"one of {', '.join(PARTS)}",
        )
    against = {label: _against(frames.negatives, label, negatives) for label in PARTS[1:]}
    return Divided(user, item, part, against, tabled, lacking, rows)


def _texts(frame: Any, column: str, where: str) -> Array:
    import polars as pl

    if column not in frame.columns:
        raise InputError(
            where,
            f"no column '{column}'",
            expected=f"'{column}'",
            fix=f"the columns are: {', '.join(frame.columns)}",
        )
    return frame[column].cast(pl.String).fill_null("").to_numpy().astype(np.str_)


def _against(frame: Any, label: str, where: str) -> HeldOutNegatives:
    """The rows of one part; every list has the same length."""
    import polars as pl

    if frame.schema.get(LIST) != pl.List:
        raise InputError(
            where,
            f"no column '{LIST}' of lists",
            expected="the negatives of each held-out row in a list",
        )
    own = frame.filter(pl.Series(_texts(frame, "split", where)) == label)
    lengths = own[LIST].list.len().unique().to_list()
    if len(lengths) > 1 or lengths == [0]:
        raise InputError(
            where,
            f"the lists of {label} rows differ in length",
            expected="as many negatives for each row",
        )
    flat = own[LIST].explode().cast(pl.String).fill_null("").to_numpy().astype(np.str_)
    return HeldOutNegatives(
        _texts(own, "user_id", where),
        _texts(own, "item_id", where),
        flat.reshape(own.height, *lengths or (0,)),
    )
