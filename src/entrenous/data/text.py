"""Text tables (CSV, TSV, RecBole, MovieLens `::`) to a Table of text columns.

Every record is one physical line, so that a defect has a line number. The bytes are checked as a
whole first (encoding, control characters, line ends, columns per line, quotes); polars then does
the splitting, which cannot fail any more."""

from __future__ import annotations

import csv
import re
from typing import NamedTuple, NoReturn

import numpy as np

from ..core.errors import InputError
from ..core.types import Array, Int64Array
from .columns import Reading, is_header, is_number, positional, typed_names
from .encoding import plain_text
from .table import ColumnTable

LINE_LIMIT = 65_536  # bytes in one line
BLOCK = 1 << 24  # bytes checked at a time
DELIMITERS = ("::", "\t", ",", ";", "|", " ")
NAMES = {"\t": "a tab", " ": "a blank"}
UNIT = 0x1F  # stands in for `::`, which is two bytes; control characters are refused before


class Layout(NamedTuple):
    """How the lines of a text file are split into fields: `byte` separates `names`; `quoted` if
    fields may be in quotes.
    """

    delimiter: str
    byte: int
    names: list[str]
    types: dict[str, str]
    header: bool
    quoted: bool


def read_text(
    raw: bytes, source: str, reading: Reading, *, delimiter: str | None = None, typed: bool = False
) -> ColumnTable:
    """The table in the bytes of a text file.

    delimiter: what the file's ending stands for; `reading.delimiter` comes first, the first line
    decides if both are None. typed: whether a RecBole header (`user_id:token`) is required. Raises
    InputError with the physical line of the first defect.
    """
    notes: list[str] = []
    text = plain_text(raw, source, reading.encoding, notes)
    if not text.strip():
        raise InputError(
            source,
            "the file holds nothing but blank lines",
            expected="a header and rows of user, item, value, time",
        )
    whole, lead = text.endswith(b"\n"), len(text) - len(text.lstrip(b"\n"))
    text = text.strip(b"\n").rstrip(b" \n") + b"\n"
    layout = _layout(text, f"{source}:{lead + 1}", reading, delimiter, typed, notes)
    return _table(text, layout, source, lead + 1, whole, notes)


def _table(
    text: bytes, layout: Layout, source: str, first: int, whole: bool, notes: list[str]
) -> ColumnTable:
    if layout.header:
        text, first = text[text.index(b"\n") + 1 :], first + 1
    if not text:
        raise InputError(
            f"{source}:{first - 1}",
            "there are no rows after the header",
            expected="at least one row",
        )
    if layout.delimiter == "::":
        text = text.replace(b"::", bytes([UNIT]))
    blank = _check_lines(text, layout, source, first, whole)
    if blank:
        text = re.sub(rb"\n{2,}", b"\n", text).lstrip(b"\n")
        notes.append(f"blank lines skipped: {len(blank):,}")
    frame = _split(text, layout, source)
    return ColumnTable(
        frame=frame,
        source=source,
        first_line=first,
        blank=tuple(blank),
        whole=whole,
        types=layout.types,
        notes=tuple(notes),
    )


def _layout(
    text: bytes, where: str, reading: Reading, delimiter: str | None, typed: bool, notes: list[str]
) -> Layout:
    """How to cut the lines, from the first of them."""
    end = text.find(b"\n", 0, LINE_LIMIT + 1)
    if end < 0:
        _refuse_long(where, text.index(b"\n"))
    line = text[:end].decode("utf-8")
    delimiter = reading.delimiter or delimiter or _guess(line)
    quoted = delimiter in (",", ";") and b'"' in text
    fields = _fields(line, delimiter, quoted, where)
    second = (
        text[end + 1 : end + 1 + LINE_LIMIT]
        .partition(b"\n")[0]
        .decode("utf-8", "replace")
        .split(delimiter)
    )
    names, types, header = _names(fields, second, where, reading, typed, notes)
    byte = UNIT if delimiter == "::" else ord(delimiter)
    return Layout(delimiter, byte, names, types, header, quoted)


