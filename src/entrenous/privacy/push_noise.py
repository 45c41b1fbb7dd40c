"""Noise on the first models that a node of gossip learning pushes, so that these do not reveal the
rows it trained on.

A node's first push is the public base model after one step on the node's rows: a receiver that
subtracts the base sees all items that the step touched. Waiting for the model of another node
before pushing only moves the problem: if all wait nobody begins, and the first that does not wait
pushes the same. Therefore copies that leave carry noise (`push_noise` of the algorithm's settings)
on every number, touched or not. The node's own model stays as it is, and merges average the noise
away. The noise is a function of the node and the age of its model: seeing an unchanged model twice
reveals nothing more.

The noise comes from SHAKE-256 of the node's key, which cannot be found from its output: items that
a step did not touch show their noise plainly, and draws of core/keys.py can be computed from other
draws.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Any

import numpy as np

from ..core.contract.update import STEP
from ..core.types import Float32Array, Int64Array, UInt64Array
from .discrete_gaussian import GaussianTable, add_noise, gaussian_table


def add_push_noise(
    algorithm: Any, models: Float32Array, keys: UInt64Array, ages: Int64Array
) -> None:
    """Adds the noise of a push to copies of models, in place.

    algorithm: one with the setting `push_noise`. models: float32 [m, width]; keys: uint64 [m], of
    their nodes; ages: int64 [m], of the models.
    """
    table = _table(algorithm.push_noise)
    for model, key, age in zip(models, keys, ages, strict=True):
        # Named by node and age: the same model carries the same noise to every peer.
        name = int(key).to_bytes(8, "little") + int(age).to_bytes(8, "little")
        stream = hashlib.shake_256(b"entrenous push noise" + name)
        nbytes = 8 * table.words * len(model)
        words = np.frombuffer(stream.digest(nbytes), "<u8")
        add_noise(model, table, np.uint64(0), words)


@lru_cache(maxsize=4)
def _table(sigma: float) -> GaussianTable:
    return gaussian_table(sigma / STEP)
