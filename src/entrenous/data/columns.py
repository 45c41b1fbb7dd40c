"""Which column is which: the user, the item, the value, the time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from ..core.errors import InputError, did_you_mean
from .table import Reading

# in order of preference; compared without case, blanks, - and _
USUAL: dict[str, tuple[str, ...]] = {
    "user": (
        "user_id", "user", "uid", "u", "user_idx", "user_index", "user_name", "customer_id", "account_id", "reviewer_id",
        "member_id",
    ),
    "item": (
        "item_id", "item", "iid", "i", "item_idx", "item_index", "movie_id", "movie", "film_id", "venue_id", "poi_id", "poi",
        "location_id", "place_id", "business_id", "song_id", "track_id", "artist_id", "book_id", "isbn", "product_id", "asin",
        "parent_asin", "article_id", "pin_id",
    ),
    "value": (
        "rating", "ratings", "value", "score", "stars", "star", "count", "counts", "plays", "play_count", "weight", "overall",
    ),
    "time": (
        "timestamp", "time", "utc", "utc_time", "unix_time", "unix_review_time", "datetime", "date", "ts", "created_at", "epoch",
    ),
}  # fmt: skip
FEATURES: dict[str, tuple[str, ...]] = {
    "title": ("title", "movie_title", "name", "item_name", "item_title", "product_title"),
    "category": ("category", "categories", "genres", "genre", "root_category", "class", "class_name", "tags"),
    "lat": ("lat", "latitude"),
    "lon": ("lon", "lng", "long", "longitude"),
}
RECBOLE = ("token", "token_seq", "float", "float_seq")
POSITIONS = ("user_id", "item_id", "rating", "timestamp")
LATE = 1e8  # a third column of at least this much is a time (1973), not a rating
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


class Roles(NamedTuple):
    """Column names by role; None = the data has no such column."""

    user: str
    item: str
    value: str | None
    time: str | None


def plain(name: str) -> str:
    """A column name as it is compared: `User-ID` is `userid`.

    >>> plain(" User_ID ")
    'userid'
    """
    return re.sub(r"[\s_\-.]", "", name).lower()


_KNOWN = {plain(name) for names in (*USUAL.values(), *FEATURES.values()) for name in names}


def is_header(fields: Sequence[str], reading: Reading) -> bool:
    """Whether the first line of a text file names columns: it holds a usual name, or one the user gave."""
    wanted = {name for name in (reading.user, reading.item, reading.value, reading.time) if name}
    return any(field in wanted or plain(field) in _KNOWN for field in fields)


def positional(fields: Sequence[str]) -> tuple[str, ...] | None:
    """Names for a file without a header, judged by its first line: user, item, then a rating or a time, then a time.

    None if the line does not fit.

    >>> positional(["196", "242", "3", "881250949"])
    ('user_id', 'item_id', 'rating', 'timestamp')
    """
    if not 2 <= len(fields) <= 4 or not all(
        re.search(r"\d", field) and not re.search(r"[;|\t\s]|::", field) for field in fields[:2]
    ):
        return None
    if not all(_NUMBER.fullmatch(field) for field in fields[2:]):
        return None
    if len(fields) == 3 and float(fields[2]) >= LATE:
        return ("user_id", "item_id", "timestamp")
    return POSITIONS[: len(fields)]


def find_roles(names: Sequence[str], reading: Reading, where: str) -> Roles:
    """The column of each role. Raises InputError if a wanted one is missing or one column would have two roles."""
    user = _find(names, "user", reading.user, where)
    item = _find(names, "item", reading.item, where)
    value, time = _find(names, "value", reading.value, where), _find(names, "time", reading.time, where)
    if user is None or item is None:
        role = "user" if user is None else "item"
        raise InputError(
            where,
            f"no {role} column among {', '.join(names[:12])}" + (", ..." if len(names) > 12 else ""),
            expected=f"a column named {USUAL[role][0]}, or a similar name",
            fix=f"say which it is: {role}='NAME' in Python, --load {role}=NAME for a run, --{role} NAME for data check",
        )
    given = [name for name in (user, item, value, time) if name is not None]
    if len(set(given)) < len(given):
        raise InputError(
            where,
            "one column has two roles",
            expected="different columns for user, item, value and time",
            fix="check the names given",
        )
    return Roles(user, item, value, time)


def _find(names: Sequence[str], role: str, wanted: str | None, where: str) -> str | None:
    if wanted == "" and role in ("value", "time"):
        return None
    if wanted is not None:
        if wanted not in names:
            raise InputError(where, f"no column '{wanted}'", fix=did_you_mean(wanted, names))
        return wanted
    return find_usual(names, USUAL[role])


def find_usual(names: Sequence[str], usual: Sequence[str]) -> str | None:
    """The first of the `usual` column names that occurs among `names`; None if none does."""
    by_plain = {plain(name): name for name in reversed(names)}
    return next((by_plain[plain(name)] for name in usual if plain(name) in by_plain), None)


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
