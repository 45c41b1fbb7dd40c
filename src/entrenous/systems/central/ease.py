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
    0. Time grows with the cube of the number of items, memory with its square; nothing is drawn.
    Its last bits are those of NumPy's linear algebra.
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
        progress(0, 2, "X^T X")
        # X^T X + lambda I
        gram = np.zeros((items, items))
        _add_pairs(data.ptr, data.item, gram)
        gram[np.diag_indices(items)] += self.reg
        progress(1, 2, "inverse")
        with one_blas_thread():
            inverse = np.linalg.inv(gram)
        # Equation 8: without its weight 0 an item would predict itself.
        weights = inverse / -np.diag(inverse)
        np.fill_diagonal(weights, 0)
        progress(2, 2, "inverse")
        return EaseModel(weights.astype(np.float32))

    def fold_in(self, model: EaseModel, data: Interactions) -> EaseModel:
        """Returns the model for users who were not in training: the same."""
        return model

    def score(self, model: EaseModel, data: Interactions, users: Int64Array) -> Float32Array:
        """Returns the scores x_u B of every item, float32 [len(users), items]: sums of the rows of
        B of the items that each user consumed.
        """
        return _sums_of_rows(data.ptr, data.item, np.asarray(users, np.int64), model.B)


@njit(cache=True, nogil=True)
def _add_pairs(ptr: Int64Array, item: Int32Array, gram: Float64Array) -> None:
    """Adds X^T X: 1 for each user who consumed both items."""
    for u in range(len(ptr) - 1):
        for r in range(ptr[u], ptr[u + 1]):
            row = gram[item[r]]
            for s in range(ptr[u], ptr[u + 1]):
                row[item[s]] += 1


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
