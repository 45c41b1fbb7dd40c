"""What the fields of a column of text look like: numbers, dates, times."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

# The share of the fields that tells what a column is.
MOST = 0.9
# Numbers of seconds from 1973 to 2100, which a time may be in seconds or in a smaller unit, up to
# nanoseconds; smaller ones are read as seconds, and larger ones are a mistake.
FIRST = 100_000_000
LATEST = 4_102_444_800
NANOSECONDS = 1_000_000_000
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_DATE = re.compile(
    r"\d{4}[-/]\d\d?[-/]\d\d?([T ].*)?|\d\d?[/.]\d\d?[/.]\d{4}( .*)?|[A-Z][a-z]{2} [A-Z][a-z]{2} .*"
)


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
