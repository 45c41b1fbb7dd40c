"""k-fold cross-validation over all rows (FBALF, section 5.1): every row is tested once.

`kfold-5` deals the rows, in a shuffle keyed by (seed, user, item), into 5 folds whose sizes differ
by at most one. Of each fold's training rows a k-th part, drawn by a key of its own, is validation;
the final model trains on both."""

from __future__ import annotations

import numpy as np

from ...core.errors import InputError
from ...core.keys import fold_name, key
from ...core.types import BoolArray, Int64Array
from ..interactions import Interactions
from .types import Split, assemble, row_draws, without_test


def kfold(data: Interactions, k: int, *, seed: int) -> list[Split]:
    """Cross-validates, the protocol `kfold-K`: K splits, named `kfold-K/1` to `kfold-K/K`."""
    if not 2 <= k <= len(data):
        raise InputError(
            "protocol",
            f"'kfold-{k}' cannot cut {len(data)} rows",
            expected=f"2 to {len(data)} folds",
            fix="use kfold-5",
        )
    root = key(seed, "split", "kfold", k)
    dealt = _order(data, root) % k
    return [_fold(data, k, f, dealt == f, fold_name(root, "validation", f)) for f in range(k)]


PROTOCOLS = {"kfold-5": kfold}


def _fold(data: Interactions, k: int, f: int, test: BoolArray, key: np.uint64) -> Split:
    place = _order(data, key)
    # Test rows come last, so that the first ones are training rows.
    place[test] = len(data)
    first = np.argsort(place, kind="stable")[: int((~test).sum()) // k]
    validation = np.zeros(len(data), np.bool_)
    validation[first] = True
    notes = without_test(data, test)
    return assemble(f"kfold-{k}/{f + 1}", data, validation, test, refit=True, notes=notes)


def _order(data: Interactions, key: np.uint64) -> Int64Array:
    """The place of each row in a keyed shuffle of all rows."""
    order = np.argsort(row_draws(data.ptr, data.item, key), kind="stable")
    place = np.empty(len(data), np.int64)
    place[order] = np.arange(len(data))
    return place
