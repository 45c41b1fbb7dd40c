"""Whole users held out, strong generalisation: nobody who is tested was in training.

`users-80-20` draws int(0.2 n) of the n users with two rows or more for test, and int(0.2 m) of the
m others for validation. A held-out user gives a part of their rows when they are tested
(`Held.given`), as a person does who comes to a model that is there already; the rest are the
held-out rows. `given=80|50|20` is the percentage given; it is rounded up, and one row at least is
tested. `by=random` draws the given rows (D. Liang, R. Krishnan, M. Hoffman, T. Jebara,
"Variational autoencoders for collaborative filtering", WWW 2018, section 4.1); `by=time` gives the
earliest. The final model trains on the users of training and of validation.

The parts have different users and share the items: a held-out user has no number in training.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from ...core.errors import InputError
from ...core.keys import folds, key
from ...core.types import BoolArray, Int64Array
from ..interactions import Interactions
from .types import Held, Split, cold_notes, named, newest_first, percents, share, shuffled

Given = Literal["80", "50", "20"]
By = Literal["random", "time"]


def by_users(
    data: Interactions, train: int, test: int, *, seed: int, given: Given = "80", by: By = "random"
) -> list[Split]:
    """Holds out whole users, the protocol `users-A-B`: B percent of the users for test, B percent
    of the rest for validation. Each gives a part of their rows, and the others are ranked.

    given: the percentage of their rows that held-out users give. by: the given rows are drawn
    (random), or are the earliest (time). Raises InputError unless A + B = 100, if no user would be
    left for a part, and for `by=time` without times.
    """
    name = percents("users", train, test)
    few = (data.counts > 0) & (data.counts < 2)
    # Users in the order of a shuffle, of whom the first are tested and the next ones validate.
    able = np.flatnonzero(data.counts >= 2)
    order = able[np.argsort(folds(key(seed, "split", "users"), able), kind="stable")]
    tested = int(share(np.array([len(order)]), test)[0])
    validating = int(share(np.array([len(order) - tested]), test)[0])
    held_out = order[: tested + validating]
    rest = np.setdiff1d(np.arange(len(data.users)), held_out)
    if not tested or not data.counts[rest].any():
        raise InputError(
            data.name,
            f"'{name}' leaves no users to {'train on' if tested else 'test'} out of {len(able)}"
            " with two rows or more",
            expected="more users",
            fix="use another protocol, such as random-80-20",
        )
    place = newest_first(data, "file", seed) if by == "time" else _drawn(data, seed)
    # The first places of a user are the held-out rows.
    kept = np.maximum(1, share(data.counts, 100 - int(given)))
    is_given = place >= np.repeat(kept, data.counts)
    validation = None
    if validating:
        validation = _held(data, np.sort(order[tested : tested + validating]), is_given)
    test_part = _held(data, np.sort(order[:tested]), is_given)
    split = Split(name, data.of_users(rest), validation, test_part, refit=True)
    notes = [_about(split, given, by)]
    if few.any():
        which = named(np.flatnonzero(few), data.users)
        notes.append(f"users with one row, who cannot be held out: {int(few.sum())} {which}")
    return [split._replace(notes=(*notes, *cold_notes(split, split.final_train)))]


PROTOCOLS = {"users-80-20": by_users}


def _drawn(data: Interactions, seed: int) -> Int64Array:
    return shuffled(data, key(seed, "split", "users", "given"))


def _held(data: Interactions, users: Int64Array, is_given: BoolArray) -> Held:
    """Returns the held-out rows of some users, and those that they give."""
    theirs = data.of_users(users)
    given = is_given[data.rows_of(users)]
    return Held(theirs.select(~given), given=theirs.select(given))


def _about(split: Split, given: Given, by: By) -> str:
    """Returns a note on the users of each part, and on the rows that held-out users give."""
    validating = 0 if split.validation is None else len(split.validation.rows.users)
    how = "drawn" if by == "random" else "the earliest"
    return (
        f"whole users held out: {len(split.train.users):,} train, {validating:,} validate,"
        f" {len(split.test.rows.users):,} are tested; each gives {given} % of their rows ({how})"
        " when they are tested, and the others are ranked"
    )
