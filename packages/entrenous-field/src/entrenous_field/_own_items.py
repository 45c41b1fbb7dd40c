"""Common parts of systems whose devices have own item vectors and a private score function: PFedRec
and FedRAP.
"""

from __future__ import annotations

import numpy as np

from entrenous.core.contract.protocols import Catalogue
from entrenous.core.keys import fold_name, folds, uniforms
from entrenous.core.types import Float32Array


def first_score(key: np.uint64, factors: int) -> Float32Array:
    """Draws the first score function of all devices, the weights and then the bias, uniform in
    +-1 / sqrt(F): float32 [F + 1].
    """
    drawn = uniforms(folds(fold_name(key, "w"), np.arange(factors + 1)))
    return ((2 * drawn - 1) * factors**-0.5).astype(np.float32)


def sizes_of(catalogue: Catalogue, factors: int, negatives: int) -> dict[str, int]:
    """Returns the sizes of the declared arrays: numbers of a score function (first), and the items
    that a device touches with a history of the mean length and no item drawn twice (usual_rows).
    """
    history = catalogue.interactions / max(1, catalogue.users)
    touched = int(history * (1 + negatives))
    return {"first": factors + 1, "usual_rows": max(1, min(catalogue.items, touched))}
