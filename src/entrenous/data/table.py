"""`ColumnTable`: columns and where each row came from; and the conversion of a column: ids to
numbers, values to float32, times to seconds. A bad field is refused with its place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn, final

import numpy as np

from ..core.errors import InputError
from ..core.types import Array, BoolArray, Float32Array, Int32Array, Int64Array
from ..core.vocabulary import Vocabulary
from .interactions import NO_TIME

# Characters.
ID_LIMIT = 256
WHOLE = r"^-?(0|[1-9]\d*)$"
# The form of a whole number after a program took it for a float.
DECIMAL = r"^[+-]?\d+\.(0*|\d+[eE][+-]?\d+)$"
FORMULA = r"^([=@]|[+\-][^\d.])"
LARGEST = float(np.finfo(np.float32).max)
COMMA_DECIMAL = re.compile(r"[+-]?\d+,\d+")
THOUSANDS = re.compile(r"[+-]?\d{1,3}([,.' ]\d{3})+([.,]\d+)?")
# 2100-01-01; a later time is a mistake.
LATEST = 4_102_444_800
# The last format is that of Twitter and Foursquare.
FORMATS = (
    "%Y-%m-%d %H:%M:%S",
    "%Y-%m-%d %H:%M:%S%.f",
    "%Y-%m-%d",
    "%Y-%m-%d %H:%M",
    "%Y-%m-%d %H:%M:%S%.f%z",
    "%Y-%m-%d %H:%M%z",
    "%a %b %d %H:%M:%S %z %Y",
)
# By size: no time between 1973 and 2100 fits two units.
UNITS = (("milliseconds", 1_000), ("microseconds", 1_000_000), ("nanoseconds", 1_000_000_000))
# 1973: smaller numbers are read as seconds.
FIRST = 100_000_000


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class ColumnTable:
    """Columns and where their rows came from."""

    frame: Any
    """A polars.DataFrame; all its columns are text if the source is a text file."""
    source: str
    """The file's path or the frame's name."""
    first_line: int | None = None
    """The physical line of row 0 in a text file; None elsewhere."""
    blank: tuple[int, ...] = ()
    """Lines at or after `first_line` that were skipped."""
    whole: bool = True
    """False if a text file lacks a line end at its end, like a file that was cut off."""
    types: Mapping[str, str] = field(default_factory=dict)
    """RecBole's column types."""
    notes: tuple[str, ...] = ()
    """What the reader did."""
    parts: tuple[ColumnTable, ...] = ()
    """The tables that were stacked."""

    def where(self, row: int) -> str:
        """`file:line` of a row, or `file:row n` (counting from 0) where the source has no lines."""
        for part in self.parts:
            if row < part.frame.height:
                return part.where(row)
            row -= part.frame.height
        if self.first_line is None:
            return f"{self.source}:row {row}"
        line = self.first_line + row
        for blank in self.blank:
            line += blank <= line
        return f"{self.source}:{line}"


def stack(tables: Sequence[ColumnTable]) -> ColumnTable:
    """Puts tables with the same columns under each other. Raises InputError if columns differ."""
    import polars as pl

    first = tables[0]
    columns = first.frame.columns
    try:
        frames = [table.frame.select(columns) for table in tables]
        frame = pl.concat(frames, how="vertical_relaxed")
    except pl.exceptions.PolarsError:
        others = [table.source for table in tables if table.frame.schema != first.frame.schema]
        raise InputError(
            others[0] if others else first.source,
            f"its columns differ from those of {first.source}",
            expected=", ".join(columns),
        ) from None
    return ColumnTable(
        frame=frame,
        source=" + ".join(table.source for table in tables),
        parts=tuple(tables),
        whole=all(table.whole for table in tables),
        types=first.types,
        notes=tuple(note for table in tables for note in table.notes),
    )


class IdColumn(NamedTuple):
    """A column of external ids as numbers."""

    code: Int32Array
    """int32 [rows]: the index of each row's id."""
    names: Vocabulary
    """The distinct ids in index order."""
    notes: tuple[str, ...]


def refuse(
    table: ColumnTable, bad: BoolArray, problem: str, *, expected: str, fix: str = ""
) -> NoReturn:
    """Raises InputError for the first row where `bad`, bool [rows], is true."""
    raise InputError(table.where(int(np.argmax(bad))), problem, expected=expected, fix=fix)


