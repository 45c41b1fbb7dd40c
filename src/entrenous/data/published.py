"""`Published`: the rows of a data set that others held out, with their candidates. They are read
when a protocol asks for them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..core.errors import InputError
from ..core.types import Array
from .files import read_table
from .folders import pair
from .home import find
from .options import LoadOptions

# The table of NCF's test rows, without its ending.
NCF_TEST = "ncf_test"


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


def ncf(folder: Path, *, name: str, negatives: str = "") -> Published:
    """Returns NCF's test row of each user of the data set `name`, from the table `ncf_test`
    (user_id, item_id), and the candidates of each from the table `negatives` (user_id, item_ids: a
    list), if it is named. Raises InputError that says where to get them.
    """
    test = find(folder, NCF_TEST)
    listed = find(folder, negatives) if negatives else None
    if test is None or (negatives and listed is None):
        raise InputError(
            name,
            f"NCF's test rows are not in {folder}",
            expected=f"tables {NCF_TEST} (user_id, item_id) and {negatives or 'no other'}",
            fix=f"make them of github.com/hexiangnan/neural_collaborative_filtering Data/{name}.*"
            " (docs/data.md)",
        )
    where = str(test)
    frame = read_table(test, LoadOptions()).frame
    user = text_column(frame, "user_id", where)
    item = text_column(frame, "item_id", where)
    candidates = None
    if listed is not None:
        candidates = _lists(read_table(listed, LoadOptions()).frame, user, str(listed))
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
