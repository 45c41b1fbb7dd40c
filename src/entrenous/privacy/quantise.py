"""Quantising: fewer bits a number, by rounding at random to one of the two nearest steps so that
the mean does not change.

D. Alistarh et al., "QSGD: communication-efficient SGD via gradient quantization and encoding",
NeurIPS 2017. It saves bytes and blunts attacks that solve for exact numbers; it is no bound on what
can be inferred.
"""

from __future__ import annotations

import numpy as np

from ..core.compiling import njit
from ..core.contract.update import Update
from ..core.keys import draw, fold_name, folded, uniform
from ..core.types import Float32Array, UInt64Array
from .limit import Limit


def quantise(step: float) -> Limit:
    """A limit that rounds every number of a message to a multiple of `step`, up or down at random
    so that its mean does not change.
    """

    def quantised(update: Update, keys: UInt64Array) -> Update:
        counts = np.diff(update.ptr)
        rows = {}
        for name, row in update.rows.items():
            # A key for each row, of its device and its item, wherever in the message it is.
            of_devices = np.repeat(named(keys, "quantise", name), counts)
            rows[name] = _stepped(row, folded(of_devices, update.item), step)
        dense = {
            name: _stepped(array, named(keys, "quantise", name), step)
            for name, array in update.dense.items()
        }
        return update._replace(rows=rows, dense=dense)

    return quantised


def named(keys: UInt64Array, *names: str) -> UInt64Array:
    """The key of some names under each of many keys, uint64 [len(keys)]."""
    word = fold_name(np.uint64(0), *names)
    own: UInt64Array = folded(keys, np.full(len(keys), word, np.uint64))
    return own


def _stepped(array: Float32Array, keys: UInt64Array, step: float) -> Float32Array:
    """Each leading entry rounded with draws of its key."""
    rounded = np.empty_like(array)
    _quantise(array.reshape(len(array), -1), keys, step, rounded.reshape(len(array), -1))
    return rounded


@njit(cache=True, nogil=True)
def _quantise(array: Float32Array, keys: UInt64Array, step: float, out: Float32Array) -> None:
    for r in range(array.shape[0]):
        for f in range(array.shape[1]):
            # The fraction of a step is the chance to be rounded up.
            chance = uniform(draw(keys[r], f))
            steps = np.floor(np.float64(array[r, f]) / step + chance)
            out[r, f] = np.float32(steps * step)