def ids(table: ColumnTable, name: str, kind: str) -> IdColumn:
    """The ids of a column, which are text whatever the source: "007" and "7" are two ids.

    Indices follow the ids' order, as numbers if all are whole numbers, else as text; so the order
    of the rows does not matter. Blanks around an id are removed. Raises InputError for an id that
    is empty, longer than ID_LIMIT, written as a decimal number (`1.0`), or, among whole numbers,
    beyond 64 bits; and for a column that is neither text nor whole numbers.
    """
    import polars as pl

    column = _id_text(table, name, kind)
    distinct = column.unique()
    whole = bool(distinct.str.contains(WHOLE).all())
    notes = _check_ids(table, column, distinct, kind, whole)
    distinct = distinct.gather(distinct.cast(pl.Int64).arg_sort()) if whole else distinct.sort()
    index = column.replace_strict(
        distinct, pl.Series(np.arange(len(distinct), dtype=np.int32)), return_dtype=pl.Int32
    )
    return IdColumn(
        index.to_numpy(), Vocabulary(distinct.to_numpy().astype(np.str_), kind=kind), notes
    )


def _id_text(table: ColumnTable, name: str, kind: str) -> Any:
    """The column as text without blanks around it, "" where an id is missing."""
    import polars as pl

    column = table.frame[name]
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
    """Notes on unusual ids. Raises InputError at the first row with an id that is none."""

    def first(bad: Any) -> str | None:
        return distinct.filter(bad)[0] if bad.any() else None

    def stop(bad: str, problem: str, expected: str, fix: str) -> NoReturn:
        refuse(table, (column == bad).to_numpy(), problem, expected=expected, fix=fix)

    if first(distinct == "") is not None:
        stop("", f"the {kind} id is empty", "an id on every row", "fill it in or remove the row")
    if (bad := first(distinct.str.len_chars() > ID_LIMIT)) is not None:
        stop(
            bad,
            f"the {kind} id is {len(bad):,} characters long",
            f"at most {ID_LIMIT}",
            "check the columns and the delimiter",
        )
    if (bad := first(distinct.str.contains(DECIMAL))) is not None:
        stop(
            bad,
            f"{kind} id '{bad}' is written as a decimal number",
            "a whole number or text",
            f"write {bad.split('.')[0]}, or quote it as it is meant",
        )
    if whole and bool((distinct.str.len_chars() > 18).any()):
        _check_large(table, column, distinct, kind)
    formulas = int(distinct.str.contains(FORMULA).sum())
    if not formulas:
        return ()
    return (f"{kind} ids that start like a formula, kept as text: {formulas:,}",)


def _check_large(table: ColumnTable, column: Any, distinct: Any, kind: str) -> None:
    """Refuses a number beyond 64 bits among whole numbers, where it is an overflow or was rounded;
    among texts it is a text like any other.
    """
    import polars as pl

    beyond = distinct.cast(pl.Int64, strict=False).is_null()
    if beyond.any():
        bad = distinct.filter(beyond)[0]
        refuse(
            table,
            (column == bad).to_numpy(),
            f"{kind} id {bad} is beyond 64 bits",
            expected=f"at most {2**63 - 1}",
            fix="other programs round such a number: write ids as text",
        )


def values(table: ColumnTable, name: str, scale: tuple[float, float] | None) -> Float32Array:
    """Ratings or counts, float32 [rows]. Raises InputError for one that is missing, no number, not
    finite or outside `scale`.
    """
    import polars as pl

    column = table.frame[name]
    text = column.str.strip_chars() if column.dtype == pl.String else column
    if not (column.dtype == pl.String or column.dtype.is_numeric() or column.dtype == pl.Boolean):
        raise InputError(
            table.source,
            f"the value column '{name}' holds {column.dtype}",
            expected="numbers",
            fix="convert the column",
        )
    number = text.cast(pl.Float64, strict=False)
    missing = number.is_null()
    if missing.any():
        refuse_number(table, missing.to_numpy(), text.filter(missing)[0], "value")
    out = number.to_numpy()
    bad = ~(np.abs(out) <= LARGEST)
    if bad.any():
        refuse(
            table,
            bad,
            f"the value is {shown(text, bad)}",
            expected=f"a finite number up to {LARGEST:.3g}",
            fix="remove the row or correct it",
        )
    if scale is not None and (bad := (out < scale[0]) | (out > scale[1])).any():
        refuse(
            table,
            bad,
            f"the value {shown(text, bad)} is outside the scale",
            expected=f"{scale[0]:g} to {scale[1]:g}",
            fix="correct it or the scale",
        )
    return out.astype(np.float32)


