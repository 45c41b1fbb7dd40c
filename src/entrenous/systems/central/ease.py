"""`ease`: a linear model of items by items, in closed form.

H. Steck, "Embarrassingly shallow autoencoders for sparse data", WWW 2019 (EASE^R). Read `Ease.fit`
with section 3 of the paper."""

from __future__ import annotations

from typing import ClassVar, NamedTuple, final

import numpy as np
from pydantic import Field

from ...core.compiling import njit
from ...core.contract.protocols import Progress, silent
from ...core.contract.settings import Settings
from ...core.errors import InputError
from ...core.types import Float32Array, Float64Array, Int32Array, Int64Array
from ...data.interactions import Interactions
from ._shared import one_blas_thread

# The most items: matrices of float64 of 7 GB each.
MOST = 30_000


class EaseModel(NamedTuple):
    """A trained EASE model: the weights between items."""

    B: Float32Array
    """float32 [items, items], the weight of a consumed item in the score of another; 0 on the
    diagonal."""


@final
class Ease(Settings):
    """EASE: each item's column of X from the other columns by ridge regression, in closed form
    (Steck 2019).

    Minimises |X - X B|^2 + reg |B|^2 with diag(B) = 0, where x_ui = 1 if u consumed i, else
    0. Time grows with the cube of the number of items or of users, whichever is smaller; memory
    grows with the square of the number of items. Nothing is drawn. Its last bits are those of
    NumPy's linear algebra.
    """

    reg: float = Field(500.0, gt=0, description="lambda: regularisation of all weights")

    def search_space(self) -> dict[str, str]:
        """Returns the ranges that a search of settings draws from by default."""
        return {"reg": "50..5000:log"}

    holds: ClassVar[type] = EaseModel

    def fit(self, data: Interactions, key: np.uint64, progress: Progress = silent) -> EaseModel:
        """Returns B_ij = - P_ij / P_jj with P = (X^T X + lambda I)^-1, and B_jj = 0 (eq. 8). Raises
        InputError for more than MOST items.
        """
        items = len(data.items)
        if items > MOST:
            raise InputError(
                "ease",
                f"a matrix of {items:,} x {items:,} items",
                expected=f"at most {MOST:,} items",
                fix="ials",
            )
        progress(0, 2, "inverse")
        dual = len(data.users) < items
        weights = _from_users(data, self.reg) if dual else _from_items(data, self.reg)
        progress(2, 2, "inverse")
        return EaseModel(weights)

    def fold_in(self, model: EaseModel, data: Interactions) -> EaseModel:
        """Returns the model for users who were not in training: the same."""
        return model

    def score(self, model: EaseModel, data: Interactions, users: Int64Array) -> Float32Array:
        """Returns the scores x_u B of every item, float32 [len(users), items]: sums of the rows of
        B of the items that each user consumed.
        """
        return _sums_of_rows(data.ptr, data.item, np.asarray(users, np.int64), model.B)


def _from_items(data: Interactions, reg: float) -> Float32Array:
    """Returns B from the inverse of a matrix of items by items (eq. 8)."""
    # X^T X + lambda I
    gram = _pairs(data.ptr, data.item, len(data.items))
    inverse = _inverse(gram, reg)
    # Without its weight 0 an item would predict itself.
    weights = inverse / -np.diag(inverse)
    np.fill_diagonal(weights, 0)
    return weights.astype(np.float32)


def _from_users(data: Interactions, reg: float) -> Float32Array:
    """Returns B from the inverse of a matrix of users by users.

    Woodbury's identity: P = (I - X^T (X X^T + lambda I)^-1 X) / lambda. Its lambda cancels in B.
    """
    # The users of each item, ascending.
    order = np.argsort(data.item, kind="stable")
    user = data.user[order].astype(np.int32)
    ptr = np.append(0, np.cumsum(data.popularity)).astype(np.int64)
    # X X^T + lambda I
    gram = _pairs(ptr, user, len(data.users))
    inverse = _inverse(gram, reg)
    projected = _times_x(inverse, data.ptr, data.item, len(data.items))
    return _dual_weights(ptr, user, projected)


def _inverse(gram: Float64Array, reg: float) -> Float64Array:
    """Returns (gram + reg I)^-1; `gram` is changed."""
    gram[np.diag_indices(len(gram))] += reg
    with one_blas_thread():
        return np.asarray(np.linalg.inv(gram), np.float64)


@njit(cache=True, nogil=True)
def _pairs(ptr: Int64Array, member: Int32Array, size: int) -> Float64Array:
    """Returns the number of groups that have both of each two members, float64 [size, size]. Group
    g has member[ptr[g]:ptr[g + 1]].
    """
    gram = np.zeros((size, size))
    for g in range(len(ptr) - 1):
        for r in range(ptr[g], ptr[g + 1]):
            row = gram[member[r]]
            for s in range(ptr[g], ptr[g + 1]):
                row[member[s]] += 1
    return gram


@njit(cache=True, nogil=True)
def _times_x(left: Float64Array, ptr: Int64Array, item: Int32Array, items: int) -> Float64Array:
    """Returns left X, float64 [users, items]."""
    out = np.zeros((len(left), items))
    for u in range(len(left)):
        total = out[u]
        for v in range(len(left)):
            for r in range(ptr[v], ptr[v + 1]):
                total[item[r]] += left[u, v]
    return out


@njit(cache=True, nogil=True)
def _dual_weights(ptr: Int64Array, user: Int32Array, projected: Float64Array) -> Float32Array:
    """Returns B_ij = - P_ij / P_jj with lambda P = I - X^T projected, and B_jj = 0 (eq. 8).

    Item i has the users user[ptr[i]:ptr[i + 1]].
    """
    items = projected.shape[1]
    # lambda P_jj
    diagonal = np.ones(items)
    for j in range(items):
        for r in range(ptr[j], ptr[j + 1]):
            diagonal[j] -= projected[user[r], j]
    weights = np.empty((items, items), np.float32)
    total = np.empty(items)
    for i in range(items):
        total[:] = 0
        for r in range(ptr[i], ptr[i + 1]):
            row = projected[user[r]]
            for j in range(items):
                total[j] += row[j]
        for j in range(items):
            weights[i, j] = total[j] / diagonal[j]
        weights[i, i] = 0
    return weights


@njit(cache=True, nogil=True)
def _sums_of_rows(
    ptr: Int64Array, item: Int32Array, users: Int64Array, weights: Float32Array
) -> Float32Array:
    """Returns the sum of the rows of `weights` of each user's items, float32 [len(users),
    items].
    """
    out = np.zeros((len(users), len(weights)), np.float32)
    for n in range(len(users)):
        total = out[n]
        u = users[n]
        for r in range(ptr[u], ptr[u + 1]):
            row = weights[item[r]]
            for i in range(len(row)):
                total[i] += row[i]
    return out


ALGORITHMS = {"ease": Ease}
