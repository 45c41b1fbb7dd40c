"""The columns of a table to `Interactions`: finds the column of each role, treats repeated pairs,
and checks that there is enough to learn from.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, NoReturn

import numpy as np

from ..core.errors import InputError, did_you_mean
from ..core.types import BoolArray, Float32Array
from .bad_rows import read_good_rows
from .interactions import Interactions, build, pair_numbers, pair_order
from .likes import (
    ANY,
    LikedRows,
    ask_about_actions,
    ask_about_labels,
    by_column,
    judge,
    labels_of,
    only_likes,
    rows_that_count,
)
from .options import LoadOptions
from .reading import LISTED, ColumnUse, Guess, Reading, unread
from .repeats import KeptRows, keep
from .scales import check_values, on_scale
from .table import (
    ColumnTable,
    IdColumn,
    as_whole,
    control_rows,
    ids,
    odd_ids,
    refuse,
    refuse_control_in,
    values,
)
from .times import Times, looks_like_times, times
from .unread import denies, labels_among, look_at, refused_action
from .visits import VisitColumns, with_visits


def _names(**of_role: str) -> dict[str, tuple[str, ...]]:
    return {role: tuple(text.split()) for role, text in of_role.items()}


# The usual names of the columns that make rows, in order of preference; see `plain` for how they
# are compared.
USUAL = _names(
    user=(
        "user_id user uid u user_idx user_index user_name customer_id customer account_id"
        " reviewer_id member_id"
    ),
    item=(
        "item_id item iid i item_idx item_index movie_id movie film_id venue_id poi_id poi"
        " location_id place_id business_id song_id track_id artist_id book_id isbn product_id"
        " product asin parent_asin article_id pin_id video_id news_id anime_id app_id"
    ),
    value="rating value ratings score stars star count counts plays play_count weight overall",
    time=(
        "timestamp time utc utc_time unix_time unix_review_time datetime date ts created_at epoch"
    ),
)
# Those of a column that has the role only where none has a name above.
KIN = _names(
    user="client client_id account member visitor visitor_id reader buyer",
    item=(
        "movie film venue place song track artist album album_id book article sku video game"
        " game_id business recipe_id"
    ),
)
# So many of them, the first ones, say the role themselves.
SURE = 2
# Those of the columns that describe items.
FEATURES = _names(
    title="title movie_title name item_name item_title product_title book_title",
    category="category categories genres genre root_category class class_name tags",
    lat="lat latitude",
    lon="lon lng long longitude",
)


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


def _named(names: Sequence[str], role: str) -> list[str]:
    """Returns the columns with a usual name of a role, or with a further one where none has."""
    return usual_columns(names, USUAL[role]) or usual_columns(names, KIN.get(role, ()))


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
        _refuse_missing(table, "user" if user is None else "item", columns, where)
    # Two roles of one column: a name was given that is also the usual name of another role.
    given = [name for name in columns if name is not None]
    if len(set(given)) < len(given):
        raise InputError(
            where,
            "one column has two roles",
            expected="different columns for user, item, value and time",
            fix="check the names given",
        )
    roles = Roles(user, item, value, time)
    for role in ("user", "item", "value"):
        if getattr(options, role) is None:
            _refuse_rivals(table, role, rivals(table, role, roles), where)
    return roles


def _find(names: Sequence[str], role: str, wanted: str | None, where: str) -> str | None:
    if wanted is None:
        return next(iter(_named(names, role)), None)
    # An empty name leaves out a column that a data set can do without.
    if wanted == "" and role in ("value", "time"):
        return None
    if wanted not in names:
        raise InputError(where, f"no column '{wanted}'", fix=did_you_mean(wanted, names))
    return wanted


def _refuse_missing(
    table: ColumnTable, role: str, columns: list[str | None], where: str
) -> NoReturn:
    names = table.frame.columns
    # The best guess is a column without a role that holds no times.
    free = [name for name in names if name not in columns and not looks_like_times(table, name)]
    example = next(iter(free), "NAME")
    dots = ", ..." if len(names) > 12 else ""
    raise InputError(
        where,
        f"no {role} column among {', '.join(names[:12])}{dots}",
        expected=f"a column named {USUAL[role][0]}, or a similar name",
        fix=f"say which it is, such as {role}='{example}' (--load {role}={example})",
    )


def rivals(table: ColumnTable, role: str, roles: Roles) -> list[str]:
    """Returns the columns with a usual name of a role, the one that has the role first. There are
    none besides it if the others have another role.
    """
    named = _named(table.frame.columns, role)
    chosen = [name for name in (getattr(roles, role),) if name is not None]
    return [*chosen, *(name for name in named if name not in roles)]


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
        fix=f"say which it is: {' or '.join(choices)}",
    )


def _one_to_one(table: ColumnTable, columns: list[str]) -> bool:
    """Returns True if each value of one column goes with one value of every other, as a number goes
    with a name.
    """
    sizes = {table.frame[name].n_unique() for name in columns}
    return len(sizes) == 1 and table.frame.select(columns).n_unique() in sizes


def assemble(table: ColumnTable, options: LoadOptions, *, name: str) -> Interactions:
    """Returns the interactions in a table with the report of their reading. Raises InputError at
    the first bad row. `inspect` checks that there is enough to learn from.
    """
    roles = find_roles(table, options)
    uses = column_uses(table, roles, options)
    if options.likes is None:
        _ask_about_unread(table, roles)
    table = _whole_ids(table, roles, options)
    table, columns = read_good_rows(table, _steps(roles, options), options)
    user, item, value, time, yes = columns[2:]
    odd = (*odd_ids(table, user), *odd_ids(table, item))
    # Rows that say nothing of their pair go before repeats are treated.
    counting = rows_that_count(table, value, yes, options.likes, options.not_rated)
    table = table.only(counting.rows)
    user, item, value, time = _of_rows(counting.rows, user, item, value, time)
    pair = pair_numbers(user.code, item.code, len(item.names))
    order = pair_order(pair)
    if value is None and options.duplicates == "sum":
        # A row without a value counts as one where repeats add up.
        kept = KeptRows(slice(None), np.ones(len(pair), np.float32))
    else:
        kept = KeptRows(slice(None), value)
    if order.repeats:
        # Repeats are judged before rows are sorted, while each has its place in the file.
        kept = keep(table, pair, value, time.time, options)
    judged = LikedRows()
    if kept.value is not None or options.likes is not None:
        # A rule about values judges the row of a pair that stays.
        guessed = options.value is None
        judged = judge(table, kept.value, kept.rows, options.likes, options.bounds, guessed)
    rows = kept.rows
    left_out = (*table.left_out, *counting.left_out, *kept.left_out, *judged.left_out)
    notes = (
        *table.notes,
        *_unread_control(table, roles),
        *odd,
        *user.notes,
        *item.notes,
        *time.notes,
        *counting.notes,
        *kept.notes,
        *judged.notes,
    )
    data = build(
        user.code[rows],
        item.code[rows],
        value=kept.value,
        time=None if time.time is None else time.time[rows],
        # That of the rows that stay, if it is known.
        order=order if isinstance(rows, slice) else None,
        users=user.names,
        items=item.names,
        name=name,
        scale=None if kept.value is None else options.bounds,
        reading=Reading(
            table.source,
            uses,
            (*table.guesses, *guesses_of(table, roles, options, uses), *time.guesses),
            left_out,
            notes,
            options.likes or "",
            kept.value is not None and options.scale is not None,
        ),
    )
    if kept.visits and time.time is not None:
        places = np.arange(len(user.code))
        all_rows = VisitColumns(user.code, item.code, time.time, places)
        data = with_visits(data, all_rows, table.source)
    # Visits are of all rows, so that rows leave after them.
    if counting.left_out or judged.left_out:
        data = only_likes(data, judged.stays)
    if kept.value is None and options.scale is None:
        return data
    return on_scale(data, options.scale)


def _whole_ids(table: ColumnTable, roles: Roles, options: LoadOptions) -> ColumnTable:
    """Returns the table with ids that a program wrote as decimals as whole numbers, if the user
    says so, or where rows without an id go, which made floats of a frame's column.
    """
    for name in (roles.user, roles.item):
        column = table.frame[name]
        floats = column.dtype.is_float() and options.bad_rows == "drop"
        if column.dtype.is_nested() or not (floats or options.ids == "whole"):
            continue
        whole = as_whole(column)
        if whole.dtype != column.dtype:
            note = f"ids of '{name}' that were written as decimals, read as whole numbers"
            frame = table.frame.with_columns(whole)
            table = replace(table, frame=frame, notes=(*table.notes, note))
    return table


def _steps(roles: Roles, options: LoadOptions) -> list[Callable[[ColumnTable], Any]]:
    """Returns the steps that read a table: checks of headers that are repeated and of control
    characters, then the columns of users, items, values, times and labels.
    """

    def read_values(table: ColumnTable) -> Float32Array | None:
        if roles.value is None:
            return None
        value = values(table, roles.value)
        scale = options.scale
        rule = options.likes
        not_rated = options.not_rated
        check_values(table, roles.value, value, scale, rule, not_rated)
        return value

    def read_times(table: ColumnTable) -> Times:
        if roles.time is None:
            return Times(None, ())
        return times(table, roles.time, options)

    def read_labels(table: ColumnTable) -> BoolArray | None:
        rule = options.likes
        if rule is not None and by_column(rule):
            return labels_of(table, rule)
        return None

    return [
        lambda table: _check_headers(table, roles),
        lambda table: _check_control(table, roles),
        lambda table: ids(table, roles.user, "user"),
        lambda table: ids(table, roles.item, "item"),
        read_values,
        read_times,
        read_labels,
    ]


def _of_rows(
    rows: BoolArray, user: IdColumn, item: IdColumn, value: Float32Array | None, time: Times
) -> tuple[IdColumn, IdColumn, Float32Array | None, Times]:
    """Returns the columns of the rows where `rows`, bool [rows], is true."""
    if rows.all():
        return user, item, value, time
    return (
        user._replace(code=user.code[rows]),
        item._replace(code=item.code[rows]),
        None if value is None else value[rows],
        time if time.time is None else time._replace(time=time.time[rows]),
    )


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
    role_of = {name: role for role, name in roles._asdict().items()}
    uses = []
    for name in table.frame.columns:
        role = role_of.get(name, "")
        if name == options.likes and not role:
            uses.append(ColumnUse(name, "likes", f"named by likes={name}"))
        elif not role:
            uses.append(ColumnUse(name, "", _why_unread(table, name, options)))
        elif getattr(options, role) is not None:
            uses.append(ColumnUse(name, role, f"named by {role}={getattr(options, role)}"))
        else:
            uses.append(ColumnUse(name, role, f"a usual name of the {role} column"))
    return tuple(uses)


def _why_unread(table: ColumnTable, name: str, options: LoadOptions) -> str:
    loss = look_at(table, name)
    if loss is None:
        return "no option and no usual name gives it a role"
    if loss.role == "likes" and options.likes is not None:
        return f"left out by likes={options.likes}"
    if getattr(options, loss.role) == "":
        return f"left out by {loss.role}="
    option = f"{loss.role}={name}"
    return f"{unread(loss.kind)}: say {loss.role}='{name}' (--load {option})"


def guesses_of(
    table: ColumnTable, roles: Roles, options: LoadOptions, uses: Sequence[ColumnUse]
) -> Iterator[Guess]:
    """Yields the guesses about columns: a role by a usual name that does not say it, one of several
    columns for a role, and a column left unread that seems to have a missing role.
    """
    for role, name in roles._asdict().items():
        if name is None or getattr(options, role) is not None:
            continue
        others = rivals(table, role, roles)[1:]
        if others:
            listed = ", ".join(f"'{other}'" for other in others)
            yield Guess(f"the {role} column is '{name}', not {listed}", f"{role}={name}")
        elif plain(name) not in map(plain, USUAL[role][:SURE]):
            yield Guess(f"the {role} column is '{name}'", f"{role}={name}")
    for role in ("value", "time"):
        if getattr(roles, role) is None and getattr(options, role) is None:
            yield from _missed(role, "", uses)
    if options.likes is None:
        yield from _missed("likes", ANY, uses)


def _missed(role: str, without: str, uses: Sequence[ColumnUse]) -> Iterator[Guess]:
    """Yields the guess that the data has no column of a role, if unread ones look like it. without:
    the value of the option that says so.
    """
    mark = f"(--load {role}="
    names = [use.name for use in uses if not use.role and mark in use.why]
    if names:
        # A table of a model's inputs may have thousands.
        names = names[:LISTED]
        listed = ", ".join(f"'{name}'" for name in names)
        options = " or ".join(f"{role}={name}" for name in [*names, without])
        kind = "labels likes" if role == "likes" else f"is the {role}"
        yield Guess(f"no column {kind}, also not {listed}", options)


def _ask_about_unread(table: ColumnTable, roles: Roles) -> None:
    """Raises InputError if an unread column says that something was not consumed, of which each row
    would be a like.
    """
    unread_columns = [name for name in table.frame.columns if name not in roles]
    labels = labels_among(unread_columns)
    ask_about_labels(table, labels, [name for name in labels if denies(name)])
    for name in unread_columns:
        kind = refused_action(table, name)
        if kind is not None:
            ask_about_actions(table, name, kind)


def inspect(data: Interactions, filters: Sequence[str]) -> Interactions:
    """Checks that a data set can be learned from, and returns it with a note on users with one row.
    Raises InputError if there is a single user, or if a user consumed every item.

    filters: the options that left rows out, such as `min_rows=5`, which an error names.
    """
    where = data.reading.source or data.name
    after = ""
    remedy = ""
    if filters:
        after = f"after {', '.join(filters)}, "
        remedy = f"choose a weaker filter, or leave {filters[-1]} out"
    counts = data.counts
    # Learning from others needs others.
    if len(data.users) == 1:
        raise InputError(
            where,
            f"{after}there is a single user ('{data.users[0]}')",
            expected="at least two users",
            fix=remedy or "recommending from others needs others; check the user column",
        )
    most = int(np.argmax(counts))
    # Negatives are drawn from the items that a user did not consume.
    if counts[most] == len(data.items):
        option = f"max_items_of_a_user={counts[most] - 1}"
        raise InputError(
            where,
            f"{after}user '{data.users[most]}' consumed all {len(data.items)} items, so there is"
            " none to recommend or compare with",
            expected="items that a user did not consume",
            fix=remedy or f"leave such users out: {option} (--load {option})",
        )
    single = int((counts == 1).sum())
    if not single:
        return data
    note = (
        f"users with one interaction, which cannot be held out and learned from at once: {single:,}"
    )
    return data.noted(note)
