"""Text tables (CSV, TSV, RecBole, MovieLens `::`) to a table of text columns.

Every record is one physical line, so that a defect has a line number. All bytes are checked first
(encoding, control characters, line ends, columns per line, quotes). Then polars splits them, which
cannot fail any more.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, NoReturn

from ...core.errors import InputError
from ..encoding import has_control, plain_text, refuse_control
from ..options import LoadOptions
from ..reading import Guess
from ..table import ColumnTable, NoRows
from .kind import Format, RawFile
from .layout import UNIT, Layout, delimiter_of, layout_of, refuse_lists, start_of
from .lines import Checked, check_lines, tidy_quotes

# The delimiters of some endings.
BY_ENDING = {".csv": ",", ".tsv": "\t", ".inter": "\t", ".item": "\t", ".user": "\t"}
# The endings of files with a RecBole header.
TYPED = (".inter", ".item")


def read(file: RawFile, options: LoadOptions) -> ColumnTable:
    """Returns the table in a text file; its ending may tell the delimiter. See `read_text`."""
    return read_text(
        file.content,
        file.source,
        options,
        delimiter=BY_ENDING.get(file.ending),
        typed=file.ending in TYPED,
    )


def read_text(
    raw: bytes,
    source: str,
    options: LoadOptions,
    *,
    delimiter: str | None = None,
    typed: bool = False,
) -> ColumnTable:
    """Returns the table in the bytes of a text file.

    delimiter: that of the file's ending. `options.delimiter` comes first; if both are None, the
    first line decides. typed: a RecBole header (`user_id:token`) is required. Raises InputError
    with the physical line of the first defect.
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
    layout = layout_of(start, f"{source}:{first}", options, delimiter, typed, notes, guesses)
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
    dirty = has_control(text)
    if layout.delimiter == "::":
        refuse_control(text, source, bytes([UNIT]), line=first)
        text = text.replace(b"::", bytes([UNIT]))
    text, layout = _quotes(text, layout, notes)
    # Checked before polars reads it, which fills a short line with nulls without a word.
    drop = options.bad_rows == "drop"
    checked = check_lines(text, layout, source, first, whole=whole, drop=drop)
    if checked.blank:
        notes.append(f"blank lines skipped: {checked.blank:,}")
    if not checked.text:
        _refuse_all(checked, source)
    frame = _split(checked.text, layout, source)
    table = ColumnTable(
        frame=frame,
        source=source,
        first_line=first,
        blank=checked.skipped,
        whole=whole,
        types=layout.types,
        control=tuple(frame.columns) if dirty else (),
        guesses=tuple(guesses),
        left_out=checked.left_out,
        notes=tuple(notes),
    )
    if layout.guessed:
        _refuse_item_lists(table, layout)
    return _without_spare(table) if layout.spare else table


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
        tidy = tidy_quotes(text, layout.byte)
        says = "quotes around fields are no part of them"
        if not tidy:
            says = "quotes are part of the fields, since not all of them enclose a field"
        notes.append(says)
        return text, layout._replace(quoted=tidy)
    if b'\\"' in text and not tidy_quotes(text, layout.byte):
        doubled = text.replace(b'\\"', b'""')
        if tidy_quotes(doubled, layout.byte):
            notes.append("a backslash before a quote is read as MySQL writes it")
            return doubled, layout
    return text, layout


def _refuse_item_lists(table: ColumnTable, layout: Layout) -> None:
    """Raises InputError if the columns were guessed and each line may list the items of one
    user.
    """
    import polars as pl

    frame = table.frame
    if layout.delimiter not in (" ", "\t") or "timestamp" in layout.names or frame.width < 3:
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


def _refuse_all(checked: Checked, source: str) -> NoReturn:
    """Raises InputError for a text of which no line can be split."""
    first = checked.left_out[0]
    raise InputError(
        first.first,
        f"{first.reason}, and no line can be read",
        expected="rows like the first line",
        fix="check the delimiter",
    )


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


FORMATS = {
    "text": Format(
        "one row in each line, with a delimiter: CSV, TSV, RecBole .inter, MovieLens ::, and kin",
        lambda head, name: True,
        read,
    )
}
