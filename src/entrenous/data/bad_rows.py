"""The policy for rows with a field that cannot be read: the first one is refused, or all of them
are left out, as long as they are few (`bad_rows`, `bad_share`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, NoReturn

import numpy as np

from ..core.errors import InputError
from .options import LoadOptions
from .reading import LeftOut, add_up
from .table import BadRows, ColumnTable

# The share and the number of bad rows up to which an error offers to leave them out.
DIRT = 0.1
SOME = 10
# A step of reading: it returns what it reads of a table, or raises BadRows.
Step = Callable[[ColumnTable], Any]


class Fault(NamedTuple):
    """The rows that a step refuses for one reason."""

    refusal: BadRows
    """The refusal of the first of them."""
    row: int
    """The place of the first of them in the source."""
    left_out: LeftOut
    """Their reason and number; a row counts for the first of its reasons alone."""


class GoodRows(NamedTuple):
    """The rows of a table that every step can read."""

    table: ColumnTable
    """The rows that stay; its `left_out` counts the others."""
    columns: list[Any]
    """The result of each step."""


def read_good_rows(table: ColumnTable, steps: Sequence[Step], options: LoadOptions) -> GoodRows:
    """Returns what `steps` read of the rows that all of them can read.

    Raises BadRows for the first bad row of the source, unless `options.bad_rows` leaves them out.
    Then InputError is raised for too many of them, and for a last line that was cut off: the rows
    behind it are missing too.
    """
    good = table
    faults: list[Fault] = []
    while True:
        try:
            columns, refusals = _try_all(good, steps)
        except InputError:
            # Without the bad rows, a whole column may be wrong. The first bad row comes first.
            if faults and options.bad_rows == "refuse":
                break
            raise
        if not refusals:
            break
        faults += _faults(good, refusals)
        good = good.only(~np.logical_or.reduce([refusal.bad for refusal in refusals]))
        if not good.frame.height:
            break
    if not faults and not table.left_out:
        return GoodRows(table, columns)
    counted = [fault.left_out for fault in faults if fault.left_out.rows]
    left_out = add_up([*table.left_out, *counted])
    lines = table.frame.height + sum(entry.rows for entry in table.left_out)
    cut = not table.whole and not good.has_row(table.frame.height - 1)
    if faults and options.bad_rows == "refuse":
        _refuse_first(faults, left_out, lines, usable=bool(good.frame.height) and not cut)
    if cut:
        raise InputError(
            table.where(table.frame.height - 1),
            "the last line has no line end and cannot be read, so the file seems cut off",
            expected="a whole file",
            fix="get it again, or remove that line",
        )
    if not good.frame.height:
        # No dirt, but a column of another form: the remedy is that of its rows.
        raise max(faults, key=lambda fault: fault.left_out.rows).refusal
    _check_share(table.source, left_out, lines, options.bad_share)
    return GoodRows(replace(good, left_out=left_out), columns)


def _try_all(table: ColumnTable, steps: Sequence[Step]) -> tuple[list[Any], list[BadRows]]:
    """Returns the results of the steps that can read all rows, and the refusals of the others."""
    columns = []
    refusals = []
    for step in steps:
        try:
            columns.append(step(table))
        except BadRows as refusal:
            refusals.append(refusal)
    return columns, refusals


def _faults(table: ColumnTable, refusals: Sequence[BadRows]) -> list[Fault]:
    faults = []
    counted = np.zeros(table.frame.height, bool)
    for refusal in refusals:
        rows = int((refusal.bad & ~counted).sum())
        counted |= refusal.bad
        place = table.place(int(np.argmax(refusal.bad)))
        faults.append(Fault(refusal, place, LeftOut(refusal.reason, rows, refusal.where)))
    return faults


def _refuse_first(
    faults: list[Fault], left_out: Sequence[LeftOut], lines: int, usable: bool
) -> NoReturn:
    """Refuses the first bad row of the source. usable: True if rows are left without the bad ones,
    so that leaving them out is a way on.
    """
    first = min(faults, key=lambda fault: fault.row).refusal
    bad = sum(entry.rows for entry in left_out)
    # So many bad rows are no dirt: something else is wrong.
    if not usable or bad > max(SOME, allowed(lines, DIRT)):
        raise first
    drop = "bad_rows='drop' (--load bad_rows=drop)"
    if bad > allowed(lines, LoadOptions().bad_share):
        share = _enough(bad, lines)
        drop = f"bad_rows='drop', bad_share={share} (--load bad_rows=drop --load bad_share={share})"
    rows = "the bad row"
    if bad != 1:
        rows = f"the {bad:,} bad rows"
    raise first.with_remedy(f"or leave out {rows} of {lines:,}: {drop}")


def _check_share(source: str, left_out: Sequence[LeftOut], lines: int, share: float) -> None:
    """Raises InputError if more than `share` of the lines were left out."""
    bad = sum(entry.rows for entry in left_out)
    if bad <= allowed(lines, share):
        return
    reasons = [
        f"{entry.reason}: {entry.rows:,}, the first at {entry.first.rpartition(':')[2]}"
        for entry in left_out
    ]
    more = _enough(bad, lines)
    raise InputError(
        source,
        f"{bad:,} of {lines:,} rows are bad: {'; '.join(reasons)}",
        expected=f"at most {share:.2%} of the rows (bad_share={share:g})",
        fix=f"correct them, or allow more: bad_share={more} (--load bad_share={more})",
    )


def allowed(lines: int, share: float) -> int:
    """Returns the number of bad rows that may be left out: the share, and always one row.

    >>> allowed(1000, 0.01), allowed(5, 0.01)
    (10, 1)
    """
    # A share such as 0.29 of 100 lines is a little less than 29 in binary.
    return max(1, math.floor(share * lines + 1e-6))


def _enough(bad: int, lines: int) -> float:
    """Returns the smallest share of three digits that allows `bad` of `lines` rows."""
    return math.ceil(bad / lines * 1000) / 1000
