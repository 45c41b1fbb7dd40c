"""Noise on messages, as shares: each of N devices adds a little, and the sum has the standard
deviation that was asked for.

Noise is on every number of a message, sent or not: a device that sends rows sends one for every
item of the catalogue, in the order of the items, and so neither which rows come, nor how many, nor
from how many devices, says anything. It is a whole number of steps of the fixed-point grid of 2^-16
(privacy/discrete_gaussian.py), drawn before anything is masked; no party knows the noise of
another, and none can subtract more than its own.
"""

from __future__ import annotations

import math
from typing import Literal

from ..core.contract.update import STEP, Update
from ..core.keys import named
from ..core.types import Float32Array, UInt64Array
from .discrete_gaussian import SEEDED, GaussianTable, add_noise, gaussian_table, system_words
from .limit import Limit
from .rows import all_rows

Source = Literal["seed", "system"]


def most_bits(power: float) -> float | None:
    """The bits that all answers of a person tell of them together, at most, whatever models come.
    power: answers (clip / noise)^2.

    A message within the clip, under Gaussian noise, tells at most (clip / noise)^2 / 2 nats (C. E.
    Shannon, 1949: the power of a signal over that of the noise, in however many numbers), given the
    answers before it. None for infinite power: without a clip or noise nothing is bounded.

    >>> most_bits(2 * math.log(2)), most_bits(math.inf)
    (1.0, None)
    """
    return power / (2 * math.log(2)) if power < math.inf else None


def noise(sigma: float, devices: float, items: int, source: Source, lost: float = 0.0) -> Limit:
    """A limit that adds a share of noise to every number of a message. The sum of `devices` such
    messages then has noise of standard deviation `sigma`.

    sigma: in the units of the message, greater than 0. devices: in a sum, on average where sums
        differ. items: of the catalogue; a device that sends rows sends one for each. source: "seed"
        = from the devices' keys, which a run repeats; "system" = from the operating system's
        generator. lost: the share of devices that may not arrive; the noise of the others is then
        still enough.
    """
    # Variances of independent shares add up, and so do whole steps of the grid.
    table = gaussian_table(share_of(sigma, devices, lost) / STEP)

    def noised(update: Update, keys: UInt64Array) -> Update:
        whole = all_rows(items)(update, keys)
        for name, array in (*whole.rows.items(), *whole.dense.items()):
            _add(array, table, named(keys, "noise", name), source)
        return whole

    return noised


def share_of(sigma: float, devices: float, lost: float = 0.0) -> float:
    """The standard deviation of one device's share: sigma / sqrt(N (1 - lost))."""
    return sigma / math.sqrt(devices * (1 - lost))


def _add(array: Float32Array, table: GaussianTable, keys: UInt64Array, source: Source) -> None:
    """Adds noise device by device, in place. array: [m times something, ...], C-contiguous, and
    nobody else's memory.
    """
    if not array.size:
        return
    for values, key in zip(array.reshape(len(keys), -1), keys, strict=True):
        # A server that knew the words could subtract the noise, so they stay here.
        words = SEEDED
        if source == "system":
            words = system_words(table.words * len(values))
        add_noise(values, table, key, words)
