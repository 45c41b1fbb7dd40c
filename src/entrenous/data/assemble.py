"""A table to `Interactions`: which column is which, ids and values, repeated pairs, and whether
there is enough to learn from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..core.errors import InputError, did_you_mean
from ..core.types import Float32Array, Int64Array
from .columns import USUAL, Reading, find_usual
from .interactions import UNREAD_TIMES, Interactions, build
from .table import ColumnTable, ids, values
from .times import looks_like_times, times
from .visits import VisitColumns, with_visits


class Roles(NamedTuple):
    """Column names by role; None = the data has no such column."""

    user: str
    item: str
    value: str | None
    time: str | None


class KeptRows(NamedTuple):
    """Row positions to keep, ascending, what was done about repeated pairs, and whether repeats are
    visits, of which each counts.
    """

    rows: Int64Array
    notes: tuple[str, ...]
    visits: bool = False


def assemble(table: ColumnTable, reading: Reading, *, name: str) -> Interactions:
    """The interactions in a table. Raises InputError at the first row that is wrong, or if the
    whole is too small.
    """
    where = table.source if table.first_line is None else f"{table.source}:1"
    roles = find_roles(table.frame.columns, reading, where)
    user, item = ids(table, roles.user, "user"), ids(table, roles.item, "item")
    value = None if roles.value is None else values(table, roles.value, reading.scale)
    time, time_notes = (None, ()) if roles.time is None else times(table, roles.time)
    pair = user.code.astype(np.int64) * len(item.names) + item.code
    kept = keep(table, pair, value, time, reading)
    said = (_note(table, roles), *_unread_times(table, roles, reading))
    data = build(
        user.code[kept.rows],
        item.code[kept.rows],
        value=None if value is None else value[kept.rows],
        time=None if time is None else time[kept.rows],
        users=user.names,
        items=item.names,
        name=name,
        scale=None if value is None else reading.scale,
        notes=(
            *said,
            *table.notes,
            *user.notes,
            *item.notes,
            *time_notes,
            *kept.notes,
        ),
    )
    if kept.visits and time is not None:
        all_rows = VisitColumns(
            user.code.astype(np.int64), item.code.astype(np.int64), time, np.arange(len(pair))
        )
        data = with_visits(data, all_rows, table.source)
    return data if reading.part else inspect(data, table.source)


def _note(table: ColumnTable, roles: Roles) -> str:
    found = ", ".join(
        f"{role} = {column}" for role, column in roles._asdict().items() if column is not None
    )
    return f"read {table.source}: {found}"


def _unread_times(table: ColumnTable, roles: Roles, reading: Reading) -> tuple[str, ...]:
    """A note on a column that nobody named and that looks like the times which the data lacks."""
    if roles.time is not None or reading.time == "":
        return ()
    unread = [
        name for name in table.frame.columns if name not in roles and looks_like_times(table, name)
    ]
    return tuple(
        f"'{name}' {UNREAD_TIMES}: say time='{name}' (--load time={name})" for name in unread[:1]
    )


def find_roles(names: Sequence[str], reading: Reading, where: str) -> Roles:
    """The column of each role. Raises InputError if a wanted one is missing or one column would
    have two roles.
    """
    user = _find(names, "user", reading.user, where)
    item = _find(names, "item", reading.item, where)
    value, time = (
        _find(names, "value", reading.value, where),
        _find(names, "time", reading.time, where),
    )
    if user is None or item is None:
        role = "user" if user is None else "item"
        example = next((name for name in names if name not in (user, item, value, time)), "NAME")
        raise InputError(
            where,
            f"no {role} column among {', '.join(names[:12])}"
            + (", ..." if len(names) > 12 else ""),
            expected=f"a column named {USUAL[role][0]}, or a similar name",
            fix=f"say which it is, such as {role}='{example}' (--load {role}={example})",
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


def keep(
    table: ColumnTable,
    pair: Int64Array,
    value: Float32Array | None,
    time: Int64Array | None,
    reading: Reading,
) -> KeptRows:
    """Which rows stay where a pair is repeated. pair: int64 [rows], one number for each (user,
    item).
    """
    ascending = np.sort(pair)
    if not (ascending[1:] == ascending[:-1]).any():
        return KeptRows(np.arange(len(pair)), ())
    order = (
        np.lexsort((pair,)) if time is None else np.lexsort((time, pair))
    )  # stable: ties keep the order of the file
    same = pair[order[1:]] == pair[order[:-1]]
    if reading.duplicates == "error":
        _refuse_repeat(table, order, same)
    if reading.duplicates == "same" and value is not None:
        _refuse_conflict(table, order, same & (value[order[1:]] != value[order[:-1]]), value)
    edge = (
        np.concatenate([[True], ~same])
        if reading.duplicates == "first"
        else np.concatenate([~same, [True]])
    )
    rows, which = np.sort(order[edge]), "first" if reading.duplicates == "first" else "last"
    by = "in the file" if time is None else "by time, then by place in the file"
    visits = time is not None and value is None and which == "last"
    what = f"the {which} {by} is kept{', with the times of all' if visits else ''}"
    return KeptRows(
        rows,
        (f"repeats of a (user, item) pair, of which {what}: {len(pair) - len(rows):,}",),
        visits,
    )


def _refuse_repeat(table: ColumnTable, order: Int64Array, same: np.ndarray) -> None:
    later = int(np.maximum(order[1:], order[:-1])[same].min())
    fix = "choose duplicates='last' or 'first' (--load duplicates=last)"
    raise InputError(
        table.where(later),
        "the (user, item) pair occurs before",
        expected="one row per pair",
        fix=fix,
    )


def _refuse_conflict(
    table: ColumnTable, order: Int64Array, conflict: np.ndarray, value: Float32Array
) -> None:
    if not conflict.any():
        return
    later = np.maximum(order[1:], order[:-1])[conflict]
    first = int(np.argmin(later))
    row, other = int(later[first]), int(np.minimum(order[1:], order[:-1])[conflict][first])
    problem = (
        f"the (user, item) pair has value {value[row]:g} here and {value[other]:g} at"
        f" {table.where(other).rpartition(':')[2]}"
    )
    fix = "choose duplicates='last' or 'first' (--load duplicates=last)"
    raise InputError(table.where(row), problem, expected="repeats that agree", fix=fix)


def inspect(data: Interactions, where: str) -> Interactions:
    """Check that a data set can be used, and return it with a note on users that have one row.
    Raises InputError if there is one user, or one that consumed every item."""
    counts = data.counts
    if len(data.users) == 1:
        problem = f"there is a single user ('{data.users[0]}')"
        raise InputError(
            where,
            problem,
            expected="at least two users",
            fix="recommending from others needs others; check the user column",
        )
    full = int(np.argmax(counts))
    if counts[full] == len(data.items):
        problem = (
            f"user '{data.users[full]}' consumed all {len(data.items)} items, so there is none to"
            " recommend or compare with"
        )
        raise InputError(
            where,
            problem,
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
