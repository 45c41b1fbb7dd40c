"""`ials`: weighted matrix factorisation by alternating least squares, from the `implicit`
library.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, NamedTuple, final

import numpy as np
from pydantic import Field

from ...core.contract.protocols import Progress, silent
from ...core.contract.settings import Settings
from ...core.errors import InputError
from ...core.keys import fold_name, folds, normals
from ...core.types import Float32Array, Int64Array
from ...data.interactions import Interactions
from ...kernels.bpr_mf import scores
from ._shared import ItemVectors, need, one_blas_thread


class IalsModel(NamedTuple):
    """A trained iALS model: vectors of users and items."""

    P: Float32Array
    """float32 [users, factors]."""
    Q: ItemVectors
    """float32 [items, factors]."""


@final
class Ials(Settings):
    """iALS: implicit-feedback matrix factorisation by alternating least squares (Hu, Koren &
    Volinsky 2008), by `implicit`.

    Minimises sum c_ui (x_ui - p_u . q_i)^2 + reg (|P|^2 + |Q|^2) over all (u, i), with x_ui = 1 and
    c_ui = 1 + alpha where u consumed i, else x_ui = 0 and c_ui = 1: the central
    reference of FCF. Each half sweep is solved exactly. `implicit` takes the stored
    value as the confidence itself (its alpha multiplies it and adds no 1), so 1 + alpha is stored.
    Factors start at N(0, 0.1^2 / factors), drawn from the key. Training needs the extra
    `baselines`; recommending does not. Raises InputError without it, or if a system is singular.
    """

    factors: int = Field(24, ge=1, description="length of a user's and an item's vector")
    epochs: int = Field(15, ge=1, description="sweeps: all users, then all items")
    alpha: float = Field(
        1.0, ge=0, description="extra confidence in a consumed item: c = 1 + alpha"
    )
    reg: float = Field(10.0, gt=0, description="regularisation of all vectors (lambda)")

    def search_space(self) -> dict[str, str]:
        """Returns the ranges that a search of settings draws from by default."""
        return {
            "factors": "16..192:log",
            "alpha": "0.5..10:log",
            "reg": "1..100:log",
            "epochs": "5..30",
        }

    holds: ClassVar[type] = IalsModel

    def fit(self, data: Interactions, key: np.uint64, progress: Progress = silent) -> IalsModel:
        need("implicit", "ials")
        # Factors start from our key, not from the library's random state.
        solver = self._solver()
        solver.user_factors = self._start(fold_name(key, "P"), len(data.users))
        solver.item_factors = self._start(fold_name(key, "Q"), len(data.items))
        self._run(solver, self._confidence(data), progress)
        return IalsModel(solver.user_factors, solver.item_factors)

    def fold_in(self, model: IalsModel, data: Interactions) -> IalsModel:
        """Returns the model for users who were not in training: the vector of each solves its half
        of a sweep for their rows in `data`.
        """
        q = model.Q.astype(np.float64)
        p = np.zeros((len(data.users), self.factors), np.float32)
        with one_blas_thread():
            # Q^T Q + reg I, to which a user adds alpha for each consumed item.
            shared = q.T @ q + self.reg * np.eye(self.factors)
            for user in np.flatnonzero(data.counts).tolist():
                own = q[data.item[data.ptr[user] : data.ptr[user + 1]]]
                system = shared + self.alpha * (own.T @ own)
                p[user] = np.linalg.solve(system, (1.0 + self.alpha) * own.sum(axis=0))
        return IalsModel(p, model.Q)

    def score(self, model: IalsModel, data: Interactions, users: Int64Array) -> Float32Array:
        no_bias = np.zeros(len(model.Q), np.float32)
        return scores(model.P[users], model.Q, no_bias)

    def _solver(self) -> Any:
        from implicit.cpu.als import AlternatingLeastSquares

        # Its constructor warns about BLAS threads otherwise.
        with one_blas_thread():
            return AlternatingLeastSquares(
                factors=self.factors,
                regularization=self.reg,
                alpha=1.0,
                use_cg=False,
                iterations=self.epochs,
                num_threads=1,
            )

    def _run(self, solver: Any, confidence: Any, progress: Progress) -> None:
        from implicit.recommender_base import ModelFitError

        def swept(number: int, seconds: float, loss: float | None) -> None:
            progress(number + 1, self.epochs, "sweeps")

        try:
            with one_blas_thread():
                solver.fit(confidence, show_progress=False, callback=swept)
        except (ValueError, ModelFitError):
            raise InputError(
                "--set reg", f"a system is singular with reg {self.reg}", fix="choose a larger reg"
            ) from None

    def _start(self, key: np.uint64, size: int) -> Float32Array:
        """Returns the first vectors of `size` users or items, each drawn from its own key."""
        keys = folds(key, np.arange(size))
        return normals(keys, self.factors, 0.1 / math.sqrt(self.factors))

    def _confidence(self, train: Interactions) -> Any:
        """Returns c = 1 + alpha at every consumed item, as a sparse matrix [users, items]."""
        from scipy.sparse import csr_matrix

        # `implicit` reads a stored value as c_ui itself.
        stored = np.full(len(train), 1.0 + self.alpha, np.float32)
        shape = (len(train.users), len(train.items))
        return csr_matrix((stored, train.item, train.ptr), shape=shape)


ALGORITHMS = {"ials": Ials}
