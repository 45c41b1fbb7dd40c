"""Dates in text to microseconds since 1970 (UTC), row by row: ISO 8601 and its kin, the form of
Twitter and Foursquare, and what `time_form` says of day, month and digits.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..core.types import BoolArray, Int64Array

YYYYMMDD = "yyyymmdd"
CLOCK = r"[0-9]{1,2}:[0-5][0-9](?::[0-5][0-9](?:[.,][0-9]+)?)?(?: ?[AaPp][Mm])?"
# Day and month, whose order only `time_form` tells.
SHORT = r"[0-9]{1,2}[-/.][0-9]{1,2}[-/.](?:[0-9]{2}){1,2}"
DAY = rf"[0-9]{{4}}[-/.](?:[0-9]{{1,2}}|[A-Z][a-z]{{2}})[-/.][0-9]{{1,2}}|{SHORT}|[0-9]{{8}}"
# A day alone is midnight.
PARTS = (
    rf"^(?P<day>{DAY})(?:(?:T|,? +)(?P<minute>[0-9]{{1,2}}:[0-5][0-9])(?P<second>:[0-5][0-9])?"
    r"(?P<fraction>[.,][0-9]+)?(?: ?(?P<half>[AaPp][Mm]))?"
    r"(?: ?(?P<zone>[Zz]|UTC|GMT|[+-][0-9]{2}(?::?[0-9]{2})?))?)?$"
)
# `Tue Apr 03 18:00:09 +0000 2012`, whose year comes last.
TWITTER = r"^[A-Z][a-z]{2} ([A-Z][a-z]{2}) +([0-9]{1,2}) (\S+ \S+) ([0-9]{4})$"
FORMATS = ("%Y-%m-%d", "%Y-%b-%d", "%Y%m%d")
ORDERS = {"day-first": "%d-%m-%Y", "month-first": "%m-%d-%Y"}
CLOCKS = (" %H:%M:%S%.f %z", " %I:%M:%S%.f%p %z")
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


def read_dates(texts: Any, form: str | None) -> Dates:
    """Returns the dates in a polars column of text without missing values. form: as `time_form`."""
    import polars as pl

    starts = range(0, max(1, len(texts)), CHUNK)
    read = pl.concat([_read(texts.slice(start, CHUNK), form) for start in starts])
    return Dates(*(read[name].to_numpy() for name in Dates._fields))


def _read(texts: Any, form: str | None) -> Any:
    """Returns the columns of `Dates` as a polars frame."""
    import polars as pl

    if form == YYYYMMDD:
        texts = texts.str.replace("^([0-9]{8})([0-9]{2})([0-9]{2})", "${1} ${2}:${3}")
        texts = texts.str.replace(":([0-9]{2})([0-9]{2})$", ":${1}:${2}")
    texts = texts.str.replace(TWITTER, "${4}-${1}-${2} ${3}")
    parts = texts.str.extract_groups(PARTS).struct.unnest()
    zone = parts["zone"].str.replace("[Zz]|UTC|GMT", "+0000").str.replace(":", "")
    zone = zone.str.pad_end(5, "0").fill_null("+0000")
    clock = parts["minute"].fill_null("0:00") + parts["second"].fill_null(":00")
    clock += parts["fraction"].str.replace(",", ".").fill_null("") + parts["half"].fill_null("")
    days = parts["day"].str.replace_all("[/.]", "-")
    # Times begin in 1970, so that two digits of a year have one meaning.
    days = days.str.replace(r"^([0-9]+-[0-9]+-)([7-9][0-9])$", "${1}19${2}")
    days = days.str.replace(r"^([0-9]{1,2}-[0-9]+-)([0-6][0-9])$", "${1}20${2}")
    stamps = days + " " + clock + " " + zone
    micros = pl.repeat(None, len(texts), dtype=pl.Int64, eager=True)
    for day in (*FORMATS, ORDERS.get(form or "", FORMATS[0])):
        for behind in CLOCKS:
            found = stamps.str.to_datetime(day + behind, strict=False, time_unit="us")
            micros = micros.zip_with(micros.is_not_null(), found.dt.epoch("us"))
    return pl.DataFrame(
        {
            "micros": micros.fill_null(0),
            "read": micros.is_not_null(),
            "zoned": parts["zone"].is_not_null(),
            "shifted": zone.str.contains("[1-9]"),
            "days": parts["day"].is_not_null() & parts["minute"].is_null(),
        }
    )
