"""Likes: the rows that count as consumption. They are decided once, before the split, so that
algorithms that learn from consumption, rankings and rating predictors see the same rows.

A rule is a text: `any` (every row), `positive` (values above 0), `at_least=X` (values from X on),
or the name of a column of labels. Rows that are no likes are left out; the others keep their
values. Without a rule every row is a like, and data that could be read in two ways is refused:
values of 0 or less, or an unread column of labels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, NoReturn

import numpy as np

from ..core.errors import InputError, did_you_mean
from ..core.types import BoolArray, Float32Array, Int64Array
from .filters import compact, only_rows
from .interactions import Interactions
from .reading import LeftOut
from .table import ColumnTable, refuse

ANY = "any"
POSITIVE = "positive"
AT_LEAST = "at_least"
RULES = "any, positive, at_least=X, or the name of a column of labels"
# The plain forms of labels. -1 is the dislike of data that has dislikes beside likes.
YES = frozenset(("1", "1.0", "true", "t", "yes", "y"))
NO = frozenset(("0", "0.0", "-1", "-1.0", "false", "f", "no", "n"))


# ---- rules ---------------------------------------------------------------------------------------


def read_rule(given: Any) -> str:
    """Returns a rule in its one form: ("at_least", 4) and "at_least=4.0" are "at_least=4".

    Raises InputError for a bar that is no finite number, and for anything but text.

    >>> read_rule(("at_least", 4))
    'at_least=4'
    """
    if isinstance(given, list | tuple) and len(given) == 2 and given[0] == AT_LEAST:
        given = f"{AT_LEAST}={given[1]}"
    if not isinstance(given, str) or not given.strip():
        raise InputError("likes", f"got {given!r:.80}", expected=RULES)
    name, _, bar = given.partition("=")
    if name.strip() != AT_LEAST:
        return given.strip()
    try:
        number = float(bar)
    except ValueError:
        number = math.nan
    # NaN and infinity are numbers to Python, and bars to nobody.
    if not math.isfinite(number):
        raise InputError("likes", f"got {given!r:.80}", expected="a number, such as at_least=4")
    # Nine digits tell all numbers of float32 apart.
    return f"{AT_LEAST}={number:.9g}"


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


class Counting(NamedTuple):
    """The rows that say something of their pair."""

    rows: BoolArray
    """bool [rows]."""
    left_out: tuple[LeftOut, ...] = ()
    """The other rows."""
    notes: tuple[str, ...] = ()
    """The options that left no row out."""


def rows_that_count(
    table: ColumnTable,
    value: Float32Array | None,
    yes: BoolArray | None,
    rule: str | None,
    not_rated: float | None,
) -> Counting:
    """Returns the rows without those whose value means "not rated", and those that a column of
    labels calls no likes: neither says anything of the pair, so that both go before repeats are
    treated. value, yes: the value and the label of each row; None without such a column.

    Raises InputError if there are no values to judge, and if no row is left.
    """
    # Each step leaves out some more rows, and reports them.
    counting = Counting(np.ones(table.frame.height, bool))
    if not_rated is not None:
        if value is None:
            _refuse_without_values(table, "not_rated")
        rated = value != np.float32(not_rated)
        reason = f"the value is {not_rated:g} (not_rated={not_rated:g})"
        counting = _without(table, counting, rated, reason)
    if yes is not None:
        reason = f"'{rule}' says no (likes={rule})"
        counting = _without(table, counting, yes, reason)
    return counting


def _without(table: ColumnTable, counting: Counting, keep: BoolArray, reason: str) -> Counting:
    rows, left_out, notes = counting
    # Rows that an earlier step left out are not counted twice.
    gone = rows & ~keep
    if not gone.any():
        return Counting(rows, left_out, (*notes, f"no row was left out for: {reason}"))
    if not (rows & keep).any():
        which = "one" if rows.all() else "other one"
        problem = f"no row is left, since of each {which} {reason}"
        raise InputError(table.source, problem, expected="options that leave rows")
    entry = LeftOut(reason, int(gone.sum()), table.where(int(np.argmax(gone))))
    return Counting(rows & keep, (*left_out, entry), notes)


def labels_of(table: ColumnTable, name: str) -> BoolArray:
    """Returns True for every row whose label says yes, bool [rows]."""
    columns = table.frame.columns
    if name not in columns:
        fix = did_you_mean(name, [ANY, POSITIVE, f"{AT_LEAST}=X", *columns])
        raise InputError(
            "likes", f"no rule and no column '{name}' in {table.source}", expected=RULES, fix=fix
        )
    text = label_text(table, name)
    # A field that is neither is an error, not a no.
    yes = text.is_in(list(YES)).to_numpy()
    strange = ~(yes | text.is_in(list(NO)).to_numpy())
    if strange.any():
        shown = text[int(np.argmax(strange))][:40]
        refuse(
            table,
            strange,
            f"the label '{name}' is '{shown}'",
            expected="0 or 1, true or false, yes or no",
            fix=f"for ratings or counts say value={name} with likes=positive or likes=at_least=X",
            reason=f"the label '{name}' is neither yes nor no",
        )
    return yes


def label_text(table: ColumnTable, name: str) -> Any:
    """Returns a column as lower-case text without blanks around it, "" where a field is empty."""
    import polars as pl

    column = table.frame[name].cast(pl.String, strict=False).fill_null("")
    return column.str.strip_chars().str.to_lowercase()


class LikedRows(NamedTuple):
    """The rows that a rule counts as likes."""

    stays: BoolArray | None = None
    """True for a row that is a like, bool [rows]; None if every row is one."""
    left_out: tuple[LeftOut, ...] = ()
    """The rows that are no likes."""
    notes: tuple[str, ...] = ()
    """The rows with a value of 0 or less that count as likes."""


def judge(
    table: ColumnTable,
    value: Float32Array | None,
    rows: Int64Array | slice,
    rule: str | None,
    scale: tuple[float, float] | None,
    guessed: bool,
) -> LikedRows:
    """Returns those of the rows at the places `rows`, ascending, that are likes. value: of each of
    them; None if the data has none. scale: the declared scale of ratings. guessed: True if the
    column of values was found by its name.

    Raises InputError for values of 0 or less about which nothing was said, for a rule about values
    that the data does not have, and if no row is a like.
    """
    if value is None:
        if rule is not None and rule != ANY and not by_column(rule):
            _refuse_without_values(table, f"likes={rule}")
        return LikedRows()
    low = value <= 0
    if rule is None:
        further = ["value= (the column holds no values)"] if guessed else []
        said_by_scale = scale is not None and scale[0] <= 0
        check_said(table.where(_first(rows, low)), value, said_by_scale, further)
        if scale is None or not low.any():
            return LikedRows(notes=_whatever(value))
        note = f"{_count_low(low)}, which are ratings since scale={_of(*scale)} says so"
        return LikedRows(notes=(note,))
    keep = some_liked(table.source, value, rule)
    notes: tuple[str, ...] = ()
    if (low & keep).any():
        notes = (f"{_count_low(low & keep)}, which count as likes (likes={rule})",)
    # The rule left nothing out, which needs no entry in the report.
    if keep.all():
        return LikedRows(notes=notes)
    first = table.where(_first(rows, ~keep))
    entry = LeftOut(f"no likes ({said(rule)})", int((~keep).sum()), first)
    return LikedRows(keep, (entry,), notes)


def _whatever(value: Float32Array) -> tuple[str, ...]:
    """Returns a note that low values are likes too, if values, float32 [rows], differ."""
    low = float(value.min())
    high = float(value.max())
    if low == high:
        return ()
    return (
        f"values from {low:.9g} to {high:.9g}: every row counts as a like, one with a low value too"
        " (likes=at_least=X leaves them out)",
    )


def _first(rows: Int64Array | slice, which: BoolArray) -> int:
    """Returns the place of the first of the `rows` that `which` marks."""
    # The places of a slice begin at 0.
    number = int(np.argmax(which))
    if isinstance(rows, slice):
        return number
    return int(rows[number])


def only_likes(data: Interactions, stays: BoolArray | None) -> Interactions:
    """Returns the likes among the rows of a table, over the users and items that occur. stays: by
    the place of a row in the table, bool [rows]; None if every row is a like.
    """
    if stays is not None:
        assert data.row is not None
        # What is left is the whole from here on, and so is its scale.
        data = replace(data.select(stays[data.row]), scale=data.scale)
    return compact(data)


def _count_low(low: BoolArray) -> str:
    return f"rows with a value of 0 or less: {int(low.sum()):,}"


def _of(low: float, high: float) -> str:
    """Returns a scale as the option has it. Nine digits tell all numbers of float32 apart."""
    return f"{low:.9g},{high:.9g}"


def ask_about_labels(table: ColumnTable, names: Sequence[str], denials: Sequence[str]) -> None:
    """Raises InputError if one of the columns `names` says no somewhere, or one of the columns
    `denials`, in which yes means no, says yes.
    """
    for name in names:
        text = label_text(table, name)
        # An empty field makes a column of labels none the less one.
        labels = text.is_in([*YES, *NO, ""]).all()
        says = text.is_in(list(NO)) if labels else _zeros(text)
        if name in denials:
            says = text.is_in(list(YES))
        if not says.any():
            continue
        # A column of numbers; labels and denials have words of their own below.
        word = "is 0 or less"
        option = "any"
        fix = f"say value={name} with likes=positive to leave these rows out"
        if name in denials:
            word = "says yes"
            fix = "leave these rows out of the file"
        elif labels:
            word = "says no"
            option = name
            fix = f"say likes={name} to leave these rows out"
        fix += f", or likes=any to count every row (--load likes={option})"
        rows = says.fill_null(False).to_numpy()
        _ask(table, name, rows, word, fix)


def _zeros(text: Any) -> Any:
    """Returns True for the numbers of 0 or less in a column of numbers; nowhere in any other."""
    import polars as pl

    # One word among the numbers makes it another kind of column.
    number = text.cast(pl.Float64, strict=False)
    if ((text != "") & number.is_null()).any():
        return pl.Series([False])
    return number <= 0


def ask_about_actions(table: ColumnTable, name: str, kind: str) -> None:
    """Raises InputError: the column `name` of kinds of actions has a kind by which nothing was
    consumed.
    """
    rows = (label_text(table, name) == kind).to_numpy()
    fix = "leave these rows out of the file, or say likes=any to count every row"
    _ask(table, name, rows, f"says '{kind}'", f"{fix} (--load likes=any)")


def _ask(table: ColumnTable, name: str, rows: BoolArray, says: str, fix: str) -> NoReturn:
    raise InputError(
        table.where(int(np.argmax(rows))),
        f"the column '{name}' is not read and {says} in {int(rows.sum()):,} of {len(rows):,} rows,"
        " which may be likes all the same or not",
        expected="one meaning",
        fix=fix,
    )


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
    keep = some_liked(data.name, data.value, rule)
    kept = only_rows(data, keep, said(rule))
    return replace(kept, reading=kept.reading._replace(likes=rule))


def check_said(
    where: str, value: Float32Array, decided: bool, further: Sequence[str] | None
) -> None:
    """Raises InputError for values, float32 [rows], of 0 or less, which can mean "disliked", "not
    rated" or a low rating, unless that is decided. Without a rule every row is a like.

    further: answers that the place of the question allows; None for rows that are read, whose scale
    stays.
    """
    low = value <= 0
    if decided or not low.any():
        return
    lowest = float(value.min())
    highest = float(value.max())
    options = ["likes=any (every row is a like)"]
    if highest > 0:
        options.append("likes=positive (values above 0 are)")
        options.append("likes=at_least=X")
    # Only answers that fit these values are offered.
    missing = np.unique(value[low])
    # A value that stands among others of its kind is not the mark of a missing one.
    if len(missing) == 1 and highest > 0:
        options.append(f"not_rated={missing[0]:.9g} (such rows are no ratings)")
    if lowest < highest and further is not None:
        options.append(f"scale={_of(lowest, highest)} (all are ratings, to be predicted)")
    options.extend(further or ())
    raise InputError(
        where,
        f"{_count_low(low)} of {len(value):,} (the lowest is {lowest:.9g}), which may be likes all"
        " the same or not",
        expected="one meaning",
        fix=f"say one of: {'; '.join(options)} (--load likes=any)",
    )


def some_liked(where: str, value: Float32Array, rule: str) -> BoolArray:
    """Returns True for every value that a rule counts as a like, bool [rows]. Raises InputError if
    there is none.
    """
    keep = liked(value, rule)
    if not keep.any():
        raise InputError(
            where,
            f"no row is a like under {said(rule)}",
            expected="a rule that leaves rows",
            fix=f"the values go from {value.min():.9g} to {value.max():.9g}",
        )
    return keep


def _refuse_without_values(table: ColumnTable, option: str) -> NoReturn:
    names = ", ".join(table.frame.columns[:12])
    raise InputError(
        table.source,
        f"{option} judges values, and no column of values was read",
        expected="a column of values",
        fix=f"say value=COLUMN, one of {names} (--load value=COLUMN)",
    )
