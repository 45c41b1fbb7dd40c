"""Text tables (CSV, TSV, RecBole, MovieLens `::`) to a table of text columns.

Every record is one physical line, so that a defect has a line number. All bytes are checked first
(encoding, control characters, line ends, columns per line, quotes). Then polars splits them, which
cannot fail any more. Lines of numbers alone need no check but of their length: polars reads them as
numbers, and their digits account for every byte.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, NoReturn

import numpy as np

from ...core.errors import InputError
from ...core.printed import counted
from ...core.types import Int64Array
from ..encoding import CLEAN, control_in, has_control, plain_text, refuse_control, refuse_long
from ..files import Format, RawFile
from ..options import LoadOptions
from ..reading import Guess, LeftOut, add_up
from ..table import ColumnTable, NoRows
from .layout import (
    DELIMITERS,
    LINE_LIMIT,
    SAMPLE,
    UNIT,
    Layout,
    delimiter_of,
    layout_of,
    name_of,
    names_columns,
    refuse_lists,
    split_line,
    start_of,
)

# The delimiters of some endings.
BY_ENDING = {".csv": ",", ".tsv": "\t", ".inter": "\t", ".item": "\t", ".user": "\t"}
# 10, 100, ...: a number of at least this much has one more digit.
POWERS = 10 ** np.arange(1, 19)
# Bytes of a decimal number at most.
DECIMAL = 32
# Bytes checked at a time.
BLOCK = 1 << 24
REASONS = (
    "a quoted field does not end in its line",
    "a quote inside a field",
    "the line has another number of columns",
)


def recognises(head: bytes, name: str) -> bool:
    """Returns True if the first line is a header with a usual name. Text without one is read too,
    if no other format recognises it.
    """
    first = re.split(rb"[\r\n]", head.lstrip(b"\r\n"), maxsplit=1)[0]
    line = first.decode("utf-8", "replace")
    return not line.lstrip().startswith(("{", "[")) and names_columns(line, LoadOptions())


def read(file: RawFile, options: LoadOptions) -> ColumnTable:
    """Returns the table in a text file; its ending may tell the delimiter. See `read_text`."""
    delimiter = BY_ENDING.get(file.ending)
    return read_text(file.content, file.source, options, delimiter=delimiter)


def read_text(
    raw: bytes,
    source: str,
    options: LoadOptions,
    *,
    delimiter: str | None = None,
) -> ColumnTable:
    """Returns the table in the bytes of a text file.

    delimiter: that of the file's ending. `options.delimiter` comes first; if both are None, the
    first line decides. Raises InputError with the physical line of the first defect.
    """
    notes: list[str] = []
    guesses: list[Guess] = []
    text = plain_text(raw, source, options.encoding, notes)
    start = start_of(text, options, source, notes)
    whole = text.endswith(b"\n")
    text = start.text.rstrip(b" \n") + b"\n"
    if delimiter_of(start, options, delimiter) == " ":
        text = _single_blanks(text, notes)
    start = start._replace(text=text)
    first = start.line
    layout = layout_of(start, f"{source}:{first}", options, delimiter, notes, guesses)
    # Rows are counted from the line after the header.
    if layout.header:
        names, _, text = text.partition(b"\n")
        refuse_control(names, source, line=first)
        first += 1
    if not text:
        raise NoRows(
            f"{source}:{first - 1}",
            "there are no rows after the header",
            expected="at least one row",
        )
    made = partial(
        ColumnTable,
        source=source,
        first_line=first,
        whole=whole,
        types=layout.types,
        guesses=tuple(guesses),
    )
    dirty = has_control(text)
    if layout.delimiter == "::":
        refuse_control(text, source, bytes([UNIT]), line=first)
        text = text.replace(b"::", bytes([UNIT]))
    if not dirty and not layout.may_be_lists:
        numbers = _numbers(text, layout)
        if numbers is not None:
            return made(frame=numbers, notes=tuple(notes))
    text, layout = _quotes(text, layout, notes)
    # Checked before polars reads it, which fills a short line with nulls without a word.
    drop = options.bad_rows == "drop"
    checked = check_lines(text, layout, source, first, whole=whole, drop=drop)
    if checked.blank:
        notes.append(f"blank lines skipped: {checked.blank:,}")
    if not checked.text:
        first_fault = checked.left_out[0]
        raise InputError(
            first_fault.first,
            f"{first_fault.reason}, and no line can be read",
            expected="rows like the first line",
            fix="check the delimiter",
        )
    frame = _split(checked.text, layout, source)
    table = made(
        frame=frame,
        blank=checked.skipped,
        control=tuple(frame.columns) if dirty else (),
        left_out=checked.left_out,
        notes=tuple(notes),
    )
    if layout.may_be_lists:
        _refuse_item_lists(table)
    if layout.spare:
        return _without_spare(table)
    return table


def _single_blanks(text: bytes, notes: list[str]) -> bytes:
    """Returns lines whose columns are separated by one blank each."""
    single = re.sub(rb" {2,}", b" ", text)
    single = re.sub(rb"(?m)^ | $", b"", single)
    if len(single) < len(text):
        notes.append("several blanks between columns are read as one")
    return single


def _quotes(text: bytes, layout: Layout, notes: list[str]) -> tuple[bytes, Layout]:
    """Returns the text and the layout with what its quotes mean."""
    if b'"' not in text:
        return text, layout._replace(quoted=False)
    if not layout.quoted:
        tidy = tidy_quotes(text, layout)
        says = "quotes around fields are no part of them"
        if not tidy:
            says = "quotes are part of the fields, since not all of them enclose a field"
        notes.append(says)
        return text, layout._replace(quoted=tidy)
    if b'\\"' in text and not tidy_quotes(text, layout):
        doubled = text.replace(b'\\"', b'""')
        if tidy_quotes(doubled, layout):
            notes.append("a backslash before a quote is read as MySQL writes it")
            return doubled, layout
    return text, layout


def _refuse_item_lists(table: ColumnTable) -> None:
    """Raises InputError if each line may list the items of one user."""
    import polars as pl

    frame = table.frame
    if frame.width < 3:
        return
    user = frame.to_series(0)
    # Of most data the first rows show that a user has several.
    if user.head(1000).n_unique() < min(1000, frame.height) or user.n_unique() < frame.height:
        return
    if all(frame.select(pl.all().str.contains(r"^\d+$").all()).row(0)):
        refuse_lists(frame.width, table.where(0))


def _without_spare(table: ColumnTable) -> ColumnTable:
    """Returns the table without its last column. Raises InputError for a row that fills it."""
    frame = table.frame
    spare = frame.to_series(frame.width - 1).str.strip_chars()
    filled = (spare != "").arg_true()
    if len(filled):
        names = frame.columns[:-1]
        raise InputError(
            table.where(int(filled[0])),
            f"{frame.width} columns",
            expected=f"{len(names)} ({', '.join(names[:6])}), or an empty one behind them",
            fix="put a field that holds a delimiter in quotes",
        )
    return replace(table, frame=frame.drop(frame.columns[-1]))


def _split(text: bytes, layout: Layout, source: str) -> Any:
    """Returns the polars frame of the lines: all columns are text, and an empty field is ""."""
    import polars as pl

    try:
        frame = pl.read_csv(
            text,
            has_header=False,
            separator=chr(layout.byte),
            quote_char='"' if layout.quoted else None,
            infer_schema=False,
        )
    except pl.exceptions.PolarsError as wrong:
        raise InputError(
            source, f"cannot be split into columns: {wrong}", expected="a plain text table"
        ) from None
    # Every line was checked, so this compares two readers, ours and that of polars.
    if frame.shape != (text.count(b"\n"), layout.width):
        raise InputError(
            source,
            "cannot be split into columns",
            expected=f"{layout.width} columns in every line",
        )
    # The empty column behind the last delimiter of each row has no name, and is left out later.
    frame.columns = [*layout.names, ""] if layout.spare else layout.names
    return frame.fill_null("")


def _numbers(text: bytes, layout: Layout) -> Any:
    """Returns the polars frame of lines in which every field is a number; None for other lines.
    Whole numbers are int64, in their only plain form: 007 is another id than 7. Decimals are text.
    """
    import polars as pl

    if b'"' in text:
        return None
    read = partial(pl.read_csv, text, has_header=False, separator=chr(layout.byte), quote_char=None)
    try:
        kinds = read(n_rows=SAMPLE, infer_schema_length=SAMPLE).schema
        if not {pl.Int64, pl.Float64}.issuperset(kinds.values()):
            return None
        schema = {name: pl.Int64 if kind == pl.Int64 else pl.String for name, kind in kinds.items()}
        frame = read(schema=schema)
    except pl.exceptions.PolarsError:
        return None
    if frame.width != layout.width or frame.null_count().sum_horizontal()[0]:
        return None
    # A delimiter or a line feed stands behind each field.
    if sum(_bytes(column) for column in frame) + frame.height * frame.width != len(text):
        return None
    frame.columns = layout.names
    return frame


def _bytes(column: Any) -> int:
    """Returns the bytes of the fields of a column, if numbers are in their only plain form; 0 if a
    field is too long for a number.
    """
    import polars as pl

    if column.dtype == pl.String:
        length = column.str.len_bytes()
        return int(length.sum()) if length.max() <= DECIMAL else 0
    numbers = column.to_numpy()
    size = np.abs(numbers)
    minus = np.count_nonzero(numbers < 0)
    reached = POWERS[size.max() >= POWERS]
    longer = sum(np.count_nonzero(size >= power) for power in reached)
    return int(len(numbers) + minus + longer)


# ---- the check of every line ---------------------------------------------------------------------


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


def check_lines(
    text: bytes, layout: Layout, source: str, first: int, *, whole: bool, drop: bool
) -> Checked:
    """Checks the columns and quotes of every line.

    first: the number of the first line in the file. whole: False if the file may have been cut off.
    drop: True leaves out the lines that cannot be split. Raises InputError for the first of them
    otherwise, and always for a last line that was cut off.
    """
    skipped = []
    blank = 0
    left_out: list[LeftOut] = []
    begin = first
    last = first + text.count(b"\n") - 1
    for lines in _blocks(text, f"{source}:{first}"):
        faults = _faults(lines, layout)
        bad = np.unique(np.concatenate(faults))
        long = (lines.str.len_bytes() > LINE_LIMIT).arg_true()
        # The first line that is wrong is named, and no error decodes a huge line.
        if len(long) and (drop or not len(bad) or long[0] <= bad[0]):
            line = int(long[0])
            refuse_long(f"{source}:{first + line}", len(lines[line].encode()), LINE_LIMIT)
        cut = not whole and len(bad) > 0 and first + bad[-1] == last
        if len(bad) and (cut or not drop):
            # Where lines are left out, only a last one that was cut off is an error.
            line = int(bad[-1] if drop else bad[0])
            reasons = [line in marked for marked in faults]
            where = f"{source}:{first + line}"
            _refuse(where, lines[line], reasons, layout, cut and line == bad[-1])
        empty = (lines == "").arg_true().to_numpy()
        blank += len(empty)
        others = np.union1d(bad, empty)
        skipped.append(first + others)
        left_out += [
            LeftOut(reason, len(marked), f"{source}:{first + int(marked[0])}")
            for reason, marked in zip(REASONS, faults, strict=True)
            if len(marked)
        ]
        first += len(lines)
    numbers = np.concatenate(skipped)
    # Most files have nothing to leave out, and need no copy.
    if len(numbers):
        text = _without(text, numbers - begin)
    return Checked(text, numbers, blank, add_up(left_out))


def _without(text: bytes, lines: Int64Array) -> bytes:
    """Returns a text without some of its lines."""
    content = np.frombuffer(text, np.uint8)
    length = np.diff(np.flatnonzero(content == ord("\n")), prepend=-1)
    keep = np.ones(len(length), np.bool_)
    keep[lines] = False
    return content[np.repeat(keep, length)].tobytes()


def _blocks(text: bytes, where: str) -> Iterator[Any]:
    """Yields the lines of a text as polars columns. Raises InputError for a line beyond BLOCK."""
    import polars as pl

    start = 0
    # Blocks bound the memory: the columns of a block are many times its size.
    while start < len(text):
        end = text.rfind(b"\n", start, start + BLOCK)
        if end < 0:
            refuse_long(where, text.index(b"\n", start) - start, LINE_LIMIT)
        yield pl.Series([text[start:end].decode()]).str.split("\n").explode()
        start = end + 1


def _faults(lines: Any, layout: Layout) -> list[Int64Array]:
    """Returns the numbers of the lines that cannot be split, int64 [lines] for each of REASONS; a
    line has one fault.
    """
    import polars as pl

    mark = chr(layout.byte)
    never_closed = stray = pl.repeat(False, len(lines), eager=True)
    bare = lines
    if layout.quoted:
        # A quote is doubled inside a field, so that two of them may stand next to each other.
        field = f'("([^"]|"")*"|[^"{re.escape(mark)}]*)'
        never_closed = lines.str.count_matches('"', literal=True) % 2 == 1
        tidy = lines.str.contains(f"^{field}({re.escape(mark)}{field})*$")
        stray = ~tidy & ~never_closed
        # A delimiter in quotes stands inside a field.
        bare = lines.str.replace_all('"[^"]*"', "")
    columns = bare.str.count_matches(mark, literal=True) + 1
    wrong = (columns != layout.width) & (lines != "") & ~never_closed & ~stray
    return [marked.arg_true().to_numpy() for marked in (never_closed, stray, wrong)]


def tidy_quotes(text: bytes, layout: Layout) -> bool:
    """Returns True if every quote in the lines of a text encloses a whole field, or is doubled
    inside such a field.
    """
    quoted = layout._replace(quoted=True)
    for lines in _blocks(text, ""):
        never_closed, stray, _ = _faults(lines, quoted)
        if len(never_closed) or len(stray):
            return False
    return True


def _refuse(where: str, line: str, reasons: list[bool], layout: Layout, cut_off: bool) -> NoReturn:
    """Refuses a line that cannot be split. reasons: which of REASONS it has. cut_off: True if the
    file seems to end in it.
    """
    drop = "or leave it out: bad_rows='drop' (--load bad_rows=drop)"
    if reasons[0]:
        raise InputError(
            where,
            REASONS[0],
            expected="rows of one line",
            fix=f"keep each row in one line and double a quote inside a field; {drop}",
        )
    if reasons[1]:
        raise InputError(
            where,
            REASONS[1],
            expected="quotes around the whole field, doubled inside",
            fix=f"quote the field; {drop}",
        )
    _refuse_columns(where, line.replace(chr(UNIT), "::"), layout, cut_off, drop)


def _refuse_columns(where: str, line: str, layout: Layout, cut_off: bool, drop: str) -> NoReturn:
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
    elif layout.row_names:
        every = ",".join(["row", *layout.names])
        fix = (
            "if the first column has no name, as in files of R: --load"
            f" names={every} --load skip_lines=1; else put a field that holds a delimiter in quotes"
        )
    elif columns > wanted:
        fix = (
            f"put a field that holds a delimiter in quotes, and write decimals with a point; {drop}"
        )
    else:
        fix = f"complete the line or remove it; {drop}"
    if layout.guessed and layout.delimiter in (" ", "\t"):
        fix += "; if each line has a user and then items: --load format=item-lists"
    names = ", ".join(layout.names[:6])
    raise InputError(where, counted(columns, "column"), expected=f"{wanted} ({names})", fix=fix)


FORMATS = {
    "text": Format(
        "one row in each line, with a delimiter: CSV, TSV, RecBole .inter, MovieLens ::, and kin",
        recognises,
        read,
    )
}
