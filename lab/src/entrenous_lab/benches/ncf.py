"""Speed of neural collaborative filtering on devices."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import numpy as np

from entrenous.core.contract.protocols import Progress
from entrenous.core.keys import folds, key, normals
from entrenous.core.types import Float32Array
from entrenous.data.load import load
from entrenous.federation.rounds import Rounds
from entrenous.federation.shard import Threads
from entrenous.systems.fedavg import FedAvg

from .timing import interleaved

PUBLISHED = 5.3  # CPU s: PFedRec's authors' program, 943 devices, one local epoch (a smaller model)
FACTORS, LAYERS, BATCH = 8, (16, 8), 256


def ncf_round(threads: int, progress: Progress) -> dict[str, Any]:
    """NeuMF (8 factors, tower 32-16-8) by FedAvg on MovieLens-100K: CPU seconds of a round of all
    943 devices, one local epoch with 4 negatives, against the same number of samples through the
    same network as a batched NumPy (BLAS) program, which has no devices.
    """
    data = load("ml-100k")
    fedavg = FedAvg(
        factors=FACTORS,
        layers=LAYERS,
        negatives=4,
        local_epochs=1,
        batch=5,
        optimiser="sgd",
        learning_rate=0.05,
    )
    rounds = Rounds(fedavg, data, executor=Threads(threads or 1))
    state, samples = [rounds.start()], 5 * len(data)

    def ours() -> None:
        state[0] = rounds.one_round(state[0])

    costs, peer = interleaved(3, ours, _batched(samples))
    seconds, batched = (statistics.median(c.cpu for c in each) for each in (costs, peer))
    return {
        "cpu_seconds": seconds,
        "nanoseconds_per_sample": seconds / samples * 1e9,
        "samples": samples,
        "ratio": seconds / batched,
        "against": (
            f"batches of {BATCH} in NumPy, forward and backward alone:"
            f" {batched / samples * 1e9:.0f} ns a sample; published: {PUBLISHED} CPU s a round"
            " (PFedRec's program, not run here)"
        ),
    }


def _batched(samples: int) -> Callable[[], object]:
    """The forward and backward pass of NeuMF over `samples` samples, BATCH at a time; embeddings
    are at hand, nothing is gathered.
    """
    embedding = LAYERS[0]
    draw = normals(folds(key(0, "bench"), np.arange(4 * BATCH)), max(FACTORS, embedding), 0.1)
    p, q, p_mlp, q_mlp = (np.ascontiguousarray(draw[k * BATCH : (k + 1) * BATCH]) for k in range(4))
    w1 = normals(folds(key(0, "w1"), np.arange(2 * embedding)), LAYERS[0], 0.1)
    w2 = normals(folds(key(0, "w2"), np.arange(LAYERS[0])), LAYERS[1], 0.1)
    h = np.full(FACTORS + LAYERS[1], 0.1, np.float32)
    y = (np.arange(BATCH) % 5 == 0).astype(np.float32)

    def run() -> None:
        for _ in range(samples // BATCH):
            _one_batch(
                p[:, :FACTORS], q[:, :FACTORS], np.concatenate([p_mlp, q_mlp], axis=1), w1, w2, h, y
            )

    return run


def _one_batch(
    p: Float32Array,
    q: Float32Array,
    a0: Float32Array,
    w1: Float32Array,
    w2: Float32Array,
    h: Float32Array,
    y: Float32Array,
) -> list[Float32Array]:
    """The gradients of p, q, a_0, W_1, W_2 and h."""
    z1 = a0 @ w1
    a1 = np.maximum(z1, 0)
    z2 = a1 @ w2
    last = np.concatenate([p * q, np.maximum(z2, 0)], axis=1)
    error = (1 / (1 + np.exp(-(last @ h))) - y)[:, None]
    back = error * h
    gmf, d2 = back[:, : p.shape[1]], back[:, p.shape[1] :] * (z2 > 0)
    d1 = (d2 @ w2.T) * (z1 > 0)
    return [gmf * q, gmf * p, d1 @ w1.T, a0.T @ d1, a1.T @ d2, last.T @ error]


BENCHES = {"ncf-round": ncf_round}
