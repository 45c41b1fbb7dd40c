"""FCF's speed: a round of all devices against a sweep of centralised alternating least squares."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import numpy as np

from entrenous.core.contract.protocols import Progress
from entrenous.core.errors import InputError
from entrenous.core.keys import folds, key, normals
from entrenous.data.interactions import Interactions
from entrenous.data.synthetic import synthetic
from entrenous.federation.rounds import Rounds
from entrenous.federation.shard import Threads
from entrenous.systems.central._shared import one_blas_thread
from entrenous.systems.fcf import FCF

from .timing import interleaved

FACTORS = 32


def fcf_round(threads: int, progress: Progress) -> dict[str, Any]:
    """A round of FCF by its Gram matrix at MovieLens-1M's size (6,040 devices x 3,706 items,
    1,000,000 rows, F = 32), against a sweep of `implicit`'s exact ALS (all users, then all items)
    over the same matrix; and a round as printed.
    """
    data = synthetic(users=6040, items=3706, interactions=1_000_000, skew=0.65, seed=0)
    rounds = [
        Rounds(FCF(factors=FACTORS, form=form), data, executor=Threads(threads or 1))
        for form in ("gram", "printed")
    ]
    ours, printed = (_round(one) for one in rounds)
    progress(0, 1, "measuring")
    mine, peer = interleaved(3, ours, _implicit_sweep(data, rounds[0].executor.workers))
    (published,) = interleaved(1, printed, each=2)
    seconds, sweep, before = (
        statistics.median(c.cpu for c in costs) for costs in (mine, peer, published)
    )
    return {
        "cpu_seconds": seconds,
        "ratio": statistics.median(a.cpu / b.cpu for a, b in zip(mine, peer, strict=True)),
        "peer_cpu_seconds": sweep,
        "printed_cpu_seconds": before,
        "threads": rounds[0].executor.workers,
        "against": (
            f"a sweep of implicit's exact ALS on the same matrix, factors and threads: {sweep:.3f}"
            f" CPU s; form=printed: {before:.2f} CPU s a round"
        ),
    }


def _round(rounds: Rounds) -> Callable[[], object]:
    state = [rounds.start()]

    def one() -> None:
        state[0] = rounds.one_round(state[0])

    return one


def _implicit_sweep(data: Interactions, threads: int) -> Callable[[], object]:
    """One sweep: both half sweeps of `implicit`, without what its `fit` prepares."""
    try:
        from implicit.cpu.als import AlternatingLeastSquares
    except ImportError:
        raise InputError(
            "bench fcf-round", "implicit is not installed", fix='pip install "entrenous[implicit]"'
        ) from None
    from scipy.sparse import csr_matrix

    matrix = csr_matrix(
        (np.full(len(data), 2, np.float32), data.item, data.ptr),
        shape=(len(data.users), len(data.items)),
    )
    across = matrix.T.tocsr()
    x, y = (
        normals(folds(key(0, "bench"), np.arange(size)), FACTORS, 0.01) for size in matrix.shape
    )
    with one_blas_thread():
        solver = AlternatingLeastSquares(factors=FACTORS, use_cg=False, num_threads=threads).solver

    def sweep() -> None:
        with one_blas_thread():
            solver(matrix, x, y, 10.0, num_threads=threads)
            solver(across, y, x, 10.0, num_threads=threads)

    return sweep


BENCHES = {"fcf-round": fcf_round}
