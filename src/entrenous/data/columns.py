"""The columns of a table to `Interactions`: finds the column of each role, treats repeated pairs,
and checks that there is enough to learn from.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, NoReturn

import numpy as np

from ..core.errors import InputError, did_you_mean
from ..core.types import Float32Array
from .bad_rows import Step, read_good_rows
from .interactions import Interactions, PairOrder, build, pair_numbers, pair_order
from .odd_ids import odd_ids
from .options import LoadOptions
from .reading import ColumnUse, Guess, Reading, unread
from .repeats import KeptRows, keep
from .table import ColumnTable, control_rows, ids, refuse, refuse_control_in, values
from .times import Times, day_and_clock, times
from .unread import look_at
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
    "title": _names("title movie_title name item_name item_title product_title book_title"),
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
    return next(iter(usual_columns(names, usual)), None)


def usual_columns(names: Sequence[str], usual: Sequence[str]) -> list[str]:
    """Returns the columns among `names` that have one of the `usual` names, in the order of
    `usual`, then in their own.
    """
    rank = {plain(name): number for number, name in reversed(list(enumerate(usual)))}
    known = [name for name in names if plain(name) in rank]
    return sorted(known, key=lambda name: rank[plain(name)])


class Roles(NamedTuple):
    """The names of the columns by role; None if the data lacks the column."""

    user: str
    item: str
    value: str | None
    time: str | None


def find_roles(table: ColumnTable, options: LoadOptions) -> Roles:
    """Returns the column of each role. Raises InputError if a wanted column is missing, if one
    column would have two roles, or if two columns could have one.
    """
    # A missing column is an error of the header, the first line.
    where = table.source if table.first_line is None else f"{table.source}:1"
    names = table.frame.columns
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
    if time is not None and options.time is None:
        time = day_and_clock(table, time)
    roles = Roles(user, item, value, time)
    for role in ("user", "item", "value"):
        if getattr(options, role) is None:
            _refuse_rivals(table, role, rivals(table, role, roles), where)
    return roles


def _find(names: Sequence[str], role: str, wanted: str | None, where: str) -> str | None:
    if wanted is None:
        return find_usual(names, USUAL[role])
    # An empty name leaves out a column that a data set can do without.
    if wanted == "" and role in ("value", "time"):
        return None
    # Days and times of day may stand in two columns.
    parts = wanted.partition("+")[::2]
    if role == "time" and wanted not in names and set(parts) <= set(names):
        return wanted
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


def columns_of(table: ColumnTable, roles: Roles, role: str) -> list[str]:
    """Returns the columns that have a role: none, one, or those of days and of times of day."""
    name = getattr(roles, role)
    if name is None or name in table.frame.columns:
        return [] if name is None else [name]
    return list(name.partition("+")[::2])


def rivals(table: ColumnTable, role: str, roles: Roles) -> list[str]:
    """Returns the columns with a usual name of a role, the one that has the role first. There are
    none besides it if the others have another role.
    """
    chosen = columns_of(table, roles, role)
    named = usual_columns(table.frame.columns, USUAL[role])
    return [*chosen, *(name for name in named if name not in (*roles, *chosen))]


def _refuse_rivals(table: ColumnTable, role: str, columns: list[str], where: str) -> None:
    """Raises InputError if two columns could have a role and differ in more than the names of
    ids.
    """
    if len(columns) < 2 or (role != "value" and _one_to_one(table, columns)):
        return
    listed = " and ".join(f"'{name}'" for name in columns)
    choices = [f"{role}='{name}' (--load {role}={name})" for name in columns]
    if role == "value":
        choices.append("value='' for none (--load value=)")
    raise InputError(
        where,
        f"{listed} could each be the {role} column",
        expected="one of them",
        fix=f"say which it is: {', or '.join(choices)}",
    )


def _one_to_one(table: ColumnTable, columns: list[str]) -> bool:
    """Returns True if each value of one column goes with one value of every other, as a number goes
    with a name.
    """
    sizes = {table.frame[name].n_unique() for name in columns}
    return len(sizes) == 1 and table.frame.select(columns).n_unique() in sizes


def assemble(
    table: ColumnTable, options: LoadOptions, *, name: str, part: bool = False
) -> Interactions:
    """Returns the interactions in a table. part: True for a part of a whole, such as a test file,
    in which too little to learn from is no error.

    Raises InputError at the first wrong row, or if there are too few rows to learn from.
    """
    roles = find_roles(table, options)
    uses = column_uses(table, roles, options)
    table, columns = read_good_rows(table, _steps(roles, options), options)
    user, item, value, time = columns[2:]
    order = pair_order(user.code, item.code, len(user.names), len(item.names))
    # That of the rows that stay, if it is known.
    known: PairOrder | None = order
    if order.repeats or options.duplicates == "sum":
        pair = pair_numbers(user.code, item.code, len(item.names))
        # Repeats are judged before rows are sorted, while each has its place in the file.
        kept = keep(table, pair, value, time.time, options)
        known = None
    else:
        kept = KeptRows(slice(None), value)
    data = build(
        user.code[kept.rows],
        item.code[kept.rows],
        value=kept.value,
        time=None if time.time is None else time.time[kept.rows],
        order=known,
        users=user.names,
        items=item.names,
        name=name,
        scale=None if kept.value is None else options.scale,
        reading=Reading(
            table.source,
            uses,
            (*table.guesses, *guesses_of(table, roles, options, uses)),
            (*table.left_out, *kept.left_out),
            (
                *table.notes,
                *_unread_control(table, roles),
                *odd_ids(table, user),
                *odd_ids(table, item),
                *user.notes,
                *item.notes,
                *time.notes,
                *kept.notes,
            ),
        ),
    )
    if kept.visits and time.time is not None:
        places = np.arange(len(user.code))
        all_rows = VisitColumns(user.code, item.code, time.time, places)
        data = with_visits(data, all_rows, table.source)
    if part:
        return data
    inspect(data, table.source)
    return with_single_rows(data)


def _steps(roles: Roles, options: LoadOptions) -> list[Step]:
    """Returns the steps that read a table: checks of headers that are repeated and of control
    characters, then the columns of users, items, values and times.
    """

    def read_values(table: ColumnTable) -> Float32Array | None:
        return None if roles.value is None else values(table, roles.value, options.scale)

    def read_times(table: ColumnTable) -> Times:
        return Times(None, ()) if roles.time is None else times(table, roles.time, options)

    return [
        lambda table: _check_headers(table, roles),
        lambda table: _check_control(table, roles),
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


def _check_control(table: ColumnTable, roles: Roles) -> None:
    """Refuses rows with control characters in a column that is read."""
    for name in roles:
        if name is not None:
            refuse_control_in(table, name)


def _unread_control(table: ColumnTable, roles: Roles) -> Iterator[str]:
    """Yields a note on each column with control characters that is not read."""
    for name in table.control:
        bad = control_rows(table, name)
        if name not in roles and bad.any():
            place = table.where(int(np.argmax(bad)))
            yield f"control characters in '{name}', which is not read; the first is at {place}"


def column_uses(table: ColumnTable, roles: Roles, options: LoadOptions) -> tuple[ColumnUse, ...]:
    """Returns every column of a table with its role and the reason for the role."""
    role_of = {name: role for role in Roles._fields for name in columns_of(table, roles, role)}
    uses = []
    for name in table.frame.columns:
        role = role_of.get(name, "")
        if not role:
            uses.append(ColumnUse(name, "", _why_unread(table, name, options)))
        elif getattr(options, role) is not None:
            uses.append(ColumnUse(name, role, f"named by {role}={getattr(options, role)}"))
        else:
            uses.append(ColumnUse(name, role, f"a usual name of the {role} column"))
    return tuple(uses)


def _why_unread(table: ColumnTable, name: str, options: LoadOptions) -> str:
    loss = look_at(table, name)
    if loss is not None and getattr(options, loss.role) == "":
        return f"left out by {loss.role}="
    if loss is None:
        return "no option and no usual name gives it a role"
    option = f"{loss.role}={name}"
    return f"{unread(loss.kind)}: say {loss.role}='{name}' (--load {option})"


def guesses_of(
    table: ColumnTable, roles: Roles, options: LoadOptions, uses: Sequence[ColumnUse]
) -> Iterator[Guess]:
    """Yields the guesses about columns: a role by a usual name that is not the first one, one of
    several columns for a role, and a column left unread that seems to have a missing role.
    """
    for role, name in roles._asdict().items():
        if name is None or getattr(options, role) is not None:
            continue
        others = rivals(table, role, roles)[len(columns_of(table, roles, role)) :]
        if name not in table.frame.columns:
            day, _, clock = name.partition("+")
            yield Guess(f"the time is in '{day}' and '{clock}'", f"time={name} or time={day}")
        elif others:
            listed = ", ".join(f"'{other}'" for other in others)
            yield Guess(f"the {role} column is '{name}', not {listed}", f"{role}={name}")
        elif plain(name) != plain(USUAL[role][0]):
            yield Guess(f"the {role} column is '{name}'", f"{role}={name}")
    for role in ("value", "time"):
        if getattr(roles, role) is None and getattr(options, role) is None:
            yield from _missed(role, uses)


def _missed(role: str, uses: Sequence[ColumnUse]) -> Iterator[Guess]:
    """Yields the guess that the data has no column of a role, if unread ones look like it."""
    mark = f"(--load {role}="
    names = [use.name for use in uses if not use.role and mark in use.why]
    if names:
        listed = ", ".join(f"'{name}'" for name in names)
        options = " or ".join(f"{role}={name}" for name in [*names, ""])
        yield Guess(f"no column is the {role}, also not {listed}", options)


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
