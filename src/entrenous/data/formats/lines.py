"""The check of every line of a text file: its length, columns and quotes. What passes it can be
split without an error.
"""

from __future__ import annotations

from typing import NamedTuple, NoReturn

import numpy as np

from ...core.errors import InputError
from ...core.types import Array, Int64Array
from ..encoding import CLEAN, control_in, refuse_long
from ..reading import LeftOut, add_up
from .layout import DELIMITERS, LINE_LIMIT, UNIT, Layout, name_of, split_line

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


class Checked(NamedTuple):
    """The lines of a text that can be split."""

    text: bytes
    """These lines, without blank ones."""
    skipped: Int64Array
    """The numbers of the other lines, ascending, int64 [lines]."""
    blank: int
    """The number of blank lines among them."""
    left_out: tuple[LeftOut, ...]
    """The lines that cannot be split, by reason."""


class Faults(NamedTuple):
    """The lines of a block that cannot be split, int64 [lines] by reason."""

    open: Int64Array
    """Those in which a quoted field does not end."""
    stray: Int64Array
    """Those with a quote inside a field."""
    wide: Int64Array
    """Those with another number of columns."""

    @property
    def lines(self) -> Int64Array:
        """All of them, ascending."""
        return np.unique(np.concatenate(self))


REASONS = (
    "a quoted field does not end in its line",
    "a quote inside a field",
    "the line has another number of columns",
)


def check_lines(
    text: bytes, layout: Layout, source: str, first: int, *, whole: bool, drop: bool
) -> Checked:
    """Checks the columns and quotes of every line.

    first: the number of the first line in the file. whole: False if the file may have been cut off.
    drop: True leaves out the lines that cannot be split. Raises InputError for the first of them
    otherwise, and always for a last line that was cut off.
    """
    pieces: list[bytes | memoryview] = []
    skipped = []
    blank = 0
    left_out: list[LeftOut] = []
    start = 0
    # Blocks bound the memory: the arrays of a block are many times its size.
    while start < len(text):
        end = text.rfind(b"\n", start, start + BLOCK) + 1
        if end == 0:
            refuse_long(f"{source}:{first}", text.index(b"\n", start) - start, LINE_LIMIT)
        content = np.frombuffer(text, np.uint8, end - start, start)
        block = Block(content, np.flatnonzero(content == ord("\n")), source, first)
        width = np.diff(block.newline, prepend=-1) - 1
        faults = _faults(block, width, layout)
        bad = faults.lines
        long = np.flatnonzero(width > LINE_LIMIT)
        # The first line that is wrong is named, and no error decodes a huge line.
        if len(long) and (drop or not len(bad) or long[0] <= bad[0]):
            refuse_long(block.where(long[0]), int(width[long[0]]), LINE_LIMIT)
        cut = not whole and end == len(text) and len(bad) > 0 and bad[-1] == len(width) - 1
        if len(bad) and (cut or not drop):
            # Where lines are left out, only a last one that was cut off is an error.
            line = int(bad[-1] if drop else bad[0])
            _refuse(block, line, faults, width, layout, cut and line == bad[-1])
        empty = np.flatnonzero(width == 0)
        blank += len(empty)
        others = np.union1d(bad, empty)
        skipped.append(first + others)
        pieces.append(_without(block, width, others))
        left_out += [
            LeftOut(reason, len(lines), block.where(int(lines[0])))
            for reason, lines in zip(REASONS, faults, strict=True)
            if len(lines)
        ]
        start = end
        first += len(width)
    numbers = np.concatenate(skipped)
    # Most files have nothing to leave out, and need no copy.
    rest = b"".join(pieces) if len(numbers) else text
    return Checked(rest, numbers, blank, add_up(left_out))


def _without(block: Block, width: Int64Array, lines: Int64Array) -> bytes | memoryview:
    """Returns the bytes of a block without some lines; a view of all if there are none."""
    if not len(lines):
        return block.content.data
    keep = np.ones(len(width), np.bool_)
    keep[lines] = False
    return block.content[np.repeat(keep, width + 1)].tobytes()