def shown(text: Any, bad: BoolArray) -> str:
    """The first bad field of a polars column, for a message."""
    return str(text[int(np.argmax(bad))])[:40]


def refuse_number(table: ColumnTable, bad: BoolArray, text: object, what: str) -> NoReturn:
    """Raises InputError that says why the first bad field is not a number."""
    field = "" if text is None else str(text)[:40]
    if field == "":
        fix = "fill it in or remove the row"
        # The first bad row is the last one of a file without a line end at its end.
        if not table.whole and int(np.argmax(bad)) == len(bad) - 1:
            fix = "the last line has no line end: the file seems cut off"
        refuse(table, bad, f"the {what} is empty", expected="a number", fix=fix)
    if THOUSANDS.fullmatch(field):
        fix = "write it without separators between the thousands"
    elif COMMA_DECIMAL.fullmatch(field):
        fix = f"write {field.replace(',', '.')} with a decimal point"
    else:
        fix = "correct it, check which column it is, or remove the row"
    refuse(
        table,
        bad,
        f"the {what} '{field}' is not a number",
        expected="a number such as 4 or 3.5",
        fix=fix,
    )


# ---- times ---------------------------------------------------------------------------------------


class Times(NamedTuple):
    """A column of times."""

    time: Int64Array | None
    """int64 [rows] in seconds, `NO_TIME` for a row without a time; None if no row has one."""
    notes: tuple[str, ...]


def times(table: ColumnTable, name: str) -> Times:
    """The times of a column in seconds since 1970 (UTC), from seconds, milli-, micro- or
    nanoseconds (told apart by size, row by row), or from dates.

    Raises InputError for one that is negative, after 2100, or not a time. A missing time is allowed
    and counted.
    """
    import polars as pl

    column = table.frame[name]
    if column.dtype in (pl.Datetime, pl.Date):
        return _stamps(table, column, column, column.is_null().to_numpy(), ())
    if not (column.dtype == pl.String or column.dtype.is_numeric()):
        raise InputError(
            table.source,
            f"the time column '{name}' holds {column.dtype}",
            expected="seconds or dates",
            fix="convert the column",
        )
    if column.dtype == pl.String:
        column = column.str.strip_chars()
        missing = (column == "") | column.is_null()
        present = column.filter(~missing)
        pattern = _pattern(present[0]) if len(present) else None
        if pattern is not None:
            return _dates(table, column, missing.to_numpy(), pattern)
    else:
        missing = column.is_null()
    return _numbers(table, column, missing.to_numpy())


def looks_like_times(table: ColumnTable, name: str) -> bool:
    """True if a column could be times, by its first row: a date, or a number of seconds since 1973
    (or of a smaller unit).
    """
    import polars as pl

    column = table.frame[name]
    if column.dtype in (pl.Datetime, pl.Date):
        return True
    first = str(column[0]).strip()
    if first.isdigit():
        return FIRST <= int(first) <= LATEST * UNITS[-1][1]
    return column.dtype == pl.String and _pattern(first) is not None


def _pattern(text: str) -> str | None:
    import polars as pl

    sample = pl.Series([text])
    for pattern in FORMATS:
        if not _parse(sample, pattern).is_null().any():
            return pattern
    return None


def _plain_dates(column: Any, pattern: str) -> Any:
    """Dates with a blank between day and time, and with an offset from UTC that `%z` reads; without
    a final Z if the pattern has no `%z`.
    """
    if pattern.startswith("%a"):
        return column
    plain = column.str.replace(r"^(\d{4}-\d\d-\d\d)T", "${1} ")
    if "%z" not in pattern:
        return plain.str.replace("Z$", "")
    return (
        plain.str.replace("Z$", "+00:00")
        .str.replace(r"(:\d\d(?:\.\d+)?) ?([+-]\d\d)$", "${1}${2}:00")
        .str.replace(r"(:\S+) ([+-])", "${1}${2}")
    )


def _parse(column: Any, pattern: str) -> Any:
    zone = "UTC" if "%z" in pattern else None
    dates = _plain_dates(column, pattern)
    return dates.str.to_datetime(pattern, strict=False, time_unit="us", time_zone=zone)