def _guess(line: str) -> str:
    for delimiter in DELIMITERS[:2]:
        if delimiter in line:
            return delimiter
    return max(
        DELIMITERS[2:], key=lambda delimiter: (line.count(delimiter), -DELIMITERS.index(delimiter))
    )


def _fields(line: str, delimiter: str, quoted: bool, where: str) -> list[str]:
    if delimiter not in line:
        other = next((other for other in DELIMITERS if other in line), None)
        if other is None:
            raise InputError(
                where, "only one column", expected=f"at least two, separated by {_name(delimiter)}"
            )
        fix = f"pass delimiter={other!r} (--load delimiter={other!r})"
        raise InputError(
            where,
            f"no {_name(delimiter)} in the line but {_name(other)}",
            expected=f"columns separated by {_name(delimiter)}",
            fix=fix,
        )
    fields = next(csv.reader([line], delimiter=delimiter)) if quoted else line.split(delimiter)
    return [field.strip() for field in fields]


def _name(delimiter: str) -> str:
    return NAMES.get(delimiter, f"'{delimiter}'")


def _names(
    fields: list[str],
    second: list[str],
    where: str,
    reading: Reading,
    typed: bool,
    notes: list[str],
) -> tuple[list[str], dict[str, str], bool]:
    """(names, RecBole types, whether the first line is a header)."""
    if reading.names is not None:
        if len(reading.names) != len(fields):
            raise InputError(
                where,
                f"{len(fields)} columns",
                expected=f"{len(reading.names)}, as in names={','.join(reading.names)}",
            )
        return _distinct(list(reading.names), where), {}, False
    if typed or all(re.search(r":(token|float)(_seq)?$", field) for field in fields):
        names, types = typed_names(fields, where)
        return _distinct(names, where, len(fields)), types, True
    if is_header(fields, reading):
        return (
            _distinct(
                [field or f"column {number}" for number, field in enumerate(fields, 1)], where
            ),
            {},
            True,
        )
    guessed = positional(fields)
    if guessed is None:
        _refuse_names(fields, second, where)
    notes.append(f"no header: columns read as {', '.join(guessed)}")
    return list(guessed), {}, False


def _refuse_names(fields: list[str], second: list[str], where: str) -> NoReturn:
    """Refuses a first line in which no column is known; a header is told from a row by numbers that
    stand below it alone.
    """
    expected = "a header with the names of the columns, such as user_id,item_id,rating,timestamp"
    numbers = [any(is_number(field) for field in line) for line in (fields, second)]
    say = (
        f"say what its columns are: user='{fields[0]}', item='{fields[1]}' (--load user={fields[0]}"
        f" --load item={fields[1]})"
    )
    name = (
        f"add one, or name all {len(fields)} columns: names=('user_id', 'item_id', ...) (--load"
        " names=user_id,item_id,...)"
    )
    fix = (
        name
        if numbers[0]
        else say
        if numbers[1]
        else f"{say}; or, if the first line is a row, {name}"
    )
    raise InputError(
        where, f"no usual column name among {', '.join(fields[:8])}", expected=expected, fix=fix
    )


def _distinct(names: list[str], where: str, columns: int | None = None) -> list[str]:
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None or (columns is not None and len(names) != columns):
        raise InputError(
            where,
            f"column name '{twice or names[0]}' occurs twice",
            expected="different names",
            fix="rename one of them",
        )
    return names


def _check_lines(text: bytes, layout: Layout, source: str, first: int, whole: bool) -> list[int]:
    """Checks the columns and quotes of every line; returns the numbers of the blank ones. Memory is
    bounded by BLOCK.
    """
    blank: list[int] = []
    start = 0
    while start < len(text):
        end = text.rfind(b"\n", start, start + BLOCK) + 1
        if end == 0:
            _refuse_long(f"{source}:{first}", text.index(b"\n", start) - start)
        block = np.frombuffer(text, np.uint8, end - start, start)
        newline = np.flatnonzero(block == 10)
        width = np.diff(newline, prepend=-1) - 1
        _check_block(block, newline, width, layout, f"{source}", first, whole or end < len(text))
        blank += (first + np.flatnonzero(width == 0)).tolist()
        start, first = end, first + len(newline)
    return blank


