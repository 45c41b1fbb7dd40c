"""Netflix's blocks: a line `1:` begins the rows of item 1, each `user,rating,date`; the file of
questions has `user,date`.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from ...core.errors import InputError
from ...core.types import BoolArray, Int64Array
from ..encoding import plain_text
from ..files import Format, RawFile, first_lines
from ..options import LoadOptions
from ..table import ColumnTable
from .delimited import read_text

BLOCK = re.compile(rb"\d{1,19}:")
ROW = re.compile(rb"\d{1,19}(,\d(\.\d+)?)?(,\d{4}-\d\d-\d\d)?")
# The columns by their number.
NAMES = {2: ("user_id", "timestamp"), 3: ("user_id", "rating", "timestamp")}
EXPECTED = "a line such as 1: and then lines such as 1488844,3,2005-09-06"


def recognises(head: bytes, name: str) -> bool:
    """Returns True if the first line begins a block and the second is a row or a block."""
    lines = [line.strip() for line in first_lines(head, 2)]
    if len(lines) < 2 or BLOCK.fullmatch(lines[0]) is None:
        return False
    return ROW.fullmatch(lines[1]) is not None or BLOCK.fullmatch(lines[1]) is not None


def read(file: RawFile, options: LoadOptions) -> ColumnTable:
    """Returns the rows of all blocks with the columns item_id, user_id, rating and timestamp.
    Raises InputError with the line of the first defect.
    """
    import polars as pl

    notes: list[str] = []
    text = plain_text(file.content, file.source, options.encoding, notes).rstrip(b" \n") + b"\n"
    content = np.frombuffer(text, np.uint8)
    ends = np.flatnonzero(content == ord("\n"))
    # Only the line that begins a block ends in a colon.
    begins = content[np.maximum(ends - 1, 0)] == ord(":")
    items, rows = _apart(text, ends, begins, file.source)
    width = rows.lstrip(b"\n").partition(b"\n")[0].count(b",") + 1
    if not items or width not in NAMES:
        raise InputError(
            file.source, "there are no blocks with rows", expected=EXPECTED, fix="check the file"
        )
    reading = LoadOptions(names=NAMES[width], delimiter=",")
    table = read_text(rows, file.source, reading)
    # The block of each row, from the number of blocks that began before it.
    filled = np.diff(ends, prepend=-1) > 1
    block = (np.cumsum(begins) - 1)[filled & ~begins]
    if block[0] < 0:
        raise InputError(table.where(0), "the row stands before the first block", expected=EXPECTED)
    column = pl.Series("item_id", items).gather(block)
    note = f"blocks of rows, each of one item: {len(items):,}"
    # The blank lines are those that begin a block.
    others = [said for said in table.notes if not said.startswith("blank lines")]
    frame = table.frame.insert_column(0, column)
    return replace(table, frame=frame, notes=(*notes, *others, note))


def _apart(
    text: bytes, ends: Int64Array, begins: BoolArray, source: str
) -> tuple[list[str], bytes]:
    """Returns the items of the blocks, and the text with a blank line where a block begins, so that
    all lines keep their numbers. ends: the positions of the line ends, int64 [lines]. begins: True
    where a line begins a block, bool [lines].
    """
    items = []
    pieces = []
    place = 0
    for line in np.flatnonzero(begins).tolist():
        end = int(ends[line])
        first = 0
        if line:
            first = int(ends[line - 1]) + 1
        block = text[first:end]
        if BLOCK.fullmatch(block) is None:
            raise InputError(
                f"{source}:{line + 1}",
                f"'{block[:40].decode('utf-8', 'replace')}' begins no block",
                expected=EXPECTED,
                fix="mend the line",
            )
        # The line end stays, so that a blank line is left.
        items.append(block[:-1].decode("ascii"))
        pieces.append(text[place:first])
        place = end
    pieces.append(text[place:])
    return items, b"".join(pieces)


FORMATS = {
    "netflix-blocks": Format(
        "blocks of Netflix: a line 1: and below it the rows user,rating,date of item 1",
        recognises,
        read,
    )
}