def _dates(table: ColumnTable, column: Any, missing: BoolArray, pattern: str) -> Times:
    parsed = _parse(column, pattern)
    bad = parsed.is_null().to_numpy() & ~missing
    if bad.any():
        refuse(
            table,
            bad,
            f"the time '{shown(column, bad)}' is not a date like the first one",
            expected=f"a time such as {column.filter(~missing)[0]}",
            fix="correct it",
        )
    note = "times are dates, read as UTC"
    if "%z" in pattern:
        note = "times are dates with their offset from UTC"
    return _stamps(table, column, parsed, missing, (note,))


def _stamps(
    table: ColumnTable, column: Any, parsed: Any, missing: BoolArray, notes: tuple[str, ...]
) -> Times:
    """Seconds from a polars column of dates; one without a time zone is UTC."""
    import polars as pl

    stamps = parsed.cast(pl.Datetime("us")) if parsed.dtype == pl.Date else parsed
    seconds = stamps.dt.epoch("s").fill_null(0).to_numpy()
    _check_negative(table, column, seconds)
    _check_late(table, column, seconds > LATEST)
    return _finish(table, seconds, missing, notes)


def _numbers(table: ColumnTable, column: Any, missing: BoolArray) -> Times:
    import polars as pl

    real = column.cast(pl.Float64, strict=False)
    bad = (real.is_null() | real.is_nan()).fill_null(True).to_numpy() & ~missing
    if bad.any():
        refuse_number(table, bad, column[int(np.argmax(bad))], "time")
    size = real.fill_null(0.0).to_numpy()
    _check_negative(table, column, size)
    # -1 stands for a number with a fraction.
    exact = column.cast(pl.Int64, strict=False).fill_null(-1).to_numpy()
    return _scaled(table, column, size, exact, missing)


def _scaled(
    table: ColumnTable, column: Any, size: Any, exact: Int64Array, missing: BoolArray
) -> Times:
    """Seconds from numbers of any unit. size: the numbers as float64; exact: as int64, -1 where
    that would lose a fraction.
    """
    seconds = np.where(exact >= 0, exact, np.floor(np.minimum(size, 9e18)).astype(np.int64))
    notes = []
    known = size <= LATEST
    for unit, factor in UNITS:
        chosen = (size >= FIRST * factor) & (size <= float(LATEST) * factor) & ~known
        seconds[chosen] //= factor
        known |= chosen
        if chosen.any():
            notes.append(f"times in {unit}, read as such: {int(chosen.sum()):,} of {len(size):,}")
    _check_late(table, column, ~known)
    return _finish(table, seconds, missing, tuple(notes))


def _check_negative(table: ColumnTable, column: Any, time: Array) -> None:
    bad = time < 0
    if bad.any():
        refuse(
            table,
            bad,
            f"the time {shown(column, bad)} is before 1970",
            expected="seconds since 1970, not negative",
            fix="correct it or remove the row",
        )


def _check_late(table: ColumnTable, column: Any, bad: BoolArray) -> None:
    if bad.any():
        refuse(
            table,
            bad,
            f"the time {shown(column, bad)} is after the year 2100",
            expected="seconds since 1970",
            fix="correct it, check which column it is, or remove the row",
        )


def _finish(
    table: ColumnTable, seconds: Int64Array, missing: BoolArray, notes: tuple[str, ...]
) -> Times:
    present = ~missing
    if not present.any():
        return Times(None, ("no row has a time",))
    if table.whole is False and len(seconds) > 1:
        _refuse_cut(table, seconds, present)
    if missing.any():
        notes += (f"rows without a time: {int(missing.sum()):,} of {len(missing):,}",)
    return Times(np.where(missing, NO_TIME, seconds), notes)


def _refuse_cut(table: ColumnTable, seconds: Int64Array, present: BoolArray) -> None:
    """Refuses a file that was cut off within the digits of its last time. It looks whole, but that
    time is much smaller than the others.
    """
    last = len(seconds) - 1
    others = seconds[:-1][present[:-1]]
    plausible = len(others) and int(others.min()) >= FIRST
    if plausible and (not present[last] or seconds[last] < FIRST):
        its_time = f"its time is {seconds[last]}" if present[last] else "its time is missing"
        refuse(
            table,
            np.arange(len(seconds)) == last,
            f"the last line has no line end and {its_time}",
            expected="a whole file",
            fix="it seems cut off; get it again",
        )
