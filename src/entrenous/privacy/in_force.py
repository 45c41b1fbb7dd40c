"""`ProtectionInForce`: a protection with the sizes of one federation: the limits on devices'
messages, the choice of users, and the noise in sums.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import final

import numpy as np

from ..core.contract.declared import Contract
from ..core.contract.update import STEP, Total, Update, fixed, real
from ..core.errors import InputError
from ..core.keys import fold_name, folds, uniforms
from ..core.types import Int64Array, UInt64Array
from .adaptive_clip import AdaptiveClip, counting_clip
from .clip import clip, row_clip
from .discrete_gaussian import SEEDED, GaussianTable, gaussian_table, integers, system_words
from .limit import Limit
from .noise import noise, share_of
from .protection import PROTECT, Protection
from .quantise import quantise
from .rows import all_rows, padded_rows


@final
class ProtectionInForce:
    """A protection with the sizes of one federation.

    protection: its `epsilon`, if it has one, must already be a number in `noise` for the noise to
        be added. contract: of the algorithm in this federation.

    Raises InputError where the federation is too small for the protection, or where sums carry
    noise but the algorithm shows arrays of each device singly.
    """

    def __init__(self, protection: Protection, contract: Contract) -> None:
        self.protection = protection
        self.contract = contract
        self.users = contract.sizes["users"]
        self.items = contract.sizes["items"]
        _check(protection, contract)
        self._noisy = protection.noisy
        self._shared_noise = protection.noise > 0 and protection.noise_by == "devices"
        self.adaptive: AdaptiveClip | None = None
        self._of_bits: GaussianTable | None = None
        self._table: GaussianTable | None = None
        # An epsilon that has not become a noise yet has no multiplier to share with the clip.
        if protection.clip_quantile and protection.noise:
            multiplier = protection.noise / protection.clip
            self.adaptive = AdaptiveClip(protection.clip_quantile, multiplier, contract.cohort)
            self._of_bits = gaussian_table(self.adaptive.of_bits / STEP)
        elif protection.noise and protection.noise_by == "server":
            self._table = gaussian_table(protection.noise / STEP)

    @property
    def rate(self) -> float:
        """The probability with which a device takes part in a round, cohort / users."""
        return self.contract.cohort / self.users

    @property
    def in_sum(self) -> float:
        """The number of devices in one sum: the cohort, or the mean size of its groups."""
        return self.contract.cohort / self.protection.groups

    @cached_property
    def noisy(self) -> bool:
        """True where noise is on the sums that are released."""
        return self.protection.noisy

    @property
    def sorts(self) -> bool:
        """Checks whether the rows of a message are sorted by item."""
        return self.protection.rows != "as sent"

    @cached_property
    def wide(self) -> bool:
        """Checks whether a device's message has a row for every item."""
        padded = self.protection.rows == "all" or self._shared_noise
        return bool(self.contract.way("rows")) and padded

    @property
    def share(self) -> float:
        """The standard deviation of the noise that each device adds to every number that it sends;
        0 where devices add none.
        """
        if not self._shared_noise:
            return 0.0
        return share_of(self.protection.noise, self.in_sum, self.protection.lost)

    @property
    def fewest(self) -> int:
        """The fewest devices whose shares add up to the promised noise; 1 where devices add none.

        A share is large enough for the cohort, or for its mean group, less the devices that may be
        lost. A sum of fewer devices has less noise, so no device may let it come out.
        """
        if not self._shared_noise:
            return 1
        arriving = self.in_sum * (1 - self.protection.lost)
        # 1e-9, since 100 (1 - 0.1) is a little above 90 in binary.
        return math.ceil(arriving - 1e-9)

    @property
    def first_clip(self) -> float:
        """The clip of the first round if rounds move it, else 0."""
        return self.protection.clip if self.adaptive else 0.0

    def limits(self, moved: float = 0.0) -> tuple[Limit, ...]:
        """The limits that each device applies to its message, in order. moved: the clip of the
        round, where rounds move it.
        """
        limited = self.protection
        limits: list[Limit] = []
        if self._noisy and self.contract.weighs:
            limits.append(even_weight(self.contract.usual_weight))
        if limited.row_clip:
            limits.append(row_clip(limited.row_clip))
        if limited.clip:
            bound = moved or limited.clip
            limits.append(counting_clip(bound) if self.adaptive else clip(bound))
        if limited.quantise:
            limits.append(quantise(limited.quantise))
        # Noise must be on every row, so the limit that adds it sends a row for every item too.
        if self._shared_noise:
            source = limited.noise_from
            limits.append(noise(limited.noise, self.in_sum, self.items, source, limited.lost))
        elif limited.rows == "all" and not self._noisy:
            limits.append(all_rows(self.items))
        elif limited.rows == "padded":
            limits.append(padded_rows(self.items, self.contract.sizes["rows"]))
        return tuple(limits)

    def select(self, chosen: Int64Array, key: np.uint64) -> Int64Array:
        """The users who take part in a round: those whom the algorithm chose or, under Poisson
        sampling, each user by an independent draw, which may leave nobody.

        key: of the round's choice. The draws come from this key, or from the operating system if
        the noise does too.
        """
        if self.protection.sampling == "fixed":
            return chosen
        if self.protection.noise_from == "system":
            # A random word of 64 bits is below rate 2^64 with probability `rate`.
            return np.flatnonzero(system_words(self.users) < np.float64(self.rate) * 2.0**64)
        keys = folds(fold_name(key, "poisson"), np.arange(self.users))
        return np.flatnonzero(uniforms(keys) < self.rate)

    def next_clip(self, total: Total, key: np.uint64, moved: float) -> float:
        """The clip of the next round, moved by the noisy number of messages within this round's
        clip; 0 where rounds do not move it.

        Call this before `on_sum`: the number is in the weights of `total`, which `on_sum` replaces.
        key: of the round. moved: the clip of this round.
        """
        if self.adaptive is None or self._of_bits is None:
            return 0.0
        noise = self._drawn(self._of_bits, 1, fold_name(key, "noise", "bits"))
        bits = real(total.weight + noise)
        return self.adaptive.moved(moved, float(bits.sum()))

    def on_sum(self, total: Total, key: np.uint64, moved: float = 0.0) -> Total:
        """Returns the sum that is released under a noisy protection. It has the server's noise on
        every number, if the server adds the noise, and no counts that depend on histories or on who
        took part.

        key: of the round. moved: as in `limits`.
        """
        table = self._table
        if self.adaptive:
            # This noise is in units of the clip, which the round has moved.
            table = gaussian_table(self.adaptive.of_numbers * moved / STEP)
        if table is not None:
            for kind, arrays in (("rows", total.rows), ("dense", total.dense)):
                for name, array in arrays.items():
                    noise = self._drawn(table, array.size, fold_name(key, "noise", kind, name))
                    array += noise.reshape(array.shape)
        # The true counts carry no noise, so the expected ones take their place.
        cohort = self.contract.cohort
        if self.contract.way("rows"):
            total.senders[...] = cohort
        total.weight[...] = cohort * fixed(np.array([self.contract.usual_weight]))
        return total._replace(devices=cohort)

    def _drawn(self, table: GaussianTable, count: int, key: np.uint64) -> Int64Array:
        """Draws noise for `count` numbers of a sum, in steps of the fixed-point grid, from `key`
        or from the operating system's generator: int64 [count].
        """
        words = SEEDED
        if self.protection.noise_from == "system":
            words = system_words(table.words * count)
        return integers(table, count, key, words)


