"""What every kind of split is made of: an order of each user's rows, how many of them to hold out,
and the parts that result.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ...core.errors import InputError
from ...core.keys import fold
from ...core.types import BoolArray, Int32Array, Int64Array, UInt64Array
from ..interactions import Interactions
from .types import Held, Split, describe_cold, named


def newest_first(data: Interactions) -> Int64Array:
    """The number of rows of the same user that are later than each row, int64 [n]: 0 is the latest.
    Raises InputError without times."""
    return _from_end(data, data.time_order())


def shuffled(data: Interactions, key: np.uint64) -> Int64Array:
    """The place of each row in a keyed shuffle of its user's rows, int64 [n]. It depends on the
    user's items, not on the order of the source."""
    return _from_end(data, np.lexsort((row_draws(data.ptr, data.item, key), data.user)))


def _from_end(data: Interactions, order: Int64Array) -> Int64Array:
    place = np.empty(len(data), np.int64)
    place[order] = data.ptr[data.user.astype(np.int64) + 1] - 1 - np.arange(len(data))
    return place


@njit(cache=True, nogil=True)
def row_draws(ptr: Int64Array, item: Int32Array, key: np.uint64) -> UInt64Array:
    """64 random bits for each row, named by its user and its item, uint64 [n]."""
    out = np.empty(len(item), np.uint64)
    for user in range(len(ptr) - 1):
        own = fold(key, user)
        for e in range(ptr[user], ptr[user + 1]):
            out[e] = fold(own, item[e])
    return out


def share(counts: Int64Array, percent: int) -> Int64Array:
    """int(percent / 100 * count), without floating point.

    >>> share(np.array([4, 5, 99]), 20)
    array([ 0,  1, 19])
    """
    return counts * percent // 100


def percents(kind: str, train: int, test: int) -> str:
    """The protocol's name, `kind-train-test`. Raises InputError unless both are positive and add up
    to 100.
    """
    name = f"{kind}-{train}-{test}"
    if train + test != 100 or test == 0 or train == 0:
        raise InputError(
            "protocol",
            f"'{name}' does not add up",
            expected="two positive percentages with sum 100",
            fix=f"use {kind}-80-20",
        )
    return name


def hold_out(data: Interactions, place: Int64Array, percent: int) -> tuple[BoolArray, BoolArray]:
    """(validation, test): per user the first `share` rows by `place` are test, and the first
    `share` of the remaining ones validation."""
    test = share(data.counts, percent)
    validation = share(data.counts - test, percent)
    until_test = np.repeat(test, data.counts)
    is_test = place < until_test
    return (place < until_test + np.repeat(validation, data.counts)) & ~is_test, is_test


def assemble(
    name: str,
    data: Interactions,
    validation: BoolArray,
    test: BoolArray,
    *,
    refit: bool,
    notes: tuple[str, ...] = (),
    candidates: tuple[Int32Array, Int32Array] | None = None,
) -> Split:
    """The Split with the rows marked `validation` and `test`, all others in training, cold users
    and items counted and named.

    candidates: of the validation and of the test rows. Raises InputError if nothing would be left
    to train on or to test.
    """
    if not test.any() or (test | validation).all():
        part = "test" if not test.any() else "train"
        raise InputError(
            data.name,
            f"'{name}' leaves no {part} rows out of {len(data)}",
            expected="users with more rows",
            fix="use another protocol",
        )
    valid, tested = candidates if candidates is not None else (None, None)
    held_v = Held(data.select(validation), valid) if validation.any() else None
    split = Split(
        name,
        data.select(~(validation | test)),
        held_v,
        Held(data.select(test), tested),
        refit,
        notes,
    )
    return split._replace(
        notes=notes + cold_notes(split, data.select(~test) if refit else split.train)
    )


def cold_notes(split: Split, final_train: Interactions) -> tuple[str, ...]:
    """Sentences about users and items that validation has and training lacks, and that test has and
    the final training rows lack."""
    found = (
        ()
        if split.validation is None
        else describe_cold(split.train, split.validation.rows, "validation")
    )
    return found + describe_cold(final_train, split.test.rows, "test")


def refitted(split: Split, refit: bool) -> Split:
    """The same division with a final model that trains on training and validation rows, once the
    latter have chosen; or, not `refit`, on training rows alone.

    Raises InputError if it is to train on validation rows where there are none, or devices keep
    them to weigh models by.
    """
    if refit and (split.validation is None or split.weighting):
        why = (
            "has no validation rows"
            if split.validation is None
            else "leaves them to devices, which weigh models by them"
        )
        raise InputError(
            "--refit",
            f"protocol {split.name} {why}",
            expected="validation rows to train on",
            fix="leave it out",
        )
    before = cold_notes(split, split.final_train)
    again = split._replace(refit=refit)
    return again._replace(
        notes=(
            *(note for note in split.notes if note not in before),
            *cold_notes(again, again.final_train),
        )
    )


def without_test(data: Interactions, test: BoolArray) -> tuple[str, ...]:
    """The note on users who have rows but too few for a test row; they stay in training."""
    rows = np.bincount(data.user[test], minlength=len(data.users))
    few = np.flatnonzero((data.counts > 0) & (rows == 0))
    text = (
        f"users with too few rows for a test row, who stay in training: {len(few)}"
        f" {named(few, data.users)}"
    )
    return (text,) if len(few) else ()
