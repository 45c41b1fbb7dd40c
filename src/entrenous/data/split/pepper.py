"""PEPPER's splits (Belal et al. 2022, section 5.3): `pepper-given`, the parts its authors
published, and `pepper-85-15` of any data.

Both give every device a *weighting set* (algorithm 2, lines 2-4) of about the size of its test set:
the validation rows, which the device may use in training too, to weigh the models it receives. The
final model trains on the training rows alone. Each held-out row is ranked against candidates of its
own: HR@n of a user is then equation 4, and NDCG@n equation 5.

`pepper-given` has the users of their published tables, the first 100 of MovieLens-100K and all 146
and 100 of Foursquare and Gowalla; `pepper-given-N` has the first N. Other users are not in the
split, so that a federation has N nodes, but every item is. Their files are kept, but for what would
make a result wrong:

* a row that stands in two parts (Foursquare, where visits repeat) stays in the first of training,
  test, validation: a test row that is also a training row asks what the device was just told, and
  the text promises unvisited places;
* a negative that is the held-out item itself, or that repeats in its list, competes once. So it
  does in their code, which ranks a dictionary of scores.

A negative that the user does have a row of stays: it is what they ranked against. The notes count
all of these.

`pepper-85-15`: int(.15 n) of a user's n rows are test and as many are the weighting set, drawn by
(seed, user, item); each against 100 items that the user has no row of at all, drawn as `loo-99`
does, anew for each row.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple, NoReturn

import numpy as np

from ...core.contract.protocols import Moments, Visits, joined_visits, some_visits
from ...core.errors import InputError
from ...core.keys import key
from ...core.types import Array, BoolArray, Int32Array, Int64Array
from ...core.vocabulary import Vocabulary
from ..dataset import divided
from ..divided import PARTS, Divided, HeldOutNegatives
from ..interactions import NO_TIME, Interactions, build, pairs_of
from .leave_one_out import draw_candidates
from .types import Held, Split, assemble, between_peers, percents, share, shuffled, without_test

TRAIN, TEST, VALIDATION = range(len(PARTS))
# Candidates of a held-out row, section 5.3; the authors' files have 99.
DRAWN = 100
# Of rows set apart from training: the percentage of a user's rows, and the candidates of each.
APART = 15
AGAINST = 99


def given(data: Interactions, *, seed: int) -> list[Split]:
    """Split as PEPPER's authors published it, over the users of their tables: the protocol
    `pepper-given`. Nothing is drawn, so the seed has no effect. Raises InputError as `given_first`
    does.
    """
    found = divided("pepper", data.name)
    return [_given(data, found, min(found.tabled, len(np.unique(found.user))), "pepper-given")]


def given_first(data: Interactions, n: int, *, seed: int) -> list[Split]:
    """Split as PEPPER's authors published it, over the first N users: the protocol
    `pepper-given-N`.

    Raises InputError for more users than they published, for data of which they published nothing,
    and for rows or negatives that the data does not know (a filter was applied, or it comes from
    elsewhere).
    """
    return [_given(data, divided("pepper", data.name), n, f"pepper-given-{n}")]


def drawn(data: Interactions, train: int, test: int, *, seed: int) -> list[Split]:
    """Split each user's rows at random as PEPPER does, the protocol `pepper-A-B`: B percent for
    test, as many for the device's weighting set, the rest for training. A + B = 100, B < 50.

    Raises InputError for other numbers, and for a user with fewer than 100 items never consumed.
    """
    name = percents("pepper", train, test)
    if 2 * test >= 100:
        problem = f"'{name}' leaves no training rows beside a weighting set of the test set's size"
        raise InputError(
            "protocol", problem, expected="a test share below 50", fix="use pepper-85-15"
        )
    held = share(data.counts, test)[data.user]
    place = shuffled(data, key(seed, "split", "pepper"))
    tested = place < held
    weighing = ~tested & (place < 2 * held)
    _check_free(data, tested)
    candidates = (
        _draw(data, weighing, key(seed, "candidates", "validation")),
        _draw(data, tested, key(seed, "candidates", "test")),
    )
    notes = without_test(data, tested)
    split = assemble(name, data, weighing, tested, refit=False, notes=notes, candidates=candidates)
    return [between_peers(split)]


def set_apart(split: Split, *, seed: int) -> tuple[Interactions, Held]:
    """Sets int(0.15 n) of each user's n training rows apart. Returns the other training rows, and
    the rows apart, each against 99 items without a row of its user.

    No node judges a model by them, and no test counts them: they measure choices, and how fast
    nodes learn. Raises InputError for a user with fewer than 99 items never consumed.
    """
    rows = split.train
    place = shuffled(rows, key(seed, "split", "apart"))
    apart = place < share(rows.counts, APART)[rows.user]
    held = rows.select(apart)
    name = key(seed, "candidates", "apart")
    candidates = draw_candidates(split.all_rows, held.user, AGAINST, name, items=held.item)
    return rows.select(~apart), Held(held, candidates, cold=True)


PROTOCOLS = {"pepper-given": given, "pepper-given-100": given_first, "pepper-85-15": drawn}


def _draw(data: Interactions, held: BoolArray, key: np.uint64) -> Int32Array:
    """100 candidates of each row marked `held`, named by user and item."""
    return draw_candidates(data, data.user[held], DRAWN, key, items=data.item[held])


def _check_free(data: Interactions, tested: BoolArray) -> None:
    users = np.unique(data.user[tested])
    few = users[len(data.items) - data.counts[users] < DRAWN]
    if len(few):
        raise InputError(
            data.name,
            f"{DRAWN} candidates are needed, but user '{data.users[int(few[0])]}' has fewer items"
            " never consumed",
            expected="a larger catalogue",
            fix="use random-80-20 or temporal-80-20",
        )


# ---- published rows ------------------------------------------------------------------------------


class PublishedRows(NamedTuple):
    """Distinct published rows, ascending by pair."""

    pair: Int64Array
    """int64 [n]: user * items + item, in the numbers of the split."""
    part: Int64Array
    """int64 [n]: TRAIN, TEST or VALIDATION."""
    notes: tuple[str, ...]


def _given(data: Interactions, found: Divided, n: int, name: str) -> Split:
    users = list(dict.fromkeys(found.user.tolist()))
    if not 1 <= n <= len(users):
        problem = f"'{name}' asks for {n} users, but {found.source} has {len(users)}"
        raise InputError(
            "protocol",
            problem,
            expected="at least one, and no more than there are",
            fix=f"use pepper-given-{len(users)}",
        )
    names = Vocabulary(users[:n], kind="user")
    rows = _distinct(found, names, data)
    whole, more = _interactions(data, found, names, rows)
    weighing = rows.part == VALIDATION
    tested = rows.part == TEST
    of_weighing = _candidates(found.against["validation"], whole, rows.pair[weighing], "validation")
    of_tested = _candidates(found.against["test"], whole, rows.pair[tested], "test")
    about = (
        f"parts: those that PEPPER (Belal et al. 2022) published, of the first {n:,} of their"
        f" {len(users):,} users"
    )
    notes = (about, *rows.notes, *more, *of_weighing.notes, *of_tested.notes)
    candidates = of_weighing.table, of_tested.table
    split = assemble(name, whole, weighing, tested, refit=False, notes=notes, candidates=candidates)
    return between_peers(split)


def _distinct(found: Divided, names: Vocabulary, data: Interactions) -> PublishedRows:
    """The rows of these users, each in one part."""
    user = names.indices(found.user.tolist())
    item = data.items.indices(found.item.tolist())
    strange = np.flatnonzero((user >= 0) & (item < 0))
    if len(strange):
        _refuse(data, f"item '{found.item[strange[0]]}' of {found.source} is no item of the data")
    kept = np.flatnonzero(user >= 0)
    pair = user[kept].astype(np.int64) * len(data.items) + item[kept]
    part = np.array([PARTS.index(label) for label in found.part[kept].tolist()], np.int64)
    # The first part of a pair counts, in the order of PARTS.
    each = np.unique(pair * len(PARTS) + part)
    pair, first = np.unique(each // len(PARTS), return_index=True)
    notes = []
    if len(each) < len(kept):
        notes.append(
            f"published rows that stand twice in their part, kept once: {len(kept) - len(each):,}"
        )
    moved = np.bincount(np.delete(each, first) % len(PARTS), minlength=len(PARTS))
    for label, part_of, others in (
        ("test", TEST, "training"),
        ("validation", VALIDATION, "training or test"),
    ):
        if moved[part_of]:
            notes.append(
                f"published {label} rows left out, as they are also {others} rows:"
                f" {moved[part_of]:,}"
            )
    return PublishedRows(pair, each[first] % len(PARTS), tuple(notes))


def _interactions(
    data: Interactions, found: Divided, names: Vocabulary, rows: PublishedRows
) -> tuple[Interactions, tuple[str, ...]]:
    """The rows with the values and times of the data; those that it lacks (see `Divided.lacking`)
    have value 1 and no time.
    """
    user, item = np.divmod(rows.pair, len(data.items))
    theirs = data.users.indices(names.ids.tolist()).astype(np.int64)
    pairs = pairs_of(data)
    sought = theirs[user] * len(data.items) + item
    at = np.minimum(np.searchsorted(pairs, sought), len(pairs) - 1)
    absent = (theirs[user] < 0) | (pairs[at] != sought)
    if absent.sum() > found.lacking:
        first = int(np.argmax(absent))
        who = f"user '{names[int(user[first])]}', item '{data.items[int(item[first])]}'"
        _refuse(
            data,
            f"published rows that are not in the data: {absent.sum():,}; the first is {who} in"
            f" {found.source}",
        )
    time = None if data.time is None else np.where(absent, NO_TIME, data.time[at])
    built = build(
        user,
        item,
        value=np.where(absent, np.float32(1), data.value[at]),
        time=time,
        users=names,
        items=data.items,
        features=data.features,
        name=data.name,
        notes=data.notes,
        scale=data.scale,
    )
    row = visits = None
    if data.row is not None:
        behind = data.row.max() + 1 + np.arange(len(at))
        row = np.where(absent, behind, data.row[at])
        if time is not None:
            visits = _visits(data, at, absent, time, row)
    rows_of_data = replace(built, row=row, visits=visits)
    if not absent.any():
        return rows_of_data, ()
    untimed = "" if time is None else " and without a time"
    note = f"published rows that the data lacks, kept with value 1{untimed}: {absent.sum():,}"
    return rows_of_data, (note,)


def _visits(
    data: Interactions, at: Int64Array, absent: BoolArray, time: Int64Array, row: Int64Array
) -> Visits | None:
    """The visits of the data's rows `at`, in that order; one of those that it lacks, `absent`, is a
    visit at `time` and `row`.
    """
    known = Moments(time[~absent], row[~absent], some_visits(data.visits, at[~absent]))
    both = joined_visits([known, Moments(time[absent], row[absent], None)])
    return some_visits(both, np.argsort(np.argsort(absent, kind="stable")))


class Candidates(NamedTuple):
    """Negatives to rank held-out rows against."""

    table: Int32Array
    """int32 [rows, k], -1 where a row has fewer."""
    notes: tuple[str, ...]
    """Faults of the published lists."""


def _candidates(
    against: HeldOutNegatives, whole: Interactions, pairs: Int64Array, label: str
) -> Candidates:
    """The published negatives of the held-out rows `pairs` (ascending) of the part `label`, in the
    published order.
    """
    items = len(whole.items)
    user = whole.users.indices(against.user.tolist())
    item = whole.items.indices(against.item.tolist())
    known = np.flatnonzero((user >= 0) & (item >= 0))
    listed, first = np.unique(user[known].astype(np.int64) * items + item[known], return_index=True)
    absent = np.flatnonzero(~np.isin(pairs, listed))
    if len(absent):
        who = f"user '{whole.users[int(pairs[absent[0]] // items)]}'"
        _refuse(
            whole,
            f"{label} rows without published negatives: {len(absent):,}; the first is of {who}",
        )
    row = known[first[np.searchsorted(listed, pairs)]]
    table = _numbers(against.candidates[row], whole)
    of_user, held = np.divmod(pairs[:, None], items)
    itself = table == held
    again = _repeats(table) & ~itself
    consumed = np.isin(of_user * items + table, pairs_of(whole)) & ~itself & ~again
    counted = (
        ("that are the held-out item itself, left out", itself),
        ("that repeat in their list, left out", again),
        ("that their user has a published row of, kept", consumed),
    )
    notes = [f"{label} negatives {what}: {found.sum():,}" for what, found in counted if found.any()]
    return Candidates(np.where(itself | again, np.int32(-1), table), tuple(notes))


def _numbers(texts: Array, whole: Interactions) -> Int32Array:
    """The items of a table of ids, int32 [m, k]."""
    names, code = np.unique(texts, return_inverse=True)
    index = whole.items.indices(names.tolist())
    if len(index) and index.min() < 0:
        _refuse(whole, f"the negative '{names[int(np.argmin(index))]}' is no item of the data")
    return index[code].reshape(texts.shape)


def _repeats(table: Int32Array) -> BoolArray:
    """True for numbers that stand earlier in their row, bool [m, k].

    >>> _repeats(np.array([[3, 1, 3, 3], [1, 2, 3, 4]], np.int32)).astype(int).tolist()
    [[0, 0, 1, 1], [0, 0, 0, 0]]
    """
    order = np.argsort(table, axis=1, kind="stable")
    ascending = np.take_along_axis(table, order, axis=1)
    again = np.zeros(table.shape, np.bool_)
    np.put_along_axis(again, order[:, 1:], ascending[:, 1:] == ascending[:, :-1], axis=1)
    return again


def _refuse(data: Interactions, problem: str) -> NoReturn:
    fix = f"load {data.name} by name and without filters, or use pepper-85-15"
    raise InputError(data.name, problem, expected="the rows and items that PEPPER split", fix=fix)
