"""`ProtectionInForce`: a protection in one federation, and what follows from it for devices, for
who takes part, and for sums.
"""

from __future__ import annotations

import math
import os
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
    are shown singly beside sums that carry noise."""

    def __init__(self, protection: Protection, contract: Contract) -> None:
        self.protection, self.contract = protection, contract
        self.users, self.items = contract.sizes["users"], contract.sizes["items"]
        _check(protection, contract)
        moves = (
            protection.clip_quantile and protection.noise
        )  # not before an epsilon has become a noise
        self.adaptive = (
            AdaptiveClip(
                protection.clip_quantile, protection.noise / protection.clip, contract.cohort
            )
            if moves
            else None
        )
        self._of_bits = gaussian_table(self.adaptive.of_bits / STEP) if self.adaptive else None
        by_server = protection.noise and protection.noise_by == "server" and not self.adaptive
        self._table = gaussian_table(protection.noise / STEP) if by_server else None

    @property
    def rate(self) -> float:
        """The probability with which a device takes part in a round, cohort / users."""
        return self.contract.cohort / self.users

    @property
    def in_sum(self) -> float:
        """The devices of one sum: the cohort, or the mean of its groups."""
        return self.contract.cohort / self.protection.groups

    @property
    def sorts(self) -> bool:
        """Whether rows leave in the order of their items."""
        return self.protection.rows != "as sent"

    @property
    def wide(self) -> bool:
        """Whether a device's message has a row for every item."""
        own = self.protection
        return bool(self.contract.way("rows")) and (
            own.rows == "all" or (own.noise > 0 and own.noise_by == "devices")
        )

    @property
    def share(self) -> float:
        """The standard deviation of the noise that each device adds to every number that it sends;
        0 where devices add none."""
        own = self.protection
        if not (own.noise and own.noise_by == "devices"):
            return 0.0
        return share_of(own.noise, self.in_sum, own.lost)

    @property
    def fewest(self) -> int:
        """The devices that a sum has at least, if its noise is to be as large as was promised.

        Devices add shares that are large enough for the cohort, or the mean group of it, less those
        that may be lost. A sum of fewer has less noise, so no device may let it come out. 1 where
        devices add no noise."""
        if not self.share:
            return 1
        # 1e-9: 100 (1 - 0.1) is a little above 90 in binary
        return math.ceil(self.in_sum * (1 - self.protection.lost) - 1e-9)

    @property
    def first_clip(self) -> float:
        """The clip of the first round, where rounds move it; else 0."""
        return self.protection.clip if self.adaptive else 0.0

    def limits(self, moved: float = 0.0) -> tuple[Limit, ...]:
        """What each device applies to its message, in order. moved: the clip of the round, where
        rounds move it.
        """
        own, found = self.protection, list[Limit]()
        if own.noisy and self.contract.weighs:
            found.append(even_weight(self.contract.usual_weight))
        found += [row_clip(own.row_clip)] if own.row_clip else []
        if own.clip:
            found.append(counting_clip(moved or own.clip) if self.adaptive else clip(own.clip))
        found += [quantise(own.quantise)] if own.quantise else []
        if own.noise and own.noise_by == "devices":
            found.append(noise(own.noise, self.in_sum, self.items, own.noise_from, own.lost))
        elif own.rows == "all" and not own.noisy:
            found.append(all_rows(self.items))
        elif own.rows == "padded":
            found.append(padded_rows(self.items, self.contract.sizes["rows"]))
        return tuple(found)

    def select(self, chosen: Int64Array, key: np.uint64) -> Int64Array:
        """Who takes part in a round: those the algorithm chose or, sampled as Poisson has it, each
        user by a draw of their own; perhaps nobody. key: of the round's choice, from which the
        draws come unless noise comes from the system, as then they do.
        """
        if self.protection.sampling == "fixed":
            return chosen
        if self.protection.noise_from == "system":
            return np.flatnonzero(
                np.frombuffer(os.urandom(8 * self.users), np.uint64)
                < np.float64(self.rate) * 2.0**64
            )
        return np.flatnonzero(
            uniforms(folds(fold_name(key, "poisson"), np.arange(self.users))) < self.rate
        )

    def next_clip(self, total: Total, key: np.uint64, moved: float) -> float:
        """The clip of the next round, by the noisy count of the messages within that of this one,
        which weights carry; 0 where it stays. Before `on_sum`, which takes the weights away. key:
        of the round.
        """
        if self.adaptive is None or self._of_bits is None:
            return 0.0
        noise = self._drawn(self._of_bits, 1, fold_name(key, "noise", "bits"))
        return self.adaptive.moved(moved, float(real(total.weight + noise).sum()))

    def on_sum(self, total: Total, key: np.uint64, moved: float = 0.0) -> Total:
        """The sum that is released: with the server's noise on every number, if it is the server
        that adds it; and without counts that depend on who has a history or took part. key: of the
        round. moved: as in `limits`.
        """
        if not self.protection.noisy:
            return total
        table = (
            gaussian_table(self.adaptive.of_numbers * moved / STEP)
            if self.adaptive
            else self._table
        )
        if table is not None:
            for kind, arrays in (("rows", total.rows), ("dense", total.dense)):
                for name, array in arrays.items():
                    array += self._drawn(
                        table, array.size, fold_name(key, "noise", kind, name)
                    ).reshape(array.shape)
        if self.contract.way("rows"):
            total.senders[...] = self.contract.cohort
        total.weight[...] = self.contract.cohort * fixed(np.array([self.contract.usual_weight]))
        return total._replace(devices=self.contract.cohort)

    def _drawn(self, table: GaussianTable, count: int, key: np.uint64) -> Int64Array:
        """Noise for `count` numbers of a sum, in steps of the grid: of the operating system's
        generator, or of `key`.
        """
        return integers(
            table,
            count,
            key,
            system_words(table.words * count) if self.protection.noise_from == "system" else SEEDED,
        )


def even_weight(usual: float) -> Limit:
    """A limit by which every device weighs the same: its weight, such as the number of its
    interactions, would be released in a sum.
    """

    def even(update: Update, keys: UInt64Array) -> Update:
        return update._replace(weight=np.full(update.devices, usual, np.float32))

    return even


def _check(protection: Protection, contract: Contract) -> None:
    if protection.secure_sum and contract.cohort < protection.people:
        problem = f"a round of {contract.name} has {contract.cohort} devices here"
        fix = (
            f"--set cohort={protection.people} where the algorithm has it, or {PROTECT}"
            f" people={contract.cohort}"
        )
        raise InputError(
            f"{PROTECT} people", problem, expected=f"at least {protection.people} in a sum", fix=fix
        )
    if protection.groups > 1 and contract.cohort < protection.people * protection.groups:
        problem = (
            f"{protection.groups} groups of the {contract.cohort} devices of a round of"
            f" {contract.name}"
        )
        most = contract.cohort // protection.people
        fix = f"at most {most} groups" if most >= 3 else "leave it out"
        raise InputError(
            f"{PROTECT} groups", problem, expected=f"at least {protection.people} in each", fix=fix
        )
    alone = [*contract.way("shown")] or (["group"] if contract.groups > 1 else [])
    if protection.noisy and alone:
        problem = f"{contract.name} shows '{alone[0]}' of each device singly, which no sum hides"
        fix = "another algorithm, such as fcf, or settings without it"
        raise InputError("--profile", problem, expected="arrays that are added up", fix=fix)
