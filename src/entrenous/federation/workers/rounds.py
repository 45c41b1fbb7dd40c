"""`ShardedRounds`: `Rounds` whose devices are in worker processes, here or on other machines."""

from __future__ import annotations

import time
import warnings
from typing import Any, final

from ...core.contract.declared import bound, is_federated
from ...core.contract.protocols import Catalogue, FederatedAlgorithm
from ...core.errors import EntrenousError, EntrenousWarning, InputError
from ...data.interactions import Interactions
from ...privacy.budget import PrivacyBudget
from ...privacy.protection import Protection
from ..rounds import Rounds, Training
from .crew import TRIES, Crew, WorkerDied
from .shards import Shards

# seconds, and more with every try: it takes a while until a lost machine is known to be lost
PAUSE = 5.0


@final
class ShardedRounds:
    """The rounds that `Rounds` runs, with the same result to the bit, over the workers of a crew.
    Used in its place.

    When a worker dies, another takes its users with the private state that they had at the start of
    `advance`, and the rounds since are repeated, which ends with the same bytes."""

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
        self.algorithm, self.data, self.seed, self.avoid = (
            algorithm.configured(data.catalogue),
            data,
            seed,
            avoid,
        )
        self.catalogue = data.catalogue
        if protection is not None and protection.defence != "none":
            problem = (
                f"the protection has defence={protection.defence}, and workers answer with sums"
            )
            raise InputError(
                "--workers",
                problem,
                expected="devices that are here",
                fix="leave --workers out, or defence=none",
            )
        self._crew, self._shards = crew, Shards(crew, self.algorithm, data, avoid, protection)
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
        """Train until round `until`; the private state is gathered from the workers when it
        returns. Raises EntrenousError when workers die again and again."""
        if self._crew.owner is not self:
            self._shards.forget()
            self._crew.owner = self
        for tried in range(TRIES):
            try:
                if tried:
                    time.sleep(PAUSE * (tried - 1))
                    self._crew.renew()
                return self._advanced(training, until)
            except WorkerDied as died:
                again, said = (
                    died,
                    f"{died}; another takes its users, and goes on from round {training.round}",
                )
                warnings.warn(said, EntrenousWarning, stacklevel=2)
        raise EntrenousError(
            f"{again}, {TRIES} times in a row; a stored run goes on with `entrenous run --resume"
            " RUN`"
        )

    def _advanced(self, training: Training, until: int) -> Training:
        try:
            now = self._rounds.advance(training, until)
            self._shards.gather(now.devices)
        except BaseException:
            self._shards.forget()  # workers are ahead of `training`
            raise
        return now


def refuse(algorithm: Any, catalogue: Catalogue, name: str, *, debug: bool = False) -> None:
    """Raise InputError for an algorithm that has no rounds to divide over workers."""
    if not is_federated(algorithm):
        problem, fix = (
            f"{name} has no rounds around a server",
            "leave it out; --threads is for every algorithm",
        )
        raise InputError("--workers", problem, expected="a server-coordinated algorithm", fix=fix)
    if bound(algorithm.configured(catalogue), catalogue).cohort == 1:
        raise InputError(
            "--workers",
            f"a round of {name} is one device here",
            expected="rounds of many devices",
            fix="leave it out",
        )
    if debug:
        raise InputError(
            "--debug", "one device at a time, in one process", fix="leave --workers and --ray out"
        )
