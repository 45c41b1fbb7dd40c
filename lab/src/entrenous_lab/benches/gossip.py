"""Speed of gossip: what a received model costs."""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np

from entrenous.core.contract.protocols import Progress
from entrenous.data.load import load
from entrenous.data.split.protocol import splits
from entrenous.federation.gossip import Gossip
from entrenous.federation.shard import Threads
from entrenous.federation.swarm import Swarm
from entrenous.systems.pepper import PepperGMF

from .timing import interleaved, peak_rss_mb

PROTOCOL, FACTORS, VIEW = "pepper-85-15", 8, 3
MODEL_LIMIT, SWEEP_LIMIT = 60.0, 0.1  # microseconds a model; CPU seconds a sweep


def gossip(threads: int, progress: Progress) -> dict[str, Any]:
    """PEPPER over matrix factorisation (d = 8) between all 943 users of MovieLens-100K: CPU
    microseconds for each received model with all that belongs to it (events, headers, both
    evaluations, merge, a local epoch), against merging two models in NumPy; and a sweep, in which
    every node receives one.
    """
    one, three = started(1, 1), started(VIEW, 1)
    width = one[1].pool.values.shape[1]
    a, b, share = np.ones(width, np.float32), np.zeros(width, np.float32), np.float32(0.4)
    sweeps, rounds, merges = interleaved(
        2,
        lambda: advanced(one),
        lambda: advanced(three),
        lambda: [a + share * (b - a) for _ in range(943)],
    )
    sweep, a_round, merge = (
        statistics.median(cost.cpu for cost in each) for each in (sweeps, rounds, merges)
    )
    each = 1e6 * a_round / (943 * VIEW)
    return {
        "microseconds_per_model": each,
        "cpu_seconds_per_sweep": sweep,
        "ratio": each / (1e6 * merge / 943),
        "ratio_to_limit": each / MODEL_LIMIT,
        "sweep_ratio_to_limit": sweep / SWEEP_LIMIT,
        "peak_rss_mb": peak_rss_mb(),
        "against": (
            f"x + w (y - x) of two such models in NumPy: {1e6 * merge / 943:.1f} us; limits:"
            f" {MODEL_LIMIT:g} us a model, {SWEEP_LIMIT:g} CPU s a sweep"
        ),
    }


def started(view: int, threads: int) -> list[Any]:
    """The federation and its state, of all users after two rounds, when everything is compiled and
    all models differ.
    """
    part = splits(PROTOCOL, load("ml-100k"))[0]
    made = Gossip(
        PepperGMF.parse({"factors": FACTORS, "view": view}),
        part.train,
        weighting=part.validation,
        executor=Threads(threads),
    )
    return [made, made.advance(made.start(), 2)]


def advanced(state: list[Any]) -> Swarm:
    """Advance a gossip training by one round. state: the training and its present state."""
    made, swarm = state
    return made.advance(swarm, swarm.round + 1)


BENCHES = {"gossip": gossip}
