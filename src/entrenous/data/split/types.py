"""`Split`: rows to train on, rows that choose settings, and rows that evaluation opens once; and
the steps that every kind of split is made of.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Generic, NamedTuple

import numpy as np

from ...core.compiling import njit
from ...core.contract.protocols import joined_visits, some_visits
from ...core.errors import InputError
from ...core.keys import fold
from ...core.lanes.memory import starts_of
from ...core.types import Array, BoolArray, Int32Array, Int64Array, UInt64Array
from ..events import Windows
from ..interactions import Interactions, KindT, Vocabulary, pair_numbers


class Held(NamedTuple):
    """Held-out rows over the same users and items as the training rows."""

    rows: Interactions
    """The held-out rows."""
    candidates: Int32Array | None = None
    """The negatives that each held-out row is ranked against, in the order of `rows`, int32
    [len(rows), k]; -1 where a row has fewer. None stands for full ranking only.
    """
    cold: bool = False
    """True if items without a training row compete like all others. A server knows these items and
    never recommends them; between peers nobody knows them.
    """
    absent: Int64Array | None = None
    """The number of further held-out rows of each user, of items that are not in the catalogue,
    int64 [users]; they count as missed. None stands for no such rows.
    """
    repeats: bool = False
    """True if held-out rows may be training rows too, as where people come back to a place: the
    items that a user has compete like all others.
    """


class Split(NamedTuple, Generic[KindT]):
    """One division of a data set into training, validation and test rows."""

    name: str
    """The name of the protocol, with the number of the fold if there are several."""
    train: Interactions[KindT]
    """The rows that models see while settings are chosen."""
    validation: Held | None
    """The rows that choose settings and rounds."""
    test: Held
    """The rows that only `evaluate` reads."""
    refit: bool
    """True if the final model trains on training and validation rows once settings are chosen (FPL
    section 5.3; NCF); False if it trains on training rows alone.
    """
    notes: tuple[str, ...] = ()
    """What the split did, and the rows that it could not hold out, one sentence each."""
    weighting: bool = False
    """True if the validation rows of a user are the weighting set of that device (PEPPER, algorithm
    2, lines 2-5), which may use them in training too.
    """
    windows: Windows | None = None
    """The events of a stream, in the parts after which a model learns; every row in them is tested
    before it is learnt, and `test` is empty. None for any other protocol.
    """

    @property
    def weighting_sets(self) -> Held | None:
        """The rows by which devices judge received models; None if the protocol has none."""
        return self.validation if self.weighting else None

    @property
    def left_out(self) -> Interactions | None:
        """The validation rows, which do not compete with test rows, if the final model does not
        train on them. None if it does.
        """
        if self.refit or self.validation is None:
            return None
        return self.validation.rows

    @property
    def all_rows(self) -> Interactions:
        """All rows of the data, the held-out ones too. No model may see them."""
        rows = self.train
        if self.validation is not None:
            rows = union(rows, self.validation.rows)
        return union(rows, self.test.rows)

    @property
    def final_train(self) -> Interactions:
        """The rows that the final model trains on: train, with validation if `refit`."""
        if not self.refit or self.validation is None:
            return self.train
        return union(self.train, self.validation.rows)


def refuse_other_ids(train: Interactions, other: Interactions, what: str) -> None:
    """Raises InputError unless both have the same users and items by the same numbers: with other
    ids a number would stand for two items. what: the other rows, for the error.
    """
    for mine, theirs in ((train.users, other.users), (train.items, other.items)):
        if mine.same(theirs):
            continue
        shared = len(set(mine.ids) & set(theirs.ids))
        raise InputError(
            train.name,
            f"{what} have other {mine.kind}s than training: {len(theirs)} and {len(mine)}, of"
            f" which {shared} are shared",
            expected="one numbering of users and items",
            fix="make it with entrenous.split(train=..., test=...), which numbers both alike",
        )


def refuse_mixed_parts(split: Split) -> None:
    """Raises InputError for a split whose parts have different users or items."""
    held = {"the validation rows": split.validation, "the test rows": split.test}
    for what, part in held.items():
        if part is not None:
            refuse_other_ids(split.train, part.rows, what)


def union(left: Interactions, right: Interactions) -> Interactions:
    """Returns the rows of two Interactions over the same users and items. Of a (user, item) that
    both have, the row of `left` stands.
    """
    user = np.concatenate([left.user, right.user])
    item = np.concatenate([left.item, right.item])
    # The rows of each user ascend by item, as in every Interactions.
    order = np.lexsort((item, user))
    pairs = pair_numbers(user, item, len(left.items))[order]
    # A stable sort puts the row of `left` first.
    is_first = np.append(True, pairs[1:] != pairs[:-1])[: len(pairs)]
    order = order[is_first]
    # A part without times, or without an order, leaves the whole without.
    time = None
    if left.time is not None and right.time is not None:
        time = np.concatenate([left.time, right.time])[order]
    row = None
    if left.row is not None and right.row is not None:
        row = np.concatenate([left.row, right.row])[order]
    visits = joined_visits([left.moments, right.moments])
    return replace(
        left,
        ptr=starts_of(np.bincount(user[order], minlength=len(left.users))),
        item=item[order],
        value=np.concatenate([left.value, right.value])[order],
        time=time,
        row=row,
        visits=some_visits(visits, order),
    )


def between_peers(split: Split) -> Split:
    """Returns the split for devices without a server: the validation rows are their weighting sets,
    and every item competes.
    """
    validation = split.validation
    if validation is not None:
        validation = validation._replace(cold=True)
    test = split.test._replace(cold=True)
    return split._replace(validation=validation, test=test, weighting=True)


def describe_cold(train: Interactions, held: Interactions, part: str) -> tuple[str, ...]:
    """Returns notes on the users and items of `held` that do not occur in `train`. part: the name
    of the held-out part.
    """
    cold_users = (held.counts > 0) & (train.counts == 0)
    cold_items = (held.popularity > 0) & (train.popularity == 0)
    notes = []
    # A model has never seen these, which explains a low score.
    marked = {"user": (held.users, cold_users), "item": (train.items, cold_items)}
    for kind, (names, cold) in marked.items():
        if cold.any():
            which = named(np.flatnonzero(cold), names)
            notes.append(
                f"{kind}s of the {part} rows that never occur in training: {cold.sum()} {which}"
            )
    return tuple(notes)


def named(indices: Array, names: Vocabulary) -> str:
    """Returns up to three external ids in brackets.

    >>> named(np.array([0, 2]), Vocabulary(["ann", "bob", "eve"]))
    '(ann, eve)'
    """
    ids = [names[index] for index in indices[:3]]
    if len(indices) > 3:
        ids.append("...")
    return f"({', '.join(ids)})"


# ---- the steps that every kind of split is made of -----------------------------------------------


def newest_first(data: Interactions) -> Int64Array:
    """Returns the number of rows of the same user that are later than each row, int64 [n]: 0 is the
    latest. Of rows at one time, the last one in the source is. Raises InputError for data without
    times.
    """
    return _from_end(data, data.time_order())


def tie_notes(
    data: Interactions, place: Int64Array, validation: BoolArray, test: BoolArray
) -> tuple[str, ...]:
    """Returns notes on the users of whom a tie in time decides which rows are held out, bool [n];
    none if there are none.

    place: the result of `newest_first`.
    """
    time = data.known_times()
    # The rows of each user from the latest to the earliest.
    order = np.empty(len(data), np.int64)
    order[data.ptr[data.user] + place] = np.arange(len(data))
    user = data.user[order]
    tied = (np.diff(user) == 0) & (np.diff(time[order]) == 0)
    notes = []
    # The rows from the latest on, of which the last one is at the border of the part.
    for part, of_part, until in (
        ("test", test, test),
        ("validation", validation, test | validation),
    ):
        decided = tied & np.diff(until[order])
        users = np.unique(user[1:][decided])
        if not len(users):
            continue
        everybody = len(np.unique(data.user[of_part]))
        number = f"{len(users):,} of {everybody:,} users have ties that decide their {part} rows"
        notes.append(f"{number}: the last one in the source is the latest")
    return tuple(notes)


def shuffled(data: Interactions, key: np.uint64) -> Int64Array:
    """Returns the place of each row in a keyed shuffle of its user's rows, int64 [n]. It depends on
    the user's items, not on the order of the source.
    """
    draws = row_draws(data.ptr, data.item, key)
    return _from_end(data, np.lexsort((draws, data.user)))


def _from_end(data: Interactions, order: Int64Array) -> Int64Array:
    """Returns the place of each row counted from the end of its user's rows, int64 [n]. order: the
    rows, user by user.
    """
    # `order` keeps users together, so that its k-th row is of the user of row k.
    last = data.ptr[1:] - 1
    place = np.empty(len(data), np.int64)
    place[order] = last[data.user] - np.arange(len(data))
    return place


@njit(cache=True, nogil=True)
def row_draws(ptr: Int64Array, item: Int32Array, key: np.uint64) -> UInt64Array:
    """Returns 64 random bits for each row, named by its user and its item, uint64 [n]."""
    bits = np.empty(len(item), np.uint64)
    for user in range(len(ptr) - 1):
        user_key = fold(key, user)
        # Item numbers name the draws, so that the order of the source has no effect.
        for row in range(ptr[user], ptr[user + 1]):
            bits[row] = fold(user_key, item[row])
    return bits


def share(counts: Int64Array, percent: int) -> Int64Array:
    """Returns int(percent / 100 * count) for each count, without floating point.

    >>> share(np.array([4, 5, 99]), 20)
    array([ 0,  1, 19])
    """
    return counts * percent // 100


def percents(kind: str, train: int, test: int) -> str:
    """Returns the name of the protocol, `kind-train-test`. Raises InputError unless both
    percentages are positive and add up to 100.
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
    """Returns (validation, test), bool [n]: of each user's rows by `place`, the first `percent` are
    test rows, and the first `percent` of the rest are validation rows.
    """
    test = share(data.counts, percent)
    both = test + share(data.counts - test, percent)
    # The first places are test rows, the next ones validation rows.
    is_test = place < np.repeat(test, data.counts)
    is_held = place < np.repeat(both, data.counts)
    return is_held & ~is_test, is_test


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
    """Returns the split with the rows marked `validation` and `test`, bool [n], and all others in
    training. Its notes count and name cold users and items.

    candidates: those of the validation rows, and those of the test rows. Raises InputError if no
    row would be left to train on or to test.
    """
    # A single empty part would make a result that means nothing.
    if not test.any() or (test | validation).all():
        part = "test" if not test.any() else "train"
        raise InputError(
            data.name,
            f"'{name}' leaves no {part} rows out of {len(data)}",
            expected="users with more rows",
            fix="use another protocol",
        )
    of_validation, of_test = candidates or (None, None)
    held = None
    if validation.any():
        held = Held(data.select(validation), of_validation)
    train = data.select(~(validation | test))
    tested = Held(data.select(test), of_test)
    split = Split(name, train, held, tested, refit)
    # `split.final_train` would sort rows together that are in order here.
    final_train = data.select(~test) if refit else train
    return split._replace(notes=notes + cold_notes(split, final_train))


