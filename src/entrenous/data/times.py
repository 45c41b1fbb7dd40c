"""A column of times to seconds since 1970 (UTC)."""

from __future__ import annotations

from typing import Any, NamedTuple, NoReturn

import numpy as np

from ..core.errors import InputError
from ..core.types import BoolArray, Int64Array
from .interactions import NO_TIME
from .table import ColumnTable, refuse, refuse_number, shown

LATEST = 4_102_444_800  # 2100-01-01; a later time is a mistake
FORMATS = (
    "%Y-%m-%d %H:%M:%S",
    "%Y-%m-%d %H:%M:%S%.f",
    "%Y-%m-%d",
    "%Y-%m-%d %H:%M",
    "%Y-%m-%d %H:%M:%S%.f%z",
    "%Y-%m-%d %H:%M%z",
    "%a %b %d %H:%M:%S %z %Y",
)  # the last is Twitter's and Foursquare's
# by size: no time between 1973 and 2100 fits two units
UNITS = (("milliseconds", 1_000), ("microseconds", 1_000_000), ("nanoseconds", 1_000_000_000))
FIRST = 100_000_000  # 1973: smaller numbers are read as seconds


class Times(NamedTuple):
    """A column of times. time: int64 [rows] in seconds, `NO_TIME` where a row has none; None if no
    row has one.
    """

    time: Int64Array | None
    notes: tuple[str, ...]


def times(table: ColumnTable, name: str) -> Times:
    """The times of a column: seconds, milli-, micro- or nanoseconds (told apart by size, row by
    row), or dates in UTC.

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
        some = column.filter(~missing)
        if len(some) and (pattern := _pattern(some[0])) is not None:
            return _dates(table, column, missing.to_numpy(), pattern)
    else:
        missing = column.is_null()
    return _numbers(table, column, missing.to_numpy())


def looks_like_times(table: ColumnTable, name: str) -> bool:
    """Whether a column could be times, by its first row: a date, or a number of seconds since 1973
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
    return next(
        (pattern for pattern in FORMATS if not _parse(sample, pattern).is_null().any()), None
    )


def _plain_dates(column: Any, pattern: str) -> Any:
    """Dates with a blank between day and time, and with an offset from UTC as `%z` reads it; none
    of UTC itself where there is no `%z`.
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
    plain = _plain_dates(column, pattern)
    return plain.str.to_datetime(
        pattern, strict=False, time_unit="us", time_zone="UTC" if "%z" in pattern else None
    )


def _dates(table: ColumnTable, column: Any, missing: BoolArray, pattern: str) -> Times:
    parsed = _parse(column, pattern)
    bad = parsed.is_null().to_numpy() & ~missing
    if bad.any():
        shown = column[int(np.argmax(bad))][:40]
        refuse(
            table,
            bad,
            f"the time '{shown}' is not a date like the first one",
            expected=f"a time such as {column.filter(~missing)[0]}",
            fix="correct it",
        )
    note = (
        "times are dates with their offset from UTC"
        if "%z" in pattern
        else "times are dates, read as UTC"
    )
    return _stamps(table, column, parsed, missing, (note,))


def _stamps(
    table: ColumnTable, column: Any, parsed: Any, missing: BoolArray, notes: tuple[str, ...]
) -> Times:
    """Seconds from a polars column of dates; one without a time zone is UTC."""
    import polars as pl

    stamps = parsed.cast(pl.Datetime("us")) if parsed.dtype == pl.Date else parsed
    seconds = stamps.dt.epoch("s").fill_null(0).to_numpy()
    if (bad := seconds < 0).any():
        _refuse_negative(table, column, bad)
    if (bad := seconds > LATEST).any():
        _refuse_late(table, column, bad)
    return _finish(table, seconds, missing, notes)


def _numbers(table: ColumnTable, column: Any, missing: BoolArray) -> Times:
    import polars as pl

    real = column.cast(pl.Float64, strict=False)
    bad = (real.is_null() | real.is_nan()).fill_null(True).to_numpy() & ~missing
    if bad.any():
        refuse_number(table, bad, column[int(np.argmax(bad))], "time")
    size = real.fill_null(0.0).to_numpy()
    if (bad := size < 0).any():
        _refuse_negative(table, column, bad)
    exact = column.cast(pl.Int64, strict=False).fill_null(-1).to_numpy()  # -1: has a fraction
    return _scaled(table, column, size, exact, missing)


def _scaled(
    table: ColumnTable, column: Any, size: Any, exact: Int64Array, missing: BoolArray
) -> Times:
    """Seconds from numbers of any unit."""
    whole = np.where(exact >= 0, exact, np.floor(np.minimum(size, 9e18)).astype(np.int64))
    seconds, notes, known = whole.copy(), [], size <= LATEST
    for unit, factor in UNITS:
        chosen = (size >= FIRST * factor) & (size <= float(LATEST) * factor) & ~known
        seconds[chosen] //= factor
        known |= chosen
        if chosen.any():
            notes.append(f"times in {unit}, read as such: {int(chosen.sum()):,} of {len(size):,}")
    if not known.all():
        _refuse_late(table, column, ~known)
    return _finish(table, seconds, missing, tuple(notes))


def _refuse_negative(table: ColumnTable, column: Any, bad: BoolArray) -> NoReturn:
    problem = f"the time {shown(column, bad)} is before 1970"
    refuse(
        table,
        bad,
        problem,
        expected="seconds since 1970, not negative",
        fix="correct it or remove the row",
    )


def _refuse_late(table: ColumnTable, column: Any, bad: BoolArray) -> NoReturn:
    problem = f"the time {shown(column, bad)} is after the year 2100"
    refuse(
        table,
        bad,
        problem,
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
    """A file that ends within the digits of its last time looks whole; the time itself gives it
    away.
    """
    last, others = len(seconds) - 1, seconds[:-1][present[:-1]]
    plausible = len(others) and int(others.min()) >= FIRST
    if plausible and (not present[last] or seconds[last] < FIRST):
        bad = np.arange(len(seconds)) == last
        shown = f"its time is {seconds[last]}" if present[last] else "its time is missing"
        refuse(
            table,
            bad,
            f"the last line has no line end and {shown}",
            expected="a whole file",
            fix="it seems cut off; get it again",
        )
