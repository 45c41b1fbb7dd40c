"""`Published`: the rows that others held out of a data set, and what they ranked them against. Read
when a protocol asks for it.
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

LINE = re.compile(r"\((\d{1,9}),(\d{1,9})\)((?:\t\d{1,9})+)")  # (user,item), then its negatives


class Published(NamedTuple):
    """Held-out rows by external ids.

    user, item: text [m]. candidates: text [m, k], in the order of the rows; None where they are not
    to be had. rows: how many rows the data set has, held-out ones included. source: the file, for
    errors."""

    user: Array
    item: Array
    candidates: Array | None
    rows: int
    source: str


def from_tables(folder: Path, test: str, negatives: str | None = None) -> Published | None:
    """Read published test rows from the table `test` (user_id, item_id) and, if named, their
    negatives from the table `negatives` (user_id, item_ids: a list). None if a table is absent.

    test, negatives: names without ending (see `home.find`). Raises InputError for a malformed
    table."""
    paths = [find(folder, name) for name in (test, negatives) if name is not None]
    if None in paths:
        return None
    frames = [read_table(path, Reading()).frame for path in paths if path is not None]
    user, item = _column(frames[0], "user_id", paths[0]), _column(frames[0], "item_id", paths[0])
    candidates = _lists(frames[1], user, paths[1]) if negatives is not None else None
    return Published(user, item, candidates, count_rows(folder), str(paths[0]))


def count_rows(folder: Path) -> int:
    """The number of rows in the interactions file of a folder."""
    return int(read_table(pair(folder).rows, Reading()).frame.height)


def _column(frame: Any, name: str, path: Path | None) -> Array:
    """A column of ids as text."""
    import polars as pl

    if name not in frame.columns:
        raise InputError(
            str(path),
            f"no column '{name}'",
            expected=f"'{name}'",
            fix=f"the columns are: {', '.join(frame.columns)}",
        )
    return frame[name].cast(pl.String).fill_null("").to_numpy().astype(np.str_)


def _lists(frame: Any, users: Array, path: Path | None) -> Array:
    """The lists of `users`, in their order, text [m, k]."""
    import polars as pl

    found = {user: row for row, user in enumerate(_column(frame, "user_id", path))}
    if len(found) != frame.height or found.keys() != set(users.tolist()):
        raise InputError(
            str(path),
            "its users are not those of the held-out rows",
            expected="one line for each of them",
        )
    if frame.schema.get("item_ids") != pl.List:
        raise InputError(
            str(path),
            "no column 'item_ids' of lists",
            expected="the candidates of each user in a list",
        )
    lists, lengths = frame["item_ids"], frame["item_ids"].list.len().unique().to_list()
    if len(lengths) != 1 or not lengths[0]:
        raise InputError(
            str(path), "the lists of candidates differ in length", expected="as many for each user"
        )
    table = (
        lists.explode()
        .cast(pl.String)
        .fill_null("")
        .to_numpy()
        .astype(np.str_)
        .reshape(len(found), lengths[0])
    )
    return table[[found[user] for user in users.tolist()]]


class Numbered(NamedTuple):
    """The content of a `.test.negative` file of NCF, in NCF's own numbers: user, item int64 [m];
    candidates int64 [m, k].
    """

    user: Int64Array
    item: Int64Array
    candidates: Int64Array


def read_negatives(path: Path) -> Numbered:
    """The lines `(user,item)<tab>negative<tab>negative...` of NCF's files. Raises InputError with
    the line that is none.
    """
    rows: list[list[int]] = []
    for number, line in enumerate(read_bytes(path).decode("ascii", "replace").split("\n"), start=1):
        found = LINE.fullmatch(line.strip(" \r\t"))
        if found is not None:
            rows.append([int(part) for part in (found[1], found[2], *found[3].split())])
        if (found is None and line.strip()) or (rows and len(rows[-1]) != len(rows[0])):
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
