"""PEPPER's splits (Belal et al. 2022, section 5.3): `pepper-given`, the parts that its authors
published, and `pepper-85-15` of any data.

Both give every device a *weighting set* (algorithm 2, lines 2-4) of about the size of its test set:
the validation rows, by which the device weighs the models it receives, and which it may use in
training too. The final model trains on the training rows alone. Each held-out row is ranked against
candidates drawn for it: HR@n of a user is then equation 4, and NDCG@n equation 5.

`pepper-given` has the users of the published tables, the first 100 of MovieLens-100K and all 146
and 100 of Foursquare and Gowalla; `pepper-given-N` has the first N. Other users are not in the
split, so that a federation has N nodes, but every item is. The published files are followed, except
where they would make a result wrong:

* a row that stands in two parts (Foursquare, where visits repeat) stays in the first of training,
  test, validation: a test row that is also a training row asks what the device was just told, and
  the text promises unvisited places;
* a negative that is the held-out item itself, or that repeats in its list, competes once. So it
  does in the authors' code, which ranks a dictionary of scores.

A negative that the user does have a row of stays: the authors ranked against it. The notes count
all of these.

`pepper-85-15`: int(0.15 n) of a user's n rows are test rows and as many are the weighting set,
drawn by (seed, user, item); each is ranked against 100 items that the user has no row of at all,
drawn as `loo-99` does, anew for each row.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple, NoReturn

import numpy as np

from ...core.contract.protocols import Moments, Visits, joined_visits, some_visits
from ...core.errors import InputError
from ...core.keys import key
from ...core.types import Array, BoolArray, Int32Array, Int64Array
from ..dataset import published as published_by
from ..divided import PARTS, Divided
from ..interactions import (
    NO_TIME,
    Interactions,
    Vocabulary,
    build,
    find_rows,
    pair_numbers,
    pairs_of,
)
from .candidates import Negatives, only_negatives
from .leave_one_out import draw_candidates
from .types import Split, assemble, between_peers, percents, share, shuffled, without_test

TRAIN, TEST, VALIDATION = range(len(PARTS))
# Candidates of a held-out row, section 5.3; the authors' files have 99.
DRAWN = 100


def given(data: Interactions, *, seed: int) -> list[Split]:
    """Splits as PEPPER's authors did, over the users of their tables: the protocol `pepper-given`.
    Nothing is drawn, so the seed has no effect. Raises InputError as `given_first` does.
    """
    published = published_by("pepper", data.name)
    users = len(np.unique(published.user))
    return [_given(data, published, min(published.tabled, users), "pepper-given")]


def given_first(data: Interactions, n: int, *, seed: int) -> list[Split]:
    """Splits as PEPPER's authors did, over the first N users: the protocol `pepper-given-N`.

    Raises InputError for more users than they published, for data of which they published nothing,
    and for rows or negatives that the data does not know (a filter was applied, or it comes from
    elsewhere).
    """
    return [_given(data, published_by("pepper", data.name), n, f"pepper-given-{n}")]


def drawn(data: Interactions, train: int, test: int, *, seed: int) -> list[Split]:
    """Splits each user's rows at random as PEPPER does, the protocol `pepper-A-B`: B percent for
    test, as many for the device's weighting set, the rest for training. A + B = 100, B < 50.

    Raises InputError for other numbers, and for a user with fewer than 100 items never consumed.
    """
    name = percents("pepper", train, test)
    if 2 * test >= 100:
        raise InputError(
            "protocol",
            f"'{name}' leaves no training rows, with a weighting set of the test set's size",
            expected="a test share below 50",
            fix="use pepper-85-15",
        )
    # The same number for both sets of a user: PEPPER weighs by as much as it tests.
    held = share(data.counts, test)[data.user]
    place = shuffled(data, key(seed, "split", "pepper"))
    tested = place < held
    weighing = ~tested & (place < 2 * held)
    of_weighing = _draw(data, weighing, key(seed, "candidates", "validation"))
    of_tested = _draw(data, tested, key(seed, "candidates", "test"))
    candidates = of_weighing, of_tested
    notes = without_test(data, tested)
    split = assemble(name, data, weighing, tested, refit=False, notes=notes, candidates=candidates)
    return [between_peers(split)]


PROTOCOLS = {"pepper-given": given, "pepper-given-100": given_first, "pepper-85-15": drawn}


def _draw(data: Interactions, held: BoolArray, key: np.uint64) -> Int32Array:
    """Draws 100 candidates for each row marked `held`, by the key of its user and item."""
    return draw_candidates(data, data.user[held], DRAWN, key, items=data.item[held])


# ---- published rows ------------------------------------------------------------------------------


class PublishedRows(NamedTuple):
    """Distinct published rows, ascending by pair."""

    pair: Int64Array
    """user * items + item, in the numbers of the split, int64 [n]."""
    part: Int64Array
    """TRAIN, TEST or VALIDATION, int64 [n]."""
    notes: tuple[str, ...]
    """The rows that were left out, and why."""


def _given(data: Interactions, published: Divided, n: int, name: str) -> Split:
    """Returns the published split over the first `n` users."""
    # In the order in which they appear, which the authors number them by.
    users = list(dict.fromkeys(published.user.tolist()))
    if not 1 <= n <= len(users):
        raise InputError(
            "protocol",
            f"'{name}' asks for {n} users, but {published.source} has {len(users)}",
            expected="at least one, and no more than there are",
            fix=f"use pepper-given-{len(users)}",
        )
    names = Vocabulary(users[:n], kind="user")
    rows = _distinct(published, names, data)
    whole, lacking = _interactions(data, published, names, rows)
    weighing = rows.part == VALIDATION
    tested = rows.part == TEST
    # Rows of `whole` ascend by pair, as those of `rows` do, so that the marks fit both.
    of_weighing = _candidates(published, "validation", whole, rows.pair[weighing])
    of_tested = _candidates(published, "test", whole, rows.pair[tested])
    number = f"the first {n:,} of their {len(users):,} users"
    about = f"parts: those that PEPPER (Belal et al. 2022) published, of {number}"
    notes = (about, *rows.notes, *lacking, *of_weighing.notes, *of_tested.notes)
    candidates = of_weighing.table, of_tested.table
    split = assemble(name, whole, weighing, tested, refit=False, notes=notes, candidates=candidates)
    return between_peers(split)


def _distinct(published: Divided, names: Vocabulary, data: Interactions) -> PublishedRows:
    """Returns the published rows of the users `names`, each in one part."""
    # Users who are not among `names` get -1, and their rows are left out.
    user = names.indices(published.user.tolist())
    item = data.items.indices(published.item.tolist())
    strange = np.flatnonzero((user >= 0) & (item < 0))
    if len(strange):
        first = published.item[strange[0]]
        _refuse(data, f"item '{first}' of {published.source} is no item of the data")
    kept = np.flatnonzero(user >= 0)
    pair = pair_numbers(user[kept], item[kept], len(data.items))
    labels = published.part[kept].tolist()
    parts = [PARTS.index(label) for label in labels]
    part = np.array(parts, np.int64)
    # One number for each (pair, part), so that of a pair in several parts the first in the order of
    # PARTS comes first, and counts.
    listed = np.unique(pair * len(PARTS) + part)
    pair_of, part_of = np.divmod(listed, len(PARTS))
    pair, first = np.unique(pair_of, return_index=True)
    left_out = np.delete(part_of, first)
    notes = []
    repeats = len(kept) - len(listed)
    if repeats:
        notes.append(f"published rows that stand twice in their part, kept once: {repeats:,}")
    for label, number, others in (
        ("test", TEST, "training"),
        ("validation", VALIDATION, "training or test"),
    ):
        rows = np.count_nonzero(left_out == number)
        if rows:
            notes.append(
                f"published {label} rows left out, as they are also {others} rows: {rows:,}"
            )
    return PublishedRows(pair, part_of[first], tuple(notes))


def _interactions(
    data: Interactions, published: Divided, names: Vocabulary, rows: PublishedRows
) -> tuple[Interactions, tuple[str, ...]]:
    """Returns the rows with the values and times of the data, and notes. Rows that the data lacks
    (see `Divided.lacking`) have value 1 and no time.
    """
    user, item = np.divmod(rows.pair, len(data.items))
    # The split numbers users by `names`, the data by its vocabulary.
    number_in_data = data.users.indices(names.ids.tolist())
    at = find_rows(data, number_in_data[user], item)
    absent = at < 0
    lacking = int(absent.sum())
    if lacking > published.lacking:
        first = int(np.argmax(absent))
        pair = f"user '{names[user[first]]}', item '{data.items[item[first]]}'"
        _refuse(
            data,
            f"published rows that are not in the data: {lacking:,}; the first is {pair} in"
            f" {published.source}",
        )
    time = None
    if data.time is not None:
        time = np.where(absent, NO_TIME, data.time[at])
    # For an absent row `at` is -1: a value that `where` leaves out.
    built = build(
        user,
        item,
        value=np.where(absent, np.float32(1), data.value[at]),
        time=time,
        users=names,
        items=data.items,
        features=data.features,
        name=data.name,
        reading=data.reading,
        scale=data.scale,
    )
    row = None
    visits = None
    if data.row is not None:
        # Absent rows come behind all others.
        first_behind = data.row.max() + 1
        behind = first_behind + np.arange(len(at))
        row = np.where(absent, behind, data.row[at])
        if time is not None:
            visits = _visits(data, at, absent, time, row)
    whole = replace(built, row=row, visits=visits)
    if not lacking:
        return whole, ()
    untimed = "" if time is None else " and without a time"
    note = f"published rows that the data lacks, kept with value 1{untimed}: {lacking:,}"
    return whole, (note,)


def _visits(
    data: Interactions, at: Int64Array, absent: BoolArray, time: Int64Array, row: Int64Array
) -> Visits | None:
    """Returns the visits of the rows `at` of the data, in that order. A row that the data lacks,
    marked `absent`, is one visit at its `time` and `row`.
    """
    present = ~absent
    known_visits = some_visits(data.visits, at[present])
    of_present = Moments(time[present], row[present], known_visits)
    of_absent = Moments(time[absent], row[absent], None)
    joined = joined_visits([of_present, of_absent])
    # The present rows come first there; the place of each row is the inverse of this order.
    order = np.argsort(absent, kind="stable")
    return some_visits(joined, np.argsort(order))


def _candidates(published: Divided, part: str, whole: Interactions, pairs: Int64Array) -> Negatives:
    """Returns the published negatives of the held-out rows `pairs` (ascending) of a part, in the
    published order.
    """
    against = published.against[part]
    items = len(whole.items)
    user = whole.users.indices(against.user.tolist())
    item = whole.items.indices(against.item.tolist())
    # Lists of other users, or of items that the data lacks, are of no row here.
    known = np.flatnonzero((user >= 0) & (item >= 0))
    pair_of_line = pair_numbers(user[known], item[known], items)
    # Of several lists of one row, the first counts.
    listed, first = np.unique(pair_of_line, return_index=True)
    without = np.flatnonzero(~np.isin(pairs, listed))
    if len(without):
        name = whole.users[int(pairs[without[0]] // items)]
        _refuse(
            whole,
            f"{part} rows without published negatives: {len(without):,}; the first is of user"
            f" '{name}'",
        )
    place = np.searchsorted(listed, pairs)
    line = known[first[place]]
    table = _numbers(against.candidates[line], whole)
    held_user, held_item = np.divmod(pairs, items)
    return only_negatives(part, table, held_user, held_item, pairs_of(whole), whole, keep=True)


def _numbers(texts: Array, whole: Interactions) -> Int32Array:
    """Returns the items of a table of ids, int32 [m, k]. Raises InputError for an unknown id."""
    # Each id is looked up once, although it stands in many lists.
    names, code = np.unique(texts, return_inverse=True)
    index = whole.items.indices(names.tolist())
    if len(index) and index.min() < 0:
        unknown = names[np.argmin(index)]
        _refuse(whole, f"the negative '{unknown}' is no item of the data")
    return index[code].reshape(texts.shape)


def _refuse(data: Interactions, problem: str) -> NoReturn:
    fix = f"load {data.name} by name and without filters, or use pepper-85-15"
    raise InputError(data.name, problem, expected="the rows and items that PEPPER split", fix=fix)
