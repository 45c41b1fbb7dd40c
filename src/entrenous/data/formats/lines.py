"""The check of every line of a text file: its length, columns and quotes. What passes it can be
split without an error.
"""

from __future__ import annotations

from typing import NamedTuple, NoReturn

import numpy as np

from ...core.errors import InputError
from ...core.types import Array, Int64Array
from ..encoding import CLEAN, control_in, refuse_long
from .layout import DELIMITERS, LINE_LIMIT, Layout, name_of

# Bytes checked at a time.
BLOCK = 1 << 24


class Block(NamedTuple):
    """Some whole lines of a text."""

    content: Array
    """uint8 [bytes]."""
    newline: Int64Array
    """The positions of the line ends, int64 [lines]."""
    source: str
    """The file, for errors."""
    first: int
    """The number of the first line in the file."""

    def where(self, line: int) -> str:
        """Returns `file:line` of a line of this block, counted from 0."""
        return f"{self.source}:{self.first + line}"


def check_lines(text: bytes, layout: Layout, source: str, first: int, whole: bool) -> list[int]:
    """Checks the columns and quotes of every line, and returns the numbers of the blank lines.

    first: the number of the first line in the file. whole: False if the file may have been cut off.
    """
    blank: list[int] = []
    start = 0
    # Blocks bound the memory: the arrays of a block are many times its size.
    while start < len(text):
        end = text.rfind(b"\n", start, start + BLOCK) + 1
        if end == 0:
            refuse_long(f"{source}:{first}", text.index(b"\n", start) - start, LINE_LIMIT)
        content = np.frombuffer(text, np.uint8, end - start, start)
        newline = np.flatnonzero(content == ord("\n"))
        block = Block(content, newline, source, first)
        width = np.diff(newline, prepend=-1) - 1
        _check_block(block, width, layout, whole or end < len(text))
        blank += (first + np.flatnonzero(width == 0)).tolist()
        start = end
        first += len(newline)
    return blank


def _check_block(block: Block, width: Int64Array, layout: Layout, whole: bool) -> None:
    """Checks the lines of a block. width: bytes in each line. whole: False if its last line may
    have been cut off.
    """
    # First, so that no error below has to decode a huge line.
    long = np.flatnonzero(width > LINE_LIMIT)
    if len(long):
        refuse_long(block.where(long[0]), int(width[long[0]]), LINE_LIMIT)
    delimiter = np.flatnonzero(block.content == layout.byte)
    if layout.quoted:
        quote = np.flatnonzero(block.content == ord('"'))
        _check_quotes(block, quote, layout.byte)
        # A delimiter after an odd number of quotes stands inside a field.
        quotes_before = np.searchsorted(quote, delimiter)
        delimiter = delimiter[quotes_before % 2 == 0]
    delimiters_before = np.searchsorted(delimiter, block.newline)
    columns = np.diff(delimiters_before, prepend=0) + 1
    wrong = np.flatnonzero((columns != layout.width) & (width > 0))
    if len(wrong):
        line = int(wrong[0])
        end = block.newline[line]
        content = block.content[end - width[line] : end].tobytes().decode("utf-8")
        # Only the last line of the last block can have been cut off.
        cut_off = not whole and line == len(block.newline) - 1
        _refuse_columns(block.where(line), content, int(columns[line]), layout, cut_off)


def _check_quotes(block: Block, quote: Int64Array, byte: int) -> None:
    """Checks that quotes open at the start of a field and close at its end, in the same line.
    quote: the positions of all quotes. byte: the one between two fields.
    """
    quotes_before = np.searchsorted(quote, block.newline)
    odd = np.flatnonzero(np.diff(quotes_before, prepend=0) % 2)
    if len(odd):
        raise InputError(
            block.where(odd[0]),
            "a quoted field does not end in its line",
            expected="rows of one line",
            fix="keep each row in one line and double a quote inside a field",
        )
    # A quote is doubled inside a field, so that one may also stand next to another one.
    edges = (ord("\n"), byte, ord('"'))
    opening = quote[0::2]
    closing = quote[1::2]
    # Before the first byte of a block a line ended.
    before = np.concatenate([[ord("\n")], block.content[:-1]])[opening]
    after = block.content[closing + 1]
    stray = np.flatnonzero(~(np.isin(before, edges) & np.isin(after, edges)))
    if len(stray):
        line = np.searchsorted(block.newline, opening[stray[0]])
        raise InputError(
            block.where(int(line)),
            "a quote inside a field",
            expected="quotes around the whole field, doubled inside",
            fix="quote the field",
        )


def _refuse_columns(where: str, line: str, columns: int, layout: Layout, cut_off: bool) -> NoReturn:
    control = control_in(line)
    if control:
        raise InputError(where, control, expected="plain text", fix=CLEAN)
    wanted = layout.width
    # Not `::`, which was replaced, nor a blank, which stands in many fields.
    others = [other for other in DELIMITERS[1:5] if other != layout.delimiter and other in line]
    if cut_off and columns < wanted:
        fix = "the last line has no line end: the file seems cut off; get it again"
    elif columns < wanted and others:
        fix = f"the line holds {name_of(others[0])}: use one delimiter throughout"
    elif columns > wanted and layout.delimiter == ",":
        fix = "put a field that holds a comma in quotes, and write decimals with a point"
    else:
        fix = "complete the line or remove it"
    plural = "" if columns == 1 else "s"
    names = ", ".join(layout.names[:6])
    raise InputError(where, f"{columns} column{plural}", expected=f"{wanted} ({names})", fix=fix)


def tidy_quotes(text: bytes, byte: int) -> bool:
    """Returns True if every quote in the lines of a text encloses a whole field, or is doubled
    inside such a field. byte: the one between two fields.
    """
    start = 0
    while start < len(text):
        end = text.rfind(b"\n", start, start + BLOCK) + 1
        if end == 0:
            # The check of every line refuses so long a line.
            return False
        content = np.frombuffer(text, np.uint8, end - start, start)
        newline = np.flatnonzero(content == ord("\n"))
        quote = np.flatnonzero(content == ord('"'))
        try:
            _check_quotes(Block(content, newline, "", 0), quote, byte)
        except InputError:
            return False
        start = end
    return True
