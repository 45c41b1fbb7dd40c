"""NCF's own test rows (He et al. 2017): `ncf-99` tests what its authors held out, against the 99
negatives they published.

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
from ...core.types import BoolArray, Int32Array, Int64Array
from ..dataset import published
from ..interactions import NO_TIME, Interactions, pairs_of
from ..published import Published
from .leave_one_out import draw_candidates
from .types import Split, assemble, newest_first, shuffled

SHIPPED = 99  # candidates of a test row


def ncf(data: Interactions, k: int, *, seed: int) -> list[Split]:
    """Hold out the rows that NCF's authors published, with their candidates: the protocol `ncf-99`.

    Raises InputError for another number, for data of which NCF published no test rows, and for rows
    that are not those NCF had (a filter was applied, or they come from elsewhere).
    """
    if k != SHIPPED:
        problem = f"'ncf-{k}' asks for {k} candidates, but NCF published {SHIPPED}"
        raise InputError(
            "protocol", problem, expected=f"ncf-{SHIPPED}", fix=f"use ncf-{SHIPPED}, or loo-{k}"
        )
    found = published("ncf", data.name)
    at = _places(data, found)
    test = np.zeros(len(data), np.bool_)
    test[at[at >= 0]] = True
    timed = _timed(data, test)
    validation = _validation(data, test, timed, key(seed, "split", "ncf"))
    drawn = draw_candidates(data, data.user[validation], k, key(seed, "candidates", "validation"))
    if found.candidates is None:
        tested = draw_candidates(data, data.user[test], k, key(seed, "candidates", "test"))
    else:
        tested = _shipped(data, found, at)
    notes = (*_about(data.name, found, at, tested), _chosen(timed, validation, data))
    return [
        assemble(
            "ncf-99", data, validation, test, refit=True, notes=notes, candidates=(drawn, tested)
        )
    ]


PROTOCOLS = {"ncf-99": ncf}


# ---- test rows and their candidates --------------------------------------------------------------


def _places(data: Interactions, found: Published) -> Int64Array:
    """The row of `data` that each published row is, int64 [m]; -1 for those of users who are not in
    the data.
    """
    if len(data) != found.rows:
        _refuse(
            data, f"{len(data):,} rows are not the {found.rows:,} that NCF's test rows belong to"
        )
    user, item = data.users.indices(list(found.user)), data.items.indices(list(found.item))
    pair, pairs = user.astype(np.int64) * len(data.items) + item, pairs_of(data)
    at = np.minimum(np.searchsorted(pairs, pair), len(pairs) - 1)
    missing = np.flatnonzero((user >= 0) & ((item < 0) | (pairs[at] != pair)))
    if len(missing):
        who = f"user '{found.user[missing[0]]}', item '{found.item[missing[0]]}'"
        _refuse(data, f"a test row of NCF ({who} in {found.source}) is not among the rows")
    held = np.bincount(user[user >= 0], minlength=len(data.users))
    strange = np.flatnonzero((held != 1) & (data.counts > 0))
    if len(strange):
        _refuse(
            data,
            f"user '{data.users[int(strange[0])]}' has {held[strange[0]]} test rows in"
            f" {found.source} instead of one",
        )
    return np.where(user >= 0, at, -1)


def _shipped(data: Interactions, found: Published, at: Int64Array) -> Int32Array:
    """The published candidates of the test rows, in the order of `data`, int32 [tests, k]; -1 for
    the held-out item itself.
    """
    assert found.candidates is not None
    if found.candidates.shape[1] != SHIPPED:
        _refuse(
            data,
            f"{found.candidates.shape[1]} negatives a test row beside {found.source} are not the"
            f" {SHIPPED} of NCF",
        )
    order = np.argsort(at, kind="stable")[np.count_nonzero(at < 0) :]
    table = data.items.indices(found.candidates[order].ravel().tolist()).reshape(len(order), -1)
    rows = at[order]
    table = np.where(table == data.item[rows][:, None], -2, table)
    known = np.isin(
        data.user[rows].astype(np.int64)[:, None] * len(data.items) + table, pairs_of(data)
    ) & (table >= 0)
    if (table == -1).any() or known.any():
        r, c = (int(place[0]) for place in np.nonzero((table == -1) | known))
        who = (
            f"candidate '{found.candidates[order][r, c]}' of user"
            f" '{data.users[int(data.user[rows[r]])]}'"
        )
        _refuse(
            data, f"{who} is {'no item of the data' if table[r, c] == -1 else 'a row of theirs'}"
        )
    return np.maximum(table, -1).astype(np.int32)


def _refuse(data: Interactions, problem: str) -> NoReturn:
    fix = f"load {data.name} by name and without filters, or use loo-99"
    raise InputError(data.name, problem, expected="the rows that NCF split", fix=fix)


# ---- validation rows -----------------------------------------------------------------------------


def _timed(data: Interactions, test: BoolArray) -> BoolArray:
    """Whether a user's rows, test rows aside, all have a time, bool [users]."""
    if data.time is None:
        return np.zeros(len(data.users), np.bool_)
    return np.bincount(data.user[~test & (data.time == NO_TIME)], minlength=len(data.users)) == 0


def _validation(data: Interactions, test: BoolArray, timed: BoolArray, key: np.uint64) -> BoolArray:
    """One remaining row of each user who has two or more: the latest where `timed`, else a drawn
    one, bool [n].
    """
    rest, where = data.select(~test), np.flatnonzero(~test)
    latest = timed[rest.user]
    first = np.zeros(len(rest), np.bool_)
    if latest.any():
        first[latest] = newest_first(rest.select(latest)) == 0
    first[~latest] = shuffled(rest.select(~latest), key) == 0
    out = np.zeros(len(data), np.bool_)
    out[where] = first & (rest.counts[rest.user] > 1)
    return out


# ---- notes ---------------------------------------------------------------------------------------


def _about(name: str, found: Published, at: Int64Array, tested: Int32Array) -> tuple[str, ...]:
    """Where the test rows and their candidates come from, and what was left out."""
    if found.candidates is None:
        theirs = (
            f"NCF's negatives of {name} were not to be had, so {SHIPPED} candidates are drawn as in"
            f" loo-{SHIPPED}"
        )
    else:
        theirs = f"each against the {SHIPPED} negatives published with it"
    notes = [f"test rows: those that NCF (He et al. 2017) held out; {theirs}"]
    if away := int((at < 0).sum()):
        notes.append(f"test rows of NCF left out, as their users are not in the data: {away:,}")
    if itself := int((tested < 0).sum()):
        notes.append(
            "test rows with the held-out item among NCF's negatives, where it does not compete"
            f" with itself: {itself:,}"
        )
    return tuple(notes)


def _chosen(timed: BoolArray, validation: BoolArray, data: Interactions) -> str:
    """How the validation rows were chosen."""
    latest = int(timed[data.user[validation]].sum())
    drawn = int(validation.sum()) - latest
    said = [
        f"the latest remaining row of {latest:,} users" if latest else "",
        (
            f"a remaining row drawn at random of {drawn:,} users whose times are not all known"
            if drawn
            else ""
        ),
    ]
    return f"validation rows: {'; '.join(filter(None, said))}"
