"""`ColumnTable`: columns, and the place that each row came from; and the conversion of a column:
ids to numbers, values to float32 (`times` has that of times). A bad field is refused with its
place.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, NamedTuple, NoReturn, final

import numpy as np

from ..core.errors import InputError
from ..core.types import BoolArray, Float32Array, Int32Array, Int64Array
from .encoding import CLEAN, CONTROL, control_in
from .interactions import Vocabulary
from .reading import Guess, LeftOut, add_up

# Characters.
ID_LIMIT = 256
# A number in its only plain form: "007" is a text, since "7" is another id.
WHOLE = r"^(0|-?[1-9]\d*)$"
# The form of a whole number after a program took it for a float.
DECIMAL = r"^[+-]?\d+\.(0*|\d+[eE][+-]?\d+)$"
WHOLE_IDS = "take them as whole numbers: ids='whole' (--load ids=whole)"
# The start of a text that a spreadsheet would calculate.
FORMULA = r"^([=@]|[+\-][^\d.])"
# The largest rating or count: ratings are float32.
LARGEST = float(np.finfo(np.float32).max)
# As other programs write a missing value, in lower case.
MISSING = (
    *("na", "n/a", "#n/a", "<na>", "nan", "null", "none", "nil", "nat", "inf", "-inf", "undefined"),
    *("(null)", "\\n", "-", "--", "?", "missing", "unknown"),
)
QUOTES = "\"'`“”‘’«»"
# Characters that nobody sees: no-break blanks, zero-width characters, byte order marks.
UNSEEN = r"[\u00a0\u00ad\u200b-\u200f\u2028-\u202f\u2060\ufeff]"
# Examples in a sentence.
SHOWN = 3
COMMA_DECIMAL = re.compile(r"[+-]?\d+,\d+")
THOUSANDS = re.compile(r"[+-]?\d{1,3}([,.' ]\d{3})+([.,]\d+)?")


class NoRows(InputError):
    """Raised for a table without rows, which may be a part of one that has some."""


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class ColumnTable:
    """Columns, and the place that each row came from."""

    frame: Any
    """A polars.DataFrame; of a text file, its columns are text, or whole numbers if every field is
    a number.
    """
    source: str
    """The path of the file, or the name of the frame."""
    first_line: int | None = None
    """The physical line of row 0 in a text file; None elsewhere."""
    lines: Int64Array | None = None
    """The physical line of each row, int64 [rows], where rows are not one line each; else None."""
    blank: Int64Array = field(default_factory=lambda: np.empty(0, np.int64))
    """The numbers of the lines from `first_line` on that were skipped."""
    whole: bool = True
    """False if the last line of a text file has no line end, as in a file that was cut off."""
    types: Mapping[str, str] = field(default_factory=dict)
    """RecBole's types of the columns; empty for other files."""
    control: tuple[str, ...] = ()
    """The columns with control characters, which may not be read."""
    guesses: tuple[Guess, ...] = ()
    """The assumptions of the reader that could be wrong."""
    left_out: tuple[LeftOut, ...] = ()
    """The bad rows that were left out, one entry for each reason."""
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
        # The number of rows before each blank line.
        rows_before = self.blank - self.first_line - np.arange(len(self.blank))
        blanks = int(np.searchsorted(rows_before, row, side="right"))
        return f"{self.source}:{self.first_line + row + blanks}"

    def line_numbers(self) -> Int64Array:
        """Returns the physical line of each row of a text file, int64 [rows]."""
        assert self.first_line is not None
        lines = np.arange(self.first_line, self.first_line + self.frame.height + len(self.blank))
        return np.setdiff1d(lines, self.blank, assume_unique=True)

    def place(self, row: int) -> int:
        """Returns the row of the source that a row was before others were left out."""
        if self.places is None:
            return row
        return int(self.places[row])

    def has_row(self, place: int) -> bool:
        """Returns True if a row of the source was not left out."""
        return self.places is None or bool(np.isin(place, self.places))

    def only(self, keep: BoolArray) -> ColumnTable:
        """Returns the rows of the table where `keep`, bool [rows], is true."""
        if keep.all():
            return self
        places = np.arange(len(keep)) if self.places is None else self.places
        return replace(self, frame=self.frame.filter(keep), places=places[keep])


