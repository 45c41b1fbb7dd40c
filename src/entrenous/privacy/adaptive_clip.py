"""A clip that follows the lengths of messages: from round to round it moves towards the length that
leaves a set share of them whole.

G. Andrew, O. Thakkar, H. B. McMahan, S. Ramaswamy, "Differentially private learning with adaptive
clipping", NeurIPS 2021, algorithm 1. With each message goes one bit, whether it was within the clip
C. Their noisy share b moves the clip, C <- C exp(-eta (b - gamma)), with eta = 0.2 and gamma the
share that is wanted. The bits are released too, so they are part of the same Gaussian mechanism: of
a noise multiplier z in all, (z^-2 - (2 sigma_b)^-2)^(-1/2) is for the numbers, and noise of sigma_b
for the sum of the bits, each taken as +-1/2 (their theorem 1). Its epsilon is that of z.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..core.contract.update import Update
from ..core.types import UInt64Array
from .clip import clip, lengths
from .limit import Limit

PACE = 0.2  # eta
PART = 20  # sigma_b is a twentieth of the cohort, as in their section 3
# of a clip: below, the fixed-point grid would swallow messages
LEAST = 2.0**-8
MOST = 2.0**14


class AdaptiveClip(NamedTuple):
    """The rule by which a clip moves."""

    quantile: float
    """gamma, the share of messages to leave whole."""
    multiplier: float
    """z, of the whole release, in units of the clip."""
    cohort: int
    """Devices in a round, expected."""

    @property
    def of_bits(self) -> float:
        """The standard deviation of the noise in the sum of the bits, sigma_b: cohort / 20, or z
        where that is more, as a small cohort's bits would else take most of the release.
        """
        return max(self.cohort / PART, self.multiplier)

    @property
    def of_numbers(self) -> float:
        """The standard deviation of the noise in the sum of the messages, in units of the clip of
        the round.
        """
        return float((self.multiplier**-2 - (2 * self.of_bits) ** -2) ** -0.5)

    def moved(self, clip: float, bits: float) -> float:
        """The clip of the next round. bits: the noisy sum of this one's, each +-1/2."""
        share = min(1.0, max(0.0, 0.5 + bits / self.cohort))
        return min(MOST, max(LEAST, clip * math.exp(-PACE * (share - self.quantile))))


def counting_clip(bound: float) -> Limit:
    """A limit that shortens each message to the length `bound`, as `clip` does, and lets its weight
    say whether it was within: +1/2 or -1/2. A sum of noise has no other use for weights: they are
    released as a constant.
    """
    shorten = clip(bound)

    def counted(update: Update, keys: UInt64Array) -> Update:
        within = lengths(update) <= bound
        return shorten(update, keys)._replace(weight=np.where(within, 0.5, -0.5).astype(np.float32))

    return counted
