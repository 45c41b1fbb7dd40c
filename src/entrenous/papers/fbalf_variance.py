"""FBALF, section 4.2.1: how much of the variance in ratings is due to biases of users and items, and how much factors explain beyond.

A share is 1 - (squared error) / (squared error of the training mean), on the test rows of a fold: what it explains of ratings that it
has not seen. The biases alone are those of one least-squares fit with a little shrinking; the rest is what FBALF's full model adds.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_array, hstack
from scipy.sparse.linalg import lsqr

from ..data.interactions import Interactions
from .cell import CellPart
from .measures import each
from .result import Row
from .study import System
from .table import Trained, seed_row
from .values import worded

SHARE, SHRINK = "share of variance, test rows", 5.0  # SHRINK: lambda of |b|^2, a few ratings' worth
USERS, ITEMS, BIASES, FACTORS = "user biases alone", "item biases alone", "both biases alone", "factors, beyond the biases"


def biases_alone(part: CellPart, users: bool = True, items: bool = True) -> float:
    """The share of the test rows' variance that biases explain, fitted to the training rows by least squares."""
    train, test = part.rows, part.held.rows
    mean = float(train.value.mean())
    fitted = lsqr(_design(train, users, items), train.value - mean, damp=SHRINK**0.5)[0]
    left = test.value - mean - _design(test, users, items) @ fitted
    return 1.0 - float(left @ left) / _spread(part)


def full_model(part: CellPart, rmse: float) -> float:
    """The share that a model with this error on the test rows explains."""
    return 1.0 - rmse**2 * len(part.held.rows) / _spread(part)


def variance_rows(trained: Trained, full: System) -> list[Row]:
    """A row for each share, with a value a fold. full: the system with biases and factors."""
    folds = [trained.study.part("test", fold) for fold in trained.study.seeds]
    asked = {USERS: (True, False), ITEMS: (False, True), BIASES: (True, True)}
    shares: dict[str, Sequence[float]] = {name: [biases_alone(part, *which) for part in folds] for name, which in asked.items()}
    if errors := each(trained.looks[full], "rmse"):
        whole = [full_model(part, error) for part, error in zip(folds, errors, strict=True)]
        shares[FACTORS] = [both - alone for both, alone in zip(whole, shares[BIASES], strict=True)]
    said = worded("fbalf", "variance", name=trained.name, full=full, shrink=SHRINK)
    return [seed_row(trained.name, name, SHARE, values, None, said) for name, values in shares.items()]


def _design(rows: Interactions, users: bool, items: bool) -> csr_array:
    """A line for each row, with a 1 at its user and at its item."""
    at, ones = np.arange(len(rows)), np.ones(len(rows))
    by_user = csr_array((ones * users, (at, rows.user)), shape=(len(rows), len(rows.users)))
    by_item = csr_array((ones * items, (at, rows.item)), shape=(len(rows), len(rows.items)))
    return csr_array(hstack([by_user, by_item], format="csr"))


def _spread(part: CellPart) -> float:
    """The squared error of the training mean on the test rows."""
    off = part.held.rows.value - float(part.rows.value.mean())
    return float(off @ off)
