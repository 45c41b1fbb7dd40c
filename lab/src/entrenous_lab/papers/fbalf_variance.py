"""FBALF, section 4.2.1: how much of the variance in ratings is due to biases of users and items,
and how much factors explain beyond.

A share is 1 - (squared error) / (squared error of the training mean), on the test rows of a fold:
what it explains of ratings that it has not seen. The biases alone are those of one least-squares
fit with a little shrinking; the rest is what FBALF's full model adds.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from entrenous.core.types import Float64Array, Int32Array
from entrenous.data.interactions import Interactions

from .cell import CellPart
from .measures import each
from .result import Row
from .study import System
from .table import Trained, seed_row
from .values import worded

SHARE = "share of variance, test rows"
SHRINK, SWEEPS = (
    5.0,
    30,
)  # lambda of |b|^2, a few ratings' worth; rounds of b_u and b_i in turn, after which they stand
USERS, ITEMS, BIASES, FACTORS = (
    "user biases alone",
    "item biases alone",
    "both biases alone",
    "factors, beyond the biases",
)


def biases_alone(part: CellPart, users: bool = True, items: bool = True) -> float:
    """The share of the test rows' variance that biases explain, fitted to the training rows by
    least squares.
    """
    test = part.held.rows
    of_user, of_item = _fitted(part.rows, users, items)
    left = test.value - float(part.rows.value.mean()) - of_user[test.user] - of_item[test.item]
    return 1.0 - float(left @ left) / _spread(part)


def full_model(part: CellPart, rmse: float) -> float:
    """The share that a model with this error on the test rows explains."""
    return 1.0 - rmse**2 * len(part.held.rows) / _spread(part)


def variance_rows(trained: Trained, full: System) -> list[Row]:
    """A row for each share, with a value a fold. full: the system with biases and factors."""
    folds = [trained.study.part("test", fold) for fold in trained.study.seeds]
    asked = {USERS: (True, False), ITEMS: (False, True), BIASES: (True, True)}
    shares: dict[str, Sequence[float]] = {
        name: [biases_alone(part, *which) for part in folds] for name, which in asked.items()
    }
    if errors := each(trained.looks[full], "rmse"):
        whole = [full_model(part, error) for part, error in zip(folds, errors, strict=True)]
        shares[FACTORS] = [both - alone for both, alone in zip(whole, shares[BIASES], strict=True)]
    said = worded(
        "fbalf",
        "variance",
        name=trained.name,
        full=full,
        shrink=SHRINK,
        folds=len(folds),
        seed=trained.study.seed,
    )
    return [
        seed_row(trained.name, name, SHARE, values, None, said) for name, values in shares.items()
    ]


def _fitted(rows: Interactions, users: bool, items: bool) -> tuple[Float64Array, Float64Array]:
    """b_u and b_i with the least sum of squares, SHRINK |b|^2 counted: each in turn given the
    other, until they stand.
    """
    off = rows.value - float(rows.value.mean())
    of_user, of_item = np.zeros(len(rows.users)), np.zeros(len(rows.items))
    for _ in range(SWEEPS if users and items else 1):
        if users:
            of_user = _means(rows.user, off - of_item[rows.item], len(of_user))
        if items:
            of_item = _means(rows.item, off - of_user[rows.user], len(of_item))
    return of_user, of_item


def _means(which: Int32Array, values: Float64Array, n: int) -> Float64Array:
    """The mean of some values for each of n, drawn towards 0 as by SHRINK values of 0 more."""
    return np.bincount(which, values, n) / (np.bincount(which, minlength=n) + SHRINK)


def _spread(part: CellPart) -> float:
    """The squared error of the training mean on the test rows."""
    off = part.held.rows.value - float(part.rows.value.mean())
    return float(off @ off)
