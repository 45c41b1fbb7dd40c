"""The columns of a table to `Interactions`: finds the column of each role, treats repeated pairs,
and checks that there is enough to learn from.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple, NoReturn

import numpy as np

from ..core.errors import InputError, did_you_mean
from ..core.types import Float32Array
from .bad_rows import Step, read_good_rows
from .interactions import UNREAD_TIMES, Interactions, build, pair_numbers
from .options import LoadOptions
from .reading import ColumnUse, Reading
from .repeats import keep
from .table import ColumnTable, ids, refuse, values
from .times import Times, looks_like_times, times
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
    table, columns = read_good_rows(table, _steps(roles, options), options)
    user, item, value, time = columns[1:]
    pair = pair_numbers(user.code, item.code, len(item.names))
    # Repeats are judged before rows are sorted, while each has its place in the file.
    kept = keep(table, pair, value, time.time, options)
    data = build(
        user.code[kept.rows],
        item.code[kept.rows],
        value=kept.value,
        time=None if time.time is None else time.time[kept.rows],
        users=user.names,
        items=item.names,
        name=name,
        scale=None if kept.value is None else options.scale,
        reading=Reading(
            table.source,
            column_uses(table, roles, options),
            table.guesses,
            (*table.left_out, *kept.left_out),
            (
                *_unread_times(table, roles, options),
                *table.notes,
                *user.notes,
                *item.notes,
                *time.notes,
                *kept.notes,
            ),
        ),
    )
    if kept.visits and time.time is not None:
        places = np.arange(len(pair))
        all_rows = VisitColumns(user.code, item.code, time.time, places)
        data = with_visits(data, all_rows, table.source)
    if part:
        return data
    inspect(data, table.source)
    return with_single_rows(data)


def _steps(roles: Roles, options: LoadOptions) -> list[Step]:
    """Returns the steps that read a table: a check of headers that are repeated, then the columns
    of users, items, values and times.
    """

    def read_values(table: ColumnTable) -> Float32Array | None:
        return None if roles.value is None else values(table, roles.value, options.scale)

    def read_times(table: ColumnTable) -> Times:
        return Times(None, ()) if roles.time is None else times(table, roles.time)

    return [
        lambda table: _check_headers(table, roles),
        lambda table: ids(table, roles.user, "user"),
        lambda table: ids(table, roles.item, "item"),
        read_values,
        read_times,
    ]


def _check_headers(table: ColumnTable, roles: Roles) -> None:
    """Refuses rows that repeat the names of the columns, as in files that were put together."""
    import polars as pl

    pair = table.frame[roles.user], table.frame[roles.item]
    if any(column.dtype != pl.String for column in pair):
        return
    user, item = pair
    bad = (user == roles.user) & (item == roles.item)
    if bad.any():
        refuse(
            table,
            bad.fill_null(False).to_numpy(),
            "the line repeats the header",
            expected="one header",
            fix="remove the line",
        )


def column_uses(table: ColumnTable, roles: Roles, options: LoadOptions) -> tuple[ColumnUse, ...]:
    """Returns every column of a table with its role and the reason for the role."""
    role_of = {name: role for role, name in roles._asdict().items() if name is not None}
    uses = []
    for name in table.frame.columns:
        role = role_of.get(name, "")
        why = "no option and no usual name gives it a role"
        if role and getattr(options, role) == name:
            why = f"named by {role}="
        elif role:
            why = f"a usual name of the {role} column"
        uses.append(ColumnUse(name, role, why))
    return tuple(uses)


def _unread_times(table: ColumnTable, roles: Roles, options: LoadOptions) -> tuple[str, ...]:
    """Returns a note on the first unread column that looks like times, if the data has none."""
    if roles.time is not None or options.time == "":
        return ()
    for name in table.frame.columns:
        if name not in roles and looks_like_times(table, name):
            # `Interactions.time_order` finds this note where times are missed.
            return (f"'{name}' {UNREAD_TIMES}: say time='{name}' (--load time={name})",)
    return ()


def inspect(data: Interactions, where: str, after: str = "") -> None:
    """Checks that a data set can be learned from. Raises InputError if there is a single user, or
    if a user consumed every item. after: the filter that was applied last, such as "min_rows=5"; ""
    before all filters.
    """
    counts = data.counts
    prefix = f"after {after}, " if after else ""
    look = f"choose another {after.partition('=')[0]}" if after else "check the user column"
    # Learning from others needs others.
    if len(data.users) == 1:
        raise InputError(
            where,
            f"{prefix}there is a single user ('{data.users[0]}')",
            expected="at least two users",
            fix=f"recommending from others needs others; {look}",
        )
    most = int(np.argmax(counts))
    # Negatives are drawn from the items that a user did not consume.
    if counts[most] == len(data.items):
        look = look.replace("user", "item")
        raise InputError(
            where,
            f"{prefix}user '{data.users[most]}' consumed all {len(data.items)} items, so there is"
            " none to recommend or compare with",
            expected="items that a user did not consume",
            fix=f"remove that user, or {look}",
        )


def with_single_rows(data: Interactions) -> Interactions:
    """Returns the data set with a note on the users with one row, if there are any."""
    single = int((data.counts == 1).sum())
    if not single:
        return data
    return data.noted(
        f"users with one interaction, which cannot be held out and learned from at once: {single:,}"
    )