def _check_block(
    block: Array,
    newline: Int64Array,
    width: Int64Array,
    layout: Layout,
    source: str,
    first: int,
    whole: bool,
) -> None:
    long = np.flatnonzero(width > LINE_LIMIT)
    if len(long):
        _refuse_long(f"{source}:{first + long[0]}", int(width[long[0]]))
    delimiter = np.flatnonzero(block == layout.byte)
    if layout.quoted:
        quote = np.flatnonzero(block == ord('"'))
        _check_quotes(block, newline, quote, layout, source, first)
        delimiter = delimiter[np.searchsorted(quote, delimiter) % 2 == 0]
    columns = np.diff(np.searchsorted(delimiter, newline), prepend=0) + 1
    wrong = np.flatnonzero((columns != len(layout.names)) & (width > 0))
    if len(wrong):
        line = int(wrong[0])
        content = block[newline[line] - width[line] : newline[line]].tobytes().decode("utf-8")
        cut_off = not whole and line == len(newline) - 1
        _refuse_columns(f"{source}:{first + line}", content, int(columns[line]), layout, cut_off)


def _check_quotes(
    block: Array, newline: Int64Array, quote: Int64Array, layout: Layout, source: str, first: int
) -> None:
    """Quotes must open at the start of a field and close at its end, in the same line."""
    odd = np.flatnonzero(np.diff(np.searchsorted(quote, newline), prepend=0) % 2)
    if len(odd):
        fix = "keep each row in one line and double a quote inside a field"
        raise InputError(
            f"{source}:{first + odd[0]}",
            "a quoted field does not end in its line",
            expected="rows of one line",
            fix=fix,
        )
    edges = (10, layout.byte, ord('"'))
    before = np.concatenate([[10], block[:-1]])[quote[0::2]]
    after = block[quote[1::2] + 1]
    stray = np.flatnonzero(~(np.isin(before, edges) & np.isin(after, edges)))
    if len(stray):
        line = first + int(np.searchsorted(newline, quote[2 * stray[0]]))
        raise InputError(
            f"{source}:{line}",
            "a quote inside a field",
            expected="quotes around the whole field, doubled inside",
            fix="quote the field",
        )


def _refuse_columns(where: str, line: str, columns: int, layout: Layout, cut_off: bool) -> NoReturn:
    other = next(
        (other for other in DELIMITERS[1:5] if other != layout.delimiter and other in line), None
    )
    if cut_off and columns < len(layout.names):
        fix = "the last line has no line end: the file seems cut off; get it again"
    elif columns < len(layout.names) and other is not None:
        fix = f"the line holds {_name(other)}: use one delimiter throughout"
    elif columns > len(layout.names) and layout.delimiter == ",":
        fix = "put a field that holds a comma in quotes, and write decimals with a point"
    else:
        fix = "complete the line or remove it"
    expected = f"{len(layout.names)} ({', '.join(layout.names[:6])})"
    raise InputError(where, f"{columns} column{'s' * (columns != 1)}", expected=expected, fix=fix)


def _refuse_long(where: str, size: int) -> NoReturn:
    raise InputError(
        where,
        f"the line is {size:,} bytes long",
        expected=f"lines of at most {LINE_LIMIT:,} bytes",
        fix="check the line ends and the format",
    )


def _split(text: bytes, layout: Layout, source: str) -> object:
    """The polars frame; all columns are text, an empty field is ""."""
    import polars as pl

    quote = '"' if layout.quoted else None
    try:
        frame = pl.read_csv(
            text, has_header=False, separator=chr(layout.byte), quote_char=quote, infer_schema=False
        )
    except pl.exceptions.PolarsError as wrong:
        raise InputError(
            source, f"cannot be split into columns: {wrong}", expected="a plain text table"
        ) from None
    if frame.shape != (text.count(b"\n"), len(layout.names)):
        raise InputError(
            source,
            "cannot be split into columns",
            expected=f"{len(layout.names)} columns in every line",
        )
    frame.columns = layout.names
    return frame.fill_null("")
