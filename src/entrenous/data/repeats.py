"""Rows that repeat a (user, item) pair: which of them stays, or what they add up to."""

from __future__ import annotations

from typing import NamedTuple, NoReturn

import numpy as np

from ..core.errors import InputError
from ..core.types import BoolArray, Float32Array, Float64Array, Int64Array
from .options import LoadOptions
from .reading import LeftOut
from .table import LARGEST, ColumnTable

CHOOSE = (
    "choose duplicates='last' or 'first', or 'sum' for counts and purchases"
    " (--load duplicates=last)"
)
# The whole numbers up to here are all float32.
EXACT = 2**24


class KeptRows(NamedTuple):
    """The rows that stay where pairs are repeated."""

    rows: Int64Array | slice
    """Positions in the table, ascending, int64; all of them as a slice."""
    value: Float32Array | None
    """The value of each row that stays, float32 [len(rows)]; None if no row has one."""
    left_out: tuple[LeftOut, ...] = ()
    """The rows that were left out."""
    notes: tuple[str, ...] = ()
    """The number of rows that were added up."""
    visits: bool = False
    """True if repeats are visits, each of which counts."""


def keep(
    table: ColumnTable,
    pair: Int64Array,
    value: Float32Array | None,
    time: Int64Array | None,
    options: LoadOptions,
) -> KeptRows:
    """Returns the rows that stay where pairs are repeated. pair: one number for each (user, item),
    int64 [rows]. Raises InputError for a repeat that `options.duplicates` refuses, and for a sum
    that is no rating.
    """
    # Both sorts are stable: ties keep the order of the file.
    order = np.lexsort((pair,) if time is None else (time, pair))
    ordered = pair[order]
    # True where a row has the pair of the row before it.
    same = ordered[1:] == ordered[:-1]
    if options.duplicates == "same" and value is not None:
        in_order = value[order]
        if (same & (in_order[1:] != in_order[:-1])).any():
            _refuse_conflict(table, pair, value)
    if options.duplicates == "first":
        which = "first"
        stays = np.concatenate([[True], ~same])
    else:
        which = "last"
        stays = np.concatenate([~same, [True]])
    kept = order[stays]
    rows = np.sort(kept)
    # Without a value, the rows of a pair differ in time alone: each is a visit.
    visits = time is not None and value is None and which == "last"
    repeats = len(pair) - len(rows)
    if options.duplicates == "sum":
        sums = _sums(table, pair, value, options)
        # Sums are in the order of pairs, as `kept` is.
        summed = np.empty(len(pair))
        summed[kept] = sums
        notes = (
            f"rows of a repeated (user, item) pair, added up with the last one: {repeats:,}",
            *_rounded(sums),
        )
        return KeptRows(rows, summed[rows].astype(np.float32), (), notes, visits)
    by = "in the file" if time is None else "by time, then by place in the file"
    and_times = ", with the times of all" if visits else ""
    reason = f"repeats of a (user, item) pair, of which the {which} {by} is kept{and_times}"
    goes = np.ones(len(pair), bool)
    goes[rows] = False
    entry = LeftOut(reason, repeats, table.where(int(np.argmax(goes))))
    return KeptRows(rows, None if value is None else value[rows], (entry,), (), visits)


def _sums(
    table: ColumnTable, pair: Int64Array, value: Float32Array | None, options: LoadOptions
) -> Float64Array:
    """Returns the sum of the values of each pair, float64, in the order of pairs; their number
    where rows have no value. Raises InputError at the first row of a sum that is too large, or
    outside the scale.
    """
    if value is None:
        _, counts = np.unique(pair, return_counts=True)
        return counts.astype(np.float64)
    # Also sorted by value, so that the order of the rows does not decide how a sum is rounded.
    order = np.lexsort((value, pair))
    ordered = pair[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    sums = np.add.reduceat(value[order].astype(np.float64), starts)
    low = -LARGEST
    high = LARGEST
    if options.bounds is not None:
        low, high = options.bounds
    bad = (sums < low) | (sums > high)
    if bad.any():
        _refuse_sum(table, pair, sums, ordered[starts], bad, (low, high))
    return sums


def _rounded(sums: Float64Array) -> tuple[str, ...]:
    """Returns a note on sums that are too large for float32 to keep every digit of."""
    beyond = np.abs(sums) > EXACT
    rounded = int((beyond & (sums != sums.astype(np.float32))).sum())
    if rounded:
        return (f"sums beyond {EXACT:,} that are rounded: {rounded:,}",)
    return ()


def _refuse_sum(
    table: ColumnTable,
    pair: Int64Array,
    sums: Float64Array,
    of_pair: Int64Array,
    bad: BoolArray,
    limits: tuple[float, float],
) -> NoReturn:
    """Refuses the first row of the table whose pair has a bad sum."""
    row = int(np.argmax(np.isin(pair, of_pair[bad])))
    total = sums[np.searchsorted(of_pair, pair[row])]
    raise InputError(
        table.where(row),
        f"the values of this (user, item) pair add up to {total:.6g}",
        expected=f"a sum from {limits[0]:.3g} to {limits[1]:.3g}",
        fix="correct the values, leave out the scale if it is that of one row, or choose"
        " duplicates='last' (--load duplicates=last)",
    )


def _refuse_conflict(table: ColumnTable, pair: Int64Array, value: Float32Array) -> NoReturn:
    """Refuses the first row of the table that disagrees on the value with a row of its pair."""
    _, first, number = np.unique(pair, return_index=True, return_inverse=True)
    # The first row of each pair.
    earliest = first[number]
    row = int(np.argmax(value != value[earliest]))
    other = int(earliest[row])
    line = table.where(other).rpartition(":")[2]
    raise InputError(
        table.where(row),
        f"the (user, item) pair has value {value[row]:g} here and {value[other]:g} at {line}",
        expected="repeats that agree",
        fix=CHOOSE,
    )
