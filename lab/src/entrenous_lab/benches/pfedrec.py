"""Speed of PFedRec on devices."""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np
from entrenous_field.pfedrec import PFedRec

from entrenous.core.contract.protocols import Progress
from entrenous.core.keys import folds, key, normals
from entrenous.core.types import Float32Array
from entrenous.data.load import load
from entrenous.federation.rounds import Rounds
from entrenous.federation.shard import Threads

from .timing import interleaved

ROUNDS = 50
PUBLISHED = 265  # CPU s: the authors' program, so many rounds (reviews of issue 41, not run here)


def pfedrec_rounds(threads: int, progress: Progress) -> dict[str, Any]:
    """PFedRec with its paper's settings on MovieLens-100K: CPU seconds of 50 rounds of all 943
    devices, from the median round, against the arithmetic of the same samples in NumPy (BLAS), 256
    at a time with their rows at hand.
    """
    data = load("ml-100k")
    algorithm = PFedRec()
    rounds = Rounds(algorithm, data, executor=Threads(threads or 1))
    state = [rounds.start()]
    samples = (1 + algorithm.negatives) * len(data)
    row = normals(folds(key(0, "bench"), np.arange(algorithm.batch)), algorithm.factors, 1.0)
    label = (np.arange(algorithm.batch) % 5 == 0).astype(np.float32)

    def ours() -> None:
        state[0] = rounds.one_round(state[0])

    def batched() -> None:
        w = np.full(algorithm.factors, 0.1, np.float32)
        for _ in range(samples // algorithm.batch):
            _one_batch(row, w, label)

    costs, peer = interleaved(2, ours, batched)
    seconds, numpy = (statistics.median(c.cpu for c in each) for each in (costs, peer))
    return {
        "cpu_seconds": ROUNDS * seconds,
        "nanoseconds_per_sample": seconds / samples * 1e9,
        "samples": samples,
        "ratio": seconds / numpy,
        "against": (
            f"batches of {algorithm.batch} in NumPy, without draws, gathers and moves:"
            f" {ROUNDS * numpy:.1f} CPU s; published: {PUBLISHED} CPU s (the authors' program, not"
            " run here)"
        ),
    }


def _one_batch(row: Float32Array, w: Float32Array, label: Float32Array) -> Float32Array:
    """Returns the rows after a step of w, and one of theirs at the new w."""
    slope = (1 / (1 + np.exp(-(row @ w))) - label) / np.float32(len(row))
    w = w - np.float32(0.1) * (slope @ row)
    slope = (1 / (1 + np.exp(-(row @ w))) - label) / np.float32(len(row))
    return row - np.float32(0.1) * slope[:, None] * w


BENCHES = {"pfedrec-rounds": pfedrec_rounds}
