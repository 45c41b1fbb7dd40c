"""NCF's test rows (He et al. 2017): `ncf-99` tests the rows that its authors held out, against the
99 negatives that they published.

Test: the published row of each user. MovieLens-1M has the published candidates; those of
Pinterest-20 could not be found, so 99 are drawn as `loo-99` does. A published candidate that is the
held-out item itself (156 in MovieLens-1M: they were drawn from "not in train") does not compete
with itself, so that such a row has 98.

Validation, of which NCF published none: the latest remaining row of a user whose remaining rows all
have a time; of any other user, a remaining row drawn by (seed, user, item). Its 99 candidates are
drawn as `loo-99` does. Validation rows choose settings and rounds; the final model then trains on
training and validation rows, as NCF and those after it do.
"""

from __future__ import annotations

from typing import NoReturn

import numpy as np

from ...core.errors import InputError
from ...core.keys import key
from ...core.types import Array, BoolArray, Int64Array
from ..dataset import published
from ..interactions import NO_TIME, Interactions, find_rows, pairs_of
from ..published import Published
from .candidates import Negatives, only_negatives
from .leave_one_out import draw_candidates
from .types import Split, assemble, newest_first, shuffled, tie_notes

# Published candidates of a test row.
SHIPPED = 99


def ncf(data: Interactions, k: int, *, seed: int) -> list[Split]:
    """Holds out the rows that NCF's authors held out, with their candidates: the protocol `ncf-99`.

    Raises InputError for another number, for data of which NCF published no test rows, and for rows
    that are not those NCF had (a filter was applied, or they come from elsewhere).
    """
    if k != SHIPPED:
        raise InputError(
            "protocol",
            f"'ncf-{k}' asks for {k} candidates, but NCF published {SHIPPED}",
            expected=f"ncf-{SHIPPED}",
            fix=f"use ncf-{SHIPPED}, or loo-{k}",
        )
    theirs = published("ncf", data.name)
    rows = _places(data, theirs)
    test = np.zeros(len(data), np.bool_)
    test[rows[rows >= 0]] = True
    timed = _timed(data, test)
    validation, tied = _validation(data, test, timed, seed)
    validation_key = key(seed, "candidates", "validation")
    of_validation = draw_candidates(data, data.user[validation], k, validation_key)
    about = _about(data.name, theirs, rows)
    if theirs.candidates is None:
        test_key = key(seed, "candidates", "test")
        of_test = draw_candidates(data, data.user[test], k, test_key)
    else:
        of_test, left_out = _shipped(data, theirs, theirs.candidates, rows)
        about += left_out
    notes = (*about, _chosen(timed, validation, data), *tied)
    split = assemble(
        "ncf-99",
        data,
        validation,
        test,
        refit=True,
        notes=notes,
        candidates=(of_validation, of_test),
    )
    return [split]


PROTOCOLS = {"ncf-99": ncf}


# ---- test rows and their candidates --------------------------------------------------------------


def _places(data: Interactions, theirs: Published) -> Int64Array:
    """Returns the position in `data` of each published row, int64 [m]; -1 if the data lacks its
    user. Raises InputError unless each user of the data has one row there.
    """
    if len(data) != theirs.rows:
        expected = f"{theirs.rows:,} that NCF's test rows belong to"
        _refuse(data, f"{len(data):,} rows are not the {expected}")
    user = data.users.indices(list(theirs.user))
    item = data.items.indices(list(theirs.item))
    # Pinterest-20 is partial, so that the data lacks some of their users.
    rows = find_rows(data, user, item)
    known = user >= 0
    missing = np.flatnonzero(known & (rows < 0))
    if len(missing):
        first = missing[0]
        pair = f"user '{theirs.user[first]}', item '{theirs.item[first]}'"
        _refuse(data, f"a test row of NCF ({pair} in {theirs.source}) is not among the rows")
    # NCF held out one row of every user: another number means other data.
    test_rows = np.bincount(user[known], minlength=len(data.users))
    strange = np.flatnonzero((test_rows != 1) & (data.counts > 0))
    if len(strange):
        first = strange[0]
        name = data.users[first]
        number = test_rows[first]
        _refuse(data, f"user '{name}' has {number} test rows in {theirs.source} instead of one")
    return rows


