"""NCF's test rows (He et al. 2017): `ncf-99` tests the rows that its authors held out, against the
99 negatives that they published.

Test: the published row of each user. MovieLens-1M has the published candidates; for Pinterest-20
they were not to be had, so 99 are drawn as `loo-99` does. A published candidate that is the
held-out item itself (156 in MovieLens-1M: they were drawn from "not in train") does not compete
with itself, so that such a row has 98. Validation, of which NCF published none: the latest
remaining row of a user whose remaining rows all have a time; of any other user a remaining row
drawn by (seed, user, item). Its 99 candidates are drawn as `loo-99` does. They choose settings and
rounds; the final model then trains on training and validation rows, as NCF and those after it do.
"""

from __future__ import annotations

from typing import NoReturn

import numpy as np

from ...core.errors import InputError
from ...core.keys import key
from ...core.types import Array, BoolArray, Int32Array, Int64Array
from ..dataset import published
from ..interactions import NO_TIME, Interactions, pairs_of
from ..published import Published
from .leave_one_out import draw_candidates
from .types import Split, assemble, newest_first, shuffled

# Published candidates of a test row.
SHIPPED = 99


def ncf(data: Interactions, k: int, *, seed: int) -> list[Split]:
    """Hold out the rows that NCF's authors published, with their candidates: the protocol `ncf-99`.

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
    at = _places(data, theirs)
    test = np.zeros(len(data), np.bool_)
    test[at[at >= 0]] = True
    timed = _timed(data, test)
    validation = _validation(data, test, timed, key(seed, "split", "ncf"))
    drawn = draw_candidates(data, data.user[validation], k, key(seed, "candidates", "validation"))
    if theirs.candidates is None:
        tested = draw_candidates(data, data.user[test], k, key(seed, "candidates", "test"))
    else:
        tested = _shipped(data, theirs, theirs.candidates, at)
    notes = (*_about(data.name, theirs, at, tested), _chosen(timed, validation, data))
    candidates = drawn, tested
    return [
        assemble("ncf-99", data, validation, test, refit=True, notes=notes, candidates=candidates)
    ]


PROTOCOLS = {"ncf-99": ncf}


# ---- test rows and their candidates --------------------------------------------------------------


def _places(data: Interactions, theirs: Published) -> Int64Array:
    """The position in `data` of each published row, int64 [m]; -1 if the data lack its user."""
    if len(data) != theirs.rows:
        _refuse(
            data, f"{len(data):,} rows are not the {theirs.rows:,} that NCF's test rows belong to"
        )
    user = data.users.indices(list(theirs.user))
    item = data.items.indices(list(theirs.item))
    pairs = pairs_of(data)
    sought = user.astype(np.int64) * len(data.items) + item
    at = np.minimum(np.searchsorted(pairs, sought), len(pairs) - 1)
    missing = np.flatnonzero((user >= 0) & ((item < 0) | (pairs[at] != sought)))
    if len(missing):
        who = f"user '{theirs.user[missing[0]]}', item '{theirs.item[missing[0]]}'"
        _refuse(data, f"a test row of NCF ({who} in {theirs.source}) is not among the rows")
    held = np.bincount(user[user >= 0], minlength=len(data.users))
    strange = np.flatnonzero((held != 1) & (data.counts > 0))
    if len(strange):
        _refuse(
            data,
            f"user '{data.users[int(strange[0])]}' has {held[strange[0]]} test rows in"
            f" {theirs.source} instead of one",
        )
    return np.where(user >= 0, at, -1)


def _shipped(
    data: Interactions, theirs: Published, candidates: Array, at: Int64Array
) -> Int32Array:
    """The published candidates of the test rows, in the order of `data`, int32 [tests, k]; -1 for
    the held-out item itself.
    """
    if candidates.shape[1] != SHIPPED:
        _refuse(
            data,
            f"{candidates.shape[1]} negatives a test row beside {theirs.source} are not the"
            f" {SHIPPED} of NCF",
        )
    # Rows of users who are not in the data come first in the order, and are left out.
    order = np.argsort(at, kind="stable")[np.count_nonzero(at < 0) :]
    rows = at[order]
    candidates = candidates[order]
    table = data.items.indices(candidates.ravel().tolist()).reshape(len(order), -1)
    itself = table == data.item[rows][:, None]
    unknown = table == -1
    user = data.user[rows].astype(np.int64)[:, None]
    consumed = np.isin(user * len(data.items) + table, pairs_of(data)) & ~itself & ~unknown
    wrong = np.argwhere(unknown | consumed)
    if len(wrong):
        r, c = wrong[0]
        who = f"candidate '{candidates[r, c]}' of user '{data.users[int(data.user[rows[r]])]}'"
        what = "no item of the data" if unknown[r, c] else "a row of theirs"
        _refuse(data, f"{who} is {what}")
    return np.where(itself, -1, table).astype(np.int32)


def _refuse(data: Interactions, problem: str) -> NoReturn:
    fix = f"load {data.name} by name and without filters, or use loo-99"
    raise InputError(data.name, problem, expected="the rows that NCF split", fix=fix)


# ---- validation rows -----------------------------------------------------------------------------


def _timed(data: Interactions, test: BoolArray) -> BoolArray:
    """True for users whose rows, test rows aside, all have a time, bool [users]."""
    if data.time is None:
        return np.zeros(len(data.users), np.bool_)
    untimed = data.user[~test & (data.time == NO_TIME)]
    return np.bincount(untimed, minlength=len(data.users)) == 0


def _validation(data: Interactions, test: BoolArray, timed: BoolArray, key: np.uint64) -> BoolArray:
    """One remaining row of each user with two or more, bool [n]: the latest if `timed`, otherwise a
    drawn one.
    """
    rest = data.select(~test)
    latest = timed[rest.user]
    first = np.zeros(len(rest), np.bool_)
    if latest.any():
        first[latest] = newest_first(rest.select(latest)) == 0
    first[~latest] = shuffled(rest.select(~latest), key) == 0
    out = np.zeros(len(data), np.bool_)
    out[~test] = first & (rest.counts[rest.user] > 1)
    return out


# ---- notes ---------------------------------------------------------------------------------------


def _about(name: str, theirs: Published, at: Int64Array, tested: Int32Array) -> tuple[str, ...]:
    """The origin of the test rows and their candidates, and the rows left out."""
    if theirs.candidates is None:
        origin = (
            f"NCF's negatives of {name} were not to be had, so {SHIPPED} candidates are drawn as in"
            f" loo-{SHIPPED}"
        )
    else:
        origin = f"each against the {SHIPPED} negatives published with it"
    notes = [f"test rows: those that NCF (He et al. 2017) held out; {origin}"]
    away = int((at < 0).sum())
    if away:
        notes.append(f"test rows of NCF left out, as their users are not in the data: {away:,}")
    itself = int((tested < 0).sum())
    if itself:
        notes.append(
            "test rows with the held-out item among NCF's negatives, where it does not compete"
            f" with itself: {itself:,}"
        )
    return tuple(notes)


def _chosen(timed: BoolArray, validation: BoolArray, data: Interactions) -> str:
    """A note on the choice of the validation rows."""
    latest = int(timed[data.user[validation]].sum())
    drawn = int(validation.sum()) - latest
    parts = []
    if latest:
        parts.append(f"the latest remaining row of {latest:,} users")
    if drawn:
        parts.append(
            f"a remaining row drawn at random of {drawn:,} users whose times are not all known"
        )
    return f"validation rows: {'; '.join(parts)}"
