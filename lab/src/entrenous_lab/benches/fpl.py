"""FPL's speed: an epoch against implicit's BPR, a round on MovieLens-100K, one-device rounds, and a
million devices.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np

from entrenous.core.contract.protocols import Progress
from entrenous.core.errors import InputError
from entrenous.data.interactions import Interactions
from entrenous.data.load import load
from entrenous.data.sets.synthetic_fpl import SKEW
from entrenous.data.synthetic import synthetic
from entrenous.federation.rounds import Rounds, Training
from entrenous.federation.shard import Threads
from entrenous.systems.fpl import FPL

from .timing import cost, interleaved, peak_rss_mb

PEER_EPOCHS = (
    10  # in a call of fit, so that fit's own preparation is a small part of what is measured
)
# CPU s of sisinflab/FedBPR's pFPL+, measured on a machine of this kind (research, peers 2.1)
AUTHORS_ROUND = 2.5
AUTHORS_SOLO_EPOCH = 4.8  # and of its sFPL, an epoch


def fpl_epoch(threads: int, progress: Progress) -> dict[str, Any]:
    """One epoch of X+ triples (pFPL+, one round of T = X+ / |U|) at the size of FPL's Brazil,
    against implicit's BPR.

    Explicit per-device updates, int64 aggregation and strict IEEE arithmetic included; same matrix,
    factors and threads. The matrix is the set synthetic-fpl-brazil: popularity 1 / rank^0.65, which
    is about as skewed as Foursquare's (the top 1 % of items hold 17.5 % of the rows of its Italy,
    14.8 % of its New York). More skew would flatter both, since more rows would be found in the
    cache.
    """
    data = load("synthetic-fpl-brazil")
    rounds = Rounds(FPL(factors=20, triples=0, cohort=0), data, executor=Threads(threads))
    state = [rounds.start()]

    def ours() -> None:
        state[0] = rounds.one_round(state[0])

    theirs = _implicit_epochs(data, 20, rounds.executor.workers)
    progress(0, 1, "measuring")
    mine, peer = interleaved(5, ours, theirs)
    triples = len(data.users) * rounds.algorithm.triples  # type: ignore[attr-defined]
    peer_triples = len(data) * PEER_EPOCHS
    per_triple, peer_per_triple = (
        min(c.wall for c in mine) / triples,
        min(c.wall for c in peer) / peer_triples,
    )
    return {
        "ratio": per_triple / peer_per_triple,
        "ratio_median": statistics.median(
            a.wall / triples / (b.wall / peer_triples) for a, b in zip(mine, peer, strict=True)
        ),
        "nanoseconds_per_triple": per_triple * 1e9,
        "peer_nanoseconds_per_triple": peer_per_triple * 1e9,
        "cpu_seconds": min(c.cpu for c in mine),
        "threads": rounds.executor.workers,
        "triples": triples,
        "against": (
            f"implicit BayesianPersonalizedRanking.fit, {PEER_EPOCHS} iterations a call, same"
            " matrix, factors and threads; wall time per triple, best of 20, taken in turns of 4"
        ),
    }


def _implicit_epochs(data: Interactions, factors: int, threads: int) -> Callable[[], object]:
    """PEER_EPOCHS epochs of implicit's BPR on the same matrix."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        from implicit.bpr import BayesianPersonalizedRanking
    except ImportError:
        raise InputError(
            "bench fpl-epoch", "implicit is not installed", fix='pip install "entrenous[implicit]"'
        ) from None
    from scipy.sparse import csr_matrix

    matrix = csr_matrix(
        (np.ones(len(data), np.float32), data.item, data.ptr),
        shape=(len(data.users), len(data.items)),
    )
    model = BayesianPersonalizedRanking(
        factors=factors, iterations=PEER_EPOCHS, num_threads=threads, use_gpu=False, random_state=0
    )
    return lambda: model.fit(matrix, show_progress=False)


def fpl_round(threads: int, progress: Progress) -> dict[str, Any]:
    """pFPL+ on MovieLens-100K (943 devices, T = 85, F = 20): CPU seconds a round, against the
    authors' program.
    """
    rounds = Rounds(FPL(factors=20, triples=85), load("ml-100k"), executor=Threads(threads or 1))
    state = [rounds.start()]

    def ours() -> None:
        state[0] = rounds.one_round(state[0])

    (costs,) = interleaved(8, ours)
    seconds = statistics.median(c.cpu for c in costs)
    return {
        "cpu_seconds": seconds,
        "ratio": seconds / AUTHORS_ROUND,
        "against": f"authors' program: {AUTHORS_ROUND} CPU s a round (not run here)",
    }