def stack(tables: Sequence[ColumnTable]) -> ColumnTable:
    """Returns tables with the same columns one under the other; an object of JSON may lack a key.
    Raises InputError if columns differ.
    """
    import polars as pl

    first = tables[0]
    columns = set(first.frame.columns)
    alike = [table.lines is not None or columns == {*table.frame.columns} for table in tables]
    try:
        # Relaxed, since one file may have whole numbers where another has decimals.
        frame = pl.concat([table.frame for table in tables], how="diagonal_relaxed")
    except pl.exceptions.PolarsError:
        alike = [table.frame.schema == first.frame.schema for table in tables]
    if not all(alike):
        raise InputError(
            tables[alike.index(False)].source,
            f"its columns differ from those of {first.source}",
            expected=", ".join(first.frame.columns),
            fix="read the parts that have the same, or complete the others",
        )
    return ColumnTable(
        frame=frame,
        source=" + ".join(table.source for table in tables),
        parts=tuple(tables),
        whole=all(table.whole for table in tables),
        types=first.types,
        # Each guess once, and one entry for each reason.
        guesses=tuple(dict.fromkeys(guess for table in tables for guess in table.guesses)),
        left_out=add_up(entry for table in tables for entry in table.left_out),
        notes=tuple(note for table in tables for note in table.notes),
    )


def control_rows(table: ColumnTable, name: str) -> BoolArray:
    """Returns True for each row of a text column that has a control character, bool [rows]."""
    pattern = "[" + re.escape(CONTROL.decode("ascii")) + "]"
    rows: BoolArray = table.frame[name].str.contains(pattern).fill_null(False).to_numpy()
    return rows


