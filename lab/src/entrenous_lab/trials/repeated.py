"""A trial of `entrenous federation try` whose rounds are made again in one process: both must end
with the same bytes.

Nobody decides when a real device hears of an event. So the server is held while events happen, and
makes rounds only between two windows.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple, final

from entrenous_network.agreement.members import MEMBERS, Members
from entrenous_network.operate.device import Device
from entrenous_network.operate.plans import TrialPlan
from entrenous_network.operate.running import run_server, status
from entrenous_network.operate.trial import PACE, PATIENCE, Say, Trial
from entrenous_network.server.server import standing
from entrenous_network.server.server_folder import ServerFolder, summed

from entrenous.core.errors import EntrenousError
from entrenous.data.events import Event

from .again import Again, QuietRounds, made_again, server_sha256


class Lived(NamedTuple):
    """The end of a trial."""

    sha256: str
    """The hash of the server's model."""
    lost: int
    """Rounds whose sums did not come out. Where devices keep vectors, those who answered in one
    have trained all the same, and the training in one process has another model."""
    again: Again
    """The same training in one process."""

    @property
    def same(self) -> bool:
        """True if both ended with the same bytes."""
        return self.sha256 == self.again.sha256


def carry_out(folder: Path, plan: TrialPlan, say: Say) -> Lived:
    """Carries a trial out, and makes its rounds again."""
    trial = Repeated(folder, plan, say)
    trial.live()
    with closing(ServerFolder(trial.server)) as held:
        now = standing(held, held.terms.make(place=held.algorithm))
    again = made_again(trial.terms, trial.stages)
    return Lived(server_sha256(now.state), now.tally.lost, again)


@final
class Repeated(Trial):
    """A trial whose server is held between two rounds."""

    def __init__(self, folder: Path, plan: TrialPlan, say: Say) -> None:
        self.stages: list[QuietRounds] = []
        self._begin_round = threading.Semaphore(0)
        self._over = threading.Semaphore(0)
        self._anew: set[str] = set()  # users who have forgotten everything since the last stage
        self._lost = 0
        super().__init__(folder, plan, say)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Lets the server go on to its end when the block ends."""
        with super().running():
            try:
                yield
            finally:
                self._stop.set()
                self._begin_round.release()

    def serve(self) -> None:
        """Runs the server, which begins, and goes on after each round, when it is asked to."""
        self._begin_round.acquire()
        quiet = lambda line: None  # noqa: E731
        run_server(self.server, self._stop, quiet, pace=PACE, progress=self._passed)

    def _passed(self, done: int, total: int, what: str) -> None:
        self._over.release()
        self._begin_round.acquire()

    def happen(self, event: Event, device: Device) -> None:
        """Notes who forgets everything."""
        super().happen(event, device)
        if event.kind == "leave" or (event.kind == "forget" and not event.item):
            self._anew.add(event.user)

    def rounds(self, count: int) -> None:
        """Has the server make so many rounds, and keeps what they were made of."""
        stage = self._stage()
        for _ in range(count):
            self._begin_round.release()
            while not self._over.acquire(timeout=PATIENCE if not self.failed else 0.1):
                raise EntrenousError(next(iter(self.failed), "no round was made"))
            stage.sums.append(self._newest_sum())
        self.stages.append(stage)

    def _numbers(self) -> dict[str, int]:
        """Returns the federation's numbers of the users, by the names of their devices."""
        members = Members.read(self.server / MEMBERS, self.terms.users)
        return {name: int(member.users[0]) for name, member in members.nodes.items()}

    def _stage(self) -> QuietRounds:
        """Returns how things stand before a round."""
        numbers = {user: self._numbers()[self.of(user).name] for user in self.devices}
        rows = {numbers[user]: device.export() for user, device in self.devices.items()}
        there = set()
        for user, number in numbers.items():
            place = self.users.index(user)
            if place in self.happened.members - self.happened.away:
                there.add(number)
        anew = frozenset(numbers[user] for user in self._anew)
        self._anew.clear()
        return QuietRounds(self.items, rows, frozenset(there), anew, [])

    def _newest_sum(self) -> frozenset[int] | None:
        """Returns the users in the sum of the round that is over; nobody if there was none, and
        None if it was lost.
        """
        numbers = self._numbers()
        now = status(self.server)
        names = summed(self.server, int(now["number"]) - 1)
        before = self._lost
        self._lost = int(now["lost"])
        return None if self._lost > before else frozenset(numbers[name] for name in names)