def even_weight(usual: float) -> Limit:
    """A limit that gives every message the same weight, since sums release weights, and a weight
    may be the number of the user's interactions.
    """

    def even(update: Update, keys: UInt64Array) -> Update:
        return update._replace(weight=np.full(update.devices, usual, np.float32))

    return even


def _check(protection: Protection, contract: Contract) -> None:
    cohort = contract.cohort
    people = protection.people
    groups = protection.groups
    if protection.secure_sum and cohort < people:
        raise InputError(
            f"{PROTECT} people",
            f"a round of {contract.name} has {cohort} devices here",
            expected=f"at least {people} in a sum",
            fix=f"--set cohort={people} where the algorithm has it, or {PROTECT} people={cohort}",
        )
    if groups > 1 and cohort < people * groups:
        most = cohort // people
        raise InputError(
            f"{PROTECT} groups",
            f"{groups} groups of the {cohort} devices of a round of {contract.name}",
            expected=f"at least {people} in each",
            fix=f"at most {most} groups" if most >= 3 else "leave it out",
        )
    alone = list(contract.way("shown"))
    if contract.groups > 1:
        alone.append("group")
    if protection.noisy and alone:
        raise InputError(
            "--profile",
            f"{contract.name} shows '{alone[0]}' of each device singly, which no sum hides",
            expected="arrays that are added up",
            fix="another algorithm, such as fcf, or settings without it",
        )
