"""The columns of a text file without a header, judged by its first rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

# A number of at least this much may be a time (1973), and is no rating.
LATE = 1e8
# The times that are told apart by size end here: the year 2100 in nanoseconds.
LATEST = 4.2e18
# No rating scale goes beyond this; a larger number may be an item.
HIGHEST_RATING = 10
# Rows by which columns are judged.
SAMPLE = 200
# The share of the fields that decides what a column is.
SHARE = 0.9
USER, ITEM, RATING, TIME = "user_id", "item_id", "rating", "timestamp"
# The orders of the columns by their number. The first ones are usual and are read as they stand.
ORDERS = {
    2: ((USER, ITEM),),
    3: ((USER, ITEM, RATING), (USER, ITEM, TIME), (USER, TIME, ITEM), (TIME, USER, ITEM)),
    4: (
        (USER, ITEM, RATING, TIME),
        (USER, TIME, ITEM, RATING),
        (TIME, USER, ITEM, RATING),
        (USER, ITEM, TIME, RATING),
    ),
}
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_DATE = re.compile(
    r"\d{4}[-/]\d\d?[-/]\d\d?([T ].*)?|\d\d?[/.]\d\d?[/.]\d{4}( .*)?|[A-Z][a-z]{2} [A-Z][a-z]{2} .*"
)
_DIVIDED = re.compile(r"[;|\t\s]|::")


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


def readings(rows: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    """Returns the names that the columns of some rows may have, in the usual order first. None fits
    where a column is neither an id, a number nor a time, or where there are more than four.

    >>> readings([["196", "242", "3", "881250949"]])
    [('user_id', 'item_id', 'rating', 'timestamp')]
    >>> readings([["881250949", "196", "242"]])
    [('user_id', 'item_id', 'rating'), ('timestamp', 'user_id', 'item_id')]
    """
    columns = list(zip(*rows, strict=False))
    orders = ORDERS.get(len(columns), ())
    return [names for names in orders if _fits(names, columns)]


def usual(names: tuple[str, ...]) -> bool:
    """Returns True for an order of columns that is read without being asked for."""
    return names[:2] == (USER, ITEM) and names != ORDERS[4][3]


def _fits(names: tuple[str, ...], columns: Sequence[Sequence[str]]) -> bool:
    fitting = {USER: _may_be_ids, ITEM: _may_be_ids, RATING: _may_be_ratings, TIME: may_be_times}
    for name, column in zip(names, columns, strict=True):
        if not fitting[name](column):
            return False
    # The ratings of a file are not its items.
    return usual(names) or not _must_be_ratings(columns[names.index(ITEM)])


def _may_be_ids(column: Sequence[str]) -> bool:
    return _most(_is_id, column)


def _is_id(field: str) -> bool:
    """An id has a digit. Another delimiter inside it shows that the line was divided wrongly."""
    plain = re.search(r"\d", field) is not None and _DIVIDED.search(field) is None
    return plain and not is_date(field)


def _may_be_ratings(column: Sequence[str]) -> bool:
    return _most(is_number, column) and not may_be_times(column)


def _must_be_ratings(column: Sequence[str]) -> bool:
    """Returns True for numbers so small that hardly any catalogue has only these items."""
    return _most(lambda field: is_number(field) and abs(float(field)) <= HIGHEST_RATING, column)


def may_be_times(column: Sequence[str]) -> bool:
    """Returns True if nearly all fields are dates or numbers of seconds since 1973, or of a smaller
    unit.
    """
    return _most(is_date, column) or _most(_is_late, column)


def _is_late(field: str) -> bool:
    return is_number(field) and LATE <= float(field) <= LATEST


def _most(test: Callable[[str], bool], column: Sequence[str]) -> bool:
    """Returns True if nearly all fields that are not empty pass a test: a single bad field is named
    later, with its line.
    """
    present = [field for field in column if field]
    return len(present) > 0 and sum(map(test, present)) >= SHARE * len(present)
