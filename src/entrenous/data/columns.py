"""The columns of a table to `Interactions`: finds the column of each role, treats repeated pairs,
and checks that there is enough to learn from.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, NoReturn

import numpy as np

from ..core.errors import InputError, did_you_mean
from ..core.types import BoolArray, Float32Array, Int64Array
from .interactions import UNREAD_TIMES, Interactions, build, pair_numbers
from .options import LoadOptions
from .table import ColumnTable, Times, ids, looks_like_times, refuse_control_in, times, values
from .visits import VisitColumns, with_visits


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


# The usual names of the columns that make rows, in order of preference; see `plain` for how they
# are compared.
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
# Those of the columns that describe items.
FEATURES: dict[str, tuple[str, ...]] = {
    "title": _names("title movie_title name item_name item_title product_title"),
    "category": _names("category categories genres genre root_category class class_name tags"),
    "lat": _names("lat latitude"),
    "lon": _names("lon lng long longitude"),
}


def plain(name: str) -> str:
    """Returns the form in which column names are compared: without case, blanks, `-`, `_` and `.`.

    >>> plain(" User-ID ")
    'userid'
    """
    return re.sub(r"[\s_\-.]", "", name).lower()


def find_usual(names: Sequence[str], usual: Sequence[str]) -> str | None:
    """Returns the column among `names` with the first of the `usual` names; None if there is none.
    Of two columns with one plain name, the first counts.
    """
    # From the last to the first, so that the first of two equal names stays.
    by_plain = {plain(name): name for name in reversed(names)}
    for name in usual:
        if plain(name) in by_plain:
            return by_plain[plain(name)]
    return None


class Roles(NamedTuple):
    """The names of the columns by role; None if the data lacks the column."""

    user: str
    item: str
    value: str | None
    time: str | None


def find_roles(names: Sequence[str], options: LoadOptions, where: str) -> Roles:
    """Returns the column of each role. Raises InputError if a wanted column is missing, or if one
    column would have two roles.
    """
    columns = [_find(names, role, getattr(options, role), where) for role in Roles._fields]
    user, item, value, time = columns
    if user is None or item is None:
        _refuse_missing(names, "user" if user is None else "item", columns, where)
    # Two roles of one column: a name was given that is also the usual name of another role.
    given = [name for name in columns if name is not None]
    if len(set(given)) < len(given):
        raise InputError(
            where,
            "one column has two roles",
            expected="different columns for user, item, value and time",
            fix="check the names given",
        )
    return Roles(user, item, value, time)


def _find(names: Sequence[str], role: str, wanted: str | None, where: str) -> str | None:
    if wanted is None:
        return find_usual(names, USUAL[role])
    # An empty name leaves out a column that a data set can do without.
    if wanted == "" and role in ("value", "time"):
        return None
    if wanted not in names:
        raise InputError(where, f"no column '{wanted}'", fix=did_you_mean(wanted, names))
    return wanted


def _refuse_missing(
    names: Sequence[str], role: str, columns: list[str | None], where: str
) -> NoReturn:
    # A column without a role is the best guess of the one that is meant.
    example = next((name for name in names if name not in columns), "NAME")
    dots = ", ..." if len(names) > 12 else ""
    raise InputError(
        where,
        f"no {role} column among {', '.join(names[:12])}{dots}",
        expected=f"a column named {USUAL[role][0]}, or a similar name",
        fix=f"say which it is, such as {role}='{example}' (--load {role}={example})",
    )


def assemble(
    table: ColumnTable, options: LoadOptions, *, name: str, part: bool = False
) -> Interactions:
    """Returns the interactions in a table. part: True for a part of a whole, such as a test file,
    in which too little to learn from is no error.

    Raises InputError at the first wrong row, or if there are too few rows to learn from.
    """
    # A missing column is an error of the header, the first line.
    where = table.source if table.first_line is None else f"{table.source}:1"
    roles = find_roles(table.frame.columns, options, where)
    dirt = _dirt(table, roles)
    user = ids(table, roles.user, "user")
    item = ids(table, roles.item, "item")
    value = None
    if roles.value is not None:
        value = values(table, roles.value, options.scale)
    time = Times(None, ())
    if roles.time is not None:
        time = times(table, roles.time)
    pair = pair_numbers(user.code, item.code, len(item.names))
    # Repeats are judged before rows are sorted, while each has its place in the file.
    kept = keep(table, pair, value, time.time, options)
    data = build(
        user.code[kept.rows],
        item.code[kept.rows],
        value=None if value is None else value[kept.rows],
        time=None if time.time is None else time.time[kept.rows],
        users=user.names,
        items=item.names,
        name=name,
        scale=None if value is None else options.scale,
        notes=(
            _note(table, roles),
            *_unread_times(table, roles, options),
            *table.notes,
            *dirt,
            *user.notes,
            *item.notes,
            *time.notes,
            *kept.notes,
        ),
    )
    if kept.visits and time.time is not None:
        places = np.arange(len(pair))
        all_rows = VisitColumns(user.code, item.code, time.time, places)
        data = with_visits(data, all_rows, table.source)
    return data if part else inspect(data, table.source)


def _note(table: ColumnTable, roles: Roles) -> str:
    named = roles._asdict().items()
    columns = [f"{role} = {name}" for role, name in named if name is not None]
    return f"read {table.source}: {', '.join(columns)}"


def _dirt(table: ColumnTable, roles: Roles) -> tuple[str, ...]:
    """Returns notes on the control characters in columns that are not read. Raises InputError for
    one in a column that is.
    """
    for name in roles:
        if name is not None:
            refuse_control_in(table, name)
    return tuple(
        f"control characters in '{name}', which is not read; the first is at {table.where(row)}"
        for name, row in table.control.items()
    )


def _unread_times(table: ColumnTable, roles: Roles, options: LoadOptions) -> tuple[str, ...]:
    """Returns a note on the first unread column that looks like times, if the data has none."""
    if roles.time is not None or options.time == "":
        return ()
    for name in table.frame.columns:
        if name not in roles and looks_like_times(table, name):
            # `Interactions.time_order` finds this note where times are missed.
            return (f"'{name}' {UNREAD_TIMES}: say time='{name}' (--load time={name})",)
    return ()


# ---- repeated pairs ------------------------------------------------------------------------------


class KeptRows(NamedTuple):
    """The rows that stay where pairs are repeated."""

    rows: Int64Array
    """Positions in the table, ascending, int64."""
    notes: tuple[str, ...]
    """The number of rows that were left out."""
    visits: bool = False
    """True if repeats are visits, each of which counts."""


def keep(
    table: ColumnTable,
    pair: Int64Array,
    value: Float32Array | None,
    time: Int64Array | None,
    options: LoadOptions,
) -> KeptRows:
    """Returns the rows that stay where a pair is repeated. pair: one number for each (user, item),
    int64 [rows]. Raises InputError for a repeat that `options.duplicates` refuses.
    """
    # Most data has no repeats, and one sort tells so.
    ascending = np.sort(pair)
    if not (ascending[1:] == ascending[:-1]).any():
        return KeptRows(np.arange(len(pair)), ())
    # Both sorts are stable: ties keep the order of the file.
    order = np.lexsort((pair,) if time is None else (time, pair))
    ordered = pair[order]
    # True where a row has the pair of the row before it.
    same = ordered[1:] == ordered[:-1]
    if options.duplicates == "error":
        _refuse_repeat(table, order, same)
    if options.duplicates == "same" and value is not None:
        _refuse_conflict(table, order, same, value)
    if options.duplicates == "first":
        which = "first"
        stays = np.concatenate([[True], ~same])
    else:
        which = "last"
        stays = np.concatenate([~same, [True]])
    rows = np.sort(order[stays])
    by = "in the file" if time is None else "by time, then by place in the file"
    # Without a value, the rows of a pair differ in time alone: each is a visit.
    visits = time is not None and value is None and which == "last"
    and_times = ", with the times of all" if visits else ""
    note = (
        f"repeats of a (user, item) pair, of which the {which} {by} is kept{and_times}:"
        f" {len(pair) - len(rows):,}"
    )
    return KeptRows(rows, (note,), visits)


def _refuse_repeat(table: ColumnTable, order: Int64Array, same: BoolArray) -> NoReturn:
    """Refuses the first row of the table whose pair occurs before."""
    # By time, either of two rows may stand first in the file.
    later = np.maximum(order[1:], order[:-1])[same]
    raise InputError(
        table.where(int(later.min())),
        "the (user, item) pair occurs before",
        expected="one row per pair",
        fix="choose duplicates='last' or 'first' (--load duplicates=last)",
    )


def _refuse_conflict(
    table: ColumnTable, order: Int64Array, same: BoolArray, value: Float32Array
) -> None:
    """Refuses the first row of the table that disagrees on the value with a row of its pair."""
    ordered = value[order]
    conflict = same & (ordered[1:] != ordered[:-1])
    if not conflict.any():
        return
    neighbours = np.sort(np.stack([order[1:], order[:-1]]), axis=0)
    earlier, later = neighbours[:, conflict]
    first = np.argmin(later)
    row = int(later[first])
    other = int(earlier[first])
    line = table.where(other).rpartition(":")[2]
    raise InputError(
        table.where(row),
        f"the (user, item) pair has value {value[row]:g} here and {value[other]:g} at {line}",
        expected="repeats that agree",
        fix="choose duplicates='last' or 'first' (--load duplicates=last)",
    )


def inspect(data: Interactions, where: str) -> Interactions:
    """Checks that a data set can be learned from, and returns it with a note on users with one row.
    Raises InputError if there is a single user, or if a user consumed every item.
    """
    counts = data.counts
    # Learning from others needs others.
    if len(data.users) == 1:
        raise InputError(
            where,
            f"there is a single user ('{data.users[0]}')",
            expected="at least two users",
            fix="recommending from others needs others; check the user column",
        )
    most = int(np.argmax(counts))
    # Negatives are drawn from the items that a user did not consume.
    if counts[most] == len(data.items):
        raise InputError(
            where,
            f"user '{data.users[most]}' consumed all {len(data.items)} items, so there is none to"
            " recommend or compare with",
            expected="items that a user did not consume",
            fix="remove that user, or check the item column",
        )
    single = int((counts == 1).sum())
    if not single:
        return data
    note = (
        f"users with one interaction, which cannot be held out and learned from at once: {single:,}"
    )
    return replace(data, notes=(*data.notes, note))
