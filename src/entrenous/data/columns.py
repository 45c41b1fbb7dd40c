"""`Reading`: how the user wants a file read; and the usual names of columns, by which a file is
read if the user says nothing.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, final

import numpy as np

from ..core.errors import InputError, did_you_mean


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


# In order of preference; compared without case, blanks, - and _.
USUAL: dict[str, tuple[str, ...]] = {
    "user": _names(
        "user_id user uid u user_idx user_index user_name customer_id account_id reviewer_id"
        " member_id"
    ),
    "item": _names(
        "item_id item iid i item_idx item_index movie_id movie film_id venue_id poi_id poi"
        " location_id place_id business_id song_id track_id artist_id book_id isbn product_id asin"
        " parent_asin article_id pin_id"
    ),
    "value": _names(
        "rating ratings value score stars star count counts plays play_count weight overall"
    ),
    "time": _names(
        "timestamp time utc utc_time unix_time unix_review_time datetime date ts created_at epoch"
    ),
}
FEATURES: dict[str, tuple[str, ...]] = {
    "title": _names("title movie_title name item_name item_title product_title"),
    "category": _names("category categories genres genre root_category class class_name tags"),
    "lat": _names("lat latitude"),
    "lon": _names("lon lng long longitude"),
}
RECBOLE = ("token", "token_seq", "float", "float_seq")
POSITIONS = ("user_id", "item_id", "rating", "timestamp")
# A third column of at least this much is a time (1973), not a rating.
LATE = 1e8
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


Duplicates = Literal["same", "last", "first", "error"]
DUPLICATES: tuple[Duplicates, ...] = ("same", "last", "first", "error")


@final
@dataclass(frozen=True, kw_only=True)
class Reading:
    """How to read interactions. A file whose header has usual names needs no option.

    Raises InputError for a value that no file can be read with.
    """

    user: str | None = None
    """The name of the user column; None = by its usual names."""
    item: str | None = None
    value: str | None = None
    """As `user`; "" leaves the column out."""
    time: str | None = None
    """As `user`; "" leaves the column out."""
    delimiter: str | None = None
    """One character, or `::`. None = by the file's ending (`.csv`: comma, `.tsv` and `.inter`: tab)
    or by its first line.
    """
    encoding: str = "utf-8"
    names: tuple[str, ...] | None = None
    """The column names of a text file without a header."""
    duplicates: Duplicates = "same"
    """What happens to a repeated (user, item) pair. "same" keeps the last row and refuses rows that
    disagree on the value; "last" and "first" keep that row; "error" refuses any repeat. Order is
    time, then place in the file.
    """
    scale: tuple[float, float] | None = None
    """(lowest, highest) value; a value outside is refused."""
    part: bool = False
    """The file is a part of a whole (a test file): data too small to learn from is no error."""

    def __post_init__(self) -> None:
        _check_delimiter(self.delimiter)
        _check_encoding(self.encoding)
        if self.duplicates not in DUPLICATES:
            raise InputError(
                "duplicates",
                f"unknown policy '{self.duplicates}'",
                fix=did_you_mean(str(self.duplicates), DUPLICATES),
            )
        if self.scale is not None:
            low, high = self.scale
            if not (np.isfinite(low) and np.isfinite(high) and low < high):
                raise InputError(
                    "scale", f"got {self.scale}", expected="lowest and highest value, such as 1 5"
                )


def _check_delimiter(delimiter: str | None) -> None:
    if delimiter is None or delimiter == "::":
        return
    if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\n\r\0':
        raise InputError(
            "delimiter",
            f"got {delimiter!r}",
            expected="one character such as , ; | or a tab, or ::",
        )


def _check_encoding(encoding: str) -> None:
    try:
        known = codecs.lookup(encoding)._is_text_encoding
    except (LookupError, ValueError):
        known = False
    if not known:
        raise InputError(
            "encoding",
            f"unknown encoding '{encoding}'",
            expected="a name such as utf-8, latin-1, utf-16",
        )


def plain(name: str) -> str:
    """The form of a column name that is compared: `User-ID` is `userid`.

    >>> plain(" User_ID ")
    'userid'
    """
    return re.sub(r"[\s_\-.]", "", name).lower()


_KNOWN = {plain(name) for names in (*USUAL.values(), *FEATURES.values()) for name in names}


def is_header(fields: Sequence[str], reading: Reading) -> bool:
    """True if the first line of a text file names columns: it holds a usual name, or one that the
    user gave.
    """
    wanted = {name for name in (reading.user, reading.item, reading.value, reading.time) if name}
    return any(field in wanted or plain(field) in _KNOWN for field in fields)


def positional(fields: Sequence[str]) -> tuple[str, ...] | None:
    """Names for a file without a header, judged by its first line: user, item, then a rating or a
    time, then a time.

    None if the line does not fit.

    >>> positional(["196", "242", "3", "881250949"])
    ('user_id', 'item_id', 'rating', 'timestamp')
    """
    if not 2 <= len(fields) <= 4:
        return None
    for field in fields[:2]:
        if not re.search(r"\d", field) or re.search(r"[;|\t\s]|::", field):
            return None
    if not all(_NUMBER.fullmatch(field) for field in fields[2:]):
        return None
    if len(fields) == 3 and float(fields[2]) >= LATE:
        return ("user_id", "item_id", "timestamp")
    return POSITIONS[: len(fields)]


def is_number(field: str) -> bool:
    """True if a field of a text file is a number.

    >>> is_number("3.5"), is_number("kunde")
    (True, False)
    """
    return _NUMBER.fullmatch(field.strip()) is not None


def find_usual(names: Sequence[str], usual: Sequence[str]) -> str | None:
    """The column among `names` with the first of the `usual` names; None if there is none."""
    by_plain = {plain(name): name for name in reversed(names)}
    for name in usual:
        if plain(name) in by_plain:
            return by_plain[plain(name)]
    return None


def typed_names(fields: Sequence[str], where: str) -> tuple[list[str], dict[str, str]]:
    """Names and types from a RecBole header. Raises InputError for an unknown type.

    >>> typed_names(["user_id:token", "rating:float"], "x.inter:1")
    (['user_id', 'rating'], {'user_id': 'token', 'rating': 'float'})
    """
    types: dict[str, str] = {}
    for field in fields:
        name, _, kind = field.rpartition(":")
        if not name or kind not in RECBOLE:
            raise InputError(
                where,
                f"column '{field}' has no RecBole type",
                expected="name:token, name:token_seq, name:float or name:float_seq",
            )
        types[name] = kind
    return list(types), types
