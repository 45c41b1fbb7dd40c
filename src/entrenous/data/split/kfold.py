"""k-fold cross-validation over all rows (FBALF, section 5.1): every row is tested once.

`kfold-5` deals the rows, in a shuffle keyed by (seed, user, item), into 5 folds whose sizes differ
by at most one. Of each fold's training rows a k-th part, drawn by a key of that fold, is
validation; the final model trains on both.
"""

from __future__ import annotations

import numpy as np

from ...core.errors import InputError
from ...core.keys import fold_name, key
from ...core.types import BoolArray, Int64Array
from ..interactions import Interactions
from .types import Split, assemble, row_draws, without_test


def kfold(data: Interactions, k: int, *, seed: int) -> list[Split]:
    """Splits K times, the protocol `kfold-K`. Each row is a test row in one of the splits, which
    are named `kfold-K/1` to `kfold-K/K`. Raises InputError for K below 2 or beyond the number of
    rows.
    """
    if not 2 <= k <= len(data):
        raise InputError(
            "protocol",
            f"'kfold-{k}' cannot cut {len(data)} rows",
            expected=f"2 to {len(data)} folds",
            fix="use kfold-5",
        )
    root = key(seed, "split", "kfold", k)
    fold_of_row = _shuffled(data, root) % k
    splits = []
    for fold in range(k):
        name = f"kfold-{k}/{fold + 1}"
        # With one key for all, the folds would choose settings on nearly the same rows.
        validation_key = fold_name(root, "validation", fold)
        split = _fold(name, data, fold_of_row == fold, k, validation_key)
        splits.append(split)
    return splits


PROTOCOLS = {"kfold-5": kfold}


def _fold(name: str, data: Interactions, test: BoolArray, k: int, key: np.uint64) -> Split:
    """Returns the split with the rows marked `test`, and a k-th part of the others as
    validation.
    """
    place = _shuffled(data, key)
    # Test rows come last, so that the first ones are training rows.
    place[test] = len(data)
    order = np.argsort(place, kind="stable")
    training_rows = int((~test).sum())
    validation = np.zeros(len(data), np.bool_)
    validation[order[: training_rows // k]] = True
    notes = without_test(data, test)
    return assemble(name, data, validation, test, refit=True, notes=notes)


def _shuffled(data: Interactions, key: np.uint64) -> Int64Array:
    """Returns the place of each row in a keyed shuffle of all rows, int64 [n]."""
    draws = row_draws(data.ptr, data.item, key)
    order = np.argsort(draws, kind="stable")
    place = np.empty(len(data), np.int64)
    place[order] = np.arange(len(data))
    return place
