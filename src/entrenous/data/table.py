"""`ColumnTable`: columns, and the place that each row came from; and the conversion of a column:
ids to numbers, values to float32 (`times` has that of times). A bad field is refused with its
place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, NoReturn, final

import numpy as np

from ..core.errors import InputError
from ..core.types import BoolArray, Float32Array, Int32Array, Int64Array
from ..core.vocabulary import Vocabulary
from .reading import Guess, LeftOut, add_up

# Characters.
ID_LIMIT = 256
# A number in its only plain form: "007" is a text, since "7" is another id.
WHOLE = r"^-?(0|[1-9]\d*)$"
# The form of a whole number after a program took it for a float.
DECIMAL = r"^[+-]?\d+\.(0*|\d+[eE][+-]?\d+)$"
# The start of a text that a spreadsheet would calculate.
FORMULA = r"^([=@]|[+\-][^\d.])"
# The largest rating or count: ratings are float32.
LARGEST = float(np.finfo(np.float32).max)
COMMA_DECIMAL = re.compile(r"[+-]?\d+,\d+")
THOUSANDS = re.compile(r"[+-]?\d{1,3}([,.' ]\d{3})+([.,]\d+)?")


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class ColumnTable:
    """Columns, and the place that each row came from."""

    frame: Any
    """A polars.DataFrame; all its columns are text if the source is a text file."""
    source: str
    """The path of the file, or the name of the frame."""
    first_line: int | None = None
    """The physical line of row 0 in a text file; None elsewhere."""
    lines: Int64Array | None = None
    """The physical line of each row, int64 [rows], where rows are not one line each; else None."""
    blank: tuple[int, ...] = ()
    """The numbers of the lines from `first_line` on that were skipped."""
    whole: bool = True
    """False if the last line of a text file has no line end, as in a file that was cut off."""
    types: Mapping[str, str] = field(default_factory=dict)
    """RecBole's types of the columns; empty for other files."""
    guesses: tuple[Guess, ...] = ()
    """The assumptions of the reader that could be wrong."""
    left_out: tuple[LeftOut, ...] = ()
    """The rows that the reader left out, one entry for each reason."""
    notes: tuple[str, ...] = ()
    """Everything else that the reader did, one sentence each."""
    parts: tuple[ColumnTable, ...] = ()
    """The tables that were stacked; empty for a table of one source."""
    places: Int64Array | None = None
    """The row of the source that each row was, int64 [rows]; None if no row was left out."""

    def where(self, row: int) -> str:
        """Returns `file:line` of a row, or `file:row n` (counting from 0) where the source has no
        lines.
        """
        row = self.place(row)
        for part in self.parts:
            if row < part.frame.height:
                return part.where(row)
            row -= part.frame.height
        if self.lines is not None:
            return f"{self.source}:{self.lines[row]}"
        if self.first_line is None:
            return f"{self.source}:row {row}"
        line = self.first_line + row
        # Blank lines ascend, so that each one at or before the row moves it on by one.
        for blank in self.blank:
            if blank <= line:
                line += 1
        return f"{self.source}:{line}"

    def place(self, row: int) -> int:
        """Returns the row of the source that a row was before others were left out."""
        return row if self.places is None else int(self.places[row])

    def has_row(self, place: int) -> bool:
        """Returns True if a row of the source was not left out."""
        return self.places is None or bool(np.isin(place, self.places))

    def without(self, bad: BoolArray) -> ColumnTable:
        """Returns the table without the rows where `bad`, bool [rows], is true."""
        places = np.arange(len(bad)) if self.places is None else self.places
        return replace(self, frame=self.frame.filter(~bad), places=places[~bad])


def stack(tables: Sequence[ColumnTable]) -> ColumnTable:
    """Returns tables with the same columns one under the other. Raises InputError if columns
    differ.
    """
    import polars as pl

    first = tables[0]
    columns = first.frame.columns
    try:
        frames = [table.frame.select(columns) for table in tables]
        # Relaxed, since one file may have whole numbers where another has decimals.
        frame = pl.concat(frames, how="vertical_relaxed")
    except pl.exceptions.PolarsError:
        other = next(table for table in tables if table.frame.schema != first.frame.schema)
        raise InputError(
            other.source,
            f"its columns differ from those of {first.source}",
            expected=", ".join(columns),
        ) from None
    return ColumnTable(
        frame=frame,
        source=" + ".join(table.source for table in tables),
        parts=tuple(tables),
        whole=all(table.whole for table in tables),
        types=first.types,
        guesses=merged_guesses(tables),
        left_out=merged_left_out(tables),
        notes=tuple(note for table in tables for note in table.notes),
    )


