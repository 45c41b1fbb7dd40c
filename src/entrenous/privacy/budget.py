"""`PrivacyBudget`: how many noisy sums a training may release before it has spent its epsilon, over
interruptions too.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, final

from ..core.errors import EntrenousError
from .accountant import SampledGaussian, epsilon_of, most_rounds


class BudgetSpent(EntrenousError):
    """Raised when a further round would pass the budget of differential privacy."""


@final
class PrivacyBudget:
    """Counts the releases of one training.

    Every release is written to `journal`, if there is one, before it is made: a round that is
    repeated after an interruption has new noise, so it is a second release and counts again.

    mechanism, delta: as in the accountant. epsilon: the budget. asked: the most rounds that there
        will be.
    """

    def __init__(
        self,
        mechanism: SampledGaussian,
        epsilon: float,
        delta: float,
        asked: int,
        journal: Path | None = None,
    ) -> None:
        self.mechanism = mechanism
        self.asked = asked
        self.epsilon = epsilon
        self.delta = delta
        self.most = most_rounds(mechanism, epsilon, delta, asked)
        self.spent = 0
        self._journal = journal
        if journal is not None and journal.exists():
            self.spent = journal.stat().st_size  # a byte for each release

    @property
    def left(self) -> int:
        """The number of sums that may still be released."""
        return self.most - self.spent

    def spent_before(self, releases: int) -> None:
        """Takes the count of a checkpoint, if it is higher than the one so far."""
        self.spent = max(self.spent, releases)

    def spend(self) -> None:
        """Counts one release, before it is made. Raises BudgetSpent."""
        if self.left < 1:
            raise BudgetSpent(
                f"differential privacy: another round would pass epsilon {self.epsilon:g} at delta"
                f" {self.delta:g}"
            )
        self.spent += 1
        # On the disk before anything leaves, so that no interruption hides a release.
        if self._journal is not None:
            with open(self._journal, "ab") as file:
                file.write(b".")
                file.flush()
                os.fsync(file.fileno())

    def told(self) -> dict[str, Any]:
        """The spent part of the budget, for a manifest."""
        exchanged = epsilon_of(self.mechanism, self.spent, self.delta, exchanged=True)
        return {
            "epsilon": epsilon_of(self.mechanism, self.spent, self.delta),
            "epsilon_exchanged": exchanged,
            "budget": self.epsilon,
            "delta": self.delta,
            "noise_multiplier": self.mechanism.multiplier,
            "rate": self.mechanism.rate,
            "releases": self.spent,
            "stopped": self.left < 1 and self.spent < self.asked,
        }