def refuse_control_in(table: ColumnTable, name: str) -> None:
    """Refuses rows with a control character in a column that is to be read."""
    if name not in table.control:
        return
    bad = control_rows(table, name)
    if bad.any():
        refuse(
            table,
            bad,
            f"{control_in(str(table.frame[name][int(np.argmax(bad))]))} in column '{name}'",
            expected="plain text",
            fix=CLEAN,
            reason=f"a control character in column '{name}'",
        )


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
        told = copy(self)
        InputError.__init__(told, self.where, self.problem, expected=self.expected, fix=fix)
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
    that is empty, longer than ID_LIMIT, or written as a decimal number (`1.0`); and for a column
    that is neither text nor whole numbers.
    """
    import polars as pl

    numbered = _of_numbers(table.frame[name], kind)
    if numbered is not None:
        return numbered
    column = _id_text(table, name, kind)
    distinct = column.unique()
    notes = _check_ids(table, column, distinct, kind)
    distinct = _sorted(distinct)
    numbers = pl.Series(np.arange(len(distinct), dtype=np.int32))
    # Each row gets the number of its id.
    code = column.replace_strict(distinct, numbers, return_dtype=pl.Int32)
    names = Vocabulary(distinct.to_list(), kind=kind)
    return IdColumn(code.to_numpy(), names, notes)


def _of_numbers(column: Any, kind: str) -> IdColumn | None:
    """Returns the ids of a column of whole numbers that lie close together, as most do; None for
    any other column. As text they would be the same, in ten times the time.
    """
    import polars as pl

    if column.dtype != pl.Int64 or column.null_count() or not len(column):
        return None
    numbers = column.to_numpy()
    lowest = int(numbers.min())
    span = int(numbers.max()) - lowest + 1
    if span > 4 * len(numbers):
        return None
    present = np.zeros(span, np.bool_)
    present[numbers - lowest] = True
    # The number of each id is that of the ids below it.
    code_of = (np.cumsum(present) - 1).astype(np.int32)
    distinct = np.flatnonzero(present) + lowest
    return IdColumn(code_of[numbers - lowest], Vocabulary(distinct.tolist(), kind=kind), ())


def as_whole(column: Any) -> Any:
    """Returns whole numbers that a program wrote as decimals, 1.0, as int64, null where one is
    missing; a column that holds anything else as it is.
    """
    import polars as pl

    text = column.cast(pl.String).str.strip_chars()
    missing = text.fill_null("").is_in(["", "NaN"])
    number = text.cast(pl.Float64, strict=False)
    # Beyond, a float64 does not hold every whole number.
    exact = text.str.contains(DECIMAL) & (number % 1 == 0) & (number.abs() < 1 << 53)
    if not (exact | missing).fill_null(False).all():
        return column
    return number.fill_nan(None).cast(pl.Int64)


def _sorted(distinct: Any) -> Any:
    """Returns distinct ids in ascending order, as numbers if all are whole numbers."""
    import polars as pl

    if not distinct.str.contains(WHOLE).all():
        return distinct.gather(distinct.arg_sort())
    numbers = distinct.cast(pl.Int64, strict=False)
    # A hash of 64 bits without a sign, or a longer number.
    if numbers.is_null().any():
        return pl.Series(distinct.name, sorted(distinct.to_list(), key=int), pl.String)
    return distinct.gather(numbers.arg_sort())


def refuse_nested(table: ColumnTable, name: str, kind: str) -> None:
    """Raises InputError for a column of lists or objects, as JSON and Parquet may have."""
    column = table.frame[name]
    if column.dtype.is_nested():
        raise InputError(
            table.where(int(column.is_not_null().arg_max() or 0)),
            f"the {kind} column '{name}' holds lists or objects",
            expected="one text or number in each row",
            fix="write a row for each part, in which the part that is meant is a field of its own;"
            " of an object in JSON lines, give the path to it, such as user.id",
        )


def _id_text(table: ColumnTable, name: str, kind: str) -> Any:
    """Returns the column as text without blanks around it, "" where an id is missing."""
    import polars as pl

    refuse_nested(table, name, kind)
    column = table.frame[name]
    # "1" became 1.0 somewhere, and whether 1.0 and "1" are one id is not known.
    if column.dtype.is_float():
        raise InputError(
            table.where(0) if table.first_line is None else table.source,
            f"the {kind} column '{name}' holds floating-point numbers",
            expected="text or whole numbers",
            fix=f"{WHOLE_IDS}, or write them as text; a missing id turns a column into floats in"
            " some programs",
        )
    if not (column.dtype.is_integer() or column.dtype in (pl.String, pl.Categorical, pl.Enum)):
        raise InputError(
            table.source,
            f"the {kind} column '{name}' holds {column.dtype}",
            expected="text or whole numbers",
            fix="convert the column",
        )
    return column.cast(pl.String).fill_null("").str.strip_chars()


def _check_ids(table: ColumnTable, column: Any, distinct: Any, kind: str) -> tuple[str, ...]:
    """Returns notes on unusual ids. Raises InputError at the first row with a wrong one.

    Checks read the distinct ids, of which there are far fewer than rows.
    """

    if (distinct == "").any():
        bad = (column == "").to_numpy()
        fix = "fill it in or remove the row"
        refuse(table, bad, f"the {kind} id is empty", expected="an id on every row", fix=fix)
    length = distinct.str.len_chars()
    long = distinct.filter(length > ID_LIMIT)
    if len(long):
        bad = column.is_in(long.to_list()).to_numpy()
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
        bad = column.is_in(decimal.to_list()).to_numpy()
        first = column[int(np.argmax(bad))]
        problem = f"{kind} id '{first}' is written as a decimal number"
        fix = f"write {first.split('.')[0]}, or a text that is no number"
        if len(decimal) == len(distinct):
            fix = f"{WHOLE_IDS}, or {fix}"
        reason = f"the {kind} id is written as a decimal number"
        refuse(table, bad, problem, expected="a whole number or text", fix=fix, reason=reason)
    formulas = int(distinct.str.contains(FORMULA).sum())
    if not formulas:
        return ()
    return (f"{kind} ids that start like a formula, kept as text: {formulas:,}",)


def odd_ids(table: ColumnTable, column: IdColumn) -> tuple[str, ...]:
    """Returns a sentence for each oddity of the ids of a column, with the first row that has it."""
    import polars as pl

    distinct = pl.Series(column.names.ids, dtype=pl.String)
    # Numbers in their plain form have none of these oddities.
    if distinct.str.contains(WHOLE).all():
        return ()
    sentences = []
    for oddity, odd in _oddities(table, distinct):
        if not odd.any():
            continue
        rows = odd.to_numpy()[column.code]
        first = int(np.argmax(rows))
        some = distinct.filter(odd).head(SHOWN).to_list()
        # The first one of the source is shown first.
        shown = dict.fromkeys([column.names[column.code[first]], *some])
        examples = ", ".join(f"'{text[:40]}'" for text in list(shown)[:SHOWN])
        sentences.append(
            f"{column.names.kind} ids that {oddity}: {int(odd.sum()):,} in {int(rows.sum()):,} rows"
            f" ({examples}), the first at {table.where(first)}"
        )
    return tuple(sentences)


def _oddities(table: ColumnTable, distinct: Any) -> Iterator[tuple[str, Any]]:
    """Yields each oddity in words with the ids that have it, bool [distinct ids]."""

    lower = distinct.str.to_lowercase()
    yield "look like a missing one and are kept", lower.is_in(list(MISSING))
    marks = f"^[{QUOTES}]|[{QUOTES}]$"
    yield "carry quotes and keep them", distinct.str.contains(marks)
    yield "hold characters that nobody sees", distinct.str.contains(UNSEEN)
    yield "hold blanks", distinct.str.contains(r"\s")
    yield "equal the name of a column", distinct.is_in(table.frame.columns)
    if lower.n_unique() < len(lower):
        yield "differ from another one in case alone", lower.is_duplicated()
    composed = distinct.str.normalize("NFC")
    if composed.n_unique() < len(composed):
        yield "differ from another one in the form of Unicode alone", composed.is_duplicated()
    bare = distinct.str.strip_chars_start("0")
    if bare.n_unique() < len(bare):
        yield "differ from another one in zeros at the start alone", bare.is_duplicated()


def values(table: ColumnTable, name: str) -> Float32Array:
    """Returns ratings or counts, float32 [rows]. Raises InputError for one that is missing, no
    number or not finite.
    """
    import polars as pl

    refuse_nested(table, name, "value")
    column = table.frame[name]
    if not (column.dtype == pl.String or column.dtype.is_numeric() or column.dtype == pl.Boolean):
        raise InputError(
            table.source,
            f"the value column '{name}' holds {column.dtype}",
            expected="numbers",
            fix="convert the column",
        )
    # Blanks around a number are no error.
    text = column
    if column.dtype == pl.String:
        text = column.str.strip_chars()
    number = text.cast(pl.Float64, strict=False)
    missing = number.is_null()
    if missing.any():
        refuse_number(table, missing.to_numpy(), text.filter(missing)[0], "value")
    ratings = number.to_numpy()
    # A comparison with NaN is false, so that NaN is refused too.
    if not (ratings.min(initial=0) >= -LARGEST and ratings.max(initial=0) <= LARGEST):
        bad = ~(np.abs(ratings) <= LARGEST)
        refuse(
            table,
            bad,
            f"the value is {shown(text, bad)}",
            expected=f"a finite number up to {LARGEST:.3g}",
            fix="remove the row or correct it",
            reason="the value is not finite, or too large",
        )
    return ratings.astype(np.float32)


def shown(text: Any, bad: BoolArray) -> str:
    """Returns the first bad field of a polars column, cut for a message."""
    return str(text[int(np.argmax(bad))])[:40]


def refuse_number(table: ColumnTable, bad: BoolArray, text: object, what: str) -> NoReturn:
    """Raises InputError that says why the first bad field is not a number. what: value or time."""
    # Cut, since a broken file may have a field of any length.
    field = ""
    if text is not None:
        field = str(text)[:40]
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


# ---- the threads of polars, which a fork does not copy -------------------------------------------

REMEDY = "start the pool with multiprocessing.get_context('spawn') or 'forkserver'"


def refuse_without_threads(where: str, fix: str) -> None:
    """Raises InputError in a process that has no threads of polars and cannot get any. Called
    before anything is read. fix: what the user can do instead.
    """
    if _owner_of_threads() != os.getpid():
        raise InputError(
            where,
            "this process was forked from one that had read data before, and polars cannot read in"
            " it",
            fix=f"{fix}, or {REMEDY}",
        )


@cache
def _owner_of_threads() -> int:
    """Returns the process that has, or will have, the threads of polars. A fork inherits the
    answer that its parent had.
    """
    # Nobody knows whether a parent used polars itself; that costs a forked process only time.
    if "polars" in sys.modules and _is_forked_worker():
        return os.getppid()
    return os.getpid()


def _is_forked_worker() -> bool:
    """Tells whether multiprocessing made this process by a fork."""
    if "multiprocessing.process" not in sys.modules:
        return False
    from multiprocessing.process import current_process

    return type(current_process()).__name__ == "ForkProcess"