def merged_guesses(tables: Sequence[ColumnTable]) -> tuple[Guess, ...]:
    """Returns the guesses of several tables, each once."""
    return tuple(dict.fromkeys(guess for table in tables for guess in table.guesses))


def merged_left_out(tables: Sequence[ColumnTable]) -> tuple[LeftOut, ...]:
    """Returns the rows that several tables left out, one entry for each reason."""
    entries = [entry for table in tables for entry in table.left_out]
    return add_up(entries)


class IdColumn(NamedTuple):
    """A column of external ids as numbers."""

    code: Int32Array
    """The number of the id of each row, int32 [rows]."""
    names: Vocabulary
    """The distinct ids in the order of their numbers."""
    notes: tuple[str, ...]
    """The unusual ids."""


@final
class BadRows(InputError):
    """Refuses rows of a table and names the first. `bad_rows=drop` leaves them out instead."""

    def __init__(self, error: InputError, bad: BoolArray, reason: str) -> None:
        super().__init__(error.where, error.problem, expected=error.expected, fix=error.fix)
        self.error = error
        """The refusal itself."""
        self.bad = bad
        """The rows of the table that are refused, bool [rows]."""
        self.reason = reason
        """The reason in a few words that are true of each row."""

    def with_remedy(self, remedy: str) -> BadRows:
        """Returns the refusal with a further remedy; `error` stays without."""
        fix = "; ".join(filter(None, [self.error.fix, remedy]))
        told = BadRows(
            InputError(self.where, self.problem, expected=self.expected, fix=fix),
            self.bad,
            self.reason,
        )
        told.error = self.error
        return told


def refuse(
    table: ColumnTable,
    bad: BoolArray,
    problem: str,
    *,
    expected: str,
    fix: str = "",
    reason: str = "",
) -> NoReturn:
    """Raises BadRows for the rows where `bad`, bool [rows], is true. problem: of the first of them.
    reason: the problem in words that are true of each; by default `problem`.
    """
    where = table.where(int(np.argmax(bad)))
    error = InputError(where, problem, expected=expected, fix=fix)
    raise BadRows(error, bad, reason or problem)


def ids(table: ColumnTable, name: str, kind: str) -> IdColumn:
    """Returns the ids of a column, which are text whatever the source: "007" and "7" are two ids.

    Numbers follow the order of the ids, as numbers if all are whole numbers, else as text; so the
    order of the rows does not matter. Blanks around an id are removed. Raises InputError for an id
    that is empty, longer than ID_LIMIT, written as a decimal number (`1.0`), or, among whole
    numbers, beyond 64 bits; and for a column that is neither text nor whole numbers.
    """
    import polars as pl

    column = _id_text(table, name, kind)
    distinct = column.unique()
    whole = bool(distinct.str.contains(WHOLE).all())
    notes = _check_ids(table, column, distinct, kind, whole)
    sorted_as = distinct.cast(pl.Int64) if whole else distinct
    distinct = distinct.gather(sorted_as.arg_sort())
    numbers = pl.Series(np.arange(len(distinct), dtype=np.int32))
    # Each row gets the number of its id.
    code = column.replace_strict(distinct, numbers, return_dtype=pl.Int32)
    names = Vocabulary(distinct.to_numpy().astype(np.str_), kind=kind)
    return IdColumn(code.to_numpy(), names, notes)


def _id_text(table: ColumnTable, name: str, kind: str) -> Any:
    """Returns the column as text without blanks around it, "" where an id is missing."""
    import polars as pl

    column = table.frame[name]
    # "1" became 1.0 somewhere, and whether 1.0 and "1" are one id is not known.
    if column.dtype.is_float():
        raise InputError(
            table.where(0) if table.first_line is None else table.source,
            f"the {kind} column '{name}' holds floating-point numbers",
            expected="text or whole numbers",
            fix=f"write {kind} ids as whole numbers or text; a missing id turns a column into"
            " floats in some programs",
        )
    if not (column.dtype.is_integer() or column.dtype in (pl.String, pl.Categorical, pl.Enum)):
        raise InputError(
            table.source,
            f"the {kind} column '{name}' holds {column.dtype}",
            expected="text or whole numbers",
            fix="convert the column",
        )
    return column.cast(pl.String).fill_null("").str.strip_chars()


