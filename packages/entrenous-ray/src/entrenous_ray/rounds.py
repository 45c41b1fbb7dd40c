"""`ShardedRounds`: `Rounds` with devices in worker processes, here or on other machines."""

from __future__ import annotations

import time
import warnings
from typing import final

from entrenous.core.contract.protocols import FederatedAlgorithm
from entrenous.core.errors import EntrenousError, EntrenousWarning, InputError
from entrenous.data.interactions import Interactions
from entrenous.federation.rounds import Rounds, Training
from entrenous.privacy.budget import PrivacyBudget
from entrenous.privacy.protection import Protection

from .crew import TRIES, Crew, WorkerDied
from .shards import Shards

# Seconds, and more with every try: it takes a while until a lost machine is known to be lost.
PAUSE = 5.0


@final
class ShardedRounds:
    """The rounds of `Rounds` over the workers of a crew, with the same result to the bit.

    When a worker dies, another takes its users with the private state that they had at the start of
    `advance`, and the rounds since then are repeated, which ends with the same bytes.
    """

    def __init__(
        self,
        crew: Crew,
        algorithm: FederatedAlgorithm,
        data: Interactions,
        *,
        seed: int = 0,
        avoid: Interactions | None = None,
        protection: Protection | None = None,
        budget: PrivacyBudget | None = None,
    ) -> None:
        self.algorithm = algorithm.configured(data.catalogue)
        self.data = data
        self.avoid = avoid
        self.seed = seed
        self.catalogue = data.catalogue
        if protection is not None and protection.defence != "none":
            raise InputError(
                "--workers",
                f"the protection has defence={protection.defence}, and workers answer with sums",
                expected="devices that are here",
                fix="leave --workers out, or defence=none",
            )
        self._crew = crew
        self._shards = Shards(crew, self.algorithm, data, avoid, protection)
        self._rounds = Rounds(
            algorithm,
            data,
            seed=seed,
            avoid=avoid,
            protection=protection,
            budget=budget,
            everybody=self._shards,
        )
        self.budget = budget
        crew.owner = self

    def start(self) -> Training:
        """The training before its first round."""
        return self._rounds.start()

    def advance(self, training: Training, until: int) -> Training:
        """Trains until round `until`, and then gathers the private state from the workers. Raises
        EntrenousError when workers die again and again.
        """
        # Another training had the workers: their state is not ours.
        if self._crew.owner is not self:
            self._shards.forget()
            self._crew.owner = self
        for tried in range(TRIES):
            try:
                if tried:
                    # The first repetition begins at once, later ones wait for the cluster.
                    time.sleep(PAUSE * (tried - 1))
                    self._crew.renew()
                return self._advanced(training, until)
            except WorkerDied as died:
                last = str(died)
                words = f"{died}; another takes its users, and goes on from round {training.round}"
                warnings.warn(words, EntrenousWarning, stacklevel=2)
        raise EntrenousError(
            f"{last}, {TRIES} times in a row; a stored run goes on with `entrenous run --resume"
            " RUN`"
        )

    def _advanced(self, training: Training, until: int) -> Training:
        try:
            # The given training stays as it was, so that it can be repeated from there.
            advanced = self._rounds.advance(training, until)
            self._shards.gather(advanced.devices)
        # Workers are ahead of `training`.
        except BaseException:
            self._shards.forget()
            raise
        return advanced
