"""Dates in text to microseconds since 1970 (UTC), row by row: the year first, the month by name, or
day and month as numbers in front of the year, whose order the whole column decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ..core.errors import InputError
from ..core.types import Array, BoolArray, Int64Array
from .interactions import SECOND
from .table import ColumnTable

CLOCK = (
    r"(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})"
    r"(?::(?P<second>[0-9]{2})(?:[.,](?P<fraction>[0-9]+))?)?"
    r"(?: ?(?P<half>[AaPp])\.?[Mm]\.?)?"
)
ZONE = r"(?: ?(?P<zone>[Zz]|UTC|GMT|[+-][0-9]{2}(?::?[0-9]{2})?))?"
# A day alone is midnight.
BEHIND = rf"(?:(?:T|,? +){CLOCK}{ZONE})?$"
WEEKDAY = r"(?:[A-Za-z]{3,9},? +)?"
NAME = r"(?P<name>[A-Za-z]{3,9})\.?"
# Only a column tells which of the first two numbers is the day.
SHORT = r"^(?P<one>[0-9]{1,2})[-/. ](?P<two>[0-9]{1,2})(?:[-/.]|,? )(?P<year>[0-9]{4})" + BEHIND
# The forms of dates. No text fits two of them.
FORMS = (
    r"^(?P<year>[0-9]{4})[-/.](?P<month>[0-9]{1,2})[-/.](?P<day>[0-9]{1,2})" + BEHIND,
    r"^(?P<year>[0-9]{4})(?P<month>[0-9]{2})(?P<day>[0-9]{2})" + BEHIND,
    SHORT,
    rf"^{WEEKDAY}(?P<day>[0-9]{{1,2}})[- .]+{NAME}[- ,]+(?P<year>[0-9]{{4}})" + BEHIND,
    rf"^{WEEKDAY}{NAME} +(?P<day>[0-9]{{1,2}}),? +(?P<year>[0-9]{{4}})" + BEHIND,
    # The form of Twitter and Foursquare.
    rf"^{WEEKDAY}{NAME} +(?P<day>[0-9]{{1,2}}) {CLOCK}{ZONE} (?P<year>[0-9]{{4}})$",
)
MONTHS = "january february march april may june july august september october november december"
# Rows at once: the parts of a date take ten times the memory of its number.
CHUNK = 1 << 20


class Dates(NamedTuple):
    """The dates of n rows."""

    micros: Int64Array
    """Microseconds since 1970 (UTC), int64 [n]; 0 for a text that is no date."""
    read: BoolArray
    """bool [n], False for a text that is no date."""
    zoned: BoolArray
    """bool [n], True where the text names its offset from UTC, be it UTC itself."""
    shifted: BoolArray
    """bool [n], True where it names another offset than none."""
    days: BoolArray
    """bool [n], True where the text has no time of day."""
    notes: tuple[str, ...]
    """The order of day and month, where the column decided it."""


def read_dates(table: ColumnTable, texts: Any, rows: Int64Array, form: str | None) -> Dates:
    """Returns the dates in a polars column of text without missing values.

    rows: the row of the table of each text, int64 [n]. form: `month-first` or `day-first` decides
    the order of day and month; otherwise the column does, by a number above 12. Raises InputError
    for a column that can be read in both orders, or in neither.
    """
    day_first = form == "day-first"
    notes: tuple[str, ...] = ()
    if form not in ("day-first", "month-first") and texts.str.contains(SHORT).any():
        day_first, notes = _order(table, texts, rows)
    read, zoned, shifted, days = np.zeros((4, len(texts)), np.bool_)
    dates = Dates(np.zeros(len(texts), np.int64), read, zoned, shifted, days, notes)
    for start, chunk in _chunks(texts):
        left = np.ones(len(chunk), np.bool_)
        for pattern in FORMS:
            fits = chunk.str.contains(pattern).to_numpy() & left
            if fits.any():
                parts = chunk.filter(fits).str.extract_groups(pattern).struct.unnest()
                at = start + np.flatnonzero(fits)
                dates.micros[at], dates.read[at] = _moments(parts, day_first)
                dates.zoned[at] = _present(parts, "zone")
                dates.shifted[at] = _offset(parts["zone"])[0] != 0
                dates.days[at] = ~_present(parts, "hour")
                left &= ~fits
            if not left.any():
                break
    return dates


def _chunks(texts: Any) -> Iterator[tuple[int, Any]]:
    for start in range(0, len(texts), CHUNK):
        yield start, texts.slice(start, CHUNK)


def _order(table: ColumnTable, texts: Any, rows: Int64Array) -> tuple[bool, tuple[str, ...]]:
    """Returns True if the day comes first in the dates of the form SHORT, and a note on it."""
    day_at = month_at = differs_at = -1
    for start, chunk in _chunks(texts):
        one = _whole(chunk.str.extract(SHORT, 1))
        two = _whole(chunk.str.extract(SHORT, 2))
        if day_at < 0:
            day_at = _first(one > 12, start)
        if month_at < 0:
            month_at = _first(two > 12, start)
        if differs_at < 0:
            differs_at = _first(one != two, start)
    if day_at >= 0 and month_at >= 0:
        later = max(day_at, month_at)
        earlier = min(day_at, month_at)
        which = "day" if later == day_at else "month"
        other = "month" if later == day_at else "day"
        raise InputError(
            table.where(int(rows[later])),
            f"the date '{_cut(texts[later])}' has its {which} first, '{_cut(texts[earlier])}' at"
            f" {table.where(int(rows[earlier])).rpartition(':')[2]} its {other}",
            expected="one order of day and month",
            fix="write dates as 2019-11-15, or say time_form='day-first' or 'month-first' and"
            " bad_times='missing' (--load time_form=day-first --load bad_times=missing)",
        )
    if day_at >= 0:
        note = f"dates have the day first: '{_cut(texts[day_at])}' cannot be read otherwise"
        return True, (note,)
    if month_at >= 0:
        note = f"dates have the month first: '{_cut(texts[month_at])}' cannot be read otherwise"
        return False, (note,)
    if differs_at < 0:
        # 01/01/2019 and 02/02/2019 are the same in both orders.
        return False, ()
    text = texts[differs_at]
    readings = [_iso_day(text, day_first=day_first) for day_first in (False, True)]
    raise InputError(
        table.where(int(rows[differs_at])),
        f"the date '{_cut(text)}' can be read as {readings[0]} or {readings[1]}, and no date of the"
        " column decides it",
        expected="an order of day and month",
        fix="say time_form='month-first' or 'day-first' (--load time_form=month-first)",
    )


def _first(marked: BoolArray, start: int) -> int:
    """Returns the first marked position, counted from `start` on; -1 if there is none."""
    if marked.any():
        return start + int(np.argmax(marked))
    return -1


def _cut(text: str) -> str:
    return text[:40]


def _iso_day(text: str, *, day_first: bool) -> str:
    import polars as pl

    parts = pl.Series([text]).str.extract_groups(SHORT).struct.unnest()
    micros, _ = _moments(parts, day_first)
    return str(micros.astype("datetime64[us]").astype("datetime64[D]")[0])


def _present(parts: Any, name: str) -> BoolArray:
    """Marks the rows in which the text has the part `name`, bool [n]."""
    present: BoolArray = parts[name].is_not_null().to_numpy()
    return present


def _whole(texts: Any) -> Int64Array:
    """Returns numbers in text, int64 [n]; 0 where there is none."""
    import polars as pl

    number: Int64Array = texts.cast(pl.Int64, strict=False).fill_null(0).to_numpy()
    return number


def _moments(parts: Any, day_first: bool) -> tuple[Int64Array, BoolArray]:
    """Returns microseconds since 1970, int64 [n], 0 for a date or time of day that does not exist;
    and the rows where it exists, bool [n]. parts: the named groups of a form, text or null.
    """
    months = (_whole(parts["year"]) - 1970) * 12
    month, day = _month_and_day(parts, day_first)
    exists = (month >= 1) & (month <= 12)
    months += np.where(exists, month, 1) - 1
    start = _days(months)
    exists &= (day >= 1) & (day <= _days(months + 1) - start)
    seconds, on_clock = _clock(parts)
    offset, in_zone = _offset(parts["zone"])
    exists &= on_clock & in_zone
    seconds += (start + day - 1) * 86_400 - offset
    micros = seconds * SECOND + _fraction(parts["fraction"])
    return np.where(exists, micros, 0), exists


def _month_and_day(parts: Any, day_first: bool) -> tuple[Int64Array, Int64Array]:
    import polars as pl

    if "one" in parts.columns:
        one = _whole(parts["one"])
        two = _whole(parts["two"])
        if day_first:
            return (two, one)
        return (one, two)
    if "name" in parts.columns:
        name = parts["name"].str.to_lowercase()
        month = name.replace_strict(_month_numbers(), default=0, return_dtype=pl.Int64).to_numpy()
        return month, _whole(parts["day"])
    return _whole(parts["month"]), _whole(parts["day"])


def _month_numbers() -> dict[str, int]:
    """Returns the number of each month by its English name, whole or of three letters."""
    numbers = {"sept": 9}
    for number, name in enumerate(MONTHS.split(), 1):
        numbers |= {name: number, name[:3]: number}
    return numbers


def _days(months: Int64Array) -> Int64Array:
    """Returns the days from 1970 to the first day of each month, counted from January 1970."""
    starts: Array = months.astype("datetime64[M]").astype("datetime64[D]")
    return starts.astype(np.int64)


def _clock(parts: Any) -> tuple[Int64Array, BoolArray]:
    """Returns the seconds since midnight, int64 [n], and marks the times of day that exist."""
    hour, minute, second = (_whole(parts[name]) for name in ("hour", "minute", "second"))
    half = parts["half"].str.to_lowercase()
    of_twelve = half.is_not_null().to_numpy()
    exists = (hour <= 23) & (minute <= 59) & (second <= 59)
    exists &= ~of_twelve | ((hour >= 1) & (hour <= 12))
    # 12 AM is midnight, 12 PM noon.
    afternoon = (half == "p").fill_null(False).to_numpy()
    hour = np.where(of_twelve, hour % 12 + 12 * afternoon, hour)
    return hour * 3600 + minute * 60 + second, exists


def _offset(zone: Any) -> tuple[Int64Array, BoolArray]:
    """Returns the seconds by which local time is ahead of UTC, int64 [n], and marks the offsets
    that exist.
    """
    digits = zone.str.extract(r"^[+-]([0-9]{2}:?[0-9]{0,2})$").str.replace(":", "", literal=True)
    hours = _whole(digits.str.slice(0, 2))
    minutes = _whole(digits.str.slice(2))
    behind = zone.str.starts_with("-").fill_null(False).to_numpy()
    seconds = hours * 3600 + minutes * 60
    return np.where(behind, -seconds, seconds), (hours <= 15) & (minutes <= 59)


def _fraction(digits: Any) -> Int64Array:
    """Returns microseconds, int64 [n], from the digits behind the second; more than six are cut."""
    return _whole(digits.str.slice(0, 6).str.pad_end(6, "0"))
