"""`Published`: the rows of a data set that others held out, with their candidates. They are read
when a protocol asks for them.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..core.errors import InputError
from ..core.types import Array, Int64Array
from .files import read_bytes, read_table
from .folders import pair
from .home import find
from .options import LoadOptions

# (user,item), then its negatives. Nine digits fit in every integer.
LINE = re.compile(r"\((\d{1,9}),(\d{1,9})\)((?:\t\d{1,9})+)")


class Published(NamedTuple):
    """Held-out rows by external ids."""

    user: Array
    """The user of each row, text [m]."""
    item: Array
    """The item of each row, text [m]."""
    candidates: Array | None
    """The candidates of each row, text [m, k]; None if they were not published."""
    rows: int
    """The number of rows of the data set, held-out ones included."""
    source: str
    """The file, for errors."""


def from_tables(folder: Path, test: str, negatives: str | None = None) -> Published | None:
    """Returns published test rows from the table `test` (user_id, item_id) and, if named, their
    candidates from the table `negatives` (user_id, item_ids: a list). None if a table is absent.

    test, negatives: names without ending (see `home.find`). Raises InputError for a malformed
    table.
    """
    test_file = find(folder, test)
    if test_file is None:
        return None
    where = str(test_file)
    frame = read_table(test_file, LoadOptions()).frame
    user = text_column(frame, "user_id", where)
    item = text_column(frame, "item_id", where)
    candidates = None
    if negatives is not None:
        negatives_file = find(folder, negatives)
        if negatives_file is None:
            return None
        lists = read_table(negatives_file, LoadOptions()).frame
        candidates = _lists(lists, user, str(negatives_file))
    # Compared later with the data, to see that no filter was applied.
    rows = read_table(pair(folder).rows, LoadOptions()).frame.height
    return Published(user, item, candidates, rows, where)


def text_column(frame: Any, name: str, where: str) -> Array:
    """Returns a column of ids as text. Raises InputError if there is none."""
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
    """Returns the lists of `users`, in their order, text [m, k]. Raises InputError for other users,
    and for lists of different lengths.
    """
    listed = text_column(frame, "user_id", where).tolist()
    # Both tables have one line for each user, in any order.
    row_of = {user: row for row, user in enumerate(listed)}
    if len(row_of) != frame.height or row_of.keys() != set(users.tolist()):
        raise InputError(
            where,
            "its users are not those of the held-out rows",
            expected="one line for each of them",
        )
    table = list_column(frame, "item_ids", where, "the candidates of each user in a list")
    if table is None:
        raise InputError(
            where, "the lists of candidates differ in length", expected="as many for each user"
        )
    return table[[row_of[user] for user in users.tolist()]]


def list_column(frame: Any, name: str, where: str, expected: str) -> Array | None:
    """Returns a column of lists of ids, text [rows, k]; None if lists are empty or differ in
    length. Raises InputError if there is no such column.
    """
    import polars as pl

    if frame.schema.get(name) != pl.List:
        raise InputError(where, f"no column '{name}' of lists", expected=expected)
    lengths = frame[name].list.len().unique().to_list()
    if len(lengths) > 1 or lengths == [0]:
        return None
    ids = frame[name].explode().cast(pl.String).fill_null("")
    width = lengths[0] if lengths else 0
    return ids.to_numpy().astype(np.str_).reshape(frame.height, width)


class Numbered(NamedTuple):
    """The content of a `.test.negative` file of NCF, in the numbers of NCF."""

    user: Int64Array
    """The user of each row, int64 [m]."""
    item: Int64Array
    """The item of each row, int64 [m]."""
    candidates: Int64Array
    """The negatives of each row, int64 [m, k]."""


def read_negatives(path: Path) -> Numbered:
    """Returns the lines `(user,item)<tab>negative<tab>negative...` of an NCF file. Raises
    InputError with the first line of another form.
    """
    rows: list[list[int]] = []
    text = read_bytes(path).decode("ascii", "replace")
    for number, line in enumerate(text.split("\n"), start=1):
        line = line.strip(" \r\t")
        if not line:
            continue
        match = LINE.fullmatch(line)
        if match is not None:
            rows.append([int(part) for part in (match[1], match[2], *match[3].split())])
        if match is None or len(rows[-1]) != len(rows[0]):
            raise InputError(
                f"{path}:{number}",
                "not a line of held-out row and negatives",
                expected="(user,item) and as many negatives as on the first line, between tabs",
                fix="get it again",
            )
    if not rows:
        raise InputError(
            str(path), "there are no rows", expected="at least one row", fix="get it again"
        )
    table = np.array(rows, np.int64)
    return Numbered(table[:, 0], table[:, 1], table[:, 2:])
