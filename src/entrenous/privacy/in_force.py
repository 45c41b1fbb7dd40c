"""`ProtectionInForce`: a protection in one federation, and its consequences for devices, for the
choice of users, and for sums.
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

    protection: with `noise` as a number, where it has an epsilon. contract: of the algorithm.
    Raises InputError where the protection cannot be had: too few devices in a round, or arrays that
    are shown singly next to sums that carry noise.
    """

    def __init__(self, protection: Protection, contract: Contract) -> None:
        self.protection, self.contract = protection, contract
        self.users, self.items = contract.sizes["users"], contract.sizes["items"]
        _check(protection, contract)
        self.adaptive: AdaptiveClip | None = None
        self._of_bits: GaussianTable | None = None
        self._table: GaussianTable | None = None
        # A clip does not move before an epsilon has become a noise.
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
        """The devices of one sum: the cohort, or the mean of its groups."""
        return self.contract.cohort / self.protection.groups

    @cached_property
    def noisy(self) -> bool:
        """True where noise is on the sums that are released."""
        return self.protection.noisy

    @property
    def sorts(self) -> bool:
        """Checks whether rows leave in the order of their items."""
        return self.protection.rows != "as sent"

    @cached_property
    def wide(self) -> bool:
        """Checks whether a device's message has a row for every item."""
        padded = self.protection.rows == "all" or self._shared_noise
        return bool(self.contract.way("rows")) and padded

    @property
    def _shared_noise(self) -> bool:
        """Checks whether each device adds a share of the noise."""
        return self.protection.noise > 0 and self.protection.noise_by == "devices"

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
        """The devices that a sum has at least, if its noise is to be as large as was promised.

        Devices add shares that are large enough for the cohort, or the mean group of it, less those
        that may be lost. A sum of fewer has less noise, so no device may let it come out. 1 where
        devices add no noise.
        """
        if not self.share:
            return 1
        # 1e-9, since 100 (1 - 0.1) is a little above 90 in binary.
        return math.ceil(self.in_sum * (1 - self.protection.lost) - 1e-9)

    @property
    def first_clip(self) -> float:
        """The clip of the first round, where rounds move it; else 0."""
        return self.protection.clip if self.adaptive else 0.0

    def limits(self, moved: float = 0.0) -> tuple[Limit, ...]:
        """The limits that each device applies to its message, in order. moved: the clip of the
        round, where rounds move it.
        """
        own = self.protection
        limits: list[Limit] = []
        if own.noisy and self.contract.weighs:
            limits.append(even_weight(self.contract.usual_weight))
        if own.row_clip:
            limits.append(row_clip(own.row_clip))
        if own.clip:
            limits.append(counting_clip(moved or own.clip) if self.adaptive else clip(own.clip))
        if own.quantise:
            limits.append(quantise(own.quantise))
        # Noise is on every row, so it brings all of them.
        if self._shared_noise:
            limits.append(noise(own.noise, self.in_sum, self.items, own.noise_from, own.lost))
        elif own.rows == "all" and not own.noisy:
            limits.append(all_rows(self.items))
        elif own.rows == "padded":
            limits.append(padded_rows(self.items, self.contract.sizes["rows"]))
        return tuple(limits)

    def select(self, chosen: Int64Array, key: np.uint64) -> Int64Array:
        """The users who take part in a round: those whom the algorithm chose or, under Poisson
        sampling, each user by an independent draw; perhaps nobody.

        key: of the round's choice. Draws come from it, or from the operating system where noise
        does too.
        """
        if self.protection.sampling == "fixed":
            return chosen
        if self.protection.noise_from == "system":
            return np.flatnonzero(system_words(self.users) < np.float64(self.rate) * 2.0**64)
        keys = folds(fold_name(key, "poisson"), np.arange(self.users))
        return np.flatnonzero(uniforms(keys) < self.rate)

    def next_clip(self, total: Total, key: np.uint64, moved: float) -> float:
        """The clip of the next round, by the noisy count of the messages within the clip of this
        one, which weights carry; 0 where it stays. To be called before `on_sum`, which takes the
        weights away. key: of the round.
        """
        if self.adaptive is None or self._of_bits is None:
            return 0.0
        noise = self._drawn(self._of_bits, 1, fold_name(key, "noise", "bits"))
        return self.adaptive.moved(moved, float(real(total.weight + noise).sum()))

    def on_sum(self, total: Total, key: np.uint64, moved: float = 0.0) -> Total:
        """Returns the sum that is released under a noisy protection: with the server's noise on
        every number, if it is the server that adds it; and without counts that depend on histories
        or on who took part. key: of the round. moved: as in `limits`.
        """
        table = self._table
        if self.adaptive:
            table = gaussian_table(self.adaptive.of_numbers * moved / STEP)
        if table is not None:
            for kind, arrays in (("rows", total.rows), ("dense", total.dense)):
                for name, array in arrays.items():
                    own = fold_name(key, "noise", kind, name)
                    array += self._drawn(table, array.size, own).reshape(array.shape)
        # Counts become the expected ones: the true ones carry no noise.
        cohort = self.contract.cohort
        if self.contract.way("rows"):
            total.senders[...] = cohort
        total.weight[...] = cohort * fixed(np.array([self.contract.usual_weight]))
        return total._replace(devices=cohort)

    def _drawn(self, table: GaussianTable, count: int, key: np.uint64) -> Int64Array:
        """Noise for `count` numbers of a sum, in steps of the grid: of the operating system's
        generator, or of `key`.
        """
        words = SEEDED
        if self.protection.noise_from == "system":
            words = system_words(table.words * count)
        return integers(table, count, key, words)


def even_weight(usual: float) -> Limit:
    """A limit by which every device weighs the same: its weight, such as the number of its
    interactions, would otherwise be released in a sum.
    """

    def even(update: Update, keys: UInt64Array) -> Update:
        return update._replace(weight=np.full(update.devices, usual, np.float32))

    return even


def _check(protection: Protection, contract: Contract) -> None:
    cohort, people, groups = contract.cohort, protection.people, protection.groups
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
