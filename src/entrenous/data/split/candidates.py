"""The one rule for candidates that come with a split: an item that the user of a held-out row has
consumed is no negative and is left out, the held-out item too; a repeated one counts once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...core.errors import InputError
from ...core.types import Array, BoolArray, Int32Array, Int64Array
from ..interactions import Interactions, pair_name, pair_numbers


class Negatives(NamedTuple):
    """Candidates of held-out rows, none of which their user has consumed."""

    table: Int32Array
    """int32 [rows, k], in the given order, -1 where a candidate was left out or a row has fewer."""
    notes: tuple[str, ...]
    """The numbers of candidates that were left out, by reason."""


def only_negatives(
    part: str,
    table: Int32Array,
    user: Array,
    item: Array,
    positives: Int64Array,
    names: Interactions,
    *,
    keep: bool = False,
) -> Negatives:
    """Returns the candidates without those that are no negatives.

    part: the name of the held-out part, for notes. table: int32 [rows, k], -1 where a row has
    fewer. user, item: the held-out rows, int [rows]. positives: `pair_numbers` of all rows of the
    data, held-out ones too, int64. names: any rows over the same users and items. keep: only counts
    the consumed ones, for published tables that were made with them. Raises InputError for a row of
    which no candidate is left.
    """
    there = table >= 0
    itself = there & (table == item[:, None])
    again = there & ~itself & _repeats(table)
    consumed = np.isin(pair_numbers(user[:, None], table, len(names.items)), positives)
    consumed &= there & ~itself & ~again
    notes = []
    for fault, marked in (
        ("are the held-out item itself, left out", itself),
        ("repeat in their list, left out", again),
        (f"their user has a row of, {'kept' if keep else 'left out'}", consumed),
    ):
        number = int(marked.sum())
        if number:
            notes.append(f"{part} candidates that {fault}: {number:,}")
    no_negatives = itself | again
    if not keep:
        no_negatives |= consumed
    left = np.where(no_negatives, np.int32(-1), table)
    empty = np.flatnonzero((left < 0).all(axis=1))
    if len(empty):
        first = int(empty[0])
        raise InputError(
            f"{part} candidates",
            f"rows of which no candidate is left: {len(empty):,}; the first is"
            f" {pair_name(names, int(user[first]), int(item[first]))}",
            expected="items that the user has no row of",
            fix="add some",
        )
    return Negatives(left, tuple(notes))


def _repeats(table: Int32Array) -> BoolArray:
    """Marks the numbers that stand earlier in their row, bool [m, k].

    >>> _repeats(np.array([[3, 1, 3, 3], [1, 2, 3, 4]], np.int32)).astype(int).tolist()
    [[0, 0, 1, 1], [0, 0, 0, 0]]
    """
    # A stable sort puts equal numbers next to each other, the earliest of them first.
    order = np.argsort(table, axis=1, kind="stable")
    ascending = np.take_along_axis(table, order, axis=1)
    equals_last = np.diff(ascending, axis=1) == 0
    again = np.zeros(table.shape, np.bool_)
    np.put_along_axis(again, order[:, 1:], equals_last, axis=1)
    return again
