"""One moment for all users: rows before it train, rows at or after it are tested, as a system meets
its future. Splits per user, such as `temporal-80-20`, train on rows of some users that are later
than test rows of others.

`global-80-20` takes the moment of the first of the last int(0.2 n) rows; `global-at-2020-01-01` the
beginning of that day (UTC). Rows that share the moment are all tested, so that no tie decides.
Validation rows are cut off by a moment too, before it: the last int(0.2 m) of the m rows before it.
The final model trains on training and validation rows.

Nothing that comes later is known before: users and items without a row before the moment have no
number in any part, so that no device draws such an item as a negative and no round counts such a
user. A user without a row before it has no model, and is not tested: such test rows are left out
and counted. A test row of an item without a row before it counts as missed.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np

from ...core.errors import InputError
from ...core.types import BoolArray, Int64Array
from ..describe import iso
from ..interactions import SECOND, Interactions
from .temporal import trained_items
from .types import Held, Split, assemble, named, percents, share

# Of the rows before the moment of `global-at-...`, the percentage that validates.
VALIDATING = 20


def by_share(data: Interactions, train: int, test: int, *, seed: int) -> list[Split]:
    """Tests the rows of all users from one moment on, the protocol `global-A-B`: B percent of all
    rows. B percent of the rest, the latest, are for validation.

    Nothing is drawn, so the seed has no effect. Raises InputError for data without times, unless
    A + B = 100, and if no row would be left to train on or to test.
    """
    name = percents("global", train, test)
    return [_split(data, name, _moment(data.known_times(), test), test)]


def by_date(data: Interactions, year: int, month: int, day: int, *, seed: int) -> list[Split]:
    """Tests the rows of all users from the beginning of a day (UTC) on, the protocol
    `global-at-YYYY-MM-DD`. Raises InputError for a day that does not exist, and as `by_share` does.
    """
    name = f"global-at-{year:04}-{month:02}-{day:02}"
    try:
        start = datetime(year, month, day, tzinfo=UTC)
    except ValueError as wrong:
        raise InputError(
            "protocol", f"'{name}': {wrong}", expected="a day", fix="use global-at-2020-01-31"
        ) from None
    data.known_times()
    return [_split(data, name, int(start.timestamp()) * SECOND, VALIDATING)]


PROTOCOLS = {"global-80-20": by_share, "global-at-2020-01-01": by_date}


def _moment(time: Int64Array, percent: int) -> int | None:
    """Returns the time of the first of the last `percent` of the rows; None if these are none."""
    last = int(share(np.array([len(time)]), percent)[0])
    if not last:
        return None
    return int(np.partition(time, len(time) - last)[len(time) - last])


def _from(time: Int64Array, moment: int | None) -> BoolArray:
    """Marks the rows at or after a moment, bool [n]; None marks none."""
    if moment is None:
        return np.zeros(len(time), np.bool_)
    return time >= moment


def _split(data: Interactions, name: str, moment: int | None, percent: int) -> Split:
    """Returns the split at a moment. percent: of the rows before it, those for validation."""
    time = data.known_times()
    after = _from(time, moment)
    earlier = _moment(time[~after], percent)
    validation = _from(time, earlier) & ~after
    new = np.bincount(data.user[~after], minlength=len(data.users)) == 0
    left_out = after & new[data.user]
    notes = []
    if moment is not None:
        _check(data, name, moment, after, new)
        notes.append(_about(data, moment, after))
    if earlier is not None:
        number = int(validation.sum())
        notes.append(f"validation rows: the {number:,} before the moment from {iso(earlier)} on")
    notes += _newcomers(data, after, new, left_out)
    # Masks of all rows are masks of the kept ones, in their order.
    kept = ~left_out
    rows = data.select(kept)
    split = assemble(name, rows, validation[kept], after[kept], refit=True)
    # The notes above are about test rows; those of `assemble` are about validation rows too.
    notes += [note for note in split.notes if "validation" in note]
    return trained_items(_known_users(split._replace(notes=tuple(notes))), name)


def _known_users(split: Split) -> Split:
    """Returns the split without the users whom the final model has no row of."""
    users = np.flatnonzero(split.final_train.counts)
    train = split.train.of_users(users)

    def theirs(held: Held) -> Held:
        # The vocabulary itself, not an equal one: parts of one split share it.
        return held._replace(rows=replace(held.rows.of_users(users), users=train.users))

    validation = split.validation
    if validation is not None:
        validation = theirs(validation)
    return split._replace(train=train, validation=validation, test=theirs(split.test))


def _check(data: Interactions, name: str, moment: int, after: BoolArray, new: BoolArray) -> None:
    """Raises InputError if no user has rows on both sides of the moment."""
    if not new[data.user[after]].all():
        return
    time = data.known_times()
    problem = f"no user has rows both before and after {iso(moment)}"
    if not after.any():
        problem = f"no row is at or after {iso(moment)}"
    elif after.all():
        problem = f"no row is before {iso(moment)}"
    raise InputError(
        "protocol",
        f"'{name}': {problem}",
        expected=f"a moment within the times of {data.name}, {iso(time.min())} to"
        f" {iso(time.max())}",
        fix="name a day between, as in global-at-2020-01-31, or split per user, as in"
        " temporal-80-20",
    )


def _about(data: Interactions, moment: int, after: BoolArray) -> str:
    number = int(after.sum())
    return (
        f"one moment for all users: rows before {iso(moment)} train, the {number:,} of"
        f" {len(data):,} rows at or after it ({100 * number / len(data):.1f} %) test"
    )


def _newcomers(
    data: Interactions, after: BoolArray, new: BoolArray, left_out: BoolArray
) -> list[str]:
    """Returns notes on the users and items without a row before the moment."""
    notes = []
    users = np.unique(data.user[left_out])
    if len(users):
        notes.append(
            "users without a row before the moment, who cannot be tested:"
            f" {len(users):,} {named(users, data.users)}; test rows of theirs, left out:"
            f" {int(left_out.sum()):,}"
        )
    unknown = np.bincount(data.item[~after], minlength=len(data.items)) == 0
    of_unknown = after & ~left_out & unknown[data.item]
    items = np.unique(data.item[of_unknown])
    if len(items):
        notes.append(
            "items without a row before the moment, which no model can recommend:"
            f" {len(items):,} {named(items, data.items)}; test rows of theirs, which count as"
            f" missed: {int(of_unknown.sum()):,}"
        )
    gone = int((~new & (np.bincount(data.user[after], minlength=len(data.users)) == 0)).sum())
    if gone:
        notes.append(f"users without a row at or after the moment, who are not tested: {gone:,}")
    return notes
