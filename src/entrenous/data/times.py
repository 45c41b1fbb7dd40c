"""The conversion of a column of times: numbers of seconds or of smaller units, and dates."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..core.errors import InputError
from ..core.types import Array, BoolArray, Int64Array
from .interactions import NO_TIME
from .table import ColumnTable, refuse, refuse_number, shown

# 2100-01-01; a later time is a mistake.
LATEST = 4_102_444_800
# The forms of a date, the first that fits is taken; the last one is that of Twitter and Foursquare.
FORMATS = (
    "%Y-%m-%d %H:%M:%S",
    "%Y-%m-%d %H:%M:%S%.f",
    "%Y-%m-%d",
    "%Y-%m-%d %H:%M",
    "%Y-%m-%d %H:%M:%S%.f%z",
    "%Y-%m-%d %H:%M%z",
    "%a %b %d %H:%M:%S %z %Y",
)
# The units that are told apart by size, and how many are in a second: no time between 1973 and 2100
# fits two of them.
UNITS = (("milliseconds", 1_000), ("microseconds", 1_000_000), ("nanoseconds", 1_000_000_000))
# 1973: smaller numbers are read as seconds.
FIRST = 100_000_000


class Times(NamedTuple):
    """A column of times."""

    time: Int64Array | None
    """Seconds since 1970 (UTC), int64 [rows], `NO_TIME` for a row without a time; None if no row
    has one.
    """
    notes: tuple[str, ...]
    """The form of the times, and the number of missing ones."""


def times(table: ColumnTable, name: str) -> Times:
    """Returns the times of a column in seconds since 1970 (UTC), from seconds, milli-, micro- or
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
    if column.dtype != pl.String:
        return _numbers(table, column, column.is_null().to_numpy())
    column = column.str.strip_chars()
    missing = (column == "") | column.is_null()
    present = column.filter(~missing)
    # The first time tells the form of all.
    pattern = _pattern(present[0]) if len(present) else None
    if pattern is None:
        return _numbers(table, column, missing.to_numpy())
    return _dates(table, column, missing.to_numpy(), pattern)


def looks_like_times(table: ColumnTable, name: str) -> bool:
    """Returns True if a column could be times, by its first row: a date, or a number of seconds
    since 1973 (or of a smaller unit).
    """
    import polars as pl

    column = table.frame[name]
    if column.dtype in (pl.Datetime, pl.Date):
        return True
    first = str(column[0]).strip()
    if first.isdigit():
        _, nanoseconds = UNITS[-1]
        return FIRST <= int(first) <= LATEST * nanoseconds
    return column.dtype == pl.String and _pattern(first) is not None


def _pattern(text: str) -> str | None:
    """Returns the format of a date; None if it has none of FORMATS."""
    import polars as pl

    sample = pl.Series([text])
    for pattern in FORMATS:
        if not _parse(sample, pattern).is_null().any():
            return pattern
    return None


def _plain_dates(column: Any, pattern: str) -> Any:
    """Returns dates with a blank between day and time, and with an offset from UTC that `%z` reads;
    without a final Z if the pattern has no `%z`.
    """
    if pattern.startswith("%a"):
        return column
    dates = column.str.replace(r"^(\d{4}-\d\d-\d\d)T", "${1} ")
    if "%z" not in pattern:
        return dates.str.replace("Z$", "")
    dates = dates.str.replace("Z$", "+00:00")
    # An offset in hours alone gets its minutes, ...
    dates = dates.str.replace(r"(:\d\d(?:\.\d+)?) ?([+-]\d\d)$", "${1}${2}:00")
    # ... and a blank before an offset goes.
    return dates.str.replace(r"(:\S+) ([+-])", "${1}${2}")


def _parse(column: Any, pattern: str) -> Any:
    """Returns the dates of a column of text; null where the pattern does not fit."""
    # Offsets are applied, so that all times are in UTC.
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
    """Returns seconds from the dates `parsed` of a polars column; a date without a time zone is
    UTC.
    """
    import polars as pl

    stamps = parsed.cast(pl.Datetime("us")) if parsed.dtype == pl.Date else parsed
    seconds = stamps.dt.epoch("s").fill_null(0).to_numpy()
    _check_negative(table, column, seconds)
    _check_late(table, column, seconds > LATEST)
    return _finish(table, seconds, missing, notes)


def _numbers(table: ColumnTable, column: Any, missing: BoolArray) -> Times:
    import polars as pl

    real = column.cast(pl.Float64, strict=False)
    no_number = (real.is_null() | real.is_nan()).fill_null(True)
    bad = no_number.to_numpy() & ~missing
    if bad.any():
        refuse_number(table, bad, column[int(np.argmax(bad))], "time")
    size = real.fill_null(0.0).to_numpy()
    _check_negative(table, column, size)
    # Float64 cannot hold every nanosecond, so whole numbers are read as such. -1 stands for a
    # number with a fraction.
    exact = column.cast(pl.Int64, strict=False).fill_null(-1).to_numpy()
    return _scaled(table, column, size, exact, missing)


def _scaled(
    table: ColumnTable, column: Any, size: Any, exact: Int64Array, missing: BoolArray
) -> Times:
    """Returns seconds from numbers of any unit. size: the numbers as float64; exact: as int64, -1
    where that would lose a fraction.
    """
    # The bound keeps a huge number within int64; it is refused below.
    rounded = np.floor(np.minimum(size, 9e18)).astype(np.int64)
    seconds = np.where(exact >= 0, exact, rounded)
    notes = []
    # Small numbers are seconds already.
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
    """Returns the times with NO_TIME where they are missing. Refuses a file that was cut off."""
    if missing.all():
        return Times(None, ("no row has a time",))
    if not table.whole:
        _check_cut(table, seconds, missing)
    if missing.any():
        notes += (f"rows without a time: {int(missing.sum()):,} of {len(missing):,}",)
    return Times(np.where(missing, NO_TIME, seconds), notes)


def _check_cut(table: ColumnTable, seconds: Int64Array, missing: BoolArray) -> None:
    """Raises InputError for a file that was cut off within the digits of its last time. It looks
    whole, but that time is missing or much smaller than all others.
    """
    last = len(seconds) - 1
    # Compared with the others, since data may have small times by design.
    others = seconds[:last][~missing[:last]]
    plausible = len(others) and others.min() >= FIRST
    if plausible and (missing[last] or seconds[last] < FIRST):
        its_time = "its time is missing" if missing[last] else f"its time is {seconds[last]}"
        raise InputError(
            table.where(last),
            f"the last line has no line end and {its_time}",
            expected="a whole file",
            fix="it seems cut off; get it again",
        )
