"""`Published`: the rows that others held out of a data set, with their candidates. Read when a
protocol asks for it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..core.errors import InputError
from ..core.types import Array, Int64Array
from .columns import Reading
from .files import read_bytes, read_table
from .folders import pair
from .home import find

# (user,item), then its negatives.
LINE = re.compile(r"\((\d{1,9}),(\d{1,9})\)((?:\t\d{1,9})+)")


class Published(NamedTuple):
    """Held-out rows by external ids."""

    user: Array
    """text [m]."""
    item: Array
    """text [m]."""
    candidates: Array | None
    """text [m, k], in the order of the rows; None if they were not published."""
    rows: int
    """The number of rows of the data set, held-out ones included."""
    source: str
    """The file, for errors."""


def from_tables(folder: Path, test: str, negatives: str | None = None) -> Published | None:
    """Read published test rows from the table `test` (user_id, item_id) and, if named, their
    negatives from the table `negatives` (user_id, item_ids: a list). None if a table is absent.

    test, negatives: names without ending (see `home.find`). Raises InputError for a malformed
    table."""
    paths = [find(folder, name) for name in (test, negatives) if name is not None]
    if None in paths:
        return None
    frames = [read_table(path, Reading()).frame for path in paths if path is not None]
    where = str(paths[0])
    user = text_column(frames[0], "user_id", where)
    item = text_column(frames[0], "item_id", where)
    candidates = None if negatives is None else _lists(frames[1], user, str(paths[1]))
    return Published(user, item, candidates, count_rows(folder), where)


def count_rows(folder: Path) -> int:
    """The number of rows in the interactions file of a folder."""
    return int(read_table(pair(folder).rows, Reading()).frame.height)


def text_column(frame: Any, name: str, where: str) -> Array:
    """A column of ids as text. Raises InputError if there is none."""
    import polars as pl

    if name not in frame.columns:
        raise InputError(
            where,
            f"no column '{name}'",
            expected=f"'{name}'",
            fix=f"the columns are: {', '.join(frame.columns)}",
        )
    return frame[name].cast(pl.String).fill_null("").to_numpy().astype(np.str_)


def _lists(frame: Any, users: Array, where: str) -> Array:
    """The lists of `users`, in their order, text [m, k]."""
    import polars as pl

    row_of = {user: row for row, user in enumerate(text_column(frame, "user_id", where))}
    if len(row_of) != frame.height or row_of.keys() != set(users.tolist()):
        raise InputError(
            where,
            "its users are not those of the held-out rows",
            expected="one line for each of them",
        )
    if frame.schema.get("item_ids") != pl.List:
        raise InputError(
            where,
            "no column 'item_ids' of lists",
            expected="the candidates of each user in a list",
        )
    lengths = frame["item_ids"].list.len().unique().to_list()
    if len(lengths) != 1 or not lengths[0]:
        raise InputError(
            where, "the lists of candidates differ in length", expected="as many for each user"
        )
    flat = frame["item_ids"].explode().cast(pl.String).fill_null("")
    table = flat.to_numpy().astype(np.str_).reshape(len(row_of), lengths[0])
    return table[[row_of[user] for user in users.tolist()]]


class Numbered(NamedTuple):
    """The content of a `.test.negative` file of NCF, in the numbers of NCF."""

    user: Int64Array
    """int64 [m]."""
    item: Int64Array
    """int64 [m]."""
    candidates: Int64Array
    """int64 [m, k]."""


def read_negatives(path: Path) -> Numbered:
    """The lines `(user,item)<tab>negative<tab>negative...` of NCF's files. Raises InputError with
    the first line of another form.
    """
    rows: list[list[int]] = []
    text = read_bytes(path).decode("ascii", "replace")
    for number, line in enumerate(text.split("\n"), start=1):
        match = LINE.fullmatch(line.strip(" \r\t"))
        if match is not None:
            rows.append([int(part) for part in (match[1], match[2], *match[3].split())])
        if (match is None and line.strip()) or (rows and len(rows[-1]) != len(rows[0])):
            expected = "(user,item) and as many negatives as on the first line, between tabs"
            raise InputError(
                f"{path}:{number}",
                "not a line of held-out row and negatives",
                expected=expected,
                fix="get it again",
            )
    if not rows:
        raise InputError(
            str(path), "there are no rows", expected="at least one row", fix="get it again"
        )
    table = np.array(rows, np.int64)
    return Numbered(table[:, 0], table[:, 1], table[:, 2:])