def _shipped(
    data: Interactions, theirs: Published, candidates: Array, places: Int64Array
) -> Negatives:
    """Returns the published candidates of the test rows, in the order of `data`, int32 [tests, k].
    Raises InputError for a candidate that is no item.
    """
    number = candidates.shape[1]
    if number != SHIPPED:
        _refuse(
            data,
            f"{number} negatives for each test row of {theirs.source} are not the {SHIPPED} of NCF",
        )
    # Rows of users who are not in the data come first in the order, and are left out.
    order = np.argsort(places, kind="stable")
    order = order[np.count_nonzero(places < 0) :]
    rows = places[order]
    candidates = candidates[order]
    table = data.items.indices(candidates.ravel().tolist())
    table = table.reshape(candidates.shape)
    user = data.user[rows]
    unknown = np.argwhere(table < 0)
    if len(unknown):
        row, column = unknown[0]
        candidate = candidates[row, column]
        name = data.users[user[row]]
        _refuse(data, f"candidate '{candidate}' of user '{name}' is no item of the data")
    return only_negatives("test", table, user, data.item[rows], pairs_of(data), data)


def _refuse(data: Interactions, problem: str) -> NoReturn:
    fix = f"load {data.name} by name and without filters, or use loo-99"
    raise InputError(data.name, problem, expected="the rows that NCF split", fix=fix)


# ---- validation rows -----------------------------------------------------------------------------


def _timed(data: Interactions, test: BoolArray) -> BoolArray:
    """Marks the users whose rows, test rows aside, all have a time, bool [users]."""
    if data.time is None:
        return np.zeros(len(data.users), np.bool_)
    # Held-out test rows play no part in the choice, timed or not.
    untimed = data.user[~test & (data.time == NO_TIME)]
    return np.bincount(untimed, minlength=len(data.users)) == 0


def _validation(
    data: Interactions, test: BoolArray, timed: BoolArray, seed: int
) -> tuple[BoolArray, tuple[str, ...]]:
    """Marks one remaining row of each user who has two or more, bool [n]: the latest if `timed`,
    otherwise a drawn one. Returns notes on ties too.
    """
    # Numbers of rows, users and places below are those of `rest`.
    rest = data.select(~test)
    latest = timed[rest.user]
    chosen = np.zeros(len(rest), np.bool_)
    notes: tuple[str, ...] = ()
    # `newest_first` refuses data without times, even if no row of it is asked for.
    if latest.any():
        of_timed = rest.select(latest)
        place = newest_first(of_timed)
        chosen[latest] = place == 0
        none = np.zeros(len(of_timed), np.bool_)
        notes = tie_notes(of_timed, place, place == 0, none)
    others = rest.select(~latest)
    chosen[~latest] = shuffled(others, key(seed, "split", "ncf")) == 0
    # A user's only row stays in training.
    chosen &= rest.counts[rest.user] > 1
    validation = np.zeros(len(data), np.bool_)
    validation[~test] = chosen
    return validation, notes


# ---- notes ---------------------------------------------------------------------------------------


def _about(name: str, theirs: Published, places: Int64Array) -> tuple[str, ...]:
    """Returns notes on the origin of the test rows and their candidates, and on rows left out."""
    if theirs.candidates is None:
        origin = (
            f"NCF's negatives of {name} could not be found, so {SHIPPED} candidates are drawn as in"
            f" loo-{SHIPPED}"
        )
    else:
        origin = f"each against the {SHIPPED} negatives published with it"
    notes = [f"test rows: those that NCF (He et al. 2017) held out; {origin}"]
    left_out = int((places < 0).sum())
    if left_out:
        notes.append(f"test rows of NCF left out, as their users are not in the data: {left_out:,}")
    return tuple(notes)


def _chosen(timed: BoolArray, validation: BoolArray, data: Interactions) -> str:
    """Returns a note on the choice of the validation rows."""
    users = data.user[validation]
    latest = int(timed[users].sum())
    drawn = len(users) - latest
    parts = []
    if latest:
        parts.append(f"the latest remaining row of {latest:,} users")
    if drawn:
        parts.append(
            f"a remaining row drawn at random of {drawn:,} users whose times are not all known"
        )
    return f"validation rows: {'; '.join(parts)}"
