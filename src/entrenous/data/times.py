"""The conversion of a column of times to microseconds since 1970 (UTC): numbers of seconds or of
smaller units, and dates (`dates`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np

from ..core.errors import InputError
from ..core.types import BoolArray, Float64Array, Int8Array, Int64Array
from .dates import CLOCK, SHORT, YYYYMMDD, read_dates
from .interactions import BAD_TIMES, NO_TIME, SECOND
from .options import LoadOptions
from .reading import Guess
from .table import (
    COMMA_DECIMAL,
    THOUSANDS,
    ColumnTable,
    refuse,
    refuse_nested,
    refuse_number,
    shown,
)

# Numbers of seconds from 1973 to 2100, which a time may be in seconds or in a smaller unit, up to
# nanoseconds; smaller ones are read as seconds, and larger ones are a mistake.
FIRST = 100_000_000
LATEST = 4_102_444_800
NANOSECONDS = 1_000_000_000
# The share of the fields of a column that tells what it is.
MOST = 0.9
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_DATE = re.compile(
    r"\d{4}[-/]\d\d?[-/]\d\d?([T ].*)?|\d\d?([/.])\d\d?\2(\d\d){1,2}( .*)?"
    r"|[A-Z][a-z]{2} [A-Z][a-z]{2} .*"
)
# The units, and how many are in a second. They are told apart by size: no time between 1973 and
# 2100 fits two of them.
UNITS = {
    "seconds": 1,
    "milliseconds": 1_000,
    "microseconds": SECOND,
    "nanoseconds": NANOSECONDS,
}
# The seconds of the year 9999, which stands for "never" in some programs. In milliseconds these
# numbers would be a few hours of January 1978.
NEVER = (253_370_764_800, 253_402_300_800)
# The usual names of a column of days that stands beside one of times of day.
DAY_COLUMNS = ("date", "day")
CLOCK_ALONE = rf"^{CLOCK}$"
# A number whose digits are those of a day: 20191115, or 201911150855, or 20191115085522.
DIGITS = (
    r"^(19|20)[0-9]{2}(0[1-9]|1[0-2])(0[1-9]|[12][0-9]|3[01])"
    r"(([01][0-9]|2[0-3])[0-5][0-9]([0-5][0-9])?)?$"
)
EXPECTED = (
    "seconds or smaller units since 1970, or a date such as 2019-11-15 or"
    " 2019-11-15T08:55:22.5+01:00"
)
# The fault of a row: none, no time, no time that can be read, before 1970, after LATEST, without an
# offset from UTC among others that have one.
FINE, MISSING, UNREADABLE, NEGATIVE, LATE, LOCAL = range(6)


class Times(NamedTuple):
    """A column of times."""

    time: Int64Array | None
    """Microseconds since 1970 (UTC), int64 [rows], `NO_TIME` for a row without a time; None if no
    row has one.
    """
    notes: tuple[str, ...]
    """The form of the times, and the number of missing ones."""
    guesses: tuple[Guess, ...] = ()
    """The assumptions on columns and units."""


class Read(NamedTuple):
    """The content of n rows of a column of times."""

    micros: Int64Array
    """Microseconds since 1970, int64 [n]; of no meaning where `fault` is not FINE."""
    fault: Int8Array
    """int8 [n], FINE or a fault."""
    notes: tuple[str, ...]
    """The forms that were found."""
    guesses: tuple[Guess, ...] = ()
    """The assumptions on their units."""


def times(table: ColumnTable, name: str, options: LoadOptions) -> Times:
    """Returns the times of a column in microseconds since 1970 (UTC), from seconds, milli-, micro-
    or nanoseconds (told apart by size, row by row), or from dates.

    A missing time is allowed and counted. Raises InputError for one that is negative, after 2100,
    or not a time, unless `options.bad_times` takes it as missing; and for a column that can be read
    in two ways.
    """
    column = _column(table, name)
    micros, fault, notes, guesses = _read(table, column, options.time_form)
    if guesses and options.time is None:
        _check_beside_days(table, name, micros, fault)
    bad = fault > MISSING
    if bad.any():
        if options.bad_times == "refuse":
            _refuse(table, column, fault)
        row = int(np.argmax(bad))
        notes += (
            f"{BAD_TIMES}: {int(bad.sum()):,} of {len(bad):,}, the"
            f" first '{shown(column, bad)}' at {table.where(row)}",
        )
    missing = fault != FINE
    if missing.all():
        return Times(None, (*notes, "no row has a time"), guesses)
    if not table.whole:
        _check_cut(table, micros, missing)
    if missing.any():
        notes += (f"rows without a time: {int(missing.sum()):,} of {len(missing):,}",)
        # A multiple of every unit, so that it changes no note on the unit.
        micros[missing] = 0
    notes += _resolution(micros)
    micros[missing] = NO_TIME
    return Times(micros, notes, guesses)


def looks_like_times(table: ColumnTable, name: str) -> bool:
    """Returns True if a column could be times, by its first row: a date, or a number of seconds
    since 1973 (or of a smaller unit).
    """
    import polars as pl

    column = table.frame[name].head(1)
    if column.dtype in (pl.Datetime, pl.Date):
        return True
    return may_be_times([str(column[0]).strip()])


def _resolution(micros: Int64Array) -> tuple[str, ...]:
    """Returns a note on times that have fractions of a second, and on times that are whole days; no
    note on whole seconds.
    """
    if (micros % SECOND).any():
        finest = "microsecond" if (micros % 1_000).any() else "millisecond"
        return (f"times have fractions of a second, which are kept to the {finest}",)
    # The first thousand tell most columns apart, without a look at the others.
    day = 86_400 * SECOND
    if (micros[:1000] % day).any() or (micros % day).any() or not micros.any():
        return ()
    return ("times are whole days, so that the rows of one day have equal times",)


# ---- what fields look like -----------------------------------------------------------------------


def is_number(field: str) -> bool:
    """Returns True if a field of a text file is a number.

    >>> is_number("3.5"), is_number("kunde")
    (True, False)
    """
    return _NUMBER.fullmatch(field.strip()) is not None


def is_date(field: str) -> bool:
    """Returns True if a field looks like a date.

    >>> is_date("2014-04-07T10:51:09.277Z"), is_date("20140407")
    (True, False)
    """
    return _DATE.fullmatch(field.strip()) is not None


def may_be_times(column: Sequence[str]) -> bool:
    """Returns True if nearly all fields are dates or numbers of seconds since 1973, or of a smaller
    unit.
    """
    return most(is_date, column) or most(_is_late, column)


def _is_late(field: str) -> bool:
    return is_number(field) and FIRST <= float(field) <= LATEST * NANOSECONDS


def most(test: Callable[[str], bool], column: Sequence[str]) -> bool:
    """Returns True if nearly all fields that are not empty pass a test: a single bad field is named
    later, with its line.
    """
    present = [field for field in column if field]
    return len(present) > 0 and sum(map(test, present)) >= MOST * len(present)


# ---- the column ----------------------------------------------------------------------------------


def _column(table: ColumnTable, name: str) -> Any:
    """Returns the column of times. Raises InputError for one of another type."""
    import polars as pl

    refuse_nested(table, name, "time")
    column = table.frame[name]
    if column.dtype == pl.String:
        column = column.str.strip_chars()
    if column.dtype.is_decimal():
        column = column.cast(pl.String)
    if _is_clock(column):
        day = next(iter(_day_columns(table)), "DAYS")
        raise InputError(
            table.source,
            f"the time column '{name}' holds times of day without a day",
            expected=EXPECTED,
            fix=f"take the days, time='{day}' (--load time={day}); or write both in one"
            " column, or leave times out with time='' (--load time=)",
        )
    kinds = (pl.Datetime, pl.Date, pl.String)
    if not (column.dtype in kinds or column.dtype.is_numeric()):
        raise InputError(
            table.source,
            f"the time column '{name}' holds {column.dtype}",
            expected="seconds or dates",
            fix="convert the column",
        )
    return column


def _day_columns(table: ColumnTable) -> list[str]:
    """Returns the columns with a usual name of days."""
    return [name for name in table.frame.columns if name.lower() in DAY_COLUMNS]


def _check_beside_days(table: ColumnTable, name: str, micros: Int64Array, fault: Int8Array) -> None:
    """Raises InputError for small numbers in a column `name` next to one of days, of which they may
    be the times of day: 49500 or 134500.
    """
    days = [day for day in _day_columns(table) if day != name]
    if not days or (micros[fault == FINE] >= FIRST * SECOND).any():
        return
    raise InputError(
        table.source,
        f"the column '{name}' holds small numbers, which may be seconds since 1970, or times of day"
        f" of the days in '{days[0]}'",
        expected="the name of the time column",
        fix=f"say time='{days[0]}' for the days alone (--load time={days[0]}), or time='{name}'",
    )


def _is_clock(column: Any) -> bool:
    """Returns True for a column of times of day, by its first text."""
    import polars as pl

    if column.dtype == pl.Time:
        return True
    if column.dtype != pl.String:
        return False
    # The first thousand rows, which rarely all lack a time.
    present = column.head(1000).str.strip_chars()
    first = present.filter(present != "").head(1)
    return bool(first.str.contains(CLOCK_ALONE).any())


# ---- the forms -----------------------------------------------------------------------------------


def _read(table: ColumnTable, column: Any, form: str | None) -> Read:
    import polars as pl

    if column.dtype in (pl.Datetime, pl.Date):
        return _stamps(column)
    missing = column.is_null().to_numpy()
    if column.dtype == pl.String:
        missing |= (column == "").fill_null(False).to_numpy()
    if form is None:
        _ask_about_digits(table, column, missing)
    if form == YYYYMMDD:
        column = column.cast(pl.String)
        fault = np.full(len(column), UNREADABLE, np.int8)
        read = Read(np.zeros(len(column), np.int64), fault, ())
    else:
        read = _numbers(column, form)
    read.fault[missing] = MISSING
    rest = np.flatnonzero(read.fault == UNREADABLE)
    if not len(rest) or column.dtype != pl.String:
        return read
    return _with_dates(column, rest, read, form)


def _stamps(column: Any) -> Read:
    """Reads a column of dates; a date without a time zone is UTC."""
    import polars as pl

    stamps = column
    if column.dtype == pl.Date:
        stamps = column.cast(pl.Datetime("us"))
    # A missing stamp is 0 here, and no fault of its own.
    micros = stamps.dt.epoch("us").fill_null(0).to_numpy().copy()
    fault = _outside(micros, np.zeros(len(micros), np.int8))
    fault[column.is_null().to_numpy()] = MISSING
    return Read(micros, fault, ())


def _outside(micros: Int64Array, fault: Int8Array) -> Int8Array:
    """Returns the faults with those of times before 1970 and after LATEST."""
    fault[(fault == FINE) & (micros < 0)] = NEGATIVE
    fault[(fault == FINE) & (micros > LATEST * SECOND)] = LATE
    return fault


def _with_dates(column: Any, rest: Int64Array, read: Read, form: str | None) -> Read:
    """Reads the rows `rest`, int64 [m], which are no numbers, as dates."""
    dates = read_dates(column.gather(rest), form)
    at = rest[dates.read]
    read.micros[at] = dates.micros[dates.read]
    read.fault[at] = FINE
    if dates.shifted.any():
        read.fault[rest[dates.read & ~dates.zoned]] = LOCAL
    zoned = int((dates.read & dates.zoned).sum())
    several = len(at) - zoned
    notes: tuple[str, ...] = ()
    if zoned and several:
        notes = (
            f"times are dates: {zoned:,} with their offset from UTC, {several:,} without, read as"
            " UTC",
        )
    elif zoned:
        notes = ("times are dates with their offset from UTC",)
    elif several:
        notes = ("times are dates, read as UTC",)
    days = int((dates.read & dates.days).sum())
    if 0 < days < len(at):
        notes += (f"dates without a time of day, read as midnight: {days:,} of {len(at):,}",)
    numbers = int((read.fault == FINE).sum()) - len(at)
    if numbers and len(at):
        notes += (f"times are a mix of dates, {len(at):,}, and of numbers, {numbers:,}",)
    return read._replace(fault=_outside(read.micros, read.fault), notes=(*read.notes, *notes))


def _numbers(column: Any, form: str | None) -> Read:
    """Reads the rows that are numbers. form: the name of a unit, or another form."""
    import polars as pl

    number = column.cast(pl.Int64, strict=False)
    real = column.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy()
    exact = number.is_not_null().to_numpy()
    if column.dtype.is_float():
        exact = np.zeros(len(column), np.bool_)
    whole = number.fill_null(0).to_numpy().copy()
    # Most columns are of seconds alone, which one look at the extremes tells.
    if form is None and exact.all() and whole.min() >= FIRST and whole.max() <= LATEST:
        return Read(whole * SECOND, np.zeros(len(whole), np.int8), ())
    # These are no whole numbers of 64 bits: 1573804522.5, 1.57e9, a number beyond all times. Of
    # seconds and milliseconds until 2100 a float64 leaves an error below half a microsecond.
    odd = ~exact & ~np.isnan(real)
    bounded = np.nan_to_num(real[odd]).clip(-9e18, 9e18)
    whole[odd] = np.floor(bounded)
    fraction = np.zeros(len(whole))
    fraction[odd] = bounded - np.floor(bounded)
    read = _scaled(whole, fraction, real, form)
    notes = list(read.notes)
    if column.dtype == pl.Float32:
        notes.append(
            "times are 32-bit floats, in which times of today are 64 seconds or more apart"
        )
    powers = 0
    if column.dtype == pl.String:
        powers = int(column.filter(odd).str.contains("[eE]").sum())
    if powers:
        notes.append(f"times written with a power of ten, which often lacks digits: {powers:,}")
    return read._replace(notes=tuple(notes))


def _scaled(
    whole: Int64Array, fraction: Float64Array, real: Float64Array, form: str | None
) -> Read:
    """Reads numbers, each of the unit that its size tells, or all of the unit `form`.

    whole, fraction: the numbers; real: the same as float64 [n], NaN where a row has none.
    """
    fault = np.where(np.isnan(real), np.int8(UNREADABLE), np.int8(FINE))
    fault[real < 0] = NEGATIVE
    micros = np.zeros(len(whole), np.int64)
    left = fault == FINE
    count = int(left.sum())
    notes = []
    units = UNITS
    if form in UNITS:
        units = {form: UNITS[form]}
    for unit, of_a_second in units.items():
        chosen = left & (real <= float(LATEST) * of_a_second)
        if form is None and unit != "seconds":
            chosen &= real >= float(FIRST) * of_a_second
            never = real / (of_a_second // 1_000)
            chosen &= (never < NEVER[0]) | (never >= NEVER[1])
        if not chosen.any():
            continue
        if of_a_second > SECOND:
            micros[chosen] = whole[chosen] // (of_a_second // SECOND)
        else:
            each = SECOND // of_a_second
            rest = np.rint(fraction[chosen] * each)
            micros[chosen] = whole[chosen] * each + rest.astype(np.int64)
        left &= ~chosen
        if unit != "seconds":
            kept = "cut to microseconds" if unit == "nanoseconds" else "read as such"
            notes.append(f"times in {unit}, {kept}: {int(chosen.sum()):,} of {count:,}")
    fault[left] = LATE
    small = (fault == FINE) & (micros < FIRST * SECOND)
    guesses: tuple[Guess, ...] = ()
    if form is None and small.any():
        assumed = (
            f"numbers below {FIRST:,} are seconds, and so times before 1973, in"
            f" {int(small.sum()):,} of {count:,} rows"
        )
        guesses = (Guess(assumed, "time_form=seconds"),)
    return Read(micros, fault, tuple(notes), guesses)


# ---- days as digits ------------------------------------------------------------------------------


def _ask_about_digits(table: ColumnTable, column: Any, missing: BoolArray) -> None:
    """Raises InputError if every number of a column has the digits of a day."""
    import polars as pl

    if missing.all() or not (column.dtype == pl.String or column.dtype.is_integer()):
        return
    row = int(np.argmin(missing))
    first = str(column[row])
    # One number tells most columns apart, without a look at the others.
    if re.match(DIGITS, first) is None:
        return
    present = column.filter(~missing).cast(pl.String)
    if not present.str.contains(DIGITS).all():
        return
    unit = "seconds" if len(first) == len("20191115") else "milliseconds"
    raise InputError(
        table.where(row),
        f"the time {first} and every other of the column may be a day in digits, or a number of"
        f" {unit} since 1970",
        expected="a form of the times",
        fix=f"say time_form='{YYYYMMDD}' or '{unit}' (--load time_form={YYYYMMDD})",
    )


# ---- faults --------------------------------------------------------------------------------------


def _refuse(table: ColumnTable, column: Any, fault: Int8Array) -> NoReturn:
    """Raises BadRows for the rows with the fault of the first row whose time cannot be used."""
    bad = fault > MISSING
    # The other faults are refused once these rows are left out.
    kind = int(fault[np.argmax(bad)])
    bad = fault == kind
    text = shown(column, bad)
    others = (
        "correct it, check which column it is, or take such times as missing with"
        " bad_times='missing' (--load bad_times=missing)"
    )
    if not table.whole and int(np.argmax(bad)) == len(bad) - 1:
        others = "the last line has no line end: the file seems cut off; get it again"
    if kind == LOCAL:
        problem = f"the time '{text}' has no offset from UTC, which others of the column have"
        expected = "an offset on all times, such as 2020-01-31T10:00:00+00:00, or on none"
        reason = "the time has no offset from UTC"
        refuse(table, bad, problem, expected=expected, fix=others, reason=reason)
    if kind == UNREADABLE:
        if THOUSANDS.fullmatch(text) or COMMA_DECIMAL.fullmatch(text):
            refuse_number(table, bad, text, "time")
        if re.match(SHORT, text):
            days = column.filter(bad).str.contains(r"^(1[3-9]|[23][0-9])[^0-9]")
            first = "day-first" if days.any() else "month-first"
            others = (
                "say whether the day or the month comes first: time_form='day-first' or"
                f" 'month-first' (--load time_form={first}); two digits are a year from 1970 on"
            )
        problem = f"the time '{text}' cannot be read"
        reason = "the time cannot be read"
        refuse(table, bad, problem, expected=EXPECTED, fix=others, reason=reason)
    expected = "seconds since 1970"
    reason = "the time is after the year 2100"
    if kind == NEGATIVE:
        expected = "seconds since 1970, not negative"
        reason = "the time is before 1970"
    problem = reason.replace("the time", f"the time {text}")
    refuse(table, bad, problem, expected=expected, fix=others, reason=reason)


def _check_cut(table: ColumnTable, micros: Int64Array, missing: BoolArray) -> None:
    """Raises InputError for a file that was cut off within the digits of its last time. It looks
    whole, but that time is missing or much smaller than all others.
    """
    last = len(micros) - 1
    # Compared with the others, since data may have small times by design.
    others = micros[:last][~missing[:last]]
    plausible = len(others) and others.min() >= FIRST * SECOND
    if plausible and (missing[last] or micros[last] < FIRST * SECOND):
        its_time = f"its time is {micros[last] / SECOND:g}"
        if missing[last]:
            its_time = "its time is missing"
        raise InputError(
            table.where(last),
            f"the last line has no line end and {its_time}",
            expected="a whole file",
            fix="it seems cut off; get it again",
        )