def _faults(block: Block, width: Int64Array, layout: Layout) -> Faults:
    """Returns the lines of a block that cannot be split; a line has one fault. width: bytes in each
    line.
    """
    delimiter = np.flatnonzero(block.content == layout.byte)
    never_closed = stray = np.empty(0, np.int64)
    if layout.quoted:
        quote = np.flatnonzero(block.content == ord('"'))
        never_closed, stray, quote = _quote_faults(block, quote, layout.byte)
        # A delimiter after an odd number of quotes stands inside a field.
        quotes_before = np.searchsorted(quote, delimiter)
        delimiter = delimiter[quotes_before % 2 == 0]
    delimiters_before = np.searchsorted(delimiter, block.newline)
    columns = np.diff(delimiters_before, prepend=0) + 1
    wrong = (columns != layout.width) & (width > 0)
    wrong[never_closed] = False
    wrong[stray] = False
    return Faults(never_closed, stray, np.flatnonzero(wrong))


def _quote_faults(
    block: Block, quote: Int64Array, byte: int
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Returns the lines in which a quoted field does not end, those with a quote inside a field,
    and the quotes of all other lines. quote: the positions of all quotes. byte: the one between two
    fields.
    """
    line = np.searchsorted(block.newline, quote)
    count = np.bincount(line, minlength=len(block.newline))
    never_closed = np.flatnonzero(count % 2)
    paired = count[line] % 2 == 0
    quote = quote[paired]
    line = line[paired]
    # A quote is doubled inside a field, so that one may also stand next to another one.
    edges = (ord("\n"), byte, ord('"'))
    opening = quote[0::2]
    closing = quote[1::2]
    # Before the first byte of a block a line ended.
    before = np.where(opening > 0, block.content[opening - 1], ord("\n"))
    after = block.content[closing + 1]
    inside = ~(np.isin(before, edges) & np.isin(after, edges))
    stray = np.unique(line[0::2][inside])
    return never_closed, stray, quote[~np.isin(line, stray)]


def _refuse(
    block: Block, line: int, faults: Faults, width: Int64Array, layout: Layout, cut_off: bool
) -> NoReturn:
    """Refuses a line that cannot be split. cut_off: True if the file seems to end in it."""
    where = block.where(line)
    drop = "or leave it out: bad_rows='drop' (--load bad_rows=drop)"
    if line in faults.open:
        raise InputError(
            where,
            REASONS[0],
            expected="rows of one line",
            fix=f"keep each row in one line and double a quote inside a field; {drop}",
        )
    if line in faults.stray:
        raise InputError(
            where,
            REASONS[1],
            expected="quotes around the whole field, doubled inside",
            fix=f"quote the field; {drop}",
        )
    end = block.newline[line]
    content = block.content[end - width[line] : end].tobytes()
    _refuse_columns(where, content, layout, cut_off, drop)


def _refuse_columns(
    where: str, content: bytes, layout: Layout, cut_off: bool, drop: str
) -> NoReturn:
    line = content.decode("utf-8").replace(chr(UNIT), "::") if layout.byte == UNIT else ""
    line = line or content.decode("utf-8")
    control = control_in(line)
    if control:
        raise InputError(where, control, expected="plain text", fix=CLEAN)
    wanted = layout.width
    columns = len(split_line(line, layout.delimiter, layout.quoted))
    # Not `::`, nor a blank, which stands in many fields.
    others = [other for other in DELIMITERS[1:5] if other != layout.delimiter and other in line]
    if cut_off and columns < wanted:
        fix = "the last line has no line end: the file seems cut off; get it again"
    elif columns < wanted and others:
        fix = f"the line holds {name_of(others[0])}: use one delimiter throughout; {drop}"
    elif columns > wanted and layout.delimiter == ",":
        fix = f"put a field that holds a comma in quotes, and write decimals with a point; {drop}"
    else:
        fix = f"complete the line or remove it; {drop}"
    if layout.guessed and layout.delimiter in (" ", "\t"):
        fix += "; if each line has a user and then items: --load format=item-lists"
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
        never_closed, stray, _ = _quote_faults(Block(content, newline, "", 0), quote, byte)
        if len(never_closed) or len(stray):
            return False
        start = end
    return True