def _check_ids(
    table: ColumnTable, column: Any, distinct: Any, kind: str, whole: bool
) -> tuple[str, ...]:
    """Returns notes on unusual ids. Raises InputError at the first row with a wrong one.

    Checks read the distinct ids, of which there are far fewer than rows.
    """
    import polars as pl

    if (distinct == "").any():
        bad = (column == "").to_numpy()
        fix = "fill it in or remove the row"
        refuse(table, bad, f"the {kind} id is empty", expected="an id on every row", fix=fix)
    length = distinct.str.len_chars()
    long = distinct.filter(length > ID_LIMIT)
    if len(long):
        bad = column.is_in(long.implode()).to_numpy()
        refuse(
            table,
            bad,
            f"the {kind} id is {len(column[int(np.argmax(bad))]):,} characters long",
            expected=f"at most {ID_LIMIT}",
            fix="check the columns and the delimiter",
            reason=f"the {kind} id is longer than {ID_LIMIT} characters",
        )
    decimal = distinct.filter(distinct.str.contains(DECIMAL))
    if len(decimal):
        bad = column.is_in(decimal.implode()).to_numpy()
        first = column[int(np.argmax(bad))]
        refuse(
            table,
            bad,
            f"{kind} id '{first}' is written as a decimal number",
            expected="a whole number or text",
            fix=f"write {first.split('.')[0]}, or quote it as it is meant",
            reason=f"the {kind} id is written as a decimal number",
        )
    # A number beyond 64 bits among whole numbers overflowed or was rounded; among texts it is a
    # text like any other. Numbers of 18 characters all fit.
    if whole and (length > 18).any():
        beyond = distinct.filter(distinct.cast(pl.Int64, strict=False).is_null())
        if len(beyond):
            bad = column.is_in(beyond.implode()).to_numpy()
            refuse(
                table,
                bad,
                f"{kind} id {shown(column, bad)} is beyond 64 bits",
                expected=f"at most {2**63 - 1}",
                fix="other programs round such a number: write ids as text",
                reason=f"the {kind} id is beyond 64 bits",
            )
    formulas = int(distinct.str.contains(FORMULA).sum())
    if not formulas:
        return ()
    return (f"{kind} ids that start like a formula, kept as text: {formulas:,}",)


def values(table: ColumnTable, name: str, scale: tuple[float, float] | None) -> Float32Array:
    """Returns ratings or counts, float32 [rows]. Raises InputError for one that is missing, no
    number, not finite or outside `scale`.
    """
    import polars as pl

    column = table.frame[name]
    if not (column.dtype == pl.String or column.dtype.is_numeric() or column.dtype == pl.Boolean):
        raise InputError(
            table.source,
            f"the value column '{name}' holds {column.dtype}",
            expected="numbers",
            fix="convert the column",
        )
    # Blanks around a number are no error.
    text = column.str.strip_chars() if column.dtype == pl.String else column
    number = text.cast(pl.Float64, strict=False)
    missing = number.is_null()
    if missing.any():
        refuse_number(table, missing.to_numpy(), text.filter(missing)[0], "value")
    ratings = number.to_numpy()
    # A comparison with NaN is false, so that NaN is refused too.
    bad = ~(np.abs(ratings) <= LARGEST)
    if bad.any():
        refuse(
            table,
            bad,
            f"the value is {shown(text, bad)}",
            expected=f"a finite number up to {LARGEST:.3g}",
            fix="remove the row or correct it",
            reason="the value is not finite, or too large",
        )
    if scale is not None:
        low, high = scale
        bad = (ratings < low) | (ratings > high)
        if bad.any():
            refuse(
                table,
                bad,
                f"the value {shown(text, bad)} is outside the scale",
                expected=f"{low:g} to {high:g}",
                fix="correct it or the scale",
                reason=f"the value is outside the scale {low:g} to {high:g}",
            )
    return ratings.astype(np.float32)


def shown(text: Any, bad: BoolArray) -> str:
    """Returns the first bad field of a polars column, cut for a message."""
    return str(text[int(np.argmax(bad))])[:40]


def refuse_number(table: ColumnTable, bad: BoolArray, text: object, what: str) -> NoReturn:
    """Raises InputError that says why the first bad field is not a number. what: value or time."""
    # Cut, since a broken file may have a field of any length.
    field = "" if text is None else str(text)[:40]
    if field == "":
        fix = "fill it in or remove the row"
        # The first bad row is the last one of a file without a line end at its end.
        if not table.whole and int(np.argmax(bad)) == len(bad) - 1:
            fix = "the last line has no line end: the file seems cut off"
        reason = f"the {what} is empty or not a number"
        refuse(table, bad, f"the {what} is empty", expected="a number", fix=fix, reason=reason)
    if THOUSANDS.fullmatch(field):
        fix = "write it without separators between the thousands"
    elif COMMA_DECIMAL.fullmatch(field):
        fix = f"write {field.replace(',', '.')} with a decimal point"
    else:
        fix = "correct it, check which column it is, or remove the row"
    problem = f"the {what} '{field}' is not a number"
    reason = f"the {what} is empty or not a number"
    refuse(table, bad, problem, expected="a number such as 4 or 3.5", fix=fix, reason=reason)
