"""Likes: the rows that count as consumption. They are decided once, before the split, so that
algorithms that learn from consumption, rankings and rating predictors see the same rows.

A rule is a text: `any` (every row), `positive` (values above 0), `at_least=X` (values from X on),
or the name of a column of labels. Rows that are no likes are left out; the others keep their
values. Without a rule every row is a like, and data that could be read in two ways is refused:
values of 0 or less, or an unread column of labels.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple, NoReturn

import numpy as np

from ..core.errors import InputError, did_you_mean
from ..core.types import BoolArray, Float32Array, Int64Array
from .filters import compact, only_rows
from .interactions import Interactions
from .options import ANY, AT_LEAST, POSITIVE, RULES, LoadOptions, span_of
from .reading import LeftOut
from .table import ColumnTable, IdColumn, Times, refuse, shown

# The plain forms of labels. -1 is the dislike of data that has dislikes beside likes.
YES = ("1", "1.0", "true", "t", "yes", "y")
NO = ("0", "0.0", "-1", "-1.0", "false", "f", "no", "n")
# The usual names of columns of labels, as `columns.plain` compares them.
LABELS = (
    *(
        "label",
        "labels",
        "target",
        "feedback",
        "click",
        "clicks",
        "clicked",
        "isclick",
        "isclicked",
    ),
    *("like", "liked", "islike", "isliked", "favorite", "isfavorite", "purchased", "ispurchased"),
    "bought",
)


# ---- rules ---------------------------------------------------------------------------------------


def by_column(rule: str | None) -> bool:
    """Returns True for a rule that names a column of labels."""
    return rule is not None and rule not in (ANY, POSITIVE) and not by_bar(rule)


def by_bar(rule: str) -> bool:
    """Returns True for a rule `at_least=X`."""
    return rule.startswith(f"{AT_LEAST}=")


def liked(value: Float32Array, rule: str | None) -> BoolArray:
    """Returns True for every value that a rule counts as a like, bool [rows]; a column of labels
    judges no values.
    """
    if rule == POSITIVE:
        return value > 0
    if rule is not None and by_bar(rule):
        return value >= np.float32(rule.partition("=")[2])
    return np.ones(len(value), bool)


def said(rule: str) -> str:
    """Returns a rule with its meaning, such as `likes=positive: rows with a value above 0`."""
    if rule == ANY:
        meaning = "every row, whatever its value"
    elif rule == POSITIVE:
        meaning = "rows with a value above 0"
    elif by_bar(rule):
        meaning = f"rows with a value of {rule.partition('=')[2]} or more"
    else:
        meaning = f"rows whose '{rule}' says yes"
    return f"likes={rule}: {meaning}"


# ---- rows of a table -----------------------------------------------------------------------------


class ReadColumns(NamedTuple):
    """The columns of a table, read: one entry for each of its rows."""

    user: IdColumn
    item: IdColumn
    value: Float32Array | None
    """float32 [rows]; None without a column of values."""
    time: Times
    yes: BoolArray | None
    """True where the label of the rule says yes, bool [rows]; None without such a rule."""


class CountingRows(NamedTuple):
    """The rows of a table that say something of their pair."""

    table: ColumnTable
    """These rows; its `left_out` counts the others."""
    columns: tuple[IdColumn, IdColumn, Float32Array | None, Times]
    """Their users, items, values and times."""


def rows_that_count(table: ColumnTable, columns: ReadColumns, options: LoadOptions) -> CountingRows:
    """Returns the rows without those that a column of labels calls no likes, and without those
    whose value means "not rated". Neither says anything of the pair, so that both go before repeats
    are treated. Raises InputError if no row is left.
    """
    user, item, value, time, yes = columns
    keep = np.ones(len(user.code), bool)
    if options.not_rated is not None:
        if value is None:
            _refuse_without_values(table, "not_rated")
        rated = value != np.float32(options.not_rated)
        reason = f"the value is {options.not_rated:g} (not_rated={options.not_rated:g})"
        table = _counted(table, keep, rated, reason)
        keep &= rated
    if yes is not None:
        reason = f"'{options.rule}' says no (likes={options.rule})"
        table = _counted(table, keep, yes, reason)
        keep = keep & yes
    if not keep.all():
        user = user._replace(code=user.code[keep])
        item = item._replace(code=item.code[keep])
        value = None if value is None else value[keep]
        time = time._replace(time=None if time.time is None else time.time[keep])
        table = table.without(~keep)
    return CountingRows(table, (user, item, value, time))


def _counted(table: ColumnTable, before: BoolArray, stays: BoolArray, reason: str) -> ColumnTable:
    """Returns the same rows, with those of `before` that do not stay among the counts of rows that
    are left out. before, stays: bool [rows].
    """
    goes = before & ~stays
    if not goes.any():
        return replace(table, notes=(*table.notes, f"no row was left out for: {reason}"))
    if not (before & stays).any():
        raise InputError(
            table.source,
            f"no row is left, since of each one {reason}",
            expected="an option that leaves rows",
        )
    entry = LeftOut(reason, int(goes.sum()), table.where(int(np.argmax(goes))))
    return replace(table, left_out=(*table.left_out, entry))


def labels(table: ColumnTable, rule: str | None) -> BoolArray | None:
    """Returns True for every row whose label says yes, bool [rows]; None for a rule without a
    column. Raises InputError for a column that does not exist, and for a field that is no label.
    """
    if rule is None or not by_column(rule):
        return None
    columns = table.frame.columns
    if rule not in columns:
        fix = did_you_mean(rule, [ANY, POSITIVE, f"{AT_LEAST}=X", *columns])
        raise InputError(
            "likes", f"no rule and no column '{rule}' in {table.source}", expected=RULES, fix=fix
        )
    text = _label_text(table, rule)
    yes = text.is_in(YES).to_numpy()
    strange = ~(yes | text.is_in(NO).to_numpy())
    if strange.any():
        refuse(
            table,
            strange,
            f"the label '{rule}' is '{shown(text, strange)}'",
            expected="0 or 1, true or false, yes or no",
            fix=f"for ratings or counts say value={rule} with likes=positive or likes=at_least=X",
            reason=f"the label '{rule}' is neither yes nor no",
        )
    return yes


def _label_text(table: ColumnTable, name: str) -> Any:
    """Returns a column as lower-case text without blanks around it, "" where a field is empty."""
    import polars as pl

    column = table.frame[name].cast(pl.String, strict=False).fill_null("")
    return column.str.strip_chars().str.to_lowercase()


def ask_about_labels(table: ColumnTable, names: list[str], rule: str | None) -> None:
    """Raises InputError if one of the unread columns `names` holds labels that say no somewhere,
    and nobody said what counts as a like.
    """
    if rule is not None:
        return
    for name in names:
        text = _label_text(table, name)
        no = text.is_in(NO).to_numpy()
        if no.any() and (no | text.is_in(YES).to_numpy()).all():
            raise InputError(
                table.where(int(np.argmax(no))),
                f"the column '{name}' is not read and says no in {int(no.sum()):,} of"
                f" {len(no):,} rows, which may be likes all the same or not",
                expected="one meaning",
                fix=f"say likes={name} (without these rows) or likes=any (every row is a like), as"
                f" in --load likes={name}",
            )


class JudgedRows(NamedTuple):
    """The rows that a rule counts as likes."""

    likes: BoolArray | None
    """True for a like, bool [rows]; None if every row is one."""
    left_out: tuple[LeftOut, ...] = ()
    """The rows that are no likes."""
    notes: tuple[str, ...] = ()
    """The rows with a value of 0 or less that count as likes."""


def judge(
    table: ColumnTable, rows: Int64Array, value: Float32Array | None, options: LoadOptions
) -> JudgedRows:
    """Returns which of some rows are likes. rows: positions in the table, ascending. value: of
    these rows, float32 [rows]; None if they have none.

    Raises InputError for values of 0 or less about which nothing was said, for a rule about values
    that the data does not have, and if no row is a like.
    """
    rule, scale = options.rule, options.bounds
    if value is None:
        if rule is not None and rule != ANY and not by_column(rule):
            _refuse_without_values(table, f"likes={rule}")
        return JudgedRows(None)
    low = value <= 0
    if rule is None:
        if not low.any():
            return JudgedRows(None)
        if scale is None or scale[0] > 0:
            refuse_unsaid(table.where(int(rows[np.argmax(low)])), value)
        note = f"{_count_low(low)}, which are ratings since scale={span_of(*scale)} says so"
        return JudgedRows(None, (), (note,))
    likes = liked(value, rule)
    if not likes.any():
        refuse_no_like(table.source, value, rule)
    notes: tuple[str, ...] = ()
    if (low & likes).any():
        notes = (f"{_count_low(low & likes)}, which count as likes (likes={rule})",)
    if likes.all():
        return JudgedRows(None, (), notes)
    first = table.where(int(rows[np.argmin(likes)]))
    entry = LeftOut(f"no likes ({said(rule)})", int((~likes).sum()), first)
    return JudgedRows(likes, (entry,), notes)


def only_likes(data: Interactions, likes: BoolArray | None) -> Interactions:
    """Returns the likes among rows that were built of a table, over the users and items that occur.
    likes: by place in the source, bool [rows]; None if every row is one.
    """
    if likes is not None:
        assert data.row is not None
        # What is left is the whole from here on, and so is its scale.
        data = replace(data.select(likes[data.row]), scale=data.scale)
    return compact(data)


def _count_low(low: BoolArray) -> str:
    return f"rows with a value of 0 or less: {int(low.sum()):,}"


# ---- rows of any source --------------------------------------------------------------------------


def keep_likes(data: Interactions, rule: str) -> Interactions:
    """Returns the rows of a named data set that a rule counts as likes, over the users and items
    that still occur.

    Raises InputError for a column of labels, which a named data set does not have, and if no row is
    a like.
    """
    if by_column(rule):
        fix = did_you_mean(rule, [ANY, POSITIVE, f"{AT_LEAST}=X"])
        expected = "any, positive or at_least=X: a named data set has no column of labels"
        raise InputError(data.name, f"likes={rule}", expected=expected, fix=fix)
    keep = liked(data.value, rule)
    if not keep.any():
        refuse_no_like(data.name, data.value, rule)
    kept = only_rows(data, keep, said(rule))
    return replace(kept, reading=kept.reading._replace(likes=rule))


def check_likes(data: Interactions, algorithm: str, predicts_ratings: bool) -> None:
    """Raises InputError for data with values of 0 or less about which nothing was said. A declared
    scale of ratings says enough for an algorithm that predicts ratings.
    """
    if data.reading.likes or not len(data) or data.value.min() > 0:
        return
    if data.scale is not None and data.reading.scaled and predicts_ratings:
        return
    refuse_unsaid(f"{data.name} for {algorithm}", data.value, data.reading.scaled)


def refuse_unsaid(where: str, value: Float32Array, scaled: bool = False) -> NoReturn:
    """Refuses values, float32 [rows], some of which are 0 or less and may mean two things. scaled:
    True if their scale is declared.
    """
    low = value <= 0
    lowest = float(value.min())
    highest = float(value.max())
    options = ["likes=any (every row is a like)"]
    if highest > 0:
        options.append("likes=positive (values above 0 are)")
        options.append("likes=at_least=X")
    missing = np.unique(value[low])
    # A value that stands among others of its kind is not the mark of a missing one.
    if len(missing) == 1 and highest > 0:
        options.append(f"not_rated={missing[0]:.9g} (such rows are no ratings)")
    if lowest < highest and not scaled:
        options.append(f"scale={span_of(lowest, highest)} (all are ratings, to be predicted)")
    raise InputError(
        where,
        f"{_count_low(low)} of {len(value):,} (the lowest is {lowest:.9g}), which may be likes all"
        " the same or not",
        expected="one meaning",
        fix=f"say one of: {'; '.join(options)} (--load likes=any)",
    )


def refuse_no_like(where: str, value: Float32Array, rule: str) -> NoReturn:
    """Refuses a rule under which no value, float32 [rows], is a like."""
    raise InputError(
        where,
        f"no row is a like under {said(rule)}",
        expected="a rule that leaves rows",
        fix=f"the values go from {value.min():.9g} to {value.max():.9g}",
    )


def _refuse_without_values(table: ColumnTable, option: str) -> NoReturn:
    names = ", ".join(table.frame.columns[:12])
    raise InputError(
        table.source,
        f"{option} judges values, and no column of values was read",
        expected="a column of values",
        fix=f"say value=COLUMN, one of {names} (--load value=COLUMN)",
    )
