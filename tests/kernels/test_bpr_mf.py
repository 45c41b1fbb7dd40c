"""Scores of matrix factorisation: the same bits for a few users, by NumPy, as for many,
compiled.
"""

import numpy as np

from entrenous.kernels.bpr_mf import FEW, scores


def test_few_users_have_the_bits_of_many() -> None:
    rng = np.random.default_rng(0)
    p, q, b = (
        rng.normal(size=shape).astype(np.float32) for shape in ((3 * FEW, 21), (5000, 21), 5000)
    )
    together = scores(p, q, b)
    alone = [scores(p[low : low + FEW], q, b) for low in range(0, len(p), FEW)]
    assert np.array_equal(np.concatenate(alone), together) and scores(p[:0], q, b).shape == (
        0,
        5000,
    )