def cold_notes(split: Split, final_train: Interactions) -> tuple[str, ...]:
    """Returns notes on the users and items that occur in validation rows but in no training row,
    and on those that occur in test rows but in no row of `final_train`.
    """
    notes = describe_cold(final_train, split.test.rows, "test")
    if split.validation is None:
        return notes
    return describe_cold(split.train, split.validation.rows, "validation") + notes


def refitted(split: Split, refit: bool) -> Split:
    """Returns the same division with another final model: trained on training and validation rows
    if `refit`, otherwise on training rows alone.

    Raises InputError for `refit` if there are no validation rows, or if devices keep them to weigh
    models by.
    """
    obstacle = ""
    if split.validation is None:
        obstacle = "has no validation rows"
    elif split.weighting:
        obstacle = "leaves them to devices, which weigh models by them"
    if refit and obstacle:
        raise InputError(
            "--refit",
            f"protocol {split.name} {obstacle}",
            expected="validation rows to train on",
            fix="leave it out",
        )
    # Another final training set has other cold users and items.
    old_notes = cold_notes(split, split.final_train)
    other_notes = tuple(note for note in split.notes if note not in old_notes)
    changed = split._replace(refit=refit)
    return changed._replace(notes=other_notes + cold_notes(changed, changed.final_train))


def without_test(data: Interactions, test: BoolArray) -> tuple[str, ...]:
    """Returns a note on the users who have rows but too few for a test row, and who stay in
    training; no note if there are none.
    """
    test_rows = np.bincount(data.user[test], minlength=len(data.users))
    few = np.flatnonzero((data.counts > 0) & (test_rows == 0))
    if not len(few):
        return ()
    which = f"{len(few)} {named(few, data.users)}"
    return (f"users with too few rows for a test row, who stay in training: {which}",)