def sfpl_epoch(threads: int, progress: Progress) -> dict[str, Any]:
    """sFPL on MovieLens-100K: CPU seconds of 80,000 one-device rounds, and whether they end with
    the bytes of the ordinary path.
    """
    rounds = Rounds(FPL(factors=20, cohort=1, triples=1), load("ml-100k"), executor=Threads(1))
    state = [rounds.start()]

    def ours() -> None:
        state[0] = rounds.advance(state[0], state[0].round + 80_000)

    (costs,) = interleaved(2, ours)
    seconds = statistics.median(c.cpu for c in costs)
    return {
        "cpu_seconds": seconds,
        "rounds": 80_000,
        "ratio": seconds / AUTHORS_SOLO_EPOCH,
        "same_bytes": _same_bytes(rounds),
        "against": f"authors' program: {AUTHORS_SOLO_EPOCH} CPU s an epoch (not run here)",
    }


def _same_bytes(rounds: Rounds, many: int = 500) -> bool:
    fast, slow = rounds.advance(rounds.start(), many), rounds.start()
    for _ in range(many):
        slow = rounds.one_round(slow)
    return (
        all(
            _bytes(a) == _bytes(b)
            for a, b in ((fast.server, slow.server), (fast.devices, slow.devices))
        )
        and fast.ledger == slow.ledger
    )


def _bytes(state: Any) -> list[bytes]:
    return [array.tobytes() for array in state]


def scale(threads: int, progress: Progress) -> dict[str, Any]:
    """A million devices, 100,000 items, 50 million triples an epoch, F = 32: seconds, peak memory,
    ns a triple against 10,000 devices.
    """
    small = _epoch(
        synthetic(users=10_000, items=100_000, interactions=500_000, skew=SKEW, seed=0), threads, 5
    )
    progress(0, 1, "generating 50 million interactions")
    generate = cost(lambda: None)
    big_data: list[Interactions] = []
    generate = cost(
        lambda: big_data.append(
            synthetic(users=1_000_000, items=100_000, interactions=50_000_000, skew=SKEW, seed=0)
        )
    )
    progress(0, 1, "one epoch of 50 million triples")
    big = _epoch(big_data[0], threads, 1)
    return {
        "seconds": big["wall"],
        "cpu_seconds": big["cpu"],
        "nanoseconds_per_triple": big["nanoseconds_per_triple"],
        "ratio": big["nanoseconds_per_triple"] / small["nanoseconds_per_triple"],
        "peak_rss_mb": peak_rss_mb(),
        "generate_seconds": generate.wall,
        "triples": big["triples"],
        "threads": big["threads"],
        "against": (
            f"the same with 10,000 devices: {small['nanoseconds_per_triple']:.0f} ns of CPU a"
            " triple"
        ),
    }


def _epoch(data: Interactions, threads: int, repeats: int) -> dict[str, float]:
    """The cheapest of `repeats` epochs of X+ triples in one round (T = X+ / |U|), after one round
    that compiles.
    """
    rounds = Rounds(
        FPL(factors=32, triples=len(data) // len(data.users)), data, executor=Threads(threads)
    )
    warm = Rounds(
        FPL(factors=32, triples=1),
        synthetic(users=50, items=100, interactions=500, skew=SKEW, seed=0),
        executor=Threads(1),
    )
    warm.one_round(warm.start())
    state: list[Training] = [rounds.start()]

    def one() -> None:
        state[0] = rounds.one_round(state[0])

    best = min((cost(one) for _ in range(repeats)), key=lambda c: c.wall)
    triples = len(data.users) * rounds.algorithm.triples  # type: ignore[attr-defined]
    return {
        "wall": best.wall,
        "cpu": best.cpu,
        "nanoseconds_per_triple": best.cpu / triples * 1e9,
        "triples": triples,
        "threads": rounds.executor.workers,
    }


BENCHES = {"fpl-epoch": fpl_epoch, "fpl-round": fpl_round, "sfpl-epoch": sfpl_epoch, "scale": scale}
