"""Lists of items: each line has a user and then that user's items, as in the published splits of
graph recommenders (LightGCN, NGCF); or the number of items and then the items (CiteULike).
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from entrenous.core.errors import InputError
from entrenous.data.encoding import control_in, plain_text, refuse_long
from entrenous.data.files import Format, RawFile
from entrenous.data.options import LoadOptions
from entrenous.data.table import ColumnTable
from entrenous.data.times import FIRST

# Bytes in one line: a user may have a hundred thousand items.
LINE_LIMIT = 1 << 24
# Lines by which the format is recognised.
SAMPLE = 500
# Rows of a table have one length; if so many lines have it, the others are damaged.
MOST = 0.9
EXPECTED = "a user and then items, with blanks between them"


class Line(NamedTuple):
    """The line of one user."""

    number: int
    """Counted from 1."""
    user: str
    """The external id."""
    items: list[str]
    """External ids."""


def recognises(head: bytes, name: str) -> bool:
    """Returns True for lines of whole numbers of several lengths, each of another user."""
    lines = _numbers(head)
    if lines is None:
        return False
    widths = Counter(map(len, lines))
    # Lines of one length may be rows of a table.
    if len(widths) == 1:
        return False
    if _all_counted(lines):
        return True
    most, share = widths.most_common(1)[0]
    users = {line[0] for line in lines}
    # A damaged table of ratings ends in times.
    late = sum(float(line[-1]) >= FIRST for line in lines if len(line) == most)
    return len(users) == len(lines) and share <= MOST * len(lines) and late <= share / 2


def _numbers(head: bytes) -> list[list[bytes]] | None:
    """Returns the fields of the first lines; None if they are not all whole numbers."""
    present = [line.split() for line in head.split(b"\n", SAMPLE)[:-1] if line.strip()]
    if len(present) < 2 or not all(field.isdigit() for line in present for field in line):
        return None
    return present


def _all_counted(lines: Sequence[Sequence[bytes]]) -> bool:
    """Returns True if the first number of every line is the number of the others."""
    return all(int(line[0]) == len(line) - 1 for line in lines)


def read(file: RawFile, options: LoadOptions) -> ColumnTable:
    """Returns one row for each item of each user. Raises InputError if the first number of every
    line could be a count.
    """
    head = _numbers(file.content[: 1 << 16])
    if options.format is None and head is not None and _all_counted(head):
        raise InputError(
            f"{file.source}:1",
            "each line may begin with a user, or with the number of its items",
            expected="a format",
            fix="say which: --load format=item-lists (a user) or --load format=counted-item-lists"
            " (a number; the users are the lines, counted from 0)",
        )
    notes: list[str] = []
    text = plain_text(file.content, file.source, options.encoding, notes)
    return _table(_of_users(text, file.source), file.source, notes)


def read_counted(file: RawFile, options: LoadOptions) -> ColumnTable:
    """Returns one row for each item of each user, who is called by the number of the line, from 0.
    Raises InputError for a line whose first number is not that of its items.
    """
    notes = ["the users are the lines, counted from 0"]
    text = plain_text(file.content, file.source, options.encoding, notes)
    return _table(_counted(text, file.source), file.source, notes)


def _fields(text: bytes, source: str) -> Iterator[tuple[int, list[str]]]:
    """Yields the number of each line and its fields."""
    for number, raw in enumerate(io.BytesIO(text), start=1):
        where = f"{source}:{number}"
        if len(raw) > LINE_LIMIT:
            refuse_long(where, len(raw), LINE_LIMIT)
        line = raw.decode("utf-8")
        control = control_in(line)
        if control:
            raise InputError(where, control, expected=EXPECTED, fix="get the file again")
        yield number, line.split()


def _of_users(text: bytes, source: str) -> Iterator[Line]:
    for number, fields in _fields(text, source):
        if fields:
            yield Line(number, fields[0], fields[1:])


def _counted(text: bytes, source: str) -> Iterator[Line]:
    for number, fields in _fields(text, source):
        if not fields:
            raise InputError(f"{source}:{number}", "the line is blank", expected="0 or items")
        count, *items = fields
        if not count.isdigit() or int(count) != len(items):
            raise InputError(
                f"{source}:{number}",
                f"the line begins with {count[:20]} and has {len(items):,} items",
                expected="the number of the items, then the items",
                fix="mend the line, or say --load format=item-lists if it begins with a user",
            )
        yield Line(number, str(number - 1), items)


def _table(lines: Iterator[Line], source: str, notes: list[str]) -> ColumnTable:
    import polars as pl

    # One entry for each line with items, but one for each item in `items`.
    users = []
    items: list[str] = []
    counts = []
    numbers = []
    without = []
    for line in lines:
        if not line.items:
            without.append(line.number)
            continue
        users.append(line.user)
        items += line.items
        counts.append(len(line.items))
        numbers.append(line.number)
    if not items:
        raise InputError(source, "there are no items", expected=EXPECTED)
    # The user of each item.
    place = np.repeat(np.arange(len(users)), counts)
    notes.append(f"lines of a user and items: {len(users):,}, made {len(items):,} rows")
    if without:
        notes.append(
            f"users without items, who are left out: {len(without):,}; the first is at"
            f" {source}:{without[0]}"
        )
    frame = pl.DataFrame({"user_id": pl.Series(users).gather(place), "item_id": items})
    return ColumnTable(
        frame=frame, source=source, lines=np.array(numbers, np.int64)[place], notes=tuple(notes)
    )


FORMATS = {
    "item-lists": Format(
        "each line has a user and then that user's items (LightGCN, NGCF)", recognises, read
    ),
    # Recognised by no content: the first number of a line may as well be a user.
    "counted-item-lists": Format(
        "each line has the number of a user's items and then the items (CiteULike)",
        lambda head, name: False,
        read_counted,
    ),
}
