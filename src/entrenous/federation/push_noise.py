"""Noise on the models that a node of gossip learning pushes first, so that these do not say what it
trained on.

A node's first push is the public base model and one step on its own rows: whoever receives it
subtracts the base and has all items that the step touched. To wait for a model of somebody else
before pushing only moves the question: where all wait nobody begins, and the first who does not
wait pushes the same. So the copies that leave carry noise (`push_noise` of the algorithm's
settings) on every number, touched or not; the node's own model stays as it is, and merges average
the noise away. The noise of a node and an age of its model is always the same: a model that has not
changed is not worth a second look.

It comes from SHAKE-256 of the node's key, of which what a peer sees gives nothing back: items that
a step did not touch show their noise plainly, and from draws of core/keys.py whoever sees some
finds the others.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Any

import numpy as np

from ..algorithms.gossip_learning import GossipLearning
from ..core.contract.update import STEP
from ..core.types import Float32Array, Int64Array, UInt64Array
from ..privacy.discrete_gaussian import GaussianTable, add_noise, gaussian_table

UNMERGED = 1  # updates that the model of a node has had before it merged any


def carries_noise(algorithm: Any, nodes: Any, who: Int64Array) -> Int64Array:
    """The places in `who` of the nodes whose push, the one that `on_timer` has just made, carries
    noise, int64 ascending: of those that have merged no model yet, and of the first `noisy_pushes`
    of all.
    """
    if not isinstance(algorithm, GossipLearning) or not algorithm.push_noise:
        return np.empty(0, np.int64)
    first = nodes.pushes[who] <= (algorithm.noisy_pushes or np.inf)
    return np.flatnonzero(first | (nodes.age[who] <= UNMERGED))


def add_push_noise(
    algorithm: Any, models: Float32Array, keys: UInt64Array, ages: Int64Array
) -> None:
    """Adds the noise of a push to copies of models, in place. models: float32 [m, width]; keys: of
    their nodes, uint64 [m]; ages: of the models, int64 [m]."""
    if not len(models):
        return
    table = _table(algorithm.push_noise)
    for model, key, age in zip(models, keys, ages, strict=True):
        said = (
            b"entrenous push noise"
            + int(key).to_bytes(8, "little")
            + int(age).to_bytes(8, "little")
        )
        words = np.frombuffer(hashlib.shake_256(said).digest(8 * table.words * len(model)), "<u8")
        add_noise(model, table, np.uint64(0), words)


@lru_cache(maxsize=4)
def _table(sigma: float) -> GaussianTable:
    return gaussian_table(sigma / STEP)
