"""Matrix factorisation with an item bias: x_ui = b_i + p_u . q_i (FPL eq. 1), scored for all
items.
"""

from __future__ import annotations

import numpy as np

from ..core.compiling import njit
from ..core.lanes.memory import sealed
from ..core.types import Float32Array

# Users whose scores NumPy adds up: to load compiled code takes longer, and often one user is all
# that is asked for.
FEW = 4
# Items scored together: their factors and scores stay in the first-level cache.
CHUNK = 2048


def scores(p: Float32Array, q: Float32Array, b: Float32Array) -> Float32Array:
    """Returns the scores x_ui (FPL eq. 1) of every item, float32 [m, items]. p: [m, F], q: [items,
    F], b: [items].

    A user's scores are the same bits in whatever block they are computed, on a server or on a
    device; BLAS would not promise that.
    """
    if len(p) <= FEW:
        rows = [_scores_of_one(own, q, b) for own in p]
        return np.array(rows, np.float32).reshape(len(p), len(b))
    return _scores(sealed(p), sealed(q.T), sealed(b))


def _scores_of_one(p: Float32Array, q: Float32Array, b: Float32Array) -> Float32Array:
    row = b.copy()
    for weight, column in zip(p, q.T, strict=True):
        row += weight * column
    return row


@njit(cache=True, nogil=True)
def _scores(p: Float32Array, qt: Float32Array, b: Float32Array) -> Float32Array:
    users = p.shape[0]
    items = len(b)
    factors = p.shape[1]
    out = np.empty((users, items), np.float32)
    for start in range(0, items, CHUNK):
        stop = min(start + CHUNK, items)
        for u in range(users):
            row = out[u, start:stop]
            # As a slice it would take seconds to compile, for the message that shapes differ.
            for i in range(stop - start):
                row[i] = b[start + i]
            for f in range(factors):
                weight = p[u, f]
                column = qt[f, start:stop]
                for i in range(stop - start):
                    row[i] += weight * column[i]
    return out
